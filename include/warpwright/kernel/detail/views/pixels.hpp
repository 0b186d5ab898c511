// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Interleaved channels to planes, two to four of them, without shared memory: each thread loads
// whole pixels by vectors and stores a vector of each channel.
//
// This path beside that of tiles, measured on an H100 (NHWC to NCHW): 30 to 64 % less time for
// pictures of u8, 27 % for f32 with an odd number of pixels, 2 % for f32 with an even one.
#pragma once

#include <warpwright/kernel/detail/views/tile.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

inline constexpr unsigned pixel_threads = 256;
inline constexpr unsigned max_vector = 32;  // elements

/// The work of a kernel of pixels: what select_view() decides and every thread reads.
struct pixel_partition {
  std::uint64_t threads = 0;         ///< 0: the view is not moved by pixels
  std::uint64_t channel_stride = 0;  ///< elements of the output from one channel to the next
  unsigned channels = 0;
  unsigned pitch = 0;             ///< elements of the view from one pixel to the next
  unsigned pitch_bytes = 0;       ///< the same in bytes
  bool vectors = false;           ///< a thread takes a vector of pixels
  bool warp_strided = false;      ///< a thread takes as many, warp_stride apart; else it takes one
  unsigned extent = 0;            ///< consecutive pixels
  small_divisor threads_per_row;  ///< for these
  batch_dimensions batches;
  std::uint64_t wide = 0;  ///< as vector_partition::wide

  /// @param v     pixels a thread
  /// @param from  receives their offset in bytes from the view's first element
  /// @return the first channel of a thread's first pixel
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE output_element first(unsigned thread, unsigned v,
                                                            std::int64_t& from) const {
    unsigned const batch = threads_per_row.quotient(thread);
    unsigned const column = thread - batch * threads_per_row.divisor();
    unsigned const lane = column % warp_stride;
    unsigned const x = warp_strided ? (column - lane) * v + lane : column * v;
    output_element e{x, {x}};
    from = static_cast<std::int64_t>(std::uint64_t{x} * pitch_bytes);
    batches.add_position(batch, e, from);
    return e;
  }
};

/// Plans the pixels that move the view of `tiles` without tiles.
/// @param may_warp_stride  the elements of a thread need not be neighbours
/// @return a partition of no threads where the view is not of pixels
constexpr pixel_partition make_pixel_partition(tile_partition const& tiles, unsigned vector,
                                               bool may_warp_stride) {
  pixel_partition p;
  unsigned const bytes = tiles.layout.element_bytes;
  if (tiles.tiles == 0 || !are_pixels(tiles.extent_y, tiles.stride_x_bytes / std::int64_t{bytes})) {
    return p;
  }
  p.channel_stride = tiles.out_stride_y;
  p.channels = static_cast<unsigned>(tiles.extent_y);
  p.pitch_bytes = static_cast<unsigned>(tiles.stride_x_bytes);
  p.pitch = p.pitch_bytes / bytes;
  p.batches = tiles.batches;
  std::uint64_t const limit = 0x7fffffffU;
  std::uint64_t alignment = tiles.address;
  std::uint64_t rows = 1;
  for (int k = 0; k < p.batches.count; ++k) {
    std::uint64_t const extent = p.batches.each[k].extent.divisor();
    if (rows > limit / extent) return p;
    rows *= extent;
    alignment |= static_cast<std::uint64_t>(p.batches.each[k].view_stride_bytes);
  }
  std::uint64_t pixels = tiles.extent_x;
  bool const even = vector > 1 && pixels % vector == 0;
  bool const fits = vector * bytes >= 4 && vector * bytes <= 16;  // as view_input::fits_pixels
  if (even && !fits && !tiles.pixels_only) return p;              // tiles have vectors for it
  // Vectors of a view that lacks some channels would end behind its last element.
  p.vectors =
      even && fits && p.channels == p.pitch && common_alignment(alignment) >= vector * bytes;
  p.warp_strided = !p.vectors && may_warp_stride && vector > 1;
  if (pixels > limit - max_vector * warp_stride) return p;
  p.extent = static_cast<unsigned>(pixels);
  if (p.vectors) pixels /= vector;
  if (p.warp_strided) {
    std::uint64_t const of_a_warp = std::uint64_t{vector} * warp_stride;
    pixels = (pixels + of_a_warp - 1) / of_a_warp * warp_stride;
  }
  p.threads_per_row = small_divisor{static_cast<std::uint32_t>(pixels)};
  if (pixels <= limit / rows) p.threads = pixels * rows;
  return p;
}

// V pixels in registers, as words in the order of memory, from the next channel on.
template <class Bits, int V>
struct pixel_vector {
  using all = packed_vector<Bits, V* static_cast<int>(max_channels)>;
  static constexpr int words = static_cast<int>(sizeof(all)) / 4;

  // Reads `count` vectors of V elements, or elements, into `to`.
  WARPWRIGHT_HOST_DEVICE static void load(std::uint32_t* to, Bits const* from, unsigned count) {
    all elements = {};
    WARPWRIGHT_UNROLL
    for (unsigned k = 0; k < max_channels; ++k) {
      if (k >= count) break;
      if constexpr (V == 1) {
        elements.set(static_cast<int>(k), from[k]);
      } else {
        packed_vector<Bits, V> part;
        part.load_wide(from + k * V);
        WARPWRIGHT_UNROLL
        for (unsigned j = 0; j < part_words; ++j) {
          elements.words[k * part_words + j] = part.words[j];
        }
      }
    }
    WARPWRIGHT_UNROLL
    for (int k = 0; k < words; ++k) to[k] = elements.words[k];
  }
  // Extracts one channel's elements, and shifts the next channel to the front.
  WARPWRIGHT_HOST_DEVICE static void take(packed_vector<Bits, V>& r, std::uint32_t* from,
                                          unsigned pitch) {
    all elements;
    WARPWRIGHT_UNROLL
    for (int k = 0; k < words; ++k) elements.words[k] = from[k];
    if (V == 1 || pitch == 3) {
      pick<3>(r, elements);
    } else if (pitch == 4) {
      pick<4>(r, elements);
    } else {
      pick<2>(r, elements);
    }
    constexpr int whole = sizeof(Bits) / 4;
    constexpr unsigned shift = 8 * sizeof(Bits) % 32;
    WARPWRIGHT_UNROLL
    for (int k = 0; k < words; ++k) {
      std::uint32_t const low = k + whole < words ? elements.words[k + whole] : 0;
      std::uint32_t const high = k + whole + 1 < words ? elements.words[k + whole + 1] : 0;
      elements.words[k] = shift == 0 ? low : low >> shift | high << (32 - shift) % 32;
    }
    WARPWRIGHT_UNROLL
    for (int k = 0; k < words; ++k) from[k] = elements.words[k];
  }

 private:
  static constexpr unsigned part_words = V * sizeof(Bits) / 4;

  template <int Pitch>
  WARPWRIGHT_HOST_DEVICE static void pick(packed_vector<Bits, V>& r, all const& elements) {
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) r.set(j, elements.get(j * Pitch));
  }
};

}  // namespace ew::detail

WARPWRIGHT_END
