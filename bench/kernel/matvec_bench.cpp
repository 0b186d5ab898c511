// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A matrix times a vector, as each layer of a decoder is: y = W x, W row by row; and the column of
// the largest element of each row, as sampling from logits needs it.
//
//   warpwright_ew  reduce_rows(sum(in(w) * row(x))), reduce_rows(argmax(in(w)))
//   hand_written   a block of 128 threads a row, loads of 16 bytes
//   cublas         cublasSgemv, or cublasGemmEx of one column
//   copy_of_same_traffic    cudaMemcpyAsync of half of the matrix, which moves as many bytes
//
// A name ends in /rows/cols: time is that of 20 launches between two events, divided by 20. They
// go through `sets` matrices, 256 MiB or more together; the samples of one shape are interleaved.
// Counters: median, p10, p90 in us, and GB/s of the median, the matrix counted once.
#include <benchmark/benchmark.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/interleaved.hpp"
#include "support/rotating_buffers.hpp"
#include "support/values.hpp"

#if defined(__CUDACC__)
#include <cublas_v2.h>
#endif

namespace ww = warpwright;
namespace ew = warpwright::ew;
using bench_support::fetch;
using bench_support::scattered;
using bench_support::to_float;

namespace {

template <class T>
class layers {
 public:
  layers(ww::stream_ref stream, std::size_t rows, std::size_t cols)
      : rows_{rows},
        cols_{cols},
        x_bytes_{bench_support::padded(cols * sizeof(T))},
        memory_{bench_support::padded(rows * cols * sizeof(T)),
                x_bytes_ + bench_support::padded(rows * sizeof(float)) + rows * cols * sizeof(T),
                {2, 64}} {
    for (std::size_t k = 0; k < sets(); ++k) {
      ew::run(stream, ew::out(writable(k), n()) = ew::map(scattered{k}, ew::index()));
    }
    ew::run(stream, ew::out(vector(), cols) = ew::map(scattered{99}, ew::index()));
    stream.synchronize();
  }
  T const* matrix(std::size_t set) const { return writable(set); }
  T* vector() const { return reinterpret_cast<T*>(memory_.shared()); }
  float* out() const { return reinterpret_cast<float*>(memory_.shared(x_bytes_)); }
  void* room() const {
    return memory_.shared(x_bytes_ + bench_support::padded(rows_ * sizeof(float)));
  }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t n() const { return rows_ * cols_; }
  std::size_t sets() const { return memory_.sets(); }
  std::size_t bytes() const { return n() * sizeof(T); }

 private:
  T* writable(std::size_t set) const { return reinterpret_cast<T*>(memory_.set(set)); }
  std::size_t rows_, cols_, x_bytes_;
  bench_support::rotating_buffers memory_;
};

// Compares the products of set 0 with fp64, and erases them.
template <class Y, class T>
bool is_right(layers<T> const& a) {
  std::vector<T> const w = fetch(a.matrix(0), a.n());
  std::vector<T> const x = fetch(static_cast<T const*>(a.vector()), a.cols());
  std::vector<Y> const got = fetch(reinterpret_cast<Y const*>(a.out()), a.rows());
  ww::check(cudaMemset(a.out(), 0xff, a.rows() * sizeof(float)), "cudaMemset");
  double const precision = sizeof(Y) == 2 ? 0x1p-8 : 0x1p-18;
  for (std::size_t r = 0; r < a.rows(); r += 1 + a.rows() / 500) {
    double sum = 0, magnitude = 0;
    for (std::size_t c = 0; c < a.cols(); ++c) {
      double const v =
          static_cast<double>(to_float(w[r * a.cols() + c])) * static_cast<double>(to_float(x[c]));
      sum += v;
      magnitude += std::fabs(v);
    }
    if (!(std::fabs(static_cast<double>(to_float(got[r])) - sum) <= precision * magnitude)) {
      return false;
    }
  }
  return true;
}

struct warpwright_matvec {
  template <class T>
  void operator()(ww::stream_ref s, layers<T> const& a, std::size_t set) const {
    ew::reduce_rows(
        s, {a.rows(), a.cols()},
        ew::to(a.out()) = ew::sum(ew::in(a.matrix(set), a.n()) * ew::row(a.vector(), a.cols())));
  }
};
struct warpwright_argmax {
  template <class T>
  void operator()(ww::stream_ref s, layers<T> const& a, std::size_t set) const {
    ew::reduce_rows(
        s, {a.rows(), a.cols()},
        ew::to(reinterpret_cast<int*>(a.out())) = ew::argmax(ew::in(a.matrix(set), a.n())));
  }
};
struct copy {
  template <class T>
  void operator()(ww::stream_ref s, layers<T> const& a, std::size_t set) const {
    ww::check(
        cudaMemcpyAsync(a.room(), a.matrix(set), a.bytes() / 2, cudaMemcpyDeviceToDevice, s.get()),
        "cudaMemcpyAsync");
  }
};

#if defined(__CUDACC__)
template <class T>
__global__ void block_a_row(T const* __restrict__ w, T const* __restrict__ x, float* y, int cols) {
  constexpr int n = 16 / sizeof(T);
  auto const* a = reinterpret_cast<uint4 const*>(w + std::size_t{blockIdx.x} * cols);
  auto const* b = reinterpret_cast<uint4 const*>(x);
  float sum = 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < cols / n; i += 128) {
    uint4 const p = __ldcs(a + i), q = b[i];
    T const* u = reinterpret_cast<T const*>(&p);
    T const* v = reinterpret_cast<T const*>(&q);
#pragma unroll
    for (int k = 0; k < n; ++k) sum += static_cast<float>(u[k]) * static_cast<float>(v[k]);
  }
#pragma unroll
  for (int d = 16; d != 0; d /= 2) sum += __shfl_down_sync(~0U, sum, d);
  __shared__ float of_warp[4];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = of_warp[0] + of_warp[1] + of_warp[2] + of_warp[3];
}
struct hand_written {
  template <class T>
  void operator()(ww::stream_ref s, layers<T> const& a, std::size_t set) const {
    block_a_row<<<static_cast<unsigned>(a.rows()), 128, 0, s.get()>>>(
        a.matrix(set), a.vector(), a.out(), static_cast<int>(a.cols()));
    ww::check(cudaGetLastError(), "block_a_row");
  }
};
struct cublas {
  cublasHandle_t handle = nullptr;
  cublas() {
    if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) throw std::runtime_error{"cublasCreate"};
  }
  template <class T>
  void operator()(ww::stream_ref s, layers<T> const& a, std::size_t set) const {
    int const rows = static_cast<int>(a.rows()), cols = static_cast<int>(a.cols());
    float const one = 1.0F, zero = 0.0F;
    cublasSetStream(handle, s.get());
    if constexpr (sizeof(T) == 4) {
      cublasSgemv(handle, CUBLAS_OP_T, cols, rows, &one, a.matrix(set), cols, a.vector(), 1, &zero,
                  a.out(), 1);
    } else {
      cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, rows, 1, cols, &one, a.matrix(set),
                   CUDA_R_16BF, cols, a.vector(), CUDA_R_16BF, cols, &zero, a.out(), CUDA_R_16BF,
                   rows, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    }
  }
};
constexpr std::int64_t shapes[][2] = {{512, 2048},   {2048, 2048},  {5632, 2048},  {2048, 5632},
                                      {4096, 4096},  {14336, 4096}, {4096, 14336}, {32000, 2048},
                                      {1024, 12288}, {10000, 3072}};
constexpr std::int64_t argmax_shapes[][2] = {{8, 128000}, {64, 32000}, {256, 131072}, {65536, 64}};
constexpr int samples = 15;
#else
// The host runtime: shows that the program works, never a speed.
constexpr std::int64_t shapes[][2] = {{60, 400}, {61, 41}};
constexpr std::int64_t argmax_shapes[][2] = {{3, 40000}};
constexpr int samples = 2;
#endif

// The columns of set 0's largest elements, as reduce_rows() found them.
template <class T>
bool are_largest(layers<T> const& a) {
  std::vector<T> const w = fetch(a.matrix(0), a.n());
  std::vector<int> const got = fetch(reinterpret_cast<int const*>(a.out()), a.rows());
  ww::check(cudaMemset(a.out(), 0xff, a.rows() * sizeof(float)), "cudaMemset");
  for (std::size_t r = 0; r < a.rows(); ++r) {
    auto const at = [&](std::size_t c) { return to_float(w[r * a.cols() + c]); };
    std::size_t most = 0;
    for (std::size_t c = 1; c < a.cols(); ++c) most = at(c) > at(most) ? c : most;
    if (got[r] != static_cast<int>(most)) return false;
  }
  return true;
}

template <class T>
void add_type(std::string const& type) {
  using matrices = layers<T>;
  auto const make = [](ww::stream_ref s, bench_support::shape const& of) {
    return std::make_unique<matrices>(s, static_cast<std::size_t>(of[0]),
                                      static_cast<std::size_t>(of[1]));
  };
  auto const all = std::make_shared<bench_support::interleaved<matrices>>(make);
  all->add("warpwright_ew", warpwright_matvec{}, is_right<float, T>);
#if defined(__CUDACC__)
  all->add("hand_written", hand_written{}, is_right<float, T>);
  all->add("cublas", cublas{}, is_right<T, T>);
#endif
  all->add("copy_of_same_traffic", copy{}, [](matrices const&) { return true; });
  auto const largest = std::make_shared<bench_support::interleaved<matrices>>(make);
  largest->add("warpwright_ew", warpwright_argmax{}, are_largest<T>);
  largest->add("copy_of_same_traffic", copy{}, [](matrices const&) { return true; });
  auto const sizes = [](auto const& of_all) {
    std::vector<bench_support::sampled_size> list;
    for (auto const& of : of_all) list.push_back({{of[0], of[1]}, 20, samples, false});
    return list;
  };
  bench_support::interleaved<matrices>::register_all(all, "matvec_" + type, sizes(shapes));
  bench_support::interleaved<matrices>::register_all(largest, "row_argmax_" + type,
                                                     sizes(argmax_shapes));
}

int const registered = [] {
  add_type<float>("f32");
  add_type<__nv_bfloat16>("bf16");
  return 0;
}();

}  // namespace
