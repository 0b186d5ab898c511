// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Order statistics of samples, with confidence bounds that assume no distribution:
//
//   auto const s = ww::summarize(latencies);             // median, p90, p99 and their intervals
//   ww::upper_bound_of_quantile(latencies, 0.99, 0.95);  // p99 is at most this, at 95 %
//   ww::samples_needed(0.99, 0.95);                      // 299, none of them over the limit
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/error.hpp>

#include <cmath>
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
  double minimum_seconds = 0.0;      ///< the fastest
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
  double maximum_seconds = 0.0;   ///< the slowest
};

namespace detail {

// Shell sort, with Knuth's gaps: <algorithm> is slow to compile, and std::qsort may allocate.
// A template, as all that follows here: a file that only includes the header does not compile it.
template <typename T, typename Less>
void sort(T* values, std::size_t count, Less less) noexcept {
  std::size_t gap = 1;
  while (gap < count / 9) gap = 3 * gap + 1;
  for (; gap > 0; gap /= 3) {
    for (std::size_t i = gap; i < count; ++i) {
      T const value = values[i];
      std::size_t k = i;
      for (; k >= gap && less(value, values[k - gap]); k -= gap) values[k] = values[k - gap];
      values[k] = value;
    }
  }
}

template <typename T>
void sort(array<T>& values) noexcept {
  sort(values.begin(), values.size(), [](T a, T b) { return a < b; });
}

inline double median_of_sorted(double const* sorted, std::size_t count) noexcept {
  std::size_t const middle = count / 2;
  return count % 2 == 1 ? sorted[middle] : 0.5 * (sorted[middle - 1] + sorted[middle]);
}

// The median absolute deviation from the median: the deviations are read in ascending order, from
// the middle of the samples outwards.
WARPWRIGHT_COLD inline double median_deviation_of_sorted(double const* sorted, std::size_t count,
                                                         double median) noexcept {
  std::size_t above = count / 2;
  std::size_t below = above;  // the next one below is at below - 1
  double previous = 0.0;
  double deviation = 0.0;
  for (std::size_t i = 0; i <= count / 2; ++i) {
    previous = deviation;
    bool const take_above =
        below == 0 || (above < count && sorted[above] - median < median - sorted[below - 1]);
    deviation = take_above ? sorted[above++] - median : median - sorted[--below];
  }
  return count % 2 == 1 ? deviation : 0.5 * (previous + deviation);
}

inline std::size_t nearest_rank(std::size_t count, double quantile) noexcept {
  double const rank = std::ceil(quantile * static_cast<double>(count));
  return rank < 1.0 ? 0 : static_cast<std::size_t>(rank) - 1;
}

// The number of k = 0, 1, … with P(X <= k) <= alpha, where X counts the successes, each of
// probability p, of `count` trials; at most `limit`.
//
// With r of them for p = quantile, the sample with r - 1 others below it is a lower bound of the
// quantile, of confidence 1 - alpha; with r of them for p = 1 - quantile, the sample with r - 1
// above it is an upper one. r = 0: there are too few samples for a bound.
template <typename Real>
WARPWRIGHT_COLD std::size_t binomial_tail(std::size_t count, Real p, Real alpha,
                                          std::size_t limit) noexcept {
  // Terms and sum are in units of the first term, (1 - p)^count, which underflows for many trials.
  constexpr Real rescale_at = 1e200;
  Real log_unit = static_cast<Real>(count) * std::log1p(-p);
  Real bound = std::exp(std::log(alpha) - log_unit);
  Real const odds = p / (1 - p);
  Real term = 1;
  Real sum = 0;
  for (std::size_t k = 0; k < limit; ++k) {
    sum += term;
    if (sum > bound) return k;
    term *= odds * static_cast<Real>(count - k) / static_cast<Real>(k + 1);
    if (sum > rescale_at) {
      sum /= rescale_at;
      term /= rescale_at;
      log_unit += std::log(rescale_at);
      bound = std::exp(std::log(alpha) - log_unit);
    }
  }
  return limit;
}

// Zero-based ranks; `none` where there are too few samples.
struct rank_interval {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t low = none;
  std::size_t high = none;
};

// The ranks of the lower and the upper bound of a quantile, each of confidence 1 - alpha.
template <typename Real>
WARPWRIGHT_COLD rank_interval quantile_ranks(std::size_t count, Real quantile,
                                             Real alpha) noexcept {
  std::size_t const below = binomial_tail(count, quantile, alpha, count);
  std::size_t const above = binomial_tail(count, 1 - quantile, alpha, count);
  rank_interval ranks;
  if (below > 0) ranks.low = below - 1;
  if (above > 0) ranks.high = count - above;
  return ranks;
}

template <typename Real>
WARPWRIGHT_NOINLINE void check_quantile(Real quantile, Real confidence, source_location where) {
  // Comparisons that are false for a NaN.
  if (!(quantile >= 1e-9 && quantile <= 1.0 - 1e-9)) {
    throw_invalid_argument(text{"a quantile of "} + quantile +
                               "; it must be above 0 and below 1 by at least 1e-9: 0.99 for the "
                               "99th percentile",
                           where);
  }
  if (!(confidence > 0.0 && confidence < 1.0)) {
    throw_invalid_argument(
        text{"a confidence of "} + confidence + "; it must be above 0 and below 1: 0.95 for 95 %",
        where);
  }
}

template <typename Samples>
WARPWRIGHT_COLD array<double> sorted_copy(Samples const& samples, source_location where) {
  array<double> sorted;
  sorted.reserve(samples.size());
  for (double const value : samples) {
    if (value != value) {
      throw_invalid_argument(
          text{"sample "} + sorted.size() + " is not a number (NaN); leave out samples that failed",
          where);
    }
    sorted.push_back(value);
  }
  sort(sorted);
  return sorted;
}

template <typename Samples>
WARPWRIGHT_COLD_ENTRY sample_summary summarize_samples(Samples const& samples,
                                                       source_location where) {
  constexpr double alpha = 0.025;
  constexpr double unbounded = HUGE_VAL;
  sample_summary s;
  array<double> sorted = sorted_copy(samples, where);
  std::size_t const n = sorted.size();
  s.count = n;
  if (n == 0) return s;
  auto const low = [&](rank_interval r, double none) {
    return r.low == rank_interval::none ? none : sorted[r.low];
  };
  auto const high = [&](rank_interval r, double none) {
    return r.high == rank_interval::none ? none : sorted[r.high];
  };
  s.minimum_seconds = sorted.front();
  s.maximum_seconds = sorted.back();
  s.median_seconds = median_of_sorted(sorted.begin(), n);
  rank_interval const median = quantile_ranks(n, 0.5, alpha);
  s.median_low_seconds = low(median, sorted.front());
  s.median_high_seconds = high(median, sorted.back());
  rank_interval const p90 = quantile_ranks(n, 0.9, alpha);
  s.p90_seconds = sorted[nearest_rank(n, 0.9)];
  s.p90_low_seconds = low(p90, 0.0);
  s.p90_high_seconds = high(p90, unbounded);
  rank_interval const p99 = quantile_ranks(n, 0.99, alpha);
  s.p99_seconds = sorted[nearest_rank(n, 0.99)];
  s.p99_low_seconds = low(p99, 0.0);
  s.p99_high_seconds = high(p99, unbounded);
  s.deviation_seconds = median_deviation_of_sorted(sorted.begin(), n, s.median_seconds);
  return s;
}

template <typename Real>
std::size_t fewest_samples(Real quantile, Real alpha, std::size_t over) noexcept {
  std::size_t const needed = over + 1;
  auto const enough = [&](std::size_t n) {
    return binomial_tail(n, 1 - quantile, alpha, needed) == needed;
  };
  std::size_t too_few = over;
  std::size_t sufficient = 2 * needed;
  while (!enough(sufficient)) {
    too_few = sufficient;
    sufficient *= 2;
  }
  while (sufficient - too_few > 1) {
    std::size_t const middle = too_few + (sufficient - too_few) / 2;
    (enough(middle) ? sufficient : too_few) = middle;
  }
  return sufficient;
}

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
/// **Threads:** safe. **Cost:** one sort.
/// Source of the intervals: Conover, Practical Nonparametric Statistics, section 3.2.
template <typename Summary = sample_summary>
Summary summarize(std::vector<double> const& samples,
                  source_location where = source_location::current()) {
  return detail::summarize_samples(samples, where);
}

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
/// **Threads:** safe. **Cost:** one sort.
/// Source: Conover, Practical Nonparametric Statistics, section 3.2.
template <typename Real = double>
Real upper_bound_of_quantile(std::vector<double> const& samples, double quantile, double confidence,
                             source_location where = source_location::current()) {
  detail::check_quantile(quantile, confidence, where);
  detail::array<double> const sorted = detail::sorted_copy(samples, where);
  std::size_t const above =
      detail::binomial_tail(sorted.size(), 1.0 - quantile, 1.0 - confidence, sorted.size());
  return above == 0 ? HUGE_VAL : sorted[sorted.size() - above];
}

/// Returns the largest sample that a quantile is not below, with a confidence.
///
/// The parameters and exceptions are those of upper_bound_of_quantile().
/// @return the bound; minus infinity if there are fewer samples than samples_needed(1 - quantile,
///   confidence)
///
/// **Threads:** safe. **Cost:** one sort.
template <typename Real = double>
Real lower_bound_of_quantile(std::vector<double> const& samples, double quantile, double confidence,
                             source_location where = source_location::current()) {
  detail::check_quantile(quantile, confidence, where);
  detail::array<double> const sorted = detail::sorted_copy(samples, where);
  std::size_t const below =
      detail::binomial_tail(sorted.size(), quantile, 1.0 - confidence, sorted.size());
  return below == 0 ? -HUGE_VAL : sorted[below - 1];
}

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
/// **Threads:** safe. **Cost:** grows with `over`.
/// Source: Clopper and Pearson, Biometrika 26 (1934), the exact binomial test.
template <typename Boolean = bool>
Boolean quantile_is_within(std::size_t count, std::size_t over, double quantile, double confidence,
                           source_location where = source_location::current()) {
  detail::check_quantile(quantile, confidence, where);
  if (over > count) {
    detail::throw_invalid_argument(detail::text{"quantile_is_within: "} + over + " of " + count +
                                       " samples are over the limit; pass the number of all "
                                       "samples first",
                                   where);
  }
  if (over == count) return false;
  return detail::binomial_tail(count, 1.0 - quantile, 1.0 - confidence, over + 1) == over + 1;
}

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
/// **Threads:** safe. **Cost:** grows with `over`.
template <typename Count = std::size_t>
Count samples_needed(double quantile, double confidence, std::size_t over = 0,
                     source_location where = source_location::current()) {
  detail::check_quantile(quantile, confidence, where);
  if (over > 1000000) {
    detail::throw_invalid_argument(detail::text{"samples_needed: "} + over +
                                       " samples over the limit; allow at most 1000000, and lower "
                                       "the quantile instead",
                                   where);
  }
  return detail::fewest_samples(quantile, 1.0 - confidence, over);
}

WARPWRIGHT_END
