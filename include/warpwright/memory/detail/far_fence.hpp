// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A fence on every thread of the process, so that locks may spare the threads that take them often
// one of their own.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstdlib>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

WARPWRIGHT_BEGIN

namespace detail {

inline long membarrier([[maybe_unused]] int command) noexcept {
#if defined(__linux__) && defined(SYS_membarrier)
  return syscall(SYS_membarrier, command, 0, 0);
#else
  return -1;
#endif
}

/// Whether there is a far_fence(). The kernel wants to be told at first, by
/// MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: when the program starts, for once it has several
/// threads that takes up to 30 ms. False until then.
inline bool const has_far_fence = membarrier(1 << 4) == 0;

/// Has run a full fence on every thread of the process, when it returns.
/// @pre has_far_fence
inline void far_fence() noexcept {
  constexpr int private_expedited = 1 << 3;
  if (membarrier(private_expedited) == 0) return;
  // The registration was lost, or the call is forbidden by now: better no process than two threads
  // in one section.
  if (membarrier(1 << 4) != 0 || membarrier(private_expedited) != 0) std::abort();
}

}  // namespace detail

WARPWRIGHT_END
