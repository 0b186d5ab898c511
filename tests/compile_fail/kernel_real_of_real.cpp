// expect: real(), imag() and conj() are of a complex expression
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The real part of a float array is a slip, or the array itself.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void apply(float const* x, float* y) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::in(x, 16));
#else
  ew::evaluate_host(ew::out(y, 16) = ew::real(ew::in(x, 16)));
#endif
}
