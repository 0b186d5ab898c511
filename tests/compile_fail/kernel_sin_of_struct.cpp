// expect: this function is of numbers; give a struct to map()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions are of numbers.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

struct angle {
  float radians;
};
struct radians_of {
  float operator()(angle a) const { return a.radians; }
};
void apply(angle const* x, float* y) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::sin(ew::map(radians_of{}, ew::in(x, 16))));
#else
  ew::evaluate_host(ew::out(y, 16) = ew::sin(ew::in(x, 16)));
#endif
}
