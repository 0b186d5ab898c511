// expect: GPUs add float, double, __half, __nv_bfloat16 and integers of 32 and 64 bits atomically
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// There is no atomic addition of bytes.
#include <warpwright/kernel/indices.hpp>

namespace ew = warpwright::ew;

void evaluate(signed char* y, float const* x, int const* index) {
  auto const to = ew::scatter_add(y, 16, ew::col(index, 4));
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(to.in_order() = ew::in(x, 8));
#else
  ew::evaluate_host(to = ew::in(x, 8));
#endif
}
