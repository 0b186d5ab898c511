// expect: input_at() is one number a row
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A loss is of one element a row, with what is of rows beside it.
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;

void run(float* y, float* loss, float const* x, float const* weight, int const* target) {
  auto const p = ew::softmax(ew::in(x, 16));
  auto const nll = p.log_sum_exp() - p.input_at(ew::col(target, 4));
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run_rows_host({4, 4}, ew::out(y, 16) = p, ew::out(loss, 4) = nll * ew::col(weight, 4));
#else
  ew::run_rows_host({4, 4}, ew::out(y, 16) = p, ew::out(loss, 4) = nll * ew::in(weight, 4));
#endif
}
