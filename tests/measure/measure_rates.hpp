// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How often measure() is right about the true median of simulated noise.
#pragma once

#include <warpwright/measure/measure.hpp>

#include <cstdint>

#include "measure/simulated_noise.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace test_support {

inline constexpr int trials = trial_count(1000);
inline constexpr double sample_seconds = 2e-3;

// Samples of about 2 ms, as those that measure() takes of short calls.
template <typename Noise>
struct noisy_stopwatch {
  Noise noise;
  noise_source& random;
  template <typename Call>
  double operator()(warpwright::stream_ref, Call& call, std::size_t) {
    call();
    return sample_seconds * noise.next(random);
  }
};

struct rates {
  int converged = 0;
  int wrong = 0;  // converged, and the interval does not hold the median
  int precise = 0;
  int noise_converged = 0;
  int drifting = 0;
  int correlated = 0;
  double samples = 0.0;  // mean
};

template <typename Noise>
warpwright::measurement measure_once(warpwright::stream const& stream, Noise noise,
                                     noise_source& random) {
  noise.begin(random);
  noisy_stopwatch<Noise> stopwatch{noise, random};
  return warpwright::measure(
      stream, [] {}, warpwright::measure_options{}.sample_seconds(0.0), stopwatch);
}

template <typename Noise>
rates measure_often(Noise const& noise, std::uint64_t seed) {
  warpwright::stream const stream;
  noise_source random{seed};
  rates r;
  for (int trial = 0; trial < trials; ++trial) {
    auto const m = measure_once(stream, noise, random);
    bool const holds = noise.truth().within(m.summary.median_low_seconds / sample_seconds,
                                            m.summary.median_high_seconds / sample_seconds);
    if (m.converged()) ++r.converged;
    if (m.converged() && !holds) ++r.wrong;
    if (m.reason == warpwright::stop_reason::precision_reached) ++r.precise;
    if (m.reason == warpwright::stop_reason::noise_converged) ++r.noise_converged;
    if (m.stability == warpwright::sample_stability::drifting) ++r.drifting;
    if (m.stability == warpwright::sample_stability::correlated) ++r.correlated;
    r.samples += static_cast<double>(m.samples.size()) / trials;
  }
  return r;
}

// Of the measurements that settle, all but a few percent hold the median.
template <typename Noise>
rates check_honest(Noise const& noise, std::uint64_t seed, char const* name, int wrong_percent) {
  rates const r = measure_often(noise, seed);
  INFO(name << ", seed " << seed << ": converged " << r.converged << ", wrong " << r.wrong
            << ", precise " << r.precise << ", drifting " << r.drifting << ", correlated "
            << r.correlated << ", samples " << r.samples);
  CHECK(rate_is_at_most(r.wrong, 0.01 * wrong_percent, r.converged));
  return r;
}

}  // namespace test_support
