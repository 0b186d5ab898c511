// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How much a test does: less in a build with a sanitizer, which makes a program ten times as slow
// and has nothing to find in a size, an offset or a trial that is like another; most in the nightly
// build.
#pragma once

#include <cmath>
#include <cstdint>

#if !defined(WARPWRIGHT_NIGHTLY)
#define WARPWRIGHT_NIGHTLY 0
#endif

namespace test_support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
constexpr int rounds(int n) { return sanitized ? (n + 9) / 10 : n; }
// Of a simulation whose rates are checked.
constexpr int trial_count(int n) {
  return sanitized ? rounds(n) : WARPWRIGHT_NIGHTLY ? n : (n + 2) / 3;
}

// The call to fail after the nth of a function: the first four, or two, the eighth, 16th, ...;
// every one in the nightly build.
constexpr std::uint64_t next_failing(std::uint64_t nth) {
  return WARPWRIGHT_NIGHTLY || nth < (sanitized ? 2 : 4) ? nth + 1 : 2 * nth;
}

// Whether `count` of `trials` is at most a share of them. In the few trials of a build with a
// sanitizer four standard deviations of chance are allowed.
inline bool rate_is_at_most(int count, double share, int trials) {
  double const chance = sanitized ? 4.0 * std::sqrt(share * (1.0 - share) * trials) : 0.0;
  return count <= share * trials + chance;
}
inline bool rate_is_at_least(int count, double share, int trials) {
  return rate_is_at_most(trials - count, 1.0 - share, trials);
}

}  // namespace test_support
