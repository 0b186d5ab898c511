// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/core/stream.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// Allows the calling thread calls that another thread's capture would forbid (cudaMalloc,
/// cudaEventQuery). Safe, because none of the library's own calls touches a capturing stream.
class relaxed_capture_mode : noncopyable {
 public:
  explicit relaxed_capture_mode(source_location where) {
    check(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode",
          where);
  }
  /// For destructors: ignores a failure.
  relaxed_capture_mode() noexcept {
    changed_ = discard(cudaThreadExchangeStreamCaptureMode(&mode_)) == cudaSuccess;
  }
  ~relaxed_capture_mode() {
    if (changed_) discard(cudaThreadExchangeStreamCaptureMode(&mode_));
  }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool changed_ = true;
};

/// Whether a stream of another caller may be capturing, so that it must not be touched.
inline bool may_be_capturing(cudaStream_t stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t const result = discard(cudaStreamIsCapturing(stream, &status));
  return result != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

/// Waits for the current device's work. cudaFree does, and unlike cudaDeviceSynchronize it does not
/// invalidate captures.
/// @return cudaErrorMemoryAllocation on a full device: nothing was waited for
/// @pre relaxed_capture_mode, where a capture may be under way
WARPWRIGHT_COLD inline cudaError_t wait_for_running_work() noexcept {
  void* barrier = nullptr;
  cudaError_t result = cudaMalloc(&barrier, 1);
  if (result == cudaSuccess) result = cudaFree(barrier);
  return discard(result);
}

/// Whether the caller's stream is capturing, or is a legacy default stream during a capture.
inline bool is_capturing(stream_ref stream, source_location where) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t const result = cudaStreamIsCapturing(stream.get(), &status);
  if (result == cudaErrorStreamCaptureImplicit) {
    discard(result);
    return true;
  }
  check(result, "cudaStreamIsCapturing", where);
  return status != cudaStreamCaptureStatusNone;
}

/// The capture of a stream.
struct capture_info {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
};

inline capture_info get_capture_info(stream_ref stream, source_location where) {
  capture_info info;
#if CUDART_VERSION >= 13000
  check(cudaStreamGetCaptureInfo(stream.get(), &info.status, &info.id, &info.graph, nullptr,
                                 nullptr, nullptr),
        "cudaStreamGetCaptureInfo", where);
#else
  check(cudaStreamGetCaptureInfo_v2(stream.get(), &info.status, &info.id, &info.graph, nullptr,
                                    nullptr),
        "cudaStreamGetCaptureInfo", where);
#endif
  return info;
}

/// The device of a stream that may be capturing; the current one if the stream does not exist.
inline device_id device_of_any(stream_ref stream, source_location where) {
  scoped_stream_device const scope{stream.get()};
  return current_device(where);
}

/// The device of a stream.
/// @pre the stream is not capturing: cudaStreamGetDevice would invalidate the capture
inline device_id device_of(stream_ref stream, source_location where) {
#if CUDART_VERSION >= 12080
  // The default streams are those of the current device.
  if (stream.get() != cudaStreamLegacy && stream.get() != cudaStreamPerThread) {
    int ordinal = 0;
    check(cudaStreamGetDevice(stream.get(), &ordinal), "cudaStreamGetDevice", where);
    return device_id{ordinal};
  }
#endif
  return device_of_any(stream, where);
}

/// Whether a call has failed as its stream was destroyed, or its device reset.
inline bool is_gone(cudaError_t status) noexcept {
  return status == cudaErrorInvalidResourceHandle || status == cudaErrorContextIsDestroyed;
}

/// As check(), of a call with a stream that the caller has named earlier: names the probable cause.
inline void check_named_earlier(cudaError_t status, char const* api, source_location where) {
  if (status == cudaSuccess) return;
  throw_cuda_error(status, api, where,
                   is_gone(status) ? "probably the stream was destroyed: a stream outlives the "
                                     "batches, slots and branches that it was given for"
                                   : nullptr);
}

}  // namespace detail

WARPWRIGHT_END
