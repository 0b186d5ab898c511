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
// steps take turns over `sets` sets of tensors, 256 MiB or more together (at most 256 sets), so
// that none is found in L2. Counters: median, p10, p90 of a step in us, and GB/s of the median.
#include <benchmark/benchmark.h>
#include <cuda_bf16.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/global_norm.hpp>
#include <warpwright/kernel/multi_tensor.hpp>
#include <warpwright/kernel/tensor_norms.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "support/sample_launches.hpp"
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

// Adam's numbers, in device memory as a captured step wants them.
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
      : sizes_{sizes_of(n)}, n_{n}, moved_bytes_{moved_bytes} {
    for (std::size_t size : sizes_) {
      starts_.push_back(pitch_);
      pitch_ += (size + 63) / 64 * 64;
    }
    std::size_t const set_bytes = pitch_ * arrays * sizeof(float);
    sets_ = std::max<std::size_t>(1, (std::size_t{256} << 20U) / set_bytes);
    sets_ = std::min<std::size_t>(sets_, 256);
    std::size_t const bytes = set_bytes * sets_ + 256 + room_bytes + sizes_.size() * sizeof(double);
    ww::check(cudaMalloc(&memory_, bytes), "cudaMalloc");
    ww::check(cudaMemsetAsync(memory_, 0, bytes, stream.get()), "cudaMemsetAsync");
    for (std::size_t set = 0; set < sets_; ++set) {
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
      for (std::size_t which : {0U, 3U}) {
        ew::run(stream, ew::out(array(set, which, 0), pitch_) =
                            ew::map(scattered{which * 1000003}, ew::index()));
      }
    }
    numbers const start{0.01F, 1.0F, 1.0F, 0.0F, 0.0};
    ww::check(cudaMemcpyAsync(state(), &start, sizeof start, cudaMemcpyHostToDevice, stream.get()),
              "cudaMemcpyAsync");
    workspace_.push_back(ew::prepare_workspace(stream, room(), room_bytes));
    stream.synchronize();
  }
  ~rotating_tensors() { ww::detail::discard(cudaFree(memory_)); }
  rotating_tensors(rotating_tensors const&) = delete;
  rotating_tensors& operator=(rotating_tensors const&) = delete;

  /// Parameters, first moments, second moments, gradients: 0 to 3.
  float* array(std::size_t set, std::size_t which, std::size_t tensor) const {
    return static_cast<float*>(memory_) + (set * arrays + which) * pitch_ + starts_[tensor];
  }
  std::vector<std::size_t> const& sizes() const { return sizes_; }
  auto const& adam_list(std::size_t set) const { return adam_[set]; }
  auto const& gradients(std::size_t set) const { return gradients_[set]; }
  auto const& casts(std::size_t set) const { return casts_[set]; }
  numbers* state() const {
    return reinterpret_cast<numbers*>(static_cast<float*>(memory_) + pitch_ * arrays * sets_);
  }
  ew::reduction_workspace const& workspace() const { return workspace_[0]; }
  /// One for each tensor.
  double* norms() const { return reinterpret_cast<double*>(room() + room_bytes); }
  std::size_t n() const { return n_; }
  std::size_t pitch() const { return pitch_; }
  std::size_t sets() const { return sets_; }
  std::size_t bytes() const { return n_ * moved_bytes_; }

 private:
  static constexpr std::size_t room_bytes = std::size_t{1} << 18U;
  unsigned char* room() const { return reinterpret_cast<unsigned char*>(state()) + 256; }
  std::vector<std::size_t> sizes_;
  std::vector<std::size_t> starts_;
  std::size_t n_;
  std::size_t moved_bytes_;
  std::size_t pitch_ = 0;
  std::size_t sets_ = 0;
  void* memory_ = nullptr;
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
bool unchecked(rotating_tensors const&) { return true; }

template <class Launch, class Right>
void measure(benchmark::State& state, std::size_t moved_bytes, Launch launch, Right right) {
  ww::stream s;
  rotating_tensors t{s, static_cast<std::size_t>(state.range(0)), moved_bytes};
  launch(s, t, 0);
  s.synchronize();
  if (!right(t)) {
    state.SkipWithError("wrong results");
    return;
  }
  for (std::size_t k = 0; k < 5; ++k) launch(s, t, k % t.sets());
  s.synchronize();
  bench_support::sample_launches(state, s, t, static_cast<std::size_t>(state.range(1)), launch);
}

// ---- Our path ----

void warpwright_adam(benchmark::State& state) {
  measure(
      state, 28,
      [](ww::stream_ref s, rotating_tensors const& t, std::size_t set) {
        ew::run_each(s, t.adam_list(set), adam{t.state(), 0, 0});
      },
      first_step_is_right);
}
void warpwright_norm(benchmark::State& state) {
  measure(
      state, 4,
      [](ww::stream_ref s, rotating_tensors const& t, std::size_t set) {
        ew::global_norm(s, t.workspace(), t.gradients(set), &t.state()->norm);
      },
      norm_is_right);
}
void warpwright_norm_each(benchmark::State& state) {
  measure(
      state, 4,
      [](ww::stream_ref s, rotating_tensors const& t, std::size_t set) {
        ew::norm_each(s, t.workspace(), t.gradients(set), t.norms());
      },
      norms_are_right<false>);
}
void warpwright_max_norm_each(benchmark::State& state) {
  measure(
      state, 4,
      [](ww::stream_ref s, rotating_tensors const& t, std::size_t set) {
        ew::max_norm_each(s, t.workspace(), t.gradients(set), t.norms());
      },
      norms_are_right<true>);
}
void warpwright_unscale(benchmark::State& state) {
  measure(
      state, 8,
      [](ww::stream_ref s, rotating_tensors const& t, std::size_t set) {
        ew::unscale_each(s, t.gradients(set), &t.state()->loss_scale, &t.state()->found_inf);
      },
      unscaled_is_right);
}
void warpwright_cast(benchmark::State& state) {
  measure(
      state, 6,
      [](ww::stream_ref s, rotating_tensors const& t, std::size_t set) {
        ew::cast_each(s, t.casts(set));
      },
      cast_is_right);
}

// ---- Peers ----

// A set's arrays lie side by side: 8 bytes an element are copied to the other 8, and again until
// as many bytes are read and written together.
template <std::size_t Moved>
void copy_of_same_traffic(benchmark::State& state) {
  measure(
      state, Moved,
      [](ww::stream_ref s, rotating_tensors const& t, std::size_t set) {
        auto* const from = reinterpret_cast<unsigned char*>(t.array(set, 0, 0));
        std::size_t const room = t.pitch() * 8;
        for (std::size_t left = t.bytes() / 2; left != 0;) {
          std::size_t const moved = std::min(left, room);
          ww::check(cudaMemcpyAsync(from + room, from, moved, cudaMemcpyDeviceToDevice, s.get()),
                    "cudaMemcpyAsync");
          left -= moved;
        }
      },
      unchecked);
}
void reduce_of_one_array(benchmark::State& state) {
  measure(
      state, 4,
      [](ww::stream_ref s, rotating_tensors const& t, std::size_t set) {
        auto const g = ew::in<float>(t.array(set, 3, 0), t.n());
        ew::reduce(s, t.workspace(), t.n(), ew::to(&t.state()->norm) = ew::norm(g));
      },
      unchecked);
}
void one_reduce_a_tensor(benchmark::State& state) {
  measure(
      state, 4,
      [](ww::stream_ref s, rotating_tensors const& t, std::size_t set) {
        for (std::size_t k = 0; k < t.sizes().size(); ++k) {
          auto const g = ew::in<float>(t.array(set, 3, k), t.sizes()[k]);
          ew::reduce(s, t.workspace(), t.sizes()[k], ew::to(t.norms() + k) = ew::norm(g));
        }
      },
      norms_are_right<false>);
}

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

void one_launch_a_tensor_adam(benchmark::State& state) {
  measure(
      state, 28,
      [](ww::stream_ref s, rotating_tensors const& t, std::size_t set) {
        for (std::size_t k = 0; k < t.sizes().size(); ++k) {
          std::size_t const n = t.sizes()[k];
          auto const blocks = static_cast<unsigned>((n / 4 + n % 4 + 255) / 256);
          if (blocks == 0) continue;
          adam_kernel<<<blocks, 256, 0, s.get()>>>(t.array(set, 0, k), t.array(set, 1, k),
                                                   t.array(set, 2, k), t.array(set, 3, k), n,
                                                   adam{t.state(), 0, 0});
        }
        ww::check(cudaGetLastError(), "kernel launch");
      },
      first_step_is_right);
}

constexpr std::int64_t smallest = 1000000;
constexpr std::int64_t largest = 100000000;
constexpr int iterations = 60;
#else
// The host runtime: shows that the program works, never a speed.
constexpr std::int64_t smallest = 50000;
constexpr std::int64_t largest = 50000;
constexpr int iterations = 2;
#endif

void add(std::string const& name, void (*function)(benchmark::State&)) {
  for (std::int64_t n = smallest; n <= largest; n *= 10) {
    for (std::int64_t launches : {1, 20}) {
      benchmark::RegisterBenchmark(name.c_str(), function)
          ->Args({n, launches})
          ->Iterations(iterations)
          ->Repetitions(1)  // it reports the spread of its own samples
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

int const registered = [] {
  add("adam_f32/warpwright_ew", warpwright_adam);
#if defined(__CUDACC__)
  add("adam_f32/one_launch_a_tensor", one_launch_a_tensor_adam);
#endif
  add("adam_f32/copy_of_same_traffic", copy_of_same_traffic<28>);
  add("norm_f32/warpwright_ew", warpwright_norm);
  add("norm_f32/reduce_of_one_array", reduce_of_one_array);
  add("norm_each_f32/warpwright_ew", warpwright_norm_each);
  add("norm_each_f32/one_reduce_a_tensor", one_reduce_a_tensor);
  add("max_norm_each_f32/warpwright_ew", warpwright_max_norm_each);
  add("unscale_f32/warpwright_ew", warpwright_unscale);
  add("unscale_f32/copy_of_same_traffic", copy_of_same_traffic<8>);
  add("cast_f32_bf16/warpwright_ew", warpwright_cast);
  add("cast_f32_bf16/copy_of_same_traffic", copy_of_same_traffic<6>);
  return 0;
}();

}  // namespace
