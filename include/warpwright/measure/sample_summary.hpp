// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Order statistics of samples, with confidence bounds that assume no distribution:
//
//   auto const s = ww::summarize(latencies);             // median, p90, p99 and their intervals
//   ww::upper_bound_of_quantile(latencies, 0.99, 0.95);  // p99 is at most this, at 95 %
//   ww::samples_needed(0.99, 0.95);                      // 299, none of them over the limit
#pragma once

#include <warpwright/measure/detail/statistics.hpp>

#include <cstddef>
#include <vector>

WARPWRIGHT_BEGIN

/// Order statistics of a set of samples, in seconds; robust against outliers.
///
/// Each interval is one of 95 % confidence: with 2.5 % the quantile is below it, and with 2.5 %
/// above. A tail of which there are too few samples has no upper bound (infinity): p90 needs 36
/// samples, p99 368.
struct sample_summary {
  std::size_t count = 0;             ///< samples
  double min_seconds = 0.0;          ///< the fastest
  double median_seconds = 0.0;       ///< for an even count the mean of the two middle samples
  double median_low_seconds = 0.0;   ///< lower end of its interval; below 6 samples the minimum
  double median_high_seconds = 0.0;  ///< and upper end; below 6 samples the maximum
  double deviation_seconds = 0.0;    ///< median absolute deviation (MAD), not scaled
  double p90_seconds = 0.0;          ///< 90th percentile by nearest rank
  double p90_low_seconds = 0.0;      ///< lower end of its interval; 0: too few samples
  double p90_high_seconds = 0.0;     ///< and upper end; infinity: too few samples
  double p99_seconds = 0.0;       ///< 99th percentile by nearest rank; below 100 samples: maximum
  double p99_low_seconds = 0.0;   ///< lower end of its interval; 0: too few samples
  double p99_high_seconds = 0.0;  ///< and upper end; infinity: too few samples
  double max_seconds = 0.0;       ///< the slowest
};

namespace detail {

sample_summary summarize_samples(double const* samples, std::size_t count, source_location where);

}  // namespace detail

/// Computes the order statistics of samples.
///
/// Its intervals hold for independent samples. measure() widens that of the median for samples that
/// are not.
///
/// @param samples  seconds, in any order
/// @return the statistics; all zero for an empty set
/// @throws std::invalid_argument for a sample that is NaN
///
/// **Cost:** one sort.
/// Source of the intervals: Conover, Practical Nonparametric Statistics, section 3.2.
sample_summary summarize(std::vector<double> const& samples,
                         source_location where = source_location::current());

/// Returns the smallest sample that a quantile does not exceed, with a confidence.
///
/// Use it to accept a limit of the 99th percentile: the percentile of the samples alone is below
/// the true one in half of all sets.
///
/// @param samples  independent of each other, in any unit and order
/// @param quantile  0.99 for the 99th percentile
/// @param confidence  0.95: in at most 5 % of all sets of samples the quantile is above the bound
/// @return the bound; infinity if there are fewer samples than samples_needed(quantile, confidence)
/// @throws std::invalid_argument for a quantile or confidence that is not between 0 and 1, or a
///   sample that is NaN
///
/// **Cost:** one sort.
/// Source: Conover, Practical Nonparametric Statistics, section 3.2.
double upper_bound_of_quantile(std::vector<double> const& samples, double quantile,
                               double confidence,
                               source_location where = source_location::current());

/// Returns the largest sample that a quantile is not below, with a confidence.
///
/// The parameters and exceptions are those of upper_bound_of_quantile().
/// @return the bound; minus infinity if there are fewer samples than samples_needed(1 - quantile,
///   confidence)
///
/// **Cost:** one sort.
double lower_bound_of_quantile(std::vector<double> const& samples, double quantile,
                               double confidence,
                               source_location where = source_location::current());

/// Returns whether samples show that a quantile is within a limit: whether
/// upper_bound_of_quantile() is.
///
/// Decide once, for a number of samples that is fixed before: a test that is repeated until it
/// passes has a lower confidence.
///
/// @param count  samples
/// @param over  those of them over the limit, at most count
/// @param quantile  0.99 for the 99th percentile
/// @param confidence  0.95: for a quantile over the limit the answer is true in at most 5 %
/// @return whether the quantile is within the limit, with that confidence
/// @throws std::invalid_argument for a quantile or confidence that is not between 0 and 1, or for
///   more samples over the limit than samples
///
/// **Cost:** grows with `over`.
/// Source: Clopper and Pearson, Biometrika 26 (1934), the exact binomial test.
bool quantile_is_within(std::size_t count, std::size_t over, double quantile, double confidence,
                        source_location where = source_location::current());

/// Returns how many samples it takes to show that a quantile is within a limit.
///
/// @param quantile  0.99 for the 99th percentile
/// @param confidence  0.95 for 95 %
/// @param over  samples over the limit that are allowed, at most 1,000,000
/// @return the smallest count for which quantile_is_within(count, over, quantile, confidence): at
///   0.99 and 0.95, 299 with none over the limit, 473 with one, 628 with two
/// @throws std::invalid_argument for a quantile or confidence that is not between 0 and 1, or for
///   `over` above its limit
///
/// **Cost:** grows with `over`.
std::size_t samples_needed(double quantile, double confidence, std::size_t over = 0,
                           source_location where = source_location::current());

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/measure/detail/sample_summary_definitions.hpp>
#endif
