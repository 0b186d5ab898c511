// expect: in() and the like are read only; what is written is out(pointer, n) = expression
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
// flags: -DWARPWRIGHT_HOST_RUNTIME=1
//
// in() is not an output.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void run(warpwright::stream_ref s, float* y, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run(s, ew::out(y, 16) = ew::in(x, 16) * 2);
#else
  ew::run(s, ew::in(y, 16) = ew::in(x, 16) * 2);
#endif
}
