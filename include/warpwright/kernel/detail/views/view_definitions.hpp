// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Of view_node.hpp and tile_plan.hpp.
#pragma once

#include <warpwright/kernel/detail/views/tile_plan.hpp>
#include <warpwright/kernel/detail/views/view_node.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

WARPWRIGHT_INLINE void check_shape(std::int64_t const* shape, std::int64_t const* strides, int rank,
                                   source_location where, char const* function) {
  for (int k = 0; k < rank; ++k) {
    if (shape[k] >= 0) continue;
    refuse_view(text{"dimension "} + k + " has " + shape[k] +
                    " elements; an extent is 0 or more, and below 2^63",
                where, function);
  }
  view_bounds const r = measure_view(shape, strides, rank);
  if (r.too_large) {
    text const dimension = text{"dimension "} + r.at_dimension + ", of " + shape[r.at_dimension];
    text const problem = r.too_many ? dimension + ", makes more than 2^59 elements of the array"
                                    : dimension + " at a stride of " + strides[r.at_dimension] +
                                          ", makes the array span more than 2^59 elements";
    refuse_view(text{problem} + "; pass shape and strides in elements, not in bytes", where,
                function);
  }
}

WARPWRIGHT_INLINE void check_output_shape(std::int64_t const* shape, std::int64_t const* strides,
                                          int rank, source_location where) {
  for (int k = 0; k < rank; ++k) {
    if (shape[k] == 0) return;
  }
  bool visited[max_dimensions] = {};
  std::uint64_t span = 0;  // of the dimensions of shorter strides: elements, last less first
  while (true) {
    int k = -1;
    for (int other = 0; other < rank; ++other) {
      if (visited[other] || shape[other] == 1) continue;
      if (k < 0 || magnitude(strides[other]) < magnitude(strides[k])) k = other;
    }
    if (k < 0) return;
    visited[k] = true;
    if (magnitude(strides[k]) > span) {
      span += static_cast<std::uint64_t>(shape[k] - 1) * magnitude(strides[k]);
      continue;
    }
    text const name = text{"ew::out: dimension "} + k + " has " + shape[k] +
                      " elements at a stride of " + strides[k];
    warpwright::detail::throw_invalid_argument(
        strides[k] == 0
            ? name + ": all of them are the same element; an output's elements must be distinct"
            : name + ", no more than the " + span +
                  " elements that the dimensions of shorter strides span; each stride of an output "
                  "must be longer than that, even where all elements are distinct: write such an "
                  "array in parts",
        where);
  }
}

WARPWRIGHT_INLINE void describe_axes(operand& o, axis const* of, int count) {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  std::uint64_t distinct = 1;
  std::uint64_t ranges = o.address;
  o.shaped = true;
  o.count = 1;
  for (int k = 0; k < count; ++k) {
    o.count *= of[k].extent;
    if (of[k].stride != 0) distinct *= of[k].extent;
    std::int64_t const extent = (static_cast<std::int64_t>(of[k].extent) - 1) * of[k].stride;
    (extent < 0 ? lowest : highest) += extent;
    if (k != 0) ranges |= static_cast<std::uint64_t>(of[k].stride) * o.element_bytes;
  }
  bool const contiguous = count == 1 && of[0].stride == 1;
  if (contiguous || o.count == 0) return;
  o.kind = access_pattern::view;
  o.of = of;
  o.axes = count;
  o.step = of[0].stride;
  o.run = of[0].extent;
  if (o.step == 1) o.vector_bytes = common_alignment(ranges | o.run * o.element_bytes);
  if (o.step == 0)
    o.vector_bytes = common_alignment(o.run) * o.element_bytes;  // one element for a vector
  o.span = (static_cast<std::uint64_t>(highest - lowest) + 1) * o.element_bytes;
  o.touched = distinct * o.element_bytes;
  if (o.address != 0) o.address += static_cast<std::uint64_t>(lowest) * o.element_bytes;
}

WARPWRIGHT_INLINE tile_selection select_view(view_candidate* views, int count, operand const* all,
                                             int operands, unsigned vector, std::uint64_t gapped,
                                             bool may_warp_stride) {
  tile_selection selection{vector};
  if ((wide_operands(all, operands, 0, vector) & gapped) != gapped) selection.vector = 1;
  // Bits of no operand are set.
  std::uint64_t const wide =
      wide_operands(all, operands, 0, selection.vector) | ~bits_of_operands(operands);
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

}  // namespace ew::detail

WARPWRIGHT_END
