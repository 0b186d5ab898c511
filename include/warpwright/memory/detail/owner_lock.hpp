// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/far_fence.hpp>
#include <warpwright/memory/detail/locks.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// A lock that costs one thread, its owner, two plain stores, and all others a system call.
///
/// Dekker's algorithm with the fence on one side: whoever is not the owner says that it wants the
/// lock and then has the kernel run a full fence on every thread of the process (far_fence).
/// After it, either the owner has seen the wish, or its entry is seen here. Where the kernel does
/// not offer that, the lock is always wanted, and the owner enters behind the others' lock.
class owner_lock {
 public:
  owner_lock() noexcept : wanted_{!has_far_fence}, shared_{wanted_} {}
  owner_lock(owner_lock const&) = delete;
  owner_lock& operator=(owner_lock const&) = delete;

  /// By the owner only.
  void enter() noexcept {
    __atomic_store_n(&inside_, true, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);  // the compiler keeps the order
    if (__atomic_load_n(&wanted_, __ATOMIC_SEQ_CST)) yield();
  }
  void leave() noexcept { __atomic_store_n(&inside_, false, __ATOMIC_RELEASE); }

  /// By anybody else.
  void lock() noexcept {
    others_.lock();
    __atomic_store_n(&wanted_, true, __ATOMIC_SEQ_CST);
    if (!shared_) far_fence();
    for (int spins = 0; __atomic_load_n(&inside_, __ATOMIC_SEQ_CST); ++spins) {
      if (spins < 64) {
        pause_processor();
      } else {
        sched_yield();
      }
    }
  }
  void unlock() noexcept {
    __atomic_store_n(&wanted_, shared_, __ATOMIC_RELEASE);
    others_.unlock();
  }

 private:
  WARPWRIGHT_COLD void yield() noexcept {
    leave();
    others_.lock();  // until whoever wants it is done
    __atomic_store_n(&inside_, true, __ATOMIC_RELAXED);
    others_.unlock();
    // Another one may have come between: it sees inside_, for its wish is behind others_'s lock.
  }

  bool inside_ = false;
  bool wanted_;
  bool shared_;  // no far_fence: as if others always wanted the lock
  spin_lock others_;
};

/// Holds an owner_lock for its owner.
class owner_held {
 public:
  explicit owner_held(owner_lock& lock) noexcept : lock_{lock} { lock_.enter(); }
  ~owner_held() { lock_.leave(); }
  owner_held(owner_held const&) = delete;
  owner_held& operator=(owner_held const&) = delete;

 private:
  owner_lock& lock_;
};

}  // namespace detail

WARPWRIGHT_END
