// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Fused expressions beside kernels written by hand (16 bytes a thread; one element a thread), a
// copy of the same traffic, and cub::DeviceTransform of the toolkit (or, in the second program that
// -D WARPWRIGHT_BENCH_CCCL=... asks for, of the CCCL named there).
//
//   triad  o = a * x + y          3 arrays
//   gelu   o = gelu(x * w + b)    4 arrays; every path computes gelu by the same function
//   silu_twice  o = x * sigmoid(x), x named twice    2 arrays
//   rotation  p, o = 0.8 x - 0.6 y, 0.6 x + 0.8 y    4 arrays, two of them outputs of one kernel
//
// A name ends in /n/launches: time is that of `launches` launches between two events, divided by
// their number (1: isolated, the launch's latency included; 20: back to back). The paths take turns
// over `sets` sets of arrays, 256 MiB or more together (at most 4,096 sets), so that none is found
// in L2. Counters: median, p10, p90 of a launch in us, and GB/s of the median, every array counted
// once.
#include <benchmark/benchmark.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "support/sample_launches.hpp"
#include "support/values.hpp"

#if defined(__CUDACC__) && __has_include(<cub/device/device_transform.cuh>)
#include <cub/device/device_transform.cuh>

#include "support/cccl.hpp"
#define EVALUATE_BENCH_HAS_CUB 1
#else
#define EVALUATE_BENCH_HAS_CUB 0
#endif

namespace ww = warpwright;
namespace ew = warpwright::ew;
using bench_support::fetch;
using bench_support::from_float;
using bench_support::scattered;
using bench_support::to_float;

namespace {

constexpr float triad_factor = 1.5F;

// The operations, for the peers; 16-bit types are computed in float as ours are.
struct triad {
  static constexpr int inputs = 2;
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x, T y) const {
    return from_float<T>(triad_factor * to_float(x) + to_float(y));
  }
  static double exact(double x, double y, double) {
    return static_cast<double>(triad_factor) * x + y;
  }
};
struct gelu {
  static constexpr int inputs = 3;
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x, T w, T b) const {
    return from_float<T>(ew::detail::gaussian_weighted{}(to_float(x) * to_float(w) + to_float(b)));
  }
  static double exact(double x, double w, double b) {
    double const v = x * w + b;
    return v * 0.5 * std::erfc(-v * 0.70710678118654752);
  }
};

// Two outputs, p = 0.8 x - 0.6 y and o = 0.6 x + 0.8 y: p is the third array, o is verified.
struct rotation {
  static constexpr int inputs = 3;
  static double exact(double x, double y, double) {
    return static_cast<double>(0.6F) * x + static_cast<double>(0.8F) * y;
  }
};

// gelu(x / 2 + bias) with a row of zeros as bias.
struct gelu_row_bias {
  static constexpr int inputs = 1;
  static double exact(double x, double, double) { return gelu::exact(x, 0.5, 0); }
};

struct silu_twice {
  static constexpr int inputs = 1;
  static double exact(double x, double, double) { return x / (1 + std::exp(-x)); }
};

// `sets` sets of inputs and one output, in one allocation; the first `odd_arrays` arrays of each
// set lie one element off a 256-byte boundary.
template <class T>
class rotating_arrays {
 public:
  rotating_arrays(ww::stream_ref stream, std::size_t n, int inputs, std::size_t odd_arrays)
      : n_{n}, arrays_{static_cast<std::size_t>(inputs) + 1}, odd_arrays_{odd_arrays} {
    pitch_ = (n * sizeof(T) + 255) / 256 * 256 + 256;
    std::size_t const set_bytes = pitch_ * arrays_;
    sets_ = std::max<std::size_t>(1, (std::size_t{256} << 20U) / set_bytes);
    sets_ = std::min<std::size_t>(sets_, 4096);
    ww::check(cudaMalloc(&memory_, set_bytes * sets_), "cudaMalloc");
    for (std::size_t k = 0; k < sets_ * arrays_; ++k) {
      ew::run(stream, ew::out(array(k / arrays_, k % arrays_), n) =
                          ew::map(scattered{k % arrays_ * 1000003}, ew::index()));
    }
    stream.synchronize();
  }
  ~rotating_arrays() { ww::detail::discard(cudaFree(memory_)); }
  rotating_arrays(rotating_arrays const&) = delete;
  rotating_arrays& operator=(rotating_arrays const&) = delete;

  /// Array `which` of a set: the inputs from 0, then the output.
  T* array(std::size_t set, std::size_t which) const {
    auto* const base = static_cast<unsigned char*>(memory_);
    return reinterpret_cast<T*>(base + (set * arrays_ + which) * pitch_) +
           (which < odd_arrays_ ? 1 : 0);
  }
  T* out(std::size_t set) const { return array(set, arrays_ - 1); }
  std::size_t n() const { return n_; }
  std::size_t sets() const { return sets_; }
  std::size_t bytes() const { return n_ * arrays_ * sizeof(T); }

 private:
  std::size_t n_;
  std::size_t arrays_;
  std::size_t odd_arrays_;
  std::size_t pitch_ = 0;
  std::size_t sets_ = 0;
  void* memory_ = nullptr;
};

// Compares the first and the last 2^16 elements of set 0 with fp64.
template <class Operation, class T>
bool verified(rotating_arrays<T> const& a) {
  std::size_t const count = std::min<std::size_t>(a.n(), 65536);
  double const unit = std::is_same<T, float>::value    ? 0x1p-24
                      : std::is_same<T, __half>::value ? 0x1p-11
                                                       : 0x1p-8;
  for (std::size_t const begin : {std::size_t{0}, a.n() - count}) {
    std::vector<std::vector<T>> in;
    for (std::size_t k = 0; k < Operation::inputs; ++k) {
      in.push_back(fetch(a.array(0, k) + begin, count));
    }
    std::vector<T> const got = fetch(a.out(0) + begin, count);
    for (std::size_t i = 0; i < count; ++i) {
      auto const at = [&](std::size_t k) {
        return k < in.size() ? static_cast<double>(to_float(in[k][i])) : 0.0;
      };
      double const expected = Operation::exact(at(0), at(1), at(2));
      double const error = std::fabs(static_cast<double>(to_float(got[i])) - expected);
      if (!(error <= unit * (4 * std::fabs(expected) + 4))) return false;
    }
  }
  return true;
}

template <class Operation, class T, class Launch>
void measure(benchmark::State& state, Launch launch, bool check = true,
             std::size_t odd_arrays = 0) {
  auto const n = static_cast<std::size_t>(state.range(0));
  auto const launches = static_cast<std::size_t>(state.range(1));
  ww::stream s;
  rotating_arrays<T> a{s, n, Operation::inputs, odd_arrays};
  for (std::size_t set = 0; set < std::min<std::size_t>(a.sets(), 20); ++set) launch(s, a, set);
  s.synchronize();
  if (check && !verified<Operation>(a)) {
    state.SkipWithError("wrong results");
    return;
  }
  bench_support::sample_launches(state, s, a, launches, launch);
}

// ---- Our path ----

template <class Operation, class T>
void launch_ew(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) {
  std::size_t const n = a.n();
  auto const x = ew::in(a.array(set, 0), n);
  auto const y = ew::in(a.array(set, 1), n);
  if constexpr (Operation::inputs == 2) {
    ew::run(s, ew::out(a.out(set), n) = triad_factor * x + y);
  } else {
    ew::run(s, ew::out(a.out(set), n) = ew::gelu(x * y + ew::in(a.array(set, 2), n)));
  }
}
template <class Operation, class T>
void warpwright_ew(benchmark::State& state) {
  measure<Operation, T>(state, launch_ew<Operation, T>);
}

// All arrays one element off: the kernel peels. The first alone: it is narrowed.
template <class Operation, class T>
void warpwright_ew_all_off_by_one(benchmark::State& state) {
  measure<Operation, T>(state, launch_ew<Operation, T>, true, Operation::inputs + 1);
}
template <class Operation, class T>
void warpwright_ew_x_off_by_one(benchmark::State& state) {
  measure<Operation, T>(state, launch_ew<Operation, T>, true, 1);
}
template <class T>
void warpwright_ew_rotation(benchmark::State& state) {
  measure<rotation, T>(state, [](ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) {
    auto const x = ew::in(a.array(set, 0), a.n());
    auto const y = ew::in(a.array(set, 1), a.n());
    ew::run(s, ew::tie(ew::out(a.array(set, 2), a.n()) = 0.8F * x - 0.6F * y,
                       ew::out(a.out(set), a.n()) = 0.6F * x + 0.8F * y));
  });
}
template <class T>
void warpwright_ew_twice(benchmark::State& state) {
  measure<silu_twice, T>(state, [](ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) {
    auto const x = ew::in(a.array(set, 0), a.n());
    ew::run(s, ew::out(a.out(set), a.n()) = x * ew::sigmoid(x));
  });
}
// The same of one operand.
template <class T>
void warpwright_ew_once(benchmark::State& state) {
  measure<silu_twice, T>(state, [](ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) {
    auto const x = ew::in(a.array(set, 0), a.n());
    ew::run(s, ew::out(a.out(set), a.n()) = ew::silu(x));
  });
}
// Rows of 1,024; two arrays of traffic.
template <class T>
void warpwright_ew_row_bias(benchmark::State& state) {
  float* bias = nullptr;
  ww::check(cudaMalloc(reinterpret_cast<void**>(&bias), 1024 * sizeof(float)), "cudaMalloc");
  ww::check(cudaMemset(bias, 0, 1024 * sizeof(float)), "cudaMemset");
  ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  measure<gelu_row_bias, T>(
      state, [bias](ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) {
        ew::run(s, ew::out(a.out(set), a.n()) =
                       ew::gelu(ew::in(a.array(set, 0), a.n()) * 0.5F + ew::row(bias, 1024)));
      });
  ww::check(cudaFree(bias), "cudaFree");
}

// ---- Peers ----

// As many bytes read and written together as the operation moves.
template <class Operation, class T>
void copy_of_same_traffic(benchmark::State& state) {
  measure<Operation, T>(
      state,
      [](ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) {
        // The arrays of a set lie side by side: the first half is copied to the second.
        std::size_t const moved = a.bytes() / 2 / 256 * 256;
        auto* const from = reinterpret_cast<unsigned char*>(a.array(set, 0));
        ww::check(cudaMemcpyAsync(from + moved, from, moved, cudaMemcpyDeviceToDevice, s.get()),
                  "cudaMemcpyAsync");
      },
      false);
}

#if defined(__CUDACC__)

template <class Operation, class T>
__global__ void one_element_kernel(T const* x, T const* y, T const* z, T* o, std::size_t n) {
  std::size_t const i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i >= n) return;
  if constexpr (Operation::inputs == 2) {
    o[i] = Operation{}(x[i], y[i]);
  } else {
    o[i] = Operation{}(x[i], y[i], z[i]);
  }
}

template <class T>
struct alignas(16) sixteen_bytes {
  T values[16 / sizeof(T)];
};
template <class Operation, class T>
__global__ void sixteen_bytes_kernel(sixteen_bytes<T> const* x, sixteen_bytes<T> const* y,
                                     sixteen_bytes<T> const* z, sixteen_bytes<T>* o,
                                     std::size_t n) {
  std::size_t const i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i >= n) return;
  constexpr int count = 16 / sizeof(T);
  sixteen_bytes<T> const a = x[i];
  sixteen_bytes<T> const b = y[i];
  sixteen_bytes<T> result;
  if constexpr (Operation::inputs == 2) {
#pragma unroll
    for (int k = 0; k < count; ++k) result.values[k] = Operation{}(a.values[k], b.values[k]);
  } else {
    sixteen_bytes<T> const c = z[i];
#pragma unroll
    for (int k = 0; k < count; ++k) {
      result.values[k] = Operation{}(a.values[k], b.values[k], c.values[k]);
    }
  }
  o[i] = result;
}

template <class T>
__global__ void sixteen_bytes_rotation_kernel(sixteen_bytes<T> const* x, sixteen_bytes<T> const* y,
                                              sixteen_bytes<T>* p, sixteen_bytes<T>* o,
                                              std::size_t n) {
  std::size_t const i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i >= n) return;
  sixteen_bytes<T> const a = x[i];
  sixteen_bytes<T> const b = y[i];
  sixteen_bytes<T> first;
  sixteen_bytes<T> second;
#pragma unroll
  for (int k = 0; k < static_cast<int>(16 / sizeof(T)); ++k) {
    float const u = to_float(a.values[k]);
    float const v = to_float(b.values[k]);
    first.values[k] = from_float<T>(0.8F * u - 0.6F * v);
    second.values[k] = from_float<T>(0.6F * u + 0.8F * v);
  }
  p[i] = first;
  o[i] = second;
}

constexpr unsigned block_threads = 256;
unsigned grid_of(std::size_t threads) {
  return static_cast<unsigned>((threads + block_threads - 1) / block_threads);
}

template <class Operation, class T>
void one_element_a_thread(benchmark::State& state) {
  measure<Operation, T>(state, [](ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) {
    one_element_kernel<Operation, T><<<grid_of(a.n()), block_threads, 0, s.get()>>>(
        a.array(set, 0), a.array(set, 1), a.array(set, 2), a.out(set), a.n());
  });
}

template <class T>
void sixteen_bytes_rotation(benchmark::State& state) {
  measure<rotation, T>(state, [](ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) {
    std::size_t const n = a.n() / (16 / sizeof(T));
    auto const at = [&](std::size_t k) {
      return reinterpret_cast<sixteen_bytes<T>*>(a.array(set, k));
    };
    sixteen_bytes_rotation_kernel<T><<<grid_of(n), block_threads, 0, s.get()>>>(
        at(0), at(1), at(2), reinterpret_cast<sixteen_bytes<T>*>(a.out(set)), n);
  });
}

template <class Operation, class T>
void sixteen_bytes_a_thread(benchmark::State& state) {
  measure<Operation, T>(state, [](ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) {
    using wide = sixteen_bytes<T>;
    std::size_t const n = a.n() * sizeof(T) / 16;  // sizes here are powers of two
    sixteen_bytes_kernel<Operation, T><<<grid_of(n), block_threads, 0, s.get()>>>(
        reinterpret_cast<wide const*>(a.array(set, 0)),
        reinterpret_cast<wide const*>(a.array(set, 1)),
        reinterpret_cast<wide const*>(a.array(set, 2)), reinterpret_cast<wide*>(a.out(set)), n);
  });
}

#if EVALUATE_BENCH_HAS_CUB
template <class Operation, class T>
void launch_cub(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set, std::size_t n) {
  cudaError_t status;
  if constexpr (Operation::inputs == 2) {
    status = cub::DeviceTransform::Transform(
        cuda::std::make_tuple(a.array(set, 0), a.array(set, 1)), a.out(set),
        static_cast<std::int64_t>(n), Operation{}, s.get());
  } else {
    status = cub::DeviceTransform::Transform(
        cuda::std::make_tuple(a.array(set, 0), a.array(set, 1), a.array(set, 2)), a.out(set),
        static_cast<std::int64_t>(n), Operation{}, s.get());
  }
  ww::check(status, "cub::DeviceTransform::Transform");
}
template <class Operation, class T>
void cub_device_transform(benchmark::State& state) {
  // CCCL 3.0 keeps the tile that its first call chooses: let that be a large one.
  static bool const warm = [] {
    ww::stream s;
    rotating_arrays<T> const a{s, std::size_t{1} << 20U, Operation::inputs, 0};
    launch_cub<Operation, T>(s, a, 0, a.n());
    s.synchronize();
    return true;
  }();
  benchmark::DoNotOptimize(warm);
  measure<Operation, T>(state, [](ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) {
    launch_cub<Operation, T>(s, a, set, a.n());
  });
}
#endif

constexpr std::int64_t largest = std::int64_t{1} << 28U;
constexpr int iterations = 60;
constexpr int small_iterations = 300;  // of some us each, which spread by a fifth
#else
// The host runtime: shows that the program works, never a speed.
constexpr std::int64_t largest = std::int64_t{1} << 12U;
constexpr int iterations = 2;
constexpr int small_iterations = 2;
#endif

void add(std::string const& name, void (*function)(benchmark::State&), std::int64_t smallest) {
  for (std::int64_t n = smallest; n <= largest; n *= 4) {
    for (std::int64_t launches : {1, 20}) {
      // A launch from 2^24 elements up takes longer than its latency: isolated is enough.
      if (launches != 1 && n >= (std::int64_t{1} << 24U)) continue;
      benchmark::RegisterBenchmark(name.c_str(), function)
          ->Args({n, launches})
          ->Iterations(n <= (std::int64_t{1} << 20U) ? small_iterations : iterations)
          ->Repetitions(1)  // it reports the spread of its own samples
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

template <class Operation, class T>
void add_operation(std::string const& name) {
  std::int64_t const smallest = 1024;
  add(name + "/warpwright_ew", warpwright_ew<Operation, T>, smallest);
#if defined(__CUDACC__)
  add(name + "/sixteen_bytes_a_thread", sixteen_bytes_a_thread<Operation, T>, smallest);
  add(name + "/one_element_a_thread", one_element_a_thread<Operation, T>, smallest);
#if EVALUATE_BENCH_HAS_CUB
  add(name + bench_support::cccl_peer("/cub_device_transform"), cub_device_transform<Operation, T>,
      smallest);
#endif
#endif
  add(name + "/copy_of_same_traffic", copy_of_same_traffic<Operation, T>, smallest);
}

template <class T>
void add_type(std::string const& type) {
  std::int64_t const large = largest / 16;
  add_operation<triad, T>("triad_" + type);
  add_operation<gelu, T>("gelu_" + type);
  add("rotation_" + type + "/warpwright_ew", warpwright_ew_rotation<T>, 1024);
#if defined(__CUDACC__)
  add("rotation_" + type + "/sixteen_bytes_a_thread", sixteen_bytes_rotation<T>, 1024);
#endif
  add("rotation_" + type + "/copy_of_same_traffic", copy_of_same_traffic<rotation, T>, 1024);
  add("triad_" + type + "/warpwright_ew_all_off_by_one", warpwright_ew_all_off_by_one<triad, T>,
      large);
  add("triad_" + type + "/warpwright_ew_x_off_by_one", warpwright_ew_x_off_by_one<triad, T>, large);
  add("silu_twice_" + type + "/warpwright_ew", warpwright_ew_twice<T>, 1024);
  add("silu_twice_" + type + "/warpwright_ew_silu", warpwright_ew_once<T>, 1024);
  add("silu_twice_" + type + "/copy_of_same_traffic", copy_of_same_traffic<silu_twice, T>, 1024);
  add("gelu_row_bias_" + type + "/warpwright_ew", warpwright_ew_row_bias<T>,
      std::max<std::int64_t>(large, 1024));
  add("gelu_row_bias_" + type + "/copy_of_same_traffic", copy_of_same_traffic<gelu_row_bias, T>,
      std::max<std::int64_t>(large, 1024));
}

int const registered = [] {
#if EVALUATE_BENCH_HAS_CUB
  bench_support::name_cccl_version();
#endif
  add_type<float>("f32");
  add_type<__half>("f16");
  add_type<__nv_bfloat16>("bf16");
  return 0;
}();

}  // namespace
