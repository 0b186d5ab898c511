// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads of the library itself, on POSIX threads: <thread> is slow to compile.
#pragma once

#include <warpwright/core/detail/config.hpp>
#include <warpwright/core/detail/noncopyable.hpp>

#include <cerrno>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// A thread that runs one member function and blocks all signals, which the application's own
/// threads handle. Its destructor joins it.
class thread : noncopyable {
 public:
  /// Waits until the thread has ended; never returns if its function does not return.
  ~thread() { join(); }

  /// Starts `(object.*Run)()`, which must be noexcept.
  /// @pre object outlives the thread
  /// @return 0; EBUSY when this object has a thread already; otherwise pthread_create()'s error, as
  ///   EAGAIN when the system allows no further thread
  template <auto Run, class Object>
  [[nodiscard]] int start(Object& object) noexcept {
    static_assert(noexcept((object.*Run)()), "thread: the function must be noexcept");
    if (joinable_) return EBUSY;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // a new thread inherits the mask
    int const error = pthread_create(&thread_, nullptr, &entry<Run, Object>, &object);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    joinable_ = error == 0;
    return error;
  }

  [[nodiscard]] bool joinable() const noexcept { return joinable_; }
  /// Waits until the thread has ended. Does nothing without a thread.
  /// @pre not called by the thread itself
  void join() noexcept {
    if (!joinable_) return;
    pthread_join(thread_, nullptr);
    joinable_ = false;
  }

 private:
  template <auto Run, class Object>
  static void* entry(void* object) noexcept {
    (static_cast<Object*>(object)->*Run)();
    return nullptr;
  }

  pthread_t thread_{};
  bool joinable_ = false;
};

/// The number of processors that the calling thread may run on, from 1 to `most`; `most` where the
/// system does not say.
inline unsigned allowed_processors(unsigned most) noexcept {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return most;
  int const count = CPU_COUNT(&allowed);
  if (count < 1) return 1;
  return static_cast<unsigned>(count) < most ? static_cast<unsigned>(count) : most;
}

/// A number below `1 << Bits`, a different one for most threads that exist at once.
///
/// A thread is named by an address in its stack. Stacks are regular distances apart, but which ones
/// differs between systems: with huge pages and heaps between them it is a multiple of 64 pages, so
/// that the page's low bits would be the same for all. Multiples of the golden ratio spread any.
template <unsigned Bits>
unsigned thread_slot(pthread_t thread) noexcept {
  std::uint64_t const address = thread;
  return static_cast<unsigned>(((address >> 12U) * 0x9e3779b97f4a7c15ULL) >> (64U - Bits));
}

}  // namespace detail

WARPWRIGHT_END
