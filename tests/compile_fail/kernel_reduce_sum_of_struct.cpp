// expect: for a type of your own, use fold()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Structs have no sum of themselves.
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
struct pair {
  float a, b;
};
struct add {
  WARPWRIGHT_HOST_DEVICE pair operator()(pair x, pair y) const { return {x.a + y.a, x.b + y.b}; }
};
auto build(pair const* x) { return ew::fold(ew::in(x, 16), pair{0, 0}, add{}); }
#else
struct pair {
  float a, b;
};
auto build(pair const* x) { return ew::sum(ew::in(x, 16)); }
#endif
