// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A transposition through shared memory: how a view is cut into tiles, and the work of each thread.
//
// x is the output's innermost dimension and y the dimension along which the view's memory is
// contiguous; the other dimensions are batches, which no tile spans. A block copies one tile to
// shared memory along y (stage()), and each thread then gathers vectors along x (each_vector()).
#pragma once

#include <warpwright/kernel/detail/expression/packed_vector.hpp>
#include <warpwright/kernel/detail/plan/axes.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

inline constexpr unsigned tile_threads = 256;
inline constexpr unsigned tile_bytes = 16384;         // four accesses of 16 bytes a thread
inline constexpr unsigned tile_memory_bytes = 20480;  // a tile, and padding against bank conflicts
inline constexpr unsigned tile_rows_at_once = 4;      // single elements that share one division

/// An element of the output.
struct output_element {
  std::uint64_t index = 0;
  unsigned coordinates[max_dimensions] = {};  ///< modulo 2^32: x, y, the batches'
};

struct batch_dimension {
  small_divisor extent;
  std::uint64_t out_stride = 0;        ///< elements of the output
  std::int64_t view_stride_bytes = 0;  ///< bytes of the view
};

/// The dimensions other than x and y, innermost first.
struct batch_dimensions {
  int count = 0;
  batch_dimension each[max_dimensions - 2];

  /// Adds the position of a batch to an output's element and to a view's offset in bytes.
  WARPWRIGHT_HOST_DEVICE void add_position(unsigned batch, output_element& out,
                                           std::int64_t& view_bytes) const {
    WARPWRIGHT_UNROLL
    for (int k = 0; k < max_dimensions - 2; ++k) {
      if (k >= count) break;
      unsigned const next = each[k].extent.quotient(batch);
      unsigned const coordinate = batch - next * each[k].extent.divisor();
      out.index += coordinate * each[k].out_stride;
      view_bytes += static_cast<std::int64_t>(coordinate) * each[k].view_stride_bytes;
      out.coordinates[2 + k] = coordinate;
      batch = next;
    }
  }
};

/// The tile of one block.
struct tile {
  output_element first;
  std::int64_t view_bytes = 0;  ///< from the view's first element
  unsigned nx = 0;              ///< its extents, smaller at the ends of a dimension
  unsigned ny = 0;
};

/// How a kernel of tiles or pixels loads a view.
enum class view_access : unsigned {
  strided,   // as other kernels do, by dividing the element's index
  staged,    // from the tile in shared memory, or from the pixels in registers
  aligned,   // by the tile's coordinates: its axes are those of the staged view
  broadcast  // likewise, and all elements of a vector are one
};

/// How a tile lies in shared memory, in bytes: element (x, y) is at row(x) + y * element_bytes,
/// before line_padding.
struct tile_layout {
  bool linear = false;         ///< one contiguous range, as in the view
  unsigned pitch = 0;          ///< from one x to the next within a group
  unsigned group_shift = 0;    ///< log2 of the number of x in a group
  unsigned group_mask = 0;     ///< that number less one
  unsigned group_pitch = 0;    ///< from one group to the next
  small_divisor padded_bytes;  ///< if linear: whole words between two paddings
  unsigned padding = 0;        ///< if linear: its bytes
  unsigned line_padding = 0;   ///< if linear without groups: added every 128 bytes when read
  unsigned element_bytes = 1;

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned row(unsigned x) const {
    return (x >> group_shift) * group_pitch + (x & group_mask) * pitch;
  }
};

/// Where the elements of one vector lie in shared memory, in bytes before line_padding.
struct staged_vector {
  unsigned char const* memory;
  unsigned line_padding;
  unsigned first;    ///< of element 0
  unsigned step;     ///< to the next
  unsigned left;     ///< elements before a row ends
  unsigned wrap;     ///< from the end of a row to the start of the next, modulo 2^32
  unsigned columns;  ///< of the next row
};

inline constexpr unsigned max_channels = 4;

/// Whether y is the interleaved channels of pixels along x, few enough for pixels.hpp.
constexpr bool are_pixels(std::uint64_t channels, std::int64_t pitch) {
  return channels <= max_channels && pitch >= 2 && pitch <= std::int64_t{max_channels};
}

/// The work of a kernel of tiles: what select_view() decides and every block reads.
struct tile_partition {
  std::uint64_t tiles = 0;    ///< 0: the view is not moved by tiles
  bool pixels_only = false;   ///< a candidate for pixels, not for tiles
  std::uint64_t address = 0;  ///< of the view's first element
  std::uint64_t extent_x = 0;
  std::uint64_t extent_y = 0;
  std::uint64_t out_stride_y = 0;   ///< elements of the output
  std::int64_t stride_x_bytes = 0;  ///< bytes of the view
  unsigned tile_x = 0;
  unsigned tile_y = 0;
  bool x_first = false;       ///< consecutive blocks take tiles along x, else along y
  small_divisor tiles_inner;  ///< along that dimension
  small_divisor tiles_outer;
  int y_axis = 0;  ///< of the view's axes
  batch_dimensions batches;
  tile_layout layout;
  unsigned access_bytes = 0;       ///< of one access to the view: 16, 4, 2 or 1
  small_divisor accesses_per_row;  ///< of 16 bytes, in a whole tile
  unsigned row_threads_shift = 0;  ///< log2 of the threads along a row, for narrower accesses
  // Rows of bytes that start anywhere: the aligned 16 bytes around them are read, and a row is
  // staged at the offset within a word that it has in memory.
  bool unaligned = false;
  small_divisor chunks_per_row;  ///< of 16 bytes, in a whole tile
  std::uint64_t view_begin = 0;  ///< address of the view's lowest byte
  std::uint64_t view_end = 0;    ///< address behind its highest
  bool vectors = false;          ///< the output is stored by vectors, else element by element
  bool warp_tiles = false;       ///< ... where a warp takes vectors of several y
  unsigned lanes_x_shift = 0;    ///< log2 of the vectors of one y that a warp takes
  small_divisor columns;         ///< in a row of a whole tile: warp tiles, or elements
  unsigned items = 0;      ///< in a whole tile: warp tiles, vectors, or tile_rows_at_once elements
  std::uint64_t wide = 0;  ///< as vector_partition::wide

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE tile tile_of(unsigned block) const {
    unsigned const line = tiles_inner.quotient(block);
    unsigned const inner = block - line * tiles_inner.divisor();
    unsigned const batch = tiles_outer.quotient(line);
    unsigned const outer = line - batch * tiles_outer.divisor();
    std::uint64_t const x = std::uint64_t{x_first ? inner : outer} * tile_x;
    std::uint64_t const y = std::uint64_t{x_first ? outer : inner} * tile_y;
    tile b;
    b.first = {y * out_stride_y + x, {static_cast<unsigned>(x), static_cast<unsigned>(y)}};
    b.view_bytes = static_cast<std::int64_t>(x) * stride_x_bytes +
                   static_cast<std::int64_t>(y * layout.element_bytes);
    b.nx = static_cast<unsigned>(extent_x - x < tile_x ? extent_x - x : tile_x);
    b.ny = static_cast<unsigned>(extent_y - y < tile_y ? extent_y - y : tile_y);
    batches.add_position(batch, b.first, b.view_bytes);
    return b;
  }

  /// Thread t's part of copying a tile to shared memory.
  /// @tparam Least  alignment of every view's elements: narrower accesses are not compiled, but 4
  template <unsigned Least>
  WARPWRIGHT_HOST_DEVICE void stage(tile const& b, unsigned char* memory, unsigned t) const {
    if constexpr (Least == 1) {
      if (unaligned && has_room_around(b)) return stage_unaligned(b, memory, t);
    }
    stage_by<16, Least>(b, memory, t);
  }

  /// Calls write(v, element, staged) for every vector of the output that thread t stores: v is a
  /// std::integral_constant, the number of its elements, and `element` the first of them. With warp
  /// tiles, a warp takes 32 vectors that are neighbours in x and y, without bank conflicts. Else
  /// threads take vectors in the order of the output, across the ends of contiguous rows.
  /// @tparam Vector  elements of a vector where the output is stored by vectors
  template <int Vector, int V = 1, class Write>
  WARPWRIGHT_HOST_DEVICE void each_vector(tile const& b, unsigned char const* memory, unsigned t,
                                          Write const& write) const {
    if constexpr (V != Vector) {
      if (vectors) return each_vector<Vector, Vector>(b, memory, t, write);
    }
    unsigned const lane_x = t & ((1U << lanes_x_shift) - 1U);
    unsigned const lane_y = t % 32 >> lanes_x_shift;
    bool const by_warps = V > 1 && warp_tiles;
    unsigned const at_once = by_warps ? tile_threads / 32 : tile_threads;
    WARPWRIGHT_NO_UNROLL
    for (unsigned item = by_warps ? t / 32 : t; item < items; item += at_once) {
      unsigned const column = by_warps ? item : item * V;
      unsigned y = columns.quotient(column);
      unsigned x = column - y * columns.divisor();
      if (by_warps) {
        x = ((x << lanes_x_shift) + lane_x) * V;
        y = y * (32U >> lanes_x_shift) + lane_y;
      }
      if constexpr (V == 1) y *= tile_rows_at_once;
      if (x >= b.nx || y >= b.ny) continue;
      output_element first = b.first;
      first.index += y * out_stride_y + x;
      first.coordinates[0] += x;
      first.coordinates[1] += y;
      unsigned const row = layout.row(x) + (V == 1 ? word_shift(b, x) : 0);
      staged_vector staged{
          memory,       layout.line_padding, row + y * layout.element_bytes,
          layout.pitch, tile_x - x,          layout.element_bytes - tile_x * layout.pitch,
          tile_x};
      WARPWRIGHT_UNROLL
      for (unsigned k = 0; k < (V == 1 ? tile_rows_at_once : 1); ++k) {
        if (y + k >= b.ny) break;
        write(std::integral_constant<int, V>{}, first, staged);
        first.index += out_stride_y;
        ++first.coordinates[1];
        staged.first += layout.element_bytes;
      }
    }
  }

 private:
  // The offset within a word at which row x is staged.
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned word_shift(tile const& b, unsigned x) const {
    if (!unaligned) return 0;
    return static_cast<unsigned>(address + static_cast<std::uint64_t>(b.view_bytes) +
                                 x * static_cast<std::uint64_t>(stride_x_bytes)) &
           3U;
  }

  // Whether the aligned 16 bytes around all rows of a tile lie within the view.
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE bool has_room_around(tile const& b) const {
    std::uint64_t const corner = address + static_cast<std::uint64_t>(b.view_bytes);
    auto const across = static_cast<std::uint64_t>(stride_x_bytes) * (b.nx - 1);
    std::uint64_t const first = stride_x_bytes < 0 ? corner + across : corner;
    std::uint64_t const end = (stride_x_bytes < 0 ? corner : corner + across) + b.ny;
    return (first & ~std::uint64_t{15}) >= view_begin &&
           ((end + 15) & ~std::uint64_t{15}) <= view_end;
  }

  // Five loads are in flight before the first store: all of a whole tile.
  WARPWRIGHT_HOST_DEVICE void stage_unaligned(tile const& b, unsigned char* memory,
                                              unsigned t) const {
    constexpr unsigned at_once = 5;
    auto const* const from = reinterpret_cast<unsigned char const*>(address) + b.view_bytes;
    unsigned const total = tile_x * chunks_per_row.divisor();
    WARPWRIGHT_NO_UNROLL
    for (unsigned first = t; first < total; first += at_once * tile_threads) {
      packed_vector<std::uint8_t, 16> loaded[at_once];
      unsigned to[at_once];
      unsigned begin[at_once];  // the words that hold a part of the row
      unsigned end[at_once];
      WARPWRIGHT_UNROLL
      for (unsigned u = 0; u < at_once; ++u) {
        unsigned const number = first + u * tile_threads;
        unsigned const row = chunks_per_row.quotient(number);
        unsigned const chunk = number - row * chunks_per_row.divisor();
        auto const* const start = from + static_cast<std::int64_t>(row) * stride_x_bytes;
        auto const shift = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(start)) & 15U;
        begin[u] = end[u] = to[u] = 0;
        if (row >= b.nx || chunk * 16 >= shift + b.ny) continue;
        loaded[u].load_wide(start - shift + chunk * 16);
        unsigned const words = (shift + b.ny - chunk * 16 + 3) / 4;
        begin[u] = chunk == 0 ? shift / 4 : 0;
        end[u] = words < 4 ? words : 4;
        to[u] = layout.row(row) + chunk * 16 - shift / 4 * 4;  // modulo 2^32
      }
      WARPWRIGHT_UNROLL
      for (unsigned u = 0; u < at_once; ++u) {
        WARPWRIGHT_UNROLL
        for (unsigned k = 0; k < 4; ++k) {
          if (k < begin[u] || k >= end[u]) continue;
          packed_vector<std::uint8_t, 4> word;
          word.words[0] = loaded[u].words[k];
          word.store_anywhere(memory + (to[u] + 4 * k));
        }
      }
    }
  }

  template <int Bytes, unsigned Least>
  WARPWRIGHT_HOST_DEVICE void stage_by(tile const& b, unsigned char* memory, unsigned t) const {
    if constexpr (Bytes == 16 || Bytes > Least) {
      constexpr int narrower = Bytes == 16 ? 4 : Bytes / 2;
      if (access_bytes != Bytes) return stage_by<narrower, Least>(b, memory, t);
    }
    if (layout.linear) {
      stage_linear<Bytes>(b, memory, t);
    } else if constexpr (Bytes == 16) {
      stage_wide(b, memory, t);
    } else {
      stage_rows<Bytes>(b, memory, t);
    }
  }

  // Rows by 16 bytes, four or fewer a thread: a division distributes them evenly.
  WARPWRIGHT_HOST_DEVICE void stage_wide(tile const& b, unsigned char* memory, unsigned t) const {
    auto const* const from = reinterpret_cast<unsigned char const*>(address) + b.view_bytes;
    unsigned const row_bytes = b.ny * layout.element_bytes;
    unsigned const total = tile_x * accesses_per_row.divisor();
    WARPWRIGHT_NO_UNROLL
    for (unsigned first = t; first < total; first += accesses_at_once * tile_threads) {
      packed_vector<std::uint8_t, 16> loaded[accesses_at_once];
      unsigned to[accesses_at_once];
      WARPWRIGHT_UNROLL
      for (unsigned u = 0; u < accesses_at_once; ++u) {
        unsigned const number = first + u * tile_threads;
        unsigned const row = accesses_per_row.quotient(number);
        unsigned const column = (number - row * accesses_per_row.divisor()) * 16;
        to[u] = no_destination;
        if (row >= b.nx || column >= row_bytes) continue;
        to[u] = layout.row(row) + column;
        loaded[u].load_wide(from + (static_cast<std::int64_t>(row) * stride_x_bytes + column));
      }
      WARPWRIGHT_UNROLL
      for (unsigned u = 0; u < accesses_at_once; ++u) {
        if (to[u] == no_destination) continue;
        if (warp_tiles) {
          loaded[u].store_anywhere(memory + to[u]);
        } else {  // rows may start at any bank
          store_words(loaded[u], memory + to[u]);
        }
      }
    }
  }
  static constexpr unsigned no_destination = ~0U;

  // Rows by narrower accesses, with 2^row_threads_shift threads along each. A thread stays in one
  // column, so that an addition leads to its next access: a division for each was slower.
  template <int Bytes>
  WARPWRIGHT_HOST_DEVICE void stage_rows(tile const& b, unsigned char* memory, unsigned t) const {
    unsigned const row_bytes = b.ny * layout.element_bytes;
    unsigned const rows_step = tile_threads >> row_threads_shift;
    unsigned const first = t >> row_threads_shift;
    std::int64_t const in_step = stride_x_bytes * rows_step;
    auto const* const rows = reinterpret_cast<unsigned char const*>(address) + b.view_bytes +
                             static_cast<std::int64_t>(first) * stride_x_bytes;
    unsigned column = (t & ((1U << row_threads_shift) - 1U)) * Bytes;
    WARPWRIGHT_NO_UNROLL
    for (; column < row_bytes; column += static_cast<unsigned>(Bytes) << row_threads_shift) {
      auto const* from = rows + column;
      WARPWRIGHT_NO_UNROLL
      for (unsigned row = first; row < b.nx; row += accesses_at_once * rows_step) {
        packed_vector<std::uint8_t, Bytes> loaded[accesses_at_once];
        WARPWRIGHT_UNROLL
        for (unsigned u = 0; u < accesses_at_once; ++u) {
          if (row + u * rows_step < b.nx) load_bytes(loaded[u], from);
          from += in_step;
        }
        WARPWRIGHT_UNROLL
        for (unsigned u = 0; u < accesses_at_once; ++u) {
          unsigned const at = row + u * rows_step;
          if (at >= b.nx) break;
          unsigned char* to = memory + (layout.row(at) + column);
          if constexpr (Bytes == 1) to += word_shift(b, at);
          loaded[u].store_anywhere(to);
        }
      }
    }
  }

  // A linear tile, with the padding of its layout.
  template <int Bytes>
  WARPWRIGHT_HOST_DEVICE void stage_linear(tile const& b, unsigned char* memory, unsigned t) const {
    auto const* const from = reinterpret_cast<unsigned char const*>(address) + b.view_bytes;
    unsigned const bytes = b.nx * layout.pitch;
    constexpr unsigned step = tile_threads * Bytes;
    WARPWRIGHT_NO_UNROLL
    for (unsigned first = t * Bytes; first < bytes; first += accesses_at_once * step) {
      packed_vector<std::uint8_t, Bytes> loaded[accesses_at_once];
      WARPWRIGHT_UNROLL
      for (unsigned u = 0; u < accesses_at_once; ++u) {
        if (first + u * step < bytes) load_bytes(loaded[u], from + (first + u * step));
      }
      WARPWRIGHT_UNROLL
      for (unsigned u = 0; u < accesses_at_once; ++u) {
        unsigned const at = first + u * step;
        if (at >= bytes) break;
        unsigned const paddings = layout.padded_bytes.quotient(at);
        unsigned char* const to = memory + (at + paddings * layout.padding);
        if constexpr (Bytes == 16) {
          store_words(loaded[u], to, at - paddings * layout.padded_bytes.divisor());
        } else {
          loaded[u].store_anywhere(to);
        }
      }
    }
  }

  static constexpr unsigned accesses_at_once = 4;  // (eight narrow ones were no faster)

  template <int Bytes>
  WARPWRIGHT_HOST_DEVICE static void load_bytes(packed_vector<std::uint8_t, Bytes>& loaded,
                                                unsigned char const* from) {
    if constexpr (Bytes == 1) {
      loaded.only = *from;
    } else {
      loaded.load_wide(from);
    }
  }
  // Stores 16 bytes word by word, from any bank on, around the padding of a linear layout.
  // @param behind  bytes since the last padding
  WARPWRIGHT_HOST_DEVICE void store_words(packed_vector<std::uint8_t, 16> const& loaded,
                                          unsigned char* to, unsigned behind = 0) const {
    WARPWRIGHT_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      packed_vector<std::uint8_t, 4> word;
      word.words[0] = loaded.words[k];
      word.store_anywhere(to);
      to += 4;
      behind += 4;
      if (layout.linear && behind >= layout.padded_bytes.divisor()) {
        to += layout.padding;
        behind -= layout.padded_bytes.divisor();
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
WARPWRIGHT_HOST_DEVICE void gather(packed_vector<Bits, V>& r, staged_vector const& c) {
  if (c.line_padding == 0 && (V == 1 || c.left >= V)) {  // the fast path
    unsigned char const* from = c.memory + c.first;
    WARPWRIGHT_UNROLL
    for (unsigned j = 0; j < V; ++j) {
      r.set(static_cast<int>(j), staged_at<Bits>(from + j * c.step));
    }
    return;
  }
  unsigned address = c.first;
  unsigned left = c.left;
  WARPWRIGHT_UNROLL
  for (int j = 0; j < V; ++j) {
    r.set(j, staged_at<Bits>(c.memory + address + (address >> 7U) * c.line_padding));
    address += c.step;
    if (--left == 0) {
      left = c.columns;
      address += c.wrap;
    }
  }
}

}  // namespace ew::detail

WARPWRIGHT_END
