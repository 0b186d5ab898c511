// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/device_id.hpp>
#include <warpwright/core/event.hpp>

#include <cstdint>
#include <type_traits>

WARPWRIGHT_BEGIN

class stream;

/// A non-owning reference to a stream, with its id where that is known; cheap to copy.
///
/// A null handle stands for the default stream of the calling translation unit: the legacy default
/// stream, or the per-thread one if compiled so. get() never returns null.
/// **Threads:** any number of threads may use it at once.
class stream_ref {
 public:
  /// @param handle  any stream; it must outlive this reference
  stream_ref(cudaStream_t handle, cudaStream_t default_stream = WARPWRIGHT_DEFAULT_STREAM) noexcept
      : handle_{handle == nullptr ? default_stream : handle} {}
  /// @param owner  must outlive this reference, which stores its id
  stream_ref(stream const& owner) noexcept;
  stream_ref(int, cudaStream_t = nullptr) = delete;  // 0 is not a stream
  stream_ref(std::nullptr_t,
             cudaStream_t = nullptr) = delete;  // use legacy_default() or per_thread()

  /// The legacy default stream, which synchronises with all blocking streams of the device.
  static stream_ref legacy_default() noexcept { return stream_ref{cudaStreamLegacy}; }
  /// The calling thread's default stream.
  static stream_ref per_thread() noexcept { return stream_ref{cudaStreamPerThread}; }

  /// @return the CUDA handle, never null
  [[nodiscard]] cudaStream_t get() const noexcept { return handle_; }
  /// The handle, so that a stream_ref can be passed to CUDA calls and other libraries.
  operator cudaStream_t() const noexcept { return handle_; }

  /// Returns the stream's id, which unlike a handle CUDA does not reuse for another stream.
  /// @return the id; for cudaStreamPerThread that of the calling thread
  /// @throws cuda_error  for a destroyed stream
  /// **Capture:** legal if the reference has its id (has_id()); otherwise the query invalidates the
  /// capture. **Cost:** none if the reference has its id (from a warpwright stream or lease, or
  /// from resolved()); else one cudaStreamGetId.
  [[nodiscard]] std::uint64_t id(source_location where = source_location::current()) const {
    return id_ != unknown_id ? id_ : query_id(where);
  }
  /// @return whether the reference has its id, so that id() makes no CUDA call
  [[nodiscard]] bool has_id() const noexcept { return id_ != unknown_id; }
  /// Returns a copy of this reference that has its id: use it where a pool is called often.
  /// A reference to the per-thread default stream is returned unchanged: its id depends on the
  /// thread.
  /// @throws cuda_error  for a destroyed stream
  /// **Capture:** legal if the reference has its id; otherwise the query invalidates the capture.
  [[nodiscard]] stream_ref resolved(source_location where = source_location::current()) const;

  /// Waits until all work enqueued on the stream so far has completed.
  /// @throws cuda_error  also for an error of earlier work
  /// **Stream:** blocks the calling thread. **Capture:** not legal.
  void synchronize(source_location where = source_location::current()) const;
  /// Returns whether all work enqueued on the stream so far has completed.
  /// @return false while work is queued or running
  /// @throws cuda_error  also for an error of earlier work
  /// **Stream:** does not block. **Capture:** not legal.
  [[nodiscard]] bool done(source_location where = source_location::current()) const;
  /// Makes later work on this stream wait for the last record of an event.
  /// @throws cuda_error  if the call fails
  /// **Stream:** does not block the host. **Capture:** legal; it forks and joins streams of a
  /// capture.
  void wait(event const& recorded, source_location where = source_location::current()) const;
  /// Makes later work on this stream wait for all work enqueued on `other` so far.
  /// @param other  of any device
  /// @throws cuda_error  if a call fails
  /// **Stream:** does not block the host. **Capture:** legal. **Cost:** creates an event; in a hot
  /// loop record and wait for an `event` that you keep.
  void wait(stream_ref other, source_location where = source_location::current()) const;
  /// Returns whether the stream is capturing into a graph.
  /// @throws cuda_error  if an illegal call has invalidated the capture
  /// **Capture:** legal. **Cost:** one CUDA call.
  [[nodiscard]] bool is_capturing(source_location where = source_location::current()) const;

  friend bool operator==(stream_ref a, stream_ref b) noexcept { return a.handle_ == b.handle_; }
  friend bool operator!=(stream_ref a, stream_ref b) noexcept { return !(a == b); }

 private:
  friend class stream;
  static constexpr std::uint64_t unknown_id = ~std::uint64_t{0};

  [[nodiscard]] std::uint64_t query_id(source_location where) const;

  cudaStream_t handle_;
  std::uint64_t id_ = unknown_id;
};

/// The range of stream priorities of the current device.
struct stream_priority_range {
  int least = 0;     ///< the lowest priority, numerically 0 or above
  int greatest = 0;  ///< the highest priority, numerically 0 or below
};

/// Queries the range of stream priorities of a device.
/// @throws cuda_error  when the query fails
/// **Capture:** legal.
stream_priority_range get_stream_priority_range(device_id device = current_device(),
                                                source_location where = source_location::current());

/// An owning, non-blocking stream: it does not synchronise with the legacy default stream.
///
/// The destructor does not wait: work already enqueued still runs, so the memory that it uses must
/// stay allocated until it has completed.
class stream {
 public:
  /// @param device    the device on which the stream's work runs
  /// @param priority  within get_stream_priority_range(device); lower numbers have precedence
  /// @throws std::invalid_argument  for a priority outside of the range (CUDA clamps it silently)
  /// @throws cuda_error             when CUDA cannot create it
  /// **Capture:** legal in a capture of thread-local mode. **Cost:** microseconds, for creation and
  /// destruction; in a hot loop lease streams from a stream_pool.
  explicit stream(device_id device, int priority = 0,
                  source_location where = source_location::current());
  /// As above, on the current device.
  stream(source_location where = source_location::current())
      : stream{current_device(where), 0, where} {}
  stream(std::nullptr_t) = delete;
  /// The other object becomes empty: only destruction and assignment are legal on it.
  stream(stream&& other) noexcept;
  /// Destroys the current stream, whose enqueued work still runs; the other object becomes empty.
  stream& operator=(stream&& other) noexcept {
    stream moved{static_cast<stream&&>(other)};
    detail::swap(ref_, moved.ref_);
    return *this;
  }
  ~stream();

  /// The CUDA handle, so that a stream can be passed to CUDA calls and other libraries.
  operator cudaStream_t() const noexcept { return ref_.get(); }
  /// @return a reference that has the stream's id
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

namespace detail {

/// A stream argument with the caller's location: for functions that end with a parameter pack,
/// after which a defaulted source_location cannot stand.
struct stream_argument {
  template <class Stream,
            class = std::enable_if_t<std::is_convertible<Stream const&, stream_ref>::value>>
  stream_argument(Stream const& any, source_location here = source_location::current())
      : stream{any}, where{here} {}

  stream_ref stream;
  source_location where;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/device/stream_definitions.hpp>
#endif
