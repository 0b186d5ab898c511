// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The interval of measure() for noise that changes: slow phases, and drift.
#include "measure/measure_rates.hpp"

namespace ww = warpwright;
using namespace test_support;

TEST_CASE("with slow phases the interval holds the median, or the measurement has not settled",
          "[tune][measure]") {
  for (double const slow_samples : {2.0, 5.0, 10.0, 20.0}) {
    for (double const slow_share : {0.1, 0.25, 0.75}) {
      CAPTURE(slow_samples, slow_share);
      check_honest(phase_noise{slow_samples, slow_share}, 41, "phases", 5);
    }
  }
}

TEST_CASE("phases with two medians are never reported as precise", "[tune][measure]") {
  for (double const slow_samples : {5.0, 10.0, 20.0, 40.0}) {
    CAPTURE(slow_samples);
    rates const r = check_honest(phase_noise{slow_samples, 0.5}, 42, "phases", 5);
    CHECK(rate_is_at_most(r.precise, 0.07, trials));
  }
}

TEST_CASE("a drift beyond the precision does not settle", "[tune][measure]") {
  // In the 250 samples that a measurement takes at least: 12 %, 5 % and 2.5 %.
  for (double const per_sample : {5e-4, 2e-4, 1e-4, -1e-4, -2e-4}) {
    for (double const deviation : {0.0, 0.002, 0.01}) {
      ww::stream const stream;
      noise_source random{51};
      int settled = 0;
      int drifting = 0;
      for (int trial = 0; trial < trials / 5; ++trial) {
        auto const m = measure_once(stream, drift_noise{per_sample, deviation}, random);
        if (m.settled()) ++settled;
        if (m.stability == ww::sample_stability::drifting) ++drifting;
      }
      CAPTURE(per_sample, deviation, settled, drifting);
      CHECK(rate_is_at_least(drifting, 0.95, trials / 5));
      CHECK(rate_is_at_most(settled, 0.05, trials / 5));
    }
  }
}

TEST_CASE("a drift within the precision settles with an interval that contains it",
          "[tune][measure]") {
  ww::stream const stream;
  noise_source random{52};
  int settled = 0;
  int wrong = 0;
  for (int trial = 0; trial < trials; ++trial) {
    auto const m = measure_once(stream, drift_noise{1e-5, 0.0005}, random);
    if (!m.settled()) continue;
    ++settled;
    double const count = static_cast<double>(m.samples.size() + m.warmup_samples);
    double const last = sample_seconds * (1.0 + 1e-5 * count);
    if (last < m.summary.median_low_seconds || last > m.summary.median_high_seconds) ++wrong;
  }
  CAPTURE(settled, wrong);
  CHECK(rate_is_at_least(settled, 0.95, trials));
  CHECK(rate_is_at_most(wrong, 0.07, settled));
}
