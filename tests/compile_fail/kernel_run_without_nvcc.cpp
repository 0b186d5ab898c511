// expect: warpwright: this call needs a kernel: compile this file with nvcc
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A .cpp of a CUDA project may build expressions, but not run them on a device.
#include <warpwright/kernel.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto build(float* y, float const* x) { return ew::out(y, 16) = 2 * ew::in(x, 16); }
#else
void run(warpwright::stream_ref stream, float* y, float const* x) {
  ew::run(stream, ew::out(y, 16) = 2 * ew::in(x, 16));
}
#endif
