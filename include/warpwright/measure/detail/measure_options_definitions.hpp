// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/measure/measure_options.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE char const* to_string(stop_reason reason) {
  switch (reason) {
    case stop_reason::precision_reached:
      return "precision reached";
    case stop_reason::noise_settled:
      return "noise settled";
    case stop_reason::out_of_samples:
      return "out of samples";
    case stop_reason::out_of_time:
      return "out of time";
    case stop_reason::interrupted:
      return "interrupted";
  }
  return "unknown";
}

namespace detail {

WARPWRIGHT_INLINE double checked_seconds(double seconds, char const* timed, source_location where,
                                         char const* name) {
  check_pending(timed, where, name);
  if (!(seconds >= 0.0 && seconds < 1e30)) {
    throw_invalid_argument(text{"the stopwatch has returned "} + seconds +
                               " seconds; it must return a finite time that is not negative",
                           where);
  }
  return seconds;
}

template <typename Options>
void check_measure_options(Options const& o, source_location where) {
  constexpr std::size_t most_samples = 100000;
  // Comparisons that are false for a NaN.
  bool const valid = o.sample_seconds() >= 0.0 && o.min_seconds() >= 0.0 &&
                     o.max_seconds() >= 0.0 && o.precision() >= 0.0 && o.min_samples() >= 1 &&
                     o.max_samples() >= o.min_samples() && o.max_samples() <= most_samples &&
                     o.inputs() >= 1;
  if (!valid) {
    throw_invalid_argument(
        text{"measure_options out of range: sample_seconds "} + o.sample_seconds() +
            ", min_seconds " + o.min_seconds() + ", max_seconds " + o.max_seconds() +
            ", precision " + o.precision() + " (none negative), min_samples " + o.min_samples() +
            " (at least 1), max_samples " + o.max_samples() + " (at least min_samples, at most " +
            most_samples + "; raise sample_seconds to measure for longer), inputs " + o.inputs() +
            " (at least 1)",
        where);
  }
}

}  // namespace detail

WARPWRIGHT_END
