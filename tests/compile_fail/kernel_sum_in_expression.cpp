// expect: as reduce(stream, pool, n, to(p) = sum(x)), and write device_scalar(p)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
// flags: -DWARPWRIGHT_HOST_RUNTIME=1
//
// The sum of all elements is not known when the first is divided by it.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

void run(warpwright::stream_ref s, float* y, float const* x, float const* total) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::run(s, ew::out(y, 16) = ew::in(x, 16) / ew::device_scalar(total));
#else
  static_cast<void>(total);
  ew::run(s, ew::out(y, 16) = ew::in(x, 16) / ew::sum(ew::in(x, 16)));
#endif
}
