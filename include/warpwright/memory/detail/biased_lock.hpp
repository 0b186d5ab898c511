// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/far_fence.hpp>
#include <warpwright/memory/detail/locks.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// A spin lock that leans towards a thread that takes it time after time: that one pays no locked
/// instruction, of which two were most of what a hit in a pool's cache took.
///
/// As owner_lock, by Dekker's algorithm with the fence on one side: another thread ends the favour
/// with one system call (far_fence) and waits until the favourite is out. From then on all spin,
/// until one thread has come often enough in a row again: eight times as often after each favour
/// that was ended, and never after the fourth.
class biased_lock {
 public:
  biased_lock() noexcept = default;
  biased_lock(biased_lock const&) = delete;
  biased_lock& operator=(biased_lock const&) = delete;

  WARPWRIGHT_ALWAYS_INLINE void lock() noexcept {
    std::uintptr_t const me = this_thread();
    if (__atomic_load_n(&favourite_, __ATOMIC_RELAXED) == me) {
      __atomic_store_n(&inside_, true, __ATOMIC_RELAXED);
      __atomic_signal_fence(__ATOMIC_SEQ_CST);  // the compiler keeps the order
      if (__atomic_load_n(&favourite_, __ATOMIC_SEQ_CST) == me) {
        favoured_ = true;
        return;
      }
      __atomic_store_n(&inside_, false, __ATOMIC_RELEASE);
    }
    lock_as_any(me);
  }
  WARPWRIGHT_ALWAYS_INLINE void unlock() noexcept {
    if (favoured_) {
      __atomic_store_n(&inside_, false, __ATOMIC_RELEASE);
    } else {
      any_.unlock();
    }
  }

 private:
  // The address of the thread's own data: one that starts when another has ended may inherit it,
  // and with it the favour.
  WARPWRIGHT_ALWAYS_INLINE static std::uintptr_t this_thread() noexcept {
    std::uintptr_t thread;
#if defined(__x86_64__) && defined(__LP64__) && defined(__linux__)
    asm("movq %%fs:0, %0" : "=r"(thread));
#elif defined(__aarch64__) && defined(__linux__)
    asm("mrs %0, tpidr_el0" : "=r"(thread));
#else
    thread = (std::uintptr_t)pthread_self();
#endif
    return thread;
  }

  WARPWRIGHT_NOINLINE void lock_as_any(std::uintptr_t me) noexcept {
    any_.lock();
    if (favourite_ != nobody && favourite_ != me) end_favour();
    favoured_ = false;
    // Two threads alike in these bits take longer to be told apart, and nothing else.
    auto const trace = static_cast<std::uint16_t>(me >> 6U ^ me >> 22U);
    if (last_ != trace) {
      last_ = trace;
      in_a_row_ = 0;
    } else if (favours_ended_ < 4 && ++in_a_row_ == 64U << 3U * favours_ended_ && has_far_fence) {
      in_a_row_ = 0;
      __atomic_store_n(&favourite_, me, __ATOMIC_RELAXED);  // from the next time on
    }
  }
  WARPWRIGHT_COLD void end_favour() noexcept {
    __atomic_store_n(&favourite_, nobody, __ATOMIC_SEQ_CST);
    far_fence();
    for (int spins = 0; __atomic_load_n(&inside_, __ATOMIC_SEQ_CST); ++spins) {
      if (spins < 64) {
        pause_processor();
      } else {
        sched_yield();
      }
    }
    ++favours_ended_;
  }

  static constexpr std::uintptr_t nobody = 0;
  std::uintptr_t favourite_ = nobody;  // changes under any_
  bool inside_ = false;                // the favourite is
  bool favoured_ = false;              // who holds the lock holds it as the favourite
  spin_lock any_;
  unsigned char favours_ended_ = 0;
  std::uint16_t last_ = 0;
  std::uint16_t in_a_row_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
