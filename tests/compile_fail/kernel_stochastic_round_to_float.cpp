// expect: the type must be __half, __nv_bfloat16, __nv_fp8_e4m3 or __nv_fp8_e5m2
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Only formats smaller than float are rounded to by chance.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/random.hpp>

namespace ew = warpwright::ew;

auto narrow(double const* x, ew::philox const& rng) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  return ew::stochastic_round<__nv_bfloat16>(ew::in(x, 16), rng);
#else
  return ew::stochastic_round<float>(ew::in(x, 16), rng);
#endif
}
