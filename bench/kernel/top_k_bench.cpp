// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The k largest of each row, with their columns, as sampling from logits needs them.
//
//   cub_top_k             cub::DeviceBatchedTopK, not sorted, of equal ones any; from CCCL 3.6 on:
//                         that of 3.5 takes only rows that a block holds
//   cub_top_k_per_row     cub::DeviceTopK, a call a row, likewise; from CCCL 3.5 on
//   copy_of_same_traffic  cudaMemcpyAsync of half of the matrix, which moves as many bytes
//
// A name ends in /rows/cols/k; time is that of 20 launches between two events, divided by 20.
#include <benchmark/benchmark.h>
#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/top_k.hpp>
#include <warpwright/memory/pool.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/interleaved.hpp"
#include "support/rotating_buffers.hpp"
#include "support/values.hpp"

#if defined(__CUDACC__)
#include <cub/version.cuh>
#if CUB_VERSION >= 300500
#include <cub/device/device_batched_topk.cuh>
#include <cub/device/device_topk.cuh>
#include <cuda/argument>
#include <cuda/iterator>
#include <cuda/stream>
#endif
#endif

namespace ww = warpwright;
namespace ew = warpwright::ew;
using bench_support::fetch;
using bench_support::padded;
using bench_support::to_float;

namespace {

constexpr std::size_t temporary_bytes = std::size_t{64} << 20U;

template <class T>
struct logits {
  std::size_t rows, cols, k;
  bench_support::rotating_buffers memory;
  mutable ww::memory_pool pool{ww::current_device()};

  logits(ww::stream_ref s, std::vector<std::size_t> const& of)
      : rows{of[0]},
        cols{of[1]},
        k{of[2]},
        memory{padded(bytes()), 3 * padded(rows * k * 4) + bytes() + temporary_bytes, {2, 64}} {
    for (std::size_t set = 0; set < sets(); ++set) {
      ew::run(s, ew::out(x(set), n()) = ew::map(bench_support::scattered{set}, ew::index()));
    }
    s.synchronize();
  }
  std::size_t n() const { return rows * cols; }
  std::size_t sets() const { return memory.sets(); }
  std::size_t bytes() const { return n() * sizeof(T); }
  T* x(std::size_t set) const { return reinterpret_cast<T*>(memory.set(set)); }
  T* values() const { return reinterpret_cast<T*>(memory.shared()); }
  int* indices() const { return reinterpret_cast<int*>(memory.shared(padded(rows * k * 4))); }
  void* room() const { return memory.shared(2 * padded(rows * k * 4)); }
};

// Compares the results of set 0, in any order of each row, and erases them.
template <class T>
bool are_largest(logits<T> const& a) {
  auto const x = fetch<T>(a.x(0), a.n()), values = fetch<T>(a.values(), a.rows * a.k);
  auto const indices = fetch<int>(a.indices(), a.rows * a.k);
  ww::check(cudaMemset(a.values(), 0xff, 2 * padded(a.rows * a.k * 4)), "cudaMemset");
  for (std::size_t i = 0; i < a.rows * a.k; i += a.k) {
    std::vector<float> row, got;
    for (std::size_t c = 0; c < a.cols; ++c) row.push_back(to_float(x[i / a.k * a.cols + c]));
    for (std::size_t j = i; j < i + a.k; ++j) {
      got.push_back(to_float(values[j]));
      if (!(row.at(static_cast<std::size_t>(indices[j]) % a.cols) == got.back())) return false;
    }
    std::sort(row.begin(), row.end(), std::greater<float>{});
    std::sort(got.begin(), got.end(), std::greater<float>{});
    if (!std::equal(got.begin(), got.end(), row.begin())) return false;
  }
  return true;
}

#if defined(__CUDACC__) && CUB_VERSION >= 300500
auto environment(ww::stream_ref s) {
  namespace ex = cuda::execution;
  return cuda::std::execution::env{
      cuda::stream_ref{s.get()},
      ex::require(ex::determinism::not_guaranteed, ex::tie_break::unspecified,
                  ex::output_ordering::unsorted)};
}
struct cub_per_row {
  template <class T>
  void operator()(ww::stream_ref s, logits<T> const& a, std::size_t set) const {
    for (std::size_t r = 0; r < a.rows; ++r) {
      std::size_t bytes = temporary_bytes;
      ww::check(cub::DeviceTopK::MaxPairs(a.room(), bytes, a.x(set) + r * a.cols,
                                          a.values() + r * a.k, cuda::make_counting_iterator(0),
                                          a.indices() + r * a.k, static_cast<int>(a.cols),
                                          static_cast<int>(a.k), environment(s)),
                "cub::DeviceTopK");
    }
  }
};
struct cub_batched {
  template <class T>
  void operator()(ww::stream_ref s, logits<T> const& a, std::size_t set) const {
    namespace args = cuda::args;
    auto const rows_of = [](auto* begin, std::size_t pitch) {
      return cuda::make_strided_iterator(cuda::make_counting_iterator(begin),
                                         static_cast<int>(pitch));
    };
    std::size_t bytes = temporary_bytes;
    ww::check(cub::DeviceBatchedTopK::MaxPairs(
                  a.room(), bytes, rows_of(a.x(set), a.cols), rows_of(a.values(), a.k),
                  cuda::make_constant_iterator(cuda::make_counting_iterator(0)),
                  rows_of(a.indices(), a.k),
                  args::immediate{static_cast<int>(a.cols), args::bounds<1, 131072>()},
                  args::immediate{static_cast<int>(a.k), args::bounds<1, 64>()},
                  args::immediate{static_cast<std::int64_t>(a.rows)}, environment(s)),
              "cub::DeviceBatchedTopK");
  }
};
#endif

template <class T>
void add_type(std::string const& type) {
  using matrices = logits<T>;
  using bench = bench_support::interleaved<matrices>;
  auto const all = std::make_shared<bench>([](ww::stream_ref s, bench_support::shape const& of) {
    return std::make_unique<matrices>(s, std::vector<std::size_t>(of.begin(), of.end()));
  });
  auto const ours = [](ww::stream_ref s, matrices const& a, std::size_t set) {
    ew::top_k(s, a.pool, {a.rows, a.cols}, a.k, ew::in(a.x(set), a.n()), a.values(), a.indices());
  };
  all->add("warpwright_ew", ours, are_largest<T>);
#if defined(__CUDACC__) && CUB_VERSION >= 300500
  all->add("cub_top_k_per_row", cub_per_row{}, are_largest<T>);
#if CUB_VERSION >= 300600
  all->add("cub_top_k", cub_batched{}, are_largest<T>);
#endif
#endif
  auto const copy = [](ww::stream_ref s, matrices const& a, std::size_t set) {
    ww::check(cudaMemcpyAsync(a.room(), a.x(set), a.bytes() / 2, cudaMemcpyDefault, s.get()),
              "cudaMemcpyAsync");
  };
  all->add("copy_of_same_traffic", copy, [](matrices const&) { return true; });
  std::vector<bench_support::sampled_size> sizes;
#if defined(__CUDACC__)
  for (auto const& of :
       {bench_support::shape{8, 128000, 50}, {1, 128000, 50}, {64, 32000, 40}, {256, 128000, 50}}) {
    sizes.push_back({of, 20, 15, false});
  }
#else
  sizes.push_back({{3, 40000, 50}, 20, 2, false});  // shows that the program works
#endif
  bench::register_all(all, "top_k_" + type, sizes);
}

int const registered = [] {
  add_type<float>("f32");
  add_type<__nv_bfloat16>("bf16");
  return 0;
}();

}  // namespace
