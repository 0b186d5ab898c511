// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How often expectations are said to fall short, for simulated workloads of which the true figures
// are known.
#include <warpwright/measure/expect.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "measure/simulated_noise.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

struct truth {
  double median;
  double p99;
};

template <typename Noise>
truth find_truth(Noise noise, std::uint64_t seed) {
  noise_source random{seed};
  noise.begin(random);
  std::vector<double> times(static_cast<std::size_t>(trial_count(1000000)));
  for (double& t : times) t = noise.next(random);
  auto const at = [&](double quantile) {
    auto const nth =
        times.begin() + static_cast<std::ptrdiff_t>(quantile * static_cast<double>(times.size()));
    std::nth_element(times.begin(), nth, times.end());
    return *nth;
  };
  return {at(0.5), at(0.99)};
}

struct rates {
  int trials = 0;
  int throughput_short = 0;
  int median_short = 0;
  int p99_short = 0;
  int p99_met = 0;
};

// Each trial observes a workload whose figures are better than the limits by `margin`.
template <typename Noise>
rates check_often(Noise noise, truth const& t, double margin, int trials, std::uint64_t seed) {
  ww::stream const stream;
  noise_source random{seed};
  double const seconds = 2.5e-3;  // so that each sample is one call
  double const longest = 1.0 + margin;
  auto const table = ww::expectations{}
                         .throughput_at_least("op", 64.0 / (seconds * t.median * longest))
                         .latency_at_most("op", 0.5, seconds * t.median * longest)
                         .latency_at_most("op", 0.99, seconds * t.p99 * longest);
  rates r;
  for (int trial = 0; trial < trials; ++trial) {
    simulated_clock clock;
    simulated_stopwatch stopwatch{clock};
    noise.begin(random);
    auto const call = [&] { clock.advance(seconds * noise.next(random)); };
    auto const o = ww::observe_with(stopwatch, stream, table, "op", call, 64.0, clock.ref());
    auto const found = table.check({o});
    auto const fell_short = [&](std::size_t i) {
      return found.findings[i].state == ww::finding_state::fell_short ? 1 : 0;
    };
    ++r.trials;
    r.throughput_short += fell_short(0);
    r.median_short += fell_short(1);
    r.p99_short += fell_short(2);
    r.p99_met += found.findings[2].state == ww::finding_state::met ? 1 : 0;
  }
  return r;
}

template <typename Check>
void for_all_noises(double margin, int trials, Check&& check) {
  auto const run = [&](char const* name, auto const& noise) {
    std::uint64_t const seed = 91;
    rates const r = check_often(noise, find_truth(noise, seed), margin, trials, seed + 1);
    std::printf("%-16s short: throughput %d, median %d, p99 %d; p99 met %d; of %d\n", name,
                r.throughput_short, r.median_short, r.p99_short, r.p99_met, r.trials);
    INFO(name << ", seed " << seed);
    check(name, r);
  };
  run("clean", normal_noise{0.002});
  run("noisy", normal_noise{0.05});
  run("log-normal", lognormal_noise{0.2});
  run("bimodal", bimodal_noise{0.3, 0.02});
  run("correlated", correlated_noise{0.9, 0.02});
  run("very correlated", correlated_noise{0.98, 0.03});
  run("phases", phase_noise{20.0, 0.25});
}

}  // namespace

TEST_CASE("of workloads that are 2 % better than expected at most 1 % fall short",
          "[tune][expect]") {
  for_all_noises(0.02, trial_count(250), [](std::string const&, rates const& r) {
    CHECK(rate_is_at_most(r.throughput_short, 0.01, r.trials));
    CHECK(rate_is_at_most(r.median_short, 0.01, r.trials));
    CHECK(rate_is_at_most(r.p99_short, 0.01, r.trials));
  });
}

TEST_CASE("of workloads that are 10 % worse than expected at least 99 % fall short",
          "[tune][expect]") {
  for_all_noises(-1.0 / 11.0, trial_count(250), [](std::string const& name, rates const& r) {
    // Correlated over 100 samples, of which the throughput's measurement takes some 200.
    bool const correlated = name == "very correlated";
    CHECK(rate_is_at_least(r.throughput_short, correlated ? 0.9 : 0.99, r.trials));
    CHECK(rate_is_at_least(r.median_short, correlated ? 0.97 : 0.99, r.trials));
    CHECK(rate_is_at_least(r.p99_short, 0.99, r.trials));
    CHECK(r.p99_met == 0);
  });
}
