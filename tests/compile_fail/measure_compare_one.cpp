// expect: compare() needs two callables or more
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/measure/compare.hpp>

void compare_steps(warpwright::stream_ref stream) {
  auto const step = [] {};
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  warpwright::compare(stream, step, step);
#else
  warpwright::compare(stream, step);
#endif
}
