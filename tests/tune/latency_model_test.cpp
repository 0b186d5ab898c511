// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The latency model against simulated devices whose true times are known.
#include <warpwright/tune/latency_model.hpp>

#include <warpwright/tune/batch_tuner.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <vector>

#include "measure/simulated_device.hpp"
#include "simulated_workload.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace ww = warpwright;
using test_support::noise_source;

namespace {

bool near(double value, double expected) {
  return std::fabs(value - expected) <= 1e-9 * std::fabs(expected);
}

// Launch-bound, then linear in steps of waves, with a cliff: never faster for a larger batch.
struct device {
  double launch = 40e-6;
  double item = 1e-6;
  std::size_t wave = 1;
  std::size_t cliff = 0;
  double operator()(std::size_t batch) const {
    double const items = static_cast<double>((batch + wave - 1) / wave * wave);
    double const seconds = item * items * (cliff > 0 && batch >= cliff ? 1.6 : 1.0);
    return seconds > launch ? seconds : launch;
  }
};

device make_device(noise_source& random) {
  device d;
  d.launch = 1e-5 + 1e-4 * random.uniform();
  d.item = std::exp(std::log(1e-7) + std::log(100.0) * random.uniform());
  d.wave = 1 + static_cast<std::size_t>(200.0 * random.uniform());
  d.cliff = random.uniform() < 0.5 ? static_cast<std::size_t>(2048.0 * random.uniform()) : 0;
  return d;
}

// Relative noise above 0, one draw of a call; quantile(p) is its inverse distribution function.
struct noise {
  int kind;  // 0: exponential, 1: uniform, 2: gamma of shape 2
  double scale;
  double draw(noise_source& random) const {
    double const u = 1.0 - random.uniform();
    if (kind == 1) return scale * u;
    double const x = -std::log(u);
    return scale * (kind == 0 ? x : 0.5 * (x - std::log(1.0 - random.uniform())));
  }
  double p99() const {
    // Of the gamma distribution with shape 2: (1 + x) exp(-x) = 0.01 at x = 6.6384.
    return scale * (kind == 0 ? std::log(100.0) : kind == 1 ? 0.99 : 0.5 * 6.6384);
  }
};

ww::latency_point measure(std::size_t batch, double seconds, noise const& n, std::size_t samples,
                          noise_source& random) {
  std::vector<double> calls;
  for (std::size_t i = 0; i < samples; ++i) calls.push_back(seconds * (1.0 + n.draw(random)));
  std::sort(calls.begin(), calls.end());
  std::size_t const rank = static_cast<std::size_t>(std::ceil(0.99 * double(samples)));
  return {batch, 0.5 * (calls[(samples - 1) / 2] + calls[samples / 2]), calls[rank - 1], samples};
}

}  // namespace

TEST_CASE("median is linear between points, flat below them and has a linear tail",
          "[tune][latency_model]") {
  auto const m = ww::latency_model::fit(
      {{10, 1e-3, 2e-3}, {20, 1e-3, 2e-3}, {40, 2e-3, 3e-3}, {80, 4e-3, 5e-3}});
  CHECK(near(m.median(0), 1e-3));
  CHECK(near(m.median(1), 1e-3));
  CHECK(near(m.median(10), 1e-3));
  CHECK(near(m.median(15), 1e-3));
  CHECK(near(m.median(30), 1.5e-3));
  CHECK(near(m.median(80), 4e-3));
  CHECK(near(m.median(100), 5e-3));
  CHECK(near(m.median(800), 40e-3));
  CHECK(near(m(30), m.median(30)));
  CHECK(near(m.items_per_second(30), 20e3));
  CHECK(m.items_per_second(0) == 0.0);
  CHECK(m.points() == 4);
  CHECK(m.first() == 10);
  CHECK(m.last() == 80);
}

TEST_CASE("the tail's slope is that of the last doubling, not of the last two points",
          "[tune][latency_model]") {
  // 1 us an item; the last point is 2 % slower than the line.
  auto const m = ww::latency_model::fit(
      {{100, 100e-6, 1e-3}, {500, 500e-6, 1e-3}, {990, 990e-6, 1e-3}, {1000, 1020e-6, 1.1e-3}});
  CHECK(std::fabs(m.median(2000) / 2000e-6 - 1.0) < 0.05);
}

TEST_CASE("where half of the largest size was not measured, the tail begins below it",
          "[tune][latency_model]") {
  auto const m =
      ww::latency_model::fit({{10, 10e-6, 1e-3}, {70, 70e-6, 1e-3}, {100, 109e-6, 1e-3}});
  CHECK(near(m.median(190), 208e-6));
}

TEST_CASE("a larger size that was measured faster is averaged, by its samples",
          "[tune][latency_model]") {
  auto const m =
      ww::latency_model::fit({{1, 1.0, 2.0}, {2, 4.0, 4.5}, {3, 3.0, 4.0}, {4, 2.0, 9.0}});
  CHECK(near(m.median(1), 1.0));
  CHECK(near(m.median(2), 3.0));
  CHECK(near(m.median(3), 3.0));
  CHECK(near(m.median(4), 3.0));
  CHECK(near(m.upper(3), 4.5));
  auto const weighted = ww::latency_model::fit({{1, 4.0, 4.0, 100}, {2, 1.0, 1.0, 300}});
  CHECK(near(weighted.median(1), 1.75));
  CHECK(weighted.upper(1) >= 4.0);
}

TEST_CASE("medians are the nearest rising sequence", "[tune][latency_model]") {
  constexpr std::uint64_t seed = 20260201;
  INFO("seed " << seed);
  noise_source random{seed};
  for (int trial = 0; trial < test_support::rounds(2000); ++trial) {
    CAPTURE(trial);
    std::vector<ww::latency_point> points;
    std::size_t const n = 1 + static_cast<std::size_t>(8.0 * random.uniform());
    for (std::size_t i = 0; i < n; ++i) {
      points.push_back({i + 1, 1.0 + 9.0 * random.uniform(), 100.0});
    }
    auto const m = ww::latency_model::fit(points);
    // The minimax formula: max over i <= k of min over j >= k of the mean of i..j.
    for (std::size_t k = 0; k < n; ++k) {
      double outer = 0.0;
      for (std::size_t i = 0; i <= k; ++i) {
        double inner = 1e9;
        for (std::size_t j = k; j < n; ++j) {
          double sum = 0.0;
          for (std::size_t l = i; l <= j; ++l) sum += points[l].median_seconds;
          inner = std::min(inner, sum / static_cast<double>(j - i + 1));
        }
        outer = std::max(outer, inner);
      }
      REQUIRE(near(m.median(k + 1), outer));
    }
  }
}

TEST_CASE("upper holds between points, where a step may be, and grows beyond them",
          "[tune][latency_model]") {
  auto const m = ww::latency_model::fit({{10, 1e-3, 2e-3}, {20, 2e-3, 3e-3}, {40, 4e-3, 6e-3}});
  CHECK(near(m.upper(0), 2e-3));
  CHECK(near(m.upper(1), 2e-3));
  CHECK(near(m.upper(10), 2e-3));
  CHECK(near(m.upper(11), 3e-3));
  CHECK(near(m.upper(40), 6e-3));
  CHECK(near(m.upper(41), 12e-3));
  CHECK(near(m.upper(80), 12e-3));
  CHECK(near(m.upper(81), 24e-3));
  CHECK_FALSE(m.in_range(9));
  CHECK(m.in_range(10));
  CHECK(m.in_range(40));
  CHECK_FALSE(m.in_range(41));
  CHECK(m.upper(std::numeric_limits<std::size_t>::max()) > 1e12);
  // A doubling that took four times as long will do so again.
  auto const steep = ww::latency_model::fit({{20, 1e-3, 1e-3}, {40, 4e-3, 4e-3}});
  CHECK(near(steep.upper(80), 16e-3));
  CHECK(near(steep.upper(160), 64e-3));
}

TEST_CASE("of one point the time is proportional above it", "[tune][latency_model]") {
  std::array<ww::latency_point, 1> const one{{{8, 1e-3, 2e-3, 0}}};
  auto const m = ww::latency_model::fit(one);
  CHECK(near(m.median(4), 1e-3));
  CHECK(near(m.median(16), 2e-3));
  CHECK(near(m.upper(16), 4e-3));
}

TEST_CASE("points may come in any order and repeat, and models are values",
          "[tune][latency_model]") {
  auto const sorted = ww::latency_model::fit({{1, 1.0, 2.0}, {2, 3.0, 4.0}, {4, 5.0, 6.0}});
  auto const mixed =
      ww::latency_model::fit({{4, 5.0, 6.0}, {2, 2.0, 3.5}, {1, 1.0, 2.0}, {2, 4.0, 4.0}});
  for (std::size_t b = 0; b < 10; ++b) {
    CHECK(near(mixed.median(b), sorted.median(b)));
  }
  CHECK(near(mixed.upper(2), 4.0));
  ww::latency_model copy = sorted;
  copy = mixed;
  CHECK(copy.points() == 3);
}

TEST_CASE("both curves are positive and never fall", "[tune][latency_model]") {
  constexpr std::uint64_t seed = 20260202;
  INFO("seed " << seed);
  noise_source random{seed};
  for (int trial = 0; trial < test_support::rounds(2000); ++trial) {
    CAPTURE(trial);
    std::vector<ww::latency_point> points;
    std::size_t const n = 1 + static_cast<std::size_t>(12.0 * random.uniform());
    for (std::size_t i = 0; i < n; ++i) {
      double const median = 1e-6 * std::exp(8.0 * random.uniform());
      points.push_back({1 + static_cast<std::size_t>(200.0 * random.uniform()), median,
                        median * (1.0 + random.uniform()), random.uniform() < 0.5 ? 0u : 50u});
    }
    auto const m = ww::latency_model::fit(points);
    for (std::size_t b = 1; b < 500; ++b) {
      bool const rises = m.median(b) > 0.0 && m.median(b) >= m.median(b - 1) * (1.0 - 1e-12) &&
                         m.upper(b) >= m.upper(b - 1) && m.upper(b) >= m.median(b) * (1.0 - 1e-12);
      if (!rises) FAIL("at batch " << b);
    }
  }
}

TEST_CASE("upper exceeds the true p99 with its confidence at measured sizes and between them",
          "[tune][latency_model]") {
  constexpr std::uint64_t seed = 20260203;
  INFO("seed " << seed);
  noise_source random{seed};
  for (std::size_t const samples :
       {std::size_t{10}, std::size_t{30}, std::size_t{100}, std::size_t{300}, std::size_t{1000}}) {
    for (int kind = 0; kind < 3; ++kind) {
      CAPTURE(samples, kind);
      int const trials = test_support::rounds(samples > 100 ? 250 : 1000);
      int single_under = 0;
      int under = 0;
      int step_under = 0;
      for (int trial = 0; trial < trials; ++trial) {
        noise const n{kind, 0.02 + 0.5 * random.uniform()};
        device const d = make_device(random);
        // One point, without the help of its neighbours.
        auto const alone = ww::latency_model::fit({measure(64, d(64), n, samples, random)});
        if (alone.upper(64) < d(64) * (1.0 + n.p99())) ++single_under;
        std::vector<ww::latency_point> points;
        for (std::size_t b = 1; b <= 2048; b *= samples > 100 ? 8 : 2) {
          points.push_back(measure(b, d(b), n, samples, random));
        }
        auto const m = ww::latency_model::fit(points);
        std::size_t const last = points.back().batch;
        std::size_t const batch =
            1 + static_cast<std::size_t>(random.uniform() * static_cast<double>(last));
        REQUIRE(m.in_range(batch));
        if (m.upper(batch) < d(batch) * (1.0 + n.p99())) ++under;
        // Just above a measured size, where linear interpolation would miss a step.
        if (m.upper(last / 2 + 1) < d(last / 2 + 1) * (1.0 + n.p99())) ++step_under;
      }
      std::printf("%4zu samples, noise %d: under the true p99 %.2f %% alone, %.2f %% in a curve\n",
                  samples, kind, 100.0 * single_under / trials, 100.0 * under / trials);
      // Three standard deviations of the rate above 5 %.
      double const allowed = 0.05 + 3.0 * std::sqrt(0.05 * 0.95 / trials);
      CHECK(single_under <= allowed * trials);
      CHECK(under <= allowed * trials);
      CHECK(step_under <= allowed * trials);
    }
  }
}

TEST_CASE("an upper confidence bound is taken as it is, and covers stalls",
          "[tune][latency_model]") {
  // 1.2 % of the calls take three times as long; 473 calls with at most one above bound the p99.
  constexpr std::uint64_t seed = 20260204;
  INFO("seed " << seed);
  noise_source random{seed};
  int under = 0;
  constexpr int trials = 2000;
  for (int trial = 0; trial < trials; ++trial) {
    double largest = 1e-3;
    double second = 1e-3;
    for (int i = 0; i < 473; ++i) {
      double const call = random.uniform() < 0.012 ? 3e-3 : 1e-3;
      if (call > largest) {
        second = largest;
        largest = call;
      } else if (call > second) {
        second = call;
      }
    }
    auto const m = ww::latency_model::fit({{32, 1e-3, second}});
    CHECK(m.upper(32) == second);
    if (m.upper(32) < 3e-3) ++under;
  }
  std::printf("stalls: under the true p99 in %d of %d\n", under, trials);
  CHECK(under <= 0.05 * trials);
}

TEST_CASE("above the measured sizes upper stays above the truth", "[tune][latency_model]") {
  constexpr std::uint64_t seed = 20260205;
  INFO("seed " << seed);
  noise_source random{seed};
  for (int trial = 0; trial < test_support::rounds(4000); ++trial) {
    CAPTURE(trial);
    device d = make_device(random);
    // What lies above the measured sizes alone cannot be known.
    if (d.cliff > 256) d.cliff = 0;
    std::vector<ww::latency_point> points;
    for (std::size_t b = 1; b <= 512; b *= 2) points.push_back({b, d(b), d(b)});
    auto const m = ww::latency_model::fit(points);
    std::size_t const batch = 513 + static_cast<std::size_t>(4000.0 * random.uniform());
    REQUIRE(m.upper(batch) >= d(batch));
  }
}

TEST_CASE("a model of a tune bounds the p99 of the sizes that were run", "[tune][latency_model]") {
  ww::stream const stream;
  std::size_t sizes = 0;
  std::size_t under = 0;
  std::size_t far = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    test_support::simulated_workload w{seed};
    w.time.fixed = 2e-4;
    w.time.item = 1e-6;
    w.jitter = 0.1;
    if (seed % 2 == 0) w.time.kind = test_support::curve_kind::steps;
    test_support::simulated_stopwatch stopwatch{w.clock};
    auto const tuned =
        ww::batch_tuner{}
            .range(1, 4096)
            .clock(w.clock.ref())
            .tune_with(
                stopwatch, stream, [&](std::size_t batch, ww::stream_ref) { w(batch); },
                ww::no_memory_probe{});
    auto const model = ww::latency_model::of_tune(tuned);
    CHECK(model.points() == tuned.rows.size());
    for (ww::tune_row const& row : tuned.rows) {
      ++sizes;
      double const p99 = w.time(row.batch) * (1.0 + 0.99 * w.jitter);
      double const middle = w.time(row.batch) * (1.0 + 0.5 * w.jitter);
      if (model.upper(row.batch) < p99) ++under;
      if (std::fabs(model.median(row.batch) / middle - 1.0) > 0.05) ++far;
    }
  }
  std::printf("of tunes: %zu of %zu under the true p99, %zu medians off by 5 %%\n", under, sizes,
              far);
  CHECK(under * 100 <= 5 * sizes);
  CHECK(far * 100 <= 5 * sizes);
}

TEST_CASE("a model of a tune leaves out sizes that were not timed", "[tune][latency_model]") {
  ww::tune_result r;
  auto const add = [&r](std::size_t batch, double seconds, std::size_t calls) {
    r.rows.emplace_back();
    r.rows.back().batch = batch;
    r.rows.back().latency_median_seconds = seconds;
    r.rows.back().latency_p99_seconds = seconds;
    r.rows.back().latency_samples = calls;
  };
  add(1, 1e-3, 9);
  add(2, 0.0, 20);
  add(4, 0.0, 0);
  CHECK_THROWS_WITH(ww::latency_model::of_tune(r), contains("latency_calls(20)"));
  add(8, 2e-3, 10);
  r.rows.back().status = ww::tune_status::over_latency;  // its time is known all the same
  auto const model = ww::latency_model::of_tune(r);
  CHECK(model.points() == 1);
  CHECK(model.median(8) == 2e-3);
}

TEST_CASE("nonsense is refused with the values and the limit", "[tune][latency_model]") {
  using ww::latency_model;
  double const nan = std::numeric_limits<double>::quiet_NaN();
  double const infinity = std::numeric_limits<double>::infinity();
  std::vector<ww::latency_point> const none;
  CHECK_THROWS_AS(latency_model::fit(none), std::invalid_argument);
  CHECK_THROWS_WITH(latency_model::fit(none), contains("no points"));
  for (ww::latency_point const& p :
       {ww::latency_point{0, 1.0, 1.0, 0}, ww::latency_point{1, 0.0, 1.0, 0},
        ww::latency_point{1, -1.0, 1.0, 0}, ww::latency_point{1, nan, 1.0, 0},
        ww::latency_point{1, infinity, infinity, 0}, ww::latency_point{1, 1.0, 0.5, 0},
        ww::latency_point{1, 1.0, nan, 0}, ww::latency_point{1, 1.0, infinity, 0},
        ww::latency_point{1, 1.0, 1.0, 9}}) {
    CAPTURE(p.batch, p.median_seconds, p.p99_seconds, p.samples);
    CHECK_THROWS_AS(latency_model::fit({{1, 1.0, 1.0}, p}), std::invalid_argument);
  }
  CHECK_THROWS_WITH(latency_model::fit({{7, -1.0, 1.0}}), contains("7 items, median -1 s"));
  CHECK_THROWS_WITH(latency_model::fit({{7, 1.0, 1.0, 5}}), contains("at least 10 samples"));
  CHECK_NOTHROW(latency_model::fit({{7, 1.0, 1.0, 10}}));
}

TEST_CASE("a dynamic batcher can evaluate it", "[tune][latency_model]") {
  std::vector<ww::latency_point> points;
  for (std::size_t i = 1; i <= 40; ++i)
    points.push_back({i * i, 1e-4 * double(i), 2e-4 * double(i)});
  auto const m = ww::latency_model::fit(points);
  constexpr std::size_t calls = 1'000'000;
  double sum = 0.0;
  auto const begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < calls; ++i) sum += m.upper(i * 7919 % 1600);
  std::chrono::duration<double, std::nano> const spent = std::chrono::steady_clock::now() - begin;
  std::printf("upper(): %.1f ns a call\n", spent.count() / double(calls));
  CHECK(sum > 0.0);
  static_assert(noexcept(m.upper(1))&& noexcept(m.median(1)), "does not allocate");
}
