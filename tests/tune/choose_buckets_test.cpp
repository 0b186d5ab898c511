// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The choice of buckets against all possible choices.
#include <warpwright/tune/latency_model.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "measure/simulated_device.hpp"
#include "support/catch.hpp"

namespace ww = warpwright;
using test_support::noise_source;

namespace {

using sizes = std::vector<std::size_t>;

bool near(double value, double expected) {
  return std::fabs(value - expected) <= 1e-9 * (1.0 + std::fabs(expected));
}

// The mean cost if every size runs in the cheapest bucket that is large enough; infinite if one
// fits in none.
template <typename Cost>
double cost_of(std::vector<ww::size_weight> const& histogram, sizes const& buckets,
               Cost const& cost) {
  double sum = 0.0;
  double total = 0.0;
  for (ww::size_weight const& entry : histogram) {
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t const b : buckets) {
      if (b >= entry.size) best = std::min(best, cost(b));
    }
    sum += entry.weight > 0.0 || std::isinf(best) ? (entry.weight + 1e-300) * best : 0.0;
    total += entry.weight;
  }
  return sum / total;
}

// The least cost over all sets of at most `count` of the multiples up to `largest`.
template <typename Cost>
double brute_force(std::vector<ww::size_weight> const& histogram, std::size_t count,
                   std::size_t multiple, std::size_t largest, Cost const& cost) {
  sizes all;
  for (std::size_t b = multiple; b <= largest; b += multiple) all.push_back(b);
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t set = 1; set < (std::size_t{1} << all.size()); ++set) {
    std::size_t bits = 0;
    for (std::size_t rest = set; rest != 0; rest &= rest - 1) ++bits;
    if (bits > count) continue;
    sizes buckets;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((set >> i & 1) != 0) buckets.push_back(all[i]);
    }
    best = std::min(best, cost_of(histogram, buckets, cost));
  }
  return best;
}

std::vector<ww::size_weight> make_histogram(noise_source& random, std::size_t largest) {
  std::vector<ww::size_weight> histogram;
  std::size_t const n = 1 + static_cast<std::size_t>(8.0 * random.uniform());
  for (std::size_t i = 0; i < n; ++i) {
    double const weight = random.uniform() < 0.1 ? 0.0 : std::ceil(10.0 * random.uniform());
    histogram.push_back(
        {1 + static_cast<std::size_t>(random.uniform() * static_cast<double>(largest)), weight});
  }
  histogram[0].weight += 1.0;
  return histogram;
}

}  // namespace

TEST_CASE("the choice costs as little as the best of all sets of buckets",
          "[tune][choose_buckets]") {
  constexpr std::uint64_t seed = 20260301;
  INFO("seed " << seed);
  noise_source random{seed};
  constexpr std::size_t largest = 11;
  for (int trial = 0; trial < 3000; ++trial) {
    CAPTURE(trial);
    auto const histogram = make_histogram(random, largest);
    std::size_t const count = 1 + static_cast<std::size_t>(4.0 * random.uniform());
    // Linear, rising, or in any order; ties occur.
    std::array<double, largest + 1> costs{};
    int const kind = trial % 3;
    for (double& c : costs) c = std::floor(6.0 * random.uniform());
    if (kind == 1) std::sort(costs.begin(), costs.end());
    auto const cost = [&](std::size_t b) { return kind == 0 ? double(b) : costs[b]; };
    auto const chosen = kind == 0 ? ww::choose_buckets(histogram, count)
                                  : ww::choose_buckets(histogram, count, cost);
    std::size_t top = 0;
    for (auto const& entry : histogram) top = std::max(top, entry.size);
    REQUIRE(near(chosen.expected_cost, brute_force(histogram, count, 1, top, cost)));
    // The buckets are what they are said to be.
    REQUIRE(chosen.buckets.size() <= count);
    REQUIRE(chosen.buckets.back() >= top);
    for (std::size_t i = 1; i < chosen.buckets.size(); ++i) {
      REQUIRE(chosen.buckets[i - 1] < chosen.buckets[i]);
    }
    REQUIRE(near(chosen.expected_cost, cost_of(histogram, chosen.buckets, cost)));
    sizes every;
    for (std::size_t b = 1; b <= top; ++b) every.push_back(b);
    REQUIRE(near(chosen.exact_cost, cost_of(histogram, every, cost)));
    // The first bucket that is large enough is as cheap as any.
    double first_fit = 0.0;
    double total = 0.0;
    double run = 0.0;
    double items = 0.0;
    for (auto const& entry : histogram) {
      std::size_t i = 0;
      while (chosen.buckets[i] < entry.size) ++i;
      first_fit += entry.weight * cost(chosen.buckets[i]);
      run += entry.weight * double(chosen.buckets[i]);
      items += entry.weight * double(entry.size);
      total += entry.weight;
    }
    REQUIRE(near(chosen.expected_cost, first_fit / total));
    REQUIRE(near(chosen.padding_share, 1.0 - items / run));
  }
}

TEST_CASE("buckets are multiples, and may be larger than any size", "[tune][choose_buckets]") {
  constexpr std::uint64_t seed = 20260302;
  INFO("seed " << seed);
  noise_source random{seed};
  for (int trial = 0; trial < 1500; ++trial) {
    CAPTURE(trial);
    auto const histogram = make_histogram(random, 20);
    std::size_t const multiple = 1 + static_cast<std::size_t>(7.0 * random.uniform());
    std::size_t const largest = 21 + static_cast<std::size_t>(6.0 * random.uniform()) + multiple;
    std::array<double, 64> costs{};
    for (double& c : costs) c = random.uniform();
    auto const cost = [&](std::size_t b) { return costs[b]; };
    std::size_t const step = std::max<std::size_t>(multiple, 3);
    auto const chosen = ww::choose_buckets(
        histogram, 2, cost, ww::bucket_options{}.multiple_of(step).largest_bucket(largest));
    for (std::size_t const b : chosen.buckets) {
      REQUIRE(b % step == 0);
      REQUIRE(b <= largest);
    }
    REQUIRE(near(chosen.expected_cost, brute_force(histogram, 2, step, largest, cost)));
  }
}

TEST_CASE("a falling cost is met by the larger, cheaper bucket", "[tune][choose_buckets]") {
  // 16 runs faster than 9 to 15, as a tile is full.
  auto const cost = [](std::size_t b) { return b == 16 ? 1.0 : double(b); };
  auto const inside = ww::choose_buckets({{3, 1.0}, {10, 1.0}, {20, 1.0}}, 3, cost);
  CHECK(inside.buckets == sizes{16, 20});
  CHECK(near(inside.expected_cost, 22.0 / 3.0));
  // Above the largest size only if it is allowed.
  CHECK(ww::choose_buckets({{10, 1.0}}, 1, cost).buckets == sizes{10});
  CHECK(ww::choose_buckets({{10, 1.0}}, 1, cost, ww::bucket_options{}.largest_bucket(16)).buckets ==
        sizes{16});
}

TEST_CASE("one bucket is the largest size, and as many buckets as sizes are exact",
          "[tune][choose_buckets]") {
  std::vector<ww::size_weight> const histogram{{5, 2.0}, {9, 1.0}, {2, 1.0}, {5, 0.0}, {7, 0.0}};
  auto const one = ww::choose_buckets(histogram, 1);
  CHECK(one.buckets == sizes{9});
  CHECK(near(one.expected_cost, 9.0));
  CHECK(near(one.padding_share, 1.0 - 21.0 / 36.0));
  CHECK(near(one.exact_cost, 21.0 / 4.0));
  auto const all = ww::choose_buckets(histogram, 100);
  CHECK(all.buckets == sizes{2, 5, 9});
  CHECK(near(all.expected_cost, all.exact_cost));
  CHECK(near(all.padding_share, 0.0));
}

TEST_CASE("the largest size is covered even if it never occurs", "[tune][choose_buckets]") {
  CHECK(ww::choose_buckets({{8, 5.0}, {4096, 0.0}}, 2).buckets == sizes{8, 4096});
  CHECK(ww::choose_buckets({{8, 5.0}, {4096, 0.0}}, 1).buckets == sizes{4096});
}

TEST_CASE("where all buckets cost the same there is one, the smallest", "[tune][choose_buckets]") {
  constexpr std::uint64_t seed = 20260304;
  INFO("seed " << seed);
  noise_source random{seed};
  auto const flat = [](std::size_t) { return 0.1; };
  auto const options = ww::bucket_options{}.largest_bucket(64);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<ww::size_weight> histogram;
    for (std::size_t s = 1; s <= 30; ++s) histogram.push_back({s, random.uniform()});
    REQUIRE(ww::choose_buckets(histogram, 8, flat, options).buckets == sizes{30});
  }
}

TEST_CASE("a latency model is a cost", "[tune][choose_buckets]") {
  // Flat up to 32: one bucket for all of that.
  auto const latency = ww::latency_model::fit(
      {{1, 1e-3, 1e-3}, {32, 1e-3, 1e-3}, {64, 2e-3, 2e-3}, {128, 4e-3, 4e-3}});
  std::vector<ww::size_weight> histogram;
  for (std::size_t b = 1; b <= 128; ++b) histogram.push_back({b, 1.0});
  auto const chosen =
      ww::choose_buckets(histogram, 4, latency, ww::bucket_options{}.multiple_of(8));
  CHECK(chosen.buckets.size() == 4);
  CHECK(chosen.buckets[0] >= 32);
  CHECK(chosen.buckets[3] == 128);
  CHECK(chosen.expected_cost >= chosen.exact_cost);
}

TEST_CASE("a function by its name is a cost", "[tune][choose_buckets]") {
  struct local {
    static double squared(std::size_t b) { return double(b) * double(b); }
  };
  CHECK(ww::choose_buckets({{3, 1.0}}, 1, local::squared).expected_cost == 9.0);
}

TEST_CASE("many sizes are no problem", "[tune][choose_buckets]") {
  constexpr std::uint64_t seed = 20260303;
  INFO("seed " << seed);
  noise_source random{seed};
  std::vector<ww::size_weight> histogram;
  for (std::size_t s = 1; s <= 20000; ++s) histogram.push_back({s, random.uniform()});
  auto const chosen = ww::choose_buckets(histogram, 64);
  CHECK(chosen.buckets.size() == 64);
  // Equal weights: 64 equal buckets would waste half a bucket on average.
  CHECK(chosen.expected_cost - chosen.exact_cost < 0.51 * 20000.0 / 64.0);
  CHECK(chosen.expected_cost - chosen.exact_cost > 0.45 * 20000.0 / 64.0);
}

TEST_CASE("misuse is refused with the value and the remedy", "[tune][choose_buckets]") {
  using options = ww::bucket_options;
  double const nan = std::numeric_limits<double>::quiet_NaN();
  double const infinity = std::numeric_limits<double>::infinity();
  std::vector<ww::size_weight> const none;
  CHECK_THROWS_WITH(ww::choose_buckets(none, 1), contains("empty histogram"));
  CHECK_THROWS_WITH(ww::choose_buckets({{1, 1.0}}, 0), contains("at least 1"));
  CHECK_THROWS_WITH(ww::choose_buckets({{0, 1.0}}, 1), contains("size of 0"));
  CHECK_THROWS_WITH(ww::choose_buckets({{1, -2.0}}, 1), contains("weight -2 of size 1"));
  CHECK_THROWS_AS(ww::choose_buckets({{1, nan}}, 1), std::invalid_argument);
  CHECK_THROWS_AS(ww::choose_buckets({{1, infinity}}, 1), std::invalid_argument);
  CHECK_THROWS_WITH(ww::choose_buckets({{1, 0.0}}, 1), contains("sum of 0"));
  CHECK_THROWS_AS(ww::choose_buckets({{~std::size_t{0}, 1.0}}, 1), std::invalid_argument);
  CHECK_THROWS_WITH(ww::choose_buckets({{1, 1.0}}, 1, {}, options{}.multiple_of(0)),
                    contains("multiple_of(0)"));
  CHECK_THROWS_AS(ww::choose_buckets({{1, 1.0}}, 1, {}, options{}.multiple_of(~std::size_t{0})),
                  std::invalid_argument);
  CHECK_THROWS_WITH(ww::choose_buckets({{9, 1.0}}, 1, {}, options{}.largest_bucket(8)),
                    contains("does not cover the size 9; raise it to 9"));
  CHECK_THROWS_WITH(
      ww::choose_buckets({{7, 1.0}}, 1, {}, options{}.multiple_of(8).largest_bucket(7)),
      contains("raise it to 8"));
  for (double const bad : {-1.0, nan, infinity}) {
    CHECK_THROWS_WITH(ww::choose_buckets({{3, 1.0}}, 1, [bad](std::size_t) { return bad; }),
                      contains("for the bucket 3"));
  }
  CHECK_THROWS_WITH(ww::choose_buckets({{10, 1e308}, {20, 1.0}}, 2), contains("at most 1e100"));
  CHECK(ww::choose_buckets({{10, 1e17}, {20, 1.0}}, 2).padding_share >= 0.0);
  auto const flat = [](std::size_t) { return 1.0; };
  CHECK_THROWS_WITH(ww::choose_buckets({{1, 1.0}, {std::size_t{1} << 30, 1.0}}, 1, flat),
                    contains("raise multiple_of()"));
  CHECK_THROWS_AS(
      ww::choose_buckets({{1, 1.0}}, 1, flat, options{}.largest_bucket(~std::size_t{0})),
      std::invalid_argument);
  CHECK_NOTHROW(ww::choose_buckets({{1, 1.0}, {std::size_t{1} << 30, 1.0}}, 1));
  std::vector<ww::size_weight> many;
  for (std::size_t s = 1; s <= 20000; ++s) many.push_back({s, 1.0});
  CHECK_THROWS_WITH(ww::choose_buckets(many, 20000), contains("cells"));
}

TEST_CASE("setters of bucket_options return a changed copy", "[tune][choose_buckets]") {
  constexpr ww::bucket_options options = ww::bucket_options{}.multiple_of(8).largest_bucket(64);
  static_assert(options.multiple_of() == 8 && options.largest_bucket() == 64, "kept");
  CHECK(ww::bucket_options{}.multiple_of() == 1);
}
