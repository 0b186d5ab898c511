// expect: in() and the like are read only; what is written is out(pointer, n) = expression
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
//
// row() is not an output.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 4) = ew::in(x, 4) * 2);
#else
  ew::evaluate_host(ew::row(y, 4) = ew::in(x, 4) * 2);
#endif
}
