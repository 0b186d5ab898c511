// expect: warpwright::ew::run_rows_host: takes `out(pointer, count) = expression`
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows are written one behind the other.
#include <warpwright/kernel/rows.hpp>
#include <warpwright/kernel/views.hpp>

namespace ew = warpwright::ew;

void run(float* y, float const* x) {
  auto const rows = ew::softmax(ew::in(x, 16));
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run_rows_host({4, 4}, ew::out(y, 16) = rows);
#else
  ew::run_rows_host({4, 4}, ew::out(ew::array(y, {4, 4}, {5, 1})) = rows);
#endif
}
