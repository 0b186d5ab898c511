// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Evaluates an assignment by tiles: everything but one view is loaded in the order of the output,
// as in any kernel; that view comes through shared memory.
#pragma once

#include <warpwright/kernel/detail/tile_plan.hpp>
#include <warpwright/kernel/detail/view_node.hpp>
#include <warpwright/kernel/evaluate.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

template <class T, class E, class Place>
struct views_below<fused_part<T, E, Place>> : views_below_counts<E> {
  template <class Show>
  static void each(fused_part<T, E, Place>& part, Show& show) {
    views_below<E>::each(part.expression, show);
  }
  template <int V, bool Alone, class Registers>
  WARPWRIGHT_HOST_DEVICE static void fill(fused_part<T, E, Place> const& part, Registers& r,
                                          tile_cursor const& c) {
    views_below<E>::template fill<V, Alone>(part.expression, r, c);
  }
};

// Marks the first view that tiles can bring, and plans these.
struct tile_search {
  operand const* all;
  unsigned vector;
  int at = 0;  // the view's place among the operands
  tile_job job{};

  template <class T, int Rank>
  void operator()(view_input<T, Rank>& view) {
    if (job.tiles != 0) return;
    do ++at;
    while (!all[at].shaped);
    if constexpr (view_input<T, Rank>::fits_tiles) {
      job = make_tile_job(view.map.of, view.map.count, all[at].element_bytes, all[0].element_bytes,
                          reinterpret_cast<std::uintptr_t>(view.data), vector);
      view.staged = job.tiles != 0;
    }
  }
};

// Bit k: operand k can be moved by vectors from element 0 on. Bits of no operand are set.
constexpr std::uint64_t suited(operand const* all, int count, unsigned vector) {
  std::uint64_t wide = ~std::uint64_t{0};
  for (int k = 0; k < count; ++k) {
    if (!is_wide(all[k], 0, vector)) wide &= ~(std::uint64_t{1} << static_cast<unsigned>(k));
  }
  return wide;
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// @param f    the view that is to come by tiles is marked in it
/// @param all  its operands, as fused::describe() lists them
template <class... A>
tile_search search_tiles(fused<A...>& f, operand const* all) {
  tile_search search{all, static_cast<unsigned>(fused<A...>::vector)};
  if constexpr (fused<A...>::strided) {
    std::uint64_t const gapped = fused<A...>::outputs_with_gaps(all);
    if ((suited(all, fused<A...>::operands, search.vector) & gapped) != gapped) search.vector = 1;
  }
  using parts = views_below_all<part_t<A>...>;
  parts::each(f.parts, search, typename parts::indices{});
  search.job.wide = ~std::uint64_t{0};
  if (search.job.vectors) search.job.wide = suited(all, fused<A...>::operands, search.vector);
  return search;
}

template <class... A>
tile_summary summarize_tiles(fused<A...> f, operand const* all) {
  tile_search const search = search_tiles(f, all);
  tile_summary s;
  s.blocks = search.job.tiles;
  s.threads = tile_threads;
  s.columns = search.job.tile_x;
  s.rows = search.job.tile_y;
  s.view = search.at;
  s.vectors = search.job.vectors;
  s.wide = search.job.wide;
  return s;
}

template <int V, class... Part>
struct fill_from_tile {
  tile_cursor cursor;
  template <class Registers>
  WARPWRIGHT_HOST_DEVICE void operator()(pack<Part...> const& parts, Registers& r) const {
    using all = views_below_all<Part...>;
    all::template fill<V, all::fitting == 1>(parts, r, cursor, typename all::indices{});
  }
};

template <class Fused>
struct write_tile;
template <class... A>
struct write_tile<fused<A...>> {
  using views = views_below_all<part_t<A>...>;
  fused<A...> const& f;
  std::uint64_t wide;
  template <int V>
  WARPWRIGHT_HOST_DEVICE void operator()(std::integral_constant<int, V>, std::uint64_t i,
                                         tile_cursor const& cursor) const {
    f.template vector_with<V>(tile_place<views::fitting == 1>{i}, wide,
                              fill_from_tile<V, part_t<A>...>{cursor});
  }
};

#if defined(__CUDACC__)

template <class Fused>
struct tile_launch;
template <class Fused>
__global__ void __launch_bounds__(tile_threads) tile_kernel(Fused const f, tile_job const job) {
  warpwright::detail::await_predecessors();
  __shared__ alignas(16) unsigned char memory[tile_memory_bytes];
  tile_block const here = job.block(blockIdx.x);
  job.template stage<write_tile<Fused>::views::least_alignment>(here, memory, threadIdx.x);
  warpwright::detail::release_successors();
  __syncthreads();
  job.template each_vector<Fused::vector>(here, memory, threadIdx.x,
                                          write_tile<Fused>{f, job.wide});
}

/// Launches a kernel of tiles where a view of the expression wants one.
template <class... A>
bool run_tiles(stream_ref stream, source_location where, fused<A...> const& f, operand const* all) {
  if constexpr (write_tile<fused<A...>>::views::fitting == 0) {
    static_cast<void>(stream), static_cast<void>(where), static_cast<void>(f);
    static_cast<void>(all);
    return false;
  } else {
    fused<A...> marked = f;
    tile_job const job = search_tiles(marked, all).job;
    if (job.tiles == 0) return false;
    warpwright::detail::launch_kernel<tile_launch<fused<A...>>>(
        &tile_kernel<fused<A...>>, dim3{static_cast<unsigned>(job.tiles)}, dim3{tile_threads}, 0,
        stream, where, marked, job);
    return true;
  }
}

#endif

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
