// expect: as reduce(stream, pool, n, to(p) = sum(x)), and write device_scalar(p)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
//
// The sum of a row is not that of a reduction in run_rows().
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;

void run(float* y, float const* x, float const* totals) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run_rows_host({4, 4}, ew::out(y, 16) = ew::softmax(ew::in(x, 16)) / ew::col(totals, 4));
#else
  static_cast<void>(totals);
  ew::run_rows_host({4, 4}, ew::out(y, 16) = ew::softmax(ew::in(x, 16)) / ew::sum(ew::in(x, 16)));
#endif
}
