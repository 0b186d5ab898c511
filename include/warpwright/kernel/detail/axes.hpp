// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the elements of a strided view lie: its dimensions made as few as they can be on the host,
// and the way from an element's index to its place. Plain code over sizes; needs no GPU.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

inline constexpr int most_dimensions = 6;

/// One dimension of a view.
struct axis {
  std::uint64_t extent = 1;
  std::int64_t stride = 0;       ///< elements from one to the next
  std::uint64_t multiplier = 0;  ///< divides by the extent, as fast_divisor, in 32 or 64 bits
  unsigned shift = 0;
};

// Divides by an axis's extent: dividends below 2^31 for 32 bits, below 2^63 for 64.
constexpr axis with_divisor(axis a, bool narrow) {
  a.shift = 0;
  while ((std::uint64_t{1} << a.shift) < a.extent) ++a.shift;
  if (a.extent == 0) return a;
  std::uint64_t const rest = (std::uint64_t{1} << a.shift) - a.extent;
  if (narrow) {  // fits 64 bits, which a processor divides itself
    a.multiplier = (rest << 32U) / a.extent + 1;
  } else {
    __extension__ typedef unsigned __int128 wide;
    a.multiplier = static_cast<std::uint64_t>((wide{rest} << 64U) / a.extent) + 1;
  }
  return a;
}
WARPWRIGHT_HOST_DEVICE inline std::uint32_t quotient(axis const& by, std::uint32_t dividend) {
#if defined(__CUDA_ARCH__)
  std::uint32_t const high = __umulhi(static_cast<std::uint32_t>(by.multiplier), dividend);
#else
  auto const high = static_cast<std::uint32_t>(by.multiplier * dividend >> 32U);
#endif
  return (high + dividend) >> by.shift;
}
WARPWRIGHT_HOST_DEVICE inline std::uint64_t quotient(axis const& by, std::uint64_t dividend) {
#if defined(__CUDA_ARCH__)
  std::uint64_t const high = __umul64hi(by.multiplier, dividend);
#else
  __extension__ typedef unsigned __int128 wide;
  auto const high = static_cast<std::uint64_t>(wide{by.multiplier} * dividend >> 64U);
#endif
  return (high + dividend) >> by.shift;
}

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

/// An element of a view: where it lies from the view's first, and the elements from it on, itself
/// included, that lie one stride of the innermost axis apart.
struct element_place {
  std::int64_t offset;
  std::uint64_t left;
};

/// An element in a launch of which it is known that all views are narrow, and all operands wide.
struct usual_place {
  std::uint64_t index;
  WARPWRIGHT_HOST_DEVICE operator std::uint64_t() const { return index; }  // as other nodes see it
};

/// Elements `spread_step` apart, of which the first `count` are there: those of one thread where
/// vectors do not fit, so that the accesses of a warp are contiguous.
struct spread_place {
  std::uint64_t index;          ///< of the first
  unsigned const* coordinates;  ///< likewise: x, y, the batches'
  std::int64_t staged;          ///< bytes from the start of the view that is brought by pixels
  unsigned step_bytes;          ///< in that, from one element to the next
  unsigned count;
  WARPWRIGHT_HOST_DEVICE operator std::uint64_t() const { return index; }
};
inline constexpr unsigned spread_step = 32;

/// The dimensions of a view of at most `Rank`, the innermost first, none of extent 1 and no two
/// that could be one.
template <int Rank>
struct axes {
  axis of[Rank];
  int count = 1;                  ///< of those in use, at least one
  bool narrow = false;            ///< indices and offsets take 31 bits
  std::int64_t outer_stride = 0;  ///< of the outermost in use

  [[nodiscard]] constexpr bool contiguous() const { return count == 1 && of[0].stride == 1; }

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE element_place find(std::uint64_t i) const {
    if (narrow) return find_as<std::uint32_t, std::int32_t>(static_cast<std::uint32_t>(i));
    return find_as<std::uint64_t, std::int64_t>(i);
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE element_place find(usual_place i) const {
    return find_as<std::uint32_t, std::int32_t>(static_cast<std::uint32_t>(i.index));
  }
  // The offset of the element of these coordinates, where all offsets take 31 bits.
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::int32_t along(unsigned const* coordinates) const {
    std::uint32_t offset = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int k = 0; k < Rank; ++k)
      offset += coordinates[k] * static_cast<std::uint32_t>(of[k].stride);
    return static_cast<std::int32_t>(offset);
  }

 private:
  // Unrolled over constant places, so that a copy of the axes can stay in registers. Whichever axis
  // is the outermost, its part is one piece of code behind all the others.
  template <class Index, class Offset>
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE element_place find_as(Index i) const {
    Offset offset = 0;
    Index rest = i;
    Index column = i;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int k = 0; k + 1 < Rank; ++k) {
      if (k + 1 == count) break;
      Index const beyond = quotient(of[k], rest);
      Index const coordinate = rest - beyond * static_cast<Index>(of[k].extent);
      offset += static_cast<Offset>(coordinate) * static_cast<Offset>(of[k].stride);
      if (k == 0) column = coordinate;
      rest = beyond;
    }
    offset += static_cast<Offset>(rest) * static_cast<Offset>(outer_stride);
    return {offset, of[0].extent - column};
  }
};

// The largest power of two, 16 at most, that divides all that went into `bits` by or.
constexpr unsigned common_alignment(std::uint64_t bits) {
  unsigned alignment = 1;
  while (alignment < 16 && (bits & alignment) == 0) alignment *= 2;
  return alignment;
}

/// How far a view reaches from its first element, in elements; both ends are in it.
struct reach_of_view {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  std::uint64_t elements = 1;  ///< the product of its extents
  std::uint64_t distinct = 1;  ///< the same without what repeats by a stride of 0
  bool too_large = false;      ///< more than 2^59 elements, or as far from end to end
  bool too_many = false;       ///< the former
  int at_dimension = 0;        ///< with which it became so
};

constexpr reach_of_view measure_view(std::int64_t const* shape, std::int64_t const* strides,
                                     int rank) {
  __extension__ typedef __int128 wide;
  wide const most = wide{1} << 59U;
  reach_of_view r;
  wide lowest = 0;
  wide highest = 0;
  wide elements = 1;
  wide distinct = 1;
  for (int k = 0; k < rank; ++k) {
    if (shape[k] == 0) return {0, 0, 0, 0, false, false, 0};
  }
  for (int k = 0; k < rank; ++k) {
    wide const way = (wide{shape[k]} - 1) * strides[k];
    (way < 0 ? lowest : highest) += way;
    elements *= shape[k];
    if (strides[k] != 0) distinct *= shape[k];
    if (elements > most || highest - lowest >= most) {
      r.too_large = true;
      r.too_many = elements > most;
      r.at_dimension = k;
      return r;
    }
  }
  r.lowest = static_cast<std::int64_t>(lowest);
  r.highest = static_cast<std::int64_t>(highest);
  r.elements = static_cast<std::uint64_t>(elements);
  r.distinct = static_cast<std::uint64_t>(distinct);
  return r;
}

/// Drops dimensions of extent 1 and merges neighbours that one stride walks. The order of the
/// elements stays.
/// @pre no extent is negative, and measure_view() finds it not too large
template <int Rank>
constexpr axes<Rank> make_axes(std::int64_t const* shape, std::int64_t const* strides, int rank) {
  axes<Rank> result;
  reach_of_view const r = measure_view(shape, strides, rank);
  int count = 0;
  for (int k = rank - 1; k >= 0 && r.elements != 0; --k) {
    if (shape[k] == 1) continue;
    if (count > 0) {
      axis& inner = result.of[count - 1];
      if (strides[k] == inner.stride * static_cast<std::int64_t>(inner.extent)) {
        inner.extent *= static_cast<std::uint64_t>(shape[k]);
        continue;
      }
    }
    result.of[count].extent = static_cast<std::uint64_t>(shape[k]);
    result.of[count].stride = strides[k];
    ++count;
  }
  if (count == 0) {
    result.of[0].extent = r.elements;
    result.of[0].stride = 1;
    count = 1;
  }
  result.count = count;
  result.outer_stride = result.of[count - 1].stride;
  std::int64_t const most = 0x7fffffff;
  result.narrow =
      r.elements <= static_cast<std::uint64_t>(most) && r.highest <= most && r.lowest >= -most;
  for (int k = 0; k < count; ++k) result.of[k] = with_divisor(result.of[k], result.narrow);
  return result;
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
