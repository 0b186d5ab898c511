// expect: a pointer is no operand: write in(pointer, n)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
// flags: -DWARPWRIGHT_HOST_RUNTIME=1
//
// A pointer has no length, and may be of one element a row or column.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void run(warpwright::stream_ref s, float* y, float const* x, float const* v) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run(s, ew::out(y, 16) = ew::in(x, 16) * ew::in(v, 16));
#else
  ew::run(s, ew::out(y, 16) = ew::in(x, 16) * v);
#endif
}
