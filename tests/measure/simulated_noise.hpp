// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Times of calls with noise of which the true median is known: about 1 in each.
#pragma once

#include <cmath>

#include "measure/simulated_device.hpp"

namespace test_support {

inline double normal(noise_source& random) {
  double const u = 1.0 - random.uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * random.uniform());
}
inline double exponential(noise_source& random) { return -std::log(1.0 - random.uniform()); }

// The value of which a fraction of a normal distribution is smaller.
inline double normal_quantile(double fraction) {
  double low = -9.0;
  double high = 9.0;
  while (high - low > 1e-12) {
    double const middle = 0.5 * (low + high);
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < fraction ? low : high) = middle;
  }
  return low;
}

// The true median: any value of the interval.
struct true_median {
  double low = 1.0;
  double high = 1.0;
  bool within(double from, double to) const { return from <= high && low <= to; }
};

struct normal_noise {
  double deviation;
  true_median truth() const { return {}; }
  void begin(noise_source&) {}
  double next(noise_source& random) { return 1.0 + deviation * normal(random); }
};

struct lognormal_noise {
  double deviation;
  true_median truth() const { return {}; }
  void begin(noise_source&) {}
  double next(noise_source& random) { return std::exp(deviation * normal(random)); }
};

// A share of the samples is slower by 30 %, independently of each other.
struct bimodal_noise {
  double slow_share;
  double deviation = 0.01;
  true_median truth() const {
    if (slow_share == 0.5) return {1.05, 1.25};
    double const median = 1.0 + deviation * normal_quantile(0.5 / (1.0 - slow_share));
    return {median, median};
  }
  void begin(noise_source&) {}
  double next(noise_source& random) {
    return (random.uniform() < slow_share ? 1.3 : 1.0) + deviation * normal(random);
  }
};

// One sample of a hundred takes three times as long.
struct spike_noise {
  double deviation;
  true_median truth() const {
    double const median = 1.0 + deviation * normal_quantile(0.5 / 0.99);
    return {median, median};
  }
  void begin(noise_source&) {}
  double next(noise_source& random) {
    return (random.uniform() < 0.01 ? 3.0 : 1.0) + deviation * normal(random);
  }
};

// A first-order autoregressive process.
struct correlated_noise {
  double rho;
  double deviation;
  double state = 0.0;
  true_median truth() const { return {}; }
  void begin(noise_source& random) { state = normal(random); }
  double next(noise_source& random) {
    double const value = 1.0 + deviation * state;
    state = rho * state + std::sqrt(1.0 - rho * rho) * normal(random);
    return value;
  }
};

// The same below independent noise.
struct buried_noise {
  double rho;
  double deviation;
  double white;
  double state = 0.0;
  true_median truth() const { return {}; }
  void begin(noise_source& random) { state = normal(random); }
  double next(noise_source& random) {
    double const value = 1.0 + deviation * state + white * normal(random);
    state = rho * state + std::sqrt(1.0 - rho * rho) * normal(random);
    return value > 0.05 ? value : 0.05;
  }
};

// Periods in which calls are slower by 30 %, for random times.
struct phase_noise {
  double slow_samples;  // mean duration of a slow period
  double slow_share;    // of all samples
  double deviation = 0.005;
  bool slow = false;
  double left = 0.0;
  true_median truth() const {
    if (slow_share == 0.5) return {1.05, 1.25};
    double const median =
        slow_share < 0.5
            ? 1.0 + deviation * normal_quantile(0.5 / (1.0 - slow_share))
            : 1.3 * (1.0 + deviation * normal_quantile((slow_share - 0.5) / slow_share));
    return {median, median};
  }
  double mean() const {
    return slow ? slow_samples : slow_samples * (1.0 - slow_share) / slow_share;
  }
  void begin(noise_source& random) {
    slow = random.uniform() < slow_share;
    left = mean() * exponential(random);
  }
  double next(noise_source& random) {
    while (left <= 0.0) {
      slow = !slow;
      left += mean() * exponential(random);
    }
    left -= 1.0;
    return (slow ? 1.3 : 1.0) * (1.0 + deviation * normal(random));
  }
};

// Calls become slower, by a fraction of the first time per sample.
struct drift_noise {
  double per_sample;
  double deviation;
  double level = 1.0;
  void begin(noise_source&) { level = 1.0; }
  double next(noise_source& random) {
    level += per_sample;
    return level * (1.0 + deviation * normal(random));
  }
};

}  // namespace test_support
