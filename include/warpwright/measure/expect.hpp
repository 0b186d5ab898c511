// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks at a service's start-up whether it is as fast as it should be, and says what is not:
//
//   auto const expected = ww::expectations{}.throughput_at_least("decode", 20e3)
//                                           .latency_at_most("decode", 0.99, 5e-3);
//   auto const found = expected.check({ww::observe(stream, expected, "decode", step, 64)});
//   std::puts(found.to_text().c_str());  // p99 of decode: 6.12 ms, expected at most 5 ms (22 % …
//   found.throw_if_short();
#pragma once

#include <warpwright/measure/detail/expectation_text.hpp>
#include <warpwright/measure/expectation.hpp>
#include <warpwright/measure/measure.hpp>

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

WARPWRIGHT_BEGIN

/// Figures of one workload for expectations::check(); each setter returns a changed copy.
class observed {
 public:
  /// @param name  as in the table
  explicit observed(std::string name) : name_{std::move(name)} {}

  /// Takes the figures of a stored tune, which have no intervals: they count as exact to 5 %, and
  /// the memory as exact. Of latencies there are the median and the 99th percentile.
  /// @param name    as in the table
  /// @param record  a tuning_record; figures that are 0 or not finite are not known
  template <typename Record>
  [[nodiscard]] static observed of_record(std::string name, Record const& record) {
    constexpr double allowance = 0.05;
    observed o{std::move(name)};
    auto const interval = [](double value) {
      bool const known = value > 0.0 && value < HUGE_VAL;
      return bounds{value, (1.0 - allowance) * value, (1.0 + allowance) * value, known};
    };
    o.throughput_ = interval(record.items_per_second);
    o.median_ = interval(record.latency_median_seconds);
    o.p99_ = interval(record.latency_p99_seconds);
    return record.memory_bytes > 0 ? o.memory(record.memory_bytes) : o;
  }

  /// The throughput is that of the median sample: rare stalls do not lower it, but a p99 shows
  /// them.
  /// @param m      of calls back to back, as measure() takes by default
  /// @param items  that one call processes
  /// @throws std::invalid_argument for items that are not above 0 and finite
  template <typename Measurement = measurement>
  [[nodiscard]] observed throughput(Measurement const& m, double items,
                                    source_location where = source_location::current()) const {
    if (!(items > 0.0 && items < HUGE_VAL)) {
      detail::throw_invalid_argument(detail::text{"observed: "} + items +
                                         " items a call; pass how many items one call processes",
                                     where);
    }
    observed o = *this;
    sample_summary const& s = m.summary;
    o.throughput_.known = s.count > 0 && s.median_seconds > 0.0;
    if (!o.throughput_.known) return o;
    o.throughput_.value = items / s.median_seconds;
    o.throughput_.low = items / s.median_high_seconds;
    o.throughput_.high = s.median_low_seconds > 0.0 ? items / s.median_low_seconds : HUGE_VAL;
    return o;
  }
  /// @param m  of single calls: with sample_seconds(0), as expectations::latency_options(). Means
  ///   of several calls say nothing about a quantile of single ones
  /// @throws std::invalid_argument for samples of several calls
  template <typename Measurement = measurement>
  [[nodiscard]] observed latency(Measurement const& m,
                                 source_location where = source_location::current()) const {
    if (m.calls_per_sample > 1) {
      detail::throw_invalid_argument(
          detail::text{"observed: the samples are means of "} + m.calls_per_sample +
              " calls; measure single calls, with expectations::latency_options()",
          where);
    }
    observed o = *this;
    sample_summary const& s = m.summary;
    o.median_ = bounds{s.median_seconds, s.median_low_seconds, s.median_high_seconds, s.count > 0};
    o.p99_ = bounds{};
    o.samples_ = m.samples;
    o.effective_samples_ = m.effective_samples;
    return o;
  }
  /// @param bytes  peak memory
  template <typename Observed = observed>
  [[nodiscard]] Observed memory(std::size_t bytes) const {
    observed o = *this;
    auto const value = static_cast<double>(bytes);
    o.memory_ = bounds{value, value, value, true};
    return o;
  }
  /// @return the name that was given
  [[nodiscard]] std::string const& name() const noexcept { return name_; }

 private:
  friend class expectations;

  struct bounds {
    double value = 0.0;
    double low = 0.0;
    double high = 0.0;
    bool known = false;
  };

  // @param alpha  the probability that the lower bound is above a quantile
  template <typename Real>
  [[nodiscard]] bounds figure(expectation const& e, Real alpha, source_location where) const {
    if (e.figure == expected_figure::throughput) return throughput_;
    if (e.figure == expected_figure::memory) return memory_;
    if (std::fabs(e.quantile - Real{0.5}) < 1e-12) return median_;
    if (samples_.empty()) return std::fabs(e.quantile - Real{0.99}) < 1e-12 ? p99_ : bounds{};
    detail::array<double> const sorted = detail::sorted_copy(samples_, where);
    std::size_t const n = sorted.size();
    // Correlated samples stand for fewer independent ones, of which the ranks are then stretched.
    auto effective = static_cast<std::size_t>(effective_samples_);
    effective = effective > n ? n : effective < 1 ? 1 : effective;
    auto const stretched = [n, effective](std::size_t rank) { return rank * n / effective; };
    constexpr Real alpha_high = 0.05;
    std::size_t const below = detail::binomial_tail(effective, e.quantile, alpha, effective);
    std::size_t const above =
        detail::binomial_tail(effective, 1.0 - e.quantile, alpha_high, effective);
    bounds b;
    b.known = true;
    b.value = sorted[detail::nearest_rank(n, e.quantile)];
    b.low = below == 0 ? 0.0 : sorted[stretched(below - 1)];
    b.high = above == 0 ? HUGE_VAL : sorted[n - 1 - stretched(above - 1)];
    return b;
  }

  std::string name_;
  bounds throughput_;
  bounds median_;
  bounds p99_;
  bounds memory_;
  std::vector<double> samples_;  // seconds of single calls
  double effective_samples_ = 0.0;
};

/// A table of expected figures; each function that adds a line returns a changed copy.
///
/// A plain value. See save_expectations() for a file.
class expectations {
 public:
  /// @param name              of what is measured, not empty
  /// @param items_per_second  at least so many, above 0
  /// @throws std::invalid_argument for a name that is empty, a limit that is not above 0 and
  ///   finite, or a line that is there already
  template <typename String = std::string>
  [[nodiscard]] expectations throughput_at_least(
      String name, double items_per_second,
      source_location where = source_location::current()) const {
    return with(expectation{std::move(name), expected_figure::throughput, 0.0, items_per_second},
                where);
  }
  /// @param name      of what is measured, not empty
  /// @param quantile  0.99 for the 99th percentile, 0.5 for the median
  /// @param seconds   at most so many for one call, above 0
  /// @throws std::invalid_argument as throughput_at_least(), and for a quantile that is not
  ///   between 0 and 1
  template <typename String = std::string>
  [[nodiscard]] expectations latency_at_most(
      String name, double quantile, double seconds,
      source_location where = source_location::current()) const {
    detail::check_quantile(quantile, 0.5, where);
    return with(expectation{std::move(name), expected_figure::latency, quantile, seconds}, where);
  }
  /// @param name   of what is measured, not empty
  /// @param bytes  of peak memory at most, above 0 and below 2^53
  /// @throws std::invalid_argument as throughput_at_least(), and for bytes from 2^53 on, of which a
  ///   table's figures, numbers of type double, do not hold each
  template <typename String = std::string>
  [[nodiscard]] expectations memory_at_most(
      String name, std::size_t bytes, source_location where = source_location::current()) const {
    expectation line{std::move(name), expected_figure::memory, 0.0, static_cast<double>(bytes)};
    if (bytes >= detail::memory_limit_end) {
      detail::throw_invalid_argument(detail::text{"expectations: a limit of "} + bytes +
                                         " bytes for '" + line.name.c_str() +
                                         "'; it must be below 2^53: leave the line out if there is "
                                         "no limit",
                                     where);
    }
    return with(std::move(line), where);
  }
  /// @return all lines, in the order in which they were added
  [[nodiscard]] std::vector<expectation> const& lines() const noexcept { return lines_; }
  /// @return whether the table has such a line
  [[nodiscard]] bool has(std::string const& name, expected_figure figure) const noexcept {
    for (expectation const& e : lines_) {
      if (e.figure == figure && e.name == name) return true;
    }
    return false;
  }

  /// How observe() measures calls back to back, for a throughput.
  /// @return the options of measure(), with time for noise of which the changes last
  [[nodiscard]] static constexpr measure_options throughput_options() {
    return measure_options{}.max_samples(3000).max_seconds(6.0);
  }
  /// How observe() measures single calls, for the latencies of a name.
  /// @return options for at least 20 samples above the highest quantile (2,000 for a p99), or as
  ///   many as 10 s and 100,000 samples allow
  [[nodiscard]] measure_options latency_options(std::string const& name) const {
    double needed = 200.0;
    for (expectation const& e : lines_) {
      if (e.figure != expected_figure::latency || e.name != name) continue;
      double const samples = 20.0 / (1.0 - e.quantile);
      if (samples > needed) needed = samples;
    }
    constexpr std::size_t most = 100000;
    auto const count = needed < 1e5 ? static_cast<std::size_t>(needed + 0.5) : most;
    return measure_options{}
        .sample_seconds(0.0)
        .precision(0.02)
        .min_samples(count)
        .max_samples(most)
        .max_seconds(10.0);
  }

  /// Compares what was observed with the table.
  ///
  /// A figure falls short only where its whole interval does. All lines together: of systems that
  /// are 2 % better than each limit, at most 1 % are said to fall short. How small a shortfall is
  /// seen depends on the noise and the number of samples: with observe() a throughput of 10 % too
  /// little, or a p99 10 % too long, in 99 % of checks, unless one call in a hundred takes more
  /// than about 1.7 times the median. Otherwise the finding is not_shown, with the interval.
  ///
  /// @param all  a list of observed, each of a name in the table and of another one
  /// @return a finding for each line; no_figure where there is no observation for it
  /// @throws std::invalid_argument for names that are not in the table, or twice in the list
  ///
  /// **Threads:** safe. **Cost:** a sort of the samples for each latency.
  /// Source of the intervals of quantiles: Conover, Practical Nonparametric Statistics, section
  /// 3.2.
  template <typename List = std::initializer_list<observed>>
  [[nodiscard]] expectation_report check(List const& all,
                                         source_location where = source_location::current()) const {
    check_names(all, where);
    double const alpha = 0.01 / static_cast<double>(lines_.size() > 0 ? lines_.size() : 1);
    expectation_report report;
    for (expectation const& e : lines_) {
      report.findings.emplace_back();
      finding& f = report.findings.back();
      f.expected = e;
      for (observed const& o : all) {
        if (o.name() != e.name) continue;
        auto const figure = o.figure(e, alpha, where);
        if (!figure.known) continue;
        f.value = figure.value;
        f.low = figure.low;
        f.high = figure.high;
        bool const at_least = e.figure == expected_figure::throughput;
        bool const beyond = at_least ? f.high < e.limit : f.low > e.limit;
        bool const within = at_least ? f.low >= e.limit : f.high <= e.limit;
        f.state = beyond   ? finding_state::fell_short
                  : within ? finding_state::met
                           : finding_state::not_shown;
      }
      f.text = detail::finding_text<finding>{f}.text().str();
    }
    return report;
  }

 private:
  template <typename Line>
  [[nodiscard]] expectations with(Line line, source_location where) const {
    if (line.name.empty()) {
      detail::throw_invalid_argument("expectations: a name is empty; name what is measured", where);
    }
    if (!(line.limit > 0.0 && line.limit < HUGE_VAL)) {
      detail::throw_invalid_argument(detail::text{"expectations: a limit of "} + line.limit +
                                         " for '" + line.name.c_str() +
                                         "'; it must be above 0 and finite",
                                     where);
    }
    for (expectation const& e : lines_) {
      if (e.name != line.name || e.figure != line.figure ||
          std::fabs(e.quantile - line.quantile) > 1e-12) {
        continue;
      }
      detail::throw_invalid_argument(detail::text{"expectations: two limits for "} +
                                         detail::what_is_expected(line).str().c_str() +
                                         "; keep one of them",
                                     where);
    }
    expectations copy = *this;
    copy.lines_.push_back(std::move(line));
    return copy;
  }

  template <typename List>
  void check_names(List const& all, source_location where) const {
    for (observed const& o : all) {
      bool known = false;
      for (expectation const& e : lines_) known = known || e.name == o.name();
      int count = 0;
      for (observed const& other : all) count += other.name() == o.name() ? 1 : 0;
      if (known && count == 1) continue;
      detail::throw_invalid_argument(
          detail::text{"expectations: '"} + o.name().c_str() +
              (known ? "' was observed twice; pass one observation with all figures"
                     : "' was observed, but nothing is expected of it; use the table's name"),
          where);
    }
  }

  std::vector<expectation> lines_;
};

/// Measures what a table expects of a workload, with another clock than CUDA events.
/// @param stopwatch  an event_stopwatch, or an object with the same call operator
/// @param clock      counts the limits of time; for tests
/// The other parameters, the result and exceptions are those of observe().
template <typename Callable, typename Stopwatch>
[[nodiscard]] observed observe_with(Stopwatch& stopwatch, stream_ref stream,
                                    expectations const& table, std::string const& name,
                                    Callable&& callable, double items, detail::clock_ref clock = {},
                                    source_location where = source_location::current()) {
  auto const take = [&](measure_options const& options) {
    return measure(stream, callable, options, stopwatch, where);
  };
  observed o{name};
  if (table.has(name, expected_figure::throughput)) {
    o = o.throughput(take(expectations::throughput_options().clock(clock)), items, where);
  }
  if (table.has(name, expected_figure::latency)) {
    o = o.latency(take(table.latency_options(name).clock(clock)), where);
  }
  return o;
}

/// Measures what a table expects of a workload: its throughput with calls back to back, and its
/// latencies with single calls.
///
/// @param stream    the stream on which `callable` enqueues its work, not capturing; its device is
///   current while `callable` runs
/// @param table     which figures are needed
/// @param name      of the workload, as in the table
/// @param callable  `void()`: enqueues one call; it runs thousands of times
/// @param items     that one call processes
/// @return the figures; add the peak memory with observed::memory()
/// @throws std::invalid_argument for items that are not above 0, or a capturing stream
/// @throws cuda_error if timing fails, for an error of the work, or for one that `callable` or a
///   call before has left pending; and whatever `callable` throws
///
/// **Stream:** ordered on `stream`; blocks. **Capture:** not legal. **Cost:** some 0.7 s for the
/// throughput, and for a p99 2,000 calls or 0.5 s; at most 6 s and 10 s where the times do not
/// settle.
template <typename Callable>
[[nodiscard]] observed observe(stream_ref stream, expectations const& table,
                               std::string const& name, Callable&& callable, double items,
                               source_location where = source_location::current()) {
  event_stopwatch stopwatch{where};
  return observe_with(stopwatch, stream, table, name, callable, items, {}, where);
}

WARPWRIGHT_END
