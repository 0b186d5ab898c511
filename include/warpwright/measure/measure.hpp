// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures the time of a callable on a stream, with a confidence interval.
//
//   auto const m = ww::measure(stream, [&] { step(stream); });
//   std::printf("%g us per call, %s\n", 1e6 * m.summary.median_seconds,
//   ww::to_string(m.stability));
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/measure/detail/measured_call.hpp>
#include <warpwright/measure/detail/take_samples.hpp>
#include <warpwright/measure/event_stopwatch.hpp>
#include <warpwright/measure/measure_options.hpp>
#include <warpwright/measure/measurement.hpp>
#include <warpwright/measure/sample_summary.hpp>

#include <cstddef>
#include <type_traits>

WARPWRIGHT_BEGIN

/// Pass this to measure() where the GPU's clock rate is not read; otherwise an sm_clock, or an
/// object with the same functions.
struct no_clock_source {
  void start(stream_ref) const noexcept {}
  /// @return 0: not known
  double stop(stream_ref) const noexcept { return 0.0; }
};

namespace detail {

template <typename T>
using unless_location = std::enable_if_t<
    !std::is_same_v<std::remove_cv_t<std::remove_reference_t<T>>, source_location>>;

// @param flush  null for hot calls
template <typename Callable, typename Stopwatch, typename Clock, typename Flush>
measurement measure_with(stream_ref stream, Callable& callable, measure_options const& options,
                         Stopwatch& stopwatch, Clock& clock, Flush* flush, source_location where) {
  check_measure_options(options, where);
  if (stream.is_capturing(where)) {
    throw_invalid_argument(
        "measure: the stream is capturing, so that the work would not run; measure before the "
        "capture",
        where);
  }
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
/// correlation for which the interval cannot allow, the measurement has not settled. Changes that
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
