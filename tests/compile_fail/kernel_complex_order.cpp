// expect: complex numbers have no order
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Neither by < nor by max().
#include <complex>

#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void apply(std::complex<float> const* z, float* y) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = ew::max(ew::abs(ew::in(z, 16)), 1));
#else
  ew::evaluate_host(ew::out(y, 16) = ew::abs(ew::max(ew::in(z, 16), 1)));
#endif
}
