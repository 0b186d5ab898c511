// expect: as reduce(stream, pool, n, to(p) = sum(x)), and write device_scalar(p)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
//
// A reduction is stored by to().
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

void reduce(float* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::reduce_host(16, ew::to(y) = ew::sum(ew::in(x, 16)));
#else
  ew::evaluate_host(ew::out(y, 1) = ew::sum(ew::in(x, 16)));
#endif
}
