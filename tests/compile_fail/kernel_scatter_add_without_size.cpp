// expect: warpwright::ew::scatter_add: nothing says how many elements are added
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Neither side has a number of elements.
#include <warpwright/kernel/indices.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float const* x, int const* index) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::scatter_add(y, 16, ew::col(index, 4)) = ew::in(x, 8));
#else
  ew::evaluate_host(ew::scatter_add(y, 16, ew::col(index, 4)) = ew::row(x, 4));
#endif
}
