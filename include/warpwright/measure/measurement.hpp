// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The result of measure() and measure_cold().
#pragma once

#include <warpwright/measure/detail/series_analysis.hpp>
#include <warpwright/measure/measure_options.hpp>
#include <warpwright/measure/sample_summary.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

WARPWRIGHT_BEGIN

/// The result of measure() and measure_cold(); times are seconds per call.
///
/// The median's interval holds the median with a confidence of at least 95 % if the measurement has
/// settled; otherwise `stability` says why it may not, and the interval is only what the samples
/// covered.
struct measurement {
  /// Statistics of the samples; the median's interval allows for correlation of the samples. The
  /// bounds of p90 and p99 hold for independent samples. A sample is the mean of calls_per_sample
  /// calls: for the tail of single calls, measure with sample_seconds(0).
  sample_summary summary;
  sample_stability stability = sample_stability::too_few_samples;  ///< see settled()
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
  [[nodiscard]] bool settled() const noexcept { return stability == sample_stability::settled; }
  /// @return half of the median's interval as a fraction of the median; 0 for a median of 0
  [[nodiscard]] double relative_half_width() const noexcept {
    double const half = 0.5 * (summary.median_high_seconds - summary.median_low_seconds);
    return summary.median_seconds > 0.0 ? half / summary.median_seconds : 0.0;
  }
};

WARPWRIGHT_END
