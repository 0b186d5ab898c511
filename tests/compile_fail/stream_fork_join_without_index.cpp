// expect: warpwright: stream_pool::fork_join(parent, n, f) calls f(
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/stream/stream_pool.hpp>

void run(warpwright::stream_pool& pool, warpwright::stream_ref parent) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  pool.fork_join(parent, 2, [](warpwright::stream_ref, unsigned) {});
#else
  pool.fork_join(parent, 2, [](warpwright::stream_ref) {});
#endif
}
