// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/staging_workers.hpp>
#include <warpwright/memory/pinned.hpp>

#include <cstddef>
#include <cstring>

WARPWRIGHT_BEGIN

/// How a staging object is set up; chain the calls.
class staging_options {
 public:
  /// Threads that copy, the caller's included. @param count  1 to 256; 0, the default: one for each
  /// processor this thread may run on, at most 8
  staging_options& threads(unsigned count) noexcept {
    threads_ = count;
    return *this;
  }
  /// Size of a page-locked slot, the largest piece copied at a time. @param bytes  at least 4096;
  /// default: 4 MiB
  staging_options& slot_bytes(std::size_t bytes) noexcept {
    slot_bytes_ = bytes;
    return *this;
  }
  /// Slots of each thread. @param count  1 to 64; default: 2, one is filled while one is in flight
  staging_options& slots(unsigned count) noexcept {
    slots_ = count;
    return *this;
  }
  /// Copies up to this size run on the calling thread alone. @param bytes  default: 256 KiB
  staging_options& direct_bytes(std::size_t bytes) noexcept {
    direct_bytes_ = bytes;
    return *this;
  }

 private:
  friend class staging;
  unsigned threads_ = 0;
  std::size_t slot_bytes_ = std::size_t{4} << 20U;
  unsigned slots_ = 2;
  std::size_t direct_bytes_ = std::size_t{256} << 10U;
};

/// Copies large pieces of pageable host memory to and from a device, near the link's speed rather
/// than one thread's: several threads move pieces through page-locked slots while others are in
/// flight. Up to some 16 MiB a plain cudaMemcpy may be as fast or faster.
///
/// For host memory that is page-locked already, call cudaMemcpyAsync: it needs no help.
///
/// @pre The pinned_pool outlives the staging object, which belongs to the device that was current
///   when it was made.
/// **Threads:** any number may call at once; copies above direct_bytes then take turns. The worker
/// threads belong to the object, take no signals, and end with it.
/// **Capture:** copying on a capturing stream throws std::invalid_argument: the pieces are copied
/// now and cannot be replayed. A capture on another stream does no harm and takes none.
class staging {
 public:
  /// @param pool     where the slots come from: threads * slots * slot_bytes, and small copies
  /// @param options  threads and slots
  /// @throws std::invalid_argument              for options outside of their ranges
  /// @throws out_of_memory, cuda_error          when the slots or events cannot be had
  /// @throws std::runtime_error                 when the system starts no more threads
  /// **Cost:** page-locks the slots (64 MiB with 8 threads) unless the pool has them,
  /// and starts the threads: make it at start-up.
  explicit staging(pinned_pool& pool, staging_options const& options = {},
                   source_location where = source_location::current())
      : pool_{&pool},
        options_{options},
        device_{current_device(where)},
        own_stream_{device_, 0, where} {
    start(where);
  }

  /// Waits for the slots' copies and ends the threads. A slot whose copy cannot be waited for stays
  /// live in the pinned_pool. @pre no call to this object is under way. Never throws.
  /// **Capture:** legal; captures of other streams do no harm.
  ~staging() { stop(); }
  staging(staging const&) = delete;
  staging& operator=(staging const&) = delete;

  /// Copies host memory to the device.
  /// @param stream       a stream of the staging object's device
  /// @param destination  device memory of at least `bytes`
  /// @param source       host memory of at least `bytes`, of any kind and alignment
  /// @param bytes        0 does nothing
  /// Returns when the source has been read completely: it may be changed or freed at once.
  /// @throws std::invalid_argument  for a null pointer, a capturing stream, or one of another
  /// device
  /// @throws out_of_memory          when the pool has no page-locked memory for a small copy
  /// @throws cuda_error             when a call fails in any thread; the destination is then
  /// undefined
  ///   from the stream's next work on, and the object can be used again
  /// **Stream:** the destination is written behind earlier work of `stream` and before later; the
  /// call may wait for a slot, and so for the stream.
  void copy_to_device(stream_ref stream, void* destination, void const* source, std::size_t bytes,
                      source_location where = source_location::current()) {
    if (bytes == 0) return;
    check_call(stream, destination, source, "copy_to_device", where);
    scoped_device const scope{device_, where};
    detail::relaxed_capture_mode const relaxed{where};
    if (bytes > options_.direct_bytes_) {
      copy_in_pieces(true, stream, destination, source, bytes, where);
      return;
    }
    pinned_buffer<unsigned char> slot{*pool_, bytes, where};
    std::memcpy(slot.data(), source, bytes);
    check(cudaMemcpyAsync(destination, slot.data(), bytes, cudaMemcpyHostToDevice, stream.get()),
          "cudaMemcpyAsync", where);
    slot.set_stream(stream);
  }

  /// Copies device memory to the host.
  /// @param stream       a stream of the staging object's device
  /// @param destination  host memory of at least `bytes`, of any kind and alignment
  /// @param source       device memory of at least `bytes`
  /// @param bytes        0 does nothing
  /// Returns when the destination is complete.
  /// @throws as copy_to_device(); the destination is then undefined
  /// **Stream:** the source is read behind earlier work of `stream`; blocks until that is done.
  void copy_to_host(stream_ref stream, void* destination, void const* source, std::size_t bytes,
                    source_location where = source_location::current()) {
    if (bytes == 0) return;
    check_call(stream, destination, source, "copy_to_host", where);
    scoped_device const scope{device_, where};
    detail::relaxed_capture_mode const relaxed{where};
    if (bytes > options_.direct_bytes_) {
      copy_in_pieces(false, stream, destination, source, bytes, where);
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
    return static_cast<unsigned>(workers_.lanes().size());
  }
  /// @return the device whose streams may be used
  [[nodiscard]] device_id device() const noexcept { return device_; }

 private:
  void start(source_location where);
  void stop() noexcept;
  void check_call(stream_ref stream, void const* destination, void const* source, char const* name,
                  source_location where) const;
  void copy_in_pieces(bool to_device, stream_ref stream, void* destination, void const* source,
                      std::size_t bytes, source_location where);

  pinned_pool* pool_;
  staging_options options_;
  device_id device_;
  // Stands in for cudaStreamPerThread, which means another stream in each worker.
  stream own_stream_;
  detail::blocking_mutex turn_;  // one large copy at a time
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
    workers_.lanes().resize(threads);
    for (detail::staging_lane& lane : workers_.lanes()) {
      lane.slots.resize(options_.slots_);
      for (detail::staging_slot& slot : lane.slots) {
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
  for (detail::staging_lane& lane : workers_.lanes()) {
    for (detail::staging_slot& slot : lane.slots) {
      bool done = !slot.in_flight;
      for (int attempt = 0; attempt < 2 && !done; ++attempt) {
        cudaError_t const answer = cudaEventSynchronize(slot.event);
        detail::discard(answer);
        done = answer == cudaSuccess;
      }
      if (slot.event != nullptr) detail::discard(cudaEventDestroy(slot.event));
      if (!done) continue;  // a copy may still use it: better lost than handed out
      try {
        pool_->deallocate(slot.memory, options_.slot_bytes_);
      } catch (...) {  // a destructor cannot report; the pool counts the block as live
      }
    }
  }
  workers_.lanes().clear();
}

inline void staging::check_call(stream_ref stream, void const* destination, void const* source,
                                char const* name, source_location where) const {
  if (destination == nullptr || source == nullptr) {
    detail::throw_invalid_argument(detail::text{"staging: "} + name + " with a null " +
                                       (destination == nullptr ? "destination" : "source") +
                                       " and bytes to copy",
                                   where);
  }
  // First: asking a capturing stream for its device would break the capture.
  if (detail::is_capturing(stream, where)) {
    detail::throw_invalid_argument(detail::text{"staging: "} + name +
                                       " on a capturing stream: pieces are copied at once and "
                                       "cannot be replayed; copy before the capture, or capture a "
                                       "cudaMemcpyAsync from page-locked memory",
                                   where);
  }
#if CUDART_VERSION >= 12080
  int device = -1;
  check(cudaStreamGetDevice(stream.get(), &device), "cudaStreamGetDevice", where);
  // A default stream's handle means the current device, which is about to be ours.
  bool const is_default = stream.get() == cudaStreamLegacy || stream.get() == cudaStreamPerThread;
  if (device != device_.value() && !is_default) {
    detail::throw_invalid_argument(detail::text{"staging: "} + name + " on a stream of device " +
                                       device + ", made for device " + device_.value() +
                                       "; make one staging object a device",
                                   where);
  }
#endif
}

inline void staging::copy_in_pieces(bool to_device, stream_ref stream, void* destination,
                                    void const* source, std::size_t bytes, source_location where) {
  detail::held<detail::blocking_mutex> const turn{turn_};
  bool const stand_in = stream.get() == cudaStreamPerThread;
  if (stand_in) own_stream_.wait(stream, where);
  detail::staging_job job;
  job.to_device = to_device;
  job.destination = static_cast<char*>(destination);
  job.source = static_cast<char const*>(source);
  job.bytes = bytes;
  job.stream = stand_in ? own_stream_.get() : stream.get();
  // Two pieces a thread keep all threads busy, 64 KiB keep the calls' cost small.
  constexpr std::size_t least = std::size_t{64} << 10U;
  std::size_t const share = bytes / (2 * workers_.lanes().size());
  job.piece_bytes = (share / least + 1) * least;
  if (job.piece_bytes > options_.slot_bytes_) job.piece_bytes = options_.slot_bytes_;
  detail::staging_failure const failure = workers_.run(job);
  if (stand_in) {
    try {
      stream.wait(own_stream_.ref(), where);
    } catch (...) {  // nothing orders the pieces before the caller's next work
      detail::discard(cudaStreamSynchronize(own_stream_.get()));
      throw;
    }
  }
  check(failure.code, failure.api, where);
}

WARPWRIGHT_END
