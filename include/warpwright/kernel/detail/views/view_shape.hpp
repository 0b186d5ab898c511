// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Shapes and strides as callers pass them, and their checks.
#pragma once

#include <warpwright/core/error.hpp>
#include <warpwright/kernel/detail/plan/axes.hpp>

#include <type_traits>

WARPWRIGHT_BEGIN

namespace ew {

/// A number of elements, or a stride in elements: any integer converts to it.
struct extent {
  std::int64_t value = 0;
  constexpr extent() = default;
  template <class Integer, class = std::enable_if_t<std::is_integral<Integer>::value>>
  constexpr extent(Integer number) : value{static_cast<std::int64_t>(number)} {}
};

namespace detail {

using warpwright::detail::text;

[[noreturn]] WARPWRIGHT_COLD inline void refuse_view(text const& problem, source_location where,
                                                     char const* function = "ew::array: ") {
  warpwright::detail::throw_invalid_argument(text{function} + problem, where);
}

// Refuses shapes that no array can have. check_operands() checks pointers and sizes.
void check_shape(std::int64_t const* shape, std::int64_t const* strides, int rank,
                 source_location where, char const* function = "ew::array: ");

// A checked shape of `rank` dimensions, padded to max_dimensions.
struct padded_shape {
  std::int64_t extents[max_dimensions] = {};
  std::int64_t strides[max_dimensions] = {};

  template <class Extent, class Stride>
  padded_shape(char const* function, int rank, Extent const* shape, Stride const* steps,
               source_location where) {
    if (rank < 0 || rank > max_dimensions) {
      warpwright::detail::throw_invalid_argument(
          text{function} + "there are " + rank +
              " dimensions; it takes 0 to 6: merge neighbours whose elements are one stride apart",
          where);
    }
    for (int k = 0; k < rank; ++k) {
      extents[k] = extent{shape[k]}.value;
      strides[k] = extent{steps[k]}.value;
    }
    check_shape(extents, strides, rank, where, function);
  }
};

/// A dimension along which an output's elements may coincide; -1: none. The test is sufficient, not
/// necessary: each stride must be longer than the span of all dimensions of shorter strides.
struct overlapping_dimension {
  int dimension = -1;
  std::uint64_t span = 0;  ///< of the dimensions of shorter strides: elements, last less first
};
constexpr std::uint64_t magnitude(std::int64_t stride) {
  return static_cast<std::uint64_t>(stride < 0 ? -stride : stride);
}
constexpr overlapping_dimension find_overlapping_dimension(std::int64_t const* shape,
                                                           std::int64_t const* strides, int rank) {
  bool visited[max_dimensions] = {};
  overlapping_dimension found;
  for (int k = 0; k < rank; ++k) {
    if (shape[k] == 0) return found;
  }
  for (int round = 0; round < rank; ++round) {
    int next = -1;
    for (int k = 0; k < rank; ++k) {
      if (visited[k] || shape[k] == 1) continue;
      if (next < 0 || magnitude(strides[k]) < magnitude(strides[next])) next = k;
    }
    if (next < 0) return found;
    visited[next] = true;
    if (magnitude(strides[next]) <= found.span) {
      found.dimension = next;
      return found;
    }
    found.span += static_cast<std::uint64_t>(shape[next] - 1) * magnitude(strides[next]);
  }
  return found;
}

// Refuses outputs of which two indices may lead to one element.
void check_output_shape(std::int64_t const* shape, std::int64_t const* strides, int rank,
                        source_location where);

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/kernel/detail/views/view_definitions.hpp>
#endif
