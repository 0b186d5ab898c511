// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How often compare() and choose() call equal callables different, and how often they tell two
// apart that differ by 20 %, with noise of both together and of each.
#include <warpwright/measure/choose.hpp>

#include <cmath>
#include <cstdint>

#include "measure/simulated_noise.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

constexpr int trials = sanitized ? 40 : 100;
constexpr double deviations = sanitized ? 4.0 : 3.0;
// A rate of 5 % in that many trials stays below 5 % of them and this.
double const margin = deviations * std::sqrt(0.05 * 0.95 * trials);

// Student's distribution with three degrees of freedom: outliers of any size.
struct heavy_tailed_noise {
  double deviation;
  void begin(noise_source&) {}
  double next(noise_source& random) {
    double squares = 0.0;
    for (int i = 0; i < 3; ++i) squares += std::pow(normal(random), 2.0);
    double const student = normal(random) / std::sqrt(squares / 3.0);
    return std::exp(deviation * (student > 20.0 ? 20.0 : student < -20.0 ? -20.0 : student));
  }
};

// Half of the samples take 50 % longer, independently of each other.
struct two_kinds_of_samples {
  void begin(noise_source&) {}
  double next(noise_source& random) { return random.uniform() < 0.5 ? 1.5 : 1.0; }
};

enum class noise_of { both_together, each };

// What a sample takes is the time of a call, the noise of its kind, and independent noise.
template <typename Noise>
struct noisy_pair {
  noise_source& random;
  Noise noise[2];
  noise_of whose;
  double deviation;
  double seconds[2];  // of a call
  int running = 0;

  template <typename Call>
  double operator()(ww::stream_ref, Call& call, std::size_t repeats) {
    call();
    Noise& mine = noise[whose == noise_of::each ? running : 0];
    return static_cast<double>(repeats) * seconds[running] * mine.next(random) *
           std::exp(deviation * normal(random));
  }
};

struct rates {
  int different = 0;  // of equal ones
  int apart = 0;      // of those that differ by 20 %, in the right direction
};

template <typename Noise, typename Shown>
rates rates_of(Noise const& noise, noise_of whose, double deviation, double seconds,
               std::uint64_t seed, Shown const& shown) {
  noise_source random{seed};
  rates r;
  for (int trial = 0; trial < trials; ++trial) {
    noisy_pair<Noise> pair{random, {noise, noise}, whose, deviation, {seconds, seconds}};
    auto const begin = [&] {
      for (Noise& each : pair.noise) each.begin(random);
    };
    begin();
    r.different += shown(pair) != ww::difference::none_shown ? 1 : 0;
    begin();
    pair.seconds[1] = 1.2 * seconds;
    r.apart += shown(pair) == ww::difference::faster ? 1 : 0;
  }
  return r;
}

// compare(), the first against the second.
struct compared {
  ww::stream stream;
  template <typename Pair>
  ww::difference operator()(Pair& pair) const {
    return ww::compare_with(
               pair, stream, ww::measure_options{}, [&] { pair.running = 0; },
               [&] { pair.running = 1; })
        .verdict(0, 1);
  }
};

// choose(), the same.
struct chosen {
  ww::stream stream;
  template <typename Pair>
  ww::difference operator()(Pair& pair) const {
    auto const candidate = [&](char const* name, int number) {
      return ww::candidate(name, [&pair, number](ww::stream_ref) { pair.running = number; });
    };
    ww::choice const made = ww::choose_with(
        pair, stream, ww::candidates(candidate("first", 0), candidate("second", 1)));
    if (!made.shown_fastest) return ww::difference::none_shown;
    return made.index == 0 ? ww::difference::faster : ww::difference::slower;
  }
};

// For each kind of noise and level. `least` is the share that must be told apart: 95 % where the
// noise is not of each alone and slower than the turns.
template <typename Shown>
void check_all(Shown const& shown, double seconds) {
  constexpr noise_of both = noise_of::both_together;
  constexpr noise_of each = noise_of::each;
  std::uint64_t seed = 100;
  auto const check = [&](char const* name, auto const& noise, noise_of whose, double deviation,
                         int least = 95) {
    rates const r = rates_of(noise, whose, deviation, seconds, ++seed, shown);
    INFO(name << ", deviation " << deviation << ", seconds " << seconds << ", seed " << seed
              << ": different " << r.different << ", apart " << r.apart << " of " << trials);
    CHECK(r.different <= 0.05 * trials + margin);
    CHECK(r.apart >= 0.01 * least * trials - margin);
  };
  for (double const deviation : {0.01, 0.05, 0.2}) {
    check("independent", normal_noise{0.0}, each, deviation);
    // Of 10 ms work there are some 45 turns: they tell such a pair apart in 84 to 89 %.
    int const few_turns = seconds > 1e-3 && deviation > 0.1 ? 84 : 95;
    check("heavy tails", heavy_tailed_noise{deviation}, each, 0.0, few_turns);
    check("two kinds of samples", two_kinds_of_samples{}, each, deviation, few_turns);
    check("drift", drift_noise{5e-4, 0.0}, both, deviation);
    check("phases", phase_noise{20.0, 0.5, 0.0}, both, deviation);
    check("long phases", phase_noise{100.0, 0.5, 0.0}, both, deviation);
    // What each has alone and changes slowly cannot be told from a difference of its size.
    int const least_of_slow = deviation < 0.02 ? 95 : deviation < 0.1 && seconds < 1e-3 ? 75 : 0;
    for (double const rho : {0.5, 0.9, 0.99}) {
      check("correlated, both", correlated_noise{rho, 0.5 * deviation}, both, 0.5 * deviation);
      check("correlated, each", correlated_noise{rho, deviation}, each, 0.0, least_of_slow);
    }
    check("phases of 5 samples, each", phase_noise{5.0, 0.5, 0.0}, each, deviation, 0);
    // Nor do 45 turns show phases of 20 samples below noise of 20 %: equal ones differ in 20 %.
    if (few_turns == 95)
      check("phases of 20, each", phase_noise{20.0, 0.5, 0.0}, each, deviation, 0);
  }
}

}  // namespace

TEST_CASE("compare() tells what differs by 20 % apart, and seldom what is equal",
          "[tune][compare]") {
  check_all(compared{}, 10e-6);
  check_all(compared{}, 10e-3);
}

TEST_CASE("choose() tells what differs by 20 % apart, and seldom what is equal", "[tune][choose]") {
  check_all(chosen{}, 10e-6);
  check_all(chosen{}, 10e-3);
}
