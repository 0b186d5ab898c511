// expect: warpwright::ew::complex: the parts must be float
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Complex numbers are of floats.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

float apply() {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  return ew::complex<float>{1, 2}.real();
#else
  return static_cast<float>(ew::complex<double>{1, 2}.real());
#endif
}
