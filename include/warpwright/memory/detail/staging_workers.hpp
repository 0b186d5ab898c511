// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The threads of a staging object and what each of them does.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/memory/detail/locks.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <pthread.h>
#include <sched.h>
#include <signal.h>

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
  std::size_t piece_bytes = 0;
  cudaStream_t stream = nullptr;
};

struct staging_slot {
  char* memory = nullptr;
  cudaEvent_t event = nullptr;
  bool in_flight = false;       // a copy uses the memory until the event
  std::size_t offset = 0;       // what a copy to the host brings here,
  std::size_t drain_bytes = 0;  // and how much of it is to be passed on
};

/// What belongs to one thread.
struct staging_lane {
  array<staging_slot> slots;
  std::size_t next = 0;
};

/// Runs a job on all lanes at once; lane 0 is the caller's.
class staging_workers {
 public:
  staging_workers() noexcept = default;
  staging_workers(staging_workers const&) = delete;
  staging_workers& operator=(staging_workers const&) = delete;

  [[nodiscard]] array<staging_lane>& lanes() noexcept { return lanes_; }
  [[nodiscard]] array<staging_lane> const& lanes() const noexcept { return lanes_; }

  static unsigned default_threads() noexcept {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 8;
    int const count = CPU_COUNT(&allowed);
    return count < 1 ? 1U : count > 8 ? 8U : static_cast<unsigned>(count);
  }

  /// Starts a thread for each lane but the first.
  /// @throws std::runtime_error  when the system refuses; stop() then ends those that run
  void start(int device, source_location where) {
    device_ = device;
    threads_.reserve(lanes_.size() - 1);
    arguments_.reserve(lanes_.size() - 1);
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the user's threads' business
    int refused = 0;
    for (std::size_t lane = 1; lane < lanes_.size() && refused == 0; ++lane) {
      arguments_.push_back(argument{this, lane});
      pthread_t thread{};
      refused = pthread_create(&thread, nullptr, &staging_workers::main, &arguments_.back());
      if (refused == 0) threads_.push_back(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (refused != 0) {
      text const message = text{where.file(), where.line()} +
                           ": staging: pthread_create: " + std::strerror(refused) + " after " +
                           threads_.size() + " threads; give staging_options fewer threads";
      throw std::runtime_error{message.c_str()};
    }
  }

  void stop() noexcept {
    {
      held<blocking_mutex> const lock{mutex_};
      stopping_ = true;
      changed_.notify_all();
    }
    for (pthread_t thread : threads_) pthread_join(thread, nullptr);
    threads_.clear();
  }

  /// Copies all pieces; answers when every thread is done with them. @pre one job at a time
  staging_failure run(staging_job const& job) noexcept {
    {
      held<blocking_mutex> const lock{mutex_};
      job_ = job;
      failure_ = staging_failure{};
      next_offset_ = 0;
      running_ = threads_.size();
      ++generation_;
      changed_.notify_all();
    }
    work(lanes_[0]);
    held<blocking_mutex> const lock{mutex_};
    while (running_ != 0) finished_.wait(mutex_);
    return failure_;
  }

 private:
  struct argument {
    staging_workers* workers;
    std::size_t lane;
  };

  static void* main(void* raw) noexcept {
    argument const& own = *static_cast<argument const*>(raw);
    own.workers->serve(own.lane);
    return nullptr;
  }

  void serve(std::size_t lane) noexcept {
    // This thread is ours: another thread's capture must not forbid it to wait for an event.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    staging_failure ready{cudaSetDevice(device_), "cudaSetDevice"};
    if (ready.code == cudaSuccess) {
      ready = staging_failure{cudaThreadExchangeStreamCaptureMode(&mode),
                              "cudaThreadExchangeStreamCaptureMode"};
    }
    std::uint64_t seen = 0;
    held<blocking_mutex> lock{mutex_};
    for (;;) {
      while (!stopping_ && generation_ == seen) changed_.wait(mutex_);
      if (generation_ == seen) return;
      seen = generation_;
      lock.unlock();
      // A thread that could not be set up leaves the pieces to the others.
      if (ready.code == cudaSuccess) work(lanes_[lane]);
      lock.lock();
      if (--running_ == 0) finished_.notify_all();
    }
  }

  void fail(cudaError_t code, char const* api) noexcept {
    static_cast<void>(cudaGetLastError());
    held<blocking_mutex> const lock{mutex_};
    if (failure_.code == cudaSuccess) failure_ = staging_failure{code, api};
  }

  /// The next piece that nobody has; false when there is none, or the job has failed.
  bool claim(std::size_t& offset, std::size_t& bytes) noexcept {
    held<blocking_mutex> const lock{mutex_};
    if (failure_.code != cudaSuccess || next_offset_ >= job_.bytes) return false;
    offset = next_offset_;
    std::size_t const left = job_.bytes - offset;
    bytes = left < job_.piece_bytes ? left : job_.piece_bytes;
    next_offset_ += bytes;
    return true;
  }

  bool wait_for(staging_slot& slot) noexcept {
    if (!slot.in_flight) return true;
    cudaError_t const answer = cudaEventSynchronize(slot.event);
    if (answer == cudaSuccess) {
      slot.in_flight = false;
    } else {
      fail(answer, "cudaEventSynchronize");
    }
    return answer == cudaSuccess;
  }

  bool copy(staging_slot& slot, void* to, void const* from, std::size_t bytes,
            cudaMemcpyKind kind) noexcept {
    cudaError_t answer = cudaMemcpyAsync(to, from, bytes, kind, job_.stream);
    if (answer != cudaSuccess) {
      fail(answer, "cudaMemcpyAsync");
      return false;
    }
    answer = cudaEventRecord(slot.event, job_.stream);
    if (answer == cudaSuccess) {
      slot.in_flight = true;
      return true;
    }
    fail(answer, "cudaEventRecord");
    discard(cudaStreamSynchronize(job_.stream));  // no event stands behind the copy
    return false;
  }

  /// Passes on what a copy brought.
  bool drain(staging_slot& slot) noexcept {
    std::size_t const bytes = slot.drain_bytes;
    slot.drain_bytes = 0;
    if (!wait_for(slot)) return false;
    if (bytes != 0) std::memcpy(job_.destination + slot.offset, slot.memory, bytes);
    return true;
  }

  void work(staging_lane& lane) noexcept {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    bool going = true;
    while (going && claim(offset, bytes)) {
      staging_slot& slot = lane.slots[lane.next];
      lane.next = (lane.next + 1) % lane.slots.size();
      going = drain(slot);
      if (!going) break;
      if (job_.to_device) {
        std::memcpy(slot.memory, job_.source + offset, bytes);
        going = copy(slot, job_.destination + offset, slot.memory, bytes, cudaMemcpyHostToDevice);
      } else {
        going = copy(slot, slot.memory, job_.source + offset, bytes, cudaMemcpyDeviceToHost);
        slot.offset = offset;
        slot.drain_bytes = going ? bytes : 0;
      }
    }
    if (job_.to_device) return;
    for (std::size_t i = 0; i < lane.slots.size(); ++i) {  // oldest first
      going = drain(lane.slots[(lane.next + i) % lane.slots.size()]) && going;
    }
  }

  array<staging_lane> lanes_;
  array<argument> arguments_;
  array<pthread_t> threads_;
  int device_ = 0;
  blocking_mutex mutex_;
  condition changed_;
  condition finished_;
  // Guarded by mutex_; job_ is only read while a job runs.
  staging_job job_;
  staging_failure failure_;
  std::size_t next_offset_ = 0;
  std::uint64_t generation_ = 0;
  std::size_t running_ = 0;
  bool stopping_ = false;
};

}  // namespace detail

WARPWRIGHT_END
