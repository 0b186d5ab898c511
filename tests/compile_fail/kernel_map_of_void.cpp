// expect: warpwright::ew::map: the function returns void
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A function without a value.
#include <warpwright/kernel/evaluate.hpp>

namespace ew = warpwright::ew;

struct forgets {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  float operator()(float x) const { return x + 1; }
#else
  void operator()(float x) const { static_cast<void>(x + 1); }
#endif
};

void add(float* y, float const* x) {
  ew::evaluate_host(ew::out(y, 2) = ew::map(forgets{}, ew::in(x, 2)));
}
