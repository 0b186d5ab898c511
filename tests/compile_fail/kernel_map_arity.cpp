// expect: the function cannot be called with one value of each operand
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A function of two arguments over one operand.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

struct add {
  WARPWRIGHT_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
};

auto apply(float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  return ew::map(add{}, ew::in(x, 16), ew::in(x, 16));
#else
  return ew::map(add{}, ew::in(x, 16));
#endif
}
