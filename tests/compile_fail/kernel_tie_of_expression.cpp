// expect: tie: every argument must be an assignment
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// tie() takes outputs with what is assigned to them.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float* z, float* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::tie(ew::out(y, 16) = ew::in(x, 16), ew::out(z, 16) = 1));
#else
  ew::evaluate_host(ew::tie(ew::out(y, 16) = ew::in(x, 16), ew::in(z, 16)));
#endif
}
