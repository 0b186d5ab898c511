// expect: warpwright::ew::out: a view() is an operand; pass the array itself
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What is read, is no output.
#include <warpwright/kernel/views.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(ew::array(y, {4, 4}, {5, 1})) = 1);
#else
  ew::evaluate_host(ew::out(ew::view(y, {4, 4}, {5, 1})) = 1);
#endif
}
