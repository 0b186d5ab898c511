// expect: the body of a capture is called with
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A body that does not take the stream would enqueue on another one.
#include <warpwright/graph/capture.hpp>

warpwright::graph captured(warpwright::stream_ref s) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  return warpwright::capture(s, [](warpwright::stream_ref) {});
#else
  return warpwright::capture(s, [] {});
#endif
}
