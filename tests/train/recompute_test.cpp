// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/train/recompute.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace ww = warpwright;

namespace {

struct outcome {
  std::size_t peak = 0;
  double extra = 0.0;
};

/// Runs both passes, and counts what is alive.
outcome run(std::vector<ww::recompute_layer> const& layers, std::vector<bool> const& kept,
            std::size_t input) {
  outcome o;
  std::vector<bool> alive(layers.size() + 1);  // 0: the input
  std::size_t now = 0;
  auto const size = [&](std::size_t i) { return i == 0 ? input : layers[i - 1].bytes; };
  auto const make = [&](std::size_t i) {
    if (alive[i]) return;
    alive[i] = true;
    now += size(i);
    o.peak = std::max(o.peak, now);
  };
  auto const drop = [&](std::size_t i) {
    if (alive[i]) now -= size(i);
    alive[i] = false;
  };
  make(0);
  for (std::size_t i = 1; i <= layers.size(); ++i) {
    make(i);
    if (i > 1 && !kept[i - 2]) drop(i - 1);
  }
  for (std::size_t i = layers.size(); i > 0; --i) {
    if (!alive[i - 1]) {
      std::size_t from = i - 1;
      while (!alive[from]) --from;
      for (std::size_t k = from + 1; k < i; ++k) {
        make(k);
        o.extra += layers[k - 1].seconds;
      }
    }
    drop(i);
  }
  return o;
}

std::vector<bool> kept_of(ww::recompute_plan const& plan) {
  return std::vector<bool>(plan.kept.begin(), plan.kept.end());
}

}  // namespace

TEST_CASE("a plan is the best of all choices, and its figures are those of a run") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  auto const below = [&](unsigned n) { return static_cast<std::size_t>(random() % n); };
  for (int round = 0; round < 300; ++round) {
    std::size_t const n = 1 + below(11);
    std::size_t const input = below(5);
    std::vector<ww::recompute_layer> layers(n);
    std::size_t all = input;
    for (ww::recompute_layer& layer : layers) {
      layer = {static_cast<double>(1 + below(9)), 1 + below(12)};
      all += layer.bytes;
    }
    std::size_t const budget = all / 3 + below(static_cast<unsigned>(all));
    double best = std::numeric_limits<double>::infinity();
    std::size_t least_peak = all;
    for (std::size_t choice = 0; choice < std::size_t{1} << (n - 1); ++choice) {
      std::vector<bool> kept(n, true);
      for (std::size_t i = 0; i + 1 < n; ++i) kept[i] = (choice >> i & 1U) != 0;
      outcome const o = run(layers, kept, input);
      least_peak = std::min(least_peak, o.peak);
      if (o.peak <= budget) best = std::min(best, o.extra);
    }
    CAPTURE(n, budget, all);
    if (best == std::numeric_limits<double>::infinity()) {
      CHECK_THROWS_WITH(
          ww::plan_recompute(layers.data(), n, budget, input),
          Catch::EndsWith("holds no choice; the least one is " + std::to_string(least_peak)));
      continue;
    }
    ww::recompute_plan const plan = ww::plan_recompute(layers.data(), n, budget, input);
    REQUIRE(plan.extra_seconds == best);
    outcome const o = run(layers, kept_of(plan), input);
    REQUIRE(o.extra == best);
    REQUIRE(o.peak == plan.peak_bytes);
    REQUIRE(plan.peak_bytes <= budget);
    REQUIRE(plan.keeps(n - 1));
  }
}

TEST_CASE("a deep network fits a fifth of its activations for less than a forward pass more") {
  std::vector<ww::recompute_layer> layers(96, {1.0, 100});
  ww::recompute_plan const plan = ww::plan_recompute(layers.data(), 96, 9600 / 5, 100);
  CHECK(plan.peak_bytes <= 9600 / 5);
  CHECK(plan.extra_seconds < plan.forward_seconds);
  CHECK(plan.extra_seconds > 0.5 * plan.forward_seconds);
  CHECK(ww::plan_recompute(layers.data(), 96, 9700, 100).extra_seconds == 0.0);
}

TEST_CASE("a hundred layers of different sizes are planned in a moment") {
  std::mt19937 random{3};
  std::vector<ww::recompute_layer> layers(100);
  std::size_t all = 0;
  for (ww::recompute_layer& layer : layers) {
    layer = {static_cast<double>(1 + random() % 1000), 1000 + random() % 8 * 1000};
    all += layer.bytes;
  }
  ww::recompute_plan const plan = ww::plan_recompute(layers.data(), 100, all / 3);
  CHECK(run(layers, kept_of(plan), 0).peak == plan.peak_bytes);
}

TEST_CASE("layers that cannot be are refused; no layers are no plan") {
  ww::recompute_layer const bad{std::nan(""), 1};
  CHECK_THROWS_WITH(ww::plan_recompute(&bad, 1, 10), Catch::Contains("layer 0 has nan s"));
  CHECK(ww::plan_recompute(nullptr, 0, 10, 4).peak_bytes == 4);
  CHECK_THROWS_AS(ww::plan_recompute(nullptr, 0, 3, 4), std::invalid_argument);
}
