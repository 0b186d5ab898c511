// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Randomised tunes on a simulated clock, each judged by an oracle that knows the truth: an
// exhaustive sweep of the true curve, and 10,000 independent calls of the choice.
//
// WARPWRIGHT_TUNES sets their number (default 2000), WARPWRIGHT_SEED the seed.
#include <warpwright/tune/batch_tuner.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "simulated_workload.hpp"
#include "support/catch.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

std::uint64_t number_from(char const* variable, std::uint64_t otherwise) {
  char const* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
std::uint64_t tunes() { return number_from("WARPWRIGHT_TUNES", 2000); }
std::uint64_t seed() { return number_from("WARPWRIGHT_SEED", 20261123); }

// From `low` to `high`, with equal chances of all orders of magnitude.
double between(noise_source& random, double low, double high) {
  return low * std::pow(high / low, random.uniform());
}
std::size_t pick_one(noise_source& random, std::size_t count) {
  return static_cast<std::size_t>(random.uniform() * static_cast<double>(count));
}

struct outcome {
  bool feasible = false;
  ww::tune_result result;
  std::string error;
};

template <typename Memory>
outcome tune(simulated_workload& w, ww::batch_tuner const& tuner, Memory&& memory) {
  static ww::stream const stream;
  simulated_stopwatch stopwatch{w.clock};
  outcome o;
  try {
    o.result = tuner.clock(w.clock.ref())
                   .tune_with(
                       stopwatch, stream, [&](std::size_t batch, ww::stream_ref) { w(batch); },
                       memory);
    o.feasible = true;
  } catch (ww::no_feasible_batch const& e) {
    o.result = e.result();
    o.error = e.what();
  }
  return o;
}

// The best true throughput of the sizes that are allowed.
template <typename Allowed>
double best_rate(simulated_workload const& w, std::size_t last, std::size_t multiple,
                 Allowed const& allowed) {
  double best = 0.0;
  for (std::size_t b = multiple; b <= last; b += multiple) {
    if (w.valid(b) && allowed(b)) best = std::max(best, static_cast<double>(b) / w.time(b));
  }
  return best;
}

// What a sweep in steps of 5 % costs, that measures each size for 0.25 s (at least 7 samples of 2 ms
// or more, at most 41) and takes 100 latencies, or as many as show a limit twice.
template <typename Allowed>
double sweep_seconds(simulated_workload const& w, std::size_t last, std::size_t multiple,
                     double limit, Allowed const& allowed) {
  double seconds = 0.0;
  std::size_t before = 0;
  for (double x = static_cast<double>(multiple); x <= static_cast<double>(last); x *= 1.05) {
    std::size_t const b = static_cast<std::size_t>(x) / multiple * multiple;
    if (b == before || !w.valid(b) || !allowed(b)) continue;
    before = b;
    double const one = w.time(b);
    if (one > limit) break;
    double const sample = std::max(2e-3, one);
    seconds += std::max(7.0 * sample, std::min(0.25, 41.0 * sample));
    seconds += (limit < 1e9 ? 2.0 * 597.0 : 100.0) * one;
  }
  return seconds;
}

struct tally {
  std::string name;
  std::uint64_t count = 0;
  std::uint64_t fast = 0;      // at least 98 % of the best
  double worst = 1.0;
  double cost = 0.0;           // share of the sweep's time
  double worst_cost = 0.0;
  double size = 0.0;           // of the smallest size that is within the tolerance
  void add(double share, double cost_share, double size_ratio) {
    ++count;
    if (share >= 0.98 - 1e-12) ++fast;
    worst = std::min(worst, share);
    cost += cost_share;
    worst_cost = std::max(worst_cost, cost_share);
    size += size_ratio;
  }
  void print() const {
    double const n = static_cast<double>(count == 0 ? 1 : count);
    std::printf("  %-12s %6llu tunes: %5.1f %% within 98 %%, worst %.3f; cost %4.1f %% (most %.0f %%), size %.2f\n",
                name.c_str(), static_cast<unsigned long long>(count),
                100.0 * static_cast<double>(fast) / n, worst, 100.0 * cost / n, 100.0 * worst_cost,
                size / n);
  }
};

workload_time random_time(noise_source& random, curve_kind kind, std::size_t last) {
  workload_time t;
  t.kind = kind;
  double const l = static_cast<double>(last);
  // The largest batch takes 2 to 30 ms.
  t.item = between(random, 2e-3, 30e-3) / l;
  t.fixed = t.item * l * between(random, 0.002, 0.3);
  t.knee = between(random, 10.0, 0.9 * l);
  t.wave = std::floor(between(random, std::max(16.0, l / 60.0), l / 2.0));
  if (kind == curve_kind::steps) t.fixed = t.item * t.wave * between(random, 0.01, 3.0);
  return t;
}

constexpr char const* curve_names[] = {"flat", "affine", "saturating", "steps", "cliff", "peak"};
constexpr char const* noise_names[] = {"quiet", "jitter", "bimodal", "drift", "throttling",
                                       "disturbed"};

void add_noise(simulated_workload& w, std::size_t kind) {
  noise_source& r = w.random;
  if (kind != 0) w.jitter = between(r, 0.002, 0.02);
  if (kind == 2) w.slow_share = 0.1 + 0.4 * r.uniform();
  if (kind == 3) {
    w.drift = 0.05 + 0.15 * r.uniform();
    w.drift_seconds = between(r, 0.5, 20.0);
  }
  if (kind == 4) {
    double const begin = between(r, 0.05, 3.0);
    w.slow_periods.push_back({begin, r.uniform() < 0.5 ? 1e9 : begin + between(r, 0.2, 2.0),
                              1.1 + 0.2 * r.uniform()});
  }
  if (kind == 5) {
    double const begin = between(r, 0.01, 2.0);
    w.slow_periods.push_back({begin, begin + 0.3, between(r, 2.0, 10.0)});
  }
}

double smallest_ratio(simulated_workload const& w, std::size_t chosen, std::size_t last,
                      std::size_t multiple, double best) {
  for (std::size_t b = multiple; b <= last; b += multiple) {
    if (w.valid(b) && static_cast<double>(b) / w.time(b) >= 0.98 * best) {
      return static_cast<double>(chosen) / static_cast<double>(b);
    }
  }
  return 0.0;
}

}  // namespace

TEST_CASE("random tunes find at least 98 % of the best throughput", "[tune][batch_tuner][random]") {
  tally by_curve[6];
  tally by_noise[6];
  for (int i = 0; i < 6; ++i) {
    by_curve[i].name = curve_names[i];
    by_noise[i].name = noise_names[i];
  }
  std::uint64_t const count = tunes() / 2;
  for (std::uint64_t i = 0; i < count; ++i) {
    simulated_workload w{seed() + i};
    noise_source& r = w.random;
    std::size_t const curve = pick_one(r, 6);
    std::size_t const noise = pick_one(r, 6);
    std::size_t const multiple = r.uniform() < 0.7 ? 1 : 8;
    std::size_t const last =
        static_cast<std::size_t>(between(r, 200, 20000)) / multiple * multiple;
    w.time = random_time(r, static_cast<curve_kind>(curve), last);
    add_noise(w, noise);
    auto const o = tune(w, ww::batch_tuner{}.range(1, last).multiple_of(multiple),
                        ww::no_memory_probe{});
    INFO("seed " << seed() + i << ": " << curve_names[curve] << ", " << noise_names[noise]);
    REQUIRE(o.feasible);
    REQUIRE(o.result.chosen().status == ww::tune_status::ok);
    std::size_t const chosen = o.result.chosen().batch;
    auto const all = [](std::size_t) { return true; };
    double const best = best_rate(w, last, multiple, all);
    double const share = static_cast<double>(chosen) / w.time(chosen) / best;
    double const cost = w.clock.now() / sweep_seconds(w, last, multiple, 1e9, all);
    double const size = smallest_ratio(w, chosen, last, multiple, best);
    by_curve[curve].add(share, cost, size);
    by_noise[noise].add(share, cost, size);
    if (std::getenv("WARPWRIGHT_VERBOSE") != nullptr && share < 0.98) {
      std::printf("seed %llu %s %s share %.4f chosen %zu of %zu (m %zu) fixed %g item %g knee %g wave %g\n%s",
                  static_cast<unsigned long long>(seed() + i), curve_names[curve],
                  noise_names[noise], share, chosen, last, multiple, w.time.fixed, w.time.item, w.time.knee,
                  w.time.wave, ww::to_table(o.result).c_str());
      for (auto const& s : o.result.steps) std::printf("   %s\n", s.c_str());
    }
  }
  std::printf("throughput, seed %llu:\n", static_cast<unsigned long long>(seed()));
  for (tally const& t : by_curve) t.print();
  for (tally const& t : by_noise) t.print();
  for (tally const& t : by_curve) CHECK(t.fast * 100 >= 95 * t.count);
  for (tally const& t : by_noise) CHECK(t.fast * 100 >= 95 * t.count);
}
