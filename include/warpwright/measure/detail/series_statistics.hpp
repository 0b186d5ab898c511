// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What measure() and compare() say about samples that may depend on each other.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

WARPWRIGHT_BEGIN

/// Whether the interval of a median can be believed, and if not, why.
enum class sample_stability {
  settled,          ///< independent samples, or correlated ones for which the interval allows
  too_few_samples,  ///< fewer than 50, or in less time than min_seconds: phases would not be seen
  drifting,         ///< later samples are faster or slower than earlier ones
  correlated,       ///< phases or slow changes: the samples stand for too few independent ones
};

/// The stability in words.
char const* to_string(sample_stability stability);

namespace detail {

// The median of samples in the order in which they were taken, and its interval.
struct series_median {
  double median = 0.0;
  double low = 0.0;
  double high = 0.0;
  double deviation = 0.0;          // median absolute deviation
  double effective_samples = 0.0;  // independent samples with as much information
  sample_stability stability = sample_stability::too_few_samples;

  static constexpr std::size_t fewest_samples = 50;  // with fewer it is never settled

  [[nodiscard]] double half_width() const { return 0.5 * (high - low); }
};

// The mean without the extremes, an eighth on each side, and half of its interval of 95 %: robust
// against stalls, and as precise as a mean where calls are of two kinds, of which a median sees
// one. Source: Tukey and McLaughlin, Sankhya A 25 (1963), the trimmed mean and its winsorised
// variance.
struct robust_mean {
  double mean = 0.0;
  double half_width = 0.0;  // if the values are independent
  double deviation = 0.0;   // half_width is student(kept - 1) * deviation / sqrt(number of values)
  double least = 0.0;       // the smallest value that is kept
  double most = 0.0;        // and the largest
  std::size_t kept = 0;     // values that are not extremes

  // @param values  sorted here
  static robust_mean of(std::vector<double>& values);
  static robust_mean of_sorted(double const* values, std::size_t n);
  // The 97.5 % quantile of Student's distribution, to 2 % from 4 degrees of freedom on, and by up
  // to 9 % too large below.
  static double student(double freedom);
};

// The ratio of two times that were taken in turns.
struct turn_ratio {
  double log_mean = 0.0;         // of the logarithms of the ratios, without the extremes
  double log_half_width = 0.0;   // of its interval
  double median = 0.0;           // of the ratios
  double low = 0.0;              // the interval, which contains the median as well
  double high = HUGE_VAL;        // of fewer than fewest_turns there is none
  double effective_turns = 0.0;  // independent turns with as much information
  sample_stability stability = sample_stability::too_few_samples;

  // Of fewer turns all may be on one side by chance, in more than 5 %.
  static constexpr std::size_t fewest_turns = 6;

  [[nodiscard]] double half_width() const { return 0.5 * (high - low); }
};

// @param first, second  seconds by turn, as many of each
// @param precision      a fraction; what is known to it is settled, whatever the changes
turn_ratio ratio_of_turns(std::vector<double> const& first, std::vector<double> const& second,
                          double precision);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/measure/detail/series_analysis_definitions.hpp>
#include <warpwright/measure/detail/turn_ratio_definitions.hpp>
#endif
