// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions of rows beside a copy of the same traffic and a plain kernel written by hand.
//
//   softmax     softmax of each row                                1 array read, 1 written
//   layer_norm  layer norm of each row, with scale and shift       1 array read, 1 written
//   rms_norm    RMS norm of each row, with a scale                 1 array read, 1 written
//   residual    the sum of two arrays, stored, and its RMS norm    2 arrays read, 2 written
//   copy        cudaMemcpyAsync of a matrix                        1 array read, 1 written
//
// A name ends in /rows/cols. Launches go through sets of matrices, 256 MiB or more together, so
// that none is found in L2; time is that of 20 launches between two events, divided by 20. The
// samples of one function and shape are interleaved. Counters: median, p10, p90 of a launch in us,
// and GB/s of the median, every matrix counted once and scale and shift not at all.
#include <benchmark/benchmark.h>
#include <cuda_bf16.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/rows.hpp>

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
using bench_support::from_float;
using bench_support::scattered;
using bench_support::to_float;

namespace {

constexpr double eps = 1e-5;

// `sets` sets of matrices, those that are read before those that are written, and a scale and a
// shift.
template <class T>
class rotating_matrices {
 public:
  rotating_matrices(ww::stream_ref stream, std::size_t rows, std::size_t cols, std::size_t read)
      : rows_{rows},
        cols_{cols},
        read_{read},
        pitch_{bench_support::padded(n() * sizeof(T))},
        memory_{2 * read * pitch_, 2 * row_pitch(), {2, 64}} {
    for (std::size_t k = 0; k < 2 * read * sets(); ++k) {
      ew::run(stream, ew::out(matrix(k / (2 * read), k % (2 * read)), n()) =
                          ew::map(scattered{k * 1000003}, ew::index()) * 4);
    }
    ew::run(stream, ew::out(scale(), cols) = ew::map(scattered{17}, ew::index()) + 2);
    ew::run(stream, ew::out(shift(), cols) = ew::map(scattered{19}, ew::index()));
    stream.synchronize();
  }

  T const* in(std::size_t set, std::size_t which) const { return matrix(set, which); }
  T* out(std::size_t set, std::size_t which) const { return matrix(set, read_ + which); }
  T* scale() const { return reinterpret_cast<T*>(memory_.shared()); }
  T* shift() const { return reinterpret_cast<T*>(memory_.shared(row_pitch())); }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t n() const { return rows_ * cols_; }
  std::size_t read() const { return read_; }
  std::size_t sets() const { return memory_.sets(); }
  std::size_t bytes() const { return 2 * read_ * n() * sizeof(T); }

 private:
  std::size_t row_pitch() const { return bench_support::padded(cols_ * sizeof(T)); }
  T* matrix(std::size_t set, std::size_t which) const {
    return reinterpret_cast<T*>(memory_.set(set, which * pitch_));
  }
  std::size_t rows_;
  std::size_t cols_;
  std::size_t read_;
  std::size_t pitch_;
  bench_support::rotating_buffers memory_;
};

enum class function { copy, softmax, layer_norm, rms_norm };

// Whether the first, a middle and the last row of set 0 are what fp64 says.
template <class T>
bool rows_are_right(rotating_matrices<T> const& m, function f) {
  std::size_t const cols = m.cols();
  auto const scale = fetch(m.scale(), cols);
  auto const shift = fetch(m.shift(), cols);
  double const ulp = sizeof(T) == 2 ? 0x1p-7 : 1e-5;
  for (std::size_t const row : {std::size_t{0}, m.rows() / 2, m.rows() - 1}) {
    std::vector<double> x(cols, 0.0);
    for (std::size_t k = 0; k < m.read(); ++k) {
      auto const part = fetch(m.in(0, k) + row * cols, cols);
      for (std::size_t c = 0; c < cols; ++c) x[c] += static_cast<double>(to_float(part[c]));
    }
    auto const y = fetch(m.out(0, m.read() - 1) + row * cols, cols);
    auto const stored = fetch(m.out(0, 0) + row * cols, cols);
    double mean = 0, square = 0, most = -1e300, total = 0;
    for (double const v : x) mean += v / static_cast<double>(cols), most = std::max(most, v);
    for (double const v : x) {
      double const d = f == function::layer_norm ? v - mean : v;
      square += d * d / static_cast<double>(cols);
      total += std::exp(v - most);
    }
    double const rstd = 1 / std::sqrt(square + eps);
    for (std::size_t c = 0; c < cols; ++c) {
      double const g = static_cast<double>(to_float(scale[c]));
      double const b = static_cast<double>(to_float(shift[c]));
      double const want = f == function::copy         ? x[c]
                          : f == function::softmax    ? std::exp(x[c] - most) / total
                          : f == function::layer_norm ? (x[c] - mean) * rstd * g + b
                                                      : x[c] * rstd * g;
      double const got = static_cast<double>(to_float(y[c]));
      double const slack = f == function::softmax ? ulp * want : ulp * (1 + std::fabs(want));
      if (!(std::fabs(got - want) <= slack)) return false;
      if (m.read() == 2 && !(std::fabs(static_cast<double>(to_float(stored[c])) - x[c]) <=
                             ulp * (1 + std::fabs(x[c])))) {
        return false;
      }
    }
  }
  return true;
}

// The same, and erases the outputs of set 0.
template <class T>
bool is_right(rotating_matrices<T> const& m, function f) {
  bool const right = rows_are_right(m, f);
  for (std::size_t k = 0; k < m.read(); ++k) {
    ww::check(cudaMemset(static_cast<void*>(m.out(0, k)), 0xff, m.n() * sizeof(T)), "cudaMemset");
  }
  return right;
}

struct copied {
  template <class T>
  void operator()(ww::stream_ref s, rotating_matrices<T> const& m, std::size_t set) const {
    ww::check(cudaMemcpyAsync(static_cast<void*>(m.out(set, 0)), m.in(set, 0), m.n() * sizeof(T),
                              cudaMemcpyDeviceToDevice, s.get()),
              "cudaMemcpyAsync");
  }
};

// ---- Our path ----

struct warpwright_softmax {
  template <class T>
  void operator()(ww::stream_ref s, rotating_matrices<T> const& m, std::size_t set) const {
    ew::run_rows(s, {m.rows(), m.cols()},
                 ew::out(m.out(set, 0), m.n()) = ew::softmax(ew::in(m.in(set, 0), m.n())));
  }
};
struct warpwright_layer_norm {
  template <class T>
  void operator()(ww::stream_ref s, rotating_matrices<T> const& m, std::size_t set) const {
    ew::run_rows(s, {m.rows(), m.cols()},
                 ew::out(m.out(set, 0), m.n()) = ew::layer_norm(ew::in(m.in(set, 0), m.n()), eps) *
                                                     ew::row(m.scale(), m.cols()) +
                                                 ew::row(m.shift(), m.cols()));
  }
};
struct warpwright_rms_norm {
  template <class T>
  void operator()(ww::stream_ref s, rotating_matrices<T> const& m, std::size_t set) const {
    ew::run_rows(s, {m.rows(), m.cols()},
                 ew::out(m.out(set, 0), m.n()) =
                     ew::rms_norm(ew::in(m.in(set, 0), m.n()), eps) * ew::row(m.scale(), m.cols()));
  }
};
struct warpwright_residual {
  template <class T>
  void operator()(ww::stream_ref s, rotating_matrices<T> const& m, std::size_t set) const {
    auto const norm = ew::rms_norm(ew::in(m.in(set, 0), m.n()) + ew::in(m.in(set, 1), m.n()), eps);
    ew::run_rows(s, {m.rows(), m.cols()}, ew::out(m.out(set, 0), m.n()) = norm.input(),
                 ew::out(m.out(set, 1), m.n()) = norm * ew::row(m.scale(), m.cols()));
  }
};

// ---- The peer ----

#if defined(__CUDACC__)

constexpr unsigned plain_threads = 256;

template <bool Most>
__device__ float of_block(float value) {
  __shared__ float part[plain_threads / 32];
  for (int by = 16; by != 0; by /= 2) {
    float const other = __shfl_xor_sync(0xffffffffU, value, by);
    value = Most ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  value = part[0];
  for (unsigned k = 1; k < plain_threads / 32; ++k) {
    value = Most ? fmaxf(value, part[k]) : value + part[k];
  }
  return value;
}

// The straightforward kernel: a block a row, an element a thread and iteration, three loops.
template <class T, function F>
__global__ void __launch_bounds__(plain_threads)
    plain_kernel(T* y, T const* x, T const* scale, T const* shift, std::size_t cols) {
  y += blockIdx.x * cols;
  x += blockIdx.x * cols;
  float center = 0.0F;
  if constexpr (F == function::softmax) {
    float most = -INFINITY;
    for (std::size_t c = threadIdx.x; c < cols; c += plain_threads) {
      most = fmaxf(most, to_float(x[c]));
    }
    center = of_block<true>(most);
  } else if constexpr (F == function::layer_norm) {
    float sum = 0.0F;
    for (std::size_t c = threadIdx.x; c < cols; c += plain_threads) sum += to_float(x[c]);
    center = of_block<false>(sum) / static_cast<float>(cols);
  }
  float total = 0.0F;
  for (std::size_t c = threadIdx.x; c < cols; c += plain_threads) {
    float const d = to_float(x[c]) - center;
    total += F == function::softmax ? expf(d) : d * d;
  }
  total = of_block<false>(total);
  float const factor = F == function::softmax
                           ? 1.0F / total
                           : rsqrtf(total / static_cast<float>(cols) + static_cast<float>(eps));
  for (std::size_t c = threadIdx.x; c < cols; c += plain_threads) {
    float const d = to_float(x[c]) - center;
    float v = F == function::softmax ? expf(d) * factor : d * factor * to_float(scale[c]);
    if constexpr (F == function::layer_norm) v += to_float(shift[c]);
    y[c] = from_float<T>(v);
  }
}
template <function F>
struct plain {
  template <class T>
  void operator()(ww::stream_ref s, rotating_matrices<T> const& m, std::size_t set) const {
    plain_kernel<T, F><<<static_cast<unsigned>(m.rows()), plain_threads, 0, s.get()>>>(
        m.out(set, 0), m.in(set, 0), m.scale(), m.shift(), m.cols());
    ww::check(cudaGetLastError(), "plain_kernel");
  }
};

constexpr std::int64_t shapes[][2] = {{4096, 4096},  {16384, 1024}, {1024, 32768}, {4096, 8192},
                                      {1024, 50257}, {131072, 128}, {2048, 16384}, {512, 65536},
                                      {256, 131072}, {256, 32768},  {32, 8192},    {4, 128000}};
constexpr int samples = 60;
#else
// The host runtime: shows that the program works, never a speed.
constexpr std::int64_t shapes[][2] = {{16, 64}, {4, 1000}};
constexpr int samples = 2;
#endif

template <class T>
using paths = bench_support::interleaved<rotating_matrices<T>>;

template <class T>
std::shared_ptr<paths<T>> over(std::size_t read) {
  return std::make_shared<paths<T>>([read](ww::stream_ref s, bench_support::shape const& of) {
    return std::make_unique<rotating_matrices<T>>(s, static_cast<std::size_t>(of[0]),
                                                  static_cast<std::size_t>(of[1]), read);
  });
}
template <class T, class Launch>
void add_path(paths<T>& all, char const* name, function f, Launch launch) {
  all.add(name, launch, [f](rotating_matrices<T> const& m) { return is_right(m, f); });
}
template <class T>
void add_shapes(std::string const& name, std::shared_ptr<paths<T>> const& all) {
  std::vector<bench_support::sampled_size> sizes;
  for (auto const& of : shapes) sizes.push_back({{of[0], of[1]}, 20, samples, false});
  paths<T>::register_all(all, name, sizes);
}

template <class T>
void add_type(std::string const& type) {
  auto const copy = over<T>(1);
  auto const softmax = over<T>(1);
  auto const layer_norm = over<T>(1);
  auto const rms_norm = over<T>(1);
  auto const residual = over<T>(2);
  add_path(*copy, "cuda_memcpy", function::copy, copied{});
  add_path(*softmax, "warpwright_ew", function::softmax, warpwright_softmax{});
  add_path(*layer_norm, "warpwright_ew", function::layer_norm, warpwright_layer_norm{});
  add_path(*rms_norm, "warpwright_ew", function::rms_norm, warpwright_rms_norm{});
  add_path(*residual, "warpwright_ew", function::rms_norm, warpwright_residual{});
#if defined(__CUDACC__)
  add_path(*softmax, "plain_kernel", function::softmax, plain<function::softmax>{});
  add_path(*layer_norm, "plain_kernel", function::layer_norm, plain<function::layer_norm>{});
  add_path(*rms_norm, "plain_kernel", function::rms_norm, plain<function::rms_norm>{});
#endif
  add_shapes("copy_" + type, copy);
  add_shapes("softmax_" + type, softmax);
  add_shapes("layer_norm_" + type, layer_norm);
  add_shapes("rms_norm_" + type, rms_norm);
  add_shapes("residual_" + type, residual);
}

int const registered = [] {
  add_type<float>("f32");
  add_type<__nv_bfloat16>("bf16");
  return 0;
}();

}  // namespace
