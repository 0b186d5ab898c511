// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/stream/detail/transfer/collect_core.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE collect_core::collect_core(memory_pool& pool, pinned_pool& pinned,
                                             std::size_t element_bytes, std::size_t capacity,
                                             result_sink& sink, prefetch_options const& options,
                                             source_location where)
    : transfer_core{"result_collector", false,   pool, pinned, element_bytes,
                    capacity,           options, 1,    5,      where},
      sink_{sink} {
  int const error = runner_.start<&collect_core::run>(*this);
  if (error != 0) throw_no_thread(error, 0);
}

WARPWRIGHT_INLINE collect_core::~collect_core() {
  {
    guard lock{mutex_};
    while (is_draining()) wait(lock, ready_);
  }
  stop();
  runner_.join();
}

WARPWRIGHT_INLINE void collect_core::run() noexcept {
  set_up_thread();
  guard lock{mutex_};
  while (!stopping_) {
    transfer_slot* const slot = grow_ ? nullptr : ring_.find(next_drain_, stage::ready);
    slot != nullptr ? drain(lock, *slot) : grow_or_wait(lock, true);
  }
  ended_ = true;
  tell_all(ready_);
}

/// Calls the sink. Releases the lock meanwhile.
WARPWRIGHT_INLINE void collect_core::drain(guard& lock, transfer_slot& slot) noexcept {
  slot.now = stage::draining;
  slot.worker = pthread_self();
  std::exception_ptr error = static_cast<std::exception_ptr&&>(slot.error);
  slot.error = nullptr;
  bool const wanted = slot.bytes != 0 && !error_ && !error;
  lock.unlock();
  std::uint64_t const start = monotonic_nanoseconds();
  std::uint64_t draining = start;
  cudaError_t const copied = transfer_ring::wait_for_copy(slot);
  if (wanted) {
    try {
      warpwright::check(copied, "cudaEventSynchronize", where_);
      draining = monotonic_nanoseconds();
      sink_.drain(slot.host, slot.bytes, slot.index);
    } catch (...) {
      error = std::current_exception();
    }
  }
  std::uint64_t const end = monotonic_nanoseconds();
  lock.lock();
  worker_wait_ += draining - start;
  if (wanted) {
    user_time_ += end - draining;
    user_bytes_ += slot.bytes;
    last_call_time_ = end > last_call_time_ ? end : last_call_time_;
  }
  if (error && !error_) error_ = static_cast<std::exception_ptr&&>(error);
  ++next_drain_;
  free(slot);
  if (!error) return;
  lock.unlock();  // the end of an exception is a user's code
  error = nullptr;
  lock.lock();
}

WARPWRIGHT_INLINE void collect_core::throw_error(guard& lock) {
  if (!error_) return;
  std::exception_ptr const error = error_;
  lock.unlock();
  std::rethrow_exception(error);
}

WARPWRIGHT_INLINE transfer_slot* collect_core::next(stream_ref stream, source_location where) {
  check_stream(stream, where);
  transfer_slot* slot = nullptr;
  {
    guard lock{mutex_};
    throw_error(lock);
    waiting self;
    bool in_own_capture = false;
    while (!stopping_ && !error_ && (slot = ring_.oldest(stage::free)) == nullptr &&
           !in_own_capture) {
      if (self.since == 0) {
        if (is_in_callback()) throw_waits_for_itself("next()", where);
        begin_wait(lock, self, stream);
      } else {
        wait(lock, ready_);
        in_own_capture = waits_for_own_capture(lock);
      }
    }
    if (slot != nullptr) {
      slot->now = stage::in_use;
      slot->index = next_index_++;
      slot->bytes = 0;
      if (first_call_time_ == 0) first_call_time_ = last_call_time_ = monotonic_nanoseconds();
    }
    if (self.since != 0 && end_wait(lock, self, stream, slot != nullptr)) ask_to_grow();
    if (slot == nullptr) {
      throw_error(lock);
      if (!stopping_) throw_waits_for_own_capture(where);
      return nullptr;
    }
  }
  cudaError_t const result = ring_.acquire(*slot, stream);
  if (result != cudaSuccess) release(*slot, 0);
  check_named_earlier(result, "cudaStreamWaitEvent", where);
  return slot;
}

WARPWRIGHT_INLINE void collect_core::release(transfer_slot& slot, std::size_t elements) noexcept {
  if (!is_in_own_process()) return;
  slot.returned_by = pthread_self();
  guard lock{mutex_};
  bool const is_ordered = end_use(lock, slot) && slot.use_error == cudaSuccess;
  if (!is_ordered && elements != 0) {
    slot.error = error_of_use(slot);
    elements = 0;
  }
  slot.bytes = elements * element_bytes_;
  if (elements != 0) {
    ++batches_;
    bytes_ += slot.bytes;
    last_call_time_ = monotonic_nanoseconds();
  }
  slot.now = stage::filled;
  enqueue_copies(lock);
}

/// Why nothing orders a copy behind the work; that of a capture has not even been launched.
WARPWRIGHT_INLINE std::exception_ptr collect_core::error_of_use(
    transfer_slot const& slot) const noexcept {
  try {
    if (!slot.in_capture) check_named_earlier(slot.use_error, "cudaStreamSynchronize", where_);
    throw_invalid_argument(text{"result_collector: the slot of result "} + slot.index +
                               " was given back while its stream was capturing, so that the result "
                               "was not copied: end the capture, launch the graph, and then give "
                               "the slot back",
                           where_);
  } catch (...) {
    return std::current_exception();
  }
}

WARPWRIGHT_INLINE void collect_core::finish() {
  guard lock{mutex_};
  if (is_in_callback()) throw_waits_for_itself("finish()", where_);
  while (is_draining()) wait(lock, ready_);
  throw_error(lock);
}

WARPWRIGHT_INLINE void collect_core::throw_waits_for_itself(char const* call,
                                                            source_location where) const {
  throw_invalid_argument(text{"result_collector: "} + call +
                             " in the sink would wait for itself: call it outside of the sink",
                         where);
}

}  // namespace detail

WARPWRIGHT_END
