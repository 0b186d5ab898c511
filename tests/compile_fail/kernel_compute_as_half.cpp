// expect: the type must be float, double or an integer
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// 16-bit floats are for storage: computed in float, rounded by cast.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

auto apply(float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  return ew::cast<__half>(ew::in(x, 16));
#else
  return ew::compute_as<__half>(ew::in(x, 16));
#endif
}
