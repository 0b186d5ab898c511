// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The interval of measure() for independent and correlated noise, of which the median is known.
#include "measure/measure_rates.hpp"

using namespace test_support;

TEST_CASE("clean noise settles, and its interval holds the median", "[tune][measure]") {
  for (double const deviation : {0.002, 0.02, 0.05}) {
    CAPTURE(deviation);
    rates const r = check_honest(normal_noise{deviation}, 11, "normal", 3);
    CHECK(rate_is_at_least(r.settled, 0.99, trials));
    CHECK(rate_is_at_least(r.precise, 0.95, trials));
    CHECK(r.samples < 600.0);
  }
  rates const skewed = check_honest(lognormal_noise{0.05}, 12, "lognormal", 3);
  CHECK(rate_is_at_least(skewed.settled, 0.99, trials));
  CHECK(rate_is_at_least(skewed.precise, 0.95, trials));
  rates const modes = check_honest(bimodal_noise{0.3}, 13, "bimodal", 3);
  CHECK(rate_is_at_least(modes.settled, 0.99, trials));
  CHECK(rate_is_at_least(modes.precise, 0.95, trials));
  rates const spikes = check_honest(spike_noise{0.01}, 14, "spikes", 3);
  CHECK(rate_is_at_least(spikes.settled, 0.99, trials));
  CHECK(rate_is_at_least(spikes.precise, 0.95, trials));
  CHECK(spikes.samples < 270.0);
}

TEST_CASE("noise that is too large for the precision ends early, and its interval holds",
          "[tune][measure]") {
  rates const r = check_honest(normal_noise{0.2}, 21, "normal", 3);
  CHECK(rate_is_at_least(r.settled, 0.98, trials));
  CHECK(r.precise == 0);
  CHECK(rate_is_at_least(r.noise_settled, 0.5, trials));
  CHECK(r.samples < 900.0);
  // The median is anywhere between the modes.
  rates const modes = check_honest(bimodal_noise{0.5}, 22, "bimodal", 3);
  CHECK(rate_is_at_least(modes.settled, 0.98, trials));
  CHECK(rate_is_at_most(modes.precise, 0.05, trials));
}

TEST_CASE("correlated noise settles with an interval that allows for it, or does not settle",
          "[tune][measure]") {
  for (double const deviation : {0.002, 0.01, 0.03}) {
    for (double const rho : {0.3, 0.7, 0.95}) {
      CAPTURE(rho, deviation);
      rates const r = check_honest(correlated_noise{rho, deviation}, 31, "correlated", 3);
      if (rho < 0.9) CHECK(rate_is_at_least(r.settled, 0.98, trials));
    }
  }
  // Slow changes below independent noise, over up to a tenth of the measurement.
  for (double const white : {0.03, 0.09, 0.18}) {
    for (double const rho : {0.9, 0.97, 0.985}) {
      CAPTURE(rho, white);
      check_honest(buried_noise{rho, 0.03, white}, 33, "correlated below white", 8);
    }
  }
  // A correlation over as many samples as the measurement takes.
  rates const r = measure_often(correlated_noise{0.995, 0.03}, 32);
  CAPTURE(r.settled);
  CHECK(rate_is_at_most(r.settled, 0.02, trials));
}
