// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Division by a number that the host sets once, and the dimensions of a strided view: the host
// merges them, and a kernel maps an element's index to its offset.
#pragma once

#include <warpwright/core/detail/config.hpp>
#include <warpwright/kernel/detail/numeric/c_array.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace ew::detail {

// One high product, an addition and a shift in a kernel (T. Granlund, P. Montgomery, "Division by
// Invariant Integers using Multiplication", PLDI 1994, figure 4.1). Dividends and divisors must be
// below 2^31 for 32 bits and below 2^63 for 64.
WARPWRIGHT_HOST_DEVICE inline std::uint32_t multiply_high(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  return __umulhi(a, b);
#else
  return static_cast<std::uint32_t>(std::uint64_t{a} * b >> 32U);
#endif
}
WARPWRIGHT_HOST_DEVICE inline std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  __extension__ typedef unsigned __int128 wide;
  return static_cast<std::uint64_t>(wide{a} * b >> 64U);
#endif
}

/// Divides by itself; see above for the range.
template <class UInt>
class invariant_divisor {
 public:
  constexpr invariant_divisor() = default;
  /// @param divisor  0 is allowed, but not divided by
  constexpr explicit invariant_divisor(UInt divisor) : divisor_{divisor}, multiplier_{0} {
    if (divisor == 0) return;
    while (shift_ < 63U && (std::uint64_t{1} << shift_) < divisor) ++shift_;
    std::uint64_t const rest = (std::uint64_t{1} << shift_) - divisor;
    if constexpr (sizeof(UInt) == 4) {  // fits 64 bits, which a processor divides itself
      multiplier_ = static_cast<UInt>((rest << 32U) / divisor + 1);
    } else {
      __extension__ typedef unsigned __int128 wide;
      multiplier_ = static_cast<UInt>((wide{rest} << 64U) / divisor) + 1;
    }
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE UInt divisor() const { return divisor_; }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE UInt quotient(UInt dividend) const {
    return (multiply_high(multiplier_, dividend) + dividend) >> shift_;
  }
  [[nodiscard]] constexpr UInt multiplier() const { return multiplier_; }
  [[nodiscard]] constexpr unsigned shift() const { return shift_; }

 private:
  UInt divisor_ = 1;
  UInt multiplier_ = 1;
  unsigned shift_ = 0;
};

using fast_divisor = invariant_divisor<std::uint64_t>;
using small_divisor = invariant_divisor<std::uint32_t>;

inline constexpr int max_dimensions = 6;

/// One dimension of a view.
struct axis {
  std::uint64_t extent = 1;
  std::int64_t stride = 0;       ///< elements from one to the next
  std::uint64_t multiplier = 0;  ///< of invariant_divisor, for the extent
  unsigned shift = 0;            ///< likewise
};

constexpr std::uint64_t magnitude(std::int64_t stride) {
  return static_cast<std::uint64_t>(stride < 0 ? -stride : stride);
}

template <class UInt>
constexpr void set_divisor(axis& a) {
  invariant_divisor<UInt> const divisor{static_cast<UInt>(a.extent)};
  a.multiplier = divisor.multiplier();
  a.shift = divisor.shift();
}
template <class UInt>
WARPWRIGHT_HOST_DEVICE UInt quotient(axis const& by, UInt dividend) {
  return (multiply_high(static_cast<UInt>(by.multiplier), dividend) + dividend) >> by.shift;
}

/// The position of a view's element.
struct strided_position {
  std::int64_t offset;  ///< from the view's first element
  std::uint64_t left;   ///< elements from this one to the end of the innermost axis, both included
};

// Indices by which a kernel loads and stores. Each converts to the element's number, for nodes that
// need no more.

/// The index on the fast path: all views are narrow, and all operands are moved by vectors.
struct fast_index {
  std::uint64_t index;
  WARPWRIGHT_HOST_DEVICE operator std::uint64_t() const { return index; }
};

/// The index of a thread that takes elements warp_stride apart where vectors do not fit, so that
/// the accesses of a warp are contiguous.
struct warp_strided_index {
  std::uint64_t index;          ///< of the first
  unsigned const* coordinates;  ///< of the first: x, y, the batches'
  std::int64_t staged;          ///< offset of the first in the staged view, in bytes
  unsigned step_bytes;          ///< in that view, from one element to the next
  unsigned count;               ///< elements that exist
  WARPWRIGHT_HOST_DEVICE operator std::uint64_t() const { return index; }
};
inline constexpr unsigned warp_stride = 32;

// An element of a matrix, for a kernel that works by rows. Every row() and col() must be of the
// same row length.
struct matrix_index {
  std::uint64_t index;
  std::uint64_t row;
  unsigned column;
  WARPWRIGHT_HOST_DEVICE operator std::uint64_t() const { return index; }
};
// One that no other thread reads.
struct read_once_index : matrix_index {
  WARPWRIGHT_HOST_DEVICE read_once_index(std::uint64_t i, std::uint64_t r, unsigned c)
      : matrix_index{i, r, c} {}
};
// One of which a row() or col() may have another row length.
struct matrix_index_of_any : matrix_index {
  bool same_length;
  WARPWRIGHT_HOST_DEVICE matrix_index_of_any(std::uint64_t i, std::uint64_t r, unsigned c,
                                             bool same)
      : matrix_index{i, r, c}, same_length{same} {}
};
// A row as a whole.
struct row_index : matrix_index_of_any {
  std::uint64_t length;
};
// The row and the column of an element, for rows of `cols` elements.
WARPWRIGHT_HOST_DEVICE inline std::uint64_t row_of(std::uint64_t i, fast_divisor const& cols) {
  return cols.quotient(i);
}
WARPWRIGHT_HOST_DEVICE inline std::uint64_t row_of(matrix_index const& i, fast_divisor const&) {
  return i.row;
}
WARPWRIGHT_HOST_DEVICE inline std::uint64_t row_of(matrix_index_of_any const& i,
                                                   fast_divisor const& cols) {
  return i.same_length ? i.row : cols.quotient(i.index);
}
WARPWRIGHT_HOST_DEVICE inline std::uint64_t column_of(std::uint64_t i, fast_divisor const& cols) {
  return i - cols.quotient(i) * cols.divisor();
}
WARPWRIGHT_HOST_DEVICE inline std::uint64_t column_of(matrix_index const& i, fast_divisor const&) {
  return i.column;
}
WARPWRIGHT_HOST_DEVICE inline std::uint64_t column_of(matrix_index_of_any const& i,
                                                      fast_divisor const& cols) {
  return i.same_length ? i.column : i.index - cols.quotient(i.index) * cols.divisor();
}

/// The dimensions of a view, innermost first, after make_axes() has merged them.
template <int Rank>
struct axes {
  c_array<axis, Rank> of;
  int count = 1;                  ///< of those in use, at least one
  bool narrow = false;            ///< indices and offsets take 31 bits
  std::int64_t outer_stride = 0;  ///< of the outermost in use

  [[nodiscard]] constexpr bool contiguous() const { return count == 1 && of[0].stride == 1; }

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE strided_position find(std::uint64_t i) const {
    if (narrow) return find_as<std::uint32_t, std::int32_t>(static_cast<std::uint32_t>(i));
    return find_as<std::uint64_t, std::int64_t>(i);
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE strided_position find(fast_index i) const {
    return find_as<std::uint32_t, std::int32_t>(static_cast<std::uint32_t>(i.index));
  }
  /// @pre all offsets take 31 bits
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::int32_t offset_of(unsigned const* coordinates) const {
    std::uint32_t offset = 0;
    WARPWRIGHT_UNROLL
    for (int k = 0; k < Rank; ++k)
      offset += coordinates[k] * static_cast<std::uint32_t>(of[k].stride);
    return static_cast<std::int32_t>(offset);
  }

 private:
  // Unrolled with constant subscripts, so that a copy of the axes stays in registers. The outermost
  // axis needs no division; its code stands once, behind the loop.
  template <class Index, class Offset>
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE strided_position find_as(Index i) const {
    Offset offset = 0;
    Index rest = i;
    Index column = i;
    WARPWRIGHT_UNROLL
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

// The largest power of two, at most 16, that divides all numbers whose bitwise or is `bits`.
constexpr unsigned common_alignment(std::uint64_t bits) {
  unsigned alignment = 1;
  while (alignment < 16 && (bits & alignment) == 0) alignment *= 2;
  return alignment;
}

/// The offsets of a view's lowest and highest element from its first, in elements.
struct view_bounds {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  std::uint64_t elements = 1;  ///< the product of its extents
  bool too_large = false;      ///< more than 2^59 elements, or from the lowest to the highest
  bool too_many = false;       ///< the former
  int at_dimension = 0;        ///< the first dimension with which it is
};

constexpr view_bounds measure_view(std::int64_t const* shape, std::int64_t const* strides,
                                   int rank) {
  __extension__ typedef __int128 wide;
  wide const most = wide{1} << 59U;
  view_bounds r;
  wide lowest = 0;
  wide highest = 0;
  wide elements = 1;
  for (int k = 0; k < rank; ++k) {
    if (shape[k] == 0) return {0, 0, 0, false, false, 0};
  }
  for (int k = 0; k < rank; ++k) {
    wide const extent = (wide{shape[k]} - 1) * strides[k];
    (extent < 0 ? lowest : highest) += extent;
    elements *= shape[k];
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
  return r;
}

/// Drops dimensions of extent 1 and merges neighbours whose elements are one stride apart
/// throughout. The order of the elements stays.
/// @pre no extent is negative, and measure_view() finds it not too large
template <int Rank>
constexpr axes<Rank> make_axes(std::int64_t const* shape, std::int64_t const* strides, int rank) {
  axes<Rank> result;
  view_bounds const r = measure_view(shape, strides, rank);
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
    result.of[count++] = axis{static_cast<std::uint64_t>(shape[k]), strides[k]};
  }
  if (count == 0) {
    result.of[0] = axis{r.elements, 1};
    count = 1;
  }
  result.count = count;
  result.outer_stride = result.of[count - 1].stride;
  std::int64_t const most = 0x7fffffff;
  result.narrow =
      r.elements <= static_cast<std::uint64_t>(most) && r.highest <= most && r.lowest >= -most;
  for (int k = 0; k < count; ++k) {
    result.narrow ? set_divisor<std::uint32_t>(result.of[k])
                  : set_divisor<std::uint64_t>(result.of[k]);
  }
  return result;
}

}  // namespace ew::detail

WARPWRIGHT_END
