// expect: the right side must be an expression, as view(array), or a number
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An array without its view().
#include <warpwright/kernel/views.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float const* x) {
  auto const from = ew::array(x, {4, 4});
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(ew::array(y, {4, 4}, {5, 1})) = ew::view(from));
#else
  ew::evaluate_host(ew::out(ew::array(y, {4, 4}, {5, 1})) = from);
#endif
}
