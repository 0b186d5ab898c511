// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The tuner's limits, on a simulated clock: memory, latency, time; and how it survives failures.
#include <warpwright/memory/pool.hpp>

#include <cmath>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "simulated_workload.hpp"
#include "support/catch.hpp"
#include "tuner_bench.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

// A workload on a simulated device, with one of its kinds of memory.
template <typename Memory>
ww::tune_result tune(simulated_workload& w, ww::batch_tuner const& tuner, Memory&& memory) {
  ww::stream const stream;
  simulated_stopwatch stopwatch{w.clock};
  return tuner.clock(w.clock.ref())
      .tune_with(
          stopwatch, stream, [&](std::size_t batch, ww::stream_ref) { w(batch); }, memory);
}

}  // namespace

// -- Memory --

TEST_CASE("a size predicted to be over the budget is not run", "[tune][batch_tuner]") {
  std::size_t const base = 10'000'000;
  std::size_t const item = 50'000;
  for (std::size_t const budget :
       {std::size_t{12'345'678}, std::size_t{19'000'000}, std::size_t{100'000'000}}) {
    for (int kind = 0; kind < 3; ++kind) {
      simulated_workload w{1};
      w.base_bytes = static_cast<double>(base);
      w.item_bytes = static_cast<double>(item);
      w.budget = budget;
      auto const tuner =
          ww::batch_tuner{}.range(1, 8192).memory_budget(budget).resolution(0.0).tolerance(0.0);
      simulated_pool pool{w};
      ww::tune_result const r =
          kind == 0   ? tune(w, tuner, pool)
          : kind == 1 ? tune(w, tuner, simulated_probe{w})
                      : tune(w, tuner, [&](std::size_t n) { return base + item * n; });
      CAPTURE(budget, kind);
      std::size_t const expected = (budget - base) / item;
      CHECK(r.chosen().batch <= expected);
      // The model's margin is 0.25 % of the memory and two granules; a preparation needs none.
      CHECK(w.need(r.chosen().batch) >= (kind == 2 ? budget - 2 * item : budget / 1000 * 980));
      CHECK(r.chosen().memory_bytes == w.need(r.chosen().batch));
      CHECK_FALSE(r.chosen().memory_predicted);
      CHECK(w.over_budget.empty());
      CHECK(w.refused == 0);  // the cap was not needed
      CHECK(std::fabs(r.memory.bytes_per_item() - double(item)) < 100.0);
      CHECK(std::fabs(r.memory.base_bytes() - double(base)) < 10000.0);
      CHECK(r.rows.back().status == ww::tune_status::over_budget);
      if (kind != 2) CHECK(r.rows.back().memory_predicted);
      CHECK(r.rows.back().items_per_second == 0.0);
      CHECK(r.explanation.find("of the budget of") != std::string::npos);
    }
  }
}

TEST_CASE("a budget needs peaks", "[tune][batch_tuner]") {
  tuner_bench b;
  auto const tuner = ww::batch_tuner{}.range(1, 64).memory_budget(1000);
  auto const in_use = [] { return std::size_t{10}; };
  CHECK_THROWS_WITH(b.tune(tuner, cost{}, in_use), contains("frees before it returns"));
  CHECK_THROWS_WITH(b.tune(tuner, cost{}, ww::device_memory_probe{}), contains("tuning_pool"));
  CHECK_THROWS_WITH(b.tune(tuner, cost{}), contains("needs a memory argument that tells the peak"));
  CHECK_THROWS_WITH(b.tune(tuner, cost{}, [](std::size_t) {}), contains("peak"));
  CHECK_THROWS_AS(b.tune(tuner, cost{}, in_use), std::invalid_argument);
  CHECK(b.ran.empty());
  // Without a budget it may be reported.
  CHECK(b.tune(ww::batch_tuner{}.range(1, 64), cost{}, in_use).chosen().memory_bytes == 10);
}

TEST_CASE("a reading above all earlier ones is believed", "[tune][batch_tuner]") {
  // Between powers of two the workload takes a large workspace, which no model foresees.
  tuner_bench b;
  std::size_t peak = 0;
  auto const need = [](std::size_t n) { return n > 64 && n < 128 ? 1500 * mib : n * 8 * mib; };
  auto const r = b.tune(
      ww::batch_tuner{}.range(1, 128).memory_budget(1100 * mib).tolerance(0.0).resolution(0.0),
      [&](std::size_t n) {
        peak = need(n) > peak ? need(n) : peak;
        double const rate = n <= 96 ? double(n) : 96.0 - 0.5 * (double(n) - 96.0);
        return double(n) / (1e5 * rate);
      },
      peak_probe{peak});
  INFO(ww::to_text(r));
  CHECK(need(r.chosen().batch) <= 1100 * mib);
  int believed = 0;
  for (ww::tune_row const& row : r.rows) {
    if (row.batch <= 64 || row.batch >= 128) continue;
    CHECK(row.status == ww::tune_status::over_budget);
    if (!row.memory_predicted && row.memory_bytes == 1500 * mib) ++believed;
  }
  CHECK(believed >= 1);
}

TEST_CASE("memory that grows after the first call is seen", "[tune][batch_tuner]") {
  for (bool const capped : {true, false}) {
    simulated_workload w{1};
    w.item_bytes = static_cast<double>(mib);
    w.grows_later = 1.0;  // two buffers in turn
    w.budget = 256 * mib;
    simulated_pool pool{w};
    auto const tuner = ww::batch_tuner{}.range(1, 1024).memory_budget(w.budget);
    auto const r = capped ? tune(w, tuner, pool) : tune(w, tuner, simulated_probe{w});
    CHECK(w.need(r.chosen().batch) <= w.budget);
    CHECK(r.chosen().memory_bytes == w.need(r.chosen().batch));
    CHECK(r.chosen().batch >= 100);
    CHECK(w.over_budget.empty());
    CHECK(w.largest_need <= w.budget);
  }
}

TEST_CASE("memory that appears late in the soak rejects the size", "[tune][batch_tuner]") {
  tuner_bench b;
  std::size_t peak = 0;
  std::vector<std::size_t> calls(200, 0);
  auto const r = b.tune(
      ww::batch_tuner{}.range(1, 128).memory_budget(1000 * mib).tolerance(0.0).soak(2000),
      [&](std::size_t n) {
        std::size_t const need = (n == 128 && ++calls[n] > 1500 ? 1001 : 500 + n) * mib;
        peak = need > peak ? need : peak;
        return cost{}(n);
      },
      peak_probe{peak});
  INFO(ww::to_text(r));
  REQUIRE(calls[128] > 1500);
  CHECK(r.chosen().batch < 128);
  CHECK(find_row(r, 128)->status == ww::tune_status::over_budget);
}

TEST_CASE("memory in granules, and memory that grows faster than a line, keep the budget",
          "[tune][batch_tuner]") {
  for (memory_kind const kind : {memory_kind::granules, memory_kind::convex}) {
    for (bool const capped : {true, false}) {
      simulated_workload w{1};
      w.memory = kind;
      w.item_bytes = 300'000.0;
      w.budget = 400 * mib;
      simulated_pool pool{w};
      auto const tuner = ww::batch_tuner{}.range(1, 8192).memory_budget(w.budget);
      auto const r = capped ? tune(w, tuner, pool) : tune(w, tuner, simulated_probe{w});
      CHECK(w.need(r.chosen().batch) <= w.budget);
      CHECK(w.over_budget.empty());
      CHECK(r.chosen().batch > 400);
    }
  }
}

TEST_CASE("without a cap, the first steps are small where memory is short", "[tune][batch_tuner]") {
  simulated_workload w{1};
  w.item_bytes = 1000.0;
  w.budget = 1'500'000;
  auto const r = tune(w, ww::batch_tuner{}.range(1024, 8192).memory_budget(w.budget).tolerance(0.0),
                      simulated_probe{w});
  CHECK(w.over_budget.empty());
  CHECK(r.chosen().batch <= 1500);
  CHECK(r.chosen().batch >= 1400);
}

TEST_CASE("without a cap, the third size does not run if its likely memory is over the budget",
          "[tune][batch_tuner]") {
  simulated_workload w{1};
  w.item_bytes = 1e6;
  w.budget = 2'500'000;
  auto const r =
      tune(w, ww::batch_tuner{}.range(1, 64).memory_budget(w.budget), simulated_probe{w});
  CHECK(w.over_budget.empty());
  CHECK(r.chosen().batch == 2);
}

TEST_CASE("the memory of a size is the most of all its runs", "[tune][batch_tuner]") {
  // The first call of a size tries algorithms that take twice the memory.
  tuner_bench b;
  std::size_t peak = 0;
  std::vector<bool> ran(257, false);
  auto const r = b.tune(
      ww::batch_tuner{}.range(1, 256).memory_budget(200 * mib),
      [&](std::size_t n) {
        std::size_t const need = n * (ran[n] ? mib : 2 * mib);
        ran[n] = true;
        peak = need > peak ? need : peak;
        return cost{}(n);
      },
      peak_probe{peak});
  INFO(ww::to_text(r));
  CHECK(r.chosen().memory_bytes == 2 * r.chosen().batch * mib);
  CHECK(r.chosen().batch <= 100);
}

TEST_CASE("a later reading of a size that is larger is news to the model", "[tune][batch_tuner]") {
  tuner_bench b;
  std::size_t peak = 0;
  std::vector<std::size_t> calls(129, 0);
  auto const r = b.tune(
      ww::batch_tuner{}.range(1, 128).memory_budget(1000 * mib).soak(1000).tolerance(0.0),
      [&](std::size_t n) {
        std::size_t const need = n * (++calls[n] > 800 ? 6 * mib : 5 * mib);
        peak = need > peak ? need : peak;
        return cost{}(n);
      },
      peak_probe{peak});
  INFO(ww::to_text(r));
  REQUIRE(r.chosen().batch == 128);
  REQUIRE(r.chosen().memory_bytes == 6 * r.chosen().batch * mib);
  CHECK(r.memory.predict(r.chosen().batch) >= static_cast<double>(r.chosen().memory_bytes));
}

TEST_CASE("a workload that keeps the memory of its largest batch does not mislead the model",
          "[tune][batch_tuner]") {
  tuner_bench b;
  std::size_t kept = 0;
  std::size_t peak = 0;
  struct probe {
    std::size_t& peak;
    std::size_t& kept;
    void reset() { peak = kept; }
    std::size_t peak_bytes() const { return peak; }
  };
  auto const r = b.tune(
      ww::batch_tuner{}.range(1, 2048).memory_budget(4000 * mib),
      [&](std::size_t n) {
        kept = n * mib > kept ? n * mib : kept;
        peak = kept > peak ? kept : peak;
        // The search returns to small sizes.
        return n <= 300 ? cost{}(n) : cost{}(n)*std::pow(static_cast<double>(n) / 300.0, 0.2);
      },
      probe{peak, kept});
  INFO(ww::to_text(r));
  CHECK(r.memory.shape() == ww::memory_shape::linear);
  CHECK(r.memory.bytes_per_item() == Approx(static_cast<double>(mib)).epsilon(0.01));
}

TEST_CASE("a preparation is called before a size is run", "[tune][batch_tuner]") {
  tuner_bench b;
  std::size_t prepared = 0;
  int mismatches = 0;
  auto const r = b.tune(
      ww::batch_tuner{}.range(1, 8192).memory_budget(777'000).resolution(0.0).tolerance(0.0),
      [&](std::size_t n) {
        if (n != prepared) ++mismatches;
        return cost{}(n);
      },
      [&](std::size_t batch) {
        prepared = batch;
        return batch * 1000;
      });
  CHECK(mismatches == 0);
  CHECK(r.chosen().batch == 777);
  CHECK(b.largest_run() <= 777);

  // A preparation without a result only prepares; noise causes a comparison.
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    tuner_bench c;
    noise_source noise{seed};
    auto const q = c.tune(
        ww::batch_tuner{}.range(1, 4096).objective(ww::throughput_under_latency(1e-3)),
        [&](std::size_t n) {
          if (n != prepared) ++mismatches;
          return cost{}(n) * (1.0 + 0.1 * noise.uniform()) * (noise.uniform() < 0.02 ? 6.0 : 1.0);
        },
        [&](std::size_t batch) { prepared = batch; });
    CHECK(q.chosen().memory_bytes == 0);
  }
  CHECK(mismatches == 0);
}

TEST_CASE("the pool is capped during the tune, emptied, and free again after it",
          "[tune][batch_tuner]") {
  simulated_workload w{1};
  w.item_bytes = 1000.0;
  w.budget = 500'000;
  simulated_pool pool{w};
  auto const tuner = ww::batch_tuner{}.range(1, 4096).memory_budget(w.budget);
  std::size_t const unlimited = pool.limit_bytes();
  tune(w, tuner, pool);
  CHECK(pool.limit_bytes() == unlimited);
  CHECK(pool.trims > 5);
  // Before the soak as well, so that the choice has no more than its own memory.
  int before_soak = 0;
  tune(w, tuner.progress([&](ww::tuning_progress const& p) {
    if (p.phase == ww::tuning_phase::soak) before_soak = pool.trims;
  }),
       pool);
  CHECK(pool.trims == before_soak + 2);
  // By an exception as well.
  pool.trims = 0;
  w.valid_to = 4;
  CHECK_THROWS_AS(tune(w, tuner, pool), std::runtime_error);
  CHECK(pool.limit_bytes() == unlimited);
  CHECK(pool.trims > 0);
}

// -- Latency --

TEST_CASE("the latency limit holds to about one percent", "[tune][batch_tuner]") {
  cost const c{};
  for (double const limit : {1.5e-4, 1e-3, 2.5e-3}) {
    tuner_bench b;
    auto const r = b.tune(ww::batch_tuner{}.range(1, 8192).resolution(0.0).tolerance(0.0).objective(
                              ww::throughput_under_latency(limit)),
                          c);
    CAPTURE(limit);
    CHECK(c(r.chosen().batch) <= limit);
    CHECK(c(r.chosen().batch) >= 0.985 * limit);
    CHECK(r.chosen().latency_p99_seconds <= limit);
    CHECK(r.chosen().latency_shown);
    CHECK(r.chosen().latency_over == 0);
    CHECK(r.chosen().latency_samples == 2 * 597);
  }
}

TEST_CASE("the limit is of a percentile", "[tune][batch_tuner]") {
  // Every 20th call takes three times as long: 95 % of the calls take c(n).
  cost const c{};
  struct {
    double quantile;
    double factor;
  } const cases[] = {{0.5, 1.0}, {0.9, 1.0}, {0.99, 3.0}};
  for (auto const& t : cases) {
    tuner_bench b;
    int calls = 0;
    auto const seconds = [&](std::size_t n) { return ++calls % 20 == 0 ? 3.0 * c(n) : c(n); };
    auto const r = b.tune(ww::batch_tuner{}.range(1, 8192).tolerance(0.0).objective(
                              ww::throughput_under_latency(3e-3, t.quantile)),
                          seconds);
    CAPTURE(t.quantile, r.chosen().batch);
    CHECK(t.factor * c(r.chosen().batch) <= 3e-3);
    CHECK(c.rate(r.chosen().batch) >=
          0.97 * c.rate(static_cast<std::size_t>(3000 / t.factor) - 100));
  }
}

TEST_CASE("near a stall rate of one percent the size is refused", "[tune][batch_tuner]") {
  for (double const rate : {0.005, 0.008, 0.01, 0.012, 0.015, 0.03}) {
    int over = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      simulated_workload w{seed};
      w.jitter = 0.01;
      w.stall_rate = rate;
      auto const r = tune(w,
                          ww::batch_tuner{}.range(1, 4096).max_seconds(60).objective(
                              ww::throughput_under_latency(2e-3)),
                          ww::no_memory_probe{});
      if (w.later_quantile(r.chosen().batch, 0.99, 10000) > 2e-3) ++over;
    }
    CAPTURE(rate, over);
    CHECK(over == 0);
  }
}

TEST_CASE("rare stalls do not cost the size", "[tune][batch_tuner]") {
  int small = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    simulated_workload w{seed};
    w.jitter = 0.01;
    w.stall_rate = 0.001;
    auto const r = tune(w,
                        ww::batch_tuner{}.range(1, 4096).max_seconds(60).objective(
                            ww::throughput_under_latency(2e-3)),
                        ww::no_memory_probe{});
    // The largest size within the limit is 1,880.
    cost const c{};
    if (c.rate(r.chosen().batch) < 0.975 * c.rate(1880)) ++small;
  }
  CHECK(small <= 3);
}

TEST_CASE("pauses of the host do not make the choice a tenth of what it could be",
          "[tune][batch_tuner]") {
  int small = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    simulated_workload w{seed};
    w.jitter = 0.01;
    w.pause_seconds = 20e-3;
    w.pauses_per_call = 0.003;
    auto const r = tune(w,
                        ww::batch_tuner{}.range(1, 4096).max_seconds(60).objective(
                            ww::throughput_under_latency(2e-3)),
                        ww::no_memory_probe{});
    cost const c{};
    if (c.rate(r.chosen().batch) < 0.75 * c.rate(1880)) ++small;
  }
  CHECK(small <= 3);
}

TEST_CASE("if pauses keep all sizes from the limit, the message says so", "[tune][batch_tuner]") {
  simulated_workload w{1};
  w.pause_seconds = 20e-3;
  w.pauses_per_call = 0.03;
  std::string message;
  try {
    tune(w,
         ww::batch_tuner{}.range(1, 4096).max_seconds(60).objective(
             ww::throughput_under_latency(2e-3)),
         ww::no_memory_probe{});
  } catch (ww::no_feasible_batch const& e) {
    message = e.what();
  }
  INFO(message);
  CHECK(message.find("pauses of the host") != std::string::npos);
}

TEST_CASE("the choice is confirmed in an independent run", "[tune][batch_tuner]") {
  // Stalls begin after the first check: only the second run sees them.
  cost const c{};
  tuner_bench b;
  std::size_t checked = 0;
  bool stalls = false;
  int calls = 0;
  auto const r =
      b.tune(ww::batch_tuner{}
                 .range(1, 1024)
                 .objective(ww::throughput_under_latency(2e-3))
                 .progress([&](ww::tuning_progress const& p) {
                   if (p.phase == ww::tuning_phase::soak && !stalls) {
                     stalls = true;
                     checked = p.batch;
                   }
                 }),
             [&](std::size_t n) { return c(n) * (stalls && ++calls % 30 == 0 ? 3.0 : 1.0); });
  INFO(ww::to_text(r));
  REQUIRE(checked > 700);
  CHECK(3.0 * c(r.chosen().batch) <= 2e-3);
  CHECK(find_row(r, checked)->status == ww::tune_status::over_latency);
}

TEST_CASE("a size that a test has refused has no second look", "[tune][batch_tuner]") {
  // Another size runs out of memory once, so that failed sizes are tried again at the end.
  cost const c{};
  tuner_bench b;
  int calls = 0;
  int failures = 0;
  auto const r =
      b.tune(ww::batch_tuner{}.range(1, 1024).objective(ww::throughput_under_latency(2e-3)),
             [&](std::size_t n) {
               if (n == 128 && failures < 2) {
                 ++failures;
                 throw std::bad_alloc{};
               }
               return c(n) * (++calls % 30 == 0 ? 3.0 : 1.0);
             });
  INFO(ww::to_text(r));
  CHECK(3.0 * c(r.chosen().batch) <= 2e-3);
  int refused = 0;
  for (ww::tune_row const& row : r.rows) {
    std::string const text = "batch " + std::to_string(row.batch) + " is not shown";
    for (std::string const& step : r.steps) {
      if (step.find(text) == std::string::npos) continue;
      ++refused;
      CHECK(row.status == ww::tune_status::over_latency);
    }
  }
  CHECK(refused >= 1);
}

TEST_CASE("calls that the soak adds to the test count", "[tune][batch_tuner]") {
  // Stalls begin when the test has been passed a second time.
  cost const c{};
  tuner_bench b;
  std::size_t soaked = 0;
  std::size_t checked = 0;
  bool soaking = false;
  auto const r = b.tune(ww::batch_tuner{}
                            .range(1, 1024)
                            .soak(3000)
                            .objective(ww::throughput_under_latency(2e-3))
                            .progress([&](ww::tuning_progress const& p) {
                              soaking = p.phase == ww::tuning_phase::soak;
                              if (soaking && checked == 0) checked = p.batch;
                            }),
                        [&](std::size_t n) {
                          if (soaking && n == checked) ++soaked;
                          return c(n) * (soaked > 700 && soaked % 30 == 0 ? 3.0 : 1.0);
                        });
  INFO(ww::to_text(r));
  REQUIRE(soaked > 700);
  CHECK(find_row(r, checked)->status == ww::tune_status::over_latency);
}

TEST_CASE("the calls of a check are those of the confidence", "[tune][batch_tuner]") {
  struct {
    double confidence;
    std::size_t calls;
  } const cases[] = {{0.95, 368}, {0.995, 597}, {0.999, 757}};
  for (auto const& t : cases) {
    tuner_bench b;
    auto const r = b.tune(ww::batch_tuner{}
                              .range(1, 64)
                              .latency_confidence(t.confidence)
                              .objective(ww::throughput_under_latency(1.0)),
                          cost{});
    CHECK(r.chosen().latency_samples == 2 * t.calls);
  }
}

TEST_CASE("a size whose calls do not fit the time is not chosen", "[tune][batch_tuner]") {
  cost const c{1e-3, 1e-4};
  tuner_bench b;
  auto const tuner =
      ww::batch_tuner{}.range(1, 1024).max_seconds(20).objective(ww::throughput_under_latency(0.2));
  auto const r = b.tune(tuner, c);
  INFO(ww::to_text(r));
  // 1,194 calls in less than 20 s.
  CHECK(c(r.chosen().batch) * 1194 < 20.0);
  CHECK(r.chosen().latency_shown);
  CHECK(b.clock.now() <= 20.5);
  CHECK(r.stopped_early);
  CHECK(r.explanation.find("max_seconds") != std::string::npos);

  tuner_bench short_of_time;
  try {
    short_of_time.tune(tuner.max_seconds(0.5), c);
    FAIL("no exception");
  } catch (ww::no_feasible_batch const& e) {
    CHECK(std::string{e.what()}.find("give it more time") != std::string::npos);
  }
}

TEST_CASE("a limit below the time of the smallest size is said to be so, at once",
          "[tune][batch_tuner]") {
  tuner_bench b;
  std::string error;
  try {
    b.tune(ww::batch_tuner{}
               .range(1, 65536)
               .objective(ww::throughput_under_latency(1e-5))
               .max_seconds(30.0),
           cost{});
  } catch (ww::no_feasible_batch const& e) {
    error = e.what();
  }
  INFO(error);
  CHECK(error.find("over the latency limit") != std::string::npos);
  CHECK(error.find("their median is 101 us") != std::string::npos);
  CHECK(error.find("more time") == std::string::npos);
  CHECK(b.clock.now() < 3.0);
}

TEST_CASE("a short disturbance does not lower the choice under a latency limit",
          "[tune][batch_tuner]") {
  cost const c{};
  int low = 0;
  for (int i = 0; i < 60; ++i) {
    tuner_bench b;
    double const begin = 1e-2 * (i + 1);
    auto const r =
        b.tune(ww::batch_tuner{}.range(1, 4096).objective(ww::throughput_under_latency(1.5e-3)),
               [&](std::size_t n) {
                 bool const slow = b.clock.now() >= begin && b.clock.now() < begin + 0.3;
                 return c(n) * (slow ? 6.0 : 1.0);
               });
    CHECK(r.chosen().latency_shown);
    if (c.rate(r.chosen().batch) < 0.97 * c.rate(1400)) ++low;
  }
  CAPTURE(low);
  CHECK(low == 0);
}

// -- Failures --

TEST_CASE("running out of memory lowers the upper bound and does not end the tune",
          "[tune][batch_tuner]") {
  enum class kind { pool, standard, cuda };
  for (kind const k : {kind::pool, kind::standard, kind::cuda}) {
    tuner_bench b;
    auto const r =
        b.tune(ww::batch_tuner{}.range(1, 8192).resolution(0.0).tolerance(0.0), [&](std::size_t n) {
          if (n > 1234) {
            ww::memory_report report;
            report.requested_bytes = n;
            if (k == kind::pool) throw ww::out_of_memory{report};
            if (k == kind::standard) throw std::bad_alloc{};
            throw ww::cuda_error{cudaErrorMemoryAllocation, "cudaMalloc",
                                 ww::source_location::current(), false};
          }
          return cost{}(n);
        });
    CAPTURE(static_cast<int>(k));
    CHECK(r.chosen().batch == 1234);
    ww::tune_row const* const above = find_row(r, 1235);
    REQUIRE(above != nullptr);
    CHECK(above->status == ww::tune_status::out_of_memory);
    CHECK_FALSE(above->note.empty());
    CHECK(above->items_per_second == 0.0);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(b.stream.done());
  }
}

namespace {
struct library_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
}  // namespace

TEST_CASE("a library's own exception is out of memory if the classifier says so",
          "[tune][batch_tuner]") {
  tuner_bench b;
  auto const seconds = [](std::size_t n) {
    if (n > 100) throw library_error{"status 3"};
    return cost{}(n);
  };
  CHECK_THROWS_AS(b.tune(ww::batch_tuner{}.range(1, 256), seconds), library_error);
  auto const is_memory = [](std::exception_ptr const& error) {
    try {
      std::rethrow_exception(error);
    } catch (library_error const&) {
      return true;
    } catch (...) {
      return false;
    }
  };
  auto const r = b.tune(
      ww::batch_tuner{}.range(1, 256).out_of_memory_if(is_memory).tolerance(0.0).resolution(0.0),
      seconds);
  CHECK(r.chosen().batch == 100);
  CHECK(r.rows.back().status == ww::tune_status::out_of_memory);
  CHECK(r.rows.back().note.find("status 3") != std::string::npos);
}

TEST_CASE("what is thrown after the pool has refused an allocation is out of memory",
          "[tune][batch_tuner]") {
  simulated_workload w{1};
  simulated_pool pool{w};
  ww::stream const stream;
  simulated_stopwatch stopwatch{w.clock};
  auto const r = ww::batch_tuner{}
                     .range(1, 256)
                     .clock(w.clock.ref())
                     .tune_with(
                         stopwatch, stream,
                         [&](std::size_t n, ww::stream_ref) {
                           if (n > 100) {
                             ++w.refused;  // and the library makes a status of it
                             throw library_error{"status 3"};
                           }
                           w.clock.advance(cost{}(n));
                         },
                         pool);
  CHECK(r.chosen().batch <= 100);
  CHECK(r.rows.back().status == ww::tune_status::out_of_memory);
  // Refusals before do not make another exception one of memory.
  CHECK_THROWS_AS(ww::batch_tuner{}
                      .range(1, 256)
                      .clock(w.clock.ref())
                      .tune_with(
                          stopwatch, stream,
                          [&](std::size_t n, ww::stream_ref) {
                            if (n > 100) throw library_error{"status 4"};
                            w.clock.advance(cost{}(n));
                          },
                          pool),
                  library_error);
}

TEST_CASE("nothing runs while an exception of the workload is alive", "[tune][batch_tuner]") {
  static int alive = 0;
  struct heavy : std::bad_alloc {
    heavy() { ++alive; }
    heavy(heavy const& other) : std::bad_alloc{other} { ++alive; }
    ~heavy() override { --alive; }
  };
  tuner_bench b;
  bool found = false;
  struct memory {
    bool& found;
    void reset() {}
    std::size_t peak_bytes() const { return 0; }
    void trim() { found = found || alive != 0; }  // could not give back what it holds
  };
  b.tune(
      ww::batch_tuner{}.range(1, 256),
      [&](std::size_t n) {
        found = found || alive != 0 || std::current_exception() != nullptr;
        if (n > 100) throw heavy{};
        return cost{}(n);
      },
      memory{found});
  CHECK_FALSE(found);
  CHECK(alive == 0);
}

TEST_CASE("a size that fails once has a second chance, one that fails twice has none",
          "[tune][batch_tuner]") {
  for (std::size_t const failures : {std::size_t{1}, std::size_t{2}}) {
    tuner_bench b;
    std::size_t failed = 0;
    auto const r = b.tune(ww::batch_tuner{}.range(1, 64).tolerance(0.0), [&](std::size_t n) {
      if (n == 64 && failed < failures) {
        ++failed;
        throw std::bad_alloc{};
      }
      return cost{}(n);
    });
    CHECK(failed == failures);
    ww::tune_row const* const row = find_row(r, 64);
    REQUIRE(row != nullptr);
    CHECK(row->failures == failures);
    CHECK((row->status == ww::tune_status::ok) == (failures == 1));
    CHECK((r.chosen().batch == 64) == (failures == 1));
  }
}

TEST_CASE("a finalist that runs out of memory in the comparison or the soak is replaced",
          "[tune][batch_tuner]") {
  for (std::size_t const good_calls : {230U, 260U, 300U}) {
    tuner_bench b;
    std::size_t calls = 0;
    auto const r =
        b.tune(ww::batch_tuner{}.range(1, 64).tolerance(0.0).soak(200), [&](std::size_t n) {
          if (n == 64 && ++calls > good_calls) throw std::bad_alloc{};
          return cost{}(n);
        });
    CAPTURE(good_calls);
    CHECK(calls > good_calls);
    CHECK(r.chosen().batch < 64);
    CHECK(r.chosen().batch >= 48);
    CHECK(find_row(r, 64)->status == ww::tune_status::out_of_memory);
  }
}

TEST_CASE("the chosen row never is one that failed", "[tune][batch_tuner]") {
  // No room but for powers of two, of which the best turns out slower when it is measured again:
  // the search looks at sizes below it, and finds them to fail.
  tuner_bench b;
  std::size_t calls = 0;
  auto const r = b.tune(ww::batch_tuner{}.range(1, 64), [&](std::size_t n) {
    if ((n & (n - 1)) != 0) throw std::bad_alloc{};
    double rate = n < 16 ? double(n) : 16.0;
    if (n == 16 && ++calls > 17) rate = 15.5;
    return double(n) / rate * 1e-3;
  });
  CHECK(r.chosen().status == ww::tune_status::ok);
  CHECK((r.chosen().batch & (r.chosen().batch - 1)) == 0);
}

TEST_CASE("sizes above those that fail are found", "[tune][batch_tuner]") {
  for (std::size_t const from : {1U, 64U, 100U, 1000U, 4000U}) {
    tuner_bench b;
    auto const r = b.tune(ww::batch_tuner{}.range(1, 4096), [&](std::size_t n) {
      if (n < from) throw std::bad_alloc{};
      return cost{}(n);
    });
    CAPTURE(from);
    CHECK(r.chosen().batch >= from);
    CHECK(cost{}.rate(r.chosen().batch) >= 0.98 * cost{}.rate(4096));
  }
  for (std::size_t const only : {1U, 2U, 3U, 77U, 1000U, 2047U, 4096U}) {
    tuner_bench b;
    auto const r = b.tune(ww::batch_tuner{}.range(1, 4096).reject_exceptions(), [&](std::size_t n) {
      if (n != only) throw std::runtime_error{"not this one"};
      return cost{}(n);
    });
    CAPTURE(only);
    CHECK(r.chosen().batch == only);
    CHECK(r.rows.size() < 100);
  }
}

TEST_CASE("where only multiples of a number work, more than the first one is found",
          "[tune][batch_tuner]") {
  for (std::size_t const unit : {3U, 7U, 48U}) {
    tuner_bench b;
    auto const r = b.tune(ww::batch_tuner{}.range(1, 4096).reject_exceptions(), [&](std::size_t n) {
      if (n % unit != 0) throw std::runtime_error{"the library does not accept this size"};
      return cost{}(n);
    });
    CAPTURE(unit);
    CHECK(cost{}.rate(r.chosen().batch) >= 0.98 * cost{}.rate(4096));
  }
}

TEST_CASE("other exceptions end the tune, or reject the size if that is wanted",
          "[tune][batch_tuner]") {
  tuner_bench b;
  auto const seconds = [&](std::size_t n) {
    if (n == 8) throw std::runtime_error{"bad input"};
    return cost{}(n);
  };
  CHECK_THROWS_WITH(b.tune(ww::batch_tuner{}.range(1, 64), seconds), contains("bad input"));
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(b.stream.done());
  auto const r = b.tune(ww::batch_tuner{}.range(1, 64).reject_exceptions(), seconds);
  CHECK(find_row(r, 8)->status == ww::tune_status::failed);
  CHECK(find_row(r, 8)->note == "bad input");
  CHECK(r.chosen().batch > 8);

  // Not even an std::exception.
  auto const number = [](std::size_t n) {
    if (n == 8) throw 8;
    return cost{}(n);
  };
  CHECK_THROWS_AS(b.tune(ww::batch_tuner{}.range(1, 64), number), int);
  CHECK(find_row(b.tune(ww::batch_tuner{}.range(1, 64).reject_exceptions(), number), 8)->status ==
        ww::tune_status::failed);

  // Other CUDA errors end the tune, and sticky ones always do.
  auto const cuda = [](cudaError_t code, bool sticky) {
    return [code, sticky](std::size_t) -> double {
      throw ww::cuda_error{code, "cudaMemcpy", ww::source_location::current(), sticky};
    };
  };
  CHECK_THROWS_AS(b.tune(ww::batch_tuner{}, cuda(cudaErrorInvalidValue, false)), ww::cuda_error);
  CHECK_THROWS_AS(b.tune(ww::batch_tuner{}, cuda(cudaErrorMemoryAllocation, true)), ww::cuda_error);
  CHECK_THROWS_AS(
      b.tune(ww::batch_tuner{}.reject_exceptions(), cuda(cudaErrorIllegalAddress, true)),
      ww::cuda_error);
  // The same tuner and stream can be used again.
  CHECK(b.tune(ww::batch_tuner{}.range(1, 64), cost{}).chosen().batch > 1);
}

TEST_CASE("if no size fits, the exception has the table", "[tune][batch_tuner]") {
  tuner_bench b;
  try {
    b.tune(ww::batch_tuner{}.range(4, 64).objective(ww::throughput_under_latency(1e-5)), cost{});
    FAIL("no exception");
  } catch (ww::no_feasible_batch const& e) {
    std::string const text = e.what();
    CHECK(text.find("no size from 4 to 64 fits") != std::string::npos);
    CHECK(text.find("over latency limit") != std::string::npos);
    REQUIRE_FALSE(e.result().rows.empty());
    CHECK(e.result().rows[0].status == ww::tune_status::over_latency);
    CHECK_THROWS_AS(e.result().chosen(), std::logic_error);
  }
  CHECK_THROWS_AS(b.tune(ww::batch_tuner{}, [](std::size_t) -> double { throw std::bad_alloc{}; }),
                  ww::no_feasible_batch);
  CHECK_THROWS_WITH(
      b.tune(ww::batch_tuner{}.memory_budget(100), cost{}, [](std::size_t n) { return n * 1000; }),
      contains("is over the budget (needs 1000 B, the budget is 100 B)"));
}

TEST_CASE("another process that takes memory for a while does not decide", "[tune][batch_tuner]") {
  int small = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    simulated_workload w{seed};
    w.jitter = 0.01;
    w.hog_begin = 2.0 * w.random.uniform();
    w.hog_end = w.hog_begin + 0.2 * w.random.uniform();
    w.hog_above = static_cast<std::size_t>(1.0 + 2000.0 * w.random.uniform());
    auto const r = tune(w, ww::batch_tuner{}.range(1, 4096), ww::no_memory_probe{});
    CHECK(r.chosen().status == ww::tune_status::ok);
    if (static_cast<double>(r.chosen().batch) / w.time(r.chosen().batch) <
        0.97 * 4096.0 / w.time(4096)) {
      ++small;
    }
  }
  CHECK(small <= 10);
}

TEST_CASE("no choice fails in 200 tunes in which another process takes memory midway",
          "[tune][batch_tuner]") {
  int midway = 0;
  for (std::uint64_t seed = 1; midway < 200; ++seed) {
    REQUIRE(seed < 2000);
    simulated_workload w{seed};
    w.jitter = 0.01;
    w.item_bytes = static_cast<double>(mib);
    w.base_bytes = static_cast<double>(10 * mib);
    w.budget = 1000 * mib;
    // Some begin in the last steps, and some end in the middle.
    w.hog_begin = 1.5 * w.random.uniform();
    w.hog_end = w.hog_begin + 0.01 + 0.5 * w.random.uniform();
    w.hog_above = static_cast<std::size_t>(1.0 + 900.0 * w.random.uniform());
    auto const tuner = ww::batch_tuner{}.range(1, 4096).memory_budget(w.budget);
    simulated_pool pool{w};
    CAPTURE(seed);
    ww::tune_result const r =
        seed % 3 == 0   ? tune(w, tuner, pool)
        : seed % 3 == 1 ? tune(w, tuner, simulated_probe{w})
                        : tune(w, tuner, [&](std::size_t batch) { return w.need(batch); });
    CHECK(r.chosen().status == ww::tune_status::ok);
    CHECK(w.over_budget.empty());
    CHECK(w.need(r.chosen().batch) <= w.budget);
    if (w.hog_begin > w.clock.now()) continue;
    ++midway;
    // It works from now on, whether the other process still has the memory or not.
    for (int call = 0; call < 100; ++call) CHECK_NOTHROW(w(r.chosen().batch));
  }
}

// -- Time --

TEST_CASE("the time limit is kept", "[tune][batch_tuner]") {
  for (double const item : {1e-6, 1e-5, 1e-4, 1e-3, 1e-2}) {
    tuner_bench b;
    auto const r = b.tune(ww::batch_tuner{}.range(1, 1 << 20).max_seconds(2.0),
                          [&](std::size_t n) { return 1e-3 + item * double(n); });
    CAPTURE(item);
    CHECK(b.clock.now() <= 2.1);
    CHECK(r.chosen().batch >= 1);
    if (item > 1e-6) CHECK(r.explanation.find("max_seconds") != std::string::npos);
  }
}

TEST_CASE("nothing begins that is expected to end too late", "[tune][batch_tuner]") {
  for (double const seconds : {0.3, 0.35, 0.37, 0.43}) {
    tuner_bench b;
    b.tune(ww::batch_tuner{}.range(1, 1).max_seconds(20.0).soak(1000),
           [&](std::size_t) { return seconds; });
    CHECK(b.clock.now() <= 20.0);
    CHECK(b.clock.now() > 19.0);
  }
}

TEST_CASE("a size that is unexpectedly slow does not take the time of many calls",
          "[tune][batch_tuner]") {
  for (bool const limited : {false, true}) {
    tuner_bench b;
    auto tuner = ww::batch_tuner{}.range(1, 4096).max_seconds(3.0);
    if (limited) tuner = tuner.objective(ww::throughput_under_latency(5e-3));
    auto const r =
        b.tune(tuner, [](std::size_t n) { return cost{}(n) * (n > 512 ? 1000.0 : 1.0); });
    CHECK(r.chosen().batch <= 512);
    // The time of the tune, and five calls of the size that was in progress.
    CHECK(b.clock.now() < 3.0 + 5.0 * 1000.0 * cost{}(1024));
  }
}

TEST_CASE("a first size that is slower than the whole time has a few calls",
          "[tune][batch_tuner]") {
  tuner_bench b;
  auto const r =
      b.tune(ww::batch_tuner{}.range(1, 64).max_seconds(3.0), [](std::size_t) { return 10.0; });
  CHECK(r.chosen().batch == 1);
  CHECK(b.ran.size() <= 5);
}

TEST_CASE("a stop is asked for between the calls of a size", "[tune][batch_tuner]") {
  tuner_bench b;
  std::size_t after = 0;
  bool stopped = false;
  auto const stop = [&] { return stopped; };
  auto const r = b.tune(ww::batch_tuner{}.range(1, 64).stop_when(stop), [&](std::size_t n) {
    if (stopped) ++after;
    stopped = stopped || n == 16;
    return cost{}(n);
  });
  CHECK(r.chosen().batch < 16);
  CHECK(after <= 2);
}

TEST_CASE("the time of preparations counts", "[tune][batch_tuner]") {
  tuner_bench b;
  int prepared = 0;
  auto const r =
      b.tune(ww::batch_tuner{}.range(1, 1 << 20).max_seconds(3.0), cost{}, [&](std::size_t) {
        ++prepared;
        b.clock.advance(0.4);
      });
  CHECK(prepared <= 9);
  CHECK(b.clock.now() <= 4.0);
  CHECK(r.stopped_early);
}

TEST_CASE("a tune can be stopped", "[tune][batch_tuner]") {
  tuner_bench b;
  auto const asked = [&] { return b.clock.now() > 0.1; };
  auto const r = b.tune(ww::batch_tuner{}.range(1, 1 << 20).stop_when(asked), cost{});
  CHECK(b.clock.now() < 0.2);
  CHECK(r.stopped_early);
  CHECK(r.chosen().batch >= 1);
  // Under a limit, a size that was not confirmed is not returned.
  tuner_bench c;
  auto const soon = [&] { return c.clock.now() > 0.1; };
  CHECK_THROWS_AS(c.tune(ww::batch_tuner{}
                             .range(1, 1 << 20)
                             .stop_when(soon)
                             .objective(ww::throughput_under_latency(1e-3)),
                         cost{}),
                  ww::no_feasible_batch);
}

TEST_CASE("a stopped tune lists no size without figures", "[tune][batch_tuner]") {
  for (double seconds = 1e-4; seconds < 0.05; seconds *= 1.1) {
    tuner_bench b;
    auto const asked = [&] { return b.clock.now() > seconds; };
    try {
      auto const r = b.tune(ww::batch_tuner{}.range(1, 4096).stop_when(asked), cost{});
      for (ww::tune_row const& row : r.rows) CHECK(row.items_per_second > 0.0);
    } catch (ww::no_feasible_batch const& e) {
      CHECK(e.result().rows.empty());
    }
  }
}

TEST_CASE("the time of a stopwatch counts where the host's clock stands still",
          "[tune][batch_tuner]") {
  ww::stream const stream;
  double total = 0.0;
  auto stopwatch = [&](ww::stream_ref, auto& call, std::size_t repeats) {
    for (std::size_t i = 0; i < repeats; ++i) call();
    total += 1e-2 * static_cast<double>(repeats);
    return 1e-2 * static_cast<double>(repeats);
  };
  auto const r =
      ww::batch_tuner{}
          .range(1, 1 << 20)
          .max_seconds(2.0)
          .tune_with(
              stopwatch, stream, [](std::size_t, ww::stream_ref) {}, ww::no_memory_probe{});
  CHECK(total <= 2.1);
  CHECK(r.elapsed_seconds >= total);
}

TEST_CASE("the soak runs for the calls and the time that are wanted", "[tune][batch_tuner]") {
  for (double const seconds : {0.0, 1.0}) {
    tuner_bench b;
    std::size_t in_soak = 0;
    bool soaking = false;
    auto const r = b.tune(ww::batch_tuner{}
                              .range(1, 64)
                              .soak(77, seconds)
                              .progress([&](ww::tuning_progress const& p) {
                                soaking = p.phase == ww::tuning_phase::soak;
                              }),
                          [&](std::size_t n) {
                            if (soaking) ++in_soak;
                            return cost{}(n);
                          });
    if (seconds == 0.0) {
      CHECK(in_soak == 77);
    } else {
      CHECK(r.times.soak >= seconds);
    }
    CHECK(r.chosen().latency_samples == in_soak);
  }
}

TEST_CASE("the soak of a size under a latency limit runs for its time as well",
          "[tune][batch_tuner]") {
  tuner_bench b;
  auto const r = b.tune(
      ww::batch_tuner{}.range(1, 64).objective(ww::throughput_under_latency(1.0)).soak(1, 5.0),
      cost{});
  CHECK(r.times.soak >= 5.0);
  CHECK(r.chosen().latency_shown);
}
