// expect: evaluate_host(tie(out(p, n) = ..., out(q, n) = ...))
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
//
// Several outputs without tie(), one of them strided.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/views.hpp>

namespace ew = warpwright::ew;

void evaluate(float* y, float* z, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(
      ew::tie(ew::out(ew::array(y, {4, 4})) = ew::in(x, 16), ew::out(z, 16) = ew::in(x, 16)));
#else
  ew::evaluate_host(ew::out(ew::array(y, {4, 4})) = ew::in(x, 16), ew::out(z, 16) = ew::in(x, 16));
#endif
}
