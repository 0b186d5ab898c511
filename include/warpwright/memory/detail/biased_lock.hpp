// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/asymmetric_fence.hpp>
#include <warpwright/core/detail/locks.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// A spin lock biased towards the thread that takes it repeatedly: that thread executes no locked
/// instruction. The two locked instructions of a spin lock were most of the cost of a hit in a
/// pool's cache.
///
/// Dekker's algorithm with an asymmetric fence (as owner_lock): another thread revokes the bias
/// with one system call and waits until the biased thread has left the critical section. After that
/// all threads take the spin lock, until one thread has taken it often enough in a row: eight times
/// as often after each revocation, and never after the fourth. Each bias has an inside flag of its
/// own, because a thread that was descheduled between reading the bias and setting its flag may
/// resume when another thread has the next bias.
class biased_lock {
 public:
  biased_lock() noexcept = default;
  biased_lock(biased_lock const&) = delete;
  biased_lock& operator=(biased_lock const&) = delete;

  WARPWRIGHT_ALWAYS_INLINE void lock() noexcept {
    std::uintptr_t const self = this_thread();
    std::uintptr_t const bias = bias_.load(memory_order::relaxed);
    if (thread_of(bias) == self) {
      unsigned const number = number_of(bias);
      inside_[number].store(true, memory_order::relaxed);
      compiler_fence();
      if (bias_.load(memory_order::seq_cst) == bias) {
        locked_by_bias_ = static_cast<unsigned char>(number);
        return;
      }
      inside_[number].store(false, memory_order::release);
    }
    lock_unbiased(self);
  }
  WARPWRIGHT_ALWAYS_INLINE void unlock() noexcept {
    if (locked_by_bias_ != no_bias) {
      inside_[locked_by_bias_].store(false, memory_order::release);
    } else {
      spin_.unlock();
    }
  }

  /// As lock(), for a thread that rarely takes the lock: suspends the bias instead of revoking it.
  /// @return the argument for unlock_restoring_bias()
  [[nodiscard]] std::uintptr_t lock_keeping_bias() noexcept {
    spin_.lock();
    std::uintptr_t const bias = bias_.load(memory_order::relaxed);
    if (bias != no_thread) revoke_bias();
    locked_by_bias_ = no_bias;
    return bias;
  }
  void unlock_restoring_bias(std::uintptr_t bias) noexcept {
    bias_.store(bias, memory_order::release);
    spin_.unlock();
  }

 private:
  static constexpr unsigned maximum_biases = 4;
  static constexpr unsigned char no_bias = maximum_biases;
  static constexpr std::uintptr_t no_thread = 0;

  // A bias is a thread, with the number of the bias in the last two bits.
  static std::uintptr_t thread_of(std::uintptr_t bias) noexcept {
    return bias & ~std::uintptr_t{maximum_biases - 1};
  }
  static unsigned number_of(std::uintptr_t bias) noexcept {
    return static_cast<unsigned>(bias & (maximum_biases - 1));
  }
  // The address of the thread's control block, whose last bits are 0. A new thread may reuse the
  // address of one that has ended, and then has its bias. Volatile, because a fibre may resume on
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

  WARPWRIGHT_NOINLINE void lock_unbiased(std::uintptr_t self) noexcept {
    spin_.lock();
    std::uintptr_t const bias = bias_.load(memory_order::relaxed);
    if (bias != no_thread && thread_of(bias) == self) {  // restored by unlock_restoring_bias()
      locked_by_bias_ = no_bias;
      return;
    }
    if (bias != no_thread) {
      revoke_bias();
      ++revocations_;
    }
    locked_by_bias_ = no_bias;
    // Two threads with the same hash only delay the next bias.
    auto const hash = static_cast<std::uint16_t>(self >> 6U ^ self >> 22U);
    if (last_thread_hash_ != hash) {
      last_thread_hash_ = hash;
      locks_in_a_row_ = 0;
    } else if (revocations_ < maximum_biases && ++locks_in_a_row_ == 64U << 3U * revocations_ &&
               has_asymmetric_fence) {
      locks_in_a_row_ = 0;
      bias_.store(self | revocations_, memory_order::relaxed);  // from the next lock() on
    }
  }
  // Takes the bias back and waits until its thread has left the critical section.
  WARPWRIGHT_COLD void revoke_bias() noexcept {
    atomic<bool> const& inside = inside_[number_of(bias_.load(memory_order::relaxed))];
    bias_.store(no_thread, memory_order::seq_cst);
    asymmetric_fence();
    for (int step = 0; inside.load(memory_order::seq_cst); ++step) spin_wait(step);
  }

  atomic<std::uintptr_t> bias_;             // written under spin_
  atomic<bool> inside_[maximum_biases];     // per bias: its thread is, or may be, inside
  unsigned char locked_by_bias_ = no_bias;  // number of the bias by which the lock is held
  unsigned char revocations_ = 0;           // this and all below: guarded by spin_
  spin_lock spin_;
  std::uint16_t last_thread_hash_ = 0;
  std::uint16_t locks_in_a_row_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
