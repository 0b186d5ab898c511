// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/device_id.hpp>
#include <warpwright/core/event.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

class stream;

/// A stream that somebody else owns; two words, copied freely.
///
/// A null handle means what it means to CUDA in the calling translation unit (the legacy default
/// stream, or the thread's own under per-thread default streams); get() never answers null.
/// **Threads:** as const as the handle: any number may use it at once.
class stream_ref {
 public:
  /// @param handle  a stream of any origin, alive while this reference is used
  stream_ref(cudaStream_t handle, cudaStream_t null_means = WARPWRIGHT_DEFAULT_STREAM) noexcept
      : handle_{handle == nullptr ? null_means : handle} {}
  /// @param owner  alive while this reference is used; its id is carried along
  stream_ref(stream const& owner) noexcept;
  stream_ref(int, cudaStream_t = nullptr) = delete;  // 0 is no stream
  stream_ref(std::nullptr_t,
             cudaStream_t = nullptr) = delete;  // say legacy_default() or per_thread()

  /// The legacy default stream: synchronises with every blocking stream of the device.
  static stream_ref legacy_default() noexcept { return stream_ref{cudaStreamLegacy}; }
  /// The calling thread's own default stream.
  static stream_ref per_thread() noexcept { return stream_ref{cudaStreamPerThread}; }

  /// @return the CUDA handle, never null
  [[nodiscard]] cudaStream_t get() const noexcept { return handle_; }
  /// The handle again, so that a stream_ref can be passed to CUDA calls and other libraries.
  operator cudaStream_t() const noexcept { return handle_; }

  /// The id CUDA gave the stream: unlike a handle, never used again for another stream.
  /// @return the id; cudaStreamPerThread's is the calling thread's
  /// @throws cuda_error  for a stream that is gone
  /// **Capture:** legal where the reference carries its id; else the query breaks the capture.
  /// **Cost:** none for a reference from a warpwright stream or lease, or from resolved(); else one
  /// cudaStreamGetId.
  [[nodiscard]] std::uint64_t id(source_location where = source_location::current()) const {
    return id_ != unknown_id ? id_ : query_id(where);
  }
  /// @return whether id() knows the answer without asking CUDA
  [[nodiscard]] bool knows_id() const noexcept { return id_ != unknown_id; }
  /// The same reference, carrying its id: keep it where a pool is called often.
  /// The per-thread default stream is left as it is: its id differs from thread to thread.
  /// @throws cuda_error  for a stream that is gone
  /// **Capture:** as id().
  [[nodiscard]] stream_ref resolved(source_location where = source_location::current()) const {
    stream_ref copy{*this};
    if (handle_ != cudaStreamPerThread) copy.id_ = id(where);
    return copy;
  }

  /// Waits until all work given to the stream so far has finished.
  /// @throws cuda_error  also for an error of that earlier work
  /// **Stream:** blocks the calling thread. **Capture:** not legal.
  void synchronize(source_location where = source_location::current()) const {
    check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize", where);
  }
  /// Whether all work given to the stream so far has finished.
  /// @return false while some is queued or running
  /// @throws cuda_error  for anything but "not yet"
  /// **Stream:** does not block. **Capture:** not legal.
  [[nodiscard]] bool done(source_location where = source_location::current()) const {
    return detail::not_ready_is_false(cudaStreamQuery(handle_), "cudaStreamQuery", where);
  }
  /// Makes later work on this stream wait for what `event` recorded last.
  /// @throws cuda_error  when CUDA refuses
  /// **Stream:** does not block the host. **Capture:** legal; how captures fork and join.
  void wait(event const& recorded, source_location where = source_location::current()) const {
    check(cudaStreamWaitEvent(handle_, recorded.get(), 0), "cudaStreamWaitEvent", where);
  }
  /// Makes later work on this stream wait for all work given to `other` so far.
  /// @pre `other` belongs to the current device
  /// @throws cuda_error  when CUDA refuses
  /// **Stream:** does not block the host. **Capture:** legal. **Cost:** creates an event; keep an
  /// `event` of your own in a hot loop.
  void wait(stream_ref other, source_location where = source_location::current()) const {
    event marker{where};
    marker.record(other.get(), where);
    wait(marker, where);
  }
  /// Whether the stream is capturing into a graph.
  /// @return false also after the capture has ended
  /// @throws cuda_error  for a capture that an illegal call has broken
  /// **Capture:** legal. **Cost:** one CUDA call.
  [[nodiscard]] bool is_capturing(source_location where = source_location::current()) const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(handle_, &status), "cudaStreamIsCapturing", where);
    return status != cudaStreamCaptureStatusNone;
  }

  friend bool operator==(stream_ref a, stream_ref b) noexcept { return a.handle_ == b.handle_; }
  friend bool operator!=(stream_ref a, stream_ref b) noexcept { return !(a == b); }

 private:
  friend class stream;
  static constexpr std::uint64_t unknown_id = ~std::uint64_t{0};

  [[nodiscard]] std::uint64_t query_id(source_location where) const {
    unsigned long long id = 0;
    check(cudaStreamGetId(handle_, &id), "cudaStreamGetId", where);
    return id;
  }

  cudaStream_t handle_;
  std::uint64_t id_ = unknown_id;
};

/// The range of stream priorities of the current device.
struct stream_priority_range {
  int least = 0;     ///< the lowest priority, a number of 0 or above
  int greatest = 0;  ///< the highest, a number of 0 or below
};

/// Reads the range of stream priorities.
/// @throws cuda_error  when the query fails
/// **Capture:** legal.
inline stream_priority_range get_stream_priority_range(
    device_id device = current_device(), source_location where = source_location::current()) {
  scoped_device const scope{device, where};
  stream_priority_range range;
  check(cudaDeviceGetStreamPriorityRange(&range.least, &range.greatest),
        "cudaDeviceGetStreamPriorityRange", where);
  return range;
}

/// A stream with an owner: created at construction, destroyed at the end.
///
/// It never synchronises with the legacy default stream. Destruction does not wait: work already
/// given to the stream still runs.
class stream {
 public:
  /// @param device    where the stream's work runs
  /// @param priority  within get_stream_priority_range(device); lower numbers go first
  /// @throws std::invalid_argument  for a priority outside of the range (CUDA would clamp silently)
  /// @throws cuda_error             when CUDA cannot create it
  /// **Capture:** legal in a capture of thread-local mode. **Cost:** microseconds, with the
  /// destruction; take streams from a stream_pool in a hot loop.
  explicit stream(device_id device = current_device(), int priority = 0,
                  source_location where = source_location::current()) {
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
  stream(std::nullptr_t) = delete;
  /// The other stream is left empty: only destruction and assignment are legal on it.
  stream(stream&& other) noexcept : ref_{detail::exchange(other.ref_, empty())} {}
  /// Destroys the stream held so far, whose work still runs; the other is left empty.
  stream& operator=(stream&& other) noexcept {
    stream moved{static_cast<stream&&>(other)};
    detail::swap(ref_, moved.ref_);
    return *this;
  }
  ~stream() {
    if (ref_.handle_ != cudaStreamLegacy) detail::discard(cudaStreamDestroy(ref_.handle_));
  }

  /// The CUDA handle, so that a stream can be passed to CUDA calls and other libraries.
  operator cudaStream_t() const noexcept { return ref_.get(); }
  /// @return a reference that carries the stream's id
  [[nodiscard]] stream_ref ref() const noexcept { return ref_; }
  /// @return the CUDA handle
  [[nodiscard]] cudaStream_t get() const noexcept { return ref_.handle_; }
  /// @return the stream's id
  [[nodiscard]] std::uint64_t id() const noexcept { return ref_.id_; }
  /// As stream_ref::synchronize.
  void synchronize(source_location where = source_location::current()) const {
    ref_.synchronize(where);
  }
  /// As stream_ref::done.
  [[nodiscard]] bool done(source_location where = source_location::current()) const {
    return ref_.done(where);
  }
  /// As stream_ref::is_capturing.
  [[nodiscard]] bool is_capturing(source_location where = source_location::current()) const {
    return ref_.is_capturing(where);
  }
  /// As stream_ref::wait.
  void wait(event const& recorded, source_location where = source_location::current()) const {
    ref_.wait(recorded, where);
  }
  /// As stream_ref::wait.
  void wait(stream_ref other, source_location where = source_location::current()) const {
    ref_.wait(other, where);
  }

 private:
  static stream_ref empty() noexcept { return stream_ref{cudaStreamLegacy}; }
  stream_ref ref_ = empty();
};

inline stream_ref::stream_ref(stream const& owner) noexcept : stream_ref{owner.ref()} {}

WARPWRIGHT_END
