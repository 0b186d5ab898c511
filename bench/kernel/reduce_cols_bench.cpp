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
// take turns over `sets` matrices, 256 MiB or more together. Counters: median, p10, p90 in us, and
// GB/s of the median, the matrix counted once.
#include <benchmark/benchmark.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce_cols.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/sample_launches.hpp"
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
      : rows_{rows}, cols_{cols} {
    pitch_ = (rows * cols * sizeof(T) + 255) / 256 * 256;
    sets_ = std::min<std::size_t>(std::max<std::size_t>(1, (std::size_t{256} << 20U) / pitch_), 64);
    room_bytes_ = (ew::reduce_cols_workspace_bytes(
                       {rows, cols}, ew::to(static_cast<float*>(nullptr)) = ew::sum(
                                         ew::in(static_cast<T const*>(nullptr), rows * cols))) +
                   (std::size_t{1} << 20U)) /
                  256 * 256;
    ww::check(cudaMalloc(&memory_, pitch_ * sets_ + room_bytes_ + cols * sizeof(float)),
              "cudaMalloc");
    for (std::size_t k = 0; k < sets_; ++k) {
      ew::run(stream, ew::out(writable(k), rows * cols) = ew::map(scattered{k}, ew::index()));
    }
    workspace_.push_back(ew::prepare_workspace(stream, room(), room_bytes_));
    stream.synchronize();
  }
  ~rotating_matrices() { ww::detail::discard(cudaFree(memory_)); }
  rotating_matrices(rotating_matrices const&) = delete;
  rotating_matrices& operator=(rotating_matrices const&) = delete;

  T const* matrix(std::size_t set) const { return writable(set); }
  float* out() const { return reinterpret_cast<float*>(room() + room_bytes_); }
  ew::reduction_workspace const& workspace() const { return workspace_[0]; }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t n() const { return rows_ * cols_; }
  std::size_t sets() const { return sets_; }
  std::size_t bytes() const { return n() * sizeof(T); }

 private:
  unsigned char* room() const { return static_cast<unsigned char*>(memory_) + pitch_ * sets_; }
  T* writable(std::size_t set) const {
    return reinterpret_cast<T*>(static_cast<unsigned char*>(memory_) + set * pitch_);
  }
  std::size_t rows_;
  std::size_t cols_;
  std::size_t pitch_ = 0;
  std::size_t sets_ = 0;
  std::size_t room_bytes_ = 0;
  void* memory_ = nullptr;
  std::vector<ew::reduction_workspace> workspace_;
};

template <class T>
bool is_right(rotating_matrices<T> const& a) {
  std::vector<T> const x = fetch(a.matrix(0), a.n());
  std::vector<float> const got = fetch(a.out(), a.cols());
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

template <class T, class Launch>
void measure(benchmark::State& state, Launch launch, bool check = true) {
  ww::stream s;
  rotating_matrices<T> a{s, static_cast<std::size_t>(state.range(0)),
                         static_cast<std::size_t>(state.range(1))};
  for (std::size_t k = std::min<std::size_t>(a.sets(), 20); k-- != 0;) launch(s, a, k);
  s.synchronize();
  if (check && !is_right(a)) {  // set 0 was the last
    state.SkipWithError("wrong results");
    return;
  }
  bench_support::sample_launches(state, s, a, 20, launch);
}

template <class T>
void warpwright_cols(benchmark::State& state) {
  measure<T>(state, [](ww::stream_ref s, rotating_matrices<T> const& a, std::size_t set) {
    ew::reduce_cols(s, a.workspace(), {a.rows(), a.cols()},
                    ew::to(a.out()) = ew::sum(ew::in(a.matrix(set), a.n())));
  });
}
template <class T>
void whole_sum(benchmark::State& state) {
  measure<T>(
      state,
      [](ww::stream_ref s, rotating_matrices<T> const& a, std::size_t set) {
        ew::reduce(s, a.workspace(), a.n(),
                   ew::to(a.out()) = ew::sum(ew::in(a.matrix(set), a.n())));
      },
      false);
}

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
template <class T>
void hand_written(benchmark::State& state) {
  measure<T>(state, [](ww::stream_ref s, rotating_matrices<T> const& a, std::size_t set) {
    ww::check(cudaMemsetAsync(a.out(), 0, a.cols() * sizeof(float), s.get()), "cudaMemsetAsync");
    dim3 const grid{static_cast<unsigned>((a.cols() + 31) / 32),
                    static_cast<unsigned>((a.rows() + 511) / 512)};
    column_strips<<<grid, dim3{32, 8}, 0, s.get()>>>(a.matrix(set), a.out(), a.rows(), a.cols());
    ww::check(cudaGetLastError(), "column_strips");
  });
}
constexpr int iterations = 15;
#else
constexpr int iterations = 2;  // shows that the program works, never a speed
#endif

void add_shapes(std::string const& name, void (*function)(benchmark::State&)) {
#if defined(__CUDACC__)
  for (auto const& shape : {std::pair<std::int64_t, std::int64_t>{65536, 1024},
                            {1048576, 64},
                            {4096, 16384},
                            {4194304, 16},
                            {65537, 1001},
                            {4096, 1024}}) {
#else
  for (auto const& shape : {std::pair<std::int64_t, std::int64_t>{600, 40}, {601, 41}}) {
#endif
    benchmark::RegisterBenchmark(name.c_str(), function)
        ->Args({shape.first, shape.second})
        ->Iterations(iterations)
        ->Repetitions(1)  // it reports the spread of its own samples
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
}
template <class T>
void add_type(std::string const& type) {
  add_shapes("column_sums_" + type + "/warpwright_ew", warpwright_cols<T>);
#if defined(__CUDACC__)
  add_shapes("column_sums_" + type + "/hand_written", hand_written<T>);
#endif
  add_shapes("column_sums_" + type + "/whole_sum", whole_sum<T>);
}

int const registered = [] {
  add_type<float>("f32");
  add_type<__nv_bfloat16>("bf16");
  return 0;
}();

}  // namespace
