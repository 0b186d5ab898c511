// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <warpwright/core/detail/config.hpp>
#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/core/detail/launch/host_launch.hpp>
#endif

// Graphs have IF and WHILE nodes since CUDA 12.4.
#if CUDART_VERSION >= 12040
#define WARPWRIGHT_HAS_CONDITIONAL_NODES 1
#else
#define WARPWRIGHT_HAS_CONDITIONAL_NODES 0
#endif

WARPWRIGHT_BEGIN

namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Sets the value of a conditional handle, in a kernel of the handle's graph: one thread does it.
/// @param handle  of type cudaGraphConditionalHandle, which toolkits before CUDA 12.3 lack
WARPWRIGHT_HOST_DEVICE inline void set_condition(unsigned long long handle, unsigned value) {
#if defined(__CUDA_ARCH__) && WARPWRIGHT_HAS_CONDITIONAL_NODES
  cudaGraphSetConditional(handle, value);
#elif WARPWRIGHT_HOST_RUNTIME
  warpwrightHostSetConditional(handle, value);
#else
  static_cast<void>(handle), static_cast<void>(value);
#endif
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END
