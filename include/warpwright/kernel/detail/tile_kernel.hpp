// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Evaluates an assignment by tiles: everything but one view is loaded in the order of the output,
// as in any kernel; that view comes through shared memory.
#pragma once

#include <warpwright/kernel/detail/pixel_kernel.hpp>
#include <warpwright/kernel/detail/tile_plan.hpp>
#include <warpwright/kernel/detail/view_node.hpp>
#include <warpwright/kernel/evaluate.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// Marks the first view that tiles can bring, and plans these.
struct tile_search {
  operand const* all;
  unsigned vector;
  int at = 0;  // the view's place among the operands
  tile_job job{};
  pixel_job pixels{};        // in place of the tiles, where it has threads
  axis const* of = nullptr;  // the view's

  template <class T, int Rank>
  void operator()(view_input<T, Rank>& view) {
    if (job.tiles != 0) return;
    do ++at;
    while (!all[at].shaped);
    if constexpr (view_input<T, Rank>::fits_tiles) {
      job = make_tile_job(view.map.of, view.map.count, all[at].element_bytes, all[0].element_bytes,
                          reinterpret_cast<std::uintptr_t>(view.data), vector);
      if (job.tiles == 0) return;
      view.way = tile_way::staged;
      of = view.map.of;
    }
  }
};

// Marks the other views whose axes are those of the tiles.
struct tile_followers {
  tile_search const& search;
  bool singly;   // not by vectors
  bool repeats;  // but several elements at a time
  std::uint64_t wide;
  int at = 0;
  bool all_follow = true;

  template <class T, int Rank>
  void operator()(view_input<T, Rank>& view) {
    do ++at;
    while (!search.all[at].shaped);
    if (at == search.at) return;
    all_follow = follow(view) && all_follow;
  }

 private:
  template <class T, int Rank>
  bool follow(view_input<T, Rank>& view) {
    if constexpr (view_input<T, Rank>::fits_tiles) {
      bool const suits = singly || (wide >> static_cast<unsigned>(at) & 1U) != 0;
      if (!suits || !follow_tiles(search.job, search.of, view.map)) return false;
      view.way = repeats && view.map.of[0].stride == 0 ? tile_way::repeated : tile_way::along;
      return true;
    } else {
      static_cast<void>(view);
      return false;
    }
  }
};

struct unmark_views {
  template <class T, int Rank>
  void operator()(view_input<T, Rank>& view) {
    view.way = tile_way::any;
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
  constexpr typename parts::indices indices{};
  parts::each(f.parts, search, indices);
  search.job.wide = ~std::uint64_t{0};
  if (search.job.tiles == 0) return search;
  std::uint64_t const wide = suited(all, fused<A...>::operands, search.vector);
  search.pixels = make_pixel_job(search.job, search.vector, pixel_work<fused<A...>>::may_spread);
  if (search.pixels.threads != 0) {
    auto const before = f.parts;
    pixel_job const& pixels = search.pixels;
    tile_followers others{search, !pixels.vectors, pixels.vectors || pixels.spread, wide};
    parts::each(f.parts, others, indices);
    search.pixels.wide = search.pixels.vectors ? wide : ~std::uint64_t{0};
    if (others.all_follow) return search;
    search.pixels.threads = 0;
    f.parts = before;
  }
  if (search.job.pixels_only) {
    unmark_views unmark;
    parts::each(f.parts, unmark, indices);
    search.job.tiles = 0;
    return search;
  }
  if (search.job.vectors) search.job.wide = wide;
  if (parts::fitting > 1 && (search.job.blocks || !search.job.vectors)) {
    tile_followers others{search, !search.job.vectors, search.job.vectors, wide};
    parts::each(f.parts, others, indices);
  }
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
  pixel_job const& pixels = search.pixels;
  if (pixels.threads != 0) {
    s.blocks = (pixels.threads + pixel_threads - 1) / pixel_threads;
    s.threads = pixel_threads;
    s.columns = s.rows = 0;
    s.pixels = pixels.vectors || pixels.spread ? search.vector : 1;
    s.channels = pixels.channels;
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
