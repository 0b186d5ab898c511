// expect: the right side must be an expression, as in(pointer, n), or a number
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A bare pointer has no size.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::in(x, 16));
#else
  ew::evaluate_host(ew::out(y, 16) = x);
#endif
}
