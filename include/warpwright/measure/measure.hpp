// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures the time of a callable on a stream, with a confidence interval.
//
//   auto const m = ww::measure(stream, [&] { step(stream); });
//   std::printf("%g us per call, %s\n", 1e6 * m.summary.median_seconds,
//               ww::to_string(m.stability));
//
//   ww::l2_flush flush;
//   auto const cold = ww::measure_cold(stream, flush, [&] { step(stream); });
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/measure/detail/measured_call.hpp>
#include <warpwright/measure/detail/statistics.hpp>
#include <warpwright/measure/sample_summary.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

WARPWRIGHT_BEGIN

/// A non-owning reference to a predicate that asks a measurement to end early.
///
///   std::atomic<bool> quit{false};
///   auto const asked = [&] { return quit.load(); };
///   ww::measure(stream, step, ww::measure_options{}.stop_when(asked));
///
/// **Threads:** the predicate is called by the measuring thread, between samples.
class stop_predicate {
  template <typename Predicate>
  using if_predicate = std::enable_if_t<!std::is_same_v<Predicate, stop_predicate> &&
                                        std::is_invocable_r_v<bool, Predicate const&>>;

 public:
  /// Never asks to stop.
  constexpr stop_predicate() noexcept = default;
  /// @param predicate  `bool()`, const; true: stop; alive while this reference is used
  template <typename Predicate, typename = if_predicate<Predicate>>
  stop_predicate(Predicate const& predicate) noexcept
      : predicate_{&reinterpret_cast<char const&>(predicate)}, call_{[](char const* p) -> bool {
          return reinterpret_cast<Predicate const&>(*p)();
        }} {}
  template <typename Predicate, typename = if_predicate<Predicate>>
  stop_predicate(Predicate const&&) {
    static_assert(!std::is_same_v<Predicate, Predicate>,
                  "warpwright: a stop_predicate does not own the predicate, and a temporary is "
                  "destroyed before it is called; give it a name");
  }

  /// @return whether to stop
  [[nodiscard]] bool operator()() const { return call_ != nullptr && call_(predicate_); }

 private:
  char const* predicate_ = nullptr;
  bool (*call_)(char const*) = nullptr;
};

namespace detail {

struct measure_settings {
  double sample_seconds = 2e-3;
  std::size_t warmup_calls = 3;
  std::size_t min_samples = 50;
  std::size_t max_samples = 1000;
  double min_seconds = 0.5;
  double max_seconds = 2.0;
  double precision = 0.01;
  std::size_t inputs = 1;
  stop_predicate stop_when{};
  clock_ref clock{};
};

}  // namespace detail

/// How long and how precisely to measure: a value, each setter of which returns a changed copy.
class measure_options : public detail::options_base<measure_options, detail::measure_settings> {
 public:
  /// @param s  the minimum duration of one sample, in seconds; shorter calls are repeated within a
  ///   sample; 0: one call a sample
  constexpr self sample_seconds(double s) const { return with(&values::sample_seconds, s); }
  /// @param n  calls before the first sample, whose times are discarded. The first samples are
  ///   discarded as well while they become faster or slower, up to a quarter of max_seconds
  constexpr self warmup_calls(std::size_t n) const { return with(&values::warmup_calls, n); }
  /// @param n  the minimum number of samples while time is left, at least 1; with fewer than 50, a
  ///   measurement does not converge
  constexpr self min_samples(std::size_t n) const { return with(&values::min_samples, n); }
  /// @param n  the maximum number of samples, at most 100,000
  constexpr self max_samples(std::size_t n) const { return with(&values::max_samples, n); }
  /// @param s  the minimum duration of the sampling, in seconds, unless max_samples or max_seconds
  ///   end it first: phases, as of a GPU's clock rate or of other load, are seen if several of them
  ///   pass in that time
  constexpr self min_seconds(double s) const { return with(&values::min_seconds, s); }
  /// @param s  the time, warm-up and calibration included, after which sampling stops, once there
  ///   are 3 samples, or 6 turns of compare()
  constexpr self max_seconds(double s) const { return with(&values::max_seconds, s); }
  /// @param f  sampling stops when half the median's confidence interval is at most this fraction
  ///   of the median
  constexpr self precision(double f) const { return with(&values::precision, f); }
  /// @param n  inputs between which a callable `void(std::size_t index)` changes: index is 0 for
  ///   its first call, 1 for the next, up to n - 1, then 0 again
  constexpr self inputs(std::size_t n) const { return with(&values::inputs, n); }
  /// @param predicate  sampling stops when it returns true; it is called between samples
  constexpr self stop_when(stop_predicate predicate) const {
    return with(&values::stop_when, predicate);
  }
  /// @param time  counts the limits of time, and the host's time per call; for tests
  constexpr self clock(detail::clock_ref time) const { return with(&values::clock, time); }

  constexpr double sample_seconds() const { return values_.sample_seconds; }
  constexpr std::size_t warmup_calls() const { return values_.warmup_calls; }
  constexpr std::size_t min_samples() const { return values_.min_samples; }
  constexpr std::size_t max_samples() const { return values_.max_samples; }
  constexpr double min_seconds() const { return values_.min_seconds; }
  constexpr double max_seconds() const { return values_.max_seconds; }
  constexpr double precision() const { return values_.precision; }
  constexpr std::size_t inputs() const { return values_.inputs; }
  constexpr stop_predicate stop_when() const { return values_.stop_when; }
  constexpr detail::clock_ref clock() const { return values_.clock; }
};

/// Why sampling ended.
enum class stop_reason {
  precision_reached,  ///< the median's interval is as narrow as requested
  noise_converged,    ///< the noise does not change any more, and more samples would not suffice
  out_of_samples,     ///< max_samples
  out_of_time,        ///< max_seconds
  interrupted,        ///< the predicate of stop_when()
};

/// The reason in words.
char const* to_string(stop_reason reason);

/// The result of measure() and measure_cold(); times are seconds per call.
///
/// The median's interval holds the median with a confidence of at least 95 % if the measurement has
/// converged; otherwise `stability` says why it may not, and the interval is only what the samples
/// covered.
struct measurement {
  /// Statistics of the samples; the median's interval allows for correlation of the samples. The
  /// bounds of p90 and p99 hold for independent samples. A sample is the mean of calls_per_sample
  /// calls: for the tail of single calls, measure with sample_seconds(0).
  sample_summary summary;
  sample_stability stability = sample_stability::too_few_samples;  ///< see converged()
  stop_reason reason = stop_reason::out_of_samples;                ///< why sampling ended
  double effective_samples = 0.0;    ///< independent samples with as much information
  std::vector<double> samples;       ///< in the order in which they were taken
  std::size_t calls_per_sample = 0;  ///< calls of the callable in each sample
  std::size_t warmup_samples = 0;    ///< discarded, as calls became faster or slower
  double elapsed_seconds = 0.0;      ///< of the whole measurement, warm-up included
  /// The host's time per call, for enqueueing its work; as large as the device's time where the
  /// queue was full or the callable waits. All zero where it was not measured.
  sample_summary host;
  std::vector<double> clock_hz;  ///< the GPU's clock rate in each sample; 0: not known; or empty
  std::size_t throttled_samples = 0;  ///< samples at below 75 % of the fastest clock rate seen
  /// Whether the statistics leave the throttled samples out, as they do if these are less than
  /// half.
  bool throttled_excluded = false;

  /// @return whether the median's interval can be believed
  [[nodiscard]] bool converged() const noexcept { return stability == sample_stability::converged; }
  /// @return half of the median's interval as a fraction of the median; 0 for a median of 0
  [[nodiscard]] double relative_half_width() const noexcept {
    double const half = 0.5 * (summary.median_high_seconds - summary.median_low_seconds);
    return summary.median_seconds > 0.0 ? half / summary.median_seconds : 0.0;
  }
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

/// Owns a buffer of twice the size of the L2 cache, and overwrites it, so that nothing else is in
/// the cache. Not copyable.
///
/// **Threads:** one stream at a time.
class l2_flush {
 public:
  /// Allocates the buffer on the current device.
  /// @throws cuda_error if the cache's size cannot be queried, or for lack of memory
  /// **Capture:** not legal. **Cost:** one cudaMalloc of twice the size of the L2 cache; 100 MB on
  /// an H100.
  explicit l2_flush(source_location where = source_location::current());
  /// The other object is left without a buffer.
  l2_flush(l2_flush&& other) noexcept
      : buffer_{detail::exchange(other.buffer_, nullptr)},
        bytes_{detail::exchange(other.bytes_, std::size_t{0})},
        where_{other.where_} {}
  l2_flush& operator=(l2_flush&&) = delete;
  /// Frees the buffer, which waits for the device.
  ~l2_flush();

  /// Overwrites the buffer.
  /// @param stream  of the device that was current at construction
  /// @throws cuda_error if the call fails
  /// **Stream:** one cudaMemsetAsync on `stream`; does not block. **Capture:** legal.
  void operator()(stream_ref stream);
  /// @return the size of the buffer; 0 on a device that reports no L2 cache
  [[nodiscard]] std::size_t size_bytes() const noexcept { return bytes_; }

 private:
  void* buffer_ = nullptr;
  std::size_t bytes_ = 0;
  source_location where_;
};

/// Pass this to measure() where the GPU's clock rate is not read; otherwise an sm_clock, or an
/// object with the same functions.
struct no_clock_source {
  void start(stream_ref) const noexcept {}
  /// @return 0: not known
  double stop(stream_ref) const noexcept { return 0.0; }
};

namespace detail {

// What a sample reports beside the seconds of its calls.
struct sample_details {
  double host_seconds = 0.0;   // the host's time for all calls
  double clock_hz = 0.0;       // the GPU's clock rate; 0: not known
  double extra_seconds = 0.0;  // what the sample took beside its calls, such as flushing caches
};

void check_measure_options(measure_options const& o, source_location where);

// What a stopwatch has returned, unless no time can be so, or what was timed has left an error
// pending: a launch that failed would be measured as fast.
// @param timed  what it was, a string literal
// @param name   the name that a user has given it, or null
double checked_seconds(double seconds, char const* timed, source_location where,
                       char const* name = nullptr);

// @param what  measure, compare or choose
void check_not_capturing(char const* what, stream_ref stream, source_location where);

// Warm-up, calibration, sampling until a stopping rule holds.
// @param time_calls  runs so many calls, returns seconds
// @param details     where time_calls leaves what it reports beside the time; null: nothing
measurement take_samples(function_ref<double(std::size_t)> time_calls,
                         measure_options const& options, sample_details const* details = nullptr);

template <typename T>
using unless_location = std::enable_if_t<
    !std::is_same_v<std::remove_cv_t<std::remove_reference_t<T>>, source_location>>;

// @param flush  null for hot calls
template <typename Callable, typename Stopwatch, typename Clock, typename Flush>
measurement measure_with(stream_ref stream, Callable& callable, measure_options const& options,
                         Stopwatch& stopwatch, Clock& clock, Flush* flush, source_location where) {
  check_measure_options(options, where);
  check_not_capturing("measure", stream, where);
  check_pending("a call before measure", where);
  scoped_stream_device const current{stream.get()};
  measured_call<Callable> call{callable, options.inputs(), options.clock()};
  sample_details details;
  auto const time_calls = [&](std::size_t repeats) {
    double const host = call.host_seconds();
    std::uint64_t const start = flush != nullptr ? options.clock().now() : 0;
    double seconds = 0.0;
    clock.start(stream);
    if (flush == nullptr) {
      call.begin(repeats);
      seconds = checked_seconds(stopwatch(stream, call, repeats), "the work of measure", where);
    } else {
      for (std::size_t i = 0; i < repeats; ++i) {
        (*flush)(stream);
        call.begin(1);
        seconds += checked_seconds(stopwatch(stream, call, 1), "the work of measure_cold", where);
      }
    }
    details.clock_hz = clock.stop(stream);
    details.host_seconds = call.host_seconds() - host;
    if (flush != nullptr) {
      double const all = 1e-9 * static_cast<double>(options.clock().now() - start);
      details.extra_seconds = all > seconds ? all - seconds : 0.0;
    }
    return seconds;
  };
  return take_samples(time_calls, options, &details);
}

}  // namespace detail

/// Measures the time of one call of `callable` on a stream.
///
/// After the warm-up it takes samples of at least `sample_seconds` (short calls are repeated within
/// a sample) until the median's interval is narrow enough, or another stopping rule holds. The
/// result says which, and whether its interval can be believed: with drift, or with phases or other
/// correlation for which the interval cannot allow, the measurement has not converged. Changes that
/// take longer than a tenth of the sampling are not always seen, and those that take longer than a
/// third seldom (min_seconds).
///
/// The calls run back to back, so that the data of each are where the one before has left them:
/// often in the L2 cache. See measure_cold() for the opposite.
///
/// @param stream  the stream on which `callable` enqueues its work, not capturing; its device is
///   current while `callable` runs
/// @param callable  `void()`, or `void(std::size_t index)` to change inputs (see
///   measure_options::inputs)
/// @param options  how long and how precisely to measure
/// @param stopwatch  an event_stopwatch, or an object with the same call operator
/// @param clock  an sm_clock, to mark samples in which the GPU was throttled, or no_clock_source
/// @return the samples and their statistics, in seconds per call
/// @throws std::invalid_argument for options out of range, a capturing stream, or a stopwatch that
///   returns a negative time, NaN or infinity
/// @throws cuda_error if timing fails, for an error of the work, or for one that `callable` or a
///   call before has left pending (a failed launch would be measured as fast); and whatever
///   `callable` throws
///
/// **Stream:** ordered on `stream`; blocks. **Threads:** one thread at a time per stopwatch.
/// **Capture:** not legal. **Cost:** no allocation while sampling.
template <typename Callable, typename Stopwatch, typename Clock,
          typename = detail::unless_location<Clock>>
measurement measure(stream_ref stream, Callable&& callable, measure_options const& options,
                    Stopwatch& stopwatch, Clock&& clock,
                    source_location where = source_location::current()) {
  void (*const no_flush)(stream_ref) = nullptr;
  return detail::measure_with(stream, callable, options, stopwatch, clock, no_flush, where);
}

/// Measures the time of one call of `callable` with a stopwatch, and without reading the GPU's
/// clock rate; see the overload above.
template <typename Callable, typename Stopwatch, typename = detail::unless_location<Stopwatch>>
measurement measure(stream_ref stream, Callable&& callable, measure_options const& options,
                    Stopwatch& stopwatch, source_location where = source_location::current()) {
  return measure(stream, callable, options, stopwatch, no_clock_source{}, where);
}

/// Measures the time of one call of `callable` on a stream with CUDA events; see the first
/// overload.
template <typename Callable>
measurement measure(stream_ref stream, Callable&& callable, measure_options const& options = {},
                    source_location where = source_location::current()) {
  event_stopwatch stopwatch{where};
  return measure(stream, callable, options, stopwatch, no_clock_source{}, where);
}

/// Measures the time of one call of `callable` whose data are not in the L2 cache.
///
/// `flush` runs before every call, and its time does not count; a sample of at least
/// `sample_seconds` includes it. Otherwise as measure().
///
/// @param flush  an l2_flush, or another `void(stream_ref)` that enqueues work on the stream
/// The other parameters, the result and exceptions are those of measure().
///
/// **Stream:** ordered on `stream`; blocks. **Threads:** one thread at a time per stopwatch.
/// **Capture:** not legal. **Cost:** the host waits after every call.
template <typename Flush, typename Callable, typename Stopwatch, typename Clock>
measurement measure_cold(stream_ref stream, Flush&& flush, Callable&& callable,
                         measure_options const& options, Stopwatch& stopwatch, Clock&& clock,
                         source_location where = source_location::current()) {
  return detail::measure_with(stream, callable, options, stopwatch, clock, &flush, where);
}

/// Measures cold calls with CUDA events; see the overload above.
template <typename Flush, typename Callable>
measurement measure_cold(stream_ref stream, Flush&& flush, Callable&& callable,
                         measure_options const& options = {},
                         source_location where = source_location::current()) {
  event_stopwatch stopwatch{where};
  return measure_cold(stream, flush, callable, options, stopwatch, no_clock_source{}, where);
}

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/measure/detail/measure_definitions.hpp>
#endif
