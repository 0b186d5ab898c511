// expect: % is of integers; of floating point write x - y * floor(x / y)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// As in C++.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void apply(float const* x, float* y) {
  auto const e = ew::in(x, 16);
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 16) = e - 2.0F * ew::floor(e / 2.0F));
#else
  ew::evaluate_host(ew::out(y, 16) = e % 2.0F);
#endif
}
