// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads of the library itself, on POSIX threads: <thread> is slow to compile.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cerrno>

#include <pthread.h>
#include <signal.h>

WARPWRIGHT_BEGIN

namespace detail {

/// A thread that runs one member function and blocks all signals, which the application's own
/// threads handle. Its destructor joins it.
class thread {
 public:
  thread() noexcept = default;
  /// Waits until the thread has ended; never returns if its function does not return.
  ~thread() { join(); }
  thread(thread const&) = delete;
  thread& operator=(thread const&) = delete;

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

}  // namespace detail

WARPWRIGHT_END
