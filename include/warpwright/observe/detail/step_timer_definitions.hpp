// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/observe/step_timer.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE step_timer::step_timer(std::size_t window,
                                                               std::size_t warm_up,
                                                               detail::clock_ref clock,
                                                               source_location where)
    : clock_{clock}, warm_up_{warm_up} {
  if (window < 10 || window > 10000) {
    detail::throw_invalid_argument(
        detail::text{"step_timer: window is "} + window + " steps; give 10 to 10000", where);
  }
  baseline_.resize(window);
  recent_.resize(window, timed{0.0, 0});
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE step_statistics step_timer::statistics() const {
  step_statistics s;
  std::size_t const window = baseline_.size();
  std::vector<double> baseline(window);
  std::vector<timed> ring(window, timed{0.0, 0});
  {
    detail::unique_lock<detail::spin_lock> const lock{lock_};
    s.steps = steps_;
    s.items = items_;
    for (std::size_t i = 0; i != window; ++i) {
      baseline[i] = baseline_[i];
      ring[i] = recent_[i];
    }
  }
  s.recent_steps = s.steps < window ? s.steps : window;
  if (s.recent_steps == 0) return s;
  std::vector<double> recent;  // in order
  double seconds = 0.0;
  double items = 0.0;
  for (std::size_t i = s.steps - s.recent_steps; i != s.steps; ++i) {
    timed const& step = ring[i % window];
    recent.push_back(step.seconds);
    seconds += step.seconds;
    items += static_cast<double>(step.items);
  }
  s.items_per_second = seconds > 0.0 ? items / seconds : 0.0;
  sample_summary const all = summarize(recent);
  s.median_seconds = all.median_seconds;
  s.p99_seconds = all.p99_seconds;
  if (s.steps < window) return s;
  // Beginning and end of both intervals: wider than that of the ratio, and as sound.
  detail::series_median const before = detail::median_of_series(baseline.data(), window, 0.01);
  s.baseline_median_seconds = before.median;
  if (s.steps == window || !(before.low > 0.0)) return s;
  detail::series_median const now = detail::median_of_series(recent.data(), recent.size(), 0.01);
  s.slowdown = now.median / before.median;
  s.slowdown_low = now.low / before.high;
  s.slowdown_high = now.high / before.low;
  return s;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string step_statistics::to_text() const {
  if (recent_steps == 0) return "no step yet";
  auto const percent = [](double ratio) {
    return detail::format_number("%+.1f %%", 100 * ratio - 100);
  };
  detail::string_builder line = detail::format_rate(items_per_second) + " items/s, median " +
                                detail::format_seconds(median_seconds) + ", p99 " +
                                detail::format_seconds(p99_seconds) + " (last " +
                                detail::counted(recent_steps, "step") + "); ";
  if (std::isnan(slowdown)) return line + "no baseline yet";
  return line + (slower() ? "SLOWER than the baseline: " : "against the baseline: ") +
         percent(slowdown) + " [" + percent(slowdown_low) + ", " + percent(slowdown_high) + "]";
}

WARPWRIGHT_END
