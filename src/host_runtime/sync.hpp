// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The one lock of the runtime, and what it tells ThreadSanitizer. The lock orders the runtime's own
// data, but it must not order the user's: a CUDA program with a missing event wait is wrong even
// when our lock happened to serialise it. So ThreadSanitizer is told to ignore the lock, and gets
// exactly the edges that CUDA promises (enqueue to run, completion to synchronise) by release() and
// acquire().
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__SANITIZE_THREAD__)
#define WARPWRIGHT_HOST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WARPWRIGHT_HOST_TSAN 1
#endif
#endif
#ifndef WARPWRIGHT_HOST_TSAN
#define WARPWRIGHT_HOST_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define WARPWRIGHT_HOST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WARPWRIGHT_HOST_ASAN 1
#endif
#endif
#ifndef WARPWRIGHT_HOST_ASAN
#define WARPWRIGHT_HOST_ASAN 0
#endif

#if WARPWRIGHT_HOST_TSAN
extern "C" {
void AnnotateIgnoreSyncBegin(char const* file, int line);
void AnnotateIgnoreSyncEnd(char const* file, int line);
void AnnotateIgnoreReadsBegin(char const* file, int line);
void AnnotateIgnoreReadsEnd(char const* file, int line);
void AnnotateIgnoreWritesBegin(char const* file, int line);
void AnnotateIgnoreWritesEnd(char const* file, int line);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace warpwright::host {

#if WARPWRIGHT_HOST_TSAN
inline thread_local int blind_depth = 0;

inline void begin_blind() noexcept {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  ++blind_depth;
}
inline void end_blind() noexcept {
  --blind_depth;
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
inline void begin_blind() noexcept {}
inline void end_blind() noexcept {}
#endif

/// Before an exit from inside of a race_blind.
inline void end_all_blind() noexcept {
#if WARPWRIGHT_HOST_TSAN
  while (blind_depth > 0) end_blind();
#endif
}

/// While one lives, ThreadSanitizer neither checks this thread's accesses nor learns order from
/// them.
class race_blind {
 public:
  race_blind() noexcept { begin_blind(); }
  ~race_blind() { end_blind(); }
  race_blind(race_blind const&) = delete;
  race_blind& operator=(race_blind const&) = delete;
};

/// "Whatever this thread did so far is visible to who acquires `token` later." Counts inside of
/// race_blind as well.
inline void release(void* token) noexcept {
#if WARPWRIGHT_HOST_TSAN
  for (int i = 0; i < blind_depth; ++i) AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  __tsan_release(token);
  for (int i = 0; i < blind_depth; ++i) AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#else
  (void)token;
#endif
}

inline void acquire(void* token) noexcept {
#if WARPWRIGHT_HOST_TSAN
  for (int i = 0; i < blind_depth; ++i) AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  __tsan_acquire(token);
  for (int i = 0; i < blind_depth; ++i) AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#else
  (void)token;
#endif
}

/// Holds the runtime's mutex for a scope. unlocked() runs user code in between.
class runtime_lock {
 public:
  explicit runtime_lock(std::mutex& mutex) : lock_(mutex) {}
  std::unique_lock<std::mutex>& native() noexcept { return lock_; }

 private:
  race_blind blind_;  // first in, last out: covers the lock's own synchronisation
  std::unique_lock<std::mutex> lock_;
};

}  // namespace warpwright::host
