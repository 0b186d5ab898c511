// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How a view is cut into tiles, decided on the host before a launch.
#pragma once

#include <warpwright/kernel/detail/tile.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// `extent` cut into as few parts as `edge` allows, nearly equal, of a multiple of `grain`.
constexpr std::uint64_t even_part(std::uint64_t extent, std::uint64_t edge, std::uint64_t grain) {
  if (extent <= edge) return extent;
  std::uint64_t const parts = (extent + edge - 1) / edge;
  std::uint64_t const part = (extent + parts - 1) / parts;
  std::uint64_t const whole = (part + grain - 1) / grain * grain;
  return whole <= edge ? whole : edge;
}

constexpr unsigned log2_of(unsigned power) {
  unsigned result = 0;
  while (power > 1) power /= 2, ++result;
  return result;
}

/// Finds the strides of a view along x, y and the batches of a job, 0 beyond them.
/// @param of       the axes of the view that the job moves
/// @param axes     those of this view, of which `count`
/// @param rank     the most it has room for
/// @param strides  receives so many
/// @return false where one of its axes ends within one of those, or there are too many
constexpr bool follow_axes(tile_job const& job, axis const* of, axis const* axes, int count,
                           int rank, std::int64_t* strides) {
  if (2 + job.batches > rank) return false;
  for (int k = 0; k < rank; ++k) strides[k] = 0;
  int at = 0;
  axis rest = axes[0];
  for (int k = 0; k < 2 + job.batches; ++k) {
    if (rest.extent == 1 && ++at < count) rest = axes[at];
    if (rest.extent % of[k].extent != 0) return false;
    int const batch = k < job.y_axis ? k + 1 : k;
    strides[k == 0 ? 0 : k == job.y_axis ? 1 : batch] = rest.stride;
    rest.extent /= of[k].extent;
    rest.stride *= static_cast<std::int64_t>(of[k].extent);
  }
  return true;
}

/// Plans the tiles that move a view of `count` axes to the output, or answers a job of no tiles:
/// where the view is no transposition, and where single accesses are as good.
/// @param vector  elements of one vector of the output, a power of two
constexpr tile_job make_tile_job(axis const* of, int count, unsigned element_bytes,
                                 unsigned out_bytes, std::uint64_t address, unsigned vector) {
  tile_job job;
  bool const fits =
      element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8;
  int at_y = 0;
  for (int k = 1; k < count; ++k) {
    if (of[k].stride == 1 && (at_y == 0 || of[k].extent > of[at_y].extent)) at_y = k;
  }
  if (!fits || at_y == 0 || of[0].stride == 0 || of[0].stride == 1) return job;
  std::uint64_t const ex = of[0].extent;
  std::uint64_t const ey = of[at_y].extent;
  std::uint64_t const bytes = element_bytes;
  bool const writes_meet = at_y == 1;  // rows along x follow each other
  bool const reads_meet = of[0].stride == static_cast<std::int64_t>(ey);
  // Less than a sector each way, or a page in all: single accesses find the rest in the L1 cache,
  // but for pixels, which are read whole.
  job.pixels_only = ey * bytes < 32 && !reads_meet;
  if (job.pixels_only && !are_pixels(ey, of[0].stride)) return job;
  if (ex * out_bytes < 32 && !writes_meet) return job;
  if (ex * ey * bytes < 4096) return job;

  job.address = address;
  job.y_axis = at_y;
  job.extent_x = ex;
  job.extent_y = ey;
  job.in_x = of[0].stride * static_cast<std::int64_t>(bytes);
  job.layout.element_bytes = element_bytes;

  // 128 bytes or more each way, and 16 KiB together; what one dimension lacks the other gets. Where
  // the output's rows end inside of the 32 bytes that memory is written by, tiles are longer along
  // these, so that fewer are written by halves (H100: up to 14 % less time; for 32 bits, only where
  // they suit no vectors, either).
  std::uint64_t const cap = tile_bytes / bytes;
  std::uint64_t const edge = bytes == 1 ? 128 : 64;
  bool const torn = ex * out_bytes % 32 != 0;
  bool const long_rows = ex % vector != 0 || (torn && bytes < 4);
  std::uint64_t const edge_x = bytes == 1 ? 256 : bytes == 8 ? 64 : 128;
  std::uint64_t const edge_y = long_rows ? cap / edge_x : bytes == 2 ? 128 : edge;
  std::uint64_t const grain_y = 16 / bytes > vector ? 16 / bytes : vector;  // whole vectors
  bool const narrow = ex < edge;
  std::uint64_t const ty = narrow ? even_part(ey, cap / ex / grain_y * grain_y, grain_y)
                                  : even_part(ey, edge_y, grain_y);
  std::uint64_t tx = narrow ? ex : even_part(ex, cap / ty / vector * vector, vector);

  // In shared memory: as in the view where rows of a few odd bytes follow each other, else row by
  // row, such that neither accesses of 16 bytes along y nor elements along x meet in a bank.
  tile_layout& layout = job.layout;
  auto const row_bytes = static_cast<unsigned>(ty * bytes);
  layout.linear = reads_meet && ty == ey && row_bytes % 16 != 0;
  job.blocks = vector > 1 && ex % vector == 0 && tx % vector == 0;
  unsigned const bank = element_bytes == 8 ? 8 : 4;
  if (layout.linear && job.blocks && vector * row_bytes % 4 == 0) {
    // What a lane gathers is one stretch, and an odd number of banks from its neighbour's.
    auto const group = static_cast<unsigned>(vector) * row_bytes;
    layout.group_shift = log2_of(vector);
    layout.pitch = row_bytes;
    layout.group_pitch = ((group + bank - 1) / bank | 1U) * bank;
    layout.gap_every = small_divisor{group};
    layout.gap = layout.group_pitch - group;
  } else if (layout.linear) {
    layout.pitch = row_bytes;
    layout.group_pitch = row_bytes;
    layout.skew = bank;
    layout.gap_every = small_divisor{128};
    layout.gap = bank;
  } else if (job.blocks) {  // groups an odd number of 16 bytes apart
    layout.group_shift = log2_of(vector);
    layout.pitch = (row_bytes + 15) / 16 * 16;
    layout.group_pitch = (vector * layout.pitch / 16 | 1U) * 16;
  } else {                                             // rows an odd number of banks apart
    unsigned const room = element_bytes == 1 ? 3 : 0;  // for word_shift()
    layout.pitch = ((row_bytes + room + bank - 1) / bank | 1U) * bank;
    layout.group_pitch = layout.pitch;
  }
  if (!layout.linear || layout.group_shift != 0) {
    std::uint64_t const room = (tile_memory_bytes / layout.group_pitch) << layout.group_shift;
    if (tx > room) tx = room;
  }
  if (tx == 0) return job;
  layout.group_mask = (1U << layout.group_shift) - 1U;
  job.tile_x = static_cast<unsigned>(tx);
  job.tile_y = static_cast<unsigned>(ty);

  // The grid, and what every access can count on to be aligned to.
  std::uint64_t const limit = 0x7fffffffU;  // blocks of a grid
  std::uint64_t const across_x = (ex + tx - 1) / tx;
  std::uint64_t const across_y = (ey + ty - 1) / ty;
  if (across_x > limit || across_y > limit / across_x) return job;
  std::uint64_t tiles = across_x * across_y;
  std::uint64_t step = 1;
  std::uint64_t alignment = address;
  std::uint64_t vector_starts = 0;
  for (int k = 0; k < count; ++k) {
    if (k == at_y) {
      job.out_y = step;
    } else if (k != 0) {
      if (of[k].extent > limit / tiles) return job;
      tiles *= of[k].extent;
      tile_batch& b = job.batch[job.batches++];
      b.extent = small_divisor{static_cast<std::uint32_t>(of[k].extent)};
      b.out_step = step;
      b.in_step = of[k].stride * static_cast<std::int64_t>(bytes);
      alignment |= static_cast<std::uint64_t>(b.in_step);
      vector_starts |= step;
    }
    step *= of[k].extent;
  }

  // Reading.
  alignment |= layout.linear ? ex * ey * bytes | tx * ey * bytes
                             : static_cast<std::uint64_t>(job.in_x) | ey * bytes | row_bytes;
  job.access = common_alignment(alignment);
  if (job.access == 8) job.access = 4;
  if (job.access == 16) job.accesses = small_divisor{row_bytes / 16};
  // Threads for a whole row (a warp for each is up to 6 % slower, as its parts are read apart); and
  // where rows are few, so many that a thread has several under way.
  while (job.row_lanes_shift < 8 && job.access << job.row_lanes_shift < row_bytes)
    ++job.row_lanes_shift;
  while (job.row_lanes_shift < 8 && tile_threads >> job.row_lanes_shift > tx / 4)
    ++job.row_lanes_shift;

  // Writing: vectors along x; over the ends of short rows, where these follow each other; or
  // elements.
  job.vectors = job.blocks || (vector > 1 && writes_meet && tx == ex && ex * ey % vector == 0 &&
                               ty * ex % vector == 0 && vector_starts % vector == 0);
  // Of what two tiles share of such 32 bytes, the second half has to come soon (H100: 5 to 23 %
  // less time; bytes lose).
  job.along_x = (torn || !job.vectors) && element_bytes > 1;
  std::uint64_t const nearer = job.along_x ? across_x : across_y;
  std::uint64_t const further = job.along_x ? across_y : across_x;
  job.tiles_nearer = small_divisor{static_cast<std::uint32_t>(nearer)};
  job.tiles_further = small_divisor{static_cast<std::uint32_t>(further)};

  job.shifted = element_bytes == 1 && job.access < 16 && !layout.linear && !job.vectors;
  if (job.shifted) {
    job.access = 1;  // at the view's ends
    job.chunks = small_divisor{(row_bytes + 30) / 16};
    job.low = address;
    job.high = address + 1;
    for (int k = 0; k < count; ++k) {  // modulo 2^64
      (of[k].stride < 0 ? job.low : job.high) +=
          (of[k].extent - 1) * static_cast<std::uint64_t>(of[k].stride);
    }
  }

  if (job.blocks) {
    job.lanes_shift = layout.linear || ty < 4 ? 5 : 3;
    while (job.lanes_shift > 0 && job.tile_x / vector <= 1U << (job.lanes_shift - 1)) {
      --job.lanes_shift;  // none idle beside a narrow tile
    }
    unsigned const lanes_x = 1U << job.lanes_shift;
    unsigned const lanes_y = 32U >> job.lanes_shift;
    job.columns = small_divisor{(job.tile_x / vector + lanes_x - 1) / lanes_x};
    job.units = job.columns.divisor() * ((job.tile_y + lanes_y - 1) / lanes_y);
  } else {
    job.columns = small_divisor{job.tile_x};
    job.units = job.vectors
                    ? (job.tile_x * job.tile_y + vector - 1) / vector
                    : job.tile_x * ((job.tile_y + tile_rows_at_once - 1) / tile_rows_at_once);
  }
  job.tiles = tiles;
  return job;
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
