// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/thread/locks.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

constexpr std::uint64_t end_of_time = ~std::uint64_t{0};

/// @return when so many seconds have passed, in ns of CLOCK_MONOTONIC; end_of_time: never
inline std::uint64_t monotonic_after(double seconds) noexcept {
  if (!(seconds < 1e9)) return end_of_time;
  return monotonic_nanoseconds() + static_cast<std::uint64_t>(seconds > 0.0 ? seconds * 1e9 : 0.0);
}

/// Lets threads wait for a condition that others make true without this object's lock:
///
///   std::uint64_t const seen = changes.count();
///   if (!condition()) changes.wait(seen);  // who makes it true calls notify() then
class event_count {
 public:
  [[nodiscard]] std::uint64_t count() const noexcept { return count_.load(memory_order::seq_cst); }

  /// Wakes all that wait. **Cost:** some 10 ns where nobody waits.
  void notify() noexcept {
    static_cast<void>(count_.fetch_add(1, memory_order::seq_cst));
    if (waiters_.load(memory_order::seq_cst) == 0) return;
    { unique_lock<mutex> const lock{mutex_}; }
    changed_.notify_all();
  }
  /// Waits until count() is another one.
  /// @param until  a time of CLOCK_MONOTONIC, ns. @return false: that came first
  bool wait(std::uint64_t seen, std::uint64_t until = end_of_time) noexcept {
    static_cast<void>(waiters_.fetch_add(1, memory_order::seq_cst));
    {
      unique_lock<mutex> const lock{mutex_};
      while (count() == seen && (until == end_of_time || monotonic_nanoseconds() < until)) {
        until == end_of_time ? changed_.wait(mutex_) : changed_.wait_until(mutex_, until);
      }
    }
    static_cast<void>(waiters_.fetch_sub(1, memory_order::seq_cst));
    return count() != seen;
  }

 private:
  atomic<std::uint64_t> count_;
  atomic<unsigned> waiters_;
  mutex mutex_;
  condition_variable changed_;
};

}  // namespace detail

WARPWRIGHT_END
