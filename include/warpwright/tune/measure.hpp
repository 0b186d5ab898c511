// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures the time of a callable on a stream, with a confidence interval.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/core/stream.hpp>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <vector>

WARPWRIGHT_BEGIN

/// Order statistics of a set of samples, in seconds; robust against outliers.
struct sample_summary {
  std::size_t count = 0;             ///< samples
  double minimum_seconds = 0.0;      ///< the fastest
  double median_seconds = 0.0;       ///< for an even count the mean of the two middle samples
  double median_low_seconds = 0.0;   ///< 95 % confidence interval of the median, lower end
  double median_high_seconds = 0.0;  ///< and upper end
  double deviation_seconds = 0.0;    ///< median absolute deviation (MAD), not scaled
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

// Zero-based ranks of the bounds of the median's 95 % confidence interval.
struct median_ranks {
  std::size_t low;
  std::size_t high;
};
inline median_ranks median_interval(std::size_t count) {
  double const half = 0.5 * static_cast<double>(count);
  double const half_width = 0.98 * std::sqrt(static_cast<double>(count));  // 1.96 / 2
  double const low = std::floor(half - half_width);
  double const high = std::ceil(half + 1.0 + half_width);
  return {low < 1.0 ? 0 : static_cast<std::size_t>(low) - 1,
          high > static_cast<double>(count) ? count - 1 : static_cast<std::size_t>(high) - 1};
}

inline std::size_t nearest_rank(std::size_t count, double quantile) {
  double const rank = std::ceil(quantile * static_cast<double>(count));
  return rank < 1.0 ? 0 : static_cast<std::size_t>(rank) - 1;
}

}  // namespace detail

/// Computes the order statistics of samples.
///
/// @param samples  seconds, in any order
/// @return the statistics; all zero for an empty set
///
/// **Threads:** safe. **Cost:** two sorts.
/// Source of the interval: Conover, Practical Nonparametric Statistics, section 3.2. It assumes no
/// distribution; below 6 samples it is the whole range.
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

/// How long and how precisely to measure: a value, each setter of which returns a changed copy.
class measure_options {
  // Before its users: clang 14 instantiates it for a constant expression only so.
  template <typename T>
  [[nodiscard]] constexpr measure_options with(T measure_options::*member, T value) const {
    measure_options copy = *this;
    copy.*member = value;
    return copy;
  }

 public:
  /// @param seconds  the minimum duration of one sample; shorter calls are repeated within a sample
  [[nodiscard]] constexpr measure_options sample_seconds(double seconds) const {
    return with(&measure_options::sample_seconds_, seconds);
  }
  /// @param count  calls before the first sample, whose times are discarded
  [[nodiscard]] constexpr measure_options warmup_calls(std::size_t count) const {
    return with(&measure_options::warmup_calls_, count);
  }
  /// @param count  the minimum number of samples while time is left, at least 1
  [[nodiscard]] constexpr measure_options min_samples(std::size_t count) const {
    return with(&measure_options::min_samples_, count);
  }
  /// @param count  the maximum number of samples
  [[nodiscard]] constexpr measure_options max_samples(std::size_t count) const {
    return with(&measure_options::max_samples_, count);
  }
  /// @param seconds  measured time after which sampling stops, once there are 3 samples
  [[nodiscard]] constexpr measure_options max_seconds(double seconds) const {
    return with(&measure_options::max_seconds_, seconds);
  }
  /// @param fraction  sampling stops when half the median's confidence interval is at most this
  ///   fraction of the median
  [[nodiscard]] constexpr measure_options precision(double fraction) const {
    return with(&measure_options::precision_, fraction);
  }

  [[nodiscard]] constexpr double sample_seconds() const { return sample_seconds_; }
  [[nodiscard]] constexpr std::size_t warmup_calls() const { return warmup_calls_; }
  [[nodiscard]] constexpr std::size_t min_samples() const { return min_samples_; }
  [[nodiscard]] constexpr std::size_t max_samples() const { return max_samples_; }
  [[nodiscard]] constexpr double max_seconds() const { return max_seconds_; }
  [[nodiscard]] constexpr double precision() const { return precision_; }

 private:
  double sample_seconds_ = 2e-3;
  std::size_t warmup_calls_ = 3;
  std::size_t min_samples_ = 11;
  std::size_t max_samples_ = 201;
  double max_seconds_ = 1.0;
  double precision_ = 0.01;
};

/// The result of measure(), in seconds per call.
struct measurement {
  sample_summary summary;            ///< statistics of the samples, seconds per call
  std::vector<double> samples;       ///< in the order in which they were taken, seconds per call
  std::size_t calls_per_sample = 0;  ///< calls of the callable in each sample
  bool converged = false;            ///< whether the requested precision was reached
};

/// Times calls with a pair of CUDA events: device time, launch gaps included.
///
/// measure() and batch_tuner accept any class with this call operator, for instance one with a
/// simulated clock.
/// **Threads:** one at a time.
class event_stopwatch {
 public:
  /// @throws cuda_error if the events cannot be created
  explicit event_stopwatch(source_location where = source_location::current())
      : begin_{where}, end_{where}, where_{where} {}

  /// Runs `call` back to back and waits for the last call's work.
  ///
  /// @param stream  the stream on which `call` enqueues its work
  /// @param call  callable without arguments
  /// @param repeats  number of calls, at least 1
  /// @return seconds for all calls together
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

// Options is measure_options. These are templates, so that a file which only includes the header
// does not compile them.
template <typename Options>
WARPWRIGHT_COLD void check_measure_options(Options const& o, source_location where) {
  // Comparisons that are false for a NaN.
  bool const valid = o.sample_seconds() >= 0.0 && o.max_seconds() >= 0.0 && o.precision() >= 0.0 &&
                     o.min_samples() >= 1 && o.max_samples() >= o.min_samples();
  if (!valid) {
    throw_invalid_argument(text{"measure_options out of range: sample_seconds "} +
                               o.sample_seconds() + ", max_seconds " + o.max_seconds() +
                               ", precision " + o.precision() + " (none negative), min_samples " +
                               o.min_samples() + " (at least 1), max_samples " + o.max_samples() +
                               " (at least min_samples)",
                           where);
  }
}

// The number of calls per sample that takes at least `sample_seconds`. `time_calls` runs so many
// calls and returns seconds.
inline std::size_t calibrate_repeats(function_ref<double(std::size_t)> time_calls, double one_call,
                                     double sample_seconds, double& spent) {
  constexpr std::size_t max_repeats = std::size_t{1} << 20;
  std::size_t repeats = 1;
  double total = one_call;
  while (total < sample_seconds && repeats < max_repeats) {
    double const per_call = total / static_cast<double>(repeats);
    // 10 % more than needed, so that jitter does not cause another round; at most 16 times as many.
    double const needed = per_call > 0.0 ? 1.1 * sample_seconds / per_call : 1e300;
    double const growth_limit = static_cast<double>(repeats) * 16.0;
    double next = needed < growth_limit ? needed : growth_limit;
    if (next > static_cast<double>(max_repeats)) next = static_cast<double>(max_repeats);
    repeats =
        static_cast<std::size_t>(next) > repeats ? static_cast<std::size_t>(next) : repeats + 1;
    total = time_calls(repeats);
    spent += total;
  }
  return repeats;
}

template <typename Options>
measurement take_samples(function_ref<double(std::size_t)> time_calls, Options const& o) {
  measurement m;
  double spent = 0.0;
  double one_call = time_calls(1);
  for (std::size_t i = 1; i < o.warmup_calls(); ++i) one_call = time_calls(1);
  m.calls_per_sample = calibrate_repeats(time_calls, one_call, o.sample_seconds(), spent);
  array<double> sorted;
  while (m.samples.size() < o.max_samples()) {
    double const total = time_calls(m.calls_per_sample);
    spent += total;
    m.samples.push_back(total / static_cast<double>(m.calls_per_sample));
    insert_sorted(sorted, m.samples.back());
    if (sorted.size() >= 3 && spent >= o.max_seconds()) break;
    if (sorted.size() < o.min_samples()) continue;
    median_ranks const ranks = median_interval(sorted.size());
    double const half_width = 0.5 * (sorted[ranks.high] - sorted[ranks.low]);
    m.converged = sorted.size() > 1 && half_width <= o.precision() * median_of_sorted(sorted);
    if (m.converged) break;
  }
  m.summary = summarize(m.samples);
  return m;
}

}  // namespace detail

/// Measures the time of one call of `callable` on a stream.
///
/// After the warm-up it takes samples of at least `sample_seconds` (short calls are repeated within
/// a sample) until the median's 95 % confidence interval is narrow enough, or a limit of samples or
/// time is reached.
///
/// @param stream  the stream on which `callable` enqueues its work, not capturing
/// @param callable  `void()`
/// @param options  how long and how precisely to measure
/// @param stopwatch  an event_stopwatch, or an object with the same call operator
/// @return the samples and their statistics, in seconds per call
/// @throws std::invalid_argument for options out of range
/// @throws cuda_error if timing fails, or for an error of the work; and whatever `callable` throws
///
/// **Stream:** ordered on `stream`; blocks. **Threads:** one thread at a time per stopwatch.
/// **Capture:** not legal.
template <typename Callable, typename Stopwatch>
measurement measure(stream_ref stream, Callable&& callable, measure_options const& options,
                    Stopwatch& stopwatch, source_location where = source_location::current()) {
  detail::check_measure_options(options, where);
  auto const time_calls = [&](std::size_t repeats) { return stopwatch(stream, callable, repeats); };
  return detail::take_samples(time_calls, options);
}

/// Measures the time of one call of `callable` on a stream with CUDA events; see the overload
/// above.
template <typename Callable>
measurement measure(stream_ref stream, Callable&& callable, measure_options const& options = {},
                    source_location where = source_location::current()) {
  event_stopwatch stopwatch{where};
  return measure(stream, callable, options, stopwatch, where);
}

WARPWRIGHT_END
