// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the times of callables by taking turns, so that a change of the GPU's clock rate or of
// other load affects all of them:
//
//   auto const c = ww::compare(stream, old_step, new_step);
//   if (c.verdict(1, 0) == ww::difference::faster) …      // new_step is faster than old_step
//   std::puts(ww::to_text(c.ratio(1, 0)).c_str());        // "faster: 1.25x (1.24 to 1.26)"
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/measure/measure.hpp>

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

WARPWRIGHT_BEGIN

/// Which of two callables is faster.
enum class difference {
  inconclusive,  ///< the interval of the ratio contains 1
  faster,        ///< the first is faster than the second
  slower,        ///< the first is slower than the second
};

/// The difference in words.
char const* to_string(difference d);

/// The ratio of two times that were taken in turns, with its interval of a confidence of 95 %.
///
/// The interval allows for turns that depend on each other, such as phases or a drift: it is the
/// wider, the less steady the ratio is.
struct time_ratio {
  double median = 0.0;  ///< of the ratios of all turns; below 1: the first is faster
  double low = 0.0;     ///< lower end of the interval
  double high = 0.0;    ///< and upper end; infinity: fewer than 6 turns, which show nothing
  /// Whether the ratio was steady, and if not, why; see converged().
  sample_stability stability = sample_stability::too_few_samples;

  /// @return whether the ratio was steady, in turns enough to see that; an unsteady one may be
  ///   another in the next measurement, but within the interval
  [[nodiscard]] bool converged() const noexcept { return stability == sample_stability::converged; }
  /// @return faster or slower where the interval does not contain 1, however unsteady the ratio
  ///   is. Wrong in some 5 % of comparisons of equal callables; in more where few turns are taken
  ///   and they depend on each other, or where changes of one callable alone last nearly as long
  ///   as the comparison (docs/measure.md)
  [[nodiscard]] difference verdict() const noexcept {
    if (high < 1.0) return difference::faster;
    return low > 1.0 ? difference::slower : difference::inconclusive;
  }
};

/// Formats a ratio as a verdict: "faster: 2.40x (1.60 to 3.10), unsteady", where the figure is how
/// many times as fast or as slow the first is.
/// **Threads:** safe.
[[nodiscard]] std::string to_text(time_ratio const& ratio);

/// The result of compare(). Candidates are numbered from 0 in the order of the arguments.
struct comparison {
  /// No candidate.
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// Seconds per call, by candidate and turn: the mean of its two samples in that turn.
  std::vector<std::vector<double>> samples;
  std::vector<sample_summary> summaries;             ///< of these samples, by candidate
  std::vector<std::size_t> calls_per_sample;         ///< by candidate
  stop_reason reason = stop_reason::out_of_samples;  ///< why sampling ended
  double elapsed_seconds = 0.0;                      ///< of the whole comparison
  double precision = 0.0;                            ///< that was requested
  bool long_enough = false;  ///< whether turns were taken for min_seconds, as converged() requires

  /// Returns the ratio of the times of two candidates, turn by turn.
  /// @param first   candidate, below samples.size()
  /// @param second  candidate, below samples.size()
  /// @return time of the first / time of the second
  /// @throws std::invalid_argument for a candidate that does not exist
  /// **Cost:** a sort of the turns.
  [[nodiscard]] time_ratio ratio(std::size_t first, std::size_t second,
                                 source_location where = source_location::current()) const;

  /// Returns whether a candidate is faster than another.
  /// @param first   candidate, below samples.size()
  /// @param second  candidate, below samples.size()
  /// @return the verdict of their ratio: see time_ratio::verdict()
  /// @throws std::invalid_argument for a candidate that does not exist
  [[nodiscard]] difference verdict(std::size_t first, std::size_t second,
                                   source_location where = source_location::current()) const;

  /// Returns the candidate that is shown to be faster than each other one.
  /// @return its number, or `none`: no difference shown between the fastest ones
  [[nodiscard]] std::size_t fastest() const;
};

namespace detail {

// Warm-up, calibration, turns until a stopping rule holds; without summaries.
// @param time_calls  runs so many calls of a candidate, returns seconds
comparison compare_in_turns(std::size_t candidates,
                            function_ref<double(std::size_t, std::size_t)> time_calls,
                            measure_options const& options);
void summarize_candidates(comparison& c, source_location where);

}  // namespace detail

/// Compares callables with another clock than CUDA events.
///
/// @param stopwatch  an event_stopwatch, or an object with the same call operator
/// The other parameters, the result and exceptions are those of compare().
template <typename Stopwatch, typename... Callables>
comparison compare_with(Stopwatch& stopwatch, detail::stream_argument on,
                        measure_options const& options, Callables&&... callables) {
  static_assert(sizeof...(Callables) >= 2, "warpwright: compare() needs two callables or more");
  stream_ref const stream = on.stream;
  source_location const where = on.where;
  detail::check_measure_options(options, where);
  detail::check_not_capturing("compare", stream, where);
  detail::check_pending("a call before compare", where);
  detail::scoped_stream_device const current{stream.get()};
  std::size_t next[sizeof...(Callables)] = {};
  auto const time_calls = [&](std::size_t candidate, std::size_t repeats) {
    double seconds = 0.0;
    std::size_t i = 0;
    auto const try_one = [&](auto& callable) {
      std::size_t const index = i++;
      if (index != candidate) return;
      detail::indexed_call<std::remove_reference_t<decltype(callable)>> call{
          callable, options.inputs(), next[index]};
      seconds =
          detail::checked_seconds(stopwatch(stream, call, repeats), "the work of compare", where);
    };
    (try_one(callables), ...);
    return seconds;
  };
  comparison c = detail::compare_in_turns(sizeof...(Callables), time_calls, options);
  detail::summarize_candidates(c, where);
  return c;
}

/// Compares the times of two callables or more on a stream.
///
/// They are sampled in turns, A B C C B A, so that a drift affects all of them equally, until the
/// interval of the ratio of each to the first is narrow enough, or another stopping rule holds.
/// Limits of samples apply to turns, in which each callable has two samples; at least 6 are taken,
/// unless max_samples or stop_when() end the comparison first, as fewer show no difference.
///
/// @param stream  the stream on which the callables enqueue their work, not capturing; its device
///   is current while they run
/// @param options  how long and how precisely to compare, all callables together
/// @param callables  each `void()`, or `void(std::size_t index)` to change inputs
/// @return the times, their ratios, and which is the fastest
/// @throws std::invalid_argument for options out of range, a capturing stream, or a time that is
///   NaN
/// @throws cuda_error if timing fails, for an error of the work, or for one that a callable or a
///   call before has left pending; and whatever a callable throws
///
/// **Stream:** ordered on `stream`; blocks. **Capture:** not legal.
template <typename... Callables>
comparison compare(detail::stream_argument stream, measure_options const& options,
                   Callables&&... callables) {
  event_stopwatch stopwatch{stream.where};
  return compare_with(stopwatch, stream, options, callables...);
}

/// Compares callables with the default options; see the overload above.
template <typename First, typename... Others,
          typename = std::enable_if_t<
              !std::is_same_v<std::remove_cv_t<std::remove_reference_t<First>>, measure_options>>>
comparison compare(detail::stream_argument stream, First&& first, Others&&... others) {
  event_stopwatch stopwatch{stream.where};
  return compare_with(stopwatch, stream, measure_options{}, first, others...);
}

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/measure/detail/compare_definitions.hpp>
#endif
