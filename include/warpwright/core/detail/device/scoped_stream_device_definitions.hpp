// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/launch/driver_function.hpp>

WARPWRIGHT_BEGIN

namespace detail {

struct context_functions {
  int (*of_stream)(cudaStream_t, CUctx_st**) = nullptr;
  int (*current)(CUctx_st**) = nullptr;
  int (*push)(CUctx_st*) = nullptr;
  int (*pop)(CUctx_st**) = nullptr;

  /// @return null if a driver lacks one of them
  [[nodiscard]] static context_functions const* find() noexcept {
    static context_functions const found = [] {
      context_functions all;
      if (!find_driver_function("cuStreamGetCtx", all.of_stream) ||
          !find_driver_function("cuCtxGetCurrent", all.current) ||
          !find_driver_function("cuCtxPushCurrent", all.push) ||
          !find_driver_function("cuCtxPopCurrent", all.pop)) {
        all.pop = nullptr;
      }
      return all;
    }();
    return found.pop != nullptr ? &found : nullptr;
  }
};

WARPWRIGHT_INLINE scoped_stream_device::scoped_stream_device(cudaStream_t stream) noexcept {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return;
  context_functions const* const driver = context_functions::find();
  CUctx_st* of_stream = nullptr;
  CUctx_st* current = nullptr;
  if (driver == nullptr || driver->of_stream(stream, &of_stream) != 0 ||
      driver->current(&current) != 0 || current == of_stream) {
    return;
  }
  changed_ = driver->push(of_stream) == 0;
}

WARPWRIGHT_INLINE scoped_stream_device::~scoped_stream_device() {
  CUctx_st* popped = nullptr;
  if (changed_) static_cast<void>(context_functions::find()->pop(&popped));
}

}  // namespace detail

WARPWRIGHT_END
