// expect: a complex value becomes real by real(), imag(), abs() or abs_squared()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions are of real numbers.
#include <complex>

#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void apply(std::complex<float> const* z, float* y) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::exp(ew::real(ew::in(z, 16))));
#else
  ew::evaluate_host(ew::out(y, 16) = ew::exp(ew::in(z, 16)));
#endif
}
