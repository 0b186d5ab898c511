// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cxxabi.h>

#include <warpwright/core/detail/launch/driver_function.hpp>
#include <warpwright/graph/detail/nodes/kernel_name.hpp>

#include <cstdlib>

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

WARPWRIGHT_INLINE std::string kernel_name(cudaGraphNode_t node) {
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

WARPWRIGHT_INLINE std::string demangled(std::string const& name) {
  int status = 0;
  char* const plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && plain != nullptr ? std::string{plain} : name;
  std::free(plain);
  return result;
}

WARPWRIGHT_INLINE std::string kernel_label(std::string const& mangled) {
  std::string const full = demangled(mangled);
  std::string label;
  int depth = 0;  // of template arguments
  for (std::size_t i = 0; i < full.size(); ++i) {
    char const c = full[i];
    if (c == ':' && i + 1 < full.size() && full[i + 1] == ':') {
      // Removes the qualifier in front: an identifier, "(anonymous namespace)", or a name with its
      // template arguments.
      int open = 0;
      while (!label.empty()) {
        char const last = label.back();
        if (last == ')' || last == '>') ++open;
        bool const opens = last == '(' || last == '<';
        if (open == 0 && (opens || last == ' ' || last == ',' || last == '*' || last == '&')) break;
        if (opens) --open;
        label.pop_back();
      }
      ++i;
      continue;
    }
    if (c == '<') ++depth;
    if (c == '>') --depth;
    bool const anonymous = c == '(' && full.compare(i, 11, "(anonymous ") == 0;
    if (c == '(' && depth == 0 && !anonymous) break;  // the parameters
    if (anonymous) {
      std::size_t const end = full.find(')', i);
      if (end == std::string::npos) break;
      label.append(full, i, end - i + 1);
      i = end;
      continue;
    }
    if (c == ' ' && depth == 0) {
      label.clear();  // what was read is the return type
      continue;
    }
    if (c == ' ' && i + 1 < full.size() && full[i + 1] == '>') continue;
    label += c;
  }
  return label.empty() ? full : label;
}

}  // namespace detail

WARPWRIGHT_END
