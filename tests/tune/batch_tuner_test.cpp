// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The tuner's search for the best throughput, on a simulated clock, where the correct choice is
// known; its objectives, callbacks and settings.
#include <warpwright/tune/report.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "simulated_workload.hpp"
#include "support/catch.hpp"
#include "tuner_bench.hpp"

namespace ww = warpwright;
using namespace test_support;

TEST_CASE("the smallest size within tolerance of the best is chosen, to the item",
          "[tune][batch_tuner]") {
  for (double const fixed : {1e-5, 1e-4, 1e-3}) {
    for (std::size_t const last :
         {std::size_t{1}, std::size_t{2}, std::size_t{100}, std::size_t{1000}, std::size_t{8192}}) {
      tuner_bench b;
      cost const c{fixed, 1e-6};
      auto const r = b.tune(ww::batch_tuner{}.range(1, last).resolution(0.0).stop_after_flat(0), c);
      std::size_t const expected = smallest_near_best(
          1, last, 0.02, [&](std::size_t n) { return c.rate(n); }, every_size);
      CAPTURE(fixed, last);
      CHECK(r.chosen().batch == expected);
      CHECK(r.chosen().status == ww::tune_status::ok);
      CHECK(std::fabs(r.chosen().items_per_second / c.rate(expected) - 1.0) < 1e-9);
      for (std::size_t i = 1; i < r.rows.size(); ++i) {
        REQUIRE(r.rows[i - 1].batch < r.rows[i].batch);
      }
      CHECK(b.largest_run() <= last);
      CHECK(find_row(r, last) != nullptr);
    }
  }
}

TEST_CASE("a coarser resolution saves runs", "[tune][batch_tuner]") {
  auto const seconds = [](std::size_t n) {
    double const x = static_cast<double>(n);
    return n <= 700 ? 1e-3 + 1e-6 * x : 3e-3 + 4e-6 * x;
  };
  tuner_bench exact;
  tuner_bench coarse;
  auto const r0 = exact.tune(ww::batch_tuner{}.range(1, 8192).resolution(0.0), seconds);
  auto const r1 = coarse.tune(ww::batch_tuner{}.range(1, 8192).resolution(0.1), seconds);
  CHECK(r1.rows.size() < r0.rows.size());
  CHECK(r1.chosen().items_per_second >= 0.88 * r0.chosen().items_per_second);

  for (double const resolution : {1e300, std::numeric_limits<double>::infinity()}) {
    tuner_bench b;
    CHECK(b.tune(ww::batch_tuner{}.range(1, 64).resolution(resolution), cost{}).rows.size() == 7);
  }
}

TEST_CASE("a plateau ends the search and its start is chosen", "[tune][batch_tuner]") {
  // Saturated at 200: beyond, the time is proportional to the size.
  auto const seconds = [](std::size_t n) { return n <= 200 ? 1e-3 : 1e-3 * double(n) / 200.0; };
  tuner_bench b;
  auto const r =
      b.tune(ww::batch_tuner{}.range(1, 1 << 20).resolution(0.0).tolerance(0.019), seconds);
  INFO(ww::to_text(r));
  CHECK(r.chosen().batch >= 197);  // 98.1 % of 200
  CHECK(r.chosen().batch <= 200);
  CHECK(b.largest_run() <= 4096);

  tuner_bench whole;
  whole.tune(ww::batch_tuner{}.range(1, 1 << 16).stop_after_flat(0), seconds);
  CHECK(whole.largest_run() == 1 << 16);
}

TEST_CASE("small gains of several doublings are no plateau", "[tune][batch_tuner]") {
  // Each doubling gains 1.5 %: the plateau is judged over three of them together.
  tuner_bench b;
  auto const seconds = [](std::size_t n) {
    return 1e-4 * std::pow(static_cast<double>(n), 1.0 - std::log2(1.015));
  };
  auto const r = b.tune(ww::batch_tuner{}.range(1, 4096).tolerance(0.02), seconds);
  CHECK(b.largest_run() == 4096);
  CHECK(r.chosen().batch > 1024);
}

TEST_CASE("a peak between powers of two is found", "[tune][batch_tuner]") {
  // Best at 96; caches overflow beyond.
  auto const seconds = [](std::size_t n) {
    double const x = static_cast<double>(n);
    return x <= 96.0 ? 1e-4 + 1e-6 * x : (1e-4 + 96e-6) * std::pow(x / 96.0, 1.5);
  };
  tuner_bench b;
  auto const r = b.tune(ww::batch_tuner{}.range(1, 4096).resolution(0.0).tolerance(0.0), seconds);
  CHECK(r.chosen().batch >= 94);
  CHECK(r.chosen().batch <= 98);
}

TEST_CASE("the last size before a cliff is found", "[tune][batch_tuner]") {
  // The throughput drops after 70: the middle of 64 and 128 is worse than 64, and 70 is better.
  auto const seconds = [](std::size_t n) {
    double const x = static_cast<double>(n);
    return n <= 70 ? 1e-3 + 1e-6 * x : 2e-3 + 4e-5 * x;
  };
  tuner_bench b;
  auto const r = b.tune(ww::batch_tuner{}.range(1, 4096).resolution(0.0).tolerance(0.0), seconds);
  CHECK(r.chosen().batch == 70);
}

TEST_CASE("steps of the time are found, and the end of one is chosen", "[tune][batch_tuner]") {
  for (std::size_t const multiple : {std::size_t{1}, std::size_t{8}}) {
    for (double const fixed : {1e-5, 1e-3, 1e-2}) {
      tuner_bench b;
      auto const seconds = [&](std::size_t n) {
        return fixed + 1e-3 * std::ceil(static_cast<double>(n) / 132.0);
      };
      std::size_t const last = 1000 / multiple * multiple;
      auto const r = b.tune(ww::batch_tuner{}.range(1, last).multiple_of(multiple), seconds);
      auto const rate = [&](std::size_t n) { return static_cast<double>(n) / seconds(n); };
      double best = 0.0;
      for (std::size_t n = multiple; n <= last; n += multiple) {
        best = rate(n) > best ? rate(n) : best;
      }
      INFO(ww::to_text(r));
      CAPTURE(multiple, fixed);
      CHECK(rate(r.chosen().batch) >= 0.98 * best);
      // Steps of less than 10 % do not matter.
      if (fixed > 5e-3) continue;
      CHECK(r.wave_items >= 128);
      CHECK(r.wave_items <= 132);
      if (multiple == 1) CHECK(r.chosen().batch % 132 == 0);
    }
  }
}

TEST_CASE("steps that the user names need not be looked for", "[tune][batch_tuner]") {
  auto const seconds = [](std::size_t n) {
    return 1e-4 + 1e-3 * std::ceil(static_cast<double>(n) / 132.0);
  };
  tuner_bench found;
  tuner_bench named;
  auto const r0 = found.tune(ww::batch_tuner{}.range(1, 1000), seconds);
  auto const r1 = named.tune(ww::batch_tuner{}.range(1, 1000).wave(132), seconds);
  CHECK(r1.chosen().batch == r0.chosen().batch);
  CHECK(r1.wave_items == 132);
  CHECK(r1.rows.size() < r0.rows.size());
}

TEST_CASE("a preferred size is tried", "[tune][batch_tuner]") {
  tuner_bench b;
  auto const r = b.tune(ww::batch_tuner{}.range(1, 64).prefer(37).prefer(41), cost{});
  CHECK(find_row(r, 37) != nullptr);
  CHECK(find_row(r, 41) != nullptr);
}

TEST_CASE("only the sizes that the user names are run", "[tune][batch_tuner]") {
  tuner_bench bench;
  auto const only = ww::batch_tuner{}.range(1, 8192).prefer(7).only({1024, 1, 96, 8});
  auto const r = bench.tune(only, cost{});
  REQUIRE(r.rows.size() == 4);
  CHECK(bench.ran.front() == 1);  // the memory is learnt from small sizes
  CHECK(r.chosen().batch == 1024);
  for (std::size_t const b : bench.ran) CHECK((b == 1 || b == 8 || b == 96 || b == 1024));
  // The tolerance is of the best of them.
  tuner_bench other;
  CHECK(other.tune(only.tolerance(0.6), cost{}).chosen().batch == 96);
  // One that prefer() adds later counts as well.
  tuner_bench more;
  CHECK(more.tune(only.prefer(2048), cost{}).chosen().batch == 2048);
}

TEST_CASE("only the sizes that the user names replace one that is over the limit",
          "[tune][batch_tuner]") {
  tuner_bench bench;
  auto const only = ww::batch_tuner{}.only({16, 64, 256, 1024});
  cost const c{};
  // Every fiftieth call takes three times as long, so that only the calls of the check tell.
  std::size_t calls = 0;
  auto const seconds = [&](std::size_t b) { return c(b) * (++calls % 50 == 0 ? 3.0 : 1.0); };
  auto const r = bench.tune(only.objective(ww::throughput_under_latency(2.0 * c(1024))), seconds);
  CHECK(r.chosen().batch == 256);
  for (std::size_t const b : bench.ran) CHECK((b == 16 || b == 64 || b == 256 || b == 1024));
  // Without one that works, no other is tried.
  tuner_bench none;
  CHECK_THROWS_AS(none.tune(only.objective(ww::throughput_under_latency(1e-5)), c),
                  ww::no_feasible_batch);
  for (std::size_t const b : none.ran) CHECK((b == 16 || b == 64 || b == 256 || b == 1024));
  tuner_bench energy;
  auto const joules = [&] { return energy.clock.now(); };
  auto const e = energy.tune(only.objective(ww::throughput_per_joule(joules)), c);
  CHECK(e.rows.size() == 4);
}

TEST_CASE("decreasing throughput chooses the first size", "[tune][batch_tuner]") {
  auto const seconds = [](std::size_t n) { return 1e-6 * double(n) * double(n); };
  tuner_bench b;
  auto const r = b.tune(ww::batch_tuner{}.range(4, 4096), seconds);
  CHECK(r.chosen().batch == 4);
  CHECK(r.rows.front().batch == 4);
}

TEST_CASE("a range of one size, and ends that are not powers of two", "[tune][batch_tuner]") {
  tuner_bench b;
  auto const one = b.tune(ww::batch_tuner{}.range(37, 37), cost{});
  CHECK(one.chosen().batch == 37);
  CHECK(one.rows.size() == 1);
  CHECK(one.explanation.find("the best of the sizes") != std::string::npos);

  tuner_bench odd;
  auto const r = odd.tune(ww::batch_tuner{}.range(3, 1001).tolerance(0.0), cost{});
  CHECK(r.chosen().batch == 1001);
  CHECK(r.rows.front().batch == 3);
}

TEST_CASE("only multiples are tried", "[tune][batch_tuner]") {
  tuner_bench b;
  auto const r = b.tune(ww::batch_tuner{}.range(1, 1001).multiple_of(24).resolution(0.0), cost{});
  for (std::size_t const batch : b.ran) REQUIRE(batch % 24 == 0);
  CHECK(r.rows.front().batch == 24);
  CHECK(r.rows.back().batch == 984);
  std::size_t const expected = smallest_near_best(
      24, 984, 0.02, [](std::size_t n) { return cost{}.rate(n); },
      [](std::size_t n) { return n % 24 == 0; });
  CHECK(r.chosen().batch == expected);
}

TEST_CASE("noise makes the choice larger, not slower", "[tune][batch_tuner]") {
  cost const c{};
  int slow = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    tuner_bench b;
    noise_source noise{seed};
    // 4 % of jitter, and one call in 50 takes 50 % longer.
    auto const r = b.tune(ww::batch_tuner{}.range(1, 8192), [&](std::size_t n) {
      double const slow_call = noise.uniform() < 0.02 ? 1.5 : 1.0;
      return c(n) * slow_call * (1.0 + 0.04 * noise.uniform());
    });
    double const got = c.rate(r.chosen().batch) / c.rate(8192);
    CAPTURE(r.chosen().batch, got);
    CHECK(got >= 0.97);
    if (got < 0.98) ++slow;
  }
  CHECK(slow <= 10);
}

TEST_CASE("calls of two kinds do not mislead the choice", "[tune][batch_tuner]") {
  cost const c{};
  int slow = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    tuner_bench b;
    noise_source noise{seed};
    auto const r = b.tune(ww::batch_tuner{}.range(1, 8192), [&](std::size_t n) {
      return c(n) * (noise.uniform() < 0.4 ? 1.3 : 1.0);
    });
    if (c.rate(r.chosen().batch) / c.rate(8192) < 0.98) ++slow;
  }
  CHECK(slow <= 10);
}

TEST_CASE("a device that slows down does not mislead the choice", "[tune][batch_tuner]") {
  cost const c{};
  for (double const drop : {0.1, 0.2, 0.35}) {
    for (double const begin : {0.0, 0.1, 0.3, 0.6}) {
      for (double const duration : {0.05, 1.0, 1e9}) {
        tuner_bench b;
        auto const r = b.tune(ww::batch_tuner{}.range(1, 8192), [&](std::size_t n) {
          double const now = b.clock.now();
          return c(n) * (now >= begin && now < begin + duration ? 1.0 + drop : 1.0);
        });
        CAPTURE(drop, begin, duration, r.chosen().batch);
        CHECK(c.rate(r.chosen().batch) / c.rate(8192) >= 0.98);
      }
    }
  }
  // The rows say what they allow for.
  tuner_bench b;
  auto const r = b.tune(ww::batch_tuner{}.range(1, 1024),
                        [&](std::size_t n) { return c(n) * (b.clock.now() > 0.1 ? 1.25 : 1.0); });
  ww::tune_row const* const last = find_row(r, 1024);
  REQUIRE(last != nullptr);
  CHECK(std::fabs(last->slowdown - 1.25) < 0.01);
  CHECK(std::fabs(last->items_per_second / c.rate(1024) - 1.0) < 0.01);
}

TEST_CASE("a short disturbance does not mark sizes as slow for good", "[tune][batch_tuner]") {
  cost const c{};
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    tuner_bench b;
    noise_source noise{seed};
    double const begin = 2.0 * noise.uniform();
    auto const r =
        b.tune(ww::batch_tuner{}.range(1, 8192).objective(ww::throughput_under_latency(2.5e-3)),
               [&](std::size_t n) {
                 bool const disturbed = b.clock.now() >= begin && b.clock.now() < begin + 0.3;
                 return c(n) * (disturbed ? 8.0 : 1.0) * (1.0 + 0.01 * noise.uniform());
               });
    // Sizes up to 2,374 are allowed.
    if (r.chosen().batch < 1500) ++wrong;
    CHECK(c(r.chosen().batch) <= 2.5e-3);
  }
  CHECK(wrong <= 3);
}

TEST_CASE("other goals than throughput", "[tune][batch_tuner]") {
  cost const c{};
  SECTION("the lowest latency") {
    tuner_bench b;
    auto const r = b.tune(ww::batch_tuner{}.range(4, 4096).objective(ww::min_latency()), c);
    CHECK(r.chosen().batch == 4);
    CHECK(r.explanation.find("latency") != std::string::npos);
  }
  SECTION("the lowest latency of a time that falls first") {
    tuner_bench b;
    auto const seconds = [](std::size_t n) {
      double const x = static_cast<double>(n);
      return 1e-3 / x + 1e-6 * x;  // least at 31.6
    };
    auto const r = b.tune(
        ww::batch_tuner{}.range(1, 4096).objective(ww::min_latency()).tolerance(0.0), seconds);
    CHECK(r.chosen().batch >= 28);
    CHECK(r.chosen().batch <= 36);
  }
  SECTION("a score of the user's") {
    tuner_bench b;
    auto const score = [](ww::tune_row const& row) {
      return row.items_per_second / (1.0 + 1e-3 * static_cast<double>(row.batch));
    };
    auto const r =
        b.tune(ww::batch_tuner{}.range(1, 4096).objective(ww::max_score(score)).tolerance(0.0), c);
    // Best at sqrt(1e-4 / 1e-6 * 1e3) = 316.
    CHECK(r.chosen().batch >= 280);
    CHECK(r.chosen().batch <= 360);
  }
  SECTION("throughput per joule") {
    tuner_bench b;
    double joules = 0.0;
    // The power grows faster than the throughput, least energy an item at 100.
    auto const seconds = [&](std::size_t n) {
      double const x = static_cast<double>(n);
      joules += 1.0 + 1e-4 * x * x;
      return c(n);
    };
    auto const r = b.tune(ww::batch_tuner{}
                              .range(1, 4096)
                              .objective(ww::throughput_per_joule([&] { return joules; }))
                              .tolerance(0.0),
                          seconds);
    CHECK(r.chosen().batch >= 90);
    CHECK(r.chosen().batch <= 110);
    CHECK(std::fabs(r.chosen().joules_per_item - 0.02) < 0.0005);
  }
  SECTION("throughput per joule, of a counter that changes every 100 ms") {
    tuner_bench b;
    // 100 W and 0.1 J an item.
    double joules = 0.0;
    double counted = 0.0;
    double next = 0.013;
    auto const seconds = [&](std::size_t n) {
      joules += 100.0 * c(n) + 0.1 * static_cast<double>(n);
      return c(n);
    };
    auto const counter = [&] {
      if (b.clock.now() >= next) {
        counted = joules;
        while (next <= b.clock.now()) next += 0.1;
      }
      return counted;
    };
    auto const r = b.tune(ww::batch_tuner{}
                              .range(1, 1024)
                              .objective(ww::throughput_per_joule(counter))
                              .max_seconds(100),
                          seconds);
    for (auto const& row : r.rows) {
      double const n = static_cast<double>(row.batch);
      CHECK(row.joules_per_item == Approx(100.0 * c(row.batch) / n + 0.1).epsilon(0.02));
    }
  }
  SECTION("a counter of energy that never changes is refused") {
    tuner_bench b;
    auto const tuner =
        ww::batch_tuner{}.range(1, 4).objective(ww::throughput_per_joule([] { return 1.0; }));
    CHECK_THROWS_AS(b.tune(tuner, c), std::invalid_argument);
  }
  SECTION("a score that is no number above 0 rejects the size") {
    for (double const bad : {-5.0, 0.0, std::nan(""), HUGE_VAL}) {
      tuner_bench b;
      auto const score = [bad](ww::tune_row const&) { return bad; };
      CHECK_THROWS_WITH(b.tune(ww::batch_tuner{}.range(1, 4).objective(ww::max_score(score)), c),
                        contains("the score is ") && contains("above 0 and finite"));
      auto const some = [bad](ww::tune_row const& row) { return row.batch == 2 ? 1.0 : bad; };
      auto const r = b.tune(ww::batch_tuner{}.range(1, 4).objective(ww::max_score(some)), c);
      CHECK(r.chosen().batch == 2);
    }
  }
  SECTION("energy that falls is no energy") {
    tuner_bench b;
    double joules = 0.0;
    auto const falling = [&] { return joules -= 1.0; };
    CHECK_THROWS_WITH(
        b.tune(ww::batch_tuner{}.range(1, 4).objective(ww::throughput_per_joule(falling)), c),
        contains("the energy of an item is -"));
  }
  SECTION("under a latency limit as well") {
    tuner_bench b;
    auto const by_size = [](ww::tune_row const& row) { return static_cast<double>(row.batch); };
    auto const r = b.tune(
        ww::batch_tuner{}.range(1, 4096).objective(ww::max_score(by_size).within_latency(1.15e-3)),
        c);
    CHECK(c(r.chosen().batch) <= 1.15e-3);
    CHECK(r.chosen().batch >= 900);
  }
}

TEST_CASE("progress is reported before each run", "[tune][batch_tuner]") {
  tuner_bench b;
  std::vector<ww::tuning_progress> reports;
  auto const r = b.tune(ww::batch_tuner{}.range(1, 64).max_seconds(25).progress(
                            [&](ww::tuning_progress const& p) { reports.push_back(p); }),
                        cost{});
  REQUIRE(reports.size() >= 7);
  CHECK(reports.front().batch == 1);
  CHECK(reports.front().best_batch == 0);
  CHECK(reports.front().phase == ww::tuning_phase::bracketing);
  CHECK(reports.back().phase == ww::tuning_phase::soak);
  CHECK(reports.back().batch == r.chosen().batch);
  CHECK(reports.back().best_batch == 64);
  for (std::size_t i = 1; i < reports.size(); ++i) {
    CHECK(reports[i].elapsed_seconds >= reports[i - 1].elapsed_seconds);
    CHECK(reports[i].sizes >= reports[i - 1].sizes);
    CHECK(reports[i].max_seconds == 25.0);
  }
  std::string const line = ww::progress_line::to_text(reports.back());
  CHECK(line.find("tuning: soak") == 0);
  CHECK(line.find("best 64 with ") != std::string::npos);
  CHECK(line.size() <= 100);
}

TEST_CASE("a progress line rewrites itself, and is cleared", "[tune][batch_tuner]") {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  tuner_bench b;
  b.tune(ww::batch_tuner{}.range(1, 8).progress(ww::progress_line{file}), cost{});
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  CHECK(text.find("\rtuning: bracketing 1") == 0);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.size() % 101 == 1);  // lines of 100 characters and their returns
  CHECK(text.back() == '\r');
  // Without a file it does nothing.
  ww::progress_line{nullptr}(ww::tuning_progress{});
}

TEST_CASE("the steps and the time by kind are reported", "[tune][batch_tuner]") {
  tuner_bench b;
  auto const r = b.tune(
      ww::batch_tuner{}.range(1, 4096).objective(ww::throughput_under_latency(2e-3)), cost{});
  CHECK(std::fabs(r.times.total() - r.elapsed_seconds) < 1e-6);
  CHECK(std::fabs(r.elapsed_seconds - b.clock.now()) < 1e-6);
  CHECK(r.times.bracketing > 0.0);
  CHECK(r.times.latency > 0.0);
  CHECK(r.times.soak > 0.0);
  std::string all;
  for (std::string const& step : r.steps) all += step + "\n";
  CHECK(all.find("sizes from 1 to ") != std::string::npos);
  CHECK(all.find("is shown to keep the limit") != std::string::npos);
  CHECK(all.find("confirmed in an independent run") != std::string::npos);
  CHECK_FALSE(r.stopped_early);
}

TEST_CASE("several ranks agree on the smallest choice", "[tune][batch_tuner]") {
  SECTION("this rank has the smallest") {
    tuner_bench b;
    int calls = 0;
    auto const r = b.tune(ww::batch_tuner{}.range(1, 64).agree([&](std::size_t mine) {
      ++calls;
      return mine;
    }),
                          cost{});
    CHECK(calls == 2);
    tuner_bench alone;
    CHECK(r.chosen().batch == alone.tune(ww::batch_tuner{}.range(1, 64), cost{}).chosen().batch);
  }
  SECTION("another rank has less room") {
    tuner_bench b;
    auto const r = b.tune(ww::batch_tuner{}.range(1, 64).agree(
                              [](std::size_t mine) { return mine < 20 ? mine : 20; }),
                          cost{});
    CHECK(r.chosen().batch == 20);
    CHECK(r.chosen().latency_samples >= 50);  // it has been soaked
    CHECK(r.explanation.find("which other devices or ranks can use as well; here others are faster "
                             "(batch ") != std::string::npos);
  }
  SECTION("the other rank's size does not work here") {
    tuner_bench b;
    std::vector<std::size_t> passed;
    auto const tuner = ww::batch_tuner{}.range(1, 64).agree([&](std::size_t mine) {
      passed.push_back(mine);
      return mine < 20 ? mine : 20;
    });
    auto const r = b.tune(tuner, [](std::size_t n) {
      if (n > 16 && n < 24) throw std::bad_alloc{};
      return cost{}(n);
    });
    CHECK(r.chosen().batch == 16);
    CHECK(passed.size() == 3);
    CHECK(passed.back() == 16);
  }
  SECTION("no size works on another rank") {
    tuner_bench b;
    CHECK_THROWS_AS(
        b.tune(ww::batch_tuner{}.range(1, 64).agree([](std::size_t) { return std::size_t{0}; }),
               cost{}),
        ww::no_feasible_batch);
  }
  SECTION("no size works here: the others are told") {
    tuner_bench b;
    std::vector<std::size_t> passed;
    CHECK_THROWS_AS(b.tune(ww::batch_tuner{}.range(1, 8).agree([&](std::size_t mine) {
      passed.push_back(mine);
      return mine;
    }),
                           [](std::size_t) -> double { throw std::bad_alloc{}; }),
                    ww::no_feasible_batch);
    CHECK(passed == std::vector<std::size_t>{0});
  }
}

TEST_CASE("ranks do not wait for one whose tune ends by an exception", "[tune][batch_tuner]") {
  SECTION("before it has agreed") {
    tuner_bench b;
    std::vector<std::size_t> passed;
    CHECK_THROWS_WITH(b.tune(ww::batch_tuner{}.range(1, 8).agree([&](std::size_t mine) {
      passed.push_back(mine);
      return mine;
    }),
                             [](std::size_t) -> double { throw std::runtime_error{"broken"}; }),
                      contains("broken"));
    CHECK(passed == std::vector<std::size_t>{0});
  }
  SECTION("by an exception of the function itself, which is not called again") {
    tuner_bench b;
    int calls = 0;
    CHECK_THROWS_WITH(b.tune(ww::batch_tuner{}.range(1, 8).agree([&](std::size_t) -> std::size_t {
      ++calls;
      throw std::runtime_error{"no network"};
    }),
                             cost{}),
                      contains("no network"));
    CHECK(calls == 1);
  }
  SECTION("the function returns more than was passed") {
    tuner_bench b;
    CHECK_THROWS_WITH(
        b.tune(ww::batch_tuner{}.range(1, 8).agree([](std::size_t mine) { return mine + 1; }),
               cost{}),
        contains("has returned 9 for 8"));
  }
}

TEST_CASE("a clock that is too coarse gives a choice and finite reports", "[tune][batch_tuner]") {
  ww::stream const stream;
  // It resolves 1 us; one call takes less.
  auto const clock = [](ww::stream_ref, auto& call, std::size_t n) {
    call();
    return n < 2 ? 0.0 : static_cast<double>(n) * 3e-7;
  };
  auto const r = ww::batch_tuner{}.range(1, 64).tune_with(
      clock, stream, [](std::size_t, ww::stream_ref) {}, ww::no_memory_probe{});
  CHECK(r.chosen().batch >= 1);
  std::string const svg = ww::to_svg(r);
  CHECK(svg.find("inf") == std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);

  // A clock that never advances.
  auto const zero = [](ww::stream_ref, auto& call, std::size_t) {
    call();
    return 0.0;
  };
  auto const q = ww::batch_tuner{}.range(1, 64).tune_with(
      zero, stream, [](std::size_t, ww::stream_ref) {}, ww::no_memory_probe{});
  CHECK(q.chosen().batch == 1);
  CHECK(ww::to_svg(q).find("nan") == std::string::npos);
  CHECK(ww::to_svg(q).find("inf") == std::string::npos);
}

TEST_CASE("setters of batch_tuner return a changed copy", "[tune][batch_tuner]") {
  ww::batch_tuner const whole = ww::batch_tuner{}.range(1, 64).resolution(0.0);
  ww::batch_tuner const part = whole.range(4, 8).objective(ww::throughput_under_latency(1.0));
  tuner_bench first;
  tuner_bench second;
  CHECK(first.tune(whole, cost{}).rows.front().batch == 1);
  ww::tune_result const r = second.tune(part, cost{});
  CHECK(r.rows.front().batch == 4);
  CHECK(r.rows.back().batch == 8);
  CHECK(r.objective.latency_limited());
}

TEST_CASE("settings out of range throw before anything runs", "[tune][batch_tuner]") {
  tuner_bench b;
  double const nan = std::numeric_limits<double>::quiet_NaN();
  std::size_t peak = 0;
  for (auto const& tuner : {ww::batch_tuner{}.range(0, 8),
                            ww::batch_tuner{}.range(9, 8),
                            ww::batch_tuner{}.range(1, ~std::size_t{0}),
                            ww::batch_tuner{}.multiple_of(0),
                            ww::batch_tuner{}.range(5, 7).multiple_of(8),
                            ww::batch_tuner{}.memory_budget(0),
                            ww::batch_tuner{}.tolerance(-0.1),
                            ww::batch_tuner{}.tolerance(1.0),
                            ww::batch_tuner{}.tolerance(nan),
                            ww::batch_tuner{}.resolution(-1.0),
                            ww::batch_tuner{}.resolution(nan),
                            ww::batch_tuner{}.wave(~std::size_t{0}),
                            ww::batch_tuner{}.max_seconds(-1.0),
                            ww::batch_tuner{}.latency_calls(0),
                            ww::batch_tuner{}.latency_confidence(0.4),
                            ww::batch_tuner{}.latency_confidence(1.0),
                            ww::batch_tuner{}.soak(1, -1.0),
                            ww::batch_tuner{}.soak(1, nan),
                            ww::batch_tuner{}.range(1, 8).prefer(9),
                            ww::batch_tuner{}.multiple_of(8).prefer(12),
                            ww::batch_tuner{}.only({64, 5000}),
                            ww::batch_tuner{}.objective(ww::throughput_under_latency(0.0)),
                            ww::batch_tuner{}.objective(ww::throughput_under_latency(nan)),
                            ww::batch_tuner{}.objective(ww::throughput_under_latency(1.0, 1.0)),
                            ww::batch_tuner{}.objective(ww::throughput_under_latency(1.0, 0.0)),
                            ww::batch_tuner{}.sampling(ww::measure_options{}.min_samples(0))}) {
    CHECK_THROWS_AS(b.tune(tuner, cost{}, peak_probe{peak}), std::invalid_argument);
  }
  CHECK(b.ran.empty());
  CHECK_THROWS_WITH(b.tune(ww::batch_tuner{}.range(9, 8), cost{}), contains("range(9, 8)"));
  CHECK_THROWS_WITH(ww::batch_tuner{}.only({}), contains("only() without a size; name one to 16"));
  CHECK_THROWS_WITH(ww::batch_tuner{}.only(std::vector<std::size_t>(17, 1)),
                    contains("more than 16"));
}

TEST_CASE("the table marks the choice and explains it", "[tune][batch_tuner]") {
  tuner_bench b;
  std::size_t peak = 0;
  auto const r = b.tune(
      ww::batch_tuner{}.range(1, 8192).memory_budget(2'000'000).objective(
          ww::throughput_under_latency(5e-3)),
      [&](std::size_t n) {
        peak = 1000 * n > peak ? 1000 * n : peak;
        return cost{}(n);
      },
      peak_probe{peak});
  std::string const table = ww::to_text(r);
  INFO(table);
  CHECK(table.find("batch") != std::string::npos);
  CHECK(table.find("over budget: predicted") != std::string::npos);
  CHECK(table.find("-> ") != std::string::npos);
  CHECK(table.find("-> ") == table.rfind("-> "));
  CHECK(table.find(std::to_string(r.chosen().batch) + "  ") != std::string::npos);
  CHECK(table.find(r.explanation) != std::string::npos);
  CHECK(r.explanation.find("limit of the p99 5.00 ms: 0 of 1194 calls over it, in two") !=
        std::string::npos);
  CHECK(r.explanation.find("of the budget of") != std::string::npos);
}

TEST_CASE("the explanation does not call a size the best that a limit has made of others",
          "[tune][batch_tuner]") {
  simulated_workload w{6};
  w.time.fixed = 2e-3;
  w.jitter = 0.01;
  w.stall_rate = 0.02;  // three times as long: the tail excludes the larger sizes
  simulated_stopwatch stopwatch{w.clock};
  ww::stream const stream;
  auto const r = ww::batch_tuner{}
                     .range(1, 4096)
                     .objective(ww::throughput_under_latency(9e-3))
                     .clock(w.clock.ref())
                     .tune_with(
                         stopwatch, stream, [&](std::size_t n, ww::stream_ref) { w(n); },
                         ww::no_memory_probe{});
  INFO(r.explanation);
  CHECK(3.0 * w.time(r.chosen().batch) < 9e-3);
  // The fastest of all, though the choice was not compared with it.
  ww::tune_row const* best = &r.chosen();
  for (ww::tune_row const& row : r.rows) {
    bool const ok = row.status == ww::tune_status::ok;
    if (ok && row.items_per_second > best->items_per_second) best = &row;
  }
  REQUIRE(best->items_per_second > 1.5 * r.chosen().items_per_second);
  CHECK(
      r.explanation.find("which is shown to keep the latency limit; faster sizes are not (batch " +
                         std::to_string(best->batch) + ": ") != std::string::npos);
  CHECK(r.explanation.find("limit of the p99 9.00 ms: ") != std::string::npos);
  CHECK(r.explanation.find("within 2 %") == std::string::npos);
}

TEST_CASE("the interval of a compared size is that of its own throughput", "[tune][batch_tuner]") {
  std::size_t compared = 0;
  std::size_t covered = 0;
  std::size_t ratios = 0;
  std::size_t ratios_covered = 0;
  std::size_t smaller = 0;  // choices that are shown to be within the tolerance by their ratio
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    simulated_workload w{seed};
    w.time.fixed = 1e-3;
    w.jitter = 0.02;
    simulated_stopwatch stopwatch{w.clock};
    ww::stream const stream;
    auto const r = ww::batch_tuner{}
                       .range(1, 4096)
                       .clock(w.clock.ref())
                       .tune_with(
                           stopwatch, stream, [&](std::size_t n, ww::stream_ref) { w(n); },
                           ww::no_memory_probe{});
    auto const truth = [&](std::size_t n) {
      return static_cast<double>(n) / (w.time(n) * (1.0 + 0.5 * w.jitter));
    };
    ww::tune_row const* fastest = nullptr;
    for (ww::tune_row const& row : r.rows) {
      if (row.interleaved && !(row.compared_error > 0.0)) fastest = &row;
    }
    if (fastest != nullptr && r.chosen().batch < fastest->batch) ++smaller;
    for (ww::tune_row const& row : r.rows) {
      if (!row.interleaved) {
        CHECK_FALSE(row.compared_error > 0.0);
        continue;
      }
      ++compared;
      INFO("seed " << seed << ", batch " << row.batch);
      CHECK(row.relative_error > 0.0);  // also of the fastest
      CHECK(row.relative_error < 0.03);
      if (std::fabs(row.items_per_second / truth(row.batch) - 1.0) <= row.relative_error) ++covered;
      if (fastest == nullptr || &row == fastest) continue;
      ++ratios;
      double const ratio = row.items_per_second / fastest->items_per_second;
      double const expected = truth(row.batch) / truth(fastest->batch);
      if (std::fabs(ratio / expected - 1.0) <= row.compared_error) ++ratios_covered;
    }
  }
  CAPTURE(compared, covered, ratios, ratios_covered, smaller);
  CHECK(compared > 1200);
  CHECK(ratios > 600);
  CHECK(smaller > 300);  // by their own intervals there would be 73
  // The best of many noisy figures is rather too high, which costs a part of the 95 %.
  CHECK(static_cast<double>(covered) >= 0.93 * static_cast<double>(compared));
  CHECK(static_cast<double>(ratios_covered) >= 0.93 * static_cast<double>(ratios));
  std::printf("%zu intervals of 95 %% hold in %.1f %%, %zu of ratios in %.1f %%\n", compared,
              100.0 * static_cast<double>(covered) / static_cast<double>(compared), ratios,
              100.0 * static_cast<double>(ratios_covered) / static_cast<double>(ratios));
}
