// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/observe/step_timer.hpp>

#include <support/catch.hpp>

#include <cmath>
#include <random>
#include <string>
#include <thread>

namespace ww = warpwright;

namespace {

struct scripted_clock {
  std::uint64_t now = 1;
  [[nodiscard]] ww::detail::clock_ref ref() {
    return {[](void* self) { return static_cast<scripted_clock*>(self)->now; }, this};
  }
  void advance(double seconds) { now += static_cast<std::uint64_t>(seconds * 1e9); }
};

}  // namespace

TEST_CASE("step_timer: rate, median and p99 of recent steps, without warm-up and pauses") {
  scripted_clock clock;
  ww::step_timer timer{10, 2, clock.ref()};
  CHECK(timer.to_text() == "no step yet");
  timer.step(1000);  // begins
  for (int i = 0; i < 2; ++i) {
    clock.advance(5.0);
    timer.step(1000);
  }
  CHECK(timer.statistics().steps == 0);
  for (int i = 0; i < 10; ++i) {
    clock.advance(100.0);
    timer.restart();
    clock.advance(0.01);
    timer.step(32);
  }
  ww::step_statistics s = timer.statistics();
  CHECK(s.steps == 10);
  CHECK(s.items == 320);
  CHECK(std::fabs(s.items_per_second - 3200) < 0.01);
  CHECK(std::fabs(s.baseline_median_seconds - 0.01) < 1e-9);
  CHECK(std::isnan(s.slowdown));
  CHECK_FALSE(s.slower());
  CHECK(timer.to_text() ==
        "3.200 k items/s, median 10.0 ms, p99 10.0 ms (last 10 steps); no baseline yet");
  for (int i = 0; i < 10; ++i) {
    clock.advance(i == 3 ? 0.05 : 0.02);
    timer.step(32);
  }
  s = timer.statistics();
  CHECK(std::fabs(s.median_seconds - 0.02) < 1e-9);
  CHECK(std::fabs(s.p99_seconds - 0.05) < 1e-9);
  CHECK(std::fabs(s.slowdown - 2) < 1e-6);
  CHECK(s.slower());
  CHECK_THAT(timer.to_text(), contains("SLOWER than the baseline: +100.0 % ["));
}

TEST_CASE("step_timer: chance is seldom a slowdown, and a small one is found") {
  unsigned const seed = std::random_device{}();
  std::mt19937 random{seed};
  INFO("seed " << seed);
  auto const found = [&](double factor) {
    std::normal_distribution<double> noise{0.0, 0.05};
    int slower = 0;
    for (int round = 0; round < 100; ++round) {
      scripted_clock clock;
      ww::step_timer timer{100, 0, clock.ref()};
      for (int i = 0; i < 301; ++i) {
        clock.advance((i > 200 ? factor : 1.0) * 0.01 * std::exp(noise(random)));
        timer.step();
      }
      slower += timer.statistics().slower() ? 1 : 0;
    }
    return slower;
  };
  // Some 1 and 95: four deviations of chance are allowed.
  CHECK(found(1.0) <= 6);
  CHECK(found(1.1) >= 82);
}

TEST_CASE("step_timer: options, a clock that stands, and readers beside the loop") {
  CHECK_THROWS_WITH(ww::step_timer{9}, contains("window is 9 steps; give 10 to"));
  CHECK_THROWS_WITH(ww::step_timer{10001}, contains("step_timer_test.cpp"));
  scripted_clock still;
  ww::step_timer stopped{10, 0, still.ref()};
  for (int i = 0; i < 30; ++i) stopped.step();
  CHECK(stopped.statistics().items_per_second == 0.0);
  CHECK(std::isnan(stopped.statistics().slowdown));

  ww::step_timer timer;
  std::thread reader{[&timer] {
    for (int i = 0; i < 200; ++i) {
      ww::step_statistics const s = timer.statistics();
      if (s.items != 3 * s.steps) FAIL("torn");
      static_cast<void>(timer.to_text());
    }
  }};
  for (int i = 0; i < 20000; ++i) timer.step(3);
  reader.join();
  CHECK(timer.statistics().steps == 20000 - 11);
}
