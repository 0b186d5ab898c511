// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/error.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// cudaErrorNotReady is not a failure, and CUDA does not keep it as the thread's last error.
inline bool not_ready_is_false(cudaError_t status, char const* api, source_location where) {
  if (status == cudaErrorNotReady) return false;
  check(status, api, where);
  return true;
}

class event_handle {
 public:
  event_handle(unsigned flags, source_location where) : flags_{flags} {
    check(cudaEventCreateWithFlags(&handle_, flags), "cudaEventCreateWithFlags", where);
  }
  event_handle(event_handle&& other) noexcept
      : handle_{detail::exchange(other.handle_, nullptr)}, flags_{other.flags_} {}
  /// Destroys the current event; the other object becomes empty.
  event_handle& operator=(event_handle&& other) noexcept {
    event_handle moved{static_cast<event_handle&&>(other)};
    detail::swap(handle_, moved.handle_);
    return *this;
  }
  ~event_handle() {
    if (handle_ != nullptr) discard(cudaEventDestroy(handle_));
  }

  /// @return the CUDA handle; null after a move
  [[nodiscard]] cudaEvent_t get() const noexcept { return handle_; }

  /// Records the event: it completes when all work enqueued on the stream so far has completed. An
  /// earlier record is replaced.
  ///
  /// CUDA ties an event to the device that is current when it is created: before a record on a
  /// stream of another device it is created anew there, and get() then returns another handle.
  /// @param stream  a stream (or stream_ref) of any device
  /// @throws cuda_error  if the call fails
  /// **Stream:** ordered after all work so far; does not block. **Capture:** legal; the event then
  /// belongs to the capture, and only wait() may use it.
  void record(cudaStream_t stream, source_location where = source_location::current(),
              cudaStream_t default_stream = WARPWRIGHT_DEFAULT_STREAM) {
    cudaStream_t const on = stream == nullptr ? default_stream : stream;
    cudaError_t status = cudaEventRecord(handle_, on);
    if (status == cudaErrorInvalidResourceHandle && record_on_other_device(on)) {
      status = cudaSuccess;
    }
    check(status, "cudaEventRecord", where);
  }
  void record(int, source_location = source_location::current()) = delete;  // 0 is not a stream
  void record(std::nullptr_t, source_location = source_location::current()) = delete;
  /// Returns whether the recorded work has completed; true for an event that was never recorded.
  /// @throws cuda_error  also for an error of the recorded work
  /// **Stream:** does not block. **Capture:** not legal for an event recorded in a capture.
  [[nodiscard]] bool done(source_location where = source_location::current()) const {
    return not_ready_is_false(cudaEventQuery(handle_), "cudaEventQuery", where);
  }
  /// Waits on the host until the recorded work has completed.
  /// @throws cuda_error  also for an error of the recorded work
  /// **Stream:** blocks the calling thread. **Capture:** not legal for an event recorded in one.
  void synchronize(source_location where = source_location::current()) const {
    check(cudaEventSynchronize(handle_), "cudaEventSynchronize", where);
  }

 private:
  bool record_on_other_device(cudaStream_t stream) noexcept;

  cudaEvent_t handle_ = nullptr;
  unsigned flags_;
};

}  // namespace detail

/// An event without a time stamp, for ordering streams; cheaper to record than a timed_event.
/// **Threads:** call record() from one thread at a time.
class event : public detail::event_handle {
 public:
  /// @throws cuda_error  when CUDA cannot create it
  /// **Cost:** one CUDA call, and one at destruction.
  event(source_location where = source_location::current())
      : event_handle{cudaEventDisableTiming, where} {}
};

/// An event with a time stamp of the device.
/// **Threads:** call record() from one thread at a time.
class timed_event : public detail::event_handle {
 public:
  /// @throws cuda_error  when CUDA cannot create it
  timed_event(source_location where = source_location::current())
      : event_handle{cudaEventDefault, where} {}

  /// Returns the time between two events, with a resolution of about half a microsecond.
  /// @pre both have been recorded and have completed (synchronize())
  /// @return milliseconds from `start` to this event
  /// @throws cuda_error  cudaErrorNotReady if one has not completed
  /// **Stream:** does not block. **Capture:** not legal for events recorded in a capture.
  [[nodiscard]] float milliseconds_since(timed_event const& start,
                                         source_location where = source_location::current()) const {
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, start.get(), get()), "cudaEventElapsedTime", where);
    return milliseconds;
  }
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/device/event_definitions.hpp>
#endif
