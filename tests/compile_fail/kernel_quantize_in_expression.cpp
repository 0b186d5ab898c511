// expect: quantize() is rounded where it is written
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What is quantised is an output: times its scale it would not have been rounded.
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;

void run(signed char* q, float* y, float* scale, float const* x) {
  auto const f = ew::quantize<signed char>(ew::in(x, 16));
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  static_cast<void>(y);
  ew::run_rows_host({4, 4}, ew::out(q, 16) = f, ew::out(scale, 4) = f.scale() * 2.0F);
#else
  static_cast<void>(q);
  static_cast<void>(scale);
  ew::run_rows_host({4, 4}, ew::out(y, 16) = f * f.scale());
#endif
}
