// expect: floor(), ceil(), round() and rint() are of real numbers
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts are rounded one by one.
#include <complex>

#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void apply(std::complex<float>* z) {
  auto const e = ew::in(z, 16);
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(z, 16) = ew::make_complex(ew::floor(ew::real(e)), ew::imag(e)));
#else
  ew::evaluate_host(ew::out(z, 16) = ew::floor(e));
#endif
}
