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
struct figures {
  int tunes = 0;
  int good = 0;            // within the tolerance of 2 % of the best
  double loss = 0.0;       // of the value, mean
  double size = 0.0;       // of the choice, in units of the smallest good size, mean
  double sizes_run = 0.0;  // mean
  double calls = 0.0;      // mean
};

figures run(char const* kind, int tunes, std::function<void(trial&)> const& prepare) {
  static ww::stream const stream;
  figures f;
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
    auto tuner = t.tuner.range(1, t.last).multiple_of(t.multiple).clock(t.w.clock.ref());
    if (t.budget != 0) tuner = tuner.memory_budget(t.budget);
    auto const r = tuner.tune_with(stopwatch, stream, workload, pool);
    std::size_t const chosen = r.chosen().batch;
    REQUIRE(t.allowed(chosen));
    double best = 0.0;
    for (std::size_t b = t.multiple; b <= t.last; b += t.multiple) {
      if (t.allowed(b)) best = std::max(best, t.value(b));
    }
    std::size_t smallest = t.multiple;
    while (!t.allowed(smallest) || t.value(smallest) < 0.98 * best) smallest += t.multiple;
    ++f.tunes;
    f.good += t.value(chosen) >= (0.98 - 1e-9) * best ? 1 : 0;
    f.loss += 1.0 - t.value(chosen) / best;
    f.size += static_cast<double>(chosen) / static_cast<double>(smallest);
    f.sizes_run += static_cast<double>(ran.size());
    f.calls += static_cast<double>(t.w.calls);
  }
  f.loss /= tunes;
  f.size /= tunes;
  f.sizes_run /= tunes;
  f.calls /= tunes;
  std::printf("%-28s %3d of %3d good, loss %.4f, size %.4f, %.2f sizes run, %.0f calls\n", kind,
              f.good, f.tunes, f.loss, f.size, f.sizes_run, f.calls);
  return f;
}

void as_steps(trial& t, double wave_low, double wave_high, double fixed_low, double fixed_high) {
  t.w.time.kind = curve_kind::steps;
  t.w.time.wave = std::floor(between(t.w.random, wave_low, wave_high));
  t.w.time.fixed = t.w.time.item * t.w.time.wave * between(t.w.random, fixed_low, fixed_high);
}

}  // namespace

TEST_CASE("policies: steps of the time", "[tune][batch_tuner]") {
  run("steps", 80, [](trial& t) { as_steps(t, 24, 1200, 0.01, 2.0); });
  run("steps, jitter", 80, [](trial& t) {
    as_steps(t, 24, 1200, 0.01, 2.0);
    t.w.jitter = 0.01;
  });
  run("steps, multiples of 8", 80, [](trial& t) {
    as_steps(t, 70, 1200, 0.01, 1.0);
    t.multiple = 8;
  });
  run("small steps", 80, [](trial& t) { as_steps(t, 8, 64, 3.0, 60.0); });
  run("few sizes on a step", 80, [](trial& t) { as_steps(t, 3, 12, 0.01, 1.0); });
  run("two steps then a line", 80, [](trial& t) {
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
  run("affine", 80, [](trial& t) { t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.3); });
  run("affine, jitter", 80, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.3);
    t.w.jitter = 0.02;
  });
  run("saturating", 80, [](trial& t) {
    t.w.time.kind = curve_kind::saturating;
    t.w.time.knee = between(t.w.random, 10, 3000);
  });
  run("peak", 80, [](trial& t) {
    t.w.time.kind = curve_kind::peak;
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.1);
    t.w.time.knee = between(t.w.random, 20, 3000);
  });
  run("peak, jitter", 80, [](trial& t) {
    t.w.time.kind = curve_kind::peak;
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.1);
    t.w.time.knee = between(t.w.random, 20, 3000);
    t.w.jitter = 0.01;
  });
  run("cliff", 80, [](trial& t) {
    t.w.time.kind = curve_kind::cliff;
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.002, 0.1);
    t.w.time.knee = between(t.w.random, 20, 3000);
  });
  run("smooth bend", 80, [](trial& t) {
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
  run("fails above a size", 80, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.02, 1.0);
    t.w.valid_to = static_cast<std::size_t>(between(t.w.random, 20, 4000));
    t.w.invalid_is_memory = true;
  });
  run("steps, fails above a size", 80, [](trial& t) {
    as_steps(t, 24, 400, 0.5, 20.0);
    t.w.valid_to = static_cast<std::size_t>(between(t.w.random, 500, 4000));
    t.w.invalid_is_memory = true;
  });
  run("budget", 80, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.02, 1.0);
    t.w.base_bytes = 1e8;
    t.w.item_bytes = between(t.w.random, 1e5, 1e7);
    t.budget = static_cast<std::size_t>(1e8 + t.w.item_bytes * between(t.w.random, 30, 4000));
  });
  run("budget in granules", 80, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.02, 1.0);
    t.w.memory = memory_kind::granules;
    t.w.base_bytes = 1e8;
    t.w.item_bytes = between(t.w.random, 1e5, 1e6);
    t.budget = static_cast<std::size_t>(1e8 + t.w.item_bytes * between(t.w.random, 30, 4000));
  });
  run("latency, disturbed", 80, [](trial& t) {
    t.w.time.fixed = 10e-3 * between(t.w.random, 0.02, 0.3);
    t.limit = t.w.time(static_cast<std::size_t>(between(t.w.random, 100, 3500))) * 1.01;
    double const begin = between(t.w.random, 0.005, 0.3);
    t.w.slow_periods.push_back({begin, begin + 0.2, between(t.w.random, 2.0, 6.0)});
    t.tuner = ww::batch_tuner{}.objective(ww::throughput_under_latency(t.limit)).max_seconds(60);
  });
}

TEST_CASE("policies: other goals", "[tune][batch_tuner]") {
  run("score with a peak", 80, [](trial& t) {
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
  run("latency that falls first", 80, [](trial& t) {
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
