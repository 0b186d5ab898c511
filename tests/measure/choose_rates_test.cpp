// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How often choose() is right, by simulated candidates of which the true times are known.
#include <warpwright/measure/choose.hpp>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "measure/simulated_noise.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

struct rates {
  int trials = 0;
  int best = 0;         // the truly fastest was
  int good = 0;         // one within 1 % of it was
  int shown = 0;        // the choice was shown to be the fastest
  int shown_wrong = 0;  // and is not
};

// Each trial has a disturbance that all candidates share, and noise of their own.
template <typename Noise>
rates choose_often(Noise disturbance, double own_deviation, std::vector<double> const& times,
                   int trials, std::uint64_t seed) {
  ww::stream const stream;
  noise_source random{seed};
  rates r;
  for (int trial = 0; trial < trials; ++trial) {
    simulated_clock clock;
    simulated_stopwatch stopwatch{clock};
    disturbance.begin(random);
    auto const call = [&](std::size_t i) {
      return [&, i](ww::stream_ref) {
        clock.advance(1e-3 * times[i] * disturbance.next(random) *
                      (1.0 + own_deviation * normal(random)));
      };
    };
    auto const options = ww::choose_options{}.sampling(
        ww::choose_options{}.sampling().sample_seconds(0.0).clock(clock.ref()));
    auto const made =
        ww::choose_with(stopwatch, stream,
                        ww::candidates(ww::candidate("a", call(0)), ww::candidate("b", call(1)),
                                       ww::candidate("c", call(2))),
                        options);
    double least = times[0];
    for (double const t : times) least = t < least ? t : least;
    ++r.trials;
    if (!(times[made.index] > least)) ++r.best;
    if (times[made.index] <= 1.01 * least) ++r.good;
    if (made.shown_fastest) {
      ++r.shown;
      int others = 0;
      for (double const t : times) others += !(t > times[made.index]) ? 1 : 0;
      if (others > 1) ++r.shown_wrong;
    }
  }
  return r;
}

template <typename Check>
void under_all_disturbances(std::vector<double> const& times, int trials, std::uint64_t seed,
                            Check&& check) {
  auto const run = [&](char const* name, auto const& disturbance, double deviation) {
    rates const r = choose_often(disturbance, deviation, times, trials, seed);
    std::printf("%-10s best %d, good %d, shown %d (wrong %d) of %d\n", name, r.best, r.good,
                r.shown, r.shown_wrong, r.trials);
    INFO(name << ", seed " << seed);
    check(r);
  };
  run("clean", normal_noise{0.0}, 0.002);
  run("noisy", normal_noise{0.0}, 0.05);
  run("drift", drift_noise{1e-4, 0.0}, 0.005);
  run("correlated", correlated_noise{0.95, 0.02}, 0.005);
  run("phases", phase_noise{20.0, 0.25}, 0.005);
  run("spikes", spike_noise{0.01}, 0.005);
  run("bimodal", bimodal_noise{0.3}, 0.005);
}

}  // namespace

TEST_CASE("of equal candidates none is shown to be the fastest", "[tune][choose]") {
  under_all_disturbances({1.0, 1.0, 1.0}, trial_count(1000), 71, [](rates const& r) {
    CHECK(rate_is_at_most(r.shown_wrong, 0.05, r.trials));
    CHECK(r.shown == r.shown_wrong);
  });
}

TEST_CASE("a candidate that is 5 % faster is chosen, wherever it stands", "[tune][choose]") {
  for (std::size_t fast = 0; fast < 3; ++fast) {
    std::vector<double> times{1.0, 1.0, 1.0};
    times[fast] = 0.95;
    under_all_disturbances(times, trial_count(400), 72 + fast, [](rates const& r) {
      CHECK(rate_is_at_least(r.best, 0.99, r.trials));
      CHECK(r.shown_wrong == 0);
    });
  }
}

TEST_CASE("a candidate that is 0.5 % slower may be chosen, one of 10 % not", "[tune][choose]") {
  under_all_disturbances({1.1, 1.005, 1.0}, trial_count(1000), 75, [](rates const& r) {
    CHECK(rate_is_at_least(r.good, 0.995, r.trials));
    CHECK(rate_is_at_most(r.shown_wrong, 0.01, r.trials));
  });
}
