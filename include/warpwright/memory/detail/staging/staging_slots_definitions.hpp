// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/staging/staging_slots.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE void staging_slots::create(pinned_core& pool, std::size_t count,
                                             std::size_t bytes, source_location where) {
  bytes_ = bytes;
  all_.resize(count);
  for (staging_slot& slot : all_) {
    check(cudaEventCreateWithFlags(&slot.event, cudaEventDisableTiming), "cudaEventCreateWithFlags",
          where);
    void* const memory = pool.try_allocate(bytes, pinned_core::default_alignment, where);
    if (memory == nullptr) pool.throw_out_of_memory(bytes, where);
    slot.memory = static_cast<char*>(memory);
    free_.push_back(slot);
  }
}

WARPWRIGHT_INLINE void staging_slots::destroy(pinned_core& pool) noexcept {
  for (staging_slot& slot : all_) {
    bool done = !slot.in_flight && slot.memory != nullptr;
    for (int attempt = 0; attempt < 2 && !done && slot.memory != nullptr; ++attempt) {
      cudaError_t const result = cudaEventSynchronize(slot.event);
      discard(result);
      done = result == cudaSuccess;
    }
    if (slot.event != nullptr) discard(cudaEventDestroy(slot.event));
    if (!done) continue;  // a copy may still use it: leak it rather than reuse it too early
    try {
      pool.deallocate(slot.memory, bytes_, source_location::current());
    } catch (...) {  // a destructor cannot throw; the pool counts the block as live
    }
  }
  all_.clear();
}

/// @return the oldest slot in flight if its copy is complete, else null
WARPWRIGHT_INLINE staging_slot* staging_slots::take_arrived() noexcept {
  staging_slot* slot = nullptr;
  {
    unique_lock<mutex> const lock{mutex_};
    slot = in_flight_.pop();
  }
  if (slot == nullptr) return nullptr;
  cudaError_t const result = cudaEventQuery(slot->event);
  discard(result);
  if (result == cudaSuccess) {
    slot->in_flight = false;
    return slot;
  }
  give_back(*slot);  // of an error the next call tells
  return nullptr;
}

WARPWRIGHT_INLINE staging_slot* staging_slots::take() noexcept {
  std::size_t left = 0;
  {
    unique_lock<mutex> const lock{mutex_};
    left = in_flight_.size;
  }
  staging_slot* slot = left != 0 ? take_arrived() : nullptr;
  if (slot != nullptr) return slot;
  {
    unique_lock<mutex> const lock{mutex_};
    slot = free_.pop();
  }
  // Other threads may give slots back meanwhile: each is looked at once.
  for (; slot == nullptr && left > 1; --left) slot = take_arrived();
  return slot;
}

WARPWRIGHT_INLINE void staging_slots::give_back(staging_slot& slot) noexcept {
  unique_lock<mutex> const lock{mutex_};
  slot.in_flight ? in_flight_.push_back(slot) : free_.push_front(slot);
}

}  // namespace detail

WARPWRIGHT_END
