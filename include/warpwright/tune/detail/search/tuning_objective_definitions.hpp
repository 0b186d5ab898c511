// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/detail/search/tuning_objective.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE char const* to_string(tuning_goal goal) noexcept {
  switch (goal) {
    case tuning_goal::throughput:
      return "throughput";
    case tuning_goal::latency:
      return "latency";
    case tuning_goal::energy:
      return "throughput per joule";
    case tuning_goal::score:
      return "score";
  }
  return "unknown";
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
