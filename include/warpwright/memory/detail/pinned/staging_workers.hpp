// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The worker threads of a staging object.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <sched.h>

WARPWRIGHT_BEGIN

namespace detail {

/// The first call that failed in a job; cudaSuccess: none.
struct staging_failure {
  cudaError_t code = cudaSuccess;
  char const* api = "";
};

struct staging_job {
  bool to_device = true;
  char* destination = nullptr;
  char const* source = nullptr;
  std::size_t bytes = 0;
  std::size_t chunk_bytes = 0;
  cudaStream_t stream = nullptr;
};

struct staging_slot {
  char* memory = nullptr;
  cudaEvent_t event = nullptr;
  bool in_flight = false;       // a copy uses the memory until the event completes
  std::size_t offset = 0;       // copies to the host: position of the chunk in the destination
  std::size_t drain_bytes = 0;  // and the bytes to be copied there, 0: none
};

/// The slots of one thread, used in turn.
struct slot_ring {
  array<staging_slot> list;
  std::size_t next = 0;
};

/// Runs one job at a time on all slot rings: ring 0 on the calling thread, each other ring on a
/// thread of its own.
class staging_workers {
 public:
  staging_workers() noexcept = default;
  staging_workers(staging_workers const&) = delete;
  staging_workers& operator=(staging_workers const&) = delete;

  [[nodiscard]] array<slot_ring>& rings() noexcept { return rings_; }
  [[nodiscard]] array<slot_ring> const& rings() const noexcept { return rings_; }

  /// The number of processors that this thread may run on, at most 8.
  static unsigned default_threads() noexcept;

  /// Starts a thread for each ring but the first.
  /// @throws std::runtime_error  when the system refuses a thread; stop() ends the started ones
  void start(int device, source_location where);

  void stop() noexcept;

  /// Copies all chunks; returns when every thread has finished. @pre no other job is running
  staging_failure run(staging_job const& job) noexcept;

 private:
  struct worker {
    staging_workers* owner = nullptr;
    std::size_t ring = 0;
    detail::thread thread;

    void run() noexcept { owner->run_worker(ring); }
  };

  void run_worker(std::size_t ring) noexcept;

  void fail(cudaError_t code, char const* api) noexcept;

  /// Takes the next chunk.
  /// @return false when there is none, or the job has failed
  bool next_chunk(std::size_t& offset, std::size_t& bytes) noexcept;

  bool wait_for(staging_slot& slot) noexcept;

  bool copy(staging_slot& slot, void* to, void const* from, std::size_t bytes,
            cudaMemcpyKind kind) noexcept;

  /// Waits for a copy to the host and copies its chunk to the destination.
  bool drain(staging_slot& slot) noexcept;

  void copy_chunks(slot_ring& ring) noexcept;

  array<slot_ring> rings_;
  array<worker> workers_;  // resized once: a thread refers to its worker
  int device_ = 0;
  mutex mutex_;
  condition_variable changed_;
  condition_variable finished_;
  // Guarded by mutex_; job_ is only read while a job is running.
  staging_job job_;
  staging_failure failure_;
  std::size_t next_offset_ = 0;
  std::uint64_t generation_ = 0;
  std::size_t running_ = 0;
  bool stopping_ = false;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/pinned/staging_workers_definitions.hpp>
#endif
