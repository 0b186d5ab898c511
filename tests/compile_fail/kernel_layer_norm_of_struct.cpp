// expect: softmax(), layer_norm() and the like are of numbers
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// There is no norm of a type of one's own.
#include <warpwright/kernel/rows.hpp>

namespace ew = warpwright::ew;

struct pair {
  float a;
  float b;
};
struct first {
  float operator()(pair p) const { return p.a; }
};

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto build(pair const* x) { return ew::layer_norm(ew::map(first{}, ew::in(x, 16)), 1e-5); }
#else
auto build(pair const* x) { return ew::layer_norm(ew::in(x, 16), 1e-5); }
#endif
