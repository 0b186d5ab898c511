// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Selects the view of an expression that is moved by tiles or pixels, cuts it into tiles, and
// decides how the others are loaded beside it. On the host before a launch; needs no GPU.
#pragma once

#include <warpwright/kernel/detail/plan/elementwise_plan.hpp>
#include <warpwright/kernel/detail/plan/operand.hpp>
#include <warpwright/kernel/detail/views/pixels.hpp>
#include <warpwright/kernel/detail/views/tile.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

// The length of a part of `extent`: as few parts as `edge` allows, nearly equal, multiples of
// `grain`.
constexpr std::uint64_t even_part(std::uint64_t extent, std::uint64_t edge, std::uint64_t grain) {
  if (extent <= edge) return extent;
  std::uint64_t const part = divide_up(extent, divide_up(extent, edge));
  std::uint64_t const whole = divide_up(part, grain) * grain;
  return whole <= edge ? whole : edge;
}

// Chooses the extents of a tile: 128 bytes or more each way, and 16 KiB together; a dimension takes
// what the other lacks.
// @param split_sectors  rows of the output end within a sector of 32 bytes, the unit of writes to
//   memory. Longer tiles along the output split fewer of them (H100: up to 14 % less time; for
//   32-bit elements only where rows do not suit vectors, either)
constexpr void choose_tile(tile_partition& p, std::uint64_t vector, bool split_sectors) {
  std::uint64_t const ex = p.extent_x;
  std::uint64_t const bytes = p.layout.element_bytes;
  std::uint64_t const capacity = tile_bytes / bytes;
  std::uint64_t const edge = bytes == 1 ? 128 : 64;
  bool const long_rows = ex % vector != 0 || (split_sectors && bytes < 4);
  std::uint64_t const edge_x = bytes == 1 ? 256 : bytes == 8 ? 64 : 128;
  std::uint64_t const edge_y = long_rows ? capacity / edge_x : bytes == 2 ? 128 : edge;
  std::uint64_t const grain_y = 16 / bytes > vector ? 16 / bytes : vector;  // whole vectors
  bool const narrow = ex < edge;
  std::uint64_t const ty = narrow
                               ? even_part(p.extent_y, capacity / ex / grain_y * grain_y, grain_y)
                               : even_part(p.extent_y, edge_y, grain_y);
  std::uint64_t const tx = narrow ? ex : even_part(ex, capacity / ty / vector * vector, vector);
  p.tile_x = static_cast<unsigned>(tx);
  p.tile_y = static_cast<unsigned>(ty);
}

// Chooses the layout in shared memory, in which neither accesses of 16 bytes along y nor elements
// along x conflict in a bank: linear where contiguous rows are of a few odd bytes, else row by row.
// Makes the tile smaller where padding takes too much of the memory.
constexpr void choose_layout(tile_partition& p, unsigned vector) {
  tile_layout& layout = p.layout;
  unsigned const row_bytes = p.tile_y * layout.element_bytes;
  bool const contiguous_rows =
      p.stride_x_bytes == static_cast<std::int64_t>(p.extent_y * layout.element_bytes);
  layout.linear = contiguous_rows && p.tile_y == p.extent_y && row_bytes % 16 != 0;
  p.warp_tiles = vector > 1 && p.extent_x % vector == 0 && p.tile_x % vector == 0;
  unsigned const bank = layout.element_bytes == 8 ? 8 : 4;
  layout.pitch = row_bytes;
  layout.group_pitch = row_bytes;
  if (layout.linear && p.warp_tiles && vector * row_bytes % 4 == 0) {
    // A lane gathers from one contiguous group, an odd number of banks from its neighbour's.
    unsigned const group = vector * row_bytes;
    layout.group_shift = static_cast<unsigned>(__builtin_ctz(vector));
    layout.group_pitch = ((group + bank - 1) / bank | 1U) * bank;
    layout.padded_bytes = small_divisor{group};
    layout.padding = layout.group_pitch - group;
  } else if (layout.linear) {
    layout.line_padding = bank;
    layout.padded_bytes = small_divisor{128};
    layout.padding = bank;
  } else if (p.warp_tiles) {  // groups an odd number of 16 bytes apart
    layout.group_shift = static_cast<unsigned>(__builtin_ctz(vector));
    layout.pitch = (row_bytes + 15) / 16 * 16;
    layout.group_pitch = (vector * layout.pitch / 16 | 1U) * 16;
  } else {                                                    // rows an odd number of banks apart
    unsigned const room = layout.element_bytes == 1 ? 3 : 0;  // for word_shift()
    layout.pitch = ((row_bytes + room + bank - 1) / bank | 1U) * bank;
    layout.group_pitch = layout.pitch;
  }
  if (!layout.linear || layout.group_shift != 0) {
    unsigned const room = (tile_memory_bytes / layout.group_pitch) << layout.group_shift;
    if (p.tile_x > room) p.tile_x = room;
  }
  layout.group_mask = (1U << layout.group_shift) - 1U;
}

/// A view of an expression, without its type.
struct view_candidate {
  axis* of = nullptr;
  int count = 0;
  int rank = 0;                               ///< axes that its node has room for
  bool fits = false;                          ///< its type does
  std::uintptr_t address = 0;                 ///< of its first element
  int operand = 0;                            ///< its number among the operands
  view_access* access = nullptr;              ///< receives how it is loaded
  bool aligned = false;                       ///< its axes are those of the staged view
  std::int64_t strides[max_dimensions] = {};  ///< then along x, y and the batches, 0 beyond them
};

/// Plans the tiles that move a view of `count` axes to the output.
/// @return a partition of no tiles where the view is not a transposition, and where single accesses
///   are as good
constexpr tile_partition make_tile_partition(axis const* of, int count, unsigned element_bytes,
                                             unsigned out_bytes, std::uint64_t address,
                                             unsigned vector) {
  tile_partition p;
  int y_axis = 0;
  for (int k = 1; k < count; ++k) {
    if (of[k].stride == 1 && (y_axis == 0 || of[k].extent > of[y_axis].extent)) y_axis = k;
  }
  if (y_axis == 0 || of[0].stride == 0 || of[0].stride == 1) return p;
  std::uint64_t const ex = of[0].extent;
  std::uint64_t const ey = of[y_axis].extent;
  std::uint64_t const bytes = element_bytes;
  bool const contiguous_writes = y_axis == 1;  // from one row along x to the next
  // Less than a sector each way, or a page in all: single accesses find the rest in the L1 cache,
  // except pixels, which are loaded whole.
  p.pixels_only = ey * bytes < 32 && of[0].stride != static_cast<std::int64_t>(ey);
  if (p.pixels_only && !are_pixels(ey, of[0].stride)) return p;
  if (ex * out_bytes < 32 && !contiguous_writes) return p;
  if (ex * ey * bytes < 4096) return p;

  p.address = address;
  p.y_axis = y_axis;
  p.extent_x = ex;
  p.extent_y = ey;
  p.stride_x_bytes = of[0].stride * static_cast<std::int64_t>(bytes);
  p.layout.element_bytes = element_bytes;
  bool const split_sectors = ex * out_bytes % 32 != 0;
  choose_tile(p, vector, split_sectors);
  choose_layout(p, vector);
  if (p.tile_x == 0) return p;
  std::uint64_t const tx = p.tile_x;
  std::uint64_t const ty = p.tile_y;
  unsigned const row_bytes = p.tile_y * element_bytes;

  // The grid, and the alignment common to all accesses.
  std::uint64_t const limit = 0x7fffffffU;  // blocks of a grid
  std::uint64_t const tiles_x = (ex + tx - 1) / tx;
  std::uint64_t const tiles_y = (ey + ty - 1) / ty;
  if (tiles_x > limit || tiles_y > limit / tiles_x) return p;
  std::uint64_t tiles = tiles_x * tiles_y;
  std::uint64_t step = 1;
  std::uint64_t alignment = address;
  std::uint64_t vector_starts = 0;
  for (int k = 0; k < count; ++k) {
    if (k == y_axis) {
      p.out_stride_y = step;
    } else if (k != 0) {
      if (of[k].extent > limit / tiles) return p;
      tiles *= of[k].extent;
      batch_dimension& b = p.batches.each[p.batches.count++];
      b.extent = small_divisor{static_cast<std::uint32_t>(of[k].extent)};
      b.out_stride = step;
      b.view_stride_bytes = of[k].stride * static_cast<std::int64_t>(bytes);
      alignment |= static_cast<std::uint64_t>(b.view_stride_bytes);
      vector_starts |= step;
    }
    step *= of[k].extent;
  }

  // Staging.
  alignment |= p.layout.linear
                   ? ex * ey * bytes | tx * ey * bytes
                   : static_cast<std::uint64_t>(p.stride_x_bytes) | ey * bytes | row_bytes;
  p.access_bytes = common_alignment(alignment);
  if (p.access_bytes == 8) p.access_bytes = 4;
  if (p.access_bytes == 16) p.accesses_per_row = small_divisor{row_bytes / 16};
  // Threads for a whole row (a warp for each row takes up to 6 % more time, as its parts are read
  // at different times); fewer where rows are few, so that a thread has several loads in flight.
  while (p.row_threads_shift < 8 && (p.access_bytes << p.row_threads_shift < row_bytes ||
                                     tile_threads >> p.row_threads_shift > tx / 4)) {
    ++p.row_threads_shift;
  }

  // Storing: vectors along x; or across the ends of short contiguous rows; or elements.
  p.vectors =
      p.warp_tiles || (vector > 1 && contiguous_writes && tx == ex && ex * ey % vector == 0 &&
                       ty * ex % vector == 0 && vector_starts % vector == 0);
  // Blocks of two tiles that share sectors of the output are consecutive, so that both parts of a
  // sector are stored soon after each other (H100: 5 to 23 % less time; for bytes, more).
  p.x_first = (split_sectors || !p.vectors) && element_bytes > 1;
  p.tiles_inner = small_divisor{static_cast<std::uint32_t>(p.x_first ? tiles_x : tiles_y)};
  p.tiles_outer = small_divisor{static_cast<std::uint32_t>(p.x_first ? tiles_y : tiles_x)};

  p.unaligned = element_bytes == 1 && p.access_bytes < 16 && !p.layout.linear && !p.vectors;
  if (p.unaligned) {
    p.access_bytes = 1;  // at the view's ends
    p.chunks_per_row = small_divisor{(row_bytes + 30) / 16};
    p.view_begin = address;
    p.view_end = address + 1;
    for (int k = 0; k < count; ++k) {  // modulo 2^64
      (of[k].stride < 0 ? p.view_begin : p.view_end) +=
          (of[k].extent - 1) * static_cast<std::uint64_t>(of[k].stride);
    }
  }

  if (p.warp_tiles) {
    p.lanes_x_shift = p.layout.linear || ty < 4 ? 5 : 3;
    while (p.lanes_x_shift > 0 && p.tile_x / vector <= 1U << (p.lanes_x_shift - 1)) {
      --p.lanes_x_shift;  // no idle lanes beside a narrow tile
    }
    unsigned const lanes_x = 1U << p.lanes_x_shift;
    unsigned const lanes_y = 32U >> p.lanes_x_shift;
    p.columns = small_divisor{(p.tile_x / vector + lanes_x - 1) / lanes_x};
    p.items = p.columns.divisor() * ((p.tile_y + lanes_y - 1) / lanes_y);
  } else {
    p.columns = small_divisor{p.tile_x};
    p.items = p.vectors ? (p.tile_x * p.tile_y + vector - 1) / vector
                        : p.tile_x * ((p.tile_y + tile_rows_at_once - 1) / tile_rows_at_once);
  }
  p.tiles = tiles;
  return p;
}

struct tile_selection {
  unsigned vector;  ///< elements of one of the output
  int operand = 0;  ///< the staged view's number
  tile_partition tiles{};
  pixel_partition pixels{};  ///< used in place of the tiles if it has threads
};

tile_summary summarize_selection(tile_selection const& selection);

// Whether all offsets take 31 bits, as axes::offset_of() computes them.
constexpr bool has_31_bit_offsets(axis const* of, int count) {
  std::uint64_t extent = 0;
  for (int k = 0; k < count; ++k) {
    extent += (of[k].extent - 1) * magnitude(of[k].stride);
  }
  return extent <= 0x7fffffffU;
}

// Finds the strides of a view along the dimensions of a partition.
// @return false where an axis of it ends within one of the staged view's, or there are too many
constexpr bool align_axes(tile_partition const& p, axis const* staged, view_candidate& v) {
  if (2 + p.batches.count > v.rank) return false;
  for (std::int64_t& stride : v.strides) stride = 0;
  int at = 0;
  axis rest = v.of[0];
  for (int k = 0; k < 2 + p.batches.count; ++k) {
    if (rest.extent == 1 && ++at < v.count) rest = v.of[at];
    if (rest.extent % staged[k].extent != 0) return false;
    int const batch = k < p.y_axis ? k + 1 : k;
    v.strides[k == 0 ? 0 : k == p.y_axis ? 1 : batch] = rest.stride;
    rest.extent /= staged[k].extent;
    rest.stride *= static_cast<std::int64_t>(staged[k].extent);
  }
  return true;
}

// Finds the views whose axes are those of the tiles, so that a kernel need not divide for them.
// @param usable  bit k: operand k can be loaded along them
// @return whether all views but the staged one are
inline bool find_aligned_views(view_candidate* views, int count, view_candidate const& staged,
                               tile_partition const& tiles, std::uint64_t usable) {
  bool all = true;
  for (view_candidate* v = views; v != views + count; ++v) {
    v->aligned = v != &staged && v->fits && has_31_bit_offsets(v->of, v->count) &&
                 (usable >> static_cast<unsigned>(v->operand) & 1U) != 0 &&
                 align_axes(tiles, staged.of, *v);
    all = all && (v == &staged || v->aligned);
  }
  return all;
}
// @param vectors  a thread takes several elements at a time
inline void mark_aligned_views(view_candidate* views, int count, bool vectors) {
  for (view_candidate* v = views; v != views + count; ++v) {
    if (!v->aligned) continue;
    for (int k = 0; k < v->rank; ++k) v->of[k].stride = v->strides[k];
    *v->access = vectors && v->strides[0] == 0 ? view_access::broadcast : view_access::aligned;
  }
}

/// Plans the tiles or pixels of the first view that suits them, and marks all views.
/// @param gapped           bit k: operand k is an output with gaps
/// @param may_warp_stride  a thread's elements need not be neighbours
tile_selection select_view(view_candidate* views, int count, operand const* all, int operands,
                           unsigned vector, std::uint64_t gapped, bool may_warp_stride);

}  // namespace ew::detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/kernel/detail/views/view_definitions.hpp>
#endif
