// expect: cast it to a pointer to their type, as in static_cast<float*>(data)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 2
//
// An operand of which the type is not known.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, void const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::in(static_cast<float const*>(x), 16));
#else
  ew::evaluate_host(ew::out(y, 16) = ew::in(x, 16));
#endif
}
