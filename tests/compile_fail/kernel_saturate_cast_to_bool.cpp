// expect: the type must be a number other than bool
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A truth value has no range to stay in.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/numeric.hpp>

namespace ew = warpwright::ew;

auto narrow(float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  return ew::saturate_cast<signed char>(ew::in(x, 16));
#else
  return ew::saturate_cast<bool>(ew::in(x, 16));
#endif
}
