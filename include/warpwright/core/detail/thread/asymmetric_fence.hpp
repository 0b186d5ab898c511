// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The expensive side of an asymmetric fence: one thread runs a fence on all threads of the process,
// so that the others need only a compiler_fence().
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstdlib>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

WARPWRIGHT_BEGIN

namespace detail {

// Commands of membarrier(2); <linux/membarrier.h> is not installed everywhere.
constexpr int membarrier_private_expedited = 1 << 3;
constexpr int membarrier_register_private_expedited = 1 << 4;

/// @return 0 on success, otherwise -1
inline long membarrier([[maybe_unused]] int command) noexcept {
#if defined(__linux__) && defined(SYS_membarrier)
  return syscall(SYS_membarrier, command, 0, 0);
#else
  return -1;
#endif
}

/// Whether asymmetric_fence() works. The first call registers the process: 1 us in a process with
/// one thread, up to 30 ms in one with several.
inline bool has_asymmetric_fence() noexcept {
  static bool const registered = membarrier(membarrier_register_private_expedited) == 0;
  return registered;
}

/// Executes a sequentially consistent fence on every running thread of the process.
/// @pre has_asymmetric_fence()
inline void asymmetric_fence() noexcept {
  if (membarrier(membarrier_private_expedited) == 0) return;
  // The registration was lost, or a sandbox forbids the call by now. Without the fence two threads
  // could enter one critical section.
  if (membarrier(membarrier_register_private_expedited) != 0 ||
      membarrier(membarrier_private_expedited) != 0) {
    std::abort();
  }
}

}  // namespace detail

WARPWRIGHT_END
