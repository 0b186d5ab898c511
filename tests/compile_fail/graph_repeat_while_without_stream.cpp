// expect: the body of repeat_while() and run_if() is called with a
// flags: -DWARPWRIGHT_HOST_RUNTIME=1
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A body that does not take its stream would enqueue on the one around the loop.
#include <warpwright/graph/conditional.hpp>

void loop(warpwright::stream_ref s, unsigned const* running) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  warpwright::repeat_while(s, running, [](warpwright::stream_ref) {});
#else
  warpwright::repeat_while(s, running, [] {});
#endif
}
