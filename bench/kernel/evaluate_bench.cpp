// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Fused expressions beside kernels written by hand (16 bytes a thread; one element a thread), a
// copy of the same traffic, thrust::transform, and cub::DeviceTransform of the toolkit (or, in the
// second program that -D WARPWRIGHT_BENCH_CCCL=... asks for, both of the CCCL named there).
//
//   triad  o = a * x + y          3 arrays; triad_odd: of an odd number of elements
//   gelu   o = gelu(x * w + b)    4 arrays; every path computes gelu by the same function
//   silu_twice  o = x * sigmoid(x), x named twice    2 arrays
//   rotation  p, o = 0.8 x - 0.6 y, 0.6 x + 0.8 y    4 arrays, two of them outputs of one kernel
//   gelu_row_bias, gelu_column_bias  o = gelu(x / 2 + b), b by column or by row    2 arrays
//
// A name ends in /n/launches: time is that of `launches` launches between two events, divided by
// their number (1: isolated, the launch's latency included; 20: back to back). The samples of one
// operation, type and size are interleaved. Launches go through `sets` sets of arrays, 256 MiB or
// more together (at most 4,096 sets), so that none is found in L2. Counters: median, p10, p90 of a
// launch in us, and GB/s of the median, every array counted once.
#include <benchmark/benchmark.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "support/interleaved.hpp"
#include "support/rotating_buffers.hpp"
#include "support/values.hpp"

#if defined(__CUDACC__) && __has_include(<cub/device/device_transform.cuh>)
#include <thrust/execution_policy.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/transform.h>
#include <thrust/tuple.h>
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
    return from_float<T>(ew::detail::gelu_function{}(to_float(x) * to_float(w) + to_float(b)));
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

// The same with a bias for each row, of 1,024 elements.
struct gelu_column_bias : gelu_row_bias {};

struct silu_twice {
  static constexpr int inputs = 1;
  static double exact(double x, double, double) { return x / (1 + std::exp(-x)); }
};

// `sets` sets of inputs and one output, and zeros, in one allocation. The arrays of each
// set begin `odd_arrays` of them one element off a 256-byte boundary, the others on it.
template <class T>
class rotating_arrays {
 public:
  rotating_arrays(ww::stream_ref stream, std::size_t n, int inputs)
      : n_{n},
        arrays_{static_cast<std::size_t>(inputs) + 1},
        pitch_{bench_support::padded(n * sizeof(T)) + 256},
        memory_{pitch_ * arrays_, zero_count() * sizeof(float), {}} {
    ew::run(stream, ew::out(zeros(), zero_count()) = 0.0F);
    for (std::size_t k = 0; k < sets() * arrays_; ++k) {
      ew::run(stream, ew::out(array(k / arrays_, k % arrays_), n + 1) =
                          ew::map(scattered{k % arrays_ * 1000003}, ew::index()));
    }
    stream.synchronize();
  }

  /// Array `which` of a set: the inputs from 0, then the output.
  T* array(std::size_t set, std::size_t which, std::size_t odd_arrays = 0) const {
    return reinterpret_cast<T*>(memory_.set(set, which * pitch_)) + (which < odd_arrays ? 1 : 0);
  }
  T* out(std::size_t set, std::size_t odd_arrays = 0) const {
    return array(set, arrays_ - 1, odd_arrays);
  }
  static constexpr std::size_t row = 1024;
  std::size_t zero_count() const { return std::max(row, n_ / row); }  // of a row, or a column
  float* zeros() const { return reinterpret_cast<float*>(memory_.shared()); }
  std::size_t n() const { return n_; }
  std::size_t sets() const { return memory_.sets(); }
  std::size_t bytes() const { return n_ * arrays_ * sizeof(T); }

 private:
  std::size_t n_;
  std::size_t arrays_;
  std::size_t pitch_;
  bench_support::rotating_buffers memory_;
};

// Compares the first and the last 2^16 elements of set 0 with fp64, and wipes out what it compared.
template <class Operation, class T>
bool verified(rotating_arrays<T> const& a, std::size_t odd_arrays) {
  std::size_t const count = std::min<std::size_t>(a.n(), 65536);
  double const unit = std::is_same<T, float>::value    ? 0x1p-24
                      : std::is_same<T, __half>::value ? 0x1p-11
                                                       : 0x1p-8;
  for (std::size_t const begin : {std::size_t{0}, a.n() - count}) {
    std::vector<std::vector<T>> in;
    for (std::size_t k = 0; k < Operation::inputs; ++k) {
      in.push_back(fetch(a.array(0, k, odd_arrays) + begin, count));
    }
    std::vector<T> const got = fetch(a.out(0, odd_arrays) + begin, count);
    for (std::size_t i = 0; i < count; ++i) {
      auto const at = [&](std::size_t k) {
        return k < in.size() ? static_cast<double>(to_float(in[k][i])) : 0.0;
      };
      double const expected = Operation::exact(at(0), at(1), at(2));
      double const error = std::fabs(static_cast<double>(to_float(got[i])) - expected);
      if (!(error <= unit * (4 * std::fabs(expected) + 4))) return false;
    }
  }
  ww::check(cudaMemset(a.out(0), 0xff, a.n() * sizeof(T)), "cudaMemset");
  return true;
}

// ---- Our path ----

template <class Operation, class T, std::size_t OddArrays = 0>
struct warpwright_ew {
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    std::size_t const n = a.n();
    auto const x = ew::in(a.array(set, 0, OddArrays), n);
    auto const y = ew::in(a.array(set, 1, OddArrays), n);
    if constexpr (std::is_same<Operation, triad>::value) {
      ew::run(s, ew::out(a.out(set, OddArrays), n) = triad_factor * x + y);
    } else if constexpr (std::is_same<Operation, gelu>::value) {
      ew::run(s, ew::out(a.out(set), n) = ew::gelu(x * y + ew::in(a.array(set, 2), n)));
    } else if constexpr (std::is_same<Operation, rotation>::value) {
      ew::run(s, ew::tie(ew::out(a.array(set, 2), n) = 0.8F * x - 0.6F * y,
                         ew::out(a.out(set), n) = 0.6F * x + 0.8F * y));
    } else if constexpr (std::is_same<Operation, silu_twice>::value) {
      ew::run(s, ew::out(a.out(set), n) = x * ew::sigmoid(x));
    } else if constexpr (std::is_same<Operation, gelu_column_bias>::value) {
      ew::run(s, ew::out(a.out(set), n) = ew::gelu(x * 0.5F + ew::col(a.zeros(), a.row)));
    } else {
      ew::run(s, ew::out(a.out(set), n) = ew::gelu(x * 0.5F + ew::row(a.zeros(), a.row)));
    }
  }
};

// silu_twice of one operand.
struct silu_once {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    ew::run(s, ew::out(a.out(set), a.n()) = ew::silu(ew::in(a.array(set, 0), a.n())));
  }
};

// ---- Peers ----

// As many bytes read and written together as the operation moves.
struct copy_of_same_traffic {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    // The arrays of a set lie side by side: the first half is copied to the second.
    std::size_t const moved = a.bytes() / 2 / 256 * 256;
    auto* const from = reinterpret_cast<unsigned char*>(a.array(set, 0));
    ww::check(cudaMemcpyAsync(from + moved, from, moved, cudaMemcpyDeviceToDevice, s.get()),
              "cudaMemcpyAsync");
  }
};

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

template <class Operation>
struct one_element_a_thread {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    one_element_kernel<Operation, T><<<grid_of(a.n()), block_threads, 0, s.get()>>>(
        a.array(set, 0), a.array(set, 1), a.array(set, 2), a.out(set), a.n());
  }
};

template <class Operation>
struct sixteen_bytes_a_thread {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    std::size_t const n = a.n() * sizeof(T) / 16;  // sizes here are powers of two
    auto const at = [&](std::size_t k) {
      return reinterpret_cast<sixteen_bytes<T>*>(a.array(set, k));
    };
    auto* const out = reinterpret_cast<sixteen_bytes<T>*>(a.out(set));
    if constexpr (std::is_same<Operation, rotation>::value) {
      sixteen_bytes_rotation_kernel<T>
          <<<grid_of(n), block_threads, 0, s.get()>>>(at(0), at(1), at(2), out, n);
    } else {
      sixteen_bytes_kernel<Operation, T>
          <<<grid_of(n), block_threads, 0, s.get()>>>(at(0), at(1), at(2), out, n);
    }
  }
};

#if EVALUATE_BENCH_HAS_CUB
template <class Operation>
struct cub_device_transform {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    // CCCL 3.0 keeps the tile that its first call chooses: let that be a large one.
    static bool const warm = [] {
      ww::stream warming;
      rotating_arrays<T> const large{warming, std::size_t{1} << 20U, Operation::inputs};
      transform(warming, large, 0);
      warming.synchronize();
      return true;
    }();
    benchmark::DoNotOptimize(warm);
    transform(s, a, set);
  }
  template <class T>
  static void transform(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) {
    auto const n = static_cast<std::int64_t>(a.n());
    cudaError_t status;
    if constexpr (Operation::inputs == 2) {
      status =
          cub::DeviceTransform::Transform(cuda::std::make_tuple(a.array(set, 0), a.array(set, 1)),
                                          a.out(set), n, Operation{}, s.get());
    } else {
      status = cub::DeviceTransform::Transform(
          cuda::std::make_tuple(a.array(set, 0), a.array(set, 1), a.array(set, 2)), a.out(set), n,
          Operation{}, s.get());
    }
    ww::check(status, "cub::DeviceTransform::Transform");
  }
};

template <class Operation>
struct of_tuple {
  template <class Tuple>
  __host__ __device__ auto operator()(Tuple const& t) const {
    return Operation{}(thrust::get<0>(t), thrust::get<1>(t), thrust::get<2>(t));
  }
};
template <class Operation>
struct thrust_transform {
  template <class T>
  void operator()(ww::stream_ref s, rotating_arrays<T> const& a, std::size_t set) const {
    auto const policy = thrust::cuda::par_nosync.on(s.get());
    T const* const x = a.array(set, 0);
    T const* const y = a.array(set, 1);
    if constexpr (Operation::inputs == 2) {
      thrust::transform(policy, x, x + a.n(), y, a.out(set), Operation{});
    } else {
      auto const all = thrust::make_zip_iterator(
          thrust::make_tuple(x, y, static_cast<T const*>(a.array(set, 2))));
      thrust::transform(policy, all, all + static_cast<std::ptrdiff_t>(a.n()), a.out(set),
                        of_tuple<Operation>{});
    }
  }
};
#endif

constexpr std::int64_t largest = std::int64_t{1} << 28U;
constexpr int samples = 60;
constexpr int small_samples = 300;  // of some us each, which spread by a fifth
#else
// The host runtime: shows that the program works, never a speed.
constexpr std::int64_t largest = std::int64_t{1} << 12U;
constexpr int samples = 2;
constexpr int small_samples = 2;
#endif

constexpr std::int64_t large = std::max<std::int64_t>(largest / 16, 1024);

std::vector<bench_support::sampled_size> sizes_from(std::int64_t smallest, int factor) {
  std::vector<bench_support::sampled_size> sizes;
  for (std::int64_t n = smallest; n <= largest; n *= factor) {
    int const count = n <= (std::int64_t{1} << 20U) ? small_samples : samples;
    sizes.push_back({{n}, 1, count});
    // A launch from 2^24 elements up takes longer than its latency: isolated is enough.
    if (n < (std::int64_t{1} << 24U)) sizes.push_back({{n}, 20, count});
  }
  return sizes;
}

template <class Arrays>
auto shared_arrays(int inputs) {
  return std::make_shared<bench_support::interleaved<Arrays>>(
      [inputs](ww::stream_ref s, bench_support::shape const& of) {
        return std::make_unique<Arrays>(s, static_cast<std::size_t>(of[0]), inputs);
      });
}

template <class Operation, class T>
void add_operation(std::string const& name, std::int64_t smallest = 1024) {
  using arrays = rotating_arrays<T>;
  auto const all = shared_arrays<arrays>(Operation::inputs);
  auto const right = [](arrays const& a) { return verified<Operation>(a, 0); };
  all->add("warpwright_ew", warpwright_ew<Operation, T>{}, right);
  if constexpr (std::is_same<Operation, silu_twice>::value) {
    all->add("warpwright_ew_silu", silu_once{}, right);
  }
  if constexpr (std::is_same<Operation, triad>::value) {
    // All arrays one element off: the kernel peels. The first alone: it is narrowed.
    all->add(
        "warpwright_ew_all_off_by_one", warpwright_ew<Operation, T, 3>{},
        [](arrays const& a) { return verified<Operation>(a, 3); }, large);
    all->add(
        "warpwright_ew_x_off_by_one", warpwright_ew<Operation, T, 1>{},
        [](arrays const& a) { return verified<Operation>(a, 1); }, large);
  }
#if defined(__CUDACC__)
  if constexpr (Operation::inputs > 1) {
    all->add("sixteen_bytes_a_thread", sixteen_bytes_a_thread<Operation>{}, right);
  }
  if constexpr (std::is_same<Operation, triad>::value || std::is_same<Operation, gelu>::value) {
    all->add("one_element_a_thread", one_element_a_thread<Operation>{}, right);
#if EVALUATE_BENCH_HAS_CUB
    all->add(bench_support::cccl_peer("cub_device_transform"), cub_device_transform<Operation>{},
             right);
    all->add(bench_support::cccl_peer("thrust_transform"), thrust_transform<Operation>{}, right);
#endif
  }
#endif
  all->add("copy_of_same_traffic", copy_of_same_traffic{}, [](arrays const&) { return true; });
  int const factor = std::is_same<Operation, triad>::value && sizeof(T) == 4 ? 2 : 4;
  bench_support::interleaved<arrays>::register_all(all, name, sizes_from(smallest, factor));
}

// Sizes that are no whole number of anything.
template <class T>
void add_odd(std::string const& name) {
  using arrays = rotating_arrays<T>;
  auto const all = shared_arrays<arrays>(triad::inputs);
  auto const right = [](arrays const& a) { return verified<triad>(a, 0); };
  all->add("warpwright_ew", warpwright_ew<triad, T>{}, right);
#if defined(__CUDACC__)
  all->add("one_element_a_thread", one_element_a_thread<triad>{}, right);
#if EVALUATE_BENCH_HAS_CUB
  all->add(bench_support::cccl_peer("cub_device_transform"), cub_device_transform<triad>{}, right);
#endif
#endif
  all->add("copy_of_same_traffic", copy_of_same_traffic{}, [](arrays const&) { return true; });
  std::vector<bench_support::sampled_size> sizes;
  for (std::int64_t n = large; n <= largest; n *= 4) sizes.push_back({{n - 1}, 1, samples});
  bench_support::interleaved<arrays>::register_all(all, name, sizes);
}

// Small launches back to back as a graph's, of which the host starts all at once.
template <class Operation>
void add_in_a_graph(std::string const& name) {
  using arrays = rotating_arrays<float>;
  auto const all = shared_arrays<arrays>(Operation::inputs);
  auto const right = [](arrays const& a) { return verified<Operation>(a, 0); };
  all->in_graphs();
  all->add("warpwright_ew", warpwright_ew<Operation, float>{}, right);
#if defined(__CUDACC__)
  all->add("sixteen_bytes_a_thread", sixteen_bytes_a_thread<Operation>{}, right);
  all->add("one_element_a_thread", one_element_a_thread<Operation>{}, right);
#if EVALUATE_BENCH_HAS_CUB
  all->add(bench_support::cccl_peer("cub_device_transform"), cub_device_transform<Operation>{},
           right);
#endif
#endif
  all->add("copy_of_same_traffic", copy_of_same_traffic{}, [](arrays const&) { return true; });
  std::vector<bench_support::sampled_size> sizes;
  for (std::int64_t n = 1024; n <= std::min(largest, std::int64_t{1} << 22U); n *= 4) {
    sizes.push_back({{n}, 20, small_samples});
  }
  bench_support::interleaved<arrays>::register_all(all, name, sizes);
}

template <class T>
void add_type(std::string const& type) {
  add_operation<triad, T>("triad_" + type);
  add_odd<T>("triad_odd_" + type);
  add_operation<gelu, T>("gelu_" + type);
  add_operation<rotation, T>("rotation_" + type);
  add_operation<silu_twice, T>("silu_twice_" + type);
  add_operation<gelu_row_bias, T>("gelu_row_bias_" + type, large);
  add_operation<gelu_column_bias, T>("gelu_column_bias_" + type, large);
}

int const registered = [] {
#if EVALUATE_BENCH_HAS_CUB
  bench_support::name_cccl_version();
#endif
  add_type<float>("f32");
  add_in_a_graph<triad>("triad_in_a_graph_f32");
  add_in_a_graph<gelu>("gelu_in_a_graph_f32");
  add_type<__half>("f16");
  add_type<__nv_bfloat16>("bf16");
  return 0;
}();

}  // namespace
