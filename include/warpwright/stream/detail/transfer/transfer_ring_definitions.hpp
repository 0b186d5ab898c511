// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/stream/detail/transfer/transfer_ring.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE transfer_ring::~transfer_ring() {
  relaxed_capture_mode const relaxed;
  for (unsigned i = 0; i < created_; ++i) {
    transfer_slot& slot = slots_[i];
    // Memory whose copy cannot be waited for may be in use: it stays with the pools.
    bool const idle = wait_for_copy(slot) == cudaSuccess;
    bool ordered = true;
    if (slot.has_used) {
      cudaError_t const result = cudaStreamWaitEvent(copies_.get(), slot.used, 0);
      discard(result);
      ordered = result == cudaSuccess;
    }
    try {
      if (idle && ordered) pool_.deallocate(copies_, slot.device, slot_bytes_);
      if (idle) pinned_.deallocate(slot.host, slot_bytes_);
    } catch (...) {  // a destructor cannot throw; the pools count the memory as live
    }
    discard(cudaEventDestroy(slot.copied));
    discard(cudaEventDestroy(slot.used));
  }
  if (sample_.begin != nullptr) discard(cudaEventDestroy(sample_.begin));
  if (sample_.end != nullptr) discard(cudaEventDestroy(sample_.end));
  if (created_ == 0) return;
  try {
    pool_.retire(copies_);
  } catch (...) {  // the pool was not told that the stream ends: wait until nothing needs it
    discard(cudaStreamSynchronize(copies_.get()));
  }
}

WARPWRIGHT_INLINE void transfer_ring::add(source_location where) {
  scoped_device const current{pool_.device(), where};
  relaxed_capture_mode const relaxed{where};
  transfer_slot made;
  try {
    made.host = pinned_.allocate(slot_bytes_, pinned_pool::block_alignment_bytes, where);
    made.device = pool_.allocate(copies_, slot_bytes_, memory_pool::block_alignment_bytes, where);
    // The host sleeps while it waits for a copy.
    check(cudaEventCreateWithFlags(&made.copied, cudaEventDisableTiming | cudaEventBlockingSync),
          "cudaEventCreateWithFlags", where);
    check(cudaEventCreateWithFlags(&made.used, cudaEventDisableTiming), "cudaEventCreateWithFlags",
          where);
    if (sample_.begin == nullptr) {
      check(cudaEventCreate(&sample_.begin), "cudaEventCreate", where);
    }
    if (sample_.end == nullptr) check(cudaEventCreate(&sample_.end), "cudaEventCreate", where);
  } catch (...) {
    if (made.copied != nullptr) discard(cudaEventDestroy(made.copied));
    if (made.used != nullptr) discard(cudaEventDestroy(made.used));
    if (made.host != nullptr) pinned_.deallocate(made.host, slot_bytes_, where);
    if (made.device != nullptr) pool_.deallocate(copies_, made.device, slot_bytes_, where);
    throw;
  }
  slots_[created_] = made;
  ++created_;
}

WARPWRIGHT_INLINE cudaError_t transfer_ring::acquire(transfer_slot& slot,
                                                     stream_ref stream) noexcept {
  if (!slot.has_copied) return cudaSuccess;
  return cudaStreamWaitEvent(stream.get(), slot.copied, 0);
}

WARPWRIGHT_INLINE void transfer_ring::release(transfer_slot& slot, stream_ref stream) noexcept {
  slot.has_used = false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t result = cudaStreamIsCapturing(stream.get(), &status);
  // An event that is recorded in a capture would draw the copies into it.
  if (result == cudaSuccess && status != cudaStreamCaptureStatusNone) return;
  if (result == cudaSuccess) result = cudaEventRecord(slot.used, stream.get());
  slot.has_used = result == cudaSuccess;
  if (!slot.has_used) wait_without_event(stream, result);
}

WARPWRIGHT_INLINE void transfer_ring::wait_without_event(stream_ref stream,
                                                         cudaError_t failed) noexcept {
  discard(failed);
  relaxed_capture_mode const allowed;  // a capture of any thread forbids it otherwise
  discard(cudaStreamSynchronize(stream.get()));
}

WARPWRIGHT_INLINE cudaError_t transfer_ring::copy(transfer_slot& slot, char const*& api) noexcept {
  api = "cudaStreamWaitEvent";
  cudaError_t result =
      slot.has_used ? cudaStreamWaitEvent(copies_.get(), slot.used, 0) : cudaSuccess;
  if (result != cudaSuccess) return result;
  bool const timed = begin_sample(slot.bytes);
  api = "cudaMemcpyAsync";
  result = to_device_ ? cudaMemcpyAsync(slot.device, slot.host, slot.bytes, cudaMemcpyHostToDevice,
                                        copies_.get())
                      : cudaMemcpyAsync(slot.host, slot.device, slot.bytes, cudaMemcpyDeviceToHost,
                                        copies_.get());
  if (result != cudaSuccess) return result;
  if (timed) {
    cudaError_t const recorded = cudaEventRecord(sample_.end, copies_.get());
    discard(recorded);
    sample_.pending = recorded == cudaSuccess;
  }
  api = "cudaEventRecord";
  result = cudaEventRecord(slot.copied, copies_.get());
  slot.has_copied = result == cudaSuccess;
  if (result == cudaSuccess) return result;
  wait_without_event(copies_, result);
  return result;
}

WARPWRIGHT_INLINE cudaError_t transfer_ring::wait_for_copy(transfer_slot& slot) noexcept {
  if (!slot.has_copied) return cudaSuccess;
  // To sleep and be woken takes some 50 us, as the copy of a MiB does.
  constexpr std::uint64_t looking = 50000;  // ns
  std::uint64_t const until = monotonic_nanoseconds() + looking;
  cudaError_t result = cudaEventQuery(slot.copied);
  for (int step = 0; result == cudaErrorNotReady && monotonic_nanoseconds() < until; ++step) {
    discard(result);
    for (int i = 0; i < 16; ++i) spin_wait(step);  // queries take the driver's locks
    result = cudaEventQuery(slot.copied);
  }
  if (result == cudaErrorNotReady) {
    discard(result);
    result = cudaEventSynchronize(slot.copied);
  }
  discard(result);
  return result;
}

WARPWRIGHT_INLINE transfer_slot* transfer_ring::oldest(transfer_slot::stage in) noexcept {
  transfer_slot* found = nullptr;
  for (unsigned i = 0; i < size_; ++i) {
    transfer_slot& slot = slots_[i];
    if (slot.now == in && (found == nullptr || slot.freed < found->freed)) found = &slot;
  }
  return found;
}

WARPWRIGHT_INLINE transfer_slot* transfer_ring::find(std::size_t index,
                                                     transfer_slot::stage in) noexcept {
  for (unsigned i = 0; i < size_; ++i) {
    if (slots_[i].now == in && slots_[i].index == index) return &slots_[i];
  }
  return nullptr;
}

WARPWRIGHT_INLINE void transfer_ring::look_at_sample() noexcept {
  relaxed_capture_mode const allowed;  // results are copied by the caller's thread
  cudaError_t result = cudaEventQuery(sample_.end);
  if (result == cudaErrorNotReady) {
    discard(result);
    return;
  }
  sample_.pending = false;
  float milliseconds = 0.0F;
  if (result == cudaSuccess) {
    result = cudaEventElapsedTime(&milliseconds, sample_.begin, sample_.end);
  }
  discard(result);
  if (result != cudaSuccess || !(milliseconds > 0.0F)) return;
  sampled_bytes_.fetch_add(sample_.bytes, memory_order::relaxed);
  sampled_nanoseconds_.fetch_add(
      static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6), memory_order::relaxed);
}

/// The first copies, and then every eighth, unless the last sample is still under way.
WARPWRIGHT_INLINE bool transfer_ring::begin_sample(std::size_t bytes) noexcept {
  constexpr std::uint64_t interval = 8;
  std::uint64_t const number = copy_count_++;
  if (number >= interval && number % interval != 0) return false;
  if (sample_.pending) look_at_sample();
  if (sample_.pending) return false;
  sample_.bytes = bytes;
  cudaError_t const result = cudaEventRecord(sample_.begin, copies_.get());
  discard(result);
  return result == cudaSuccess;
}

WARPWRIGHT_INLINE double transfer_ring::bytes_per_second() const noexcept {
  auto const nanoseconds = static_cast<double>(sampled_nanoseconds_.load(memory_order::relaxed));
  auto const bytes = static_cast<double>(sampled_bytes_.load(memory_order::relaxed));
  return nanoseconds > 0.0 ? bytes / nanoseconds * 1e9 : 0.0;
}

}  // namespace detail

WARPWRIGHT_END
