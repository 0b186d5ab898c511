// expect: are evaluated with run_row_gradients(stream, pool, {rows, cols}, ...)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The sum of a row needs the whole row, which run() does not give it.
#include <warpwright/kernel/row_gradients.hpp>

namespace ew = warpwright::ew;

void call(float* y, float const* x) {
  auto const e = ew::in(x, 16) - ew::row_sum(ew::in(x, 16));
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run_row_gradients_host({4, 4}, ew::out(y, 16) = e);
#else
  ew::evaluate_host(ew::out(y, 16) = e);
#endif
}
