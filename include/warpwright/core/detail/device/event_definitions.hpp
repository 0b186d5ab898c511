// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/event.hpp>

#include <warpwright/core/detail/device/scoped_stream_device.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// Behind a record that has failed. Streams that wait for the old event keep what they wait for.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool event_handle::record_on_other_device(
    cudaStream_t stream) noexcept {
  if (handle_ == nullptr) return false;
  scoped_stream_device const scope{stream};
  cudaEvent_t made = nullptr;
  bool recorded = false;
  if (cudaEventCreateWithFlags(&made, flags_) == cudaSuccess) {
    recorded = cudaEventRecord(made, stream) == cudaSuccess;
    discard(cudaEventDestroy(recorded ? exchange(handle_, made) : made));
  }
  static_cast<void>(cudaGetLastError());
  return recorded;
}

}  // namespace detail

WARPWRIGHT_END
