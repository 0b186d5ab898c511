// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/core/stream.hpp>

#include <sys/syscall.h>
#include <unistd.h>

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

inline bool is_default_stream(stream_ref stream) noexcept {
  return stream.get() == cudaStreamLegacy || stream.get() == cudaStreamPerThread;
}

/// Not a pthread_t, which the next thread has when this one has ended.
inline long thread_number() noexcept { return syscall(SYS_gettid); }

/// Makes a device the current one during its lifetime, if the stream is a default stream, whose
/// handle means that of the current device.
class device_of_default {
 public:
  device_of_default(stream_ref stream, int device) noexcept
      : scope_{is_default_stream(stream) ? device : device_scope::current} {}

 private:
  device_scope scope_;
};

/// A stream with what its handle meant where it was named: a default stream is that of a device,
/// and the per-thread one of a thread.
class named_stream {
 public:
  named_stream() noexcept = default;
  /// **Cost:** a CUDA call for a default stream.
  explicit named_stream(stream_ref stream) noexcept : stream_{stream} {
    if (!is_default_stream(stream)) return;
    thread_ = thread_number();
    discard(cudaGetDevice(&device_));
  }

  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  /// @return the stream for the calling thread: of another thread's default stream the legacy one,
  ///   which waits for it
  [[nodiscard]] stream_ref here() const noexcept {
    bool const is_other = stream_.get() == cudaStreamPerThread && thread_ != thread_number();
    return is_other ? stream_ref::legacy_default() : stream_;
  }
  /// @return of a default stream its device
  [[nodiscard]] int device() const noexcept { return device_; }

  friend bool operator==(named_stream const& a, named_stream const& b) noexcept {
    return a.stream_ == b.stream_ && a.device_ == b.device_ &&
           (a.stream_.get() != cudaStreamPerThread || a.thread_ == b.thread_);
  }

 private:
  stream_ref stream_ = stream_ref::legacy_default();
  long thread_ = 0;
  int device_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
