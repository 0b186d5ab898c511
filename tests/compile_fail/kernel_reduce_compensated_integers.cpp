// expect: sums of integers are exact without it
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// There is no rounding to make up for.
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void run(double* y, int const* x) {
  ew::reduce_host(16, ew::to(y) = ew::sum(ew::in(x, 16)).in<double>().compensated());
}
#else
void run(double* y, int const* x) {
  ew::reduce_host(16, ew::to(y) = ew::sum(ew::in(x, 16)).compensated());
}
#endif
