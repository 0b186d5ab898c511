// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/detail/objective/tuning_objective.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE char const* to_string(tuning_goal goal) noexcept {
  constexpr char const* names[] = {"throughput", "latency", "throughput per joule", "score"};
  auto const i = static_cast<std::size_t>(goal);
  return i < sizeof names / sizeof *names ? names[i] : "unknown";
}

WARPWRIGHT_INLINE tuning_objective tuning_objective::within_latency(double seconds,
                                                                    double quantile) const {
  tuning_objective copy = *this;
  copy.latency_limited_ = true;
  copy.latency_limit_seconds_ = seconds;
  copy.latency_quantile_ = quantile;
  return copy;
}

WARPWRIGHT_INLINE tuning_objective max_throughput() { return {}; }

WARPWRIGHT_INLINE tuning_objective min_latency() {
  tuning_objective objective;
  objective.goal_ = tuning_goal::latency;
  return objective;
}

WARPWRIGHT_INLINE tuning_objective throughput_under_latency(double seconds, double quantile) {
  return tuning_objective{}.within_latency(seconds, quantile);
}

WARPWRIGHT_END
