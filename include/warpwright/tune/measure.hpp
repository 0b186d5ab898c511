// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Timing of a callable on a stream, with the statistics that say how far to trust it.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/tune/detail/function_ref.hpp>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <vector>

WARPWRIGHT_BEGIN

/// Order statistics of a set of samples, in seconds; robust against a few slow ones.
struct sample_summary {
  std::size_t count = 0;             ///< samples
  double minimum_seconds = 0.0;      ///< the fastest
  double median_seconds = 0.0;       ///< of an even count: the mean of the two in the middle
  double median_low_seconds = 0.0;   ///< 95 % confidence interval of the median, lower end
  double median_high_seconds = 0.0;  ///< and upper end
  double deviation_seconds = 0.0;    ///< median absolute deviation from the median, not scaled
  double p99_seconds = 0.0;      ///< 99th percentile by nearest rank; below 100 samples: maximum
  double maximum_seconds = 0.0;  ///< the slowest
};

namespace detail {

// Not std::sort: <algorithm> is slow to compile.
inline void sort(array<double>& values) noexcept {
  std::qsort(values.begin(), values.size(), sizeof(double),
             [](void const* left, void const* right) {
               double const a = *static_cast<double const*>(left);
               double const b = *static_cast<double const*>(right);
               return static_cast<int>(a > b) - static_cast<int>(a < b);
             });
}

// For one sample more at a time.
inline void insert_sorted(array<double>& sorted, double value) {
  sorted.push_back(value);
  for (std::size_t i = sorted.size() - 1; i > 0 && sorted[i - 1] > value; --i) {
    sorted[i] = sorted[i - 1];
    sorted[i - 1] = value;
  }
}

inline double median_of_sorted(array<double> const& sorted) {
  std::size_t const middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : 0.5 * (sorted[middle - 1] + sorted[middle]);
}

// Ranks, from 0, of the ends of the 95 % interval of the median.
struct median_ranks {
  std::size_t low;
  std::size_t high;
};
inline median_ranks median_interval(std::size_t count) {
  double const half = 0.5 * static_cast<double>(count);
  double const spread = 0.98 * std::sqrt(static_cast<double>(count));  // 1.96 / 2
  double const low = std::floor(half - spread);
  double const high = std::ceil(half + 1.0 + spread);
  return {low < 1.0 ? 0 : static_cast<std::size_t>(low) - 1,
          high > static_cast<double>(count) ? count - 1 : static_cast<std::size_t>(high) - 1};
}

inline std::size_t nearest_rank(std::size_t count, double quantile) {
  double const rank = std::ceil(quantile * static_cast<double>(count));
  return rank < 1.0 ? 0 : static_cast<std::size_t>(rank) - 1;
}

}  // namespace detail

/// Summarises samples.
///
/// @param samples  seconds, in any order
/// @return the statistics; all zero without samples
///
/// **Threads:** safe. **Cost:** two sorts.
/// Source of the interval: Conover, Practical Nonparametric Statistics, section 3.2 (order
/// statistics; it assumes no distribution; below 6 samples it is the whole range).
inline sample_summary summarize(std::vector<double> const& samples) {
  sample_summary s;
  s.count = samples.size();
  if (samples.empty()) return s;
  detail::array<double> sorted;
  sorted.reserve(samples.size());
  for (double const value : samples) sorted.push_back(value);
  detail::sort(sorted);
  s.minimum_seconds = sorted[0];
  s.maximum_seconds = sorted.back();
  s.median_seconds = detail::median_of_sorted(sorted);
  detail::median_ranks const ranks = detail::median_interval(sorted.size());
  s.median_low_seconds = sorted[ranks.low];
  s.median_high_seconds = sorted[ranks.high];
  s.p99_seconds = sorted[detail::nearest_rank(sorted.size(), 0.99)];
  detail::array<double> deviations;
  deviations.reserve(sorted.size());
  for (double const value : sorted) deviations.push_back(std::fabs(value - s.median_seconds));
  detail::sort(deviations);
  s.deviation_seconds = detail::median_of_sorted(deviations);
  return s;
}

/// How long and how exactly to measure; every setter changes the object and returns it.
class measure_options {
 public:
  /// @param seconds  the least duration of one sample; shorter calls are repeated inside of it
  measure_options& sample_seconds(double seconds) { return set(sample_seconds_, seconds); }
  /// @param count  calls before the first sample, their times are dropped
  measure_options& warmup_calls(std::size_t count) { return set(warmup_calls_, count); }
  /// @param count  samples that are always taken while time is left, at least 1
  measure_options& min_samples(std::size_t count) { return set(min_samples_, count); }
  /// @param count  samples after which it always stops
  measure_options& max_samples(std::size_t count) { return set(max_samples_, count); }
  /// @param seconds  measured time after which it stops once 3 samples are there
  measure_options& max_seconds(double seconds) { return set(max_seconds_, seconds); }
  /// @param fraction  stop when half the interval of the median is below this share of the median
  measure_options& precision(double fraction) { return set(precision_, fraction); }

  [[nodiscard]] double sample_seconds() const { return sample_seconds_; }
  [[nodiscard]] std::size_t warmup_calls() const { return warmup_calls_; }
  [[nodiscard]] std::size_t min_samples() const { return min_samples_; }
  [[nodiscard]] std::size_t max_samples() const { return max_samples_; }
  [[nodiscard]] double max_seconds() const { return max_seconds_; }
  [[nodiscard]] double precision() const { return precision_; }

 private:
  template <typename T>
  measure_options& set(T& member, T value) {
    member = value;
    return *this;
  }
  double sample_seconds_ = 2e-3;
  std::size_t warmup_calls_ = 3;
  std::size_t min_samples_ = 11;
  std::size_t max_samples_ = 201;
  double max_seconds_ = 1.0;
  double precision_ = 0.01;
};

/// What measure() found: seconds for one call.
struct measurement {
  sample_summary summary;            ///< of the samples, seconds a call
  std::vector<double> samples;       ///< in the order in which they were taken, seconds a call
  std::size_t calls_per_sample = 0;  ///< how often one sample ran the callable
  bool settled = false;              ///< whether the precision asked for was reached
};

/// Times calls by a pair of CUDA events around them: the time of the device, launch gaps included.
///
/// Any class with this call operator can take its place, for instance one on a simulated clock.
/// **Threads:** one at a time.
class event_stopwatch {
 public:
  /// @throws cuda_error if the events cannot be created
  explicit event_stopwatch(source_location where = source_location::current())
      : begin_{where}, end_{where}, where_{where} {}

  /// Runs `call` back to back and waits for the last one.
  ///
  /// @param stream  where `call` puts its work
  /// @param call  callable without arguments
  /// @param repeats  how often, at least 1
  /// @return seconds for all of them together
  /// @throws cuda_error if timing fails, or for an error of the work; and whatever `call` throws
  ///
  /// **Stream:** ordered on `stream`; blocks until its work is done. **Capture:** not legal.
  template <typename Call>
  double operator()(stream_ref stream, Call& call, std::size_t repeats) {
    begin_.record(stream, where_);
    for (std::size_t i = 0; i < repeats; ++i) call();
    end_.record(stream, where_);
    end_.synchronize(where_);
    return 1e-3 * static_cast<double>(end_.milliseconds_since(begin_, where_));
  }

 private:
  timed_event begin_;
  timed_event end_;
  source_location where_;
};

namespace detail {

// Options is measure_options. Templates, so that only who measures pays for compiling them.
template <typename Options>
WARPWRIGHT_COLD void check_measure_options(Options const& o, source_location where) {
  // Written so that a NaN fails as well.
  bool const good = o.sample_seconds() >= 0.0 && o.max_seconds() >= 0.0 && o.precision() >= 0.0 &&
                    o.min_samples() >= 1 && o.max_samples() >= o.min_samples();
  if (!good) {
    throw_invalid_argument(text{"measure_options out of range: sample_seconds "} +
                               o.sample_seconds() + ", max_seconds " + o.max_seconds() +
                               ", precision " + o.precision() + " (none negative), min_samples " +
                               o.min_samples() + " (at least 1), max_samples " + o.max_samples() +
                               " (at least min_samples)",
                           where);
  }
}

// How many calls make a sample of at least the duration asked for.
inline std::size_t calibrate_repeats(function_ref<double(std::size_t)> timed, double one_call,
                                     double sample_seconds, double& spent) {
  constexpr std::size_t most = std::size_t{1} << 20;
  std::size_t repeats = 1;
  double total = one_call;
  while (total < sample_seconds && repeats < most) {
    double const per_call = total / static_cast<double>(repeats);
    // A tenth above, so that jitter does not send it round again; never more than 16 times.
    double const wanted = per_call > 0.0 ? 1.1 * sample_seconds / per_call : 1e300;
    double const grown = static_cast<double>(repeats) * 16.0;
    double next = wanted < grown ? wanted : grown;
    if (next > static_cast<double>(most)) next = static_cast<double>(most);
    repeats =
        static_cast<std::size_t>(next) > repeats ? static_cast<std::size_t>(next) : repeats + 1;
    total = timed(repeats);
    spent += total;
  }
  return repeats;
}

template <typename Options>
measurement take_samples(function_ref<double(std::size_t)> timed, Options const& o) {
  measurement m;
  double spent = 0.0;
  double one_call = timed(1);
  for (std::size_t i = 1; i < o.warmup_calls(); ++i) one_call = timed(1);
  m.calls_per_sample = calibrate_repeats(timed, one_call, o.sample_seconds(), spent);
  array<double> sorted;
  while (m.samples.size() < o.max_samples()) {
    double const total = timed(m.calls_per_sample);
    spent += total;
    m.samples.push_back(total / static_cast<double>(m.calls_per_sample));
    insert_sorted(sorted, m.samples.back());
    if (sorted.size() >= 3 && spent >= o.max_seconds()) break;
    if (sorted.size() < o.min_samples()) continue;
    median_ranks const ranks = median_interval(sorted.size());
    double const half_width = 0.5 * (sorted[ranks.high] - sorted[ranks.low]);
    m.settled = sorted.size() > 1 && half_width <= o.precision() * median_of_sorted(sorted);
    if (m.settled) break;
  }
  m.summary = summarize(m.samples);
  return m;
}

}  // namespace detail

/// Measures what one call of `callable` takes on a stream.
///
/// After warm-up it takes samples of at least `sample_seconds` (short calls repeated inside) until
/// the 95 % interval of the median is narrow enough, or the samples or the time are used up.
///
/// @param stream  where `callable` puts its work, not capturing
/// @param callable  `void()`
/// @param options  how long and how exactly
/// @param stopwatch  what takes the time, as event_stopwatch
/// @return the samples and their statistics, seconds a call
/// @throws std::invalid_argument for options out of range
/// @throws cuda_error if timing fails, or for an error of the work; and whatever `callable` throws
///
/// **Stream:** ordered on `stream`; blocks. **Threads:** one at a time a stopwatch. **Capture:**
/// not legal.
template <typename Callable, typename Stopwatch>
measurement measure(stream_ref stream, Callable&& callable, measure_options const& options,
                    Stopwatch& stopwatch, source_location where = source_location::current()) {
  detail::check_measure_options(options, where);
  auto const timed = [&](std::size_t repeats) { return stopwatch(stream, callable, repeats); };
  return detail::take_samples(timed, options);
}

/// Measures by CUDA events what one call of `callable` takes on a stream; see the overload above.
template <typename Callable>
measurement measure(stream_ref stream, Callable&& callable, measure_options const& options = {},
                    source_location where = source_location::current()) {
  event_stopwatch stopwatch{where};
  return measure(stream, callable, options, stopwatch, where);
}

WARPWRIGHT_END
