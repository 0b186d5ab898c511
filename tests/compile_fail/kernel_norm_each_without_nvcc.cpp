// expect: warpwright: this call needs a kernel: compile this file with nvcc
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A .cpp of a CUDA project may take norms on the host, but not on a device.
#include <warpwright/kernel/tensor_norms.hpp>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void apply(ew::tensor_list<float> const& list, float* norms) { ew::norm_each_host(list, norms); }
#else
void apply(warpwright::stream_ref stream, ew::reduction_workspace const& workspace,
           ew::tensor_list<float> const& list, float* norms) {
  ew::norm_each(stream, workspace, list, norms);
}
#endif
