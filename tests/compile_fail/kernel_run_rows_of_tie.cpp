// expect: warpwright::ew::run_rows_host: takes `out(pointer, count)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Outputs in a tie(), as run() takes them.
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;

void both(float* y, float* z, float const* x) {
  auto const p = ew::softmax(ew::in(x, 8));
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run_rows_host({2, 4}, ew::out(y, 8) = p, ew::out(z, 8) = p + 1.0F);
#else
  ew::run_rows_host({2, 4}, ew::tie(ew::out(y, 8) = p, ew::out(z, 8) = p + 1.0F));
#endif
}
