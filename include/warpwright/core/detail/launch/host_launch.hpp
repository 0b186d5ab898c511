// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a kernel launch is to the host runtime. C linkage, so that the launch interface in core/
// needs nothing from testing/ but one symbol.
#pragma once

#include <cuda_runtime_api.h>

extern "C" {

/// One kernel over the blocks, or indices, [0, size): the host runtime copies `arguments` at the
/// call (as CUDA copies kernel parameters), then one thread, the stream's worker or that of a graph
/// launch, calls `run` over the blocks in order.
struct warpwright_host_kernel {
  char const* name;      ///< for errors and graph reports
  void const* function;  ///< identity: one address a kernel, compared by graph updates
  void (*run)(void const* arguments, unsigned long long begin, unsigned long long end);
  void const* arguments;  ///< trivially copyable
  size_t arguments_bytes;
  size_t arguments_alignment;
  unsigned long long size;  ///< number of blocks or indices, at least 1
  unsigned threads;         ///< of a block, and
  size_t shared_bytes;      ///< its dynamic shared memory: what a graph node's parameters report
};

/// Enqueues `kernel` on `stream` (or records it, when the stream is capturing). Answers as
/// cudaLaunchKernel does.
cudaError_t warpwrightHostLaunchKernel(warpwright_host_kernel const* kernel, cudaStream_t stream);

/// Counts a call of a library above the runtime, such as the host NCCL, and applies the fault plan.
/// @param name  lives as long as the process
/// @return the error that the call must return
cudaError_t warpwrightHostCountCall(char const* name);

/// What cudaGraphSetConditional is to a kernel: sets the value of a conditional handle.
void warpwrightHostSetConditional(unsigned long long handle, unsigned value);
}
