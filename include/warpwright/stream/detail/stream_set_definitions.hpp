// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/stream/detail/stream_set.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

// A sticky error leaves a stream as it is: no call can tell any more.
inline bool is_part_of_capture(stream const& stream) noexcept {
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  cudaError_t const status = discard(cudaStreamIsCapturing(stream.get(), &state));
  return status == cudaSuccess ? state != cudaStreamCaptureStatusNone : !is_sticky(status);
}

inline void exchange_streams(stream& a, stream& b) noexcept {
  stream before{static_cast<stream&&>(a)};
  a = static_cast<stream&&>(b);
  b = static_cast<stream&&>(before);
}

WARPWRIGHT_INLINE stream_set::stream_set(device_id device, int priority, unsigned maximum)
    : device_{device}, priority_{priority}, max_streams_{maximum} {
  unsigned at = 0;
  for (position& each : positions_) {
    each.home = at;
    at = (at + maximum / 2 + 1) % maximum;  // apart from each other
  }
  streams_.reserve(maximum);
  parked_.reserve(maximum);
}

WARPWRIGHT_INLINE stream_set::~stream_set() {
  for (pooled_stream const& each : streams_) {
    if (each.event != nullptr) discard(cudaEventDestroy(each.event));
  }
}

WARPWRIGHT_INLINE void stream_set::create(unsigned count, source_location where) {
  unique_lock<mutex> lock{mutex_};
  for (unsigned i = 0; i < count; ++i) free(grow(lock, where));
}

WARPWRIGHT_INLINE unsigned stream_set::grow(unique_lock<mutex>& lock, source_location where) {
  ++creating_;
  lock.unlock();  // others may return streams meanwhile
  try {
    relaxed_capture_mode const allowed{where};
    warpwright::stream fresh{device_, priority_, where};
    lock.lock();
    --creating_;
    auto const index = static_cast<unsigned>(streams_.size());
    streams_.emplace_back(static_cast<warpwright::stream&&>(fresh));
    created_.store(index + 1, memory_order::release);
    return index;
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    --creating_;
    // It waits because this stream was to be the last: it may try to create it itself.
    if (first_waiter_ != nullptr) first_waiter_->wake.notify_one();
    throw;
  }
}

WARPWRIGHT_INLINE unsigned stream_set::take_or_wait(std::uint64_t until, source_location where) {
  unique_lock<mutex> lock{mutex_};
  waiter self;
  bool queued = false;
  for (;;) {
    serve_first();
    if (self.index != none) break;
    if (first_waiter_ == nullptr || first_waiter_ == &self) {
      if (free_parked()) continue;
      unsigned const index = queued ? none : take_free();
      if (index != none) return index;
      if (created() + creating_ < max_streams_) {
        if (queued) leave_queue(self);
        return grow(lock, where);
      }
    }
    if (until == 0 || (until != for_ever && monotonic_nanoseconds() >= until)) {
      if (queued) leave_queue(self);
      break;
    }
    if (!queued) {
      (first_waiter_ == nullptr ? first_waiter_ : last_waiter_->next) = &self;
      last_waiter_ = &self;
      queued = true;
      waiters_.fetch_add(1, memory_order::seq_cst);  // who frees a stream after this serves it
      continue;
    }
    if (!parked_.empty() && first_waiter_ == &self) {  // the end of their captures wakes nobody
      constexpr std::uint64_t often = 1000000;         // ns
      std::uint64_t const soon = monotonic_nanoseconds() + often;
      self.wake.wait_until(mutex_, soon < until ? soon : until);
    } else if (until == for_ever) {
      self.wake.wait(mutex_);
    } else {
      self.wake.wait_until(mutex_, until);
    }
  }
  return self.index;
}

WARPWRIGHT_INLINE void stream_set::leave_queue(waiter& self) noexcept {
  waiter* before = nullptr;
  for (waiter* at = first_waiter_; at != &self; at = at->next) before = at;
  (before == nullptr ? first_waiter_ : before->next) = self.next;
  if (last_waiter_ == &self) last_waiter_ = before;
  // The first one looks after streams whose captures end, and creates those that others could not:
  // of that only the first one before may have been told.
  if (before == nullptr && first_waiter_ != nullptr &&
      (!parked_.empty() || created() + creating_ < max_streams_)) {
    first_waiter_->wake.notify_one();
  }
  waiters_.fetch_sub(1, memory_order::relaxed);
}

WARPWRIGHT_INLINE void stream_set::serve_first() noexcept {
  while (first_waiter_ != nullptr) {
    unsigned const index = take_free();
    if (index == none) return;
    waiter& first = *first_waiter_;
    leave_queue(first);
    first.index = index;
    first.wake.notify_one();  // with the mutex held: the waiter ends when it has it
  }
}

WARPWRIGHT_COLD WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void stream_set::serve() noexcept {
  unique_lock<mutex> const lock{mutex_};
  serve_first();
}

WARPWRIGHT_INLINE cudaEvent_t stream_set::event(unsigned index, source_location where) {
  cudaEvent_t& event = streams_[index].event;
  if (event == nullptr) {
    scoped_device const scope{device_, where};
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags",
          where);
  }
  return event;
}

WARPWRIGHT_INLINE unsigned stream_set::available() const noexcept {
  unsigned count = 0;
  for (unsigned i = 0; i < created(); ++i) {
    if (!streams_[i].leased.load(memory_order::relaxed)) ++count;
  }
  return count;
}

WARPWRIGHT_INLINE void stream_set::list(array<stream_ref>& all) const {
  unique_lock<mutex> const lock{mutex_};
  all.reserve(all.size() + streams_.size() + replaced_.size());
  for (unsigned i = 0; i < streams_.size(); ++i) {
    bool parked = false;
    for (unsigned const index : parked_) parked = parked || index == i;
    if (!parked || !is_part_of_capture(streams_[i].owner)) all.push_back(streams_[i].owner.ref());
  }
  for (warpwright::stream const& each : replaced_) {
    if (!is_part_of_capture(each)) all.push_back(each.ref());
  }
}

/// The next user's work would become a part of the capture.
/// @return false if no other stream can take its place: it is free when the capture has ended
WARPWRIGHT_COLD WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE bool stream_set::replace_if_capturing(
    unsigned index) noexcept {
  warpwright::stream& returned = streams_[index].owner;
  if (!is_part_of_capture(returned)) return true;
  unique_lock<mutex> const lock{mutex_};
  for (warpwright::stream& each : replaced_) {
    if (is_part_of_capture(each)) continue;
    exchange_streams(each, returned);
    return true;
  }
  try {
    replaced_.reserve(replaced_.size() + 1);
    relaxed_capture_mode const allowed;
    warpwright::stream fresh{device_, priority_};
    exchange_streams(fresh, returned);
    replaced_.emplace_back(static_cast<warpwright::stream&&>(fresh));
    return true;
  } catch (...) {
    parked_.push_back(index);  // has capacity
    if (first_waiter_ != nullptr) first_waiter_->wake.notify_one();
    return false;
  }
}

/// Frees the streams whose captures have ended.
/// @return whether there were any
WARPWRIGHT_INLINE bool stream_set::free_parked() noexcept {
  std::size_t kept = 0;
  std::size_t const before = parked_.size();
  for (unsigned const index : parked_) {
    if (is_part_of_capture(streams_[index].owner)) {
      parked_[kept++] = index;
    } else {
      free(index);
    }
  }
  while (parked_.size() > kept) parked_.pop_back();
  return kept != before;
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
