// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The number of elements, or the shape of the matrix, that a call works on.
#pragma once

#include <warpwright/kernel/detail/plan/operand_checks.hpp>

#include <type_traits>
#include <utility>

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

/// How many elements a reduction takes: a number converts to it, with the caller's location.
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

/// The shape of a row-major matrix, with the caller's location: `{rows, cols}` converts to it.
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

/// How many elements each row has, where that is not `cols`.
struct row_lengths {
  std::uint32_t const* of_rows = nullptr;  ///< one each
  bool causal = false;                     ///< or: as many as `first`, and one more for each row
  std::uint32_t first = 0;                 ///< of a period
  fast_divisor period;

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE constexpr bool vary() const {
    return of_rows != nullptr || causal;
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t of(std::uint64_t row,
                                                        std::uint64_t cols) const {
    std::uint64_t const length =
        of_rows != nullptr ? of_rows[row] : first + (row - period.quotient(row) * period.divisor());
    return length < cols ? length : cols;
  }
};

}  // namespace detail

/// A row-major matrix whose rows may have lengths of their own. Elements beyond are neither read
/// nor written. A matrix_shape, and `{rows, cols}`, convert to it: rows of all columns.
class ragged_shape {
 public:
  ragged_shape(matrix_shape const& shape) : shape_{shape} {}
  /// @throws std::invalid_argument  for a negative number
  template <class Rows, class Cols,
            class = decltype(matrix_shape{std::declval<Rows>(), std::declval<Cols>()})>
  ragged_shape(Rows rows, Cols cols, source_location caller = source_location::current())
      : shape_{rows, cols, caller} {}
  /// @param lengths  of each row, in memory that the runtime's kernels can read, when they run;
  ///   what is more than the columns counts as these
  /// @throws std::invalid_argument  for a null pointer with rows
  ragged_shape(matrix_shape const& shape, std::uint32_t const* lengths)
      : shape_{shape}, lengths_{lengths, false, 0, {}} {
    if (lengths == nullptr && shape.rows != 0) {
      warpwright::detail::throw_invalid_argument(detail::text{"ew: the lengths of "} + shape.rows +
                                                     " rows are at a null pointer; pass one each",
                                                 shape.where);
    }
  }
  [[nodiscard]] matrix_shape const& shape() const { return shape_; }
  [[nodiscard]] detail::row_lengths const& lengths() const { return lengths_; }

 private:
  friend ragged_shape causal(matrix_shape const&, std::uint64_t, std::uint32_t);
  ragged_shape(matrix_shape const& shape, detail::row_lengths const& lengths)
      : shape_{shape}, lengths_{lengths} {}
  matrix_shape shape_;
  detail::row_lengths lengths_;
};

/// Rows of causal attention: row r has `first + r % queries` elements, cols at most.
/// @param queries  rows of one head, 1 to 2^59
/// @param first    keys that the first query attends to: 1, and those of earlier tokens
/// @throws std::invalid_argument  for other queries
inline ragged_shape causal(matrix_shape const& shape, std::uint64_t queries,
                           std::uint32_t first = 1) {
  if (queries == 0 || queries > detail::max_elements) {
    warpwright::detail::throw_invalid_argument(
        detail::text{"ew: a head has "} + queries + " queries; give 1 to 2^59", shape.where);
  }
  return {shape, detail::row_lengths{nullptr, true, first, detail::fast_divisor{queries}}};
}

}  // namespace ew

WARPWRIGHT_END
