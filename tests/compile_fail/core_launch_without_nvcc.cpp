// expect: compile this file with nvcc
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A .cpp of a CUDA project has no kernels: never a silent loop over device pointers.
#include <warpwright/core/launch.hpp>

struct fill {
  float* values;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { values[i] = 1.0F; }
};

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
fill make(float* values) { return {values}; }
#else
void run(warpwright::stream_ref stream, float* values) {
  warpwright::for_each_index(stream, 16, fill{values});
}
#endif
