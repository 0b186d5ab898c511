// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A view whose memory runs along another dimension than the output's is moved by tiles: a block
// reads a panel along the view's dimension, y, into shared memory and writes it along the output's
// innermost, x. Here is all arithmetic of that, for a thread at a time; it runs on the host, too.
#pragma once

#include <warpwright/kernel/detail/axes.hpp>
#include <warpwright/kernel/detail/lanes.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

inline constexpr unsigned tile_threads = 256;
inline constexpr unsigned tile_bytes = 16384;  // of a panel: four accesses of 16 bytes a thread
inline constexpr unsigned tile_memory_bytes = 20480;  // the same and what keeps banks apart
inline constexpr unsigned tile_rows_at_once = 4;  // of single elements, whose places are told once

/// Divides numbers below 2^31; as fast_divisor.
class small_divisor {
 public:
  constexpr small_divisor() = default;
  constexpr explicit small_divisor(std::uint32_t divisor) {
    axis a;
    a.extent = divisor;
    a = with_divisor(a, true);
    divisor_ = divisor;
    multiplier_ = static_cast<std::uint32_t>(a.multiplier);
    shift_ = a.shift;
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint32_t divisor() const { return divisor_; }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint32_t quotient(std::uint32_t dividend) const {
#if defined(__CUDA_ARCH__)
    std::uint32_t const high = __umulhi(multiplier_, dividend);
#else
    auto const high = static_cast<std::uint32_t>(std::uint64_t{multiplier_} * dividend >> 32U);
#endif
    return (high + dividend) >> shift_;
  }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t multiplier_ = 1;
  unsigned shift_ = 0;
};

/// A dimension that tiles do not cut.
struct tile_batch {
  small_divisor extent;
  std::uint64_t out_step = 0;  ///< elements of the output
  std::int64_t in_step = 0;    ///< bytes of the view
};

/// Where one block works.
struct tile_block {
  std::uint64_t out = 0;  ///< element of the output
  std::int64_t in = 0;    ///< bytes from the view's first element
  unsigned nx = 0;        ///< extents of its tile, less than a whole one's at the ends
  unsigned ny = 0;
};

/// How elements lie in shared memory, in bytes: before the step aside that `skew` takes every 128
/// bytes, element (x, y) is at row(x) + y * element_bytes.
struct tile_layout {
  bool linear = false;        ///< as in the view: one stretch
  unsigned pitch = 0;         ///< from one x to the next within a group
  unsigned group_shift = 0;   ///< log2 of the number of x in a group
  unsigned group_pitch = 0;   ///< from one group to the next
  small_divisor group_bytes;  ///< of a group in the view, where a linear one has groups
  unsigned group_gap = 0;     ///< behind each of these
  unsigned skew = 0;          ///< 0 but where it is linear and has no groups
  unsigned element_bytes = 1;

  /// Answers where what is `address` bytes behind the start of a linear one lies.
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned stretched(unsigned address) const {
    return address + (address >> 7U) * skew + group_bytes.quotient(address) * group_gap;
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned row(unsigned x) const {
    return (x >> group_shift) * group_pitch + (x & ((1U << group_shift) - 1U)) * pitch;
  }
};

/// Where the elements of one vector lie in shared memory, before the step aside.
struct tile_cursor {
  unsigned char const* memory;
  unsigned skew;
  unsigned first;    ///< of element 0
  unsigned step;     ///< to the next
  unsigned left;     ///< elements before a row ends
  unsigned back;     ///< from behind it to the start of the next row, modulo 2^32
  unsigned columns;  ///< of the next row
};

/// A transposition as the blocks of a kernel see it; tiles == 0: not one.
struct tile_job {
  std::uint64_t tiles = 0;
  std::uint64_t address = 0;  ///< of the view's first element
  std::uint64_t extent_x = 0;
  std::uint64_t extent_y = 0;
  std::uint64_t out_y = 0;  ///< elements of the output from one y to the next
  std::int64_t in_x = 0;    ///< bytes of the view from one x to the next
  unsigned tile_x = 0;
  unsigned tile_y = 0;
  small_divisor tiles_x;
  small_divisor tiles_y;
  int batches = 0;
  tile_batch batch[most_dimensions - 2];
  tile_layout layout;
  unsigned access = 0;       ///< bytes of one access to the view: 16, 4, 2 or 1
  small_divisor accesses;    ///< in a row of a whole tile
  unsigned rows = 0;         ///< of a whole tile
  bool vectors = false;      ///< the output goes by vectors, else element by element
  bool blocks = false;       ///< ... where a warp takes vectors of several y
  unsigned lanes_shift = 0;  ///< log2 of the vectors of one y that a warp takes
  small_divisor columns;     ///< of warps' blocks, or elements, in a row of a whole tile
  unsigned units = 0;        ///< of blocks, vectors, or elements below each other in a whole tile
  std::uint64_t wide = 0;    ///< as schedule::wide

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE tile_block block(unsigned number) const {
    unsigned rest = number;
    unsigned const beyond_y = tiles_y.quotient(rest);
    std::uint64_t const y = std::uint64_t{rest - beyond_y * tiles_y.divisor()} * tile_y;
    rest = tiles_x.quotient(beyond_y);
    std::uint64_t const x = std::uint64_t{beyond_y - rest * tiles_x.divisor()} * tile_x;
    tile_block b;
    b.out = y * out_y + x;
    b.in =
        static_cast<std::int64_t>(x) * in_x + static_cast<std::int64_t>(y * layout.element_bytes);
    b.nx = static_cast<unsigned>(extent_x - x < tile_x ? extent_x - x : tile_x);
    b.ny = static_cast<unsigned>(extent_y - y < tile_y ? extent_y - y : tile_y);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int k = 0; k < most_dimensions - 2; ++k) {
      if (k >= batches) break;
      unsigned const beyond = batch[k].extent.quotient(rest);
      unsigned const coordinate = rest - beyond * batch[k].extent.divisor();
      b.out += coordinate * batch[k].out_step;
      b.in += static_cast<std::int64_t>(coordinate) * batch[k].in_step;
      rest = beyond;
    }
    return b;
  }

  /// One thread's part of reading a panel into shared memory.
  /// @tparam Least  what every view's elements are aligned to: no access but of 4 is of fewer bytes
  template <unsigned Least>
  WARPWRIGHT_HOST_DEVICE void stage(tile_block const& b, unsigned char* memory, unsigned t) const {
    if (access == 16) {
      stage_by<16>(b, memory, t);
    } else if (Least >= 4 || access == 4) {
      stage_by<4>(b, memory, t);
    } else if (Least >= 2 || access == 2) {
      stage_by<2>(b, memory, t);
    } else {
      stage_by<1>(b, memory, t);
    }
  }

  /// Calls write(v, i, cursor) for every vector of the output that falls to thread `t`: v is a
  /// std::integral_constant, the number of its elements, i the first of them.
  template <int V, class Write>
  WARPWRIGHT_HOST_DEVICE void each_vector(tile_block const& b, unsigned char const* memory,
                                          unsigned t, Write const& write) const {
    if (V > 1 && vectors) {
      each_of<V>(b, memory, t, write);
    } else {
      each_of<1>(b, memory, t, write);
    }
  }

 private:
  // Rows by accesses of `Bytes`; four are under way before the first is put down. (Eight narrow
  // ones were no faster.)
  template <int Bytes>
  WARPWRIGHT_HOST_DEVICE void stage_by(tile_block const& b, unsigned char* memory,
                                       unsigned t) const {
    constexpr unsigned at_once = 4;
    auto const* const from = reinterpret_cast<unsigned char const*>(address) + b.in;
    unsigned const row_bytes = layout.linear ? b.nx * layout.pitch : b.ny * layout.element_bytes;
    unsigned const rows_here = layout.linear ? 1 : b.nx;
    unsigned const total = rows * accesses.divisor();
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (unsigned first = t; first < total; first += at_once * tile_threads) {
      lanes<std::uint8_t, Bytes> held[at_once];
      unsigned to[at_once];  // of a linear layout: bytes from its start
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < at_once; ++u) {
        unsigned const number = first + u * tile_threads;
        unsigned const row = accesses.quotient(number);
        unsigned const column = (number - row * accesses.divisor()) * Bytes;
        to[u] = nowhere;
        if (row >= rows_here || column >= row_bytes) continue;
        to[u] = layout.linear ? column : layout.row(row) + column;
        auto const* const place = from + static_cast<std::int64_t>(row) * in_x + column;
        if constexpr (Bytes == 1) {
          held[u].only = *place;
        } else {
          held[u].load_wide(place);
        }
      }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < at_once; ++u) {
        if (to[u] != nowhere) put(held[u], memory, to[u]);
      }
    }
  }
  static constexpr unsigned nowhere = ~0U;

  // Shared rows may start at any bank: 16 bytes go as words where they do.
  template <int Bytes>
  WARPWRIGHT_HOST_DEVICE void put(lanes<std::uint8_t, Bytes> const& held, unsigned char* memory,
                                  unsigned to) const {
    if constexpr (Bytes == 16) {
      if (!blocks || layout.linear) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (unsigned k = 0; k < 4; ++k) {
          lanes<std::uint8_t, 4> word;
          word.words[0] = held.words[k];
          word.store_anywhere(memory + (layout.linear ? layout.stretched(to + 4 * k) : to + 4 * k));
        }
        return;
      }
    }
    held.store_anywhere(memory + (layout.linear ? layout.stretched(to) : to));
  }

  // Along x, a warp takes 32 vectors that lie side by side in x and y, so that no two lanes meet in
  // a bank. Else it goes on in the order of the output, over the ends of rows that follow each
  // other.
  template <int V, class Write>
  WARPWRIGHT_HOST_DEVICE void each_of(tile_block const& b, unsigned char const* memory, unsigned t,
                                      Write const& write) const {
    unsigned const lane_x = t & ((1U << lanes_shift) - 1U);
    unsigned const lane_y = t % 32 >> lanes_shift;
    bool const by_warps = V > 1 && blocks;
    unsigned const at_once = by_warps ? tile_threads / 32 : tile_threads;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (unsigned unit = by_warps ? t / 32 : t; unit < units; unit += at_once) {
      unsigned const place = by_warps ? unit : unit * V;
      unsigned y = columns.quotient(place);
      unsigned x = place - y * columns.divisor();
      if (by_warps) {
        x = ((x << lanes_shift) + lane_x) * V;
        y = y * (32U >> lanes_shift) + lane_y;
      }
      if constexpr (V == 1) y *= tile_rows_at_once;
      if (x >= b.nx || y >= b.ny) continue;
      std::uint64_t out = b.out + y * out_y + x;
      tile_cursor cursor{memory,       layout.skew, layout.row(x) + y * layout.element_bytes,
                         layout.pitch, tile_x - x,  layout.element_bytes - tile_x * layout.pitch,
                         tile_x};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned k = 0; k < (V == 1 ? tile_rows_at_once : 1); ++k) {
        if (y + k >= b.ny) break;
        write(std::integral_constant<int, V>{}, out, cursor);
        out += out_y;
        cursor.first += layout.element_bytes;
      }
    }
  }
};

template <class Bits>
WARPWRIGHT_HOST_DEVICE Bits staged_at(unsigned char const* from) {
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<Bits const*>(from);
#else
  Bits bits;
  std::memcpy(&bits, from, sizeof(Bits));
  return bits;
#endif
}
template <class Bits, int V>
WARPWRIGHT_HOST_DEVICE void gather(lanes<Bits, V>& r, tile_cursor const& c) {
  if (c.skew == 0 && (V == 1 || c.left >= V)) {  // the usual case, as short as it can be
    unsigned char const* from = c.memory + c.first;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned j = 0; j < V; ++j) {
      r.set(static_cast<int>(j), staged_at<Bits>(from + j * c.step));
    }
    return;
  }
  unsigned address = c.first;
  unsigned left = c.left;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int j = 0; j < V; ++j) {
    r.set(j, staged_at<Bits>(c.memory + address + (address >> 7U) * c.skew));
    address += c.step;
    if (--left == 0) left = c.columns, address += c.back;
  }
}

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
  // Less than a sector each way, or a page in all: single accesses find the rest in the L1 cache.
  if (ey * bytes < 32 && !reads_meet) return job;
  if (ex * out_bytes < 32 && !writes_meet) return job;
  if (ex * ey * bytes < 4096) return job;

  job.address = address;
  job.extent_x = ex;
  job.extent_y = ey;
  job.in_x = of[0].stride * static_cast<std::int64_t>(bytes);
  job.layout.element_bytes = element_bytes;

  // 128 bytes or more each way, and 16 KiB together; what one dimension lacks the other gets.
  std::uint64_t const cap = tile_bytes / bytes;
  std::uint64_t const edge = bytes == 1 ? 128 : 64;
  std::uint64_t const grain_y = 16 / bytes > vector ? 16 / bytes : vector;  // whole vectors
  bool const narrow = ex < edge;
  std::uint64_t const ty = narrow ? even_part(ey, cap / ex / grain_y * grain_y, grain_y)
                                  : even_part(ey, bytes == 2 ? 2 * edge : edge, grain_y);
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
    layout.group_bytes = small_divisor{group};
    layout.group_gap = layout.group_pitch - group;
  } else if (layout.linear) {
    layout.pitch = row_bytes;
    layout.group_pitch = row_bytes;
    layout.skew = bank;
  } else if (job.blocks) {  // groups an odd number of 16 bytes apart
    layout.group_shift = log2_of(vector);
    layout.pitch = (row_bytes + 15) / 16 * 16;
    layout.group_pitch = (vector * layout.pitch / 16 | 1U) * 16;
  } else {  // rows an odd number of banks apart
    layout.pitch = ((row_bytes + bank - 1) / bank | 1U) * bank;
    layout.group_pitch = layout.pitch;
  }
  if (!layout.linear || layout.group_shift != 0) {
    std::uint64_t const room = (tile_memory_bytes / layout.group_pitch) << layout.group_shift;
    if (tx > room) tx = room;
  }
  if (tx == 0) return job;
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
  job.tiles_x = small_divisor{static_cast<std::uint32_t>(across_x)};
  job.tiles_y = small_divisor{static_cast<std::uint32_t>(across_y)};

  // Reading.
  alignment |= layout.linear ? ex * ey * bytes | tx * ey * bytes
                             : static_cast<std::uint64_t>(job.in_x) | ey * bytes | row_bytes;
  job.access = common_alignment(alignment);
  if (job.access == 8) job.access = 4;
  job.rows = layout.linear ? 1 : job.tile_x;
  job.accesses = small_divisor{(layout.linear ? job.tile_x * row_bytes : row_bytes) / job.access};

  // Writing: vectors along x; over the ends of short rows, where these follow each other; or
  // elements.
  job.vectors = job.blocks || (vector > 1 && writes_meet && tx == ex && ex * ey % vector == 0 &&
                               ty * ex % vector == 0 && vector_starts % vector == 0);
  if (job.blocks) {
    job.lanes_shift = layout.linear || ty < 4 ? 5 : 3;
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
