// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The time of a batch as a function of its size, from a few measured sizes.
//
//   auto const latency = ww::latency_model::of_tune(tuner.tune(stream, run_batch, memory));
//   if (now + latency.upper(queue.size()) > deadline) …
#pragma once

#include <warpwright/core/error.hpp>

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <vector>

WARPWRIGHT_BEGIN

/// The time of one batch size, as measured.
struct latency_point {
  std::size_t batch = 0;        ///< items, at least 1
  double median_seconds = 0.0;  ///< of one batch, above 0
  double p99_seconds = 0.0;     ///< its 99th percentile, not below the median
  /// Calls behind p99_seconds by nearest rank, at least 10; 0: p99_seconds is an upper confidence
  /// bound already
  std::size_t samples = 0;
};

/// Seconds of a batch over its size: a typical time, and an upper bound for schedulers.
///
/// Real curves are flat while launches dominate, then rise in steps (waves of blocks, tiles) with
/// cliffs (caches), so this is no formula, but the measured points: what lies between two of them
/// is bounded by the larger one. Measure the sizes that will be run. Both curves never fall as the
/// batch grows; where a larger size was measured faster, the medians are averaged.
///
/// A copyable value. **Threads:** any number may call const members at once.
class latency_model {
 public:
  /// The share of sizes, at least, whose true 99th percentile upper() exceeds.
  static constexpr double confidence = 0.95;

  /// Fits a model to measured sizes.
  ///
  /// The p99 of n samples is below the true one more often than not. So its distance from the
  /// median is enlarged such that it exceeds the true one with `confidence`, if the tail is not
  /// heavier than an exponential one: 1.7 times for 100 samples, 1.16 times for 1000. That does
  /// not cover rare stalls that are all far from the median: pass an upper confidence bound, and 0
  /// samples, where there may be some.
  ///
  /// @param points  any list of latency_point, in any order; of equal sizes the median is averaged
  ///   and the larger p99 counts
  /// @return the model
  /// @throws std::invalid_argument for no points, a batch of 0 items, times that are not above 0
  ///   and finite, a p99 below the median, or 1 to 9 samples
  ///
  /// **Cost:** O(n^2) in the number of points.
  /// Source: isotonic regression by pool-adjacent-violators, Robertson, Wright and Dykstra, Order
  /// Restricted Statistical Inference (1988); the bound of a quantile's rank by the Wilson-Hilferty
  /// approximation of the gamma distribution.
  template <typename Points = std::initializer_list<latency_point>>
  [[nodiscard]] static latency_model fit(Points const& points,
                                         source_location where = source_location::current()) {
    latency_model model;
    for (latency_point const& point : points) model.insert(point, where);
    if (model.knots_.empty()) {
      detail::throw_invalid_argument(
          "latency_model: no points; at least one measured size is needed", where);
    }
    model.make_monotone();
    return model;
  }

  /// Fits a model to the sizes that a tune has run, or that its stored result has.
  ///
  /// Of each size with 10 calls or more (batch_tuner::latency_calls(), 20 by default) the latencies
  /// of single calls count. upper() allows for their small number: where it must be close, measure
  /// with more, or fit the sizes that matter yourself.
  ///
  /// @param result  a tune_result
  /// @return the model
  /// @throws std::invalid_argument if no size has 10 calls
  template <typename Result>
  [[nodiscard]] static latency_model of_tune(Result const& result,
                                             source_location where = source_location::current()) {
    latency_model model;
    for (auto const& row : result.rows) {
      if (row.latency_samples < least_samples || !(row.latency_median_seconds > 0.0)) continue;
      model.insert(latency_point{row.batch, row.latency_median_seconds, row.latency_p99_seconds,
                                 row.latency_samples},
                   where);
    }
    if (model.knots_.empty()) {
      detail::throw_invalid_argument(
          "latency_model: no size of the tune has 10 timed calls; tune with latency_calls(20)",
          where);
    }
    model.make_monotone();
    return model;
  }

  /// The typical time of a batch: linear between measured sizes, constant below the smallest, and
  /// above the largest with the slope since half of it.
  /// @param batch  items
  /// @return seconds, above 0
  /// **Cost:** a binary search of the points; does not allocate.
  [[nodiscard]] double median(std::size_t batch) const noexcept {
    std::size_t const i = at_or_above(batch);
    if (i == 0) return knots_[0].median;
    knot const& below = knots_[i - 1];
    return below.median +
           below.slope * (static_cast<double>(batch) - static_cast<double>(below.batch));
  }

  /// The time that at least 99 of 100 batches stay within.
  ///
  /// Between two measured sizes it is the larger one's, as a step may be anywhere between them.
  /// Outside in_range() it is a pessimistic guess: below the smallest size that one's, and above
  /// the largest each doubling begun takes as many times longer as the last one did, at least
  /// twice.
  ///
  /// @param batch  items
  /// @return seconds, above 0
  /// **Cost:** a binary search of the points; does not allocate.
  [[nodiscard]] double upper(std::size_t batch) const noexcept {
    std::size_t const i = at_or_above(batch);
    if (i < knots_.size()) return knots_[i].upper;
    double seconds = knots_.back().upper;
    double size = static_cast<double>(knots_.back().batch);
    for (; size < static_cast<double>(batch); size *= 2.0) seconds *= doubling_;
    return seconds;
  }

  /// @param batch  items
  /// @return whether the size lies between the smallest and the largest measured one
  [[nodiscard]] bool in_range(std::size_t batch) const noexcept {
    return batch >= knots_.front().batch && batch <= knots_.back().batch;
  }
  /// @param batch  items
  /// @return batch / median(batch)
  [[nodiscard]] double items_per_second(std::size_t batch) const noexcept {
    return static_cast<double>(batch) / median(batch);
  }
  /// The model as a cost for choose_buckets() and batch_planner.
  /// @param batch  items
  /// @return median(batch), in seconds
  [[nodiscard]] double operator()(std::size_t batch) const noexcept { return median(batch); }

  /// @return the number of different sizes
  [[nodiscard]] std::size_t points() const noexcept { return knots_.size(); }
  /// @return the smallest size measured, items
  [[nodiscard]] std::size_t first() const noexcept { return knots_.front().batch; }
  /// @return the largest size measured, items
  [[nodiscard]] std::size_t last() const noexcept { return knots_.back().batch; }

 private:
  struct knot {
    std::size_t batch;
    double median;
    double upper;
    double slope;   // of the median up to the next knot
    double weight;  // of the median
  };

  latency_model() = default;

  static constexpr std::size_t least_samples = 10;

  // By which factor the sampled p99's distance from the median is multiplied.
  static double tail_factor(std::size_t samples) noexcept {
    double const n = static_cast<double>(samples);
    // Samples from the nearest rank on; the share of calls above it is gamma distributed.
    double const k = n - std::ceil(0.99 * n) + 1.0;
    double const root = 1.0 - 1.0 / (9.0 * k) + 1.645 / (3.0 * std::sqrt(k));
    double const share = k * root * root * root / n;
    // Of an exponential tail: ln(0.5 / share) distances lie between the median and that share.
    return std::log(50.0) / std::log(0.5 / share);
  }

  void insert(latency_point const& p, source_location where) {
    auto const fail = [&p, where](char const* problem) {
      detail::throw_invalid_argument(detail::text{"latency_model: the point of "} + p.batch +
                                         " items, median " + p.median_seconds + " s, p99 " +
                                         p.p99_seconds + " s, " + p.samples +
                                         " samples: " + problem,
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

  void make_monotone() noexcept {
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
    end.slope =
        from + 1 < n ? slope(knots_[from], end) : end.median / static_cast<double>(end.batch);
    doubling_ = 2.0;
    double const doubled = 1.0 + end.slope * static_cast<double>(end.batch) / end.median;
    for (double const ratio : {end.median / median(end.batch / 2), doubled}) {
      if (ratio > doubling_) doubling_ = ratio;
    }
  }

  static double slope(knot const& a, knot const& b) noexcept {
    return (b.median - a.median) / static_cast<double>(b.batch - a.batch);
  }

  // The first point of at least so many items.
  std::size_t at_or_above(std::size_t batch) const noexcept {
    std::size_t low = 0;
    std::size_t high = knots_.size();
    while (low < high) {
      std::size_t const middle = low + (high - low) / 2;
      if (knots_[middle].batch < batch) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  std::vector<knot> knots_;  // ascending, each size once, at least one
  double doubling_ = 2.0;    // the factor of upper() above the largest size
};

WARPWRIGHT_END
