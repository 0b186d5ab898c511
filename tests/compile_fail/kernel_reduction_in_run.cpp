// expect: a reduction goes to reduce()
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
// errors: 1
// flags: -DWARPWRIGHT_HOST_RUNTIME=1
//
// run() is for one result an element.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/memory/pool.hpp>

namespace ew = warpwright::ew;

void run(warpwright::stream_ref s, warpwright::memory_pool& pool, float* z, float const* x) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ew::reduce(s, pool, 16, ew::to(z) = ew::sum(ew::in(x, 16)));
#else
  static_cast<void>(pool);
  ew::run(s, ew::to(z) = ew::sum(ew::in(x, 16)));
#endif
}
