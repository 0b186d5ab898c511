// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions beside cub::DeviceReduce of the toolkit (or, in the second program that
// -D WARPWRIGHT_BENCH_CCCL=... asks for, of the CCCL named there). Every path leaves its results on
// the device.
//
//   squares  sum of x * x                                1 array, 1 result; beside them a kernel
//            that only reads the array, by 4 and by 8 accesses of 16 bytes a thread
//   dot      sum of x * y                                2 arrays, 1 result
//   argmax   the largest value and its index             1 array, 1 result
//   health   sum of x * x, max |x|, how many not finite  1 array, 3 results: one pass of ours, of
//                                                        the peer three
//
// A name ends in /n/launches: time is that of `launches` reductions between two events, divided by
// their number (1: isolated, the launch's latency included; 20: back to back). The samples of one
// operation, type and size are interleaved. Reductions go through `sets` sets of arrays, 256 MiB
// or more together (at most 4,096 sets), so that none is found in L2. Counters: median, p10, p90 of
// a reduction in us, and GB/s of the median, every array counted once.
#include <benchmark/benchmark.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/interleaved.hpp"
#include "support/rotating_buffers.hpp"
#include "support/values.hpp"

#if defined(__CUDACC__) && __has_include(<cub/device/device_reduce.cuh>)
#include <thrust/iterator/counting_iterator.h>
#include <cub/device/device_reduce.cuh>

#include "support/cccl.hpp"
#define REDUCE_BENCH_HAS_CUB 1
#else
#define REDUCE_BENCH_HAS_CUB 0
#endif

namespace ww = warpwright;
namespace ew = warpwright::ew;
using bench_support::fetch;
using bench_support::scattered;
using bench_support::to_float;

namespace {

// Where every path leaves its results.
struct results {
  float sum;
  float peak;
  ew::located<float> most;
  std::uint64_t bad;
  // The peer's own kinds of results.
  std::int64_t index;
};

struct expected {
  double sum = 0;        // of squares or products
  double magnitude = 0;  // of the summands
  double peak = 0;       // largest |x|
  double most = -2;
  std::uint64_t most_at = 0;
};

// `sets` sets of arrays, a place for results and rooms for our temporaries and the peer's: ours
// stay prepared from launch to launch.
template <class T>
class rotating_arrays {
 public:
  rotating_arrays(ww::stream_ref stream, std::size_t n, std::size_t arrays)
      : n_{n},
        arrays_{arrays},
        pitch_{bench_support::padded(n * sizeof(T))},
        memory_{pitch_ * arrays_, 2 * room_bytes + 256, {}} {
    for (std::size_t k = 0; k < sets() * arrays_; ++k) {
      // The first set's arrays differ from the others', so that a stale result is found out.
      ew::run(stream, ew::out(writable(k / arrays_, k % arrays_), n) =
                          ew::map(scattered{k * 1000003}, ew::index()));
    }
    ww::check(cudaMemsetAsync(room(), 0, 2 * room_bytes + 256, stream.get()), "cudaMemsetAsync");
    workspace_.push_back(ew::prepare_workspace(stream, room(), room_bytes));
    stream.synchronize();
  }

  T const* array(std::size_t set, std::size_t which) const { return writable(set, which); }
  unsigned char* room() const { return memory_.shared(); }
  unsigned char* room_of_peer() const { return room() + room_bytes; }
  results* out() const { return reinterpret_cast<results*>(room() + 2 * room_bytes); }
  ew::reduction_workspace const& workspace() const { return workspace_[0]; }
  std::size_t n() const { return n_; }
  std::size_t sets() const { return memory_.sets(); }
  std::size_t arrays() const { return arrays_; }
  std::size_t bytes() const { return n_ * arrays_ * sizeof(T); }
  static constexpr std::size_t room_bytes = std::size_t{1} << 20U;
  mutable std::unique_ptr<expected> in_fp64;  ///< once it is known

 private:
  T* writable(std::size_t set, std::size_t which) const {
    return reinterpret_cast<T*>(memory_.set(set, which * pitch_));
  }
  std::size_t n_;
  std::size_t arrays_;
  std::size_t pitch_;
  bench_support::rotating_buffers memory_;
  std::vector<ew::reduction_workspace> workspace_;
};

// In fp64, from the arrays of set 0.
template <class T>
expected in_fp64(rotating_arrays<T> const& a) {
  expected e;
  std::size_t const part = std::size_t{1} << 24U;
  for (std::size_t begin = 0; begin < a.n(); begin += part) {
    std::size_t const count = std::min(part, a.n() - begin);
    std::vector<T> const x = fetch(a.array(0, 0) + begin, count);
    std::vector<T> const y = fetch(a.array(0, a.arrays() - 1) + begin, count);
    for (std::size_t i = 0; i < count; ++i) {
      double const v = static_cast<double>(to_float(x[i]));
      double const product = v * static_cast<double>(to_float(y[i]));
      e.sum += product;
      e.magnitude += std::fabs(product);
      e.peak = std::max(e.peak, std::fabs(v));
      if (v > e.most) e.most = v, e.most_at = begin + i;
    }
  }
  return e;
}

// Calls check(results of set 0, which was the last; what they should be), and wipes them out.
template <class T, class Check>
bool verified(rotating_arrays<T> const& a, Check check) {
  results const got = fetch(a.out(), 1)[0];
  if (a.in_fp64 == nullptr) a.in_fp64 = std::make_unique<expected>(in_fp64(a));
  ww::check(cudaMemset(a.out(), 0xff, sizeof(results)), "cudaMemset");
  return check(got, *a.in_fp64);
}

// The peer adds floats one after the other in places, so both are given its slack.
bool sum_is_right(results const& r, expected const& e) {
  return std::fabs(static_cast<double>(r.sum) - e.sum) <= 1e-5 * e.magnitude + 1e-12;
}
bool argmax_is_right(results const& r, expected const& e) {
  return static_cast<double>(r.most.value) == e.most && r.most.index == e.most_at;
}
bool health_is_right(results const& r, expected const& e) {
  return sum_is_right(r, e) && static_cast<double>(r.peak) == e.peak && r.bad == 0;
}

// ---- Our path ----

struct squares_of_ours {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    auto const x = ew::in(a.array(set, 0), a.n());
    ew::reduce(s, a.workspace(), a.n(), ew::to(&a.out()->sum) = ew::sum(x * x));
  }
};
struct squares_compensated {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    auto const x = ew::in(a.array(set, 0), a.n());
    ew::reduce(s, a.workspace(), a.n(), ew::to(&a.out()->sum) = ew::sum(x * x).compensated());
  }
};
struct squares_in_double {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    auto const x = ew::in(a.array(set, 0), a.n());
    ew::reduce(s, a.workspace(), a.n(),
               ew::to(&a.out()->sum) = ew::sum(x * x).template in<double>());
  }
};
struct dot_of_ours {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    ew::reduce(s, a.workspace(), a.n(),
               ew::to(&a.out()->sum) =
                   ew::sum(ew::in(a.array(set, 0), a.n()) * ew::in(a.array(set, 1), a.n())));
  }
};
struct argmax_of_ours {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    ew::reduce(s, a.workspace(), a.n(),
               ew::to(&a.out()->most) = ew::argmax(ew::in(a.array(set, 0), a.n())));
  }
};
struct health_of_ours {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    auto const x = ew::in(a.array(set, 0), a.n());
    ew::reduce(s, a.workspace(), a.n(), ew::to(&a.out()->sum) = ew::sum(x * x),
               ew::to(&a.out()->peak) = ew::max(ew::abs(x)),
               ew::to(&a.out()->bad) = ew::count_nonfinite(x));
  }
};

// ---- The peers ----

#if defined(__CUDACC__)
// Writes where all words of a thread are nothing but ones, as they are in no array here.
template <int Loads>
__global__ void read_kernel(uint4 const* x, std::size_t n, unsigned* never) {
  std::size_t const first = std::size_t{blockIdx.x} * blockDim.x * Loads + threadIdx.x;
  uint4 held[Loads];
#pragma unroll
  for (int k = 0; k < Loads; ++k) {
    std::size_t const i = first + static_cast<std::size_t>(k) * blockDim.x;
    held[k] = i < n ? x[i] : uint4{};
  }
  unsigned all = ~0U;
#pragma unroll
  for (int k = 0; k < Loads; ++k) all &= held[k].x & held[k].y & held[k].z & held[k].w;
  if (all == ~0U) *never = all;
}
template <int Loads>
struct read_of_the_array {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    std::size_t const n = a.bytes() / 16;  // sizes here are powers of two
    auto const blocks = static_cast<unsigned>((n + 256 * Loads - 1) / (256 * Loads));
    read_kernel<Loads><<<blocks, 256, 0, s.get()>>>(reinterpret_cast<uint4 const*>(a.array(set, 0)),
                                                    n,
                                                    reinterpret_cast<unsigned*>(a.room_of_peer()));
  }
};
bool nothing_to_check(results const&, expected const&) { return true; }
#endif

#if REDUCE_BENCH_HAS_CUB

struct square {
  template <class T>
  __host__ __device__ float operator()(T v) const {
    return to_float(v) * to_float(v);
  }
};
struct magnitude {
  template <class T>
  __host__ __device__ float operator()(T v) const {
    return fabsf(to_float(v));
  }
};
struct not_finite {
  template <class T>
  __host__ __device__ unsigned long long operator()(T v) const {
    return (__float_as_uint(to_float(v)) & 0x7f800000U) == 0x7f800000U ? 1U : 0U;
  }
};
template <class T>
struct product {
  T const* x;
  T const* y;
  __host__ __device__ float operator()(std::int64_t i) const {
    return to_float(x[i]) * to_float(y[i]);
  }
};
struct add {
  template <class T>
  __host__ __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct greater_of {
  __host__ __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

template <class T, class In, class Out, class Combine, class Transform, class Init>
void cub_transform_reduce(ww::stream_ref s, rotating_arrays<T> const& a, In in, Out* out,
                          Combine combine, Transform transform, Init init) {
  std::size_t bytes = rotating_arrays<T>::room_bytes;  // more than it needs
  ww::check(cub::DeviceReduce::TransformReduce(a.room_of_peer(), bytes, in, out,
                                               static_cast<std::int64_t>(a.n()), combine, transform,
                                               init, s.get()),
            "cub::DeviceReduce::TransformReduce");
}
struct cub_squares {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    cub_transform_reduce(s, a, a.array(set, 0), &a.out()->sum, add{}, square{}, 0.0F);
  }
};
struct cub_dot {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    cub_transform_reduce(s, a, thrust::counting_iterator<std::int64_t>{0}, &a.out()->sum, add{},
                         product<T>{a.array(set, 0), a.array(set, 1)}, 0.0F);
  }
};
struct cub_argmax {  // value and index to places of their own
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    std::size_t bytes = rotating_arrays<T>::room_bytes;
    ww::check(
        cub::DeviceReduce::ArgMax(a.room_of_peer(), bytes, a.array(set, 0), &a.out()->most.value,
                                  &a.out()->index, static_cast<std::int64_t>(a.n()), s.get()),
        "cub::DeviceReduce::ArgMax");
  }
};
bool cub_argmax_is_right(results const& r, expected const& e) {
  return static_cast<double>(r.most.value) == e.most &&
         static_cast<std::uint64_t>(r.index) == e.most_at;
}
struct cub_health {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    T const* const x = a.array(set, 0);
    cub_transform_reduce(s, a, x, &a.out()->sum, add{}, square{}, 0.0F);
    cub_transform_reduce(s, a, x, &a.out()->peak, greater_of{}, magnitude{}, 0.0F);
    cub_transform_reduce(s, a, x, reinterpret_cast<unsigned long long*>(&a.out()->bad), add{},
                         not_finite{}, 0ULL);
  }
};
#endif

#if defined(__CUDACC__)
constexpr std::int64_t smallest = std::int64_t{1} << 16U;
constexpr std::int64_t largest = std::int64_t{1} << 28U;
constexpr int samples = 60;
#else
// The host runtime: shows that the program works, never a speed.
constexpr std::int64_t smallest = std::int64_t{1} << 8U;
constexpr std::int64_t largest = std::int64_t{1} << 12U;
constexpr int samples = 2;
#endif

#if REDUCE_BENCH_HAS_CUB
std::string const cub_peer = bench_support::cccl_peer("cub_device_reduce");
#endif

// Paths over `read` arrays.
template <class T>
class comparison {
 public:
  using arrays = rotating_arrays<T>;

  explicit comparison(std::size_t read)
      : all_{std::make_shared<bench_support::interleaved<arrays>>(
            [read](ww::stream_ref s, bench_support::shape const& of) {
              return std::make_unique<arrays>(s, static_cast<std::size_t>(of[0]), read);
            })} {}
  template <class Launch>
  comparison& add(std::string const& name, Launch launch,
                  bool (*right)(results const&, expected const&)) {
    all_->add(name, launch, [right](arrays const& a) { return verified(a, right); });
    return *this;
  }
  void register_as(std::string const& name) const {
    std::vector<bench_support::sampled_size> sizes;
    for (std::int64_t n = smallest; n <= largest; n *= 4) {
      sizes.push_back({{n}, 1, samples});
      // A pass from 2^24 elements up takes longer than its latency: isolated is enough.
      if (n < (std::int64_t{1} << 24U)) sizes.push_back({{n}, 20, samples});
    }
    bench_support::interleaved<arrays>::register_all(all_, name, sizes);
  }

 private:
  std::shared_ptr<bench_support::interleaved<arrays>> all_;
};

template <class T>
void add_type(std::string const& type) {
  comparison<T>{1}
      .add("warpwright_ew", squares_of_ours{}, sum_is_right)
#if REDUCE_BENCH_HAS_CUB
      .add(cub_peer, cub_squares{}, sum_is_right)
#endif
      .add("warpwright_ew_compensated", squares_compensated{}, sum_is_right)
      .add("warpwright_ew_in_double", squares_in_double{}, sum_is_right)
#if defined(__CUDACC__)
      .add("read_4_a_thread", read_of_the_array<4>{}, nothing_to_check)
      .add("read_8_a_thread", read_of_the_array<8>{}, nothing_to_check)
#endif
      .register_as("squares_" + type);
  comparison<T>{2}
      .add("warpwright_ew", dot_of_ours{}, sum_is_right)
#if REDUCE_BENCH_HAS_CUB
      .add(cub_peer, cub_dot{}, sum_is_right)
#endif
      .register_as("dot_" + type);
  comparison<T>{1}
      .add("warpwright_ew", health_of_ours{}, health_is_right)
#if REDUCE_BENCH_HAS_CUB
      .add(cub_peer, cub_health{}, health_is_right)
#endif
      .register_as("health_" + type);
}

int const registered = [] {
#if REDUCE_BENCH_HAS_CUB
  bench_support::name_cccl_version();
#endif
  add_type<float>("f32");
  add_type<__half>("f16");
  add_type<__nv_bfloat16>("bf16");
  comparison<float>{1}
      .add("warpwright_ew", argmax_of_ours{}, argmax_is_right)
#if REDUCE_BENCH_HAS_CUB
      .add(cub_peer, cub_argmax{}, cub_argmax_is_right)
#endif
      .register_as("argmax_f32");
  return 0;
}();

}  // namespace
