// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What is calculated from samples: their order statistics, and what measure() and compare() say
// about samples that may depend on each other.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/error.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

WARPWRIGHT_BEGIN

/// Whether the interval of a median can be believed, and if not, why.
enum class sample_stability {
  converged,        ///< independent samples, or correlated ones for which the interval allows
  too_few_samples,  ///< fewer than 50, or in less time than min_seconds: phases would not be seen
  drifting,         ///< later samples are faster or slower than earlier ones
  correlated,       ///< phases or slow changes: the samples stand for too few independent ones
};

/// The stability in words.
char const* to_string(sample_stability stability);

namespace detail {

// A sorted copy.
// @throws std::invalid_argument for a NaN
array<double> sorted_copy(double const* samples, std::size_t count, source_location where);

double median_of_sorted(double const* sorted, std::size_t count) noexcept;
// The median absolute deviation from the median.
double median_deviation_of_sorted(double const* sorted, std::size_t count, double median) noexcept;
std::size_t nearest_rank(std::size_t count, double quantile) noexcept;

// The number of k = 0, 1, … with P(X <= k) <= alpha, where X counts the successes, each of
// probability p, of `count` trials; at most `limit`.
//
// With r of them for p = quantile, the sample with r - 1 others below it is a lower bound of the
// quantile, of confidence 1 - alpha; with r of them for p = 1 - quantile, the sample with r - 1
// above it is an upper one. r = 0: there are too few samples for a bound.
std::size_t binomial_tail(std::size_t count, double p, double alpha, std::size_t limit) noexcept;

// Zero-based ranks; `none` where there are too few samples.
struct rank_interval {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t low = none;
  std::size_t high = none;
};

// The ranks of the lower and the upper bound of a quantile, each of confidence 1 - alpha.
rank_interval quantile_ranks(std::size_t count, double quantile, double alpha) noexcept;

// The smallest number of samples that show with `over` of them above a limit that the quantile is
// within it.
std::size_t fewest_samples(double quantile, double alpha, std::size_t over) noexcept;

void check_quantile(double quantile, double confidence, source_location where);

// The median of samples in the order in which they were taken, and its interval.
struct series_median {
  double median = 0.0;
  double low = 0.0;
  double high = 0.0;
  double deviation = 0.0;          // median absolute deviation
  double effective_samples = 0.0;  // independent samples with as much information
  sample_stability stability = sample_stability::too_few_samples;

  static constexpr std::size_t fewest_samples = 50;  // with fewer it is never converged

  [[nodiscard]] double half_width() const { return 0.5 * (high - low); }
};

// @param precision  a fraction of the median: changes up to it are allowed for
series_median median_of_series(double const* samples, std::size_t count, double precision);

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
// @param precision      a fraction; what is known to it is converged, whatever the changes
turn_ratio ratio_of_turns(std::vector<double> const& first, std::vector<double> const& second,
                          double precision);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/measure/detail/order_statistics_definitions.hpp>
#include <warpwright/measure/detail/series_analysis_definitions.hpp>
#include <warpwright/measure/detail/turn_ratio_definitions.hpp>
#endif
