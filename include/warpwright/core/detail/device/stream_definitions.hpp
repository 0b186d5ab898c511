// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/stream.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE stream_ref stream_ref::resolved(source_location where) const {
  stream_ref copy{*this};
  if (handle_ != cudaStreamPerThread) copy.id_ = id(where);
  return copy;
}

WARPWRIGHT_INLINE void stream_ref::synchronize(source_location where) const {
  check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize", where);
}

WARPWRIGHT_INLINE bool stream_ref::done(source_location where) const {
  return detail::not_ready_is_false(cudaStreamQuery(handle_), "cudaStreamQuery", where);
}

WARPWRIGHT_INLINE void stream_ref::wait(event const& recorded, source_location where) const {
  check(cudaStreamWaitEvent(handle_, recorded.get(), 0), "cudaStreamWaitEvent", where);
}

WARPWRIGHT_INLINE void stream_ref::wait(stream_ref other, source_location where) const {
  event marker{where};
  marker.record(other.get(), where);
  wait(marker, where);
}

WARPWRIGHT_INLINE bool stream_ref::is_capturing(source_location where) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(handle_, &status), "cudaStreamIsCapturing", where);
  return status != cudaStreamCaptureStatusNone;
}

WARPWRIGHT_INLINE std::uint64_t stream_ref::query_id(source_location where) const {
  unsigned long long id = 0;
  check(cudaStreamGetId(handle_, &id), "cudaStreamGetId", where);
  return id;
}

WARPWRIGHT_INLINE stream_priority_range get_stream_priority_range(device_id device,
                                                                  source_location where) {
  scoped_device const scope{device, where};
  stream_priority_range range;
  check(cudaDeviceGetStreamPriorityRange(&range.least, &range.greatest),
        "cudaDeviceGetStreamPriorityRange", where);
  return range;
}

WARPWRIGHT_INLINE stream::stream(device_id device, int priority, source_location where) {
  scoped_device const scope{device, where};
  if (priority != 0) {
    stream_priority_range const range = get_stream_priority_range(device, where);
    if (priority > range.least || priority < range.greatest) {
      detail::throw_invalid_argument(detail::text{"stream priority "} + priority +
                                         " is outside of the device's " + range.greatest +
                                         " (highest) to " + range.least + " (lowest)",
                                     where);
    }
  }
  check(cudaStreamCreateWithPriority(&ref_.handle_, cudaStreamNonBlocking, priority),
        "cudaStreamCreateWithPriority", where);
  unsigned long long id = 0;
  cudaError_t const status = cudaStreamGetId(ref_.handle_, &id);
  if (status != cudaSuccess) {
    detail::discard(cudaStreamDestroy(ref_.handle_));
    check(status, "cudaStreamGetId", where);
  }
  ref_.id_ = id;
}

WARPWRIGHT_INLINE stream::stream(stream&& other) noexcept
    : ref_{detail::exchange(other.ref_, empty())} {}

WARPWRIGHT_INLINE stream::~stream() {
  if (ref_.handle_ != cudaStreamLegacy) detail::discard(cudaStreamDestroy(ref_.handle_));
}

WARPWRIGHT_END
