// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The k largest of each row, with their columns, as sampling from logits needs them.
//
//   cub_top_k             cub::DeviceBatchedTopK of CCCL 3.6, not sorted, of equal ones any;
//                         that of 3.5 takes shorter rows only
//   copy_of_same_traffic  cudaMemcpyAsync of half of the matrix, which moves as many bytes
//
// A name ends in /rows/cols/k; time is that of 20 launches between two events, divided by 20.
#include <benchmark/benchmark.h>
#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/top_k.hpp>
#include <warpwright/memory/pool.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "support/interleaved.hpp"
#include "support/rotating_buffers.hpp"
#include "support/values.hpp"

#if defined(__CUDACC__)
#include <cub/version.cuh>
#if CUB_VERSION >= 300600
#include <cub/device/device_batched_topk.cuh>
#include <cuda/argument>
#include <cuda/iterator>
#include <cuda/stream>
#endif
#endif

namespace ww = warpwright;
namespace ew = warpwright::ew;
using namespace bench_support;

namespace {

template <class T>
struct logits {
  static constexpr std::size_t temporary_bytes = std::size_t{64} << 20U;
  std::size_t rows, cols, k, n = rows * cols, part = padded(4 * rows * k);
  rotating_buffers memory{padded(bytes()), 2 * part + bytes() + temporary_bytes, {2, 64}};
  mutable ww::memory_pool pool{ww::current_device()};
  logits(ww::stream_ref s, std::vector<std::size_t> const& of)
      : rows{of[0]}, cols{of[1]}, k{of[2]} {
    for (std::size_t i = 0; i < sets(); ++i)
      ew::run(s, ew::out(x(i), n) = ew::map(scattered{i}, ew::index()));
    s.synchronize();
  }
  std::size_t sets() const { return memory.sets(); }
  std::size_t bytes() const { return n * sizeof(T); }
  T* x(std::size_t set) const { return reinterpret_cast<T*>(memory.set(set)); }
  T* values() const { return reinterpret_cast<T*>(memory.shared()); }
  int* indices() const { return reinterpret_cast<int*>(memory.shared(part)); }
  void* room() const { return memory.shared(2 * part); }
};

// Compares the results of set 0, in any order of each row, and erases them.
template <class T>
bool are_largest(logits<T> const& a) {
  auto const x = fetch<T>(a.x(0), a.n), values = fetch<T>(a.values(), a.rows * a.k);
  auto const indices = fetch<int>(a.indices(), a.rows * a.k);
  ww::check(cudaMemset(a.values(), 0xff, 2 * a.part), "cudaMemset");
  for (std::size_t r = 0; r < a.rows; ++r) {
    std::vector<float> row, got;
    for (std::size_t c = 0; c < a.cols; ++c) row.push_back(to_float(x[r * a.cols + c]));
    for (std::size_t i = r * a.k; i < (r + 1) * a.k; ++i) {
      got.push_back(to_float(values[i]));
      if (row.at(static_cast<std::size_t>(indices[i]) % a.cols) != got.back()) return false;
    }
    std::sort(row.rbegin(), row.rend());
    std::sort(got.rbegin(), got.rend());
    if (!std::equal(got.begin(), got.end(), row.begin())) return false;
  }
  return true;
}

template <class T>
void add_type(std::string const& type) {
  using bench = interleaved<logits<T>>;
  auto const all = std::make_shared<bench>([](ww::stream_ref s, shape const& of) {
    return std::make_unique<logits<T>>(s, std::vector<std::size_t>(of.begin(), of.end()));
  });
  auto const ours = [](ww::stream_ref s, logits<T> const& a, std::size_t set) {
    ew::top_k(s, a.pool, {a.rows, a.cols}, a.k, ew::in(a.x(set), a.n), a.values(), a.indices());
  };
  all->add("warpwright_ew", ours, are_largest<T>);
#if defined(__CUDACC__) && CUB_VERSION >= 300600
  auto const theirs = [](ww::stream_ref s, logits<T> const& a, std::size_t set) {
    std::size_t bytes = a.temporary_bytes;
    auto const rows = static_cast<std::int64_t>(a.rows);
    int const cols = static_cast<int>(a.cols), k = static_cast<int>(a.k);
    using namespace cuda;
    using namespace cuda::execution;
    auto const of_rows = [](auto* begin, int pitch) {
      return make_strided_iterator(make_counting_iterator(begin), pitch);
    };
    auto const any =
        require(determinism::not_guaranteed, tie_break::unspecified, output_ordering::unsorted);
    ww::check(cub::DeviceBatchedTopK::MaxPairs(
                  a.room(), bytes, of_rows(a.x(set), cols), of_rows(a.values(), k),
                  make_constant_iterator(make_counting_iterator(0)), of_rows(a.indices(), k),
                  args::immediate{cols, args::bounds<1, 131072>()},
                  args::immediate{k, args::bounds<1, 64>()}, args::immediate{rows},
                  cuda::std::execution::env{cuda::stream_ref{s.get()}, any}),
              "cub::DeviceBatchedTopK");
  };
  all->add("cub_top_k", theirs, are_largest<T>);
#endif
  auto const copy = [](ww::stream_ref s, logits<T> const& a, std::size_t set) {
    ww::check(cudaMemcpyAsync(a.room(), a.x(set), a.bytes() / 2, cudaMemcpyDefault, s.get()),
              "copy");
  };
  all->add("copy_of_same_traffic", copy, [](logits<T> const&) { return true; });
#if defined(__CUDACC__)
  int const samples = 15;
  std::vector<shape> const of{{8, 128000, 50}, {1, 128000, 50}, {64, 32000, 40}, {256, 128000, 50}};
#else
  int const samples = 2;  // shows that the program works
  std::vector<shape> const of{{3, 40000, 50}};
#endif
  for (auto const& s : of) bench::register_all(all, "top_k_" + type, {{s, 20, samples, false}});
}

int const registered = (add_type<float>("f32"), add_type<__nv_bfloat16>("bf16"), 0);

}  // namespace
