// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/stream/detail/transfer/transfer_ring.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE transfer_ring::~transfer_ring() {
  relaxed_capture_mode const relaxed;
  for (unsigned i = 0; i < created_; ++i) {
    free_slot(slots_[i]);
    discard(cudaEventDestroy(slots_[i].copied));
    discard(cudaEventDestroy(slots_[i].used));
  }
  if (sample_.begin != nullptr) discard(cudaEventDestroy(sample_.begin));
  if (sample_.end != nullptr) discard(cudaEventDestroy(sample_.end));
  if (!uses_pool_) return;
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      pool_.retire(copies_);
      return;
    } catch (...) {
      discard(cudaStreamSynchronize(copies_.get()));
    }
  }
}

/// Frees the memory of a slot: the device's behind the caller's work. What cannot be waited for
/// stays with the pools, which count it as live.
WARPWRIGHT_INLINE void transfer_ring::free_slot(transfer_slot& slot) noexcept {
  bool const idle =
      wait_for_copy(slot) == cudaSuccess || wait_without_event(copies_, cudaSuccess) == cudaSuccess;
  bool ordered = !slot.in_capture || release(slot);
  if (ordered && slot.has_used) {
    cudaError_t result = cudaStreamWaitEvent(copies_.get(), slot.used, 0);
    if (discard(result) != cudaSuccess) result = cudaEventSynchronize(slot.used);
    ordered = discard(result) == cudaSuccess;
  }
  try {
    if (idle && ordered) pool_.deallocate(copies_, slot.device, slot_bytes_);
    if (idle) pinned_.deallocate(slot.host, slot_bytes_);
  } catch (...) {  // a destructor cannot throw
  }
}

WARPWRIGHT_INLINE bool transfer_ring::add(bool may_wait, source_location where) {
  scoped_device const current{pool_.device(), where};
  relaxed_capture_mode const relaxed{where};
  transfer_slot made;
  uses_pool_ = true;
  auto const give_memory_back = [&] {
    if (made.host != nullptr) pinned_.deallocate(made.host, slot_bytes_, where);
    if (made.device != nullptr) pool_.deallocate(copies_, made.device, slot_bytes_, where);
  };
  try {
    if (may_wait) {
      made.host = pinned_.allocate(slot_bytes_, pinned_pool::block_alignment_bytes, where);
      made.device = pool_.allocate(copies_, slot_bytes_, memory_pool::block_alignment_bytes, where);
    } else {
      made.host = pinned_access::core(pinned_).try_allocate_now(slot_bytes_, where);
      if (made.host != nullptr) {
        made.device = pool_access::core(pool_).try_allocate_now(copies_, slot_bytes_, where);
      }
      if (made.device == nullptr) {
        give_memory_back();
        return false;
      }
    }
    // The host sleeps while it waits for a copy.
    check(cudaEventCreateWithFlags(&made.copied, cudaEventDisableTiming | cudaEventBlockingSync),
          "cudaEventCreateWithFlags", where);
    check(cudaEventCreateWithFlags(&made.used, cudaEventDisableTiming), "cudaEventCreateWithFlags",
          where);
    if (sample_.begin == nullptr) {
      check(cudaEventCreate(&sample_.begin), "cudaEventCreate", where);
    }
    if (sample_.end == nullptr) check(cudaEventCreate(&sample_.end), "cudaEventCreate", where);
    // The memory is the stream's of the copies: the pool may have ordered that one alone behind
    // work that still uses it.
    check(cudaEventRecord(made.copied, copies_.get()), "cudaEventRecord", where);
  } catch (...) {
    if (made.copied != nullptr) discard(cudaEventDestroy(made.copied));
    if (made.used != nullptr) discard(cudaEventDestroy(made.used));
    give_memory_back();
    throw;
  }
  slots_[created_] = static_cast<transfer_slot&&>(made);
  ++created_;
  return true;
}

WARPWRIGHT_INLINE cudaError_t transfer_ring::acquire(transfer_slot& slot,
                                                     stream_ref stream) noexcept {
  device_of_default const current{stream, device().value()};
  slot.stream = stream;
  if (stream.get() == cudaStreamPerThread) slot.thread = thread_number();
  cudaError_t result = cudaStreamWaitEvent(stream.get(), slot.copied, 0);
  if (result == cudaSuccess && slot.used_last) {
    result = cudaStreamWaitEvent(stream.get(), slot.used, 0);
  }
  return result;
}

WARPWRIGHT_INLINE bool transfer_ring::is_closed(stream_ref stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t const result = discard(cudaStreamIsCapturing(stream.get(), &status));
  return result == cudaErrorStreamCaptureImplicit ||
         (result == cudaSuccess && status != cudaStreamCaptureStatusNone);
}

/// Of an event of a capture that has ended.
WARPWRIGHT_INLINE bool transfer_ring::is_captured(cudaEvent_t event) noexcept {
  relaxed_capture_mode const allowed;
  cudaError_t const result = discard(cudaEventQuery(event));
  return result != cudaSuccess && result != cudaErrorNotReady;
}

WARPWRIGHT_INLINE bool transfer_ring::release(transfer_slot& slot) noexcept {
  stream_ref stream = slot.stream;
  // The default stream of another thread: the legacy one waits for all of them.
  if (stream.get() == cudaStreamPerThread && slot.thread != thread_number()) {
    stream = stream_ref::legacy_default();
  }
  device_of_default const current{stream, device().value()};
  bool const again = slot.in_capture;  // for a parked slot, in any thread
  slot.in_capture = is_closed(stream);
  if (slot.in_capture) return false;
  cudaError_t const result = cudaEventRecord(slot.used, stream.get());
  // The caller can begin the next capture in between, and the event is then a part of it.
  if (again && result == cudaSuccess && (is_closed(stream) || is_captured(slot.used))) {
    slot.in_capture = true;
    slot.has_used = slot.used_last = false;
    return false;
  }
  slot.has_used = slot.used_last = result == cudaSuccess;
  slot.use_error = result == cudaSuccess ? result : wait_without_event(stream, result);
  return true;
}

WARPWRIGHT_INLINE cudaError_t transfer_ring::wait_without_event(stream_ref stream,
                                                                cudaError_t failed) noexcept {
  discard(failed);
  relaxed_capture_mode const allowed;  // a capture of any thread forbids it otherwise
  return discard(cudaStreamSynchronize(stream.get()));
}

WARPWRIGHT_INLINE cudaError_t transfer_ring::copy(transfer_slot& slot, char const*& api) noexcept {
  api = "cudaStreamWaitEvent";
  cudaError_t result =
      slot.has_used ? cudaStreamWaitEvent(copies_.get(), slot.used, 0) : cudaSuccess;
  if (result != cudaSuccess) return result;
  bool const timed = begin_sample(slot.bytes);
  api = "cudaMemcpyAsync";
  result =
      to_device_
          ? copy_async(slot.device, slot.host, slot.bytes, cudaMemcpyHostToDevice, copies_.get())
          : copy_async(slot.host, slot.device, slot.bytes, cudaMemcpyDeviceToHost, copies_.get());
  if (result != cudaSuccess) return result;
  if (timed) {
    sample_.pending = discard(cudaEventRecord(sample_.end, copies_.get())) == cudaSuccess;
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
  cudaError_t result = discard(cudaEventQuery(slot.copied));
  for (int step = 0; result == cudaErrorNotReady && monotonic_nanoseconds() < until; ++step) {
    for (int i = 0; i < 16; ++i) spin_wait(step);  // queries take the driver's locks
    result = discard(cudaEventQuery(slot.copied));
  }
  if (result == cudaErrorNotReady) result = discard(cudaEventSynchronize(slot.copied));
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
  cudaError_t result = discard(cudaEventQuery(sample_.end));
  if (result == cudaErrorNotReady) return;
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
  return discard(cudaEventRecord(sample_.begin, copies_.get())) == cudaSuccess;
}

WARPWRIGHT_INLINE double transfer_ring::bytes_per_second() const noexcept {
  auto const nanoseconds = static_cast<double>(sampled_nanoseconds_.load(memory_order::relaxed));
  auto const bytes = static_cast<double>(sampled_bytes_.load(memory_order::relaxed));
  return nanoseconds > 0.0 ? bytes / nanoseconds * 1e9 : 0.0;
}

}  // namespace detail

WARPWRIGHT_END
