// expect: calls f(warpwright::stream_ref branch
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The function of a branch gets its number as well.
#include <warpwright/graph/capture.hpp>

void body(warpwright::capture_scope& scope) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  scope.fork(2, [](warpwright::stream_ref, unsigned) {});
#else
  scope.fork(2, [](warpwright::stream_ref) {});
#endif
}
