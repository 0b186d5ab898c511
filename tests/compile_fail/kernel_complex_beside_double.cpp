// expect: a double beside complex<float> would lose its digits
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// There is no complex<double> for the two to meet in.
#include <complex>

#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void apply(std::complex<float>* z, double const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(z, 16) = ew::in(z, 16) * ew::cast<float>(ew::in(x, 16)));
#else
  ew::evaluate_host(ew::out(z, 16) = ew::in(z, 16) * ew::in(x, 16));
#endif
}
