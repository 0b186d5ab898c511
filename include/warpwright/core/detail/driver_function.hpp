// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

// What the driver's handles point to; the runtime's streams and events are the driver's.
struct CUctx_st;

WARPWRIGHT_BEGIN

namespace detail {

/// Finds a function of the driver through the runtime, so that nothing links libcuda.
/// @return whether this driver has it
template <class Function>
bool find_driver_function(char const* name, Function& function) noexcept {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cudaError_t const answer =
      cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status);
#else
  cudaError_t const answer = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status);
#endif
  discard(answer);
  if (answer != cudaSuccess || status != cudaDriverEntryPointSuccess) return false;
  function = reinterpret_cast<Function>(found);
  return function != nullptr;
}

}  // namespace detail

WARPWRIGHT_END
