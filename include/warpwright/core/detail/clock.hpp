// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <time.h>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// CLOCK_MONOTONIC in nanoseconds, since an arbitrary start; never decreases.
inline std::uint64_t monotonic_nanoseconds() noexcept {
  timespec now{};
  static_cast<void>(clock_gettime(CLOCK_MONOTONIC, &now));
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace detail

WARPWRIGHT_END
