// expect: bool(stream_ref), also if const: a lambda must not be mutable
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/measure/choose.hpp>

void choose() {
  auto const one = warpwright::candidate("one", [](warpwright::stream_ref) {});
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  auto const check = [](warpwright::stream_ref) { return true; };
#else
  auto const check = [calls = 0](warpwright::stream_ref) mutable { return ++calls > 0; };
#endif
  auto const all = warpwright::candidates(one).verify(check);
  static_cast<void>(all);
}
