// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

// The driver's context. The runtime's stream and event handles are the driver's as well.
struct CUctx_st;

WARPWRIGHT_BEGIN

namespace detail {

/// Looks up a driver function through the runtime, so that a program does not link libcuda.
/// @param version  of CUDA, in which the function has the signature
/// @return whether the driver has the function
template <class Function>
bool find_driver_function(char const* name, Function& function, unsigned version = 12000) noexcept {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cudaError_t const error =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &status);
#else
  static_cast<void>(version);
  cudaError_t const error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status);
#endif
  discard(error);
  if (error != cudaSuccess || status != cudaDriverEntryPointSuccess) return false;
  function = reinterpret_cast<Function>(found);
  return function != nullptr;
}

}  // namespace detail

WARPWRIGHT_END
