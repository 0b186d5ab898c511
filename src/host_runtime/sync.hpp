// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The runtime's lock, and its annotations for ThreadSanitizer. The lock protects the runtime's
// data, but it must not order the program's accesses: a missing event wait is a race even if the
// lock happens to serialise the accesses. ThreadSanitizer therefore ignores the lock; release() and
// acquire() add the happens-before edges that CUDA guarantees (enqueue to execution, completion to
// synchronisation).
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
inline thread_local int tsan_ignore_depth = 0;

inline void begin_tsan_ignore() noexcept {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  ++tsan_ignore_depth;
}
inline void end_tsan_ignore() noexcept {
  --tsan_ignore_depth;
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
inline void begin_tsan_ignore() noexcept {}
inline void end_tsan_ignore() noexcept {}
#endif

/// Call this before an exit within a tsan_ignore_scope.
inline void end_all_tsan_ignore() noexcept {
#if WARPWRIGHT_HOST_TSAN
  while (tsan_ignore_depth > 0) end_tsan_ignore();
#endif
}

/// For its lifetime, ThreadSanitizer neither checks this thread's accesses nor derives
/// happens-before edges from its synchronisation.
class tsan_ignore_scope {
 public:
  tsan_ignore_scope() noexcept { begin_tsan_ignore(); }
  ~tsan_ignore_scope() { end_tsan_ignore(); }
  tsan_ignore_scope(tsan_ignore_scope const&) = delete;
  tsan_ignore_scope& operator=(tsan_ignore_scope const&) = delete;
};

/// Adds a happens-before edge from this point to a later acquire() of the same token, also within a
/// tsan_ignore_scope.
inline void release(void* token) noexcept {
#if WARPWRIGHT_HOST_TSAN
  for (int i = 0; i < tsan_ignore_depth; ++i) AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  __tsan_release(token);
  for (int i = 0; i < tsan_ignore_depth; ++i) AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#else
  (void)token;
#endif
}

inline void acquire(void* token) noexcept {
#if WARPWRIGHT_HOST_TSAN
  for (int i = 0; i < tsan_ignore_depth; ++i) AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  __tsan_acquire(token);
  for (int i = 0; i < tsan_ignore_depth; ++i) AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#else
  (void)token;
#endif
}

/// Holds the runtime's mutex for a scope.
class runtime_lock {
 public:
  explicit runtime_lock(std::mutex& mutex) : lock_(mutex) {}
  std::unique_lock<std::mutex>& native() noexcept { return lock_; }

 private:
  tsan_ignore_scope
      tsan_ignore_;  // constructed first, destroyed last: covers the lock's synchronisation
  std::unique_lock<std::mutex> lock_;
};

}  // namespace warpwright::host
