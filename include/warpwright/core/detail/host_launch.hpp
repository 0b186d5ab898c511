// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a kernel launch is to the host runtime. C linkage, so that the seam in core/ needs nothing
// from testing/ but one symbol.
#pragma once

#include <cuda_runtime_api.h>

extern "C" {

/// One kernel over the index space [0, size): the host runtime copies `arguments` at the call (as
/// CUDA copies kernel parameters), then calls `run` from the stream's worker, once or in several
/// disjoint ranges.
struct warpwright_host_kernel {
  const char* name;      ///< for errors and graph reports
  const void* function;  ///< identity: one address a kernel, compared by graph updates
  void (*run)(const void* arguments, unsigned long long begin, unsigned long long end);
  const void* arguments;  ///< trivially copyable
  size_t arguments_bytes;
  size_t arguments_alignment;
  unsigned long long size;  ///< number of indices, at least 1
};

/// Enqueues `kernel` on `stream` (or records it, when the stream is capturing). Answers as
/// cudaLaunchKernel does.
cudaError_t warpwrightHostLaunchKernel(const warpwright_host_kernel* kernel, cudaStream_t stream);
}
