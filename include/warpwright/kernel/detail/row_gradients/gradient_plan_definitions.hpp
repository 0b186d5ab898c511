// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/detail/row_gradients/gradient_plan.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

WARPWRIGHT_INLINE void check_row_gradients(operand const* operands, int const* counts, int outputs,
                                           memory_range const* results, int result_count,
                                           void const* workspace, std::uint64_t workspace_bytes,
                                           matrix_shape const& shape) {
  std::uint64_t const n = elements_in(shape);
  check_row_length({std::uint64_t{1}, shape.cols, shape.where});  // also of no rows
  if (operands[0].count != n) {
    refuse(operand_name(operands, 0, outputs > 1 ? 1 : 0),
           text{"has "} + count_as_given(operands[0].count) + " elements, but {rows, cols} = {" +
               shape.rows + ", " + shape.cols + "} are " + n + "; give it an out() of rows * cols",
           shape.where);
  }
  check_assignments(operands, counts, outputs, shape.where);
  if (result_count != 0 && shape.cols != 0) {
    check_result_ranges(results, result_count, workspace, workspace_bytes, shape.where);
  }
  operand const* part = operands;
  for (int k = 0; k < outputs && n != 0; part += counts[k], ++k) {
    for (int i = 1; i < counts[k]; ++i) {
      bool const repeats =
          part[i].kind == access_pattern::row || part[i].kind == access_pattern::column;
      if (!repeats || part[i].count == shape.cols) continue;
      refuse(operand_name(operands, static_cast<int>(part + i - operands)),
             text{"has cols = "} + part[i].count + ", but the matrix has " + shape.cols +
                 "; in run_row_gradients() row() and col() are of the matrix's rows",
             shape.where);
    }
    for (int r = 0; r < result_count; ++r) {
      if (!overlap(results[r].range(), bytes_of(*part, n))) continue;
      refuse(text{"result "} + (r + 1),
             text{"overlaps output "} + (k + 1) + "; give each its own memory", shape.where);
    }
  }
}

}  // namespace ew::detail

WARPWRIGHT_END
