// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/pinned/staging_workers.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE unsigned staging_workers::default_threads() noexcept {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 8;
  int const count = CPU_COUNT(&allowed);
  return count < 1 ? 1U : count > 8 ? 8U : static_cast<unsigned>(count);
}

WARPWRIGHT_INLINE void staging_workers::start(int device, source_location where) {
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

WARPWRIGHT_INLINE void staging_workers::stop() noexcept {
  {
    unique_lock<mutex> const lock{mutex_};
    stopping_ = true;
    changed_.notify_all();
  }
  workers_.clear();  // joins
}

WARPWRIGHT_INLINE staging_failure staging_workers::run(staging_job const& job) noexcept {
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

WARPWRIGHT_INLINE void staging_workers::run_worker(std::size_t ring) noexcept {
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

WARPWRIGHT_INLINE void staging_workers::fail(cudaError_t code, char const* api) noexcept {
  static_cast<void>(cudaGetLastError());
  unique_lock<mutex> const lock{mutex_};
  if (failure_.code == cudaSuccess) failure_ = staging_failure{code, api};
}

WARPWRIGHT_INLINE bool staging_workers::next_chunk(std::size_t& offset,
                                                   std::size_t& bytes) noexcept {
  unique_lock<mutex> const lock{mutex_};
  if (failure_.code != cudaSuccess || next_offset_ >= job_.bytes) return false;
  offset = next_offset_;
  std::size_t const left = job_.bytes - offset;
  bytes = left < job_.chunk_bytes ? left : job_.chunk_bytes;
  next_offset_ += bytes;
  return true;
}

WARPWRIGHT_INLINE bool staging_workers::wait_for(staging_slot& slot) noexcept {
  if (!slot.in_flight) return true;
  cudaError_t const result = cudaEventSynchronize(slot.event);
  if (result == cudaSuccess) {
    slot.in_flight = false;
  } else {
    fail(result, "cudaEventSynchronize");
  }
  return result == cudaSuccess;
}

WARPWRIGHT_INLINE bool staging_workers::copy(staging_slot& slot, void* to, void const* from,
                                             std::size_t bytes, cudaMemcpyKind kind) noexcept {
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

WARPWRIGHT_INLINE bool staging_workers::drain(staging_slot& slot) noexcept {
  std::size_t const bytes = slot.drain_bytes;
  slot.drain_bytes = 0;
  if (!wait_for(slot)) return false;
  if (bytes != 0) std::memcpy(job_.destination + slot.offset, slot.memory, bytes);
  return true;
}

WARPWRIGHT_INLINE void staging_workers::copy_chunks(slot_ring& ring) noexcept {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  bool ok = true;
  while (ok && next_chunk(offset, bytes)) {
    staging_slot& slot = ring.list[ring.next];
    ring.next = (ring.next + 1) % ring.list.size();
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
  for (std::size_t i = 0; i < ring.list.size(); ++i) {  // oldest first
    ok = drain(ring.list[(ring.next + i) % ring.list.size()]) && ok;
  }
}

}  // namespace detail

WARPWRIGHT_END
