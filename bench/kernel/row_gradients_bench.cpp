// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Passes over rows beside a copy of as many bytes.
//
//   layer_norm   dx, dgamma and dbeta of a layer norm   2 arrays read, 1 written
//   bias         a product and the sums of its columns   2 arrays read, 1 written
//   causal       softmax of rows of 1 to cols elements  1 array read, 1 written, half of each
//   full         softmax of whole rows                  1 array read, 1 written
//   copy_of_same_traffic  cudaMemcpyAsync of a matrix            1 array read, 1 written
//
// A name ends in /rows/cols: time is that of 20 launches between two events, divided by 20. They
// go through sets of matrices, 256 MiB or more together; the samples of one shape are interleaved.
#include <benchmark/benchmark.h>
#include <cuda_bf16.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/row_gradients.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/memory/pool.hpp>

#include <memory>
#include <string>
#include <vector>

#include "support/interleaved.hpp"
#include "support/rotating_buffers.hpp"
#include "support/values.hpp"

namespace ww = warpwright;
namespace ew = warpwright::ew;
using bench_support::scattered;

namespace {

template <class T>
class layers {
 public:
  layers(ww::stream_ref stream, std::size_t rows, std::size_t cols)
      : rows_{rows},
        cols_{cols},
        array_{bench_support::padded(rows * cols * sizeof(T))},
        statistic_{bench_support::padded(rows * sizeof(float))},
        parameter_{bench_support::padded(cols * sizeof(float))},
        memory_{3 * array_, 2 * statistic_ + 3 * parameter_, {2, 64}},
        pool_{ww::current_device(),
              ww::memory_pool_options{}.source(ww::memory_source::cuda_malloc)} {
    for (std::size_t k = 0; k < sets(); ++k) {
      for (std::size_t part = 0; part < 3; ++part) {
        ew::run(stream, ew::out(array(k, part), n()) = ew::map(scattered{k + part}, ew::index()));
      }
    }
    for (float* p : {mean(), rstd()}) ew::run(stream, ew::out(p, rows) = 0.5F);
    ew::run(stream, ew::out(gamma(), cols) = ew::map(scattered{99}, ew::index()));
    stream.synchronize();
  }
  T* array(std::size_t set, std::size_t part) const {
    return reinterpret_cast<T*>(memory_.set(set, part * array_));
  }
  float* mean() const { return reinterpret_cast<float*>(memory_.shared()); }
  float* rstd() const { return reinterpret_cast<float*>(memory_.shared(statistic_)); }
  float* gamma(std::size_t k = 0) const {
    return reinterpret_cast<float*>(memory_.shared(2 * statistic_ + k * parameter_));
  }
  ww::memory_pool& pool() const { return pool_; }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t n() const { return rows_ * cols_; }
  std::size_t sets() const { return memory_.sets(); }
  std::size_t bytes() const { return 0; }

 private:
  std::size_t rows_, cols_, array_, statistic_, parameter_;
  bench_support::rotating_buffers memory_;
  mutable ww::memory_pool pool_;
};

struct layer_norm {
  template <class T>
  void operator()(ww::stream_ref s, layers<T> const& a, std::size_t set) const {
    std::size_t const cols = a.cols();
    auto const g = ew::layer_norm_backward(ew::in(a.array(set, 0), a.n()),
                                           ew::in(a.array(set, 1), a.n()), ew::col(a.mean(), cols),
                                           ew::col(a.rstd(), cols), ew::row(a.gamma(), cols));
    ew::run_row_gradients(s, a.pool(), {a.rows(), cols}, ew::out(a.array(set, 2), a.n()) = g.dx(),
                          ew::to(a.gamma(1)) = g.dgamma(), ew::to(a.gamma(2)) = g.dbeta());
  }
};
struct bias {
  template <class T>
  void operator()(ww::stream_ref s, layers<T> const& a, std::size_t set) const {
    auto const dz = ew::once(ew::in(a.array(set, 0), a.n()) * ew::in(a.array(set, 1), a.n()));
    ew::run_row_gradients(s, a.pool(), {a.rows(), a.cols()}, ew::out(a.array(set, 2), a.n()) = dz,
                          ew::to(a.gamma(1)) = ew::column_sum(dz));
  }
};
struct causal {
  template <class T>
  void operator()(ww::stream_ref s, layers<T> const& a, std::size_t set) const {
    ew::run_rows(s, ew::causal({a.rows(), a.cols()}, a.cols()),
                 ew::out(a.array(set, 2), a.n()) = ew::softmax(ew::in(a.array(set, 0), a.n())));
  }
};
struct full {
  template <class T>
  void operator()(ww::stream_ref s, layers<T> const& a, std::size_t set) const {
    ew::run_rows(s, {a.rows(), a.cols()},
                 ew::out(a.array(set, 2), a.n()) = ew::softmax(ew::in(a.array(set, 0), a.n())));
  }
};
struct copy {
  template <class T>
  void operator()(ww::stream_ref s, layers<T> const& a, std::size_t set) const {
    ww::check(cudaMemcpyAsync(a.array(set, 2), a.array(set, 0), a.n() * sizeof(T),
                              cudaMemcpyDeviceToDevice, s.get()),
              "cudaMemcpyAsync");
  }
};

#if defined(__CUDACC__)
constexpr std::int64_t norm_shapes[][2] = {{1024, 256}, {8192, 768}, {8192, 4096}, {1024, 1024}};
constexpr std::int64_t causal_shapes[][2] = {{393216, 1024}};
constexpr int samples = 15;
#else
// The host runtime: shows that the program works, never a speed.
constexpr std::int64_t norm_shapes[][2] = {{60, 40}};
constexpr std::int64_t causal_shapes[][2] = {{80, 40}};
constexpr int samples = 2;
#endif

template <class T>
void add_type(std::string const& type) {
  using paths = bench_support::interleaved<layers<T>>;
  auto const make = [](ww::stream_ref s, bench_support::shape const& of) {
    return std::make_unique<layers<T>>(s, static_cast<std::size_t>(of[0]),
                                       static_cast<std::size_t>(of[1]));
  };
  auto const right = [](layers<T> const&) { return true; };  // tests/kernel compares with fp64
  auto const sizes = [](auto const& of_all) {
    std::vector<bench_support::sampled_size> list;
    for (auto const& of : of_all) list.push_back({{of[0], of[1]}, 20, samples, false});
    return list;
  };
  auto const norm = std::make_shared<paths>(make);
  norm->add("layer_norm", layer_norm{}, right);
  norm->add("bias", bias{}, right);
  norm->add("copy_of_same_traffic", copy{}, right);
  paths::register_all(norm, "backward_" + type, sizes(norm_shapes));
  auto const rows = std::make_shared<paths>(make);
  rows->add("causal", causal{}, right);
  rows->add("full", full{}, right);
  rows->add("copy_of_same_traffic", copy{}, right);
  paths::register_all(rows, "causal_" + type, sizes(causal_shapes));
}

int const registered = [] {
  add_type<float>("f32");
  add_type<__nv_bfloat16>("bf16");
  return 0;
}();

}  // namespace
