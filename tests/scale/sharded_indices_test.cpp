// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <warpwright/scale/sharded_indices.hpp>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace ww = warpwright;

namespace {

std::vector<std::uint64_t> list(ww::sharded_indices const& indices) {
  return {indices.begin(), indices.end()};
}

// How many standard deviations a chi-square statistic is above its mean.
double deviations(double chi_square, double degrees) {
  return (chi_square - degrees) / std::sqrt(2.0 * degrees);
}

}  // namespace

static_assert(ww::sharded_indices{10}.part(3, 4).size() == 3, "");
static_assert(ww::sharded_indices{10}.part(3, 4).drop_last().size() == 2, "");
static_assert(ww::sharded_indices{10}.in_order().part(1, 4)[2] == 9, "");

TEST_CASE("the ranks of an epoch take each index once") {
  for (std::uint64_t n = 0; n < 2100; n = n < 70 ? n + 1 : n + 97) {
    CAPTURE(n);
    std::multiset<std::uint64_t> all;
    for (int rank = 0; rank < 3; ++rank) {
      for (std::uint64_t const i : ww::sharded_indices{n}.seed(n).part(rank, 3).drop_last()) {
        all.insert(i);
      }
    }
    std::set<std::uint64_t> const each{all.begin(), all.end()};
    CHECK(all.size() == n / 3 * 3);
    CHECK(each.size() == all.size());
    CHECK((each.empty() || *each.rbegin() < n));
    std::vector<std::uint64_t> const whole = list(ww::sharded_indices{n}.seed(n));
    CHECK(std::set<std::uint64_t>{whole.begin(), whole.end()}.size() == n);
  }
}

TEST_CASE("ranks get as many, by the first of the permutation again") {
  for (int const ranks : {1, 2, 3, 7, 9, 10, 11, 25, 64}) {
    auto const all = ww::sharded_indices{10}.seed(5).epoch(2);
    for (int rank = 0; rank < ranks; ++rank) {
      CAPTURE(ranks, rank);
      std::vector<std::uint64_t> const mine = list(all.part(rank, ranks));
      REQUIRE(mine.size() == static_cast<std::size_t>((9 + ranks) / ranks));
      for (std::size_t k = 0; k < mine.size(); ++k) {
        CHECK(mine[k] == all[(k * static_cast<std::size_t>(ranks) + std::size_t(rank)) % 10]);
      }
    }
    CHECK(list(ww::sharded_indices{0}.part(0, ranks)).empty());
  }
}

TEST_CASE("an epoch goes on with other ranks where it was left") {
  auto const all = ww::sharded_indices{1000}.seed(3).epoch(1);
  std::vector<int> taken(1000);
  for (int rank = 0; rank < 8; ++rank) {
    for (std::uint64_t k = 0; k < 40; ++k) ++taken[all.part(rank, 8)[k]];
  }
  for (int rank = 0; rank < 5; ++rank) {
    auto const rest = all.part(rank, 5).skip(320);
    CHECK(rest.size() == 136);
    for (std::uint64_t const i : rest) ++taken[i];
  }
  CHECK(taken == std::vector<int>(1000, 1));
  CHECK(all.part(3, 8).skip(80)[5] == all.part(3, 8)[15]);
  CHECK(all.skip(~std::uint64_t{0}).size() == 0);
}

TEST_CASE("seeds and epochs have permutations of their own, which do not change") {
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
      orders.insert(list(ww::sharded_indices{50}.epoch(epoch).seed(seed)));
    }
  }
  CHECK(orders.size() == 400);
  CHECK(list(ww::sharded_indices{9}) == list(ww::sharded_indices{9}.seed(0).epoch(0)));
  // A run that goes on with another build has the same order.
  CHECK(list(ww::sharded_indices{9}.seed(1).epoch(2)) ==
        std::vector<std::uint64_t>{0, 2, 6, 8, 5, 7, 1, 4, 3});
  CHECK(ww::sharded_indices{1300000}.seed(1).epoch(2)[77] == 922703);
  CHECK(list(ww::sharded_indices{4}.seed(8).in_order()) == std::vector<std::uint64_t>{0, 1, 2, 3});
}

TEST_CASE("all permutations of few are as likely") {
  for (std::uint64_t const n : {3U, 4U, 5U, 6U}) {
    double permutations = 1.0;
    for (std::uint64_t i = 2; i <= n; ++i) permutations *= static_cast<double>(i);
    std::map<std::vector<std::uint64_t>, int> counts;
    double const trials = test_support::sanitized ? 2e4 : 1e5;
    for (std::uint64_t t = 0; t < static_cast<std::uint64_t>(trials); ++t) {
      ++counts[list(ww::sharded_indices{n}.seed(t % 300).epoch(t / 300))];
    }
    double sum = 0.0;
    double const expected = trials / permutations;
    for (auto const& [order, count] : counts) sum += std::pow(count - expected, 2) / expected;
    CAPTURE(n);
    CHECK(counts.size() == static_cast<std::size_t>(permutations));
    CHECK(std::fabs(deviations(sum, permutations - 1.0)) < 5.0);
  }
}

TEST_CASE("pairs at any distance in a permutation are as likely as others") {
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(seed);
  constexpr std::uint64_t cells = 32;
  for (std::uint64_t const n : {std::uint64_t{1300000}, std::uint64_t{1} << 20U,
                                (std::uint64_t{1} << 40U) + 1, std::uint64_t{1} << 63U}) {
    for (std::uint64_t const distance : {1U, 2U, 3U, 64U, 1000U, 1024U, 65536U}) {
      auto const all = ww::sharded_indices{n}.seed(seed);
      std::vector<double> counts(cells * cells);
      constexpr std::uint64_t samples = test_support::sanitized ? 20000 : 100000;
      std::uint64_t const width = n / cells + 1;
      for (std::uint64_t k = 0; k < samples; ++k) {
        counts[all[k] / width * cells + all[k + distance] / width] += 1.0;
      }
      double sum = 0.0;
      double const expected = static_cast<double>(samples) / (cells * cells);
      for (double const count : counts) sum += std::pow(count - expected, 2) / expected;
      CAPTURE(n, distance);
      CHECK(std::fabs(deviations(sum, cells * cells - 1.0)) < 6.0);
    }
  }
}

TEST_CASE("wrong arguments throw with the remedy") {
  ww::sharded_indices const all{10};
  CHECK_THROWS_WITH(all.part(4, 4), contains("rank 4 of 4 ranks; give at least 1"));
  CHECK_THROWS_WITH(all.part(-1, 4), contains("rank -1 of 4 ranks"));
  CHECK_THROWS_WITH(all.part(0, 0), contains("rank 0 of 0 ranks; give at least 1"));
  CHECK_THROWS_AS(all.part(0, -1), std::invalid_argument);
}
