// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The number of elements, or the shape of the matrix, that a call works on.
#pragma once

#include <warpwright/kernel/detail/plan/operand_checks.hpp>

#include <type_traits>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

/// A number of elements, rows or columns from any integer.
/// @throws std::invalid_argument  for a negative number, with that number
template <class Integer>
std::uint64_t length_of(char const* whole, char const* parts, Integer length,
                        source_location where) {
  if constexpr (std::is_signed<Integer>::value) {
    if (length < 0) {
      warpwright::detail::throw_invalid_argument(text{"ew: the "} + whole + " has " +
                                                     static_cast<long long>(length) + " " + parts +
                                                     "; a length is 0 or more, in elements",
                                                 where);
    }
  }
  return static_cast<std::uint64_t>(length);
}

}  // namespace detail

/// How many elements a reduction takes: a number converts to it, with the caller's source
/// location.
struct elements {
  std::uint64_t count;
  source_location where;
  elements(std::uint64_t n, source_location caller = source_location::current())
      : count{n}, where{caller} {}
  /// @throws std::invalid_argument  for a negative number
  template <class Integer, class = std::enable_if_t<std::is_arithmetic<Integer>::value>>
  elements(Integer n, source_location caller = source_location::current())
      : elements{detail::length_of("reduction", "elements", n, caller), caller} {
    static_assert(std::is_integral<Integer>::value,
                  "warpwright::ew::reduce: a number of elements is an integer");
  }
};

/// The shape of a row-major matrix, with the caller's source location: `{rows, cols}` of any
/// integers converts to it.
struct matrix_shape {
  std::uint64_t rows;
  std::uint64_t cols;
  source_location where;
  matrix_shape(std::uint64_t row_count, std::uint64_t row_length,
               source_location caller = source_location::current())
      : rows{row_count}, cols{row_length}, where{caller} {}
  /// @throws std::invalid_argument  for a negative number
  template <
      class Rows, class Cols,
      class = std::enable_if_t<std::is_integral<Rows>::value && std::is_integral<Cols>::value>>
  matrix_shape(Rows row_count, Cols row_length, source_location caller = source_location::current())
      : matrix_shape{detail::length_of("matrix", "rows", row_count, caller),
                     detail::length_of("matrix", "columns", row_length, caller), caller} {}
};

namespace detail {

/// rows * cols.
/// @throws std::invalid_argument  where that is more than 2^59
inline std::uint64_t elements_in(matrix_shape const& shape) {
  std::uint64_t const most = max_elements;
  if (shape.rows > most || shape.cols > most ||
      (shape.cols != 0 && shape.rows > most / shape.cols)) {
    warpwright::detail::throw_invalid_argument(
        text{"ew: {rows, cols} = {"} + shape.rows + ", " + shape.cols +
            "}: rows, columns and elements are at most 2^59; pass lengths in elements",
        shape.where);
  }
  return shape.rows * shape.cols;
}

inline elements elements_of(matrix_shape const& shape) { return {elements_in(shape), shape.where}; }

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
