// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A view whose channels lie side by side, two to four of them, which the output has apart, needs no
// shared memory: a thread reads whole pixels by vectors, and writes a vector of each channel. Here
// is all of that but the expression; it runs on the host, too.
#pragma once

#include <warpwright/kernel/detail/tile.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

inline constexpr unsigned pixel_threads = 256;
inline constexpr unsigned most_vector = 32;  // elements

/// Pixels as the threads of a kernel see them; threads == 0: there are none.
struct pixel_job {
  std::uint64_t threads = 0;
  std::uint64_t out_c = 0;  ///< elements of the output from one channel to the next
  unsigned channels = 0;
  unsigned pitch = 0;        ///< elements of the view from one pixel to the next
  unsigned pitch_bytes = 0;  ///< the same in bytes
  bool vectors = false;      ///< a thread takes a vector of pixels
  bool spread = false;       ///< a thread takes as many pixels, spread_step apart; else one
  unsigned extent = 0;       ///< pixels that follow each other, where they are spread
  small_divisor across;      ///< threads for these
  int batches = 0;
  tile_batch batch[most_dimensions - 2];
  std::uint64_t wide = 0;  ///< as schedule::wide

  /// Answers the first channel of the first pixel of thread `number`.
  /// @param v     pixels of a thread, side by side or spread
  /// @param from  receives its place, in bytes from the view's first element
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE tile_element first(unsigned number, unsigned v,
                                                          std::int64_t& from) const {
    unsigned const rest = across.quotient(number);
    unsigned const column = number - rest * across.divisor();
    unsigned const lane = column % spread_step;
    unsigned const x = spread ? (column - lane) * v + lane : column * v;
    tile_element e{x, {x}};
    from = static_cast<std::int64_t>(std::uint64_t{x} * pitch_bytes);
    go_to_batch(batch, batches, rest, e.index, from, e.at);
    return e;
  }
};

/// Plans what moves the view of a job of tiles without these, or answers a job of no threads.
/// @param vector      elements of one vector of the output, a power of two
/// @param may_spread  elements of a thread need not lie side by side
constexpr pixel_job make_pixel_job(tile_job const& tiles, unsigned vector, bool may_spread) {
  pixel_job job;
  unsigned const bytes = tiles.layout.element_bytes;
  bool const few = tiles.tiles != 0 && are_pixels(tiles.extent_y, tiles.in_x / std::int64_t{bytes});
  if (!few) return job;
  job.out_c = tiles.out_y;
  job.channels = static_cast<unsigned>(tiles.extent_y);
  job.pitch_bytes = static_cast<unsigned>(tiles.in_x);
  job.pitch = job.pitch_bytes / bytes;
  job.batches = tiles.batches;
  std::uint64_t alignment = tiles.address;
  std::uint64_t pixels = tiles.extent_x;
  for (int k = 0; k < tiles.batches; ++k) {
    job.batch[k] = tiles.batch[k];
    alignment |= static_cast<std::uint64_t>(tiles.batch[k].in_step);
  }
  bool const even = vector > 1 && pixels % vector == 0;
  bool const fits = vector * bytes >= 4 && vector * bytes <= 16;  // as view_input::fits_pixels
  if (even && !fits && !tiles.pixels_only) return job;            // tiles have vectors for it
  // (Vectors would go past the last of channels that are not all there.)
  job.vectors =
      even && fits && job.channels == job.pitch && common_alignment(alignment) >= vector * bytes;
  job.spread = !job.vectors && may_spread && vector > 1;
  std::uint64_t const limit = 0x7fffffffU;
  if (pixels > limit - most_vector * spread_step) return job;
  job.extent = static_cast<unsigned>(pixels);
  if (job.vectors) pixels /= vector;
  if (job.spread) {
    std::uint64_t const of_a_warp = std::uint64_t{vector} * spread_step;
    pixels = (pixels + of_a_warp - 1) / of_a_warp * spread_step;
  }
  std::uint64_t threads = pixels;
  for (int k = 0; k < tiles.batches; ++k) {
    if (threads > limit / job.batch[k].extent.divisor()) return job;
    threads *= job.batch[k].extent.divisor();
  }
  if (threads > limit) return job;
  job.across = small_divisor{static_cast<std::uint32_t>(pixels)};
  job.threads = threads;
  return job;
}

// Element j of channel 0 of V pixels, `Pitch` elements apart.
template <int Pitch, class Bits, int V, int Held>
WARPWRIGHT_HOST_DEVICE void pick(lanes<Bits, V>& r, lanes<Bits, Held> const& held) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int j = 0; j < V; ++j) r.set(j, held.get(j * Pitch));
}

// V pixels of a view, as they lie in memory from the channel on that is next.
template <class Bits, int V>
struct pixel_lanes {
  using all = lanes<Bits, V* static_cast<int>(most_channels)>;
  static constexpr int words = static_cast<int>(sizeof(all)) / 4;
  all held;

  // Reads `count` vectors of V elements, or elements.
  WARPWRIGHT_HOST_DEVICE void load(Bits const* from, unsigned count) {
    held = {};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned k = 0; k < most_channels; ++k) {
      if (k >= count) break;
      if constexpr (V == 1) {
        held.set(static_cast<int>(k), from[k]);
      } else {
        lanes<Bits, V> part;
        part.load_wide(from + k * V);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (unsigned j = 0; j < part_words; ++j) held.words[k * part_words + j] = part.words[j];
      }
    }
  }
  // Takes a channel's elements, and goes to the next.
  WARPWRIGHT_HOST_DEVICE void take(lanes<Bits, V>& r, unsigned pitch) {
    if (V == 1 || pitch == 3) {
      pick<3>(r, held);
    } else if (pitch == 4) {
      pick<4>(r, held);
    } else {
      pick<2>(r, held);
    }
    constexpr int whole = sizeof(Bits) / 4;
    constexpr unsigned shift = 8 * sizeof(Bits) % 32;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int k = 0; k < words; ++k) {
      std::uint32_t const low = k + whole < words ? held.words[k + whole] : 0;
      std::uint32_t const high = k + whole + 1 < words ? held.words[k + whole + 1] : 0;
      held.words[k] = shift == 0 ? low : low >> shift | high << (32 - shift) % 32;
    }
  }

 private:
  static constexpr unsigned part_words = V * sizeof(Bits) / 4;
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
