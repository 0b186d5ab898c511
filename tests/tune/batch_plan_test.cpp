// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The division of a global batch against all possible divisions.
#include <warpwright/tune/batch_plan.hpp>
#include <warpwright/tune/latency_model.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "measure/simulated_device.hpp"
#include "support/catch.hpp"

namespace ww = warpwright;
using test_support::noise_source;

namespace {

// Steps of 24 items; 1 ms each and 20 us a call.
double tiled(std::size_t items) { return 2e-5 + 1e-3 * double((items + 23) / 24); }

bool exact_exists(std::size_t global, std::size_t ranks, std::size_t least, std::size_t largest,
                  std::size_t multiple) {
  for (std::size_t micro = multiple; micro <= largest; micro += multiple) {
    if (micro >= least && global % (micro * ranks) == 0) return true;
  }
  return false;
}

std::size_t draw(noise_source& random, std::size_t most) {
  return 1 + static_cast<std::size_t>(random.uniform() * double(most));
}

// Every item is in one micro batch, none is too large, and the weights add up to 1.
void check_consistent(ww::batch_plan const& plan, std::size_t largest) {
  std::size_t items = 0;
  double weights = 0.0;
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < plan.ranks; ++rank) {
    std::size_t mine = 0;
    for (std::size_t step = 0; step < plan.steps; ++step) {
      std::size_t const count = plan.items(rank, step);
      REQUIRE(count <= plan.micro_batch);
      if (plan.exact) REQUIRE(count == plan.micro_batch);
      REQUIRE(count <= largest);
      mine += count;
      most = count > most ? count : most;
      weights += plan.weight(rank, step);
    }
    REQUIRE(mine == plan.rank_items(rank));
    items += mine;
  }
  REQUIRE(items == plan.global_batch);
  REQUIRE(std::fabs(weights - 1.0) < 1e-9);
  // No step is empty on all ranks.
  REQUIRE(plan.items(0, plan.steps - 1) > 0);
  REQUIRE(plan.exact == (plan.micro_batch * plan.steps * plan.ranks == plan.global_batch));
}

}  // namespace

TEST_CASE("the product is exact, and no other micro batch is faster", "[tune][batch_plan]") {
  constexpr std::uint64_t seed = 20260401;
  INFO("seed " << seed);
  noise_source random{seed};
  int exact = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::size_t const multiple = draw(random, 4);
    std::size_t const global = draw(random, 400) * (random.uniform() < 0.5 ? 1 : 2 * multiple);
    std::size_t const ranks = draw(random, 8);
    std::size_t const largest = multiple + draw(random, 100);
    std::size_t const least = draw(random, multiple + 3);
    CAPTURE(trial, global, ranks, largest, least, multiple);
    auto const planner = ww::batch_planner{}
                             .global_batch(global)
                             .ranks(ranks)
                             .largest_micro_batch(largest)
                             .min_micro_batch(least)
                             .multiple_of(multiple);
    // The oracle: all micro batches.
    std::size_t best = 0;
    double best_seconds = 0.0;
    std::size_t biggest = 0;
    std::size_t allowed = 0;
    for (std::size_t micro = 1; micro <= largest; ++micro) {
      if (micro % multiple != 0 || micro < least) continue;
      ++allowed;
      if (global % (micro * ranks) != 0) continue;
      double const seconds = double(global / ranks / micro) * tiled(micro);
      if (best == 0 || seconds <= best_seconds * (1.0 + 1e-9)) {
        best = micro;
        best_seconds = seconds;
      }
      biggest = micro;
    }
    if (allowed == 0) {
      CHECK_THROWS_AS(planner.plan(), std::invalid_argument);
      continue;
    }
    if (best == 0) {
      try {
        static_cast<void>(planner.plan(tiled));
        FAIL("no exact product exists");
      } catch (ww::no_batch_plan const& none) {
        std::size_t below = global - 1;
        while (below > 0 && !exact_exists(below, ranks, least, largest, multiple)) --below;
        std::size_t above = global + 1;
        while (!exact_exists(above, ranks, least, largest, multiple)) ++above;
        REQUIRE(none.nearest_below() == below);
        REQUIRE(none.nearest_above() == above);
      }
      continue;
    }
    ++exact;
    auto const plan = planner.plan(tiled);
    REQUIRE(plan.exact);
    REQUIRE(plan.micro_batch == best);
    REQUIRE(std::fabs(plan.seconds / best_seconds - 1.0) < 1e-9);
    REQUIRE(std::fabs(plan.items_per_second * best_seconds / double(global) - 1.0) < 1e-9);
    check_consistent(plan, largest);
    // Without a model the largest has the fewest steps.
    REQUIRE(planner.plan().micro_batch == biggest);
    REQUIRE(planner.plan().seconds == 0.0);
  }
  CHECK(exact > 1000);
}

TEST_CASE("a ragged plan is as fast as any, and all its items are run", "[tune][batch_plan]") {
  constexpr std::uint64_t seed = 20260402;
  INFO("seed " << seed);
  noise_source random{seed};
  for (int trial = 0; trial < 5000; ++trial) {
    std::size_t const multiple = draw(random, 8);
    std::size_t const global = draw(random, 500);
    std::size_t const ranks = draw(random, 8);
    std::size_t const largest = multiple + draw(random, 100);
    CAPTURE(trial, global, ranks, largest, multiple);
    auto const planner = ww::batch_planner{}
                             .global_batch(global)
                             .ranks(ranks)
                             .largest_micro_batch(largest)
                             .multiple_of(multiple)
                             .allow_ragged();
    auto const plan = planner.plan(tiled);
    check_consistent(plan, largest);
    REQUIRE(plan.micro_batch % multiple == 0);
    std::size_t const each = (global + ranks - 1) / ranks;
    double best = std::numeric_limits<double>::infinity();
    std::size_t fewest = ~std::size_t{0};
    for (std::size_t micro = multiple; micro <= largest; micro += multiple) {
      std::size_t const steps = (each + micro - 1) / micro;
      double const seconds = double(steps - 1) * tiled(micro) + tiled(each - (steps - 1) * micro);
      best = seconds < best ? seconds : best;
      fewest = steps < fewest ? steps : fewest;
    }
    REQUIRE(plan.seconds <= best * (1.0 + 1e-8));
    auto const simple = planner.plan();
    check_consistent(simple, largest);
    REQUIRE(simple.steps == fewest);
  }
}

TEST_CASE("ties go to the larger micro batch", "[tune][batch_plan]") {
  auto const linear = [](std::size_t items) { return 1e-6 * double(items); };
  auto const plan =
      ww::batch_planner{}.global_batch(840).ranks(2).largest_micro_batch(100).plan(linear);
  CHECK(plan.micro_batch == 84);
  CHECK(plan.steps == 5);
}

TEST_CASE("of equally fast plans the exact one is chosen", "[tune][batch_plan]") {
  auto const flat = [](std::size_t) { return 1e-3; };
  auto const planner = ww::batch_planner{}.global_batch(100).largest_micro_batch(60).allow_ragged();
  CHECK(planner.plan(flat).micro_batch == 50);
  CHECK(planner.plan().micro_batch == 50);
}

TEST_CASE("a model can prefer a smaller micro batch", "[tune][batch_plan]") {
  // Above 32 items everything takes twice as long.
  auto const latency =
      ww::latency_model::fit({{1, 1e-3, 1e-3}, {32, 1e-3, 1e-3}, {33, 4e-3, 4e-3}});
  auto const planner = ww::batch_planner{}.global_batch(256).largest_micro_batch(64);
  CHECK(planner.plan(latency).micro_batch == 32);
  CHECK(planner.plan().micro_batch == 64);
}

TEST_CASE("a prime global batch names its neighbours, or is ragged", "[tune][batch_plan]") {
  auto const planner =
      ww::batch_planner{}.global_batch(1021).ranks(4).multiple_of(8).largest_micro_batch(32);
  CHECK_THROWS_WITH(planner.plan(), contains("1021 is not a product of 4 ranks"));
  CHECK_THROWS_WITH(planner.plan(), contains("992 and 1024"));
  try {
    static_cast<void>(planner.plan());
  } catch (ww::no_batch_plan const& none) {
    CHECK(none.nearest_below() == 992);
    CHECK(none.nearest_above() == 1024);
  }
  auto const plan = planner.allow_ragged().plan();
  CHECK_FALSE(plan.exact);
  CHECK(plan.micro_batch == 32);
  CHECK(plan.steps == 8);
  CHECK(plan.rank_items(0) == 256);
  CHECK(plan.rank_items(1) == 255);
  CHECK(plan.items(0, 7) == 32);
  CHECK(plan.items(3, 7) == 31);
  CHECK(std::fabs(plan.weight(3, 7) - 31.0 / 1021.0) < 1e-12);
}

TEST_CASE("a global batch below all micro batches has no neighbour below", "[tune][batch_plan]") {
  auto const planner = ww::batch_planner{}.global_batch(5).multiple_of(8);
  try {
    static_cast<void>(planner.plan());
    FAIL("5 is not a multiple of 8");
  } catch (ww::no_batch_plan const& none) {
    CHECK(none.nearest_below() == 0);
    CHECK(none.nearest_above() == 8);
    CHECK(std::string{none.what()}.find("batches that are: 8;") != std::string::npos);
  }
  auto const plan = planner.allow_ragged().plan();
  CHECK(plan.items(0, 0) == 5);
  CHECK(plan.steps == 1);
}

TEST_CASE("a memory model gives the largest micro batch", "[tune][batch_plan]") {
  auto const memory = ww::memory_model::fit(
      {{8, 1'080'000'000}, {16, 1'160'000'000}, {32, 1'320'000'000}, {64, 1'640'000'000}});
  auto const planner = ww::batch_planner{}.global_batch(1024);
  CHECK(planner.memory(memory, 1'400'000'000).plan().micro_batch == 32);
  CHECK(planner.memory(memory, 3'000'000'000).plan().micro_batch == 128);
  CHECK_THROWS_WITH(planner.memory(memory, 1'000'000'000).plan(), contains("more memory"));
  // Not known is not taken as fitting.
  CHECK_THROWS_AS(planner.memory(ww::memory_model{}, 3'000'000'000).plan(), std::invalid_argument);
}

TEST_CASE("settings of a plan out of range are refused", "[tune][batch_plan]") {
  using ww::batch_planner;
  CHECK_THROWS_WITH(batch_planner{}.plan(), contains("set global_batch()"));
  auto const planner = batch_planner{}.global_batch(64);
  CHECK_THROWS_WITH(planner.ranks(0).plan(), contains("ranks(0)"));
  CHECK_THROWS_WITH(planner.multiple_of(0).plan(), contains("multiple_of(0)"));
  std::size_t const most = ~std::size_t{0};
  CHECK_THROWS_WITH(planner.min_micro_batch(most).multiple_of(8).plan(),
                    contains("min_micro_batch(18446744073709551615)") && contains("2^40"));
  CHECK_THROWS_AS(planner.multiple_of(most).plan(), std::invalid_argument);
  CHECK_THROWS_AS(planner.global_batch(most).plan(), std::invalid_argument);
  CHECK_THROWS_WITH(planner.min_micro_batch(0).plan(), contains("min_micro_batch(0)"));
  CHECK_THROWS_WITH(planner.largest_micro_batch(7).multiple_of(8).plan(),
                    contains("largest micro batch is 7, the least allowed 8"));
  CHECK_THROWS_AS(planner.largest_micro_batch(0).plan(), std::invalid_argument);
  CHECK_THROWS_WITH(batch_planner{}.global_batch(std::size_t{1} << 40).plan(),
                    contains("are tried"));
  for (double const bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_WITH(planner.plan([bad](std::size_t) { return bad; }), contains("seconds for"));
  }
  // The original is not changed.
  CHECK(planner.plan().micro_batch == 64);
}
