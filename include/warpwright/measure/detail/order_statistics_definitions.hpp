// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/measure/detail/statistics.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE array<double> sorted_copy(double const* samples,
                                                            std::size_t count,
                                                            source_location where) {
  array<double> sorted;
  sorted.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (samples[i] != samples[i]) {
      throw_invalid_argument(
          text{"sample "} + i + " is not a number (NaN); leave out samples that failed", where);
    }
    sorted.push_back(samples[i]);
  }
  sort(sorted.begin(), count);
  return sorted;
}

WARPWRIGHT_INLINE double median_of_sorted(double const* sorted, std::size_t count) noexcept {
  std::size_t const middle = count / 2;
  return count % 2 == 1 ? sorted[middle] : 0.5 * (sorted[middle - 1] + sorted[middle]);
}

// The deviations are read in ascending order, from the middle of the samples outwards.
WARPWRIGHT_COLD WARPWRIGHT_INLINE double median_deviation_of_sorted(double const* sorted,
                                                                    std::size_t count,
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

WARPWRIGHT_INLINE std::size_t nearest_rank(std::size_t count, double quantile) noexcept {
  double const rank = std::ceil(quantile * static_cast<double>(count));
  return rank < 1.0 ? 0 : static_cast<std::size_t>(rank) - 1;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::size_t binomial_tail(std::size_t count, double p,
                                                            double alpha,
                                                            std::size_t limit) noexcept {
  // Terms and sum are in units of the first term, (1 - p)^count, which underflows for many trials.
  constexpr double rescale_at = 1e200;
  double log_unit = static_cast<double>(count) * std::log1p(-p);
  double bound = std::exp(std::log(alpha) - log_unit);
  double const odds = p / (1 - p);
  double term = 1;
  double sum = 0;
  for (std::size_t k = 0; k < limit; ++k) {
    sum += term;
    if (sum > bound) return k;
    term *= odds * static_cast<double>(count - k) / static_cast<double>(k + 1);
    if (sum > rescale_at) {
      sum /= rescale_at;
      term /= rescale_at;
      log_unit += std::log(rescale_at);
      bound = std::exp(std::log(alpha) - log_unit);
    }
  }
  return limit;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE rank_interval quantile_ranks(std::size_t count, double quantile,
                                                               double alpha) noexcept {
  std::size_t const below = binomial_tail(count, quantile, alpha, count);
  std::size_t const above = binomial_tail(count, 1 - quantile, alpha, count);
  rank_interval ranks;
  if (below > 0) ranks.low = below - 1;
  if (above > 0) ranks.high = count - above;
  return ranks;
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void check_quantile(double quantile, double confidence,
                                                          source_location where) {
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

WARPWRIGHT_INLINE std::size_t fewest_samples(double quantile, double alpha,
                                             std::size_t over) noexcept {
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

WARPWRIGHT_END
