// expect: a candidate must be callable as void(stream_ref)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/measure/choose.hpp>

void choose() {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  auto const one = warpwright::candidate("one", [](warpwright::stream_ref) {});
#else
  auto const one = warpwright::candidate("one", [] {});  // where would its work go?
#endif
  static_cast<void>(one);
}
