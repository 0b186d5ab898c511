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
  [[nodiscard]] constexpr staging_options slots_per_thread(unsigned count) const noexcept {
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
                   source_location where = source_location::current());

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
                      source_location where = source_location::current());

  /// Copies device memory to the host; returns when the destination is complete.
  /// @param stream       a stream of the staging object's device
  /// @param destination  host memory of at least `bytes`, of any kind and alignment
  /// @param source       device memory of at least `bytes`
  /// @param bytes        0 does nothing
  /// @throws as copy_to_device(); the destination is then undefined
  /// **Stream:** the source is read behind earlier work of `stream`; blocks until the copy is
  /// complete.
  void copy_to_host(stream_ref stream, void* destination, void const* source, std::size_t bytes,
                    source_location where = source_location::current());

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

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/pinned/staging_definitions.hpp>
#endif
