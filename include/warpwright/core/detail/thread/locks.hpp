// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Locks and a condition variable on POSIX threads: <mutex> and <condition_variable> are slow to
// compile.
#pragma once

#include <warpwright/core/detail/thread/atomic.hpp>

#include <cstdint>

#include <pthread.h>
#include <sched.h>
#include <time.h>

WARPWRIGHT_BEGIN

namespace detail {

/// Tells the processor that this thread waits in a loop.
inline void pause_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// One step of a wait loop: pauses for the first 64 steps, then yields the processor, so that a
/// descheduled lock holder can run.
inline void spin_wait(int step) noexcept {
  if (step < 64) {
    pause_processor();
  } else {
    sched_yield();
  }
}

/// A test-and-test-and-set lock for critical sections of tens of nanoseconds.
///
/// Not recursive: a second lock() by the holder never returns. Do not call CUDA, allocate or wait
/// while it is held.
class spin_lock {
 public:
  WARPWRIGHT_ALWAYS_INLINE void lock() noexcept {
    if (locked_.exchange(true, memory_order::acquire)) lock_contended();
  }
  /// @pre held by the caller
  void unlock() noexcept { locked_.store(false, memory_order::release); }

 private:
  // Out of line, since lock() is inlined into every caller.
  WARPWRIGHT_COLD void lock_contended() noexcept {
    do {
      for (int step = 0; locked_.load(memory_order::relaxed); ++step) spin_wait(step);
    } while (locked_.exchange(true, memory_order::acquire));
  }

  atomic<bool> locked_;
};

/// A mutex that blocks its waiters, for critical sections that call CUDA or wait.
///
/// Not recursive: a second lock() by the holder never returns.
class mutex {
 public:
  mutex() noexcept = default;
  /// @pre not locked
  ~mutex() { pthread_mutex_destroy(&mutex_); }
  mutex(mutex const&) = delete;
  mutex& operator=(mutex const&) = delete;
  void lock() noexcept { pthread_mutex_lock(&mutex_); }
  /// @return whether the caller holds it now
  [[nodiscard]] bool try_lock() noexcept { return pthread_mutex_trylock(&mutex_) == 0; }
  /// @pre held by the caller
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }

 private:
  friend class condition_variable;
  pthread_mutex_t mutex_{};  // all zero, as PTHREAD_MUTEX_INITIALIZER
};

/// A condition variable for mutex.
class condition_variable {
 public:
  condition_variable() noexcept {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);  // for wait_until()
    pthread_cond_init(&condition_, &attributes);
    pthread_condattr_destroy(&attributes);
  }
  /// @pre no thread waits
  ~condition_variable() { pthread_cond_destroy(&condition_); }
  condition_variable(condition_variable const&) = delete;
  condition_variable& operator=(condition_variable const&) = delete;

  /// Unlocks `locked`, waits for a notification and locks it again. May return without a
  /// notification: call it in a loop that tests the condition.
  /// @pre `locked` is held by the caller
  void wait(mutex& locked) noexcept { pthread_cond_wait(&condition_, &locked.mutex_); }
  /// As wait(), and returns at the latest at a time of CLOCK_MONOTONIC.
  /// @param nanoseconds  as of monotonic_nanoseconds()
  void wait_until(mutex& locked, std::uint64_t nanoseconds) noexcept {
    timespec at{};
    at.tv_sec = static_cast<time_t>(nanoseconds / 1000000000U);
    at.tv_nsec = static_cast<long>(nanoseconds % 1000000000U);
    pthread_cond_timedwait(&condition_, &locked.mutex_, &at);
  }
  /// Wakes one waiting thread.
  void notify_one() noexcept { pthread_cond_signal(&condition_); }
  /// Wakes all waiting threads.
  void notify_all() noexcept { pthread_cond_broadcast(&condition_); }

 private:
  pthread_cond_t condition_;
};

/// Holds a lock until the end of the scope; can be unlocked and locked in between.
template <class Lock>
class unique_lock {
 public:
  explicit unique_lock(Lock& lock) noexcept : lock_{lock} { lock_.lock(); }
  /// @param may_wait  if not, owns_lock() says whether nobody else held the lock
  unique_lock(Lock& lock, bool may_wait) noexcept : lock_{lock} {
    may_wait ? lock_.lock() : static_cast<void>(owns_lock_ = lock_.try_lock());
  }
  ~unique_lock() {
    if (owns_lock_) lock_.unlock();
  }
  unique_lock(unique_lock const&) = delete;
  unique_lock& operator=(unique_lock const&) = delete;

  [[nodiscard]] bool owns_lock() const noexcept { return owns_lock_; }
  /// @pre !owns_lock(): locking twice never returns
  void lock() noexcept {
    lock_.lock();
    owns_lock_ = true;
  }
  /// @pre owns_lock(): unlocking twice releases a lock that another thread may hold
  void unlock() noexcept {
    owns_lock_ = false;
    lock_.unlock();
  }

 private:
  Lock& lock_;
  bool owns_lock_ = true;
};

}  // namespace detail

WARPWRIGHT_END
