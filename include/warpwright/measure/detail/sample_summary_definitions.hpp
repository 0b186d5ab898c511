// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/measure/sample_summary.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE sample_summary summarize_samples(double const* samples,
                                                                         std::size_t n,
                                                                         source_location where) {
  constexpr double alpha = 0.025;
  constexpr double unbounded = HUGE_VAL;
  sample_summary s;
  array<double> sorted = sorted_copy(samples, n, where);
  s.count = n;
  if (n == 0) return s;
  auto const low = [&](rank_interval r, double none) {
    return r.low == rank_interval::none ? none : sorted[r.low];
  };
  auto const high = [&](rank_interval r, double none) {
    return r.high == rank_interval::none ? none : sorted[r.high];
  };
  s.min_seconds = sorted.front();
  s.max_seconds = sorted.back();
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

}  // namespace detail

WARPWRIGHT_INLINE sample_summary summarize(std::vector<double> const& samples,
                                           source_location where) {
  return detail::summarize_samples(samples.data(), samples.size(), where);
}

WARPWRIGHT_INLINE double upper_bound_of_quantile(std::vector<double> const& samples,
                                                 double quantile, double confidence,
                                                 source_location where) {
  detail::check_quantile(quantile, confidence, where);
  detail::array<double> const sorted = detail::sorted_copy(samples.data(), samples.size(), where);
  std::size_t const above =
      detail::binomial_tail(sorted.size(), 1.0 - quantile, 1.0 - confidence, sorted.size());
  return above == 0 ? HUGE_VAL : sorted[sorted.size() - above];
}

WARPWRIGHT_INLINE double lower_bound_of_quantile(std::vector<double> const& samples,
                                                 double quantile, double confidence,
                                                 source_location where) {
  detail::check_quantile(quantile, confidence, where);
  detail::array<double> const sorted = detail::sorted_copy(samples.data(), samples.size(), where);
  std::size_t const below =
      detail::binomial_tail(sorted.size(), quantile, 1.0 - confidence, sorted.size());
  return below == 0 ? -HUGE_VAL : sorted[below - 1];
}

WARPWRIGHT_INLINE bool quantile_is_within(std::size_t count, std::size_t over, double quantile,
                                          double confidence, source_location where) {
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

WARPWRIGHT_INLINE std::size_t samples_needed(double quantile, double confidence, std::size_t over,
                                             source_location where) {
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
