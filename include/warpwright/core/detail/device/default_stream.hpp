// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/stream.hpp>

#include <sys/syscall.h>
#include <unistd.h>

WARPWRIGHT_BEGIN

namespace detail {

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
