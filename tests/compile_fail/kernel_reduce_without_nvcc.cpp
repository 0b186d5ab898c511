// expect: warpwright: this call needs a kernel: compile this file with nvcc
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A .cpp of a CUDA project may reduce on the host, but not on a device.
#include <warpwright/kernel/reduce.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void run(float* y, float const* x) { ew::reduce_host(16, ew::to(y) = ew::sum(ew::in(x, 16))); }
#else
void run(warpwright::stream_ref stream, ew::reduction_workspace const& w, float* y,
         float const* x) {
  ew::reduce(stream, w, 16, ew::to(y) = ew::sum(ew::in(x, 16)));
}
#endif
