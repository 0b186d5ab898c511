// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>
#include <warpwright/core/detail/noncopyable.hpp>

#include <unistd.h>

WARPWRIGHT_BEGIN

namespace detail {

/// The process that made an object. The child of a fork() has the object without its threads, and
/// without CUDA.
class owning_process {
 public:
  /// Remembers the calling process.
  owning_process() noexcept : id_{getpid()} {}
  /// @return false in a child of fork()
  [[nodiscard]] bool is_current() const noexcept { return getpid() == id_; }

 private:
  pid_t id_;
};

/// An object that only the process that made it destroys. In the child of a fork() its destructor
/// would wait for threads that are not there, and for locks that they held.
template <class T>
class process_bound : noncopyable {
 public:
  template <class... Args>
  explicit process_bound(Args&&... args) : object_{static_cast<Args&&>(args)...} {}
  ~process_bound() {
    if (is_current()) object_.~T();
  }

  /// @return false in a child of fork()
  [[nodiscard]] bool is_current() const noexcept { return process_.is_current(); }
  [[nodiscard]] T& operator*() noexcept { return object_; }
  [[nodiscard]] T* operator->() noexcept { return &object_; }
  [[nodiscard]] T const* operator->() const noexcept { return &object_; }

 private:
  owning_process process_;
  union {
    T object_;
  };
};

}  // namespace detail

WARPWRIGHT_END
