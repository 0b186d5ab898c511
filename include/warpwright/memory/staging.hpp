// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/pinned/staging_workers.hpp>
#include <warpwright/memory/pinned.hpp>

#include <cstddef>
#include <cstring>

WARPWRIGHT_BEGIN

/// Options of a staging object. Every setter returns a changed copy.
class staging_options {
 public:
  /// The number of threads that copy, the caller's included.
  /// @param count  1 to 256; 0, the default: one for each processor that this thread may run on, at
  ///   most 8
  [[nodiscard]] constexpr staging_options threads(unsigned count) const noexcept {
    staging_options copy = *this;
    copy.threads_ = count;
    return copy;
  }
  /// The size of a page-locked slot, which is also the maximum size of a chunk.
  /// @param bytes  at least 4096; default: 4 MiB
  [[nodiscard]] constexpr staging_options slot_bytes(std::size_t bytes) const noexcept {
    staging_options copy = *this;
    copy.slot_bytes_ = bytes;
    return copy;
  }
  /// The number of slots of each thread.
  /// @param count  1 to 64; default: 2, one is filled while the other is in flight
  [[nodiscard]] constexpr staging_options slots(unsigned count) const noexcept {
    staging_options copy = *this;
    copy.slots_ = count;
    return copy;
  }
  /// The maximum size of copies that run on the calling thread alone.
  /// @param bytes  default: 256 KiB
  [[nodiscard]] constexpr staging_options direct_bytes(std::size_t bytes) const noexcept {
    staging_options copy = *this;
    copy.direct_bytes_ = bytes;
    return copy;
  }

 private:
  friend class staging;
  unsigned threads_ = 0;
  std::size_t slot_bytes_ = std::size_t{4} << 20U;
  unsigned slots_ = 2;
  std::size_t direct_bytes_ = std::size_t{256} << 10U;
};

/// Copies large arrays of pageable host memory to and from a device near the link's bandwidth:
/// several threads copy chunks through page-locked slots while other chunks are in flight. Up to
/// about 16 MiB a plain cudaMemcpy may be as fast or faster.
///
/// For host memory that is page-locked already call cudaMemcpyAsync.
///
/// @pre The pinned_pool outlives the staging object, which belongs to the device that was current
///   at its construction.
/// **Threads:** any number may call at once; copies above direct_bytes are serialised. The worker
/// threads belong to the object, block all signals, and end with it.
/// **Capture:** copying on a capturing stream throws std::invalid_argument, because chunks are
/// copied immediately and cannot be replayed. Captures on other streams are not disturbed.
class staging {
 public:
  /// Allocates the slots and starts the threads.
  /// @param pool     provides the slots (threads * slots * slot_bytes) and memory for small copies
  /// @param options  threads and slots
  /// @throws std::invalid_argument      for options out of range
  /// @throws out_of_memory, cuda_error  when the slots or events cannot be created
  /// @throws std::runtime_error         when the system cannot start the threads
  /// **Cost:** page-locks the slots (64 MiB with 8 threads) unless the pool has free memory, and
  /// starts the threads: construct it at start-up.
  explicit staging(pinned_pool& pool, staging_options const& options = {},
                   source_location where = source_location::current())
      : pool_{&pool},
        options_{options},
        device_{current_device(where)},
        own_stream_{device_, 0, where} {
    start(where);
  }

  /// Waits for the slots' copies and ends the threads. A slot whose copy cannot be waited for stays
  /// live in the pinned_pool. Never throws.
  /// @pre no call to this object is in progress
  /// **Capture:** legal; captures on other streams are not disturbed.
  ~staging() { stop(); }
  staging(staging const&) = delete;
  staging& operator=(staging const&) = delete;

  /// Copies host memory to the device; returns when the source has been read completely, so that it
  /// may be changed or freed.
  /// @param stream       a stream of the staging object's device
  /// @param destination  device memory of at least `bytes`
  /// @param source       host memory of at least `bytes`, of any kind and alignment
  /// @param bytes        0 does nothing
  /// @throws std::invalid_argument  for a null pointer, a capturing stream, or a stream of another
  ///   device
  /// @throws out_of_memory          when the pool has no page-locked memory for a small copy
  /// @throws cuda_error             when a call fails in any thread; the destination is then
  ///   undefined for later work of the stream, and the object remains usable
  /// **Stream:** the destination is written behind earlier work of `stream` and before later work;
  /// the call may wait for a slot, and so for the stream.
  void copy_to_device(stream_ref stream, void* destination, void const* source, std::size_t bytes,
                      source_location where = source_location::current()) {
    if (bytes == 0) return;
    check_call(stream, destination, source, "copy_to_device", where);
    scoped_device const scope{device_, where};
    detail::relaxed_capture_mode const relaxed{where};
    if (bytes > options_.direct_bytes_) {
      copy_in_chunks(true, stream, destination, source, bytes, where);
      return;
    }
    pinned_buffer<unsigned char> slot{*pool_, bytes, where};
    std::memcpy(slot.data(), source, bytes);
    check(cudaMemcpyAsync(destination, slot.data(), bytes, cudaMemcpyHostToDevice, stream.get()),
          "cudaMemcpyAsync", where);
    slot.set_stream(stream);
  }

  /// Copies device memory to the host; returns when the destination is complete.
  /// @param stream       a stream of the staging object's device
  /// @param destination  host memory of at least `bytes`, of any kind and alignment
  /// @param source       device memory of at least `bytes`
  /// @param bytes        0 does nothing
  /// @throws as copy_to_device(); the destination is then undefined
  /// **Stream:** the source is read behind earlier work of `stream`; blocks until the copy is
  /// complete.
  void copy_to_host(stream_ref stream, void* destination, void const* source, std::size_t bytes,
                    source_location where = source_location::current()) {
    if (bytes == 0) return;
    check_call(stream, destination, source, "copy_to_host", where);
    scoped_device const scope{device_, where};
    detail::relaxed_capture_mode const relaxed{where};
    if (bytes > options_.direct_bytes_) {
      copy_in_chunks(false, stream, destination, source, bytes, where);
      return;
    }
    pinned_buffer<unsigned char> slot{*pool_, bytes, where};
    check(cudaMemcpyAsync(slot.data(), source, bytes, cudaMemcpyDeviceToHost, stream.get()),
          "cudaMemcpyAsync", where);
    slot.set_stream(stream);
    stream.synchronize(where);
    slot.clear_stream();
    std::memcpy(destination, slot.data(), bytes);
  }

  /// @return the number of threads that copy, the caller's included
  [[nodiscard]] unsigned threads() const noexcept {
    return static_cast<unsigned>(workers_.rings().size());
  }
  /// @return the device of the streams that may be used
  [[nodiscard]] device_id device() const noexcept { return device_; }

 private:
  void start(source_location where);
  void stop() noexcept;
  void check_call(stream_ref stream, void const* destination, void const* source, char const* name,
                  source_location where) const;
  void copy_in_chunks(bool to_device, stream_ref stream, void* destination, void const* source,
                      std::size_t bytes, source_location where);

  pinned_pool* pool_;
  staging_options options_;
  device_id device_;
  // Used in place of cudaStreamPerThread, which is another stream in each worker.
  stream own_stream_;
  detail::mutex large_copy_mutex_;  // serialises large copies
  detail::staging_workers workers_;
};

inline void staging::start(source_location where) {
  unsigned const threads =
      options_.threads_ != 0 ? options_.threads_ : detail::staging_workers::default_threads();
  if (threads > 256 || options_.slots_ == 0 || options_.slots_ > 64 ||
      options_.slot_bytes_ < 4096) {
    detail::throw_invalid_argument(
        detail::text{"staging: "} + threads + " threads with " + options_.slots_ + " slots of " +
            options_.slot_bytes_ +
            " bytes; give 1 to 256 threads, 1 to 64 slots, and at least 4096 bytes",
        where);
  }
  try {
    workers_.rings().resize(threads);
    for (detail::slot_ring& ring : workers_.rings()) {
      ring.slots.resize(options_.slots_);
      for (detail::staging_slot& slot : ring.slots) {
        check(cudaEventCreateWithFlags(&slot.event, cudaEventDisableTiming),
              "cudaEventCreateWithFlags", where);
        slot.memory = static_cast<char*>(pool_->allocate(options_.slot_bytes_, 256, where));
      }
    }
    workers_.start(device_.value(), where);
  } catch (...) {
    stop();
    throw;
  }
}

inline void staging::stop() noexcept {
  workers_.stop();
  detail::relaxed_capture_mode const relaxed;
  for (detail::slot_ring& ring : workers_.rings()) {
    for (detail::staging_slot& slot : ring.slots) {
      bool done = !slot.in_flight;
      for (int attempt = 0; attempt < 2 && !done; ++attempt) {
        cudaError_t const result = cudaEventSynchronize(slot.event);
        detail::discard(result);
        done = result == cudaSuccess;
      }
      if (slot.event != nullptr) detail::discard(cudaEventDestroy(slot.event));
      if (!done) continue;  // a copy may still use it: leak it rather than reuse it too early
      try {
        pool_->deallocate(slot.memory, options_.slot_bytes_);
      } catch (...) {  // a destructor cannot throw; the pool counts the block as live
      }
    }
  }
  workers_.rings().clear();
}

inline void staging::check_call(stream_ref stream, void const* destination, void const* source,
                                char const* name, source_location where) const {
  if (destination == nullptr || source == nullptr) {
    detail::throw_invalid_argument(detail::text{"staging: "} + name + " with a null " +
                                       (destination == nullptr ? "destination" : "source") +
                                       " and bytes to copy",
                                   where);
  }
  // First: querying the device of a capturing stream would invalidate the capture.
  if (detail::is_capturing(stream, where)) {
    detail::throw_invalid_argument(detail::text{"staging: "} + name +
                                       " on a capturing stream: chunks are copied at once and "
                                       "cannot be replayed; copy before the capture, or capture a "
                                       "cudaMemcpyAsync from page-locked memory",
                                   where);
  }
#if CUDART_VERSION >= 12080
  int device = -1;
  check(cudaStreamGetDevice(stream.get(), &device), "cudaStreamGetDevice", where);
  // A default stream's handle means the current device, which the caller sets to device_ next.
  bool const is_default = stream.get() == cudaStreamLegacy || stream.get() == cudaStreamPerThread;
  if (device != device_.value() && !is_default) {
    detail::throw_invalid_argument(detail::text{"staging: "} + name + " on a stream of device " +
                                       device + ", made for device " + device_.value() +
                                       "; make one staging object a device",
                                   where);
  }
#endif
}

inline void staging::copy_in_chunks(bool to_device, stream_ref stream, void* destination,
                                    void const* source, std::size_t bytes, source_location where) {
  detail::unique_lock<detail::mutex> const lock{large_copy_mutex_};
  bool const use_own_stream = stream.get() == cudaStreamPerThread;
  if (use_own_stream) own_stream_.wait(stream, where);
  detail::staging_job job;
  job.to_device = to_device;
  job.destination = static_cast<char*>(destination);
  job.source = static_cast<char const*>(source);
  job.bytes = bytes;
  job.stream = use_own_stream ? own_stream_.get() : stream.get();
  // Two chunks a thread keep all threads busy, 64 KiB keep the cost of the calls small.
  constexpr std::size_t least = std::size_t{64} << 10U;
  std::size_t const share = bytes / (2 * workers_.rings().size());
  job.chunk_bytes = (share / least + 1) * least;
  if (job.chunk_bytes > options_.slot_bytes_) job.chunk_bytes = options_.slot_bytes_;
  detail::staging_failure const failure = workers_.run(job);
  if (use_own_stream) {
    try {
      stream.wait(own_stream_.ref(), where);
    } catch (...) {  // nothing orders the chunks before the caller's next work
      detail::discard(cudaStreamSynchronize(own_stream_.get()));
      throw;
    }
  }
  check(failure.code, failure.api, where);
}

WARPWRIGHT_END
