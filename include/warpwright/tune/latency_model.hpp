// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The time of a batch as a function of its size, from a few measured sizes; and the batch sizes or
// sequence lengths to prepare, so that padding to the next one costs least.
//
//   auto const latency = ww::latency_model::of_tune(tuner.tune(stream, run_batch, memory));
//   if (now + latency.upper(queue.size()) > deadline) …
//   for (std::size_t const bucket : ww::choose_buckets(lengths_seen, 8, latency).buckets) …
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>
#include <initializer_list>
#include <type_traits>
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
    model.finish("no points; at least one measured size is needed", where);
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
    model.finish("no size of the tune has 10 timed calls; tune with latency_calls(20)", where);
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
  static double tail_factor(std::size_t samples) noexcept;
  void insert(latency_point const& p, source_location where);
  // @param missing  what to say where there are no points
  void finish(char const* missing, source_location where);

  static double slope(knot const& a, knot const& b) noexcept {
    return (b.median - a.median) / static_cast<double>(b.batch - a.batch);
  }

  // The first point of at least so many items.
  std::size_t at_or_above(std::size_t batch) const noexcept {
    std::size_t low = 0;
    std::size_t high = knots_.size();
    while (low < high) {
      std::size_t const middle = low + (high - low) / 2;
      if (batch > knots_[middle].batch) {
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

/// One size of a histogram.
struct size_weight {
  std::size_t size = 0;  ///< items of a batch, or length of a sequence, at least 1
  double weight = 1.0;   ///< how often it occurs, in any unit, not negative
};

/// The result of choose_buckets().
struct bucket_choice {
  std::vector<std::size_t> buckets;  ///< ascending; a size runs in the first that is large enough
  double expected_cost = 0.0;        ///< mean cost of a size, in the unit of the cost function
  double exact_cost = 0.0;           ///< the same with any number of buckets: no choice is below it
  double padding_share = 0.0;        ///< of all items that run, the fraction that is padding
};

namespace detail {

struct bucket_settings {
  std::size_t multiple = 1;
  std::size_t largest = 0;  // 0: not set
};

}  // namespace detail

/// How choose_buckets() may place buckets: a value, each setter of which returns a changed copy.
class bucket_options : public detail::options_base<bucket_options, detail::bucket_settings> {
 public:
  /// @param items  buckets are multiples of this, at least 1; default 1. Use 8 for tensor cores
  constexpr self multiple_of(std::size_t items) const { return with(&values::multiple, items); }
  /// @param items  the largest bucket allowed; default: the largest size, rounded up to a multiple.
  ///   A larger one helps only where the cost falls above that
  constexpr self largest_bucket(std::size_t items) const { return with(&values::largest, items); }
  constexpr std::size_t multiple_of() const { return values_.multiple; }
  constexpr std::size_t largest_bucket() const { return values_.largest; }
};

/// A cost proportional to the bucket's size.
struct linear_cost {
  /// @param bucket  items
  /// @return the same, as a number
  constexpr double operator()(std::size_t bucket) const { return static_cast<double>(bucket); }
};

namespace detail {

/// @param linear  whether the cost is proportional to the size
bucket_choice choose_buckets(array<size_weight> const& histogram, std::size_t count,
                             function_ref<double(std::size_t)> cost, bool linear,
                             bucket_options const& options, source_location where);

}  // namespace detail

/// Chooses the buckets for which padding each size to the next bucket costs least.
///
/// It is the exact optimum for any cost, also one that falls somewhere: a size may then run in a
/// bucket far above it that is cheaper.
///
/// @param histogram  any list of size_weight, in any order; sizes may repeat
/// @param count  how many buckets there may be, at least 1; fewer are chosen where more do not help
/// @param cost  `double(std::size_t bucket)`: the cost of one bucket, 0 to 1e100, such as a
///   latency_model; default: proportional to its size
/// @param options  what buckets are multiples of, and how large they may be
/// @return the buckets and what they cost
/// @throws std::invalid_argument for 0 buckets, an empty histogram, a size of 0 or above 2^40, a
///   weight or cost that is negative or not finite, costs or a sum of weights above 1e100, weights
///   that are all 0, more than 2^24 multiples to compute the cost of, or more than 2^27 sizes times
///   buckets; and what `cost` throws
///
/// **Cost:** O(count n log n) for n different sizes, by divide and conquer, and one call of `cost`
/// for each multiple from the smallest size to the largest bucket; 4 bytes a size and bucket.
/// Source: F. F. Yao, Efficient dynamic programming using quadrangle inequalities, STOC 1980.
template <typename Histogram = std::initializer_list<size_weight>, typename Cost = linear_cost>
[[nodiscard]] bucket_choice choose_buckets(Histogram const& histogram, std::size_t count,
                                           Cost const& cost = {},
                                           bucket_options const& options = {},
                                           source_location where = source_location::current()) {
  static_assert(std::is_invocable_r_v<double, Cost const&, std::size_t>,
                "warpwright: the cost of choose_buckets must be callable as "
                "double(std::size_t bucket)");
  detail::array<size_weight> sizes;
  for (size_weight const& entry : histogram) sizes.push_back(entry);
  auto const call = [&cost](std::size_t bucket) { return static_cast<double>(cost(bucket)); };
  return detail::choose_buckets(sizes, count, call, std::is_same_v<Cost, linear_cost>, options,
                                where);
}

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/plan/choose_buckets_definitions.hpp>
#include <warpwright/tune/detail/plan/latency_model_definitions.hpp>
#endif
