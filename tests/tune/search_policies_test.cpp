// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the search of batch_tuner finds between doubled sizes, and what it pays for it: tunes of
// several kinds on a simulated clock, each judged by an exhaustive sweep of the true curve. Each
// bound is next to what the search reaches, so that a search that leaves one of its rules out
// exceeds it: it is slower, chooses larger sizes, or runs more of them.
#include <warpwright/tune/batch_tuner.hpp>

#include <cstdio>
#include <functional>
#include <set>
#include <string>

#include "simulated_workload.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

double between(noise_source& random, double low, double high) {
  return low * std::pow(high / low, random.uniform());
}

// One tune: its workload, its range, and which sizes may be chosen.
struct trial {
  explicit trial(std::uint64_t seed) : w{seed} {}
  simulated_workload w;
  ww::batch_tuner tuner;
  std::size_t first = 1;
  std::size_t last = 4096;
  std::size_t multiple = 1;
  std::size_t budget = 0;
  double limit = 1e9;
  std::function<double(std::size_t)> seconds;  // the true time
  std::function<double(std::size_t)> score;    // what is maximised; null: the throughput

  double value(std::size_t batch) const {
    return score ? score(batch) : static_cast<double>(batch) / seconds(batch);
  }
  bool allowed(std::size_t batch) const {
    return w.valid(batch) && seconds(batch) <= limit && (budget == 0 || w.need(batch) <= budget);
  }
};

// Of all tunes of a kind.
struct bounds {
  int good;          // the fewest within the tolerance of 2 % of the best
  double loss;       // of the value, mean
  double size;       // of the choice, in units of the smallest good size, mean
  double sizes_run;  // mean
};

void run(char const* kind, bounds const& bound, std::function<void(trial&)> const& prepare) {
  static int kinds = 0;
  if (sanitized && kinds++ % 4 != 0) return;
  constexpr int tunes = 60;
  static ww::stream const stream;
  int good = 0;
  double loss = 0.0;
  double size = 0.0;
  double sizes_run = 0.0;
  for (int i = 0; i < tunes; ++i) {
    trial t{20261126 + static_cast<std::uint64_t>(i)};
    t.w.time.item = 10e-3 / static_cast<double>(t.last);
    prepare(t);
    if (!t.seconds) t.seconds = [&t](std::size_t batch) { return t.w.time(batch); };
    simulated_stopwatch stopwatch{t.w.clock};
    simulated_pool pool{t.w};
    std::set<std::size_t> ran;
    auto const workload = [&](std::size_t batch, ww::stream_ref) {
      ran.insert(batch);
      t.w(batch);
    };
    auto tuner = t.tuner.range(t.first, t.last).multiple_of(t.multiple).clock(t.w.clock.ref());
    if (t.budget != 0) tuner = tuner.memory_budget(t.budget);
    auto const r = tuner.tune_with(stopwatch, stream, workload, pool);
    std::size_t const chosen = r.chosen().batch;
    REQUIRE(t.allowed(chosen));
    double best = 0.0;
    for (std::size_t b = t.first; b <= t.last; b += t.multiple) {
      if (t.allowed(b)) best = std::max(best, t.value(b));
    }
    std::size_t smallest = t.first;
    while (!t.allowed(smallest) || t.value(smallest) < 0.98 * best) smallest += t.multiple;
    good += t.value(chosen) >= (0.98 - 1e-9) * best ? 1 : 0;
    loss += (1.0 - t.value(chosen) / best) / tunes;
    size += static_cast<double>(chosen) / static_cast<double>(smallest) / tunes;
    sizes_run += static_cast<double>(ran.size()) / tunes;
  }
  std::printf("%-28s %2d good, loss %.4f, size %.3f, %.2f sizes run\n", kind, good, loss, size,
              sizes_run);
  INFO(kind);
  CHECK(good >= bound.good);
  CHECK(loss <= bound.loss);
  CHECK(size <= bound.size);
  CHECK(sizes_run <= bound.sizes_run);
}

void as_steps(trial& t, double wave_low, double wave_high, double fixed_low, double fixed_high) {
  t.w.time.kind = curve_kind::steps;
  t.w.time.wave = std::floor(between(t.w.random, wave_low, wave_high));
  t.w.time.fixed = t.w.time.item * t.w.time.wave * between(t.w.random, fixed_low, fixed_high);
}

}  // namespace

TEST_CASE("policies: steps of the time", "[tune][batch_tuner]") {
  run("steps", {59, 0.0155, 1.17, 29.4}, [](trial& t) { as_steps(t, 24, 1200, 0.01, 2.0); });
  run("steps, jitter", {58, 0.0137, 1.26, 29.8}, [](trial& t) {
    as_steps(t, 24, 1200, 0.01, 2.0);
    t.w.jitter = 0.01;
  });
  run("steps, multiples of 8", {55, 0.0146, 1.29, 23.7}, [](trial& t) {
    as_steps(t, 70, 1200, 0.01, 1.0);
    t.multiple = 8;
  });
  run("steps of 8, named", {56, 0.0145, 1.02, 15.6}, [](trial& t) {
    as_steps(t, 70, 1200, 0.01, 1.0);
    t.multiple = 8;
    t.tuner = ww::batch_tuner{}.wave(static_cast<std::size_t>(t.w.time.wave));
  });
  run("steps, named, jitter", {59, 0.0137, 1.18, 19.8}, [](trial& t) {
    as_steps(t, 24, 1200, 0.01, 2.0);
    t.w.jitter = 0.01;
    t.tuner = ww::batch_tuner{}.wave(static_cast<std::size_t>(t.w.time.wave));
  });
  run("small steps", {54, 0.0175, 1.06, 24.1}, [](trial& t) { as_steps(t, 8, 64, 3.0, 60.0); });
  run("few sizes on a step", {59, 0.0120, 1.64, 40.2},
      [](trial& t) { as_steps(t, 3, 12, 0.01, 1.0); });
  run("two steps then a line", {59, 0.0147, 1.02, 24.1}, [](trial& t) {
    double const wave = std::floor(between(t.w.random, 40, 400));
    double const item = t.w.time.item;
    t.seconds = [wave, item](std::size_t b) {
      double const x = static_cast<double>(b);
      return x <= wave ? item * wave : x <= 2 * wave ? 1.5 * item * wave : item * (x - 0.5 * wave);
    };
    t.w.time.function = t.seconds;
  });
}

TEST_CASE("policies: curves without steps", "[tune][batch_tuner]") {
  run("affine", {59, 0.0207, 1.01, 18.3},
      [](trial& t) { t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.3); });
  run("affine, jitter", {59, 0.0138, 1.22, 19.7}, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.3);
    t.w.jitter = 0.02;
  });
  run("saturating", {59, 0.0033, 1.03, 27.9}, [](trial& t) {
    t.w.time.kind = curve_kind::saturating;
    t.w.time.knee = between(t.w.random, 10, 3000);
  });
  run("peak", {59, 0.0150, 1.02, 26.1}, [](trial& t) {
    t.w.time.kind = curve_kind::peak;
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.1);
    t.w.time.knee = between(t.w.random, 20, 3000);
  });
  run("peak, jitter", {59, 0.0126, 1.09, 26.4}, [](trial& t) {
    t.w.time.kind = curve_kind::peak;
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.1);
    t.w.time.knee = between(t.w.random, 20, 3000);
    t.w.jitter = 0.01;
  });
  run("cliff", {57, 0.0189, 1.01, 24.0}, [](trial& t) {
    t.w.time.kind = curve_kind::cliff;
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.1);
    t.w.time.knee = between(t.w.random, 20, 3000);
  });
  run("smooth bend", {59, 0.0192, 1.02, 30.5}, [](trial& t) {
    double const bend = between(t.w.random, 50, 2000);
    double const item = t.w.time.item;
    double const fixed = 10e-3 * between(t.w.random, 0.01, 0.1);
    t.seconds = [=](std::size_t b) {
      double const x = static_cast<double>(b);
      return fixed + item * x * (1.0 + x / bend / 4.0);
    };
    t.w.time.function = t.seconds;
  });
}

TEST_CASE("policies: sizes that fail", "[tune][batch_tuner]") {
  run("fails above a size", {59, 0.0114, 1.02, 21.9}, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.02, 1.0);
    t.w.valid_to = static_cast<std::size_t>(between(t.w.random, 20, 4000));
    t.w.invalid_is_memory = true;
  });
  run("steps, fails above a size", {56, 0.0124, 1.05, 31.6}, [](trial& t) {
    as_steps(t, 24, 400, 0.5, 20.0);
    t.w.valid_to = static_cast<std::size_t>(between(t.w.random, 500, 4000));
    t.w.invalid_is_memory = true;
  });
  run("budget", {59, 0.0089, 1.03, 13.7}, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.02, 1.0);
    t.w.base_bytes = 1e8;
    t.w.item_bytes = between(t.w.random, 1e5, 1e7);
    t.budget = static_cast<std::size_t>(1e8 + t.w.item_bytes * between(t.w.random, 30, 4000));
  });
  run("budget in granules", {45, 0.0412, 0.98, 41.6}, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.02, 1.0);
    t.w.memory = memory_kind::granules;
    t.w.base_bytes = 1e8;
    t.w.item_bytes = between(t.w.random, 1e5, 1e6);
    t.budget = static_cast<std::size_t>(1e8 + t.w.item_bytes * between(t.w.random, 30, 4000));
  });
  run("latency, disturbed", {58, 0.0192, 1.02, 21.7}, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.02, 0.3);
    t.limit = t.w.time(static_cast<std::size_t>(between(t.w.random, 100, 3500))) * 1.01;
    double const begin = between(t.w.random, 0.005, 0.3);
    t.w.slow_periods.push_back({begin, begin + 0.2, between(t.w.random, 2.0, 6.0)});
    t.tuner = ww::batch_tuner{}.objective(ww::throughput_under_latency(t.limit)).max_seconds(60);
  });
}

TEST_CASE("policies: other goals", "[tune][batch_tuner]") {
  run("score with a peak", {59, 0.0012, 1.41, 14.4}, [](trial& t) {
    double const fixed = t.w.time.fixed = 1e-4;
    double const item = t.w.time.item;
    double const per_size = between(t.w.random, 1e-4, 1e-1);
    auto const of = [=](double rate, std::size_t batch) {
      return rate / (1.0 + per_size * static_cast<double>(batch));
    };
    t.score = [=](std::size_t b) {
      return of(static_cast<double>(b) / (fixed + item * static_cast<double>(b)), b);
    };
    t.tuner = ww::batch_tuner{}.tolerance(0.0).objective(ww::max_score(
        [=](ww::tune_row const& row) { return of(row.items_per_second, row.batch); }));
  });
  run("latency that falls first", {59, 0.0025, 1.20, 13.6}, [](trial& t) {
    double const at = between(t.w.random, 3, 1000);
    t.seconds = [at](std::size_t b) {
      double const x = static_cast<double>(b);
      return 1e-4 * (at / x + x / at);
    };
    t.w.time.function = t.seconds;
    t.score = [&t](std::size_t b) { return 1.0 / t.seconds(b); };
    t.tuner = ww::batch_tuner{}.tolerance(0.0).objective(ww::min_latency());
  });
}
TEST_CASE("policies: noise, budgets and limits", "[tune][batch_tuner]") {
  run("affine from 100", {59, 0.0205, 1.02, 13.0}, [](trial& t) {
    t.first = 100;
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.05);
  });
  run("one step then a line", {59, 0.0135, 1.02, 26.2}, [](trial& t) {
    double const wave = std::floor(between(t.w.random, 40, 1000));
    double const jump = between(t.w.random, 1.2, 1.9);
    double const item = t.w.time.item;
    t.seconds = [=](std::size_t b) {
      double const x = static_cast<double>(b);
      return x <= wave ? item * wave : jump * item * x;
    };
    t.w.time.function = t.seconds;
  });
  run("one step then flat", {59, 0.0035, 1.03, 34.8}, [](trial& t) {
    double const wave = std::floor(between(t.w.random, 40, 1000));
    double const jump = between(t.w.random, 1.2, 1.9);
    double const item = t.w.time.item;
    t.seconds = [=](std::size_t b) {
      double const x = static_cast<double>(b);
      return x <= wave ? item * wave : x <= 3.5 * wave ? jump * item * wave : jump * item * x / 3.5;
    };
    t.w.time.function = t.seconds;
  });
  run("uneven steps", {53, 0.0117, 1.39, 50.7}, [](trial& t) {
    double const wave = std::floor(between(t.w.random, 40, 400));
    double const item = t.w.time.item;
    t.seconds = [=](std::size_t b) {
      double const k = std::ceil(std::pow(static_cast<double>(b) / wave, 0.85));
      return item * wave * (0.3 + std::pow(k, 1.15));
    };
    t.w.time.function = t.seconds;
  });
  run("many steps, jitter 3 %", {55, 0.0138, 1.88, 28.7}, [](trial& t) {
    as_steps(t, 16, 80, 0.01, 0.5);
    t.w.jitter = 0.03;
  });
  run("many steps of 8, jitter", {55, 0.0123, 1.33, 23.3}, [](trial& t) {
    as_steps(t, 70, 300, 0.01, 0.5);
    t.multiple = 8;
    t.w.jitter = 0.02;
  });
  run("affine, jitter 8 %", {59, 0.0058, 1.92, 19.2}, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.3);
    t.w.jitter = 0.08;
  });
  run("bimodal", {56, 0.0049, 2.15, 18.5}, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.3);
    t.w.jitter = 0.01;
    t.w.slow_share = 0.3;
  });
  run("peak, jitter 5 %", {59, 0.0085, 1.21, 23.7}, [](trial& t) {
    t.w.time.kind = curve_kind::peak;
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.1);
    t.w.time.knee = between(t.w.random, 20, 3000);
    t.w.jitter = 0.05;
  });
  run("coarse resolution", {57, 0.0107, 1.15, 20.1}, [](trial& t) {
    as_steps(t, 8, 64, 3.0, 60.0);
    t.tuner = ww::batch_tuner{}.resolution(0.05);
  });
  run("sawtooth", {54, 0.0151, 1.28, 32.1}, [](trial& t) {
    double const tile = std::floor(between(t.w.random, 16, 256));
    double const item = t.w.time.item;
    double const fixed = 10e-3 * between(t.w.random, 0.01, 0.1);
    t.seconds = [=](std::size_t b) {
      double const x = static_cast<double>(b);
      return fixed + item * (0.5 * x + 0.5 * tile * std::ceil(x / tile));
    };
    t.w.time.function = t.seconds;
  });
  run("budget, convex memory", {59, 0.0136, 1.03, 15.4}, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.02, 1.0);
    t.w.memory = memory_kind::convex;
    t.w.base_bytes = 1e8;
    t.w.item_bytes = between(t.w.random, 1e5, 1e6);
    t.budget = t.w.need(static_cast<std::size_t>(between(t.w.random, 100, 4000)));
  });
  run("steps, budget", {57, 0.0129, 1.04, 25.8}, [](trial& t) {
    as_steps(t, 24, 400, 0.5, 20.0);
    t.w.base_bytes = 1e8;
    t.w.item_bytes = between(t.w.random, 1e5, 1e7);
    t.budget = static_cast<std::size_t>(1e8 + t.w.item_bytes * between(t.w.random, 300, 4000));
  });
  run("latency, long disturbance", {57, 0.0212, 1.02, 22.5}, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.02, 0.3);
    t.limit = t.w.time(static_cast<std::size_t>(between(t.w.random, 300, 3500))) * 1.01;
    double const begin = between(t.w.random, 0.05, 0.5);
    t.w.slow_periods.push_back({begin, begin + 0.4, between(t.w.random, 1.3, 6.0)});
    t.tuner = ww::batch_tuner{}.objective(ww::throughput_under_latency(t.limit)).max_seconds(60);
  });
  run("score with a sharp peak", {24, 0.0451, 1.03, 14.1}, [](trial& t) {
    double const peak = between(t.w.random, 4, 2000);
    t.score = [=](std::size_t b) {
      return std::exp(-std::fabs(std::log(static_cast<double>(b) / peak)));
    };
    t.tuner =
        ww::batch_tuner{}.tolerance(0.0).objective(ww::max_score([=](ww::tune_row const& row) {
          return std::exp(-std::fabs(std::log(static_cast<double>(row.batch) / peak)));
        }));
  });
}
