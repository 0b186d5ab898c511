// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/asymmetric_fence.hpp>
#include <warpwright/core/detail/thread/locks.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// A lock that costs one thread, its owner, two plain stores, and every other thread a system call.
///
/// Dekker's algorithm with an asymmetric fence: a thread that is not the owner sets its request
/// flag and then runs a fence on every thread of the process. After the fence either the owner has
/// seen the request, or the owner's entry is visible here. Where the kernel has no such fence, the
/// request flag is always set, and the owner enters through the other threads' spin lock.
class owner_lock : noncopyable {
 public:
  owner_lock() noexcept = default;

  /// By the owner only.
  void lock_by_owner() noexcept {
    inside_.store(true, memory_order::relaxed);
    compiler_fence();
    if (requested_.load(memory_order::seq_cst)) lock_by_owner_contended();
  }
  void unlock_by_owner() noexcept { inside_.store(false, memory_order::release); }

  /// By any other thread.
  void lock() noexcept {
    others_.lock();
    requested_.store(true, memory_order::seq_cst);
    if (!always_requested_) asymmetric_fence();
    for (int step = 0; inside_.load(memory_order::seq_cst); ++step) spin_wait(step);
  }
  void unlock() noexcept {
    requested_.store(always_requested_, memory_order::release);
    others_.unlock();
  }

 private:
  WARPWRIGHT_COLD void lock_by_owner_contended() noexcept {
    unlock_by_owner();
    others_.lock();  // waits until the other thread has unlocked
    inside_.store(true, memory_order::relaxed);
    others_.unlock();
    // A third thread sees inside_: it sets its request after it has locked others_.
  }

  bool always_requested_ = !has_asymmetric_fence();
  atomic<bool> inside_;
  atomic<bool> requested_{always_requested_};
  spin_lock others_;
};

/// Holds an owner_lock for its owner until the end of the scope.
class owner_guard : noncopyable {
 public:
  explicit owner_guard(owner_lock& lock) noexcept : lock_{lock} { lock_.lock_by_owner(); }
  ~owner_guard() { lock_.unlock_by_owner(); }

 private:
  owner_lock& lock_;
};

}  // namespace detail

WARPWRIGHT_END
