// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/launch/driver_function.hpp>
#include <warpwright/graph/detail/nodes/kernel_call.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// The driver's CUDA_KERNEL_NODE_PARAMS_v2, without <cuda.h>.
struct driver_kernel_node {
  void* function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void** arguments;
  void** extra;
  void* kernel;  // used where function is null
  void* context;
};

WARPWRIGHT_INLINE cudaError_t read_kernel(cudaGraphNode_t node, kernel_call& to) noexcept {
  cudaKernelNodeParams known{};
  cudaError_t const status = cudaGraphKernelNodeGetParams(node, &known);
  if (status == cudaSuccess) {
    to =
        kernel_call{kernel_call::kind::of_runtime, known.func,        known.gridDim, known.blockDim,
                    known.sharedMemBytes,          known.kernelParams};
    return status;
  }
  int (*get_node)(cudaGraphNode_t, driver_kernel_node*) = nullptr;
  driver_kernel_node n{};
  if (status != cudaErrorInvalidDeviceFunction ||
      !find_driver_function("cuGraphKernelNodeGetParams", get_node) || get_node(node, &n) != 0) {
    return status;
  }
  discard(status);
  bool const is_function = n.function != nullptr;
  to = kernel_call{is_function ? kernel_call::kind::function : kernel_call::kind::library_kernel,
                   is_function ? n.function : n.kernel,
                   dim3{n.grid[0], n.grid[1], n.grid[2]},
                   dim3{n.block[0], n.block[1], n.block[2]},
                   n.shared_bytes,
                   n.arguments};
  return cudaSuccess;
}

WARPWRIGHT_INLINE char const* kernel_call::name() const noexcept {
  char const* found = nullptr;
#if CUDART_VERSION >= 12030
  if (handle == kind::of_runtime) {
    return discard(cudaFuncGetName(&found, kernel)) == cudaSuccess ? found : nullptr;
  }
  int (*get_name)(char const**, void const*) = nullptr;
  if (!find_driver_function(handle == kind::function ? "cuFuncGetName" : "cuKernelGetName",
                            get_name, 12030) ||
      get_name(&found, kernel) != 0) {
    return nullptr;
  }
#endif
  return found;
}

WARPWRIGHT_INLINE std::size_t kernel_call::argument_bytes(std::size_t index) const noexcept {
  std::size_t offset = 0;
  std::size_t bytes = 0;
#if CUDART_VERSION >= 12040
  if (handle == kind::of_runtime) {
    return discard(cudaFuncGetParamInfo(kernel, index, &offset, &bytes)) == cudaSuccess ? bytes : 0;
  }
  int (*get_size)(void const*, std::size_t, std::size_t*, std::size_t*) = nullptr;
  if (!find_driver_function(
          handle == kind::function ? "cuFuncGetParamInfo" : "cuKernelGetParamInfo", get_size,
          12040) ||
      get_size(kernel, index, &offset, &bytes) != 0) {
    return 0;
  }
#else
  static_cast<void>(index), static_cast<void>(offset);
#endif
  return bytes;
}

}  // namespace detail

WARPWRIGHT_END
