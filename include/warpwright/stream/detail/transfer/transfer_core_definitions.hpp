// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/stream/detail/transfer/transfer_core.hpp>

#include <cstring>
#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE transfer_core::transfer_core(char const* name, bool to_device, memory_pool& pool,
                                               pinned_pool& pinned, std::size_t element_bytes,
                                               std::size_t capacity,
                                               prefetch_options const& options, unsigned threads,
                                               unsigned default_depth, source_location where)
    : name_{name},
      where_{where},
      element_bytes_{element_bytes},
      capacity_{options.checked(name, capacity, element_bytes, default_depth, where)},
      threads_{threads},
      ring_{
          pool, pinned,
          capacity <= ~std::size_t{0} / element_bytes ? capacity * element_bytes : ~std::size_t{0},
          to_device, where},
      most_slots_{options.most_slots(ring_.slot_bytes(), default_depth)} {
  unsigned const depth = options.first_slots(ring_.slot_bytes(), default_depth);
  for (unsigned i = 0; i < depth; ++i) ring_.add(true, where);
  ring_.publish();
}

WARPWRIGHT_INLINE void transfer_core::stop() noexcept {
  guard const lock{mutex_};
  stopping_ = true;
  tell_all(work_);
  tell_all(ready_);
}

WARPWRIGHT_INLINE void transfer_core::throw_no_thread(int error, std::size_t started) const {
  text const message = text{where_.file(), where_.line()} + ": " + name_ +
                       ": pthread_create: " + std::strerror(error) + " after " + started +
                       " threads; end other threads, raise the system's limit" +
                       (threads_ > 1 ? ", or give prefetch_options fewer workers" : "");
  throw std::runtime_error{message.c_str()};
}

WARPWRIGHT_INLINE void transfer_core::check_stream(stream_ref stream, source_location where) const {
  if (!is_capturing(stream, where)) return;
  throw_invalid_argument(text{name_} +
                             ": next() on a capturing stream: a replay would not wait for the "
                             "batch; call it before the capture, and capture the work with the "
                             "addresses of its slot",
                         where);
}

WARPWRIGHT_INLINE bool transfer_core::is_idle(stream_ref stream) noexcept {
  relaxed_capture_mode const allowed;  // a capture of any thread forbids it otherwise
  return discard(cudaStreamQuery(stream.get())) == cudaSuccess;
}

WARPWRIGHT_INLINE void transfer_core::wait(guard& lock, condition_variable& change) noexcept {
  constexpr std::uint64_t looking = 20000;  // ns
  std::uint64_t const seen = changes_.load(memory_order::relaxed);
  lock.unlock();
  std::uint64_t const until = monotonic_nanoseconds() + looking;
  for (int step = 0; changes_.load(memory_order::relaxed) == seen; ++step) {
    spin_wait(step);
    if (step % 16 == 0 && monotonic_nanoseconds() > until) break;
  }
  lock.lock();
  if (changes_.load(memory_order::relaxed) != seen) return;
  if (parked_ == 0) return change.wait(mutex_);
  constexpr std::uint64_t often = 1000000;  // ns: the end of a capture tells nobody
  change.wait_until(mutex_, monotonic_nanoseconds() + often);
  look_at_parked(lock);
}

WARPWRIGHT_INLINE void transfer_core::enqueue_copies(guard& lock) noexcept {
  if (copying_) return;  // that thread looks again
  copying_ = true;
  while (transfer_slot* const slot = ring_.find(next_copy_, stage::filled)) {
    ++next_copy_;
    if (!slot->error && slot->bytes != 0) {
      lock.unlock();
      char const* api = "";
      cudaError_t const result = ring_.copy(*slot, api);
      if (result != cudaSuccess) {
        try {
          warpwright::check(result, api, where_);
        } catch (...) {
          slot->error = std::current_exception();
        }
      }
      lock.lock();
    }
    slot->now = stage::ready;
    tell_all(ready_);
    tell_all(work_);
  }
  copying_ = false;
}

WARPWRIGHT_INLINE bool transfer_core::end_use(guard& lock, transfer_slot& slot) noexcept {
  lock.unlock();
  bool const done = ring_.release(slot);
  lock.lock();
  return done;
}

WARPWRIGHT_INLINE void transfer_core::look_at_parked(guard& lock) noexcept {
  for (unsigned i = 0; i < ring_.size() && parked_ > 0; ++i) {
    if (ring_[i].now != stage::parked) continue;
    ring_[i].now = stage::in_use;  // nobody else's
    if (!end_use(lock, ring_[i])) {
      ring_[i].now = stage::parked;
      continue;
    }
    --parked_;
    free(ring_[i]);
  }
}

WARPWRIGHT_INLINE void transfer_core::free(transfer_slot& slot) noexcept {
  if (slot.in_capture) {
    slot.now = stage::parked;
    ++parked_;
    tell_all(work_);  // who waits without a limit looks from now on whether the capture has ended
  } else {
    ring_.set_free(slot);
    tell_one(work_);
  }
  tell_all(ready_);
}

WARPWRIGHT_INLINE bool transfer_core::is_in_callback() noexcept {
  for (unsigned i = 0; i < ring_.size(); ++i) {
    bool const called = ring_[i].now == stage::filling || ring_[i].now == stage::draining;
    if (called && pthread_equal(ring_[i].worker, pthread_self()) != 0) return true;
  }
  return false;
}

WARPWRIGHT_INLINE bool transfer_core::waits_for_own_capture(guard& lock) noexcept {
  if (parked_ < ring_.size()) return false;
  look_at_parked(lock);
  if (parked_ < ring_.size()) return false;
  for (unsigned i = 0; i < ring_.size(); ++i) {
    // In use: another thread looks at it in look_at_parked(), and may be about to free it.
    if (ring_[i].now != stage::parked) return false;
    if (pthread_equal(ring_[i].returned_by, pthread_self()) == 0) return false;
  }
  return true;
}

WARPWRIGHT_INLINE void transfer_core::throw_waits_for_own_capture(source_location where) const {
  throw_invalid_argument(text{name_} + ": next() while all " + ring_.size() +
                             " slots, which this thread gave back in a capture, are kept until "
                             "that has ended: end the capture first, or give a higher depth()",
                         where);
}

WARPWRIGHT_INLINE void transfer_core::grow(guard& lock) noexcept {
  grow_ = false;
  may_grow_ = false;  // nobody else meanwhile
  lock.unlock();
  bool added = false;
  try {
    added = ring_.add(false, where_);
  } catch (...) {  // it goes on with the slots that there are
  }
  lock.lock();
  if (!added) return;
  ring_.publish();
  workers_waited_ = false;
  may_grow_ = true;
  tell_all(work_);
  tell_all(ready_);
}

WARPWRIGHT_INLINE void transfer_core::grow_or_wait(guard& lock, bool lacks) noexcept {
  if (grow_) return grow(lock);
  workers_waited_ = workers_waited_ || lacks;
  std::uint64_t const since = monotonic_nanoseconds();
  wait(lock, work_);
  if (lacks) worker_wait_ += monotonic_nanoseconds() - since;
}

WARPWRIGHT_INLINE void transfer_core::begin_wait(guard& lock, waiting& self,
                                                 stream_ref stream) noexcept {
  if (self.since != 0) return;
  self.since = monotonic_nanoseconds();
  ++callers_waiting_;
  lock.unlock();
  self.was_idle = is_idle(stream);
  lock.lock();
}

WARPWRIGHT_INLINE bool transfer_core::end_wait(guard& lock, waiting const& self, stream_ref stream,
                                               bool got_slot) noexcept {
  std::uint64_t const since = self.since > first_call_time_ ? self.since : first_call_time_;
  // Waits before the first batch do not count, whoever of several callers ends one first.
  bool const counts = got_slot && first_call_time_ != 0;
  std::uint64_t const waited =
      counts ? (monotonic_nanoseconds() - since) / callers_waiting_ : std::uint64_t{0};
  --callers_waiting_;
  lock.unlock();
  bool const idle = is_idle(stream);
  lock.lock();
  caller_wait_ += waited;
  // When it became idle in between is not known.
  if (idle) starved_ += self.was_idle ? waited : waited / 2;
  return idle;
}

WARPWRIGHT_INLINE prefetch_statistics transfer_core::statistics() const noexcept {
  prefetch_statistics s;
  s.copy_bytes_per_second = ring_.bytes_per_second();
  guard const lock{mutex_};
  s.batches = batches_;
  s.bytes = bytes_;
  s.first_bytes = first_bytes_;
  s.source_bytes = user_bytes_;
  s.seconds = 1e-9 * static_cast<double>(last_call_time_ - first_call_time_);
  s.source_seconds = 1e-9 * static_cast<double>(user_time_);
  s.worker_wait_seconds = 1e-9 * static_cast<double>(worker_wait_);
  s.caller_wait_seconds = 1e-9 * static_cast<double>(caller_wait_);
  s.starved_seconds = 1e-9 * static_cast<double>(starved_);
  s.workers = threads_;
  s.depth = ring_.size();
  s.slot_bytes = ring_.slot_bytes();
  s.of_results = !ring_.to_device();
  return s;
}

}  // namespace detail

WARPWRIGHT_END
