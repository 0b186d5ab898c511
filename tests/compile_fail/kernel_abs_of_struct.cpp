// expect: abs() and the unary - are of numbers; give a struct to map()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Structs have no sign.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

struct pixel {
  unsigned char r, g, b;
};
struct gray {
  float operator()(pixel p) const { return static_cast<float>(p.r + p.g + p.b) / 3; }
};
void apply(pixel const* x, float* y) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::abs(ew::map(gray{}, ew::in(x, 16))));
#else
  ew::evaluate_host(ew::out(y, 16) = ew::abs(ew::in(x, 16)));
#endif
}
