// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/stream.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// Lets the calling thread make calls that another thread's capture would forbid (cudaMalloc,
/// cudaEventQuery): none of the library's own calls touches a capturing stream.
class relaxed_capture_mode {
 public:
  explicit relaxed_capture_mode(source_location where) {
    check(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode",
          where);
  }
  /// For destructors, which do without when it cannot be had.
  relaxed_capture_mode() noexcept {
    cudaError_t const answer = cudaThreadExchangeStreamCaptureMode(&mode_);
    discard(answer);
    changed_ = answer == cudaSuccess;
  }
  ~relaxed_capture_mode() {
    if (changed_) discard(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  relaxed_capture_mode(relaxed_capture_mode const&) = delete;
  relaxed_capture_mode& operator=(relaxed_capture_mode const&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool changed_ = true;
};

/// Whether a stream of somebody else had better be left alone.
inline bool may_be_capturing(cudaStream_t stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t const answer = cudaStreamIsCapturing(stream, &status);
  discard(answer);
  return answer != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

/// Whether the caller's stream is capturing, or is a legacy default stream during a capture.
inline bool is_capturing(stream_ref stream, source_location where) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t const answer = cudaStreamIsCapturing(stream.get(), &status);
  if (answer == cudaErrorStreamCaptureImplicit) {
    discard(answer);
    return true;
  }
  check(answer, "cudaStreamIsCapturing", where);
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace detail

WARPWRIGHT_END
