// expect: reductions alone go to reduce_cols() and reduce()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A pass without an output is a reduction, which others do in one kernel.
#include <warpwright/kernel/row_gradients.hpp>

namespace ew = warpwright::ew;

void call(float* y, float* sums, float const* x) {
  auto const reduce = ew::to(sums) = ew::column_sum(ew::in(x, 16));
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run_row_gradients_host({4, 4}, reduce, ew::out(y, 16) = ew::in(x, 16));
#else
  static_cast<void>(y);
  ew::run_row_gradients_host({4, 4}, reduce);
#endif
}
