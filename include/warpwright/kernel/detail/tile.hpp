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

/// A dimension that tiles do not cut.
struct tile_batch {
  small_divisor extent;
  std::uint64_t out_step = 0;  ///< elements of the output
  std::int64_t in_step = 0;    ///< bytes of the view
};

/// Adds the way to the rest-th batch, and tells its coordinates behind those of x and y.
WARPWRIGHT_HOST_DEVICE inline void go_to_batch(tile_batch const (&batch)[most_dimensions - 2],
                                               int batches, unsigned rest, std::uint64_t& out,
                                               std::int64_t& in, unsigned (&at)[most_dimensions]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int k = 0; k < most_dimensions - 2; ++k) {
    if (k >= batches) break;
    unsigned const beyond = batch[k].extent.quotient(rest);
    unsigned const coordinate = rest - beyond * batch[k].extent.divisor();
    out += coordinate * batch[k].out_step;
    in += static_cast<std::int64_t>(coordinate) * batch[k].in_step;
    at[2 + k] = coordinate;
    rest = beyond;
  }
}

/// Where one block works.
struct tile_block {
  std::uint64_t out = 0;  ///< element of the output
  std::int64_t in = 0;    ///< bytes from the view's first element
  unsigned nx = 0;        ///< extents of its tile, less than a whole one's at the ends
  unsigned ny = 0;
  unsigned at[most_dimensions] = {};  ///< coordinates of its first element: x, y, the batches'
};

// How a kernel of tiles or pixels comes to a view's elements.
enum class tile_way : unsigned {
  any,       // as other kernels do
  staged,    // a tile brings them, or the pixels: nothing to load
  along,     // its axes are those of the tiles
  repeated,  // likewise, and a vector is one element
};

/// An element of the output in a kernel of tiles.
struct tile_element {
  std::uint64_t index;
  unsigned at[most_dimensions];  ///< its coordinates modulo 2^32: x, y, the batches'
};

/// How elements lie in shared memory, in bytes: before the step aside that `skew` takes every 128
/// bytes, element (x, y) is at row(x) + y * element_bytes.
struct tile_layout {
  bool linear = false;       ///< as in the view: one stretch
  unsigned pitch = 0;        ///< from one x to the next within a group
  unsigned group_shift = 0;  ///< log2 of the number of x in a group
  unsigned group_mask = 0;   ///< that number less one
  unsigned group_pitch = 0;  ///< from one group to the next
  small_divisor gap_every;   ///< bytes of a linear one, whole words: a gap is behind each of these
  unsigned gap = 0;          ///< likewise
  unsigned skew = 0;         ///< the gap of one that has no groups: then it is every 128 bytes
  unsigned element_bytes = 1;

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned row(unsigned x) const {
    return (x >> group_shift) * group_pitch + (x & group_mask) * pitch;
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

inline constexpr unsigned most_channels = 4;

/// Whether a view's y is the channels of pixels along x, few enough for pixels.hpp.
constexpr bool are_pixels(std::uint64_t channels, std::int64_t pitch) {
  return channels <= most_channels && pitch >= 2 && pitch <= std::int64_t{most_channels};
}

/// A transposition as the blocks of a kernel see it; tiles == 0: not one.
struct tile_job {
  std::uint64_t tiles = 0;
  bool pixels_only = false;   ///< not for tiles
  std::uint64_t address = 0;  ///< of the view's first element
  std::uint64_t extent_x = 0;
  std::uint64_t extent_y = 0;
  std::uint64_t out_y = 0;  ///< elements of the output from one y to the next
  std::int64_t in_x = 0;    ///< bytes of the view from one x to the next
  unsigned tile_x = 0;
  unsigned tile_y = 0;
  bool along_x = false;        ///< in which order blocks follow each other
  small_divisor tiles_nearer;  ///< along that dimension
  small_divisor tiles_further;
  int y_axis = 0;  ///< of the view's axes
  int batches = 0;
  tile_batch batch[most_dimensions - 2];
  tile_layout layout;
  unsigned access = 0;           ///< bytes of one access to the view: 16, 4, 2 or 1
  small_divisor accesses;        ///< of 16 bytes, in a row of a whole tile
  unsigned row_lanes_shift = 0;  ///< log2 of the threads along a row
  // Rows of bytes that start anywhere: read by the aligned 16 around, and staged as far into a word
  // as they start in one.
  bool shifted = false;
  small_divisor chunks;      ///< of 16 bytes, in a row of a whole tile
  std::uint64_t low = 0;     ///< the view's first byte
  std::uint64_t high = 0;    ///< behind its last
  bool vectors = false;      ///< the output goes by vectors, else element by element
  bool blocks = false;       ///< ... where a warp takes vectors of several y
  unsigned lanes_shift = 0;  ///< log2 of the vectors of one y that a warp takes
  small_divisor columns;     ///< of warps' blocks, or elements, in a row of a whole tile
  unsigned units = 0;        ///< of blocks, vectors, or elements below each other in a whole tile
  std::uint64_t wide = 0;    ///< as schedule::wide

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE tile_block block(unsigned number) const {
    unsigned const lines = tiles_nearer.quotient(number);
    unsigned const nearer = number - lines * tiles_nearer.divisor();
    unsigned const rest = tiles_further.quotient(lines);
    unsigned const further = lines - rest * tiles_further.divisor();
    std::uint64_t const x = std::uint64_t{along_x ? nearer : further} * tile_x;
    std::uint64_t const y = std::uint64_t{along_x ? further : nearer} * tile_y;
    tile_block b;
    b.out = y * out_y + x;
    b.in =
        static_cast<std::int64_t>(x) * in_x + static_cast<std::int64_t>(y * layout.element_bytes);
    b.nx = static_cast<unsigned>(extent_x - x < tile_x ? extent_x - x : tile_x);
    b.ny = static_cast<unsigned>(extent_y - y < tile_y ? extent_y - y : tile_y);
    b.at[0] = static_cast<unsigned>(x);
    b.at[1] = static_cast<unsigned>(y);
    go_to_batch(batch, batches, rest, b.out, b.in, b.at);
    return b;
  }

  /// One thread's part of reading a panel into shared memory.
  /// @tparam Least  what every view's elements are aligned to: no access but of 4 is of fewer bytes
  template <unsigned Least>
  WARPWRIGHT_HOST_DEVICE void stage(tile_block const& b, unsigned char* memory, unsigned t) const {
    if constexpr (Least == 1) {
      if (shifted && has_room_around(b)) return stage_shifted(b, memory, t);
    }
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

  /// Calls write(v, element, cursor) for every vector of the output that falls to thread `t`: v is
  /// a std::integral_constant, the number of its elements, and `element` the first of them.
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
  // How far into a word row x is staged.
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned word_shift(tile_block const& b, unsigned x) const {
    if (!shifted) return 0;
    return static_cast<unsigned>(address + static_cast<std::uint64_t>(b.in) +
                                 x * static_cast<std::uint64_t>(in_x)) &
           3U;
  }

  // Whether the aligned 16 bytes around all rows of a block are in the view.
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE bool has_room_around(tile_block const& b) const {
    std::uint64_t const corner = address + static_cast<std::uint64_t>(b.in);
    auto const across = static_cast<std::uint64_t>(in_x) * (b.nx - 1);
    std::uint64_t const first = in_x < 0 ? corner + across : corner;
    std::uint64_t const end = (in_x < 0 ? corner : corner + across) + b.ny;
    return (first & ~std::uint64_t{15}) >= low && ((end + 15) & ~std::uint64_t{15}) <= high;
  }

  // Five accesses are under way before the first is put down: all of a whole tile.
  WARPWRIGHT_HOST_DEVICE void stage_shifted(tile_block const& b, unsigned char* memory,
                                            unsigned t) const {
    constexpr unsigned at_once = 5;
    auto const* const from = reinterpret_cast<unsigned char const*>(address) + b.in;
    unsigned const total = tile_x * chunks.divisor();
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (unsigned first = t; first < total; first += at_once * tile_threads) {
      lanes<std::uint8_t, 16> held[at_once];
      unsigned to[at_once];
      unsigned begin[at_once];  // of its words those that hold a part of the row
      unsigned end[at_once];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < at_once; ++u) {
        unsigned const number = first + u * tile_threads;
        unsigned const row = chunks.quotient(number);
        unsigned const chunk = number - row * chunks.divisor();
        auto const* const start = from + static_cast<std::int64_t>(row) * in_x;
        auto const shift = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(start)) & 15U;
        begin[u] = end[u] = to[u] = 0;
        if (row >= b.nx || chunk * 16 >= shift + b.ny) continue;
        held[u].load_wide(start - shift + chunk * 16);
        unsigned const words = (shift + b.ny - chunk * 16 + 3) / 4;
        begin[u] = chunk == 0 ? shift / 4 : 0;
        end[u] = words < 4 ? words : 4;
        to[u] = layout.row(row) + chunk * 16 - shift / 4 * 4;  // modulo 2^32
      }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < at_once; ++u) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (unsigned k = 0; k < 4; ++k) {
          if (k < begin[u] || k >= end[u]) continue;
          lanes<std::uint8_t, 4> word;
          word.words[0] = held[u].words[k];
          word.store_anywhere(memory + (to[u] + 4 * k));
        }
      }
    }
  }

  template <int Bytes>
  WARPWRIGHT_HOST_DEVICE void stage_by(tile_block const& b, unsigned char* memory,
                                       unsigned t) const {
    if (layout.linear) {
      stage_stretch<Bytes>(b, memory, t);
    } else if constexpr (Bytes == 16) {
      stage_wide(b, memory, t);
    } else {
      stage_rows<Bytes>(b, memory, t);
    }
  }

  // Rows by 16 bytes, of which a thread has four or fewer: dividing deals them out evenly.
  WARPWRIGHT_HOST_DEVICE void stage_wide(tile_block const& b, unsigned char* memory,
                                         unsigned t) const {
    auto const* const from = reinterpret_cast<unsigned char const*>(address) + b.in;
    unsigned const row_bytes = b.ny * layout.element_bytes;
    unsigned const total = tile_x * accesses.divisor();
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (unsigned first = t; first < total; first += accesses_at_once * tile_threads) {
      lanes<std::uint8_t, 16> held[accesses_at_once];
      unsigned to[accesses_at_once];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < accesses_at_once; ++u) {
        unsigned const number = first + u * tile_threads;
        unsigned const row = accesses.quotient(number);
        unsigned const column = (number - row * accesses.divisor()) * 16;
        to[u] = nowhere;
        if (row >= b.nx || column >= row_bytes) continue;
        to[u] = layout.row(row) + column;
        held[u].load_wide(from + (static_cast<std::int64_t>(row) * in_x + column));
      }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < accesses_at_once; ++u) {
        if (to[u] == nowhere) continue;
        if (blocks) {
          held[u].store_anywhere(memory + to[u]);
        } else {  // rows may start at any bank
          put_words(held[u], memory + to[u]);
        }
      }
    }
  }
  static constexpr unsigned nowhere = ~0U;

  // Rows by less, by 2^row_lanes_shift threads along each: a thread goes down a column, so that the
  // way to its next access is an addition. (Dividing for each made it wait for instructions.)
  template <int Bytes>
  WARPWRIGHT_HOST_DEVICE void stage_rows(tile_block const& b, unsigned char* memory,
                                         unsigned t) const {
    unsigned const row_bytes = b.ny * layout.element_bytes;
    unsigned const rows_step = tile_threads >> row_lanes_shift;
    unsigned const first = t >> row_lanes_shift;
    std::int64_t const in_step = in_x * rows_step;
    auto const* const rows = reinterpret_cast<unsigned char const*>(address) + b.in +
                             static_cast<std::int64_t>(first) * in_x;
    unsigned column = (t & ((1U << row_lanes_shift) - 1U)) * Bytes;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (; column < row_bytes; column += static_cast<unsigned>(Bytes) << row_lanes_shift) {
      auto const* from = rows + column;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
      for (unsigned row = first; row < b.nx; row += accesses_at_once * rows_step) {
        lanes<std::uint8_t, Bytes> held[accesses_at_once];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (unsigned u = 0; u < accesses_at_once; ++u) {
          if (row + u * rows_step < b.nx) load_bytes(held[u], from);
          from += in_step;
        }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (unsigned u = 0; u < accesses_at_once; ++u) {
          unsigned const at = row + u * rows_step;
          if (at >= b.nx) break;
          unsigned char* to = memory + (layout.row(at) + column);
          if constexpr (Bytes == 1) to += word_shift(b, at);
          held[u].store_anywhere(to);
        }
      }
    }
  }

  // A linear panel, with the gaps of its layout.
  template <int Bytes>
  WARPWRIGHT_HOST_DEVICE void stage_stretch(tile_block const& b, unsigned char* memory,
                                            unsigned t) const {
    auto const* const from = reinterpret_cast<unsigned char const*>(address) + b.in;
    unsigned const bytes = b.nx * layout.pitch;
    constexpr unsigned step = tile_threads * Bytes;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (unsigned first = t * Bytes; first < bytes; first += accesses_at_once * step) {
      lanes<std::uint8_t, Bytes> held[accesses_at_once];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < accesses_at_once; ++u) {
        if (first + u * step < bytes) load_bytes(held[u], from + (first + u * step));
      }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < accesses_at_once; ++u) {
        unsigned const at = first + u * step;
        if (at >= bytes) break;
        unsigned const gaps = layout.gap_every.quotient(at);
        unsigned char* const to = memory + (at + gaps * layout.gap);
        if constexpr (Bytes == 16) {
          put_words(held[u], to, at - gaps * layout.gap_every.divisor());
        } else {
          held[u].store_anywhere(to);
        }
      }
    }
  }

  static constexpr unsigned accesses_at_once = 4;  // (eight narrow ones were no faster)

  template <int Bytes>
  WARPWRIGHT_HOST_DEVICE static void load_bytes(lanes<std::uint8_t, Bytes>& held,
                                                unsigned char const* from) {
    if constexpr (Bytes == 1) {
      held.only = *from;
    } else {
      held.load_wide(from);
    }
  }
  // 16 bytes to any bank, and over the gaps of a linear layout.
  // @param behind  bytes since the last gap
  WARPWRIGHT_HOST_DEVICE void put_words(lanes<std::uint8_t, 16> const& held, unsigned char* to,
                                        unsigned behind = 0) const {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned k = 0; k < 4; ++k) {
      lanes<std::uint8_t, 4> word;
      word.words[0] = held.words[k];
      word.store_anywhere(to);
      to += 4;
      behind += 4;
      if (layout.linear && behind >= layout.gap_every.divisor()) {
        to += layout.gap;
        behind -= layout.gap_every.divisor();
      }
    }
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
      tile_element first{b.out + y * out_y + x, {}};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int k = 0; k < most_dimensions; ++k) first.at[k] = b.at[k];
      first.at[0] += x;
      first.at[1] += y;
      unsigned const staged = layout.row(x) + (V == 1 ? word_shift(b, x) : 0);
      tile_cursor cursor{memory,       layout.skew, staged + y * layout.element_bytes,
                         layout.pitch, tile_x - x,  layout.element_bytes - tile_x * layout.pitch,
                         tile_x};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned k = 0; k < (V == 1 ? tile_rows_at_once : 1); ++k) {
        if (y + k >= b.ny) break;
        write(std::integral_constant<int, V>{}, first, cursor);
        first.index += out_y;
        ++first.at[1];
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

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
