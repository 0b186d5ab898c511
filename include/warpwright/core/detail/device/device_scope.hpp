// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/error.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// As scoped_device, without exceptions: for destructors, and where another call tells of a lost
/// device. Makes a device the current one during its lifetime.
class device_scope : noncopyable {
 public:
  static constexpr int current = -1;  // leaves the current one

  explicit device_scope(int device) noexcept {
    if (device == current) return;
    int before = device;
    status_ = cudaGetDevice(&before);
    if (status_ == cudaSuccess && before != device) {
      status_ = cudaSetDevice(device);
      if (status_ == cudaSuccess) before_ = before;
    }
    discard(status_);
  }
  ~device_scope() {
    if (before_ != current) discard(cudaSetDevice(before_));
  }

  /// @return of what failed; the current device is then unchanged
  [[nodiscard]] cudaError_t status() const noexcept { return status_; }

 private:
  cudaError_t status_ = cudaSuccess;
  int before_ = current;
};

/// For a thread of the library: makes the device the current one, and allows calls that another
/// thread's capture would forbid, until the thread ends.
inline cudaError_t set_up_thread(int device) noexcept {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaError_t status = cudaSetDevice(device);
  if (status == cudaSuccess) status = cudaThreadExchangeStreamCaptureMode(&mode);
  return discard(status);
}

}  // namespace detail

WARPWRIGHT_END
