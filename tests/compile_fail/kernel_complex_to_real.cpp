// expect: a complex value becomes real by real(), imag(), abs() or abs_squared()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Nothing says which part of a complex number a float should hold.
#include <complex>

#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void apply(std::complex<float> const* z, float* y) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::abs(ew::in(z, 16)));
#else
  ew::evaluate_host(ew::out(y, 16) = ew::in(z, 16));
#endif
}
