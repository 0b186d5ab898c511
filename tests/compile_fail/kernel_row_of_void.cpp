// expect: cast it to a pointer to their type, as in static_cast<float*>(data)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 2
//
// A repeated operand of which the type is not known.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, void* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) =
                        ew::row(static_cast<float*>(x), 4) + ew::col(static_cast<float*>(x), 4));
#else
  ew::evaluate_host(ew::out(y, 16) = ew::row(x, 4) + ew::col(x, 4));
#endif
}
