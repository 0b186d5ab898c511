// expect: deleted
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An output is not readable: in() is what is read.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::in(x, 16));
#else
  ew::evaluate_host(ew::out(y, 16) = ew::out(x, 16));
#endif
}
