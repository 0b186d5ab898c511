// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/detail/rows/row_evaluation.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

WARPWRIGHT_INLINE void check_row_statistics(operand const* statistics, int count,
                                            operand const* operands, int arrays,
                                            matrix_shape const& shape) {
  std::uint64_t const n = shape.rows * shape.cols;
  for (int k = 0; k < count; ++k) {
    operand const& o = statistics[k];
    auto const name = [k] { return text{"statistic "} + (k + 1); };
    if (o.count != shape.rows) {
      refuse(name(),
             text{"goes to "} + count_as_given(o.count) + " elements, but rows = " + shape.rows +
                 "; give it an out() of one element a row",
             shape.where);
    }
    if (n == 0) continue;
    check_address(o.address, o.natural_bytes, o.count, name, shape.where);
    for (int j = 0; j < arrays; ++j) {
      operand const& a = operands[j];
      if (a.kind != access_pattern::absent && overlap(bytes_of(a, n), bytes_of(o, n))) {
        refuse(name(), "overlaps an array of the matrix; pass other memory", shape.where);
      }
    }
    for (int j = 0; j < k; ++j) {
      if (overlap(bytes_of(statistics[j], n), bytes_of(o, n))) {
        refuse(name(), text{"overlaps statistic "} + (j + 1) + "; give each its own memory",
               shape.where);
      }
    }
  }
}

}  // namespace ew::detail

WARPWRIGHT_END
