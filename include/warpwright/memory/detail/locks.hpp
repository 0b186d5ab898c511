// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The locks of the memory module, on POSIX threads: <mutex>, <thread> and <condition_variable> are
// slow to compile, <pthread.h> costs next to nothing.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <pthread.h>
#include <sched.h>

WARPWRIGHT_BEGIN

namespace detail {

inline void pause_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// For sections of some tens of nanoseconds that make no call which may block; after a short spin
/// it gives the processor away, so that a holder that was descheduled gets on.
class spin_lock {
 public:
  WARPWRIGHT_ALWAYS_INLINE void lock() noexcept {
    if (__atomic_exchange_n(&taken_, true, __ATOMIC_ACQUIRE)) wait();
  }
  void unlock() noexcept { __atomic_store_n(&taken_, false, __ATOMIC_RELEASE); }

 private:
  // Out of line, for lock() is in every caller.
  WARPWRIGHT_COLD void wait() noexcept {
    do {
      for (int spins = 0; __atomic_load_n(&taken_, __ATOMIC_RELAXED); ++spins) {
        if (spins < 64) {
          pause_processor();
        } else {
          sched_yield();
        }
      }
    } while (__atomic_exchange_n(&taken_, true, __ATOMIC_ACQUIRE));
  }

  bool taken_ = false;  // the compiler's atomics: <atomic> is slow to compile
};

/// For sections that call CUDA or wait.
class blocking_mutex {
 public:
  blocking_mutex() noexcept = default;
  ~blocking_mutex() { pthread_mutex_destroy(&mutex_); }
  blocking_mutex(blocking_mutex const&) = delete;
  blocking_mutex& operator=(blocking_mutex const&) = delete;
  void lock() noexcept { pthread_mutex_lock(&mutex_); }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }

 private:
  friend class condition;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// A condition variable for blocking_mutex.
class condition {
 public:
  condition() noexcept = default;
  ~condition() { pthread_cond_destroy(&condition_); }
  condition(condition const&) = delete;
  condition& operator=(condition const&) = delete;
  void wait(blocking_mutex& mutex) noexcept { pthread_cond_wait(&condition_, &mutex.mutex_); }
  void notify_all() noexcept { pthread_cond_broadcast(&condition_); }

 private:
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

/// Holds a lock for a scope; unlock() and lock() open a window in it.
template <class Lock>
class held {
 public:
  explicit held(Lock& lock) noexcept : lock_{lock} { lock_.lock(); }
  ~held() {
    if (locked_) lock_.unlock();
  }
  held(held const&) = delete;
  held& operator=(held const&) = delete;
  [[nodiscard]] bool locked() const noexcept { return locked_; }
  void unlock() noexcept {
    locked_ = false;
    lock_.unlock();
  }
  void lock() noexcept {
    lock_.lock();
    locked_ = true;
  }

 private:
  Lock& lock_;
  bool locked_ = true;
};

}  // namespace detail

WARPWRIGHT_END
