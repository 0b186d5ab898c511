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

#include <warpwright/measure/measure.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

WARPWRIGHT_BEGIN

/// A kind of figure that can be expected.
enum class expected_figure {
  throughput,  ///< items per second, at least
  latency,     ///< a quantile of the seconds of one call, at most
  memory,      ///< peak bytes, at most
};

/// One line of a table of expectations.
struct expectation {
  std::string name;  ///< of what is expected to be fast
  expected_figure figure = expected_figure::throughput;
  double quantile = 0.0;  ///< of a latency, 0.99 for the 99th percentile; otherwise 0
  double limit = 0.0;     ///< items per second, seconds or bytes
};

/// What the check of an expectation has shown.
enum class finding_state {
  met,         ///< the figure's whole interval is within the limit
  not_shown,   ///< the interval contains the limit: neither
  fell_short,  ///< the whole interval is beyond the limit
  no_figure,   ///< nothing was observed, or too little for this figure
};

/// The state in words.
char const* to_string(finding_state state);

/// One expectation, and what was observed; in the unit of its limit.
struct finding {
  expectation expected;
  finding_state state = finding_state::no_figure;
  double value = 0.0;  ///< the figure that was observed
  double low = 0.0;    ///< lower end of its interval
  double high = 0.0;   ///< and upper end; infinity: too few samples
  std::string text;    ///< the finding in words, one line
};

/// What expectations::check() found.
struct expectation_report {
  std::vector<finding> findings;  ///< one for each expectation, in the order of the table

  /// @return whether nothing is shown to fall short
  [[nodiscard]] bool ok() const noexcept { return !has(finding_state::fell_short); }
  /// @return whether there was a figure for every expectation
  [[nodiscard]] bool complete() const noexcept { return !has(finding_state::no_figure); }
  /// @return a line for each finding; those that fell short are first
  [[nodiscard]] std::string to_text() const;
  /// Throws if anything is shown to fall short.
  /// @throws std::runtime_error with a line for each expectation that fell short
  void throw_if_short(source_location where = source_location::current()) const;

 private:
  [[nodiscard]] bool has(finding_state state) const noexcept {
    for (finding const& f : findings) {
      if (f.state == state) return true;
    }
    return false;
  }
};

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
  [[nodiscard]] observed throughput(measurement const& m, double items,
                                    source_location where = source_location::current()) const;
  /// @param m  of single calls: with sample_seconds(0), as expectations::latency_options(). Means
  ///   of several calls say nothing about a quantile of single ones
  /// @throws std::invalid_argument for samples of several calls
  [[nodiscard]] observed latency(measurement const& m,
                                 source_location where = source_location::current()) const;
  /// @param bytes  peak memory
  [[nodiscard]] observed memory(std::size_t bytes) const;
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
  [[nodiscard]] bounds figure(expectation const& e, double alpha, source_location where) const;

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
  [[nodiscard]] expectations throughput_at_least(
      std::string name, double items_per_second,
      source_location where = source_location::current()) const;
  /// @param name      of what is measured, not empty
  /// @param quantile  0.99 for the 99th percentile, 0.5 for the median
  /// @param seconds   at most so many for one call, above 0
  /// @throws std::invalid_argument as throughput_at_least(), and for a quantile that is not
  ///   between 0 and 1
  [[nodiscard]] expectations latency_at_most(
      std::string name, double quantile, double seconds,
      source_location where = source_location::current()) const;
  /// @param name   of what is measured, not empty
  /// @param bytes  of peak memory at most, above 0 and below 2^53
  /// @throws std::invalid_argument as throughput_at_least(), and for bytes from 2^53 on, of which a
  ///   table's figures, numbers of type double, do not hold each
  [[nodiscard]] expectations memory_at_most(
      std::string name, std::size_t bytes,
      source_location where = source_location::current()) const;
  /// @return all lines, in the order in which they were added
  [[nodiscard]] std::vector<expectation> const& lines() const noexcept { return lines_; }
  /// @return whether the table has such a line
  [[nodiscard]] bool has(std::string const& name, expected_figure figure) const noexcept;

  /// How observe() measures calls back to back, for a throughput.
  /// @return the options of measure(), with time for noise of which the changes last
  [[nodiscard]] static constexpr measure_options throughput_options() {
    return measure_options{}.max_samples(3000).max_seconds(6.0);
  }
  /// How observe() measures single calls, for the latencies of a name.
  /// @return options for at least 20 samples above the highest quantile (2,000 for a p99), or as
  ///   many as 10 s and 100,000 samples allow
  [[nodiscard]] measure_options latency_options(std::string const& name) const;

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
  [[nodiscard]] expectation_report check(std::vector<observed> const& all,
                                         source_location where = source_location::current()) const;

 private:
  [[nodiscard]] expectations with(expectation line, source_location where) const;

  void check_names(std::vector<observed> const& all, source_location where) const;

  std::vector<expectation> lines_;
};

/// Writes a table as text: a line is empty, a comment that begins with #, or an expectation, as
///
///   warpwright_expected=1<tab>name=decode<tab>figure=latency<tab>quantile=0.99<tab>limit=0.005
///     <tab>unit=s
///
/// with all fields in this order. The unit (s, items/s or bytes) is the last one, so that a line
/// which was cut off is recognised.
/// @return a line for each expectation
[[nodiscard]] std::string to_text(expectations const& table);

/// Reads a table from text as to_text() writes it.
/// @return the table
/// @throws std::invalid_argument for a line that is not an expectation, with the line and its
///   number: an expectation that is skipped would never fail
[[nodiscard]] expectations expectations_from_text(
    std::string const& text, source_location where = source_location::current());

/// Writes a table to a file, which is replaced as a whole.
/// @param path  the file's
/// @throws std::runtime_error if it cannot be written; it is unchanged then
void save_expectations(std::string const& path, expectations const& table,
                       source_location where = source_location::current());

/// Reads a table from a file.
/// @param path  the file's
/// @throws std::runtime_error    if it does not exist or cannot be read
/// @throws std::invalid_argument as expectations_from_text()
[[nodiscard]] expectations load_expectations(std::string const& path,
                                             source_location where = source_location::current());

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
/// converge.
template <typename Callable>
[[nodiscard]] observed observe(stream_ref stream, expectations const& table,
                               std::string const& name, Callable&& callable, double items,
                               source_location where = source_location::current()) {
  event_stopwatch stopwatch{where};
  return observe_with(stopwatch, stream, table, name, callable, items, {}, where);
}

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/measure/detail/expect_definitions.hpp>
#endif
