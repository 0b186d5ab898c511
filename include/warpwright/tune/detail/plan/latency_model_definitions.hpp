// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/latency_model.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE double latency_model::tail_factor(
    std::size_t samples) noexcept {
  double const n = static_cast<double>(samples);
  // Samples from the nearest rank on; the share of calls above it is gamma distributed.
  double const k = n - std::ceil(0.99 * n) + 1.0;
  double const root = 1.0 - 1.0 / (9.0 * k) + 1.645 / (3.0 * std::sqrt(k));
  double const share = k * root * root * root / n;
  // Of an exponential tail: ln(0.5 / share) distances lie between the median and that share.
  return std::log(50.0) / std::log(0.5 / share);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void latency_model::insert(latency_point const& p,
                                                                   source_location where) {
  auto const fail = [&p, where](char const* problem) {
    detail::throw_invalid_argument(detail::text{"latency_model: the point of "} + p.batch +
                                       " items, median " + p.median_seconds + " s, p99 " +
                                       p.p99_seconds + " s, " + p.samples + " samples: " + problem,
                                   where);
  };
  if (p.batch == 0) fail("the batch must be at least 1");
  // Comparisons that are false for a NaN.
  if (!(p.median_seconds > 0.0 && p.median_seconds < 1e30)) {
    fail("the median must be above 0 and finite");
  }
  if (!(p.p99_seconds >= p.median_seconds && p.p99_seconds < 1e30)) {
    fail("the p99 must be finite and not below the median");
  }
  if (p.samples > 0 && p.samples < least_samples) {
    fail("a p99 needs at least 10 samples; pass 0 samples with an upper bound");
  }
  double const factor = p.samples == 0 ? 1.0 : tail_factor(p.samples);
  double const weight = p.samples == 0 ? 1.0 : static_cast<double>(p.samples);
  knot const added{p.batch, p.median_seconds,
                   p.median_seconds + factor * (p.p99_seconds - p.median_seconds), 0.0, weight};
  std::size_t const i = at_or_above(p.batch);
  if (i < knots_.size() && knots_[i].batch == p.batch) {
    knot& same = knots_[i];
    same.median = (same.weight * same.median + weight * added.median) / (same.weight + weight);
    same.weight += weight;
    if (added.upper > same.upper) same.upper = added.upper;
    return;
  }
  knots_.push_back(added);
  for (std::size_t k = knots_.size() - 1; k > i; --k) knots_[k] = knots_[k - 1];
  knots_[i] = added;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void latency_model::finish(char const* missing,
                                                                   source_location where) {
  if (knots_.empty()) {
    detail::throw_invalid_argument(detail::text{"latency_model: "} + missing, where);
  }
  std::size_t const n = knots_.size();
  // Medians: the nearest rising sequence. Of each fall the average, as far back as it must go.
  for (std::size_t i = 1; i < n; ++i) {
    std::size_t first = i;
    double sum = knots_[i].weight * knots_[i].median;
    double weight = knots_[i].weight;
    while (first > 0 && knots_[first - 1].median * weight > sum) {
      --first;
      sum += knots_[first].weight * knots_[first].median;
      weight += knots_[first].weight;
    }
    for (std::size_t k = first; k <= i && first < i; ++k) knots_[k].median = sum / weight;
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (knots_[i].upper < knots_[i].median) knots_[i].upper = knots_[i].median;
    if (i > 0 && knots_[i].upper < knots_[i - 1].upper) knots_[i].upper = knots_[i - 1].upper;
    if (i + 1 < n) knots_[i].slope = slope(knots_[i], knots_[i + 1]);
  }
  knot& end = knots_.back();
  std::size_t const half = at_or_above(end.batch / 2);
  std::size_t const from = half > 0 && knots_[half].batch > end.batch / 2 ? half - 1 : half;
  end.slope = from + 1 < n ? slope(knots_[from], end) : end.median / static_cast<double>(end.batch);
  doubling_ = 2.0;
  double const doubled = 1.0 + end.slope * static_cast<double>(end.batch) / end.median;
  for (double const ratio : {end.median / median(end.batch / 2), doubled}) {
    if (ratio > doubling_) doubling_ = ratio;
  }
}

WARPWRIGHT_END
