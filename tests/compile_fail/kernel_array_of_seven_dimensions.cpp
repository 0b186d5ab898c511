// expect: 1 to 6 dimensions
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Seven dimensions.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/views.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::view(ew::array(x, {1, 1, 1, 1, 1, 16})));
#else
  ew::evaluate_host(ew::out(y, 16) = ew::view(ew::array(x, {1, 1, 1, 1, 1, 1, 16})));
#endif
}
