// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Evaluates an assignment by tiles: everything but one view is loaded in the order of the output,
// as in any kernel; that view comes through shared memory.
#pragma once

#include <warpwright/kernel/detail/pixel_kernel.hpp>
#include <warpwright/kernel/detail/tile_search.hpp>
#include <warpwright/kernel/detail/view_node.hpp>
#include <warpwright/kernel/evaluate.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// Lists the views of an expression.
struct find_views {
  operand const* all;
  found_view* views;
  int at = 0;
  int count = 0;

  template <class T, int Rank>
  void operator()(view_input<T, Rank>& view) {
    do ++at;
    while (!all[at].shaped);
    found_view& v = views[count++];
    v.of = view.map.of;
    v.count = view.map.count;
    v.rank = Rank;
    v.fits = view_input<T, Rank>::fits_tiles;
    v.address = reinterpret_cast<std::uintptr_t>(view.data);
    v.operand = at;
    v.way = &view.way;
  }
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// @param f    its views are marked
/// @param all  its operands, as fused::describe() lists them
template <class... A>
tile_search search_tiles(fused<A...>& f, operand const* all) {
  using parts = views_below_all<part_t<A>...>;
  found_view views[fused<A...>::operands];
  find_views find{all, views};
  parts::each(f.parts, find, typename parts::indices{});
  std::uint64_t gapped = 0;
  if constexpr (fused<A...>::strided) gapped = fused<A...>::outputs_with_gaps(all);
  return search_views(views, find.count, all, fused<A...>::operands, fused<A...>::vector, gapped,
                      pixel_work<fused<A...>>::may_spread);
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
  pixel_job const& pixels = search.pixels;
  if (pixels.threads != 0) {
    s.blocks = (pixels.threads + pixel_threads - 1) / pixel_threads;
    s.threads = pixel_threads;
    s.columns = s.rows = 0;
    s.pixels = pixels.vectors || pixels.spread ? search.vector : 1;
    s.channels = pixels.channels;
    s.pitch = pixels.pitch;
    s.vectors = pixels.vectors;
    s.wide = pixels.wide;
  }
  return s;
}

template <int V, bool Alone>
struct fill_from_tile {
  tile_cursor const& cursor;
  template <class T, int Rank>
  WARPWRIGHT_HOST_DEVICE void operator()(view_input<T, Rank> const& view,
                                         lanes<bits_of<T>, V>& r) const {
    view.template fill<V, Alone>(r, cursor);
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
  WARPWRIGHT_HOST_DEVICE void operator()(std::integral_constant<int, V>, tile_element const& first,
                                         tile_cursor const& cursor) const {
    using fill = fill_from_tile<V, views::fitting == 1>;
    f.template vector_with<V>(tile_place<views::fitting == 1>{first}, wide,
                              fill_views<fill, part_t<A>...>{fill{cursor}});
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
    tile_search const search = search_tiles(marked, all);
    tile_job const& job = search.job;
    if (job.tiles == 0) return false;
    if (search.pixels.threads != 0) {
      run_pixels(stream, where, marked, search.pixels);
      return true;
    }
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
