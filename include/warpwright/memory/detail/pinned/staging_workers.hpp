// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The worker threads of a staging object.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/locks.hpp>
#include <warpwright/core/detail/thread.hpp>
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
  array<staging_slot> slots;
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
  static unsigned default_threads() noexcept {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 8;
    int const count = CPU_COUNT(&allowed);
    return count < 1 ? 1U : count > 8 ? 8U : static_cast<unsigned>(count);
  }

  /// Starts a thread for each ring but the first.
  /// @throws std::runtime_error  when the system refuses a thread; stop() ends the started ones
  void start(int device, source_location where) {
    device_ = device;
    workers_.resize(rings_.size() - 1);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      workers_[i].owner = this;
      workers_[i].ring = i + 1;
      int const error = workers_[i].thread.start<&worker::run>(workers_[i]);
      if (error == 0) continue;
      text const message = text{where.file(), where.line()} +
                           ": staging: pthread_create: " + std::strerror(error) + " after " + i +
                           " threads; give staging_options fewer threads";
      throw std::runtime_error{message.c_str()};
    }
  }

  void stop() noexcept {
    {
      unique_lock<mutex> const lock{mutex_};
      stopping_ = true;
      changed_.notify_all();
    }
    workers_.clear();  // joins
  }

  /// Copies all chunks; returns when every thread has finished. @pre no other job is running
  staging_failure run(staging_job const& job) noexcept {
    {
      unique_lock<mutex> const lock{mutex_};
      job_ = job;
      failure_ = staging_failure{};
      next_offset_ = 0;
      running_ = workers_.size();
      ++generation_;
      changed_.notify_all();
    }
    copy_chunks(rings_[0]);
    unique_lock<mutex> const lock{mutex_};
    while (running_ != 0) finished_.wait(mutex_);
    return failure_;
  }

 private:
  struct worker {
    staging_workers* owner = nullptr;
    std::size_t ring = 0;
    detail::thread thread;

    void run() noexcept { owner->run_worker(ring); }
  };

  void run_worker(std::size_t ring) noexcept {
    // The capture mode is this thread's alone: a capture of another thread must not forbid it to
    // wait for events.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    staging_failure setup{cudaSetDevice(device_), "cudaSetDevice"};
    if (setup.code == cudaSuccess) {
      setup = staging_failure{cudaThreadExchangeStreamCaptureMode(&mode),
                              "cudaThreadExchangeStreamCaptureMode"};
    }
    std::uint64_t seen = 0;
    unique_lock<mutex> lock{mutex_};
    for (;;) {
      while (!stopping_ && generation_ == seen) changed_.wait(mutex_);
      if (generation_ == seen) return;
      seen = generation_;
      lock.unlock();
      // A thread whose setup failed leaves the chunks to the others.
      if (setup.code == cudaSuccess) copy_chunks(rings_[ring]);
      lock.lock();
      if (--running_ == 0) finished_.notify_all();
    }
  }

  void fail(cudaError_t code, char const* api) noexcept {
    static_cast<void>(cudaGetLastError());
    unique_lock<mutex> const lock{mutex_};
    if (failure_.code == cudaSuccess) failure_ = staging_failure{code, api};
  }

  /// Takes the next chunk.
  /// @return false when there is none, or the job has failed
  bool next_chunk(std::size_t& offset, std::size_t& bytes) noexcept {
    unique_lock<mutex> const lock{mutex_};
    if (failure_.code != cudaSuccess || next_offset_ >= job_.bytes) return false;
    offset = next_offset_;
    std::size_t const left = job_.bytes - offset;
    bytes = left < job_.chunk_bytes ? left : job_.chunk_bytes;
    next_offset_ += bytes;
    return true;
  }

  bool wait_for(staging_slot& slot) noexcept {
    if (!slot.in_flight) return true;
    cudaError_t const result = cudaEventSynchronize(slot.event);
    if (result == cudaSuccess) {
      slot.in_flight = false;
    } else {
      fail(result, "cudaEventSynchronize");
    }
    return result == cudaSuccess;
  }

  bool copy(staging_slot& slot, void* to, void const* from, std::size_t bytes,
            cudaMemcpyKind kind) noexcept {
    cudaError_t result = cudaMemcpyAsync(to, from, bytes, kind, job_.stream);
    if (result != cudaSuccess) {
      fail(result, "cudaMemcpyAsync");
      return false;
    }
    result = cudaEventRecord(slot.event, job_.stream);
    if (result == cudaSuccess) {
      slot.in_flight = true;
      return true;
    }
    fail(result, "cudaEventRecord");
    discard(cudaStreamSynchronize(job_.stream));  // the copy has no event to wait for
    return false;
  }

  /// Waits for a copy to the host and copies its chunk to the destination.
  bool drain(staging_slot& slot) noexcept {
    std::size_t const bytes = slot.drain_bytes;
    slot.drain_bytes = 0;
    if (!wait_for(slot)) return false;
    if (bytes != 0) std::memcpy(job_.destination + slot.offset, slot.memory, bytes);
    return true;
  }

  void copy_chunks(slot_ring& ring) noexcept {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    bool ok = true;
    while (ok && next_chunk(offset, bytes)) {
      staging_slot& slot = ring.slots[ring.next];
      ring.next = (ring.next + 1) % ring.slots.size();
      ok = drain(slot);
      if (!ok) break;
      if (job_.to_device) {
        std::memcpy(slot.memory, job_.source + offset, bytes);
        ok = copy(slot, job_.destination + offset, slot.memory, bytes, cudaMemcpyHostToDevice);
      } else {
        ok = copy(slot, slot.memory, job_.source + offset, bytes, cudaMemcpyDeviceToHost);
        slot.offset = offset;
        slot.drain_bytes = ok ? bytes : 0;
      }
    }
    if (job_.to_device) return;
    for (std::size_t i = 0; i < ring.slots.size(); ++i) {  // oldest first
      ok = drain(ring.slots[(ring.next + i) % ring.slots.size()]) && ok;
    }
  }

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
