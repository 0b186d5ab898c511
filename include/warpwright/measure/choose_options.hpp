// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How choose() and chooser compare candidates.
#pragma once

#include <warpwright/measure/measure_options.hpp>

WARPWRIGHT_BEGIN

/// How choose() and chooser compare candidates: a value, each setter of which returns a changed
/// copy.
class choose_options {
 public:
  /// @param options  how long and how precisely to compare, all candidates of a shape together;
  ///   the default takes 0.1 to 2 s. For long calls max_seconds is raised such that each candidate
  ///   gets at least 6 turns, without which no difference can be shown
  [[nodiscard]] constexpr choose_options sampling(measure_options const& options) const {
    choose_options copy = *this;
    copy.sampling_ = options;
    return copy;
  }
  /// @param factor  a candidate of which single calls take more than this many times as long as
  ///   another one's, and longer than a sample, is left out before the comparison; above 1, default
  ///   4
  [[nodiscard]] constexpr choose_options far_slower(double factor) const {
    choose_options copy = *this;
    copy.far_slower_ = factor;
    return copy;
  }
  /// @param flush  whether the L2 cache is emptied before each call that is timed; the time of that
  ///   does not count. Default false: the calls run back to back, and find their data in the cache
  ///   if they fit. Set it where the program meets cold data: a weight that is read once a step,
  ///   with others in between. A candidate may win on warm data and lose on cold ones. A
  ///   measurement then takes device memory of twice the cache's size, and the host waits after
  ///   every call. Stored choices are kept apart. On the host runtime it changes no times
  [[nodiscard]] constexpr choose_options cold(bool flush = true) const {
    choose_options copy = *this;
    copy.cold_ = flush;
    return copy;
  }

  [[nodiscard]] constexpr measure_options const& sampling() const { return sampling_; }
  [[nodiscard]] constexpr double far_slower() const { return far_slower_; }
  [[nodiscard]] constexpr bool is_cold() const { return cold_; }

 private:
  // Shorter than measure() samples, as there is a choice for every shape; a difference below the
  // precision does not matter to it.
  measure_options sampling_ =
      measure_options{}.sample_seconds(5e-4).min_seconds(0.1).max_seconds(2.0);
  double far_slower_ = 4.0;
  bool cold_ = false;
};

WARPWRIGHT_END
