// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/stream/detail/transfer/prefetch_core.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE prefetch_core::prefetch_core(memory_pool& pool, pinned_pool& pinned,
                                               std::size_t element_bytes, std::size_t capacity,
                                               batch_source& source,
                                               prefetch_options const& options,
                                               source_location where)
    : transfer_core{"prefetcher",
                    true,
                    pool,
                    pinned,
                    element_bytes,
                    capacity,
                    options,
                    options.checked_workers("prefetcher", where),
                    options.workers() + 3,
                    where},
      source_{source} {
  try {
    workers_.resize(options.workers());
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      workers_[i].owner = this;
      int const error = workers_[i].runner.start<&worker::run>(workers_[i]);
      if (error != 0) throw_no_thread(error, i);
    }
  } catch (...) {
    end_threads();
    throw;
  }
}

WARPWRIGHT_INLINE void prefetch_core::end_threads() noexcept {
  stop();
  workers_.clear();  // joins
}

WARPWRIGHT_INLINE void prefetch_core::run_worker() noexcept {
  set_up_thread();
  guard lock{mutex_};
  while (!stopping_) {
    bool const is_needed = next_fill_ < end_;
    transfer_slot* const slot = is_needed && !grow_ ? ring_.oldest(stage::free) : nullptr;
    if (slot == nullptr) {
      grow_or_wait(lock, is_needed);
      continue;
    }
    slot->now = stage::filling;
    slot->worker = pthread_self();
    slot->index = next_fill_++;
    fill(lock, *slot);
    enqueue_copies(lock);
  }
}

/// Calls the source. Releases the lock meanwhile.
WARPWRIGHT_INLINE void prefetch_core::fill(guard& lock, transfer_slot& slot) noexcept {
  lock.unlock();
  std::uint64_t const start = monotonic_nanoseconds();
  std::uint64_t filling = start;
  std::size_t elements = 0;
  bool ended = false;
  std::exception_ptr error;
  cudaError_t const copied = transfer_ring::wait_for_copy(slot);
  try {
    warpwright::check(copied, "cudaEventSynchronize", where_);
    filling = monotonic_nanoseconds();
    elements = source_.fill(slot.host, slot.index);
    ended = elements == 0;
    if (elements > capacity_) {
      throw_invalid_argument(text{"prefetcher: the source returned "} + elements +
                                 " elements for batch " + slot.index +
                                 ", and a batch has room for " + capacity_ +
                                 ": raise the capacity; memory behind the batch may be damaged",
                             where_);
    }
  } catch (...) {
    error = std::current_exception();
  }
  std::uint64_t const end = monotonic_nanoseconds();
  lock.lock();
  worker_wait_ += filling - start;
  count_filling(filling, end, elements <= capacity_ ? elements * element_bytes_ : 0);
  slot.bytes = elements * element_bytes_;
  slot.error = static_cast<std::exception_ptr&&>(error);
  slot.now = stage::filled;
  if (ended && slot.index < end_) end_ = slot.index;
}

/// Counts what is behind the caller's first batch.
WARPWRIGHT_INLINE void prefetch_core::count_filling(std::uint64_t begin, std::uint64_t end,
                                                    std::size_t bytes) noexcept {
  if (begin >= first_call_time_) {
    user_time_ += end - begin;
    user_bytes_ += bytes;
  } else if (end > first_call_time_) {
    std::uint64_t const counted = end - first_call_time_;
    user_time_ += counted;
    user_bytes_ +=
        static_cast<std::uint64_t>(static_cast<double>(bytes) * static_cast<double>(counted) /
                                   static_cast<double>(end - begin));
  }
}

/// Waits for the batch whose turn it is.
WARPWRIGHT_INLINE transfer_slot* prefetch_core::take(guard& lock, stream_ref stream) noexcept {
  waiting self;
  transfer_slot* slot = nullptr;
  while (!stopping_ && next_take_ < end_ &&
         (slot = ring_.find(next_take_, stage::ready)) == nullptr) {
    if (self.since == 0) {
      begin_wait(lock, self, stream);
    } else {
      wait(lock, ready_);
      if (waits_for_own_capture(lock)) break;
    }
  }
  if (slot != nullptr) slot->now = stage::in_use;
  bool const is_first = slot != nullptr && next_take_++ == 0;
  if (self.since != 0 && end_wait(lock, self, stream, slot != nullptr) && slot != nullptr &&
      !is_first) {
    ask_to_grow();
  }
  if (is_first) {  // which always takes its time
    caller_wait_ = starved_ = worker_wait_ = user_time_ = user_bytes_ = 0;
  }
  return slot;
}

WARPWRIGHT_INLINE transfer_slot* prefetch_core::next(stream_ref stream, source_location where) {
  check_stream(stream, where);
  transfer_slot* slot = nullptr;
  std::exception_ptr error;
  {
    guard lock{mutex_};
    if (is_in_callback()) {
      throw_invalid_argument(
          "prefetcher: next() in the source, which would wait for itself: take batches outside of "
          "the source",
          where);
    }
    slot = take(lock, stream);
    if (slot == nullptr) {
      if (!stopping_ && next_take_ < end_) throw_waits_for_own_capture(where);
      return nullptr;
    }
    last_call_time_ = monotonic_nanoseconds();
    if (first_call_time_ == 0) first_call_time_ = last_call_time_;
    if (slot->error) {
      error = static_cast<std::exception_ptr&&>(slot->error);
      slot->error = nullptr;
      free(*slot);
    }
  }
  if (error) std::rethrow_exception(error);  // without the lock: the end of it is a user's code
  cudaError_t const result = ring_.acquire(*slot, stream);
  {
    guard const lock{mutex_};
    if (result != cudaSuccess) {
      free(*slot);
    } else {
      if (batches_++ == 0) first_bytes_ = slot->bytes;
      bytes_ += slot->bytes;
    }
  }
  check_named_earlier(result, "cudaStreamWaitEvent", where);
  return slot;
}

WARPWRIGHT_INLINE void prefetch_core::release(transfer_slot& slot) noexcept {
  if (!is_in_own_process()) return;
  slot.returned_by = pthread_self();
  guard lock{mutex_};
  static_cast<void>(end_use(lock, slot));
  free(slot);
}

}  // namespace detail

WARPWRIGHT_END
