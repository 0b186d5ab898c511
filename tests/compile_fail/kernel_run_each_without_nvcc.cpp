// expect: warpwright: this call needs a kernel: compile this file with nvcc
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A .cpp of a CUDA project may update tensors on the host, but not on a device.
#include <warpwright/kernel/multi_tensor.hpp>

namespace ew = warpwright::ew;

struct halved {
  WARPWRIGHT_HOST_DEVICE void operator()(float& x) const { x *= 0.5F; }
};

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void apply(ew::tensor_list<float> const& list) { ew::run_each_host(list, halved{}); }
#else
void apply(warpwright::stream_ref stream, ew::tensor_list<float> const& list) {
  ew::run_each(stream, list, halved{});
}
#endif
