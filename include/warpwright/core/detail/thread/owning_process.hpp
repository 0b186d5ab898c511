// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

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

}  // namespace detail

WARPWRIGHT_END
