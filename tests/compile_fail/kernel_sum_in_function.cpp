// expect: as reduce(stream, pool, n, to(p) = sum(x)), and write device_scalar(p)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
//
// A function of a sum.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

void run(float* y, float const* x, float const* total) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out(y, 1) = ew::sqrt(ew::device_scalar(total)));
#else
  static_cast<void>(total);
  ew::evaluate_host(ew::out(y, 1) = ew::sqrt(ew::sum(ew::in(x, 16)) / 16));
#endif
}
