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
/// that was ended, and never after the fourth. Each favour has a flag of its own, as a thread may
/// be held up between its look at the favour and its flag, until somebody else has the next one.
class biased_lock {
 public:
  biased_lock() noexcept = default;
  biased_lock(biased_lock const&) = delete;
  biased_lock& operator=(biased_lock const&) = delete;

  WARPWRIGHT_ALWAYS_INLINE void lock() noexcept {
    std::uintptr_t const me = this_thread();
    std::uintptr_t const seen = __atomic_load_n(&favour_, __ATOMIC_RELAXED);
    if (thread_of(seen) == me) {
      unsigned const number = number_of(seen);
      __atomic_store_n(inside_ + number, true, __ATOMIC_RELAXED);
      __atomic_signal_fence(__ATOMIC_SEQ_CST);  // the compiler keeps the order
      if (__atomic_load_n(&favour_, __ATOMIC_SEQ_CST) == seen) {
        held_by_ = static_cast<unsigned char>(number);
        return;
      }
      __atomic_store_n(inside_ + number, false, __ATOMIC_RELEASE);
    }
    lock_as_any(me);
  }
  WARPWRIGHT_ALWAYS_INLINE void unlock() noexcept {
    if (held_by_ != anyone) {
      __atomic_store_n(inside_ + held_by_, false, __ATOMIC_RELEASE);
    } else {
      any_.unlock();
    }
  }

  /// As lock(), by a thread that comes seldom: the favour stays.
  /// @return what unlock_in_passing() wants
  [[nodiscard]] std::uintptr_t lock_in_passing() noexcept {
    any_.lock();
    std::uintptr_t const favour = favour_;
    if (favour != nobody) send_out();
    held_by_ = anyone;
    return favour;
  }
  void unlock_in_passing(std::uintptr_t favour) noexcept {
    __atomic_store_n(&favour_, favour, __ATOMIC_RELEASE);
    any_.unlock();
  }

 private:
  static constexpr unsigned most_favours = 4;
  static constexpr unsigned char anyone = most_favours;
  static constexpr std::uintptr_t nobody = 0;

  // A favour is its thread, with its number in the last two bits.
  static std::uintptr_t thread_of(std::uintptr_t favour) noexcept {
    return favour & ~std::uintptr_t{most_favours - 1};
  }
  static unsigned number_of(std::uintptr_t favour) noexcept {
    return static_cast<unsigned>(favour & (most_favours - 1));
  }
  // The address of the thread's own data, of which the last bits are 0: a thread that starts when
  // another has ended may inherit it, and with it the favour. Volatile, as a fibre may go on in
  // another thread between two calls.
  WARPWRIGHT_ALWAYS_INLINE static std::uintptr_t this_thread() noexcept {
    std::uintptr_t thread;
#if defined(__x86_64__) && defined(__LP64__) && defined(__linux__)
    asm volatile("movq %%fs:0, %0" : "=r"(thread));
#elif defined(__aarch64__) && defined(__linux__)
    asm volatile("mrs %0, tpidr_el0" : "=r"(thread));
#else
    thread = (std::uintptr_t)pthread_self() << 2U;
#endif
    return thread;
  }

  WARPWRIGHT_NOINLINE void lock_as_any(std::uintptr_t me) noexcept {
    any_.lock();
    if (favour_ != nobody && thread_of(favour_) != me) {
      send_out();
      ++favours_ended_;
    }
    held_by_ = anyone;
    if (favour_ != nobody) return;  // this thread's: somebody was in passing
    // Two threads alike in these bits take longer to be told apart, and nothing else.
    auto const trace = static_cast<std::uint16_t>(me >> 6U ^ me >> 22U);
    if (last_ != trace) {
      last_ = trace;
      in_a_row_ = 0;
    } else if (favours_ended_ < most_favours && ++in_a_row_ == 64U << 3U * favours_ended_ &&
               has_far_fence) {
      in_a_row_ = 0;
      // From the next time on.
      __atomic_store_n(&favour_, me | favours_ended_, __ATOMIC_RELAXED);
    }
  }
  // Takes the favour back, and returns once its thread is outside.
  WARPWRIGHT_COLD void send_out() noexcept {
    bool const* const inside = inside_ + number_of(favour_);
    __atomic_store_n(&favour_, nobody, __ATOMIC_SEQ_CST);
    far_fence();
    for (int spins = 0; __atomic_load_n(inside, __ATOMIC_SEQ_CST); ++spins) {
      if (spins < 64) {
        pause_processor();
      } else {
        sched_yield();
      }
    }
  }

  std::uintptr_t favour_ = nobody;   // changes under any_
  bool inside_[most_favours] = {};   // of each favour: its thread is, or looks whether it may be
  unsigned char held_by_ = anyone;   // the number of the favour by which the lock is held
  unsigned char favours_ended_ = 0;  // from here on guarded by any_
  spin_lock any_;
  std::uint16_t last_ = 0;
  std::uint16_t in_a_row_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
