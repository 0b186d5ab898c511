// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks in sorted samples, and the bounds of quantiles that they give.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

// Shell sort, with Knuth's gaps: <algorithm> is slow to compile, and std::qsort may allocate.
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

void sort(double* values, std::size_t count) noexcept;

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

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/measure/detail/order_statistics_definitions.hpp>
#endif
