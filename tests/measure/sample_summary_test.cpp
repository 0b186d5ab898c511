// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/measure/sample_summary.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "measure/simulated_device.hpp"
#include "support/catch.hpp"

namespace ww = warpwright;
using test_support::noise_source;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

// P(X <= k) for a binomial X, term by term in logarithms.
double binomial_cdf(std::size_t count, std::size_t k, double p) {
  long double sum = 0.0L;
  long double log_choose = 0.0L;
  for (std::size_t i = 0; i <= k; ++i) {
    auto const x = static_cast<long double>(i);
    auto const n = static_cast<long double>(count);
    sum += std::exp(log_choose + x * std::log(static_cast<long double>(p)) +
                    (n - x) * std::log1p(-static_cast<long double>(p)));
    log_choose += std::log((n - x) / (x + 1.0L));
  }
  return static_cast<double>(sum);
}

std::vector<double> ascending(std::size_t count) {
  std::vector<double> values;
  for (std::size_t i = 1; i <= count; ++i) values.push_back(static_cast<double>(i));
  return values;
}

}  // namespace

TEST_CASE("samples are summarised by order statistics", "[tune][sample_summary]") {
  CHECK(ww::summarize({}).count == 0);
  CHECK(ww::summarize({}).median_seconds == 0.0);
  CHECK(ww::summarize({}).p99_high_seconds == 0.0);

  auto const one = ww::summarize({3.0});
  CHECK(one.count == 1);
  CHECK(one.min_seconds == 3.0);
  CHECK(one.median_seconds == 3.0);
  CHECK(one.median_low_seconds == 3.0);
  CHECK(one.median_high_seconds == 3.0);
  CHECK(one.deviation_seconds == 0.0);
  CHECK(one.p99_seconds == 3.0);
  CHECK(one.p90_low_seconds == 0.0);
  CHECK(one.p99_low_seconds == 3.0);  // 99 % of all samples are below p99
  CHECK(one.p99_high_seconds == infinity);

  auto const few = ww::summarize({5.0, 1.0, 2.0, 100.0});
  CHECK(few.min_seconds == 1.0);
  CHECK(few.max_seconds == 100.0);
  CHECK(few.median_seconds == 3.5);
  CHECK(few.deviation_seconds == 2.0);   // of 1.5 1.5 2.5 96.5
  CHECK(few.median_low_seconds == 1.0);  // too few for a narrower interval
  CHECK(few.median_high_seconds == 100.0);

  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  auto const s = ww::summarize(hundred);
  CHECK(s.median_seconds == 50.5);
  CHECK(s.p90_seconds == 90.0);
  CHECK(s.p99_seconds == 99.0);  // nearest rank
  CHECK(s.median_low_seconds == 40.0);
  CHECK(s.median_high_seconds == 61.0);
  CHECK(s.p90_low_seconds == 84.0);
  CHECK(s.p90_high_seconds == 96.0);
  CHECK(s.p99_high_seconds == infinity);
  CHECK(s.deviation_seconds == 25.0);
  CHECK(hundred.front() == 100.0);  // unchanged
}

TEST_CASE("the median absolute deviation is that of its definition", "[tune][sample_summary]") {
  std::uint64_t const seed = 31;
  INFO("seed " << seed);
  noise_source noise{seed};
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> samples;
    auto const count = static_cast<std::size_t>(1.0 + 20.0 * noise.uniform());
    // Few values, so that some are equal.
    while (samples.size() < count) samples.push_back(std::floor(8.0 * noise.uniform()));
    auto const s = ww::summarize(samples);
    for (double& value : samples) value = std::fabs(value - s.median_seconds);
    CHECK(s.deviation_seconds == ww::summarize(samples).median_seconds);
  }
}

TEST_CASE("tails get an upper bound with enough samples", "[tune][sample_summary]") {
  CHECK(ww::summarize(ascending(35)).p90_high_seconds == infinity);
  CHECK(ww::summarize(ascending(36)).p90_high_seconds == 36.0);
  CHECK(ww::summarize(ascending(367)).p99_high_seconds == infinity);
  CHECK(ww::summarize(ascending(368)).p99_high_seconds == 368.0);
  CHECK(ww::summarize(ascending(1)).p90_low_seconds == 0.0);
  CHECK(ww::summarize(ascending(2)).p90_low_seconds == 1.0);
}

TEST_CASE("a summary of samples that are not numbers throws", "[tune][sample_summary]") {
  CHECK_THROWS_WITH(ww::summarize({1.0, nan_value}), contains("sample 1 is not a number"));
}

TEST_CASE("the interval contains the median about 95 times of 100", "[tune][sample_summary]") {
  std::uint64_t const seed = 20260131;
  INFO("seed " << seed);
  noise_source noise{seed};
  for (int const count : {7, 20, 41}) {
    int inside = 0;
    for (int trial = 0; trial < 2000; ++trial) {
      std::vector<double> samples;
      for (int i = 0; i < count; ++i) {
        double const u = noise.uniform();
        samples.push_back(u * u);  // skewed: the true median is a quarter
      }
      auto const s = ww::summarize(samples);
      if (s.median_low_seconds <= 0.25 && 0.25 <= s.median_high_seconds) ++inside;
    }
    CAPTURE(count, inside);
    CHECK(inside >= 1880);
    CHECK(inside <= 1999);
  }
}

TEST_CASE("as many samples are needed as tables say", "[tune][sample_summary]") {
  CHECK(ww::samples_needed(0.99, 0.95) == 299);
  CHECK(ww::samples_needed(0.99, 0.95, 1) == 473);
  CHECK(ww::samples_needed(0.99, 0.95, 2) == 628);
  CHECK(ww::samples_needed(0.99, 0.99) == 459);
  CHECK(ww::samples_needed(0.9, 0.95) == 29);
  CHECK(ww::samples_needed(0.9, 0.95, 1) == 46);
  CHECK(ww::samples_needed(0.5, 0.95) == 5);
  CHECK(ww::samples_needed(0.999, 0.95) == 2995);
  CHECK(ww::samples_needed(0.5, 0.4) == 1);
}

TEST_CASE("the samples needed are the fewest by the binomial distribution",
          "[tune][sample_summary]") {
  for (double const quantile : {0.05, 0.5, 0.9, 0.99}) {
    for (double const confidence : {0.5, 0.9, 0.95, 0.999}) {
      for (std::size_t const over :
           {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{20}}) {
        CAPTURE(quantile, confidence, over);
        std::size_t const needed = ww::samples_needed(quantile, confidence, over);
        REQUIRE(needed > over);
        CHECK(binomial_cdf(needed, over, 1.0 - quantile) <= 1.0 - confidence + 1e-12);
        if (needed > over + 1) {
          CHECK(binomial_cdf(needed - 1, over, 1.0 - quantile) > 1.0 - confidence - 1e-12);
        }
      }
    }
  }
}

TEST_CASE("a quantile is within a limit with few enough samples over it",
          "[tune][sample_summary]") {
  CHECK_FALSE(ww::quantile_is_within(0, 0, 0.99, 0.95));
  CHECK_FALSE(ww::quantile_is_within(298, 0, 0.99, 0.95));
  CHECK(ww::quantile_is_within(299, 0, 0.99, 0.95));
  CHECK_FALSE(ww::quantile_is_within(299, 1, 0.99, 0.95));
  CHECK_FALSE(ww::quantile_is_within(472, 1, 0.99, 0.95));
  CHECK(ww::quantile_is_within(473, 1, 0.99, 0.95));
  CHECK_FALSE(ww::quantile_is_within(300, 300, 0.99, 0.95));
  // (1 - p)^count underflows.
  CHECK(ww::quantile_is_within(1000000, 9000, 0.99, 0.95));
  CHECK_FALSE(ww::quantile_is_within(1000000, 9900, 0.99, 0.95));
  CHECK(ww::quantile_is_within(1000000, 499000, 0.5, 0.95));
  CHECK_FALSE(ww::quantile_is_within(1000000, 499500, 0.5, 0.95));
}

TEST_CASE("the bound of a quantile and the count of samples over a limit agree",
          "[tune][sample_summary]") {
  std::uint64_t const seed = 77;
  INFO("seed " << seed);
  noise_source noise{seed};
  for (int trial = 0; trial < 500; ++trial) {
    auto const count = static_cast<std::size_t>(1.0 + 700.0 * noise.uniform());
    double const quantile = trial % 2 == 0 ? 0.99 : 0.02 + 0.97 * noise.uniform();
    double const confidence = 0.5 + 0.49 * noise.uniform();
    double const limit = 1.0 + 0.2 * (noise.uniform() - 0.5);
    std::vector<double> samples;
    std::size_t over = 0;
    for (std::size_t i = 0; i < count; ++i) {
      samples.push_back(noise.uniform() < quantile ? noise.uniform() : 1.0 + noise.uniform());
      if (samples.back() > limit) ++over;
    }
    CAPTURE(trial, count, quantile, confidence, limit, over);
    double const bound = ww::upper_bound_of_quantile(samples, quantile, confidence);
    CHECK((bound <= limit) == ww::quantile_is_within(count, over, quantile, confidence));
    // The mirror image: of the negative samples, the upper bound of the opposite quantile.
    for (double& value : samples) value = -value;
    CHECK(ww::lower_bound_of_quantile(samples, 1.0 - quantile, confidence) == -bound);
  }
}

TEST_CASE("the bounds of quantiles are wrong as rarely as requested", "[tune][sample_summary]") {
  std::uint64_t const seed = 5150;
  INFO("seed " << seed);
  noise_source noise{seed};
  struct plan {
    std::size_t count;
    double quantile;
  };
  for (plan const& p : {plan{299, 0.99}, plan{473, 0.99}, plan{1000, 0.99}, plan{60, 0.9},
                        plan{30, 0.5}, plan{100, 0.5}}) {
    int below = 0;
    int above = 0;
    int trials = 2000;
    for (int trial = 0; trial < trials; ++trial) {
      std::vector<double> samples;
      for (std::size_t i = 0; i < p.count; ++i) samples.push_back(noise.uniform());
      if (ww::upper_bound_of_quantile(samples, p.quantile, 0.95) < p.quantile) ++below;
      if (ww::lower_bound_of_quantile(samples, p.quantile, 0.95) > p.quantile) ++above;
    }
    CAPTURE(p.count, p.quantile, below, above);
    // 5 % and three deviations; the bound of a few samples is at times much safer than requested.
    CHECK(below <= trials / 20 + 30);
    CHECK(above <= trials / 20 + 30);
    CHECK(below >= trials / 100);
  }
}

TEST_CASE("bounds of too few samples are infinite", "[tune][sample_summary]") {
  CHECK(ww::upper_bound_of_quantile({}, 0.5, 0.95) == infinity);
  CHECK(ww::lower_bound_of_quantile({}, 0.5, 0.95) == -infinity);
  CHECK(ww::upper_bound_of_quantile(ascending(298), 0.99, 0.95) == infinity);
  CHECK(ww::upper_bound_of_quantile(ascending(299), 0.99, 0.95) == 299.0);
  CHECK(ww::upper_bound_of_quantile(ascending(473), 0.99, 0.95) == 472.0);
  CHECK(ww::lower_bound_of_quantile(ascending(299), 0.01, 0.95) == 1.0);
  CHECK(ww::lower_bound_of_quantile(ascending(298), 0.01, 0.95) == -infinity);
}

TEST_CASE("quantiles, confidences and counts out of range throw", "[tune][sample_summary]") {
  for (double const bad : {0.0, 1.0, -0.5, 1.5, nan_value}) {
    CHECK_THROWS_WITH(ww::upper_bound_of_quantile({1.0}, bad, 0.95), contains("a quantile of"));
    CHECK_THROWS_WITH(ww::lower_bound_of_quantile({1.0}, bad, 0.95), contains("a quantile of"));
    CHECK_THROWS_WITH(ww::quantile_is_within(1, 0, bad, 0.95), contains("a quantile of"));
    CHECK_THROWS_WITH(ww::samples_needed(bad, 0.95), contains("a quantile of"));
    CHECK_THROWS_WITH(ww::upper_bound_of_quantile({1.0}, 0.5, bad), contains("a confidence of"));
    CHECK_THROWS_WITH(ww::lower_bound_of_quantile({1.0}, 0.5, bad), contains("a confidence of"));
    CHECK_THROWS_WITH(ww::quantile_is_within(1, 0, 0.5, bad), contains("a confidence of"));
    CHECK_THROWS_WITH(ww::samples_needed(0.5, bad), contains("a confidence of"));
  }
  CHECK_THROWS_AS(ww::upper_bound_of_quantile({nan_value}, 0.5, 0.5), std::invalid_argument);
  CHECK_THROWS_AS(ww::lower_bound_of_quantile({nan_value}, 0.5, 0.5), std::invalid_argument);
  CHECK_THROWS_WITH(ww::quantile_is_within(5, 6, 0.99, 0.95), contains("6 of 5"));
  CHECK_THROWS_WITH(ww::samples_needed(0.99, 0.95, 1000001), contains("1000001"));
}
