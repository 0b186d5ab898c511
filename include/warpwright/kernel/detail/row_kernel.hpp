// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of a pass over rows, and what stands for them on the host runtime.
#pragma once

#include <warpwright/kernel/detail/row_pass.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

#if defined(__CUDACC__)

// The threads of a row: of a warp, or of a block of `Most` at most.
template <class R, unsigned Most>
struct row_group {
  static constexpr unsigned warps = Most / row_warp_lanes;
  unsigned threads;
  R (*slots)[warps];
  unsigned turn = 0;

  // What all of them meet in, the same for each; twice at most, as there are two slots.
  template <class Meet>
  __device__ R all(R value, Meet meet, R none) {
    if (threads < row_warp_lanes) {
      for (unsigned apart_by = threads / 2; apart_by != 0; apart_by /= 2) {
        value = meet(value, __shfl_xor_sync(0xffffffffU, value, static_cast<int>(apart_by)));
      }
      return value;
    }
#pragma unroll
    for (unsigned apart_by = row_warp_lanes / 2; apart_by != 0; apart_by /= 2) {
      value = meet(value, __shfl_xor_sync(0xffffffffU, value, static_cast<int>(apart_by)));
    }
    if (threads == row_warp_lanes) return value;
    R* const slot = slots[turn];
    ++turn;
    unsigned const lane = threadIdx.x % row_warp_lanes;
    if (lane == 0) slot[threadIdx.x / row_warp_lanes] = value;
    __syncthreads();
    unsigned const other = lane % warps;
    value = other * row_warp_lanes < threads ? slot[other] : none;
#pragma unroll
    for (unsigned apart_by = warps / 2; apart_by != 0; apart_by /= 2) {
      value = meet(value, __shfl_xor_sync(0xffffffffU, value, static_cast<int>(apart_by)));
    }
    return value;
  }
};

// A row is kept in the registers of deal.threads threads of a block; rows that are none keep them
// company to the end. No loop over rows: it took the registers of a third of the threads.
template <class Pass>
__global__ void __launch_bounds__(most_row_threads, Pass::least_blocks)
    kept_rows_kernel(Pass const pass, row_deal const deal) {
  warpwright::detail::await_predecessors();
  using real = typename Pass::real;
  using kind = std::decay_t<decltype(pass.kind)>;
  using threads = row_group<real, most_row_threads>;
  __shared__ real slots[2][threads::warps];
  threads group{deal.threads, slots};
  unsigned const place = threadIdx.x >> deal.row_shift;
  unsigned const t = threadIdx.x - (place << deal.row_shift);
  std::uint64_t const row = std::uint64_t{blockIdx.x} * deal.rows_a_block + place;
  row_span s;
  if (row < deal.rows) s = deal.span<Pass::vector>(row);
  typename Pass::kept k;
  pass.take(k.x, deal, s, t);
  pass.take_edge(k.edge, s, t);
  warpwright::detail::release_successors();
  real center = 0;
  if constexpr (kind::is_centered) {
    center = pass.center(
        group.all(pass.met(k, deal, s, t), typename Pass::meets{}, kind::template none<real>()));
  }
  real const total = group.all(pass.total(k, deal, s, t, center), added{}, real{0});
  row_facts<real> const f = pass.facts(center, total);
  pass.give(k.x, f, deal, s, t);
  pass.give_edge(k.edge, f, s, t);
  if (t == 0 && row < deal.rows) pass.note(f, row);
}

template <class Pass>
struct long_rows_launch;

// A row that a block keeps in shared memory as far as deal.held says, and reads twice beyond.
template <class Pass>
__global__ void __launch_bounds__(Pass::long_threads, Pass::least_blocks)
    long_rows_kernel(Pass const pass, row_deal const deal) {
  warpwright::detail::await_predecessors();
  using real = typename Pass::real;
  using kind = std::decay_t<decltype(pass.kind)>;
  using threads = row_group<real, Pass::long_threads>;
  __shared__ real slots[2][threads::warps];
  threads group{deal.threads, slots};
  row_span const s = deal.span<Pass::vector>(blockIdx.x);
  extern __shared__ uint4 held_row[];
  typename Pass::hold const hold{reinterpret_cast<typename Pass::hold::word*>(held_row),
                                 deal.threads, threadIdx.x};
  real edge[1];
  typename Pass::running const seen = pass.seen(deal, s, threadIdx.x, hold, edge);
  warpwright::detail::release_successors();
  real center = 0;
  if constexpr (kind::is_centered) {
    center =
        pass.center(group.all(seen.met(), typename Pass::meets{}, kind::template none<real>()));
  }
  real const total = group.all(seen.total(center), added{}, real{0});
  row_facts<real> const f = pass.facts(center, total);
  pass.give_again(f, deal, s, threadIdx.x, hold, edge);
  if (threadIdx.x == 0) pass.note(f, blockIdx.x);
}

#elif WARPWRIGHT_HOST_RUNTIME

template <class Pass>
struct function_of_rows_body {
  Pass pass;
  row_deal deal;
  row_form form;
  void operator()(std::uint64_t begin, std::uint64_t end) const {
    for (std::uint64_t row = begin; row < end; ++row) pass.run_row(deal, form, row);
  }
};

#endif

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
