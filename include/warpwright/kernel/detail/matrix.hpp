// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The shape of what reduce_rows.hpp and rows.hpp work on.
#pragma once

#include <warpwright/kernel/detail/plan.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// The shape of a row-major matrix, and who asked: `{rows, cols}` converts to it.
struct matrix_shape {
  std::uint64_t rows;
  std::uint64_t cols;
  source_location where;
  matrix_shape(std::uint64_t row_count, std::uint64_t row_length,
               source_location caller = source_location::current())
      : rows{row_count}, cols{row_length}, where{caller} {}
};

namespace detail {

/// Answers rows * cols.
/// @throws std::invalid_argument  where that is more than 2^59
inline std::uint64_t elements_in(matrix_shape const& shape) {
  std::uint64_t const most = std::uint64_t{1} << 59U;
  if (shape.rows > most || shape.cols > most ||
      (shape.cols != 0 && shape.rows > most / shape.cols)) {
    warpwright::detail::throw_invalid_argument(
        text{"ew: "} + shape.rows + " rows of " + shape.cols +
            " elements are more than 2^59; pass lengths in elements",
        shape.where);
  }
  return shape.rows * shape.cols;
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
