// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <sched.h>

WARPWRIGHT_BEGIN

namespace detail {

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

}  // namespace detail

WARPWRIGHT_END
