// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernel launches: a kernel is a host function over the blocks or indices of a grid.
#include "runtime.hpp"
#include "work.hpp"

using namespace warpwright::host;

WARPWRIGHT_API cudaError_t warpwrightHostLaunchKernel(warpwright_host_kernel const* kernel,
                                                      cudaStream_t handle) {
  static call_site site{"cudaLaunchKernel"};
  return api(site, needs::device, [&](runtime& rt) {
    if (kernel == nullptr || kernel->run == nullptr) return cudaErrorInvalidDeviceFunction;
    if (kernel->size == 0) return cudaErrorInvalidConfiguration;
    if (kernel->arguments_bytes > 0 && kernel->arguments == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const stream = find_stream(rt, handle, null_stream::legacy);
    // The stream must belong to the current device.
    if (stream == nullptr || stream->device != &current_device(rt)) {
      return cudaErrorInvalidResourceHandle;
    }
    if (rt.functions.find(kernel->function) == rt.functions.end()) {
      rt.functions.emplace(kernel->function, default_function_attributes(rt));
      rt.function_arguments.emplace(kernel->function, kernel->arguments_bytes);
      if (kernel->name != nullptr) rt.function_names.emplace(kernel->function, kernel->name);
    }
    return submit(rt, *stream, cudaGraphNodeTypeKernel, std::make_shared<kernel_work>(*kernel));
  });
}
