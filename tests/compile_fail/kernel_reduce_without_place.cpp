// expect: warpwright::ew::reduce_host: say where each result goes
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A reduction whose result goes nowhere.
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

void total(float* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::reduce_host(2, ew::to(y) = ew::sum(ew::in(x, 2)));
#else
  static_cast<void>(y);
  ew::reduce_host(2, ew::sum(ew::in(x, 2)));
#endif
}
