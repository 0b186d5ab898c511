// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How fast the steps of a loop are, and whether they have become slower:
//
//   ww::step_timer timer;
//   for (…) { train_step(stream); stream.synchronize(); timer.step(batch); }
//   std::puts(timer.to_text().c_str());
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/measure/sample_summary.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// What a step_timer has seen. Recent: of the last `window` steps.
struct step_statistics {
  std::size_t steps = 0;  ///< timed ones
  std::size_t items = 0;  ///< in these
  std::size_t recent_steps = 0;
  double items_per_second = 0.0;         ///< recent; 0: no step yet
  double median_seconds = 0.0;           ///< of the recent steps
  double p99_seconds = 0.0;              ///< of these; below 100 the slowest
  double baseline_median_seconds = 0.0;  ///< 0: not complete yet
  double slowdown = std::nan("");        ///< recent median / baseline's; NaN: no step behind it
  double slowdown_low = 0.0;             ///< its interval, of at least 95 %
  double slowdown_high = HUGE_VAL;

  /// @return whether the recent steps are slower than the baseline, by more than chance explains
  [[nodiscard]] bool slower() const noexcept { return slowdown_low > 1.0; }
  /// @return rate, median, p99 and slowdown in one line
  [[nodiscard]] std::string to_text() const;
};

/// Times the steps of a loop on the host, from the end of one to that of the next.
///
/// **A step that only enqueues work takes as long as that takes: synchronise before step(), or read
/// back a result in every step. Otherwise single times, median and p99 are those of the host, and
/// only the rate over many steps is that of the GPU.**
///
/// The interval of a median allows for steps that depend on each other. Repeated looks find a
/// difference by chance more often than one look: act on one that lasts.
///
/// **Threads:** one calls step(); any may call statistics() and to_text() meanwhile. **Capture:**
/// legal. **Cost:** step() a clock reading and a lock, no allocation; the others sort.
class step_timer {
 public:
  /// @param window   the number of recent steps, and of the baseline: the first ones behind the
  ///   warm-up; 10 to 10,000
  /// @param warm_up  steps at first that are not timed
  /// @param clock    for tests
  /// @throws std::invalid_argument  for another window
  explicit step_timer(std::size_t window = 100, std::size_t warm_up = 10,
                      detail::clock_ref clock = {},
                      source_location where = source_location::current());
  /// Ends a step, which began at the end of the last one. The first call begins the first one.
  /// @param items  in this step: samples, tokens
  void step(std::size_t items = 1) noexcept {
    std::size_t const now = clock_.now();
    detail::unique_lock<detail::spin_lock> const lock{lock_};
    std::size_t const began = began_;
    began_ = now;
    if (began == 0 || warmed_++ < warm_up_) return;
    std::size_t const at = steps_++;
    items_ += items;
    recent_[at % recent_.size()] = timed{static_cast<double>(now - began) * 1e-9, items};
    if (at < baseline_.size()) baseline_[at] = recent_[at].seconds;
  }
  /// Leaves out the time since the last step: of an evaluation, a checkpoint.
  void restart() noexcept {
    std::size_t const now = clock_.now();
    detail::unique_lock<detail::spin_lock> const lock{lock_};
    began_ = now;
  }
  /// @throws std::bad_alloc  when the host has no memory for a copy of the times
  [[nodiscard]] step_statistics statistics() const;
  [[nodiscard]] std::string to_text() const { return statistics().to_text(); }

 private:
  struct timed {
    double seconds;
    std::size_t items;
  };

  detail::clock_ref clock_;
  std::size_t warm_up_;
  mutable detail::spin_lock lock_;
  std::vector<double> baseline_;
  std::vector<timed> recent_;  // a ring
  std::size_t began_ = 0;      // 0: no step yet
  std::size_t warmed_ = 0;
  std::size_t steps_ = 0;
  std::size_t items_ = 0;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/observe/detail/step_timer_definitions.hpp>
#endif
