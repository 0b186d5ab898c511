// expect: mean(), rstd() and log_sum_exp() go beside one that has, as out(y, rows * cols) = f
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A statistic goes beside results, of which it is one.
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;

void run(float* y, float* mean, float const* x) {
  auto const norm = ew::layer_norm(ew::in(x, 16), 1e-5);
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run_rows_host({4, 4}, ew::out(y, 16) = norm, ew::out(mean, 4) = norm.mean());
#else
  static_cast<void>(y);
  ew::run_rows_host({4, 4}, ew::out(mean, 4) = norm.mean());
#endif
}
