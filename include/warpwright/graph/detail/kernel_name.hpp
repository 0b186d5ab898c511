// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/launch/driver_function.hpp>

#include <string>

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

/// The name of a kernel node's kernel, as the compiler mangled it; empty for other nodes, or where
/// the driver does not tell (CUDA older than 12.3).
inline std::string kernel_name(cudaGraphNode_t node) {
  char const* name = nullptr;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  cudaError_t status = node != nullptr ? cudaGraphNodeGetType(node, &type) : cudaErrorInvalidValue;
  if (status != cudaSuccess || type != cudaGraphNodeTypeKernel) {
    if (node != nullptr) discard(status);
    return {};
  }
#if CUDART_VERSION >= 12030
  cudaKernelNodeParams parameters{};
  status = cudaGraphKernelNodeGetParams(node, &parameters);
  if (status == cudaSuccess) status = cudaFuncGetName(&name, parameters.func);
  if (status == cudaSuccess && name != nullptr) return name;
  discard(status);
  // The runtime does not know kernels that were launched with the driver's functions.
  int (*get_node)(cudaGraphNode_t, driver_kernel_node*) = nullptr;
  int (*get_function_name)(char const**, void*) = nullptr;
  int (*get_kernel_name)(char const**, void*) = nullptr;
  driver_kernel_node of_driver{};
  if (!find_driver_function("cuGraphKernelNodeGetParams", get_node) ||
      !find_driver_function("cuFuncGetName", get_function_name, 12030) ||
      !find_driver_function("cuKernelGetName", get_kernel_name, 12030) ||
      get_node(node, &of_driver) != 0) {
    return {};
  }
  int const failed = of_driver.function != nullptr ? get_function_name(&name, of_driver.function)
                                                   : get_kernel_name(&name, of_driver.kernel);
  if (failed == 0 && name != nullptr) return name;
#endif
  return {};
}

}  // namespace detail

WARPWRIGHT_END
