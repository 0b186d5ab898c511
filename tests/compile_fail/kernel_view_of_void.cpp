// expect: cast it to a pointer to their type, as in static_cast<float*>(data)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
//
// A view of which the type is not known.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/views.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, void* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::view(ew::array(static_cast<float*>(x), {4, 4})));
#else
  ew::evaluate_host(ew::out(y, 16) = ew::view(ew::array(x, {4, 4})));
#endif
}
