// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/detail/views/tile_selection.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

WARPWRIGHT_INLINE tile_selection select_view(view_candidate* views, int count, operand const* all,
                                             int operands, unsigned vector, std::uint64_t gapped,
                                             bool may_warp_stride) {
  tile_selection selection{vector};
  if ((vectorized_operands(all, operands, vector) & gapped) != gapped) selection.vector = 1;
  std::uint64_t const wide = vectorized_operands(all, operands, selection.vector);
  tile_partition& tiles = selection.tiles;
  pixel_partition& pixels = selection.pixels;
  view_candidate* staged = views;
  for (; staged != views + count; ++staged) {
    if (!staged->fits) continue;
    tiles = make_tile_partition(staged->of, staged->count, all[staged->operand].element_bytes,
                                all[0].element_bytes, staged->address, selection.vector);
    tiles.wide = all_wide_bits;
    if (tiles.tiles == 0) continue;
    selection.operand = staged->operand;
    pixels = make_pixel_partition(tiles, selection.vector, may_warp_stride);
    pixels.wide = pixels.vectors ? wide : all_wide_bits;
    if (pixels.threads != 0 && find_aligned_views(views, count, *staged, tiles, pixels.wide)) {
      *staged->access = view_access::staged;
      mark_aligned_views(views, count, pixels.vectors || pixels.warp_strided);
      return selection;
    }
    pixels.threads = 0;
    if (!tiles.pixels_only) break;
    tiles.tiles = 0;
  }
  if (tiles.tiles == 0) return selection;
  *staged->access = view_access::staged;
  if (tiles.vectors) tiles.wide = wide;
  if (tiles.warp_tiles || !tiles.vectors) {
    find_aligned_views(views, count, *staged, tiles, tiles.wide);
    mark_aligned_views(views, count, tiles.vectors);
  }
  return selection;
}

WARPWRIGHT_INLINE tile_summary summarize_selection(tile_selection const& selection) {
  tile_partition const& tiles = selection.tiles;
  pixel_partition const& pixels = selection.pixels;
  tile_summary s;
  s.view = selection.operand;
  if (pixels.threads == 0) {
    s.blocks = tiles.tiles;
    s.threads = tile_threads;
    s.columns = tiles.tile_x;
    s.rows = tiles.tile_y;
    s.vectors = tiles.vectors;
    s.wide = tiles.wide;
  } else {
    s.blocks = quotient_up(pixels.threads, pixel_threads);
    s.threads = pixel_threads;
    s.pixels = pixels.vectors || pixels.warp_strided ? selection.vector : 1;
    s.channels = pixels.channels;
    s.pitch = pixels.pitch;
    s.vectors = pixels.vectors;
    s.wide = pixels.wide;
  }
  return s;
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
