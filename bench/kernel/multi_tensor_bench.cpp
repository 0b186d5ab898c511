// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One launch over 200 tensors of mixed sizes, beside one launch for each of them and a copy of the
// same traffic. bench/kernel/torch_adam.py times PyTorch's optimizers and norms on these sizes.
//
//   adam     fp32 parameters, gradients and two moments: 28 bytes a parameter; the numbers of the
//            step are read from device memory, and stay as they are
//   norm     the 2-norm of all gradients: 4 bytes; the peer reduces one array of as many elements
//   norm_each, max_norm_each  of each tensor's gradients: 4 bytes; the peer is a reduction for each
//   unscale  gradients in place, and whether all are finite: 8 bytes
//   cast     fp32 to bf16: 6 bytes
//
// A name ends in /n/launches: n elements in all tensors together; time is that of `launches` steps
// between two events, divided by their number (1: isolated, the launch's latency included). The
// steps go through `sets` sets of tensors, 256 MiB or more together (at most 256 sets), so that
// none is found in L2; the samples of one function and size are interleaved. Counters: median, p10,
// p90 of a step in us, and GB/s of the median.
#include <benchmark/benchmark.h>
#include <cuda_bf16.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/multi_tensor.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/kernel/tensor_norms.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "support/interleaved.hpp"
#include "support/rotating_buffers.hpp"
#include "support/values.hpp"

namespace ww = warpwright;
namespace ew = warpwright::ew;
using bench_support::fetch;
using bench_support::scattered;

namespace {

// As torch_adam.py has them: one of 30 %, 29 of 1.8 % or so, 60 of 0.3 %, 100 of 0.001 % and 10 of
// one element.
std::vector<std::size_t> sizes_of(std::size_t n) {
  std::vector<std::size_t> sizes{n * 3 / 10};
  for (std::size_t k = 0; k < 60; ++k) sizes.push_back(n * 3 / 1000 + k);
  for (std::size_t k = 0; k < 100; ++k) sizes.push_back(n / 100000 + k);
  for (std::size_t k = 0; k < 10; ++k) sizes.push_back(1);
  std::size_t rest = n;
  for (std::size_t size : sizes) rest -= size;
  for (std::size_t k = 29; k != 0; --k) {
    sizes.push_back(rest / k);
    rest -= sizes.back();
  }
  return sizes;
}

// Adam's numbers, in device memory as a captured step needs them.
struct numbers {
  float learning_rate;
  float step;
  float loss_scale;
  float found_inf;
  double norm;
};

struct adam {
  numbers const* state;
  float step_size;
  float correction;

  WARPWRIGHT_HOST_DEVICE bool prepare() {
    if (state->found_inf != 0.0F) return false;
    step_size = state->learning_rate / -::expm1f(state->step * ::log1pf(-0.1F));
    correction = ::sqrtf(-1.0F / ::expm1f(state->step * ::log1pf(-0.001F)));
    return true;
  }
  WARPWRIGHT_HOST_DEVICE void operator()(float& p, float& m, float& v, float g) const {
    m += 0.1F * (g - m);
    v += 0.001F * (g * g - v);
    p -= step_size * m / (::sqrtf(v) * correction + 1e-8F);
  }
};

// `sets` sets of tensors, each at a 256-byte boundary: parameters, moments, gradients.
class rotating_tensors {
 public:
  static constexpr std::size_t arrays = 4;

  rotating_tensors(ww::stream_ref stream, std::size_t n, std::size_t moved_bytes)
      : sizes_{sizes_of(n)},
        n_{n},
        moved_bytes_{moved_bytes},
        starts_{starts_of(sizes_)},
        pitch_{starts_.back()},
        memory_{pitch_ * arrays * sizeof(float), shared_bytes(), {1, 256}} {
    ww::check(cudaMemsetAsync(memory_.set(0), 0, memory_.bytes() + shared_bytes(), stream.get()),
              "cudaMemsetAsync");
    for (std::size_t set = 0; set < sets(); ++set) {
      adam_.emplace_back();
      gradients_.emplace_back();
      casts_.emplace_back();
      for (std::size_t k = 0; k < sizes_.size(); ++k) {
        auto* const copy = reinterpret_cast<__nv_bfloat16*>(array(set, 1, k));
        adam_.back().add(array(set, 0, k), array(set, 1, k), array(set, 2, k), array(set, 3, k),
                         sizes_[k]);
        gradients_.back().add(array(set, 3, k), sizes_[k]);
        casts_.back().add(copy, array(set, 3, k), sizes_[k]);
      }
      reset(stream, set);
    }
    numbers const start{0.01F, 1.0F, 1.0F, 0.0F, 0.0};
    ww::check(cudaMemcpyAsync(state(), &start, sizeof start, cudaMemcpyHostToDevice, stream.get()),
              "cudaMemcpyAsync");
    workspace_.push_back(ew::prepare_workspace(stream, room(), room_bytes));
    stream.synchronize();
  }

  /// Parameters and gradients of a set as at the start, moments 0.
  void reset(ww::stream_ref stream, std::size_t set) const {
    ww::check(cudaMemsetAsync(array(set, 1, 0), 0, 2 * pitch_ * sizeof(float), stream.get()),
              "cudaMemsetAsync");
    for (std::size_t which : {0U, 3U}) {
      ew::run(stream, ew::out(array(set, which, 0), pitch_) =
                          ew::map(scattered{which * 1000003}, ew::index()));
    }
  }
  void erase_results(ww::stream_ref stream) const {
    ww::check(cudaMemsetAsync(&state()->norm, 0xff, sizeof(double), stream.get()),
              "cudaMemsetAsync");
    ww::check(cudaMemsetAsync(norms(), 0xff, sizes_.size() * sizeof(double), stream.get()),
              "cudaMemsetAsync");
  }

  /// Parameters, first moments, second moments, gradients: 0 to 3.
  float* array(std::size_t set, std::size_t which, std::size_t tensor) const {
    return reinterpret_cast<float*>(memory_.set(set)) + which * pitch_ + starts_[tensor];
  }
  std::vector<std::size_t> const& sizes() const { return sizes_; }
  auto const& adam_list(std::size_t set) const { return adam_[set]; }
  auto const& gradients(std::size_t set) const { return gradients_[set]; }
  auto const& casts(std::size_t set) const { return casts_[set]; }
  numbers* state() const { return reinterpret_cast<numbers*>(memory_.shared()); }
  ew::reduction_workspace const& workspace() const { return workspace_[0]; }
  /// One for each tensor.
  double* norms() const { return reinterpret_cast<double*>(room() + room_bytes); }
  std::size_t n() const { return n_; }
  std::size_t pitch() const { return pitch_; }
  std::size_t sets() const { return memory_.sets(); }
  std::size_t bytes() const { return n_ * moved_bytes_; }

 private:
  static constexpr std::size_t room_bytes = std::size_t{1} << 18U;
  // Where each tensor starts in its array, and the array's end.
  static std::vector<std::size_t> starts_of(std::vector<std::size_t> const& sizes) {
    std::vector<std::size_t> starts{0};
    for (std::size_t size : sizes) starts.push_back(starts.back() + (size + 63) / 64 * 64);
    return starts;
  }
  unsigned char* room() const { return memory_.shared(256); }
  std::size_t shared_bytes() const { return 256 + room_bytes + sizes_.size() * sizeof(double); }
  std::vector<std::size_t> sizes_;
  std::size_t n_;
  std::size_t moved_bytes_;
  std::vector<std::size_t> starts_;
  std::size_t pitch_;
  bench_support::rotating_buffers memory_;
  std::deque<ew::tensor_list<float, float, float, float const>> adam_;
  std::deque<ew::tensor_list<float>> gradients_;
  std::deque<ew::tensor_list<ew::write_only<__nv_bfloat16>, float const>> casts_;
  std::vector<ew::reduction_workspace> workspace_;
};

// An element of an array as it was at the start.
double start_value(std::size_t which, std::uint64_t place) {
  return static_cast<double>(scattered{which * 1000003}(place));
}

// Whether right(element, place) holds at both ends of all tensors' arrays `which` of set 0.
template <class T, class Right>
bool ends_are(rotating_tensors const& t, std::size_t which, Right right) {
  for (std::size_t k = 0; k < t.sizes().size(); ++k) {
    std::size_t const size = t.sizes()[k];
    std::size_t const count = std::min<std::size_t>(size, 1000);
    auto const place = static_cast<std::uint64_t>(t.array(0, which, k) - t.array(0, which, 0));
    auto const* const data = reinterpret_cast<T const*>(t.array(0, which, k));
    for (std::size_t begin : {std::size_t{0}, size - count}) {
      std::vector<T> const got = fetch(data + begin, count);
      for (std::size_t i = 0; i < count; ++i) {
        if (!right(got[i], place + begin + i)) return false;
      }
    }
  }
  return true;
}

bool first_step_is_right(rotating_tensors const& t) {
  return ends_are<float>(t, 0, [](float p, std::uint64_t place) {
    double const g = start_value(3, place);
    double const expected = start_value(0, place) - 0.01 * g / (std::fabs(g) + 1e-8);
    return std::fabs(static_cast<double>(p) - expected) <= 2e-7;
  });
}
bool unscaled_is_right(rotating_tensors const& t) {  // by a scale of 1
  return fetch(t.state(), 1)[0].found_inf == 0 &&
         ends_are<float>(t, 3, [](float g, std::uint64_t place) {
           return static_cast<double>(g) == start_value(3, place);
         });
}
bool cast_is_right(rotating_tensors const& t) {
  return ends_are<__nv_bfloat16>(t, 1, [](__nv_bfloat16 copy, std::uint64_t place) {
    auto const expected = __float2bfloat16_rn(static_cast<float>(start_value(3, place)));
    return bench_support::to_float(copy) == bench_support::to_float(expected);
  });
}
bool norm_is_right(rotating_tensors const& t) {
  double squares = 0;
  for (std::size_t k = 0; k < t.sizes().size(); ++k) {
    for (float g : fetch(t.array(0, 3, k), t.sizes()[k])) {
      squares += static_cast<double>(g) * static_cast<double>(g);
    }
  }
  double const norm = std::sqrt(squares);
  return std::fabs(fetch(t.state(), 1)[0].norm - norm) <= 1e-6 * norm;
}
// Of each tensor the largest magnitude, or the root of its sum of squares.
template <bool Max>
bool norms_are_right(rotating_tensors const& t) {
  std::vector<double> const got = fetch(t.norms(), t.sizes().size());
  for (std::size_t k = 0; k < t.sizes().size(); ++k) {
    double squares = 0;
    double largest = 0;
    for (float g : fetch(t.array(0, 3, k), t.sizes()[k])) {
      double const x = static_cast<double>(g);
      squares += x * x;
      largest = std::max(largest, std::fabs(x));
    }
    double const norm = Max ? largest : std::sqrt(squares);
    if (!(std::fabs(got[k] - norm) <= (Max ? 0.0 : 1e-6 * norm))) return false;
  }
  return true;
}
// ---- Our path ----

struct warpwright_adam {
  void operator()(ww::stream_ref s, rotating_tensors const& t, std::size_t set) const {
    ew::run_each(s, t.adam_list(set), adam{t.state(), 0, 0});
  }
};
struct warpwright_norm {
  void operator()(ww::stream_ref s, rotating_tensors const& t, std::size_t set) const {
    ew::global_norm(s, t.workspace(), t.gradients(set), &t.state()->norm);
  }
};
struct warpwright_norm_each {
  void operator()(ww::stream_ref s, rotating_tensors const& t, std::size_t set) const {
    ew::norm_each(s, t.workspace(), t.gradients(set), t.norms());
  }
};
struct warpwright_max_norm_each {
  void operator()(ww::stream_ref s, rotating_tensors const& t, std::size_t set) const {
    ew::max_norm_each(s, t.workspace(), t.gradients(set), t.norms());
  }
};
struct warpwright_unscale {
  void operator()(ww::stream_ref s, rotating_tensors const& t, std::size_t set) const {
    ew::unscale_each(s, t.gradients(set), &t.state()->loss_scale, &t.state()->found_inf);
  }
};
struct warpwright_cast {
  void operator()(ww::stream_ref s, rotating_tensors const& t, std::size_t set) const {
    ew::cast_each(s, t.casts(set));
  }
};

// ---- Peers ----

// A set's arrays are neighbours: 8 bytes an element are copied over the other 8, and again until as
// many bytes are read and written together. Moments and gradients are the source, so that what the
// other paths read stays finite, and the second moments stay positive.
struct copy_of_same_traffic {
  void operator()(ww::stream_ref s, rotating_tensors const& t, std::size_t set) const {
    auto* const to = reinterpret_cast<unsigned char*>(t.array(set, 0, 0));
    std::size_t const room = t.pitch() * 8;
    for (std::size_t left = t.bytes() / 2; left != 0;) {
      std::size_t const moved = std::min(left, room);
      ww::check(cudaMemcpyAsync(to, to + room, moved, cudaMemcpyDeviceToDevice, s.get()),
                "cudaMemcpyAsync");
      left -= moved;
    }
  }
};
struct reduce_of_one_array {
  void operator()(ww::stream_ref s, rotating_tensors const& t, std::size_t set) const {
    auto const g = ew::in<float>(t.array(set, 3, 0), t.n());
    ew::reduce(s, t.workspace(), t.n(), ew::to(&t.state()->norm) = ew::norm(g));
  }
};
struct one_reduce_a_tensor {
  void operator()(ww::stream_ref s, rotating_tensors const& t, std::size_t set) const {
    for (std::size_t k = 0; k < t.sizes().size(); ++k) {
      auto const g = ew::in<float>(t.array(set, 3, k), t.sizes()[k]);
      ew::reduce(s, t.workspace(), t.sizes()[k], ew::to(t.norms() + k) = ew::norm(g));
    }
  }
};

#if defined(__CUDACC__)

__global__ void __launch_bounds__(256)
    adam_kernel(float* p, float* m, float* v, float const* g, std::size_t n, adam step) {
  if (!step.prepare()) return;
  std::size_t const i = blockIdx.x * std::size_t{256} + threadIdx.x;
  if (i < n / 4) {
    float4 a = reinterpret_cast<float4*>(p)[i];
    float4 b = reinterpret_cast<float4*>(m)[i];
    float4 c = reinterpret_cast<float4*>(v)[i];
    float4 const d = reinterpret_cast<float4 const*>(g)[i];
    step(a.x, b.x, c.x, d.x);
    step(a.y, b.y, c.y, d.y);
    step(a.z, b.z, c.z, d.z);
    step(a.w, b.w, c.w, d.w);
    reinterpret_cast<float4*>(p)[i] = a;
    reinterpret_cast<float4*>(m)[i] = b;
    reinterpret_cast<float4*>(v)[i] = c;
  } else if (i < n / 4 + n % 4) {
    std::size_t const j = n / 4 * 4 + (i - n / 4);
    step(p[j], m[j], v[j], g[j]);
  }
}

struct one_launch_a_tensor_adam {
  void operator()(ww::stream_ref s, rotating_tensors const& t, std::size_t set) const {
    for (std::size_t k = 0; k < t.sizes().size(); ++k) {
      std::size_t const n = t.sizes()[k];
      auto const blocks = static_cast<unsigned>((n / 4 + n % 4 + 255) / 256);
      if (blocks == 0) continue;
      adam_kernel<<<blocks, 256, 0, s.get()>>>(t.array(set, 0, k), t.array(set, 1, k),
                                               t.array(set, 2, k), t.array(set, 3, k), n,
                                               adam{t.state(), 0, 0});
    }
    ww::check(cudaGetLastError(), "kernel launch");
  }
};

constexpr std::int64_t smallest = 1000000;
constexpr std::int64_t largest = 100000000;
constexpr int samples = 60;
#else
// The host runtime: shows that the program works, never a speed.
constexpr std::int64_t smallest = 50000;
constexpr std::int64_t largest = 50000;
constexpr int samples = 2;
#endif

// The paths of one function, which moves `moved_bytes` an element.
class comparison {
 public:
  comparison(std::string name, std::size_t moved_bytes)
      : name_{std::move(name)},
        all_{std::make_shared<paths>(
            [moved_bytes](ww::stream_ref s, bench_support::shape const& of) {
              return std::make_unique<rotating_tensors>(s, static_cast<std::size_t>(of[0]),
                                                        moved_bytes);
            })} {}
  template <class Launch>
  comparison& add(char const* name, Launch launch, bool (*right)(rotating_tensors const&)) {
    all_->add(name, launch, [right](rotating_tensors const& t) {
      bool const passed = right(t);
      ww::stream const s;
      t.reset(s, 0);
      t.erase_results(s);
      s.synchronize();
      return passed;
    });
    return *this;
  }
  template <class Launch>
  comparison& add_unverified(char const* name, Launch launch) {
    all_->add(name, launch, [](rotating_tensors const&) { return true; });
    return *this;
  }
  void register_all() const {
    std::vector<bench_support::sampled_size> sizes;
    for (std::int64_t n = smallest; n <= largest; n *= 10) {
      for (std::int64_t launches : {1, 20}) sizes.push_back({{n}, launches, samples});
    }
    paths::register_all(all_, name_, sizes);
  }

 private:
  using paths = bench_support::interleaved<rotating_tensors>;
  std::string name_;
  std::shared_ptr<paths> all_;
};

int const registered = [] {
  comparison{"adam_f32", 28}
      .add("warpwright_ew", warpwright_adam{}, first_step_is_right)
#if defined(__CUDACC__)
      .add("one_launch_a_tensor", one_launch_a_tensor_adam{}, first_step_is_right)
#endif
      .add_unverified("copy_of_same_traffic", copy_of_same_traffic{})
      .register_all();
  comparison{"norm_f32", 4}
      .add("warpwright_ew", warpwright_norm{}, norm_is_right)
      .add_unverified("reduce_of_one_array", reduce_of_one_array{})
      .register_all();
  comparison{"norm_each_f32", 4}
      .add("warpwright_ew", warpwright_norm_each{}, norms_are_right<false>)
      .add("one_reduce_a_tensor", one_reduce_a_tensor{}, norms_are_right<false>)
      .register_all();
  comparison{"max_norm_each_f32", 4}
      .add("warpwright_ew", warpwright_max_norm_each{}, norms_are_right<true>)
      .register_all();
  comparison{"unscale_f32", 8}
      .add("warpwright_ew", warpwright_unscale{}, unscaled_is_right)
      .add_unverified("copy_of_same_traffic", copy_of_same_traffic{})
      .register_all();
  comparison{"cast_f32_bf16", 6}
      .add("warpwright_ew", warpwright_cast{}, cast_is_right)
      .add_unverified("copy_of_same_traffic", copy_of_same_traffic{})
      .register_all();
  return 0;
}();

}  // namespace
