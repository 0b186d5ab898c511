// expect: warpwright::ew::out_at: GPUs add float, double, __half, __nv_bfloat16 and integers
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// There is no atomic addition of bytes.
#include <warpwright/kernel/indices.hpp>

namespace ew = warpwright::ew;

void evaluate(signed char* y, [[maybe_unused]] int* z, float const* x, int const* index) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::evaluate_host(ew::out_at(z, 16, 8, ew::col(index, 4)) += ew::in(x, 8));
#else
  ew::evaluate_host(ew::out_at(y, 16, 8, ew::col(index, 4)) += ew::in(x, 8));
#endif
}
