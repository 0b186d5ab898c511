// expect: one argument: run(stream, tie(out(p, n) = ..., out(q, n) = ...))
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
// flags: -DWARPWRIGHT_HOST_RUNTIME=1
//
// Several outputs without tie().
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

void run(warpwright::stream_ref s, float* y, float* z, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run(s, ew::tie(ew::out(y, 16) = ew::in(x, 16), ew::out(z, 16) = ew::in(x, 16) * 2));
#else
  ew::run(s, ew::out(y, 16) = ew::in(x, 16), ew::out(z, 16) = ew::in(x, 16) * 2);
#endif
}
