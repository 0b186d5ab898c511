// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The sum of each column of a row-major matrix, as the gradient of a bias is.
//
//   warpwright_ew  reduce_cols
//   hand_written   a thread a column and 64 rows, added by atomics into zeroed results
//   whole_sum      ew::reduce of all elements: what reading the matrix takes
//
// A name ends in /rows/cols: time is that of 20 launches between two events, divided by 20. They
// go through `sets` matrices, 256 MiB or more together; the samples of one shape are interleaved.
// Counters: median, p10, p90 in us, and GB/s of the median, the matrix counted once.
#include <benchmark/benchmark.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>

#include <algorithm>
#include <cmath>
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
using bench_support::to_float;

namespace {

template <class T>
class rotating_matrices {
 public:
  rotating_matrices(ww::stream_ref stream, std::size_t rows, std::size_t cols)
      : rows_{rows},
        cols_{cols},
        room_bytes_{(ew::reduce_cols_workspace_bytes(
                         {rows, cols}, ew::to(static_cast<float*>(nullptr)) = ew::sum(
                                           ew::in(static_cast<T const*>(nullptr), rows * cols))) +
                     (std::size_t{1} << 20U)) /
                    256 * 256},
        memory_{bench_support::padded(rows * cols * sizeof(T)),
                room_bytes_ + cols * sizeof(float),
                {1, 64}} {
    for (std::size_t k = 0; k < sets(); ++k) {
      ew::run(stream, ew::out(writable(k), rows * cols) = ew::map(scattered{k}, ew::index()));
    }
    workspace_.push_back(ew::prepare_workspace(stream, room(), room_bytes_));
    stream.synchronize();
  }

  T const* matrix(std::size_t set) const { return writable(set); }
  float* out() const { return reinterpret_cast<float*>(room() + room_bytes_); }
  ew::reduction_workspace const& workspace() const { return workspace_[0]; }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t n() const { return rows_ * cols_; }
  std::size_t sets() const { return memory_.sets(); }
  std::size_t bytes() const { return n() * sizeof(T); }

 private:
  unsigned char* room() const { return memory_.shared(); }
  T* writable(std::size_t set) const { return reinterpret_cast<T*>(memory_.set(set)); }
  std::size_t rows_;
  std::size_t cols_;
  std::size_t room_bytes_;
  bench_support::rotating_buffers memory_;
  std::vector<ew::reduction_workspace> workspace_;
};

// Compares all sums of set 0 with fp64, and erases them.
template <class T>
bool is_right(rotating_matrices<T> const& a) {
  std::vector<T> const x = fetch(a.matrix(0), a.n());
  std::vector<float> const got = fetch(a.out(), a.cols());
  ww::check(cudaMemset(a.out(), 0xff, a.cols() * sizeof(float)), "cudaMemset");
  std::vector<double> sums(a.cols()), magnitudes(a.cols());
  for (std::size_t i = 0; i < a.n(); ++i) {
    double const v = static_cast<double>(to_float(x[i]));
    sums[i % a.cols()] += v;
    magnitudes[i % a.cols()] += std::fabs(v);
  }
  for (std::size_t c = 0; c < a.cols(); ++c) {
    if (!(std::fabs(static_cast<double>(got[c]) - sums[c]) <= 1e-5 * magnitudes[c] + 1e-12)) {
      return false;
    }
  }
  return true;
}

struct warpwright_cols {
  template <class T>
  void operator()(ww::stream_ref s, rotating_matrices<T> const& a, std::size_t set) const {
    ew::reduce_cols(s, a.workspace(), {a.rows(), a.cols()},
                    ew::to(a.out()) = ew::sum(ew::in(a.matrix(set), a.n())));
  }
};
struct whole_sum {
  template <class T>
  void operator()(ww::stream_ref s, rotating_matrices<T> const& a, std::size_t set) const {
    ew::reduce(s, a.workspace(), a.n(), ew::to(a.out()) = ew::sum(ew::in(a.matrix(set), a.n())));
  }
};

#if defined(__CUDACC__)
template <class T>
__global__ void column_strips(T const* x, float* out, std::size_t rows, std::size_t cols) {
  std::size_t const c = std::size_t{blockIdx.x} * 32 + threadIdx.x;
  std::size_t const first = std::size_t{blockIdx.y} * 512 + threadIdx.y;
  if (c >= cols) return;
  float sum = 0;
#pragma unroll 8
  for (std::size_t k = 0; k < 64; ++k) {
    std::size_t const r = first + k * 8;
    if (r < rows) sum += to_float(x[r * cols + c]);
  }
  atomicAdd(out + c, sum);
}
struct hand_written {
  template <class T>
  void operator()(ww::stream_ref s, rotating_matrices<T> const& a, std::size_t set) const {
    ww::check(cudaMemsetAsync(a.out(), 0, a.cols() * sizeof(float), s.get()), "cudaMemsetAsync");
    dim3 const grid{static_cast<unsigned>((a.cols() + 31) / 32),
                    static_cast<unsigned>((a.rows() + 511) / 512)};
    column_strips<<<grid, dim3{32, 8}, 0, s.get()>>>(a.matrix(set), a.out(), a.rows(), a.cols());
    ww::check(cudaGetLastError(), "column_strips");
  }
};
constexpr std::int64_t shapes[][2] = {{65536, 1024}, {1048576, 64}, {4096, 16384},
                                      {4194304, 16}, {65537, 1001}, {4096, 1024}};
constexpr int samples = 15;
#else
// The host runtime: shows that the program works, never a speed.
constexpr std::int64_t shapes[][2] = {{600, 40}, {601, 41}};
constexpr int samples = 2;
#endif

template <class T>
void add_type(std::string const& type) {
  using matrices = rotating_matrices<T>;
  auto const all = std::make_shared<bench_support::interleaved<matrices>>(
      [](ww::stream_ref s, bench_support::shape const& of) {
        return std::make_unique<matrices>(s, static_cast<std::size_t>(of[0]),
                                          static_cast<std::size_t>(of[1]));
      });
  all->add("warpwright_ew", warpwright_cols{}, is_right<T>);
#if defined(__CUDACC__)
  all->add("hand_written", hand_written{}, is_right<T>);
#endif
  all->add("whole_sum", whole_sum{}, [](matrices const&) { return true; });
  std::vector<bench_support::sampled_size> sizes;
  for (auto const& of : shapes) sizes.push_back({{of[0], of[1]}, 20, samples, false});
  bench_support::interleaved<matrices>::register_all(all, "column_sums_" + type, sizes);
}

int const registered = [] {
  add_type<float>("f32");
  add_type<__nv_bfloat16>("bf16");
  return 0;
}();

}  // namespace
