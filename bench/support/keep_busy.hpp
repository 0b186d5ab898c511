// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Work that keeps a stream busy for a given time, so that what waits for it can be told from what
// does not.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/core/stream.hpp>

#include <cstdint>

#if WARPWRIGHT_HOST_RUNTIME
#include <unistd.h>
#endif

namespace bench_support {

/// The functor of one thread that takes a number of microseconds and touches no memory.
struct busy_for {
  unsigned microseconds;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
#if defined(__CUDA_ARCH__)
    auto const now = [] {
      unsigned long long nanoseconds = 0;
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
      return nanoseconds;
    };
    unsigned long long const end = now() + 1000ULL * microseconds;
    while (now() < end) {
    }
#elif WARPWRIGHT_HOST_RUNTIME
    static_cast<void>(usleep(microseconds));
#endif
  }
};

/// Enqueues one kernel.
inline void keep_busy(warpwright::stream_ref s, unsigned microseconds) {
  warpwright::for_each_index(s, 1, busy_for{microseconds});
}

}  // namespace bench_support
