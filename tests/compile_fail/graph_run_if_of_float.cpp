// expect: a condition is an integer, a bool or an enumeration in device memory
// flags: -DWARPWRIGHT_HOST_RUNTIME=1
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A residual is not a condition: a kernel compares it with the tolerance.
#include <warpwright/graph/conditional.hpp>

void branch(warpwright::stream_ref s, float const* residual, unsigned const* converged) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  static_cast<void>(residual);
  warpwright::run_if(s, converged, [](warpwright::stream_ref) {});
#else
  static_cast<void>(converged);
  warpwright::run_if(s, residual, [](warpwright::stream_ref) {});
#endif
}
