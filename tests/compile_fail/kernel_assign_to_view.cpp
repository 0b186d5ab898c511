// expect: in() and the like are read only; what is written is out(pointer, n) = expression
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
//
// view() is not an output.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/views.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(ew::array(y, {4, 4})) = ew::in(x, 16));
#else
  ew::evaluate_host(ew::view(ew::array(y, {4, 4})) = ew::in(x, 16));
#endif
}
