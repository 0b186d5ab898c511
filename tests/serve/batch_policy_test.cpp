// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Services simulated on a virtual clock, with the truth known, and the rules one by one.
#include "support/catch.hpp"

#include "serve/simulation.hpp"
#include "support/sanitized.hpp"

#include <chrono>
#include <limits>
#include <map>
#include <set>

namespace ww = warpwright;
using simulation::outcome;
using simulation::setup;

namespace {

ww::latency_model const model = simulation::model_of(simulation::affine, 1.0);

std::vector<std::uint32_t> ids_of(ww::batch_policy const& policy, ww::batch_decision const& d) {
  return {policy.batch(0), policy.batch(0) + d.items};
}

}  // namespace

TEST_CASE("an overloaded service answers at its capacity, and hardly any too late") {
  for (double const load : {1.5, 3.0}) {
    for (double const deadline : {12e-3, 20e-3, 100e-3}) {
      CAPTURE(load, deadline);
      setup s;
      s.load = load;
      s.make = [&](std::size_t, std::mt19937_64&) { return ww::request{}.deadline(deadline); };
      outcome const o = simulation::run(s);
      CHECK(o.goodput() >= 0.97);
      CHECK(o.answered_late + o.late <= s.requests / 1000);
    }
  }
}

TEST_CASE(
    "an overloaded service whose batches vary, of which nothing is known, is not far behind") {
  for (double const load : {1.5, 3.0}) {
    for (double const scale : {0.1, 1.0, 10.0}) {
      CAPTURE(load, scale);
      setup s;
      s.load = load;
      s.noise = 0.2;
      s.model_scale = scale;
      outcome const o = simulation::run(s);
      CHECK(o.goodput() >= 0.95);
      CHECK(o.answered_late + o.late <= s.requests / 1000);
    }
  }
}

TEST_CASE("a deadline of little more than a batch halves the batches rather than the answers") {
  setup s;
  s.load = 1.5;
  s.make = [](std::size_t, std::mt19937_64&) { return ww::request{}.deadline(6e-3); };
  // n = rate * (6 ms - T(n)) at best: 38 items, 0.79 of the capacity.
  CHECK(simulation::run(s).goodput() >= 0.7);
}

TEST_CASE(
    "below its capacity a service is as fast as one that has no deadlines, and loses nothing") {
  for (double const load : {0.3, 0.8}) {
    CAPTURE(load);
    setup s;
    s.load = load;
    outcome with = simulation::run(s);
    outcome without = simulation::greedy(s);
    CHECK(with.in_time == s.requests);
    CHECK(with.quantile(0.5) <= 1.02 * without.quantile(0.5));
    CHECK(with.quantile(0.99) <= 1.05 * without.quantile(0.99));
  }
}

TEST_CASE("interleaved keys have batches as large as one key has") {
  setup s;
  s.load = 0.6;
  s.make = [](std::size_t, std::mt19937_64&) { return ww::request{}; };
  double const one = simulation::run(s).mean_batch;
  for (std::size_t const keys : {4U, 16U}) {
    CAPTURE(keys);
    s.make = [&](std::size_t i, std::mt19937_64&) { return ww::request{}.key(i % keys); };
    outcome o = simulation::run(s);
    CHECK(o.mean_batch >= 0.95 * one);
    CHECK(o.quantile(0.99) <= 60e-3);
  }
}

TEST_CASE("two devices at 2:1 give the sum, and the slow one stands aside when it would be late") {
  setup s;
  s.lanes = {1.0, 2.0};
  s.load = 1.5;
  CHECK(simulation::run(s).goodput() >= 0.95);
  s.load = 0.05;
  setup fast = s;
  fast.lanes = {1.0};
  fast.load = 0.075;  // the same rate
  outcome both = simulation::run(s);
  outcome one = simulation::run(fast);
  CHECK(both.quantile(0.5) <= 1.02 * one.quantile(0.5));
}

TEST_CASE("what is too late for a slow device is left to the fast one") {
  setup s;
  s.lanes = {1.0, 1.0, 2.0, 2.0};
  s.seconds = [](std::size_t n) { return 0.85e-3 + 3.2e-6 * static_cast<double>(n); };
  s.load = 0.8;
  s.make = [](std::size_t, std::mt19937_64&) { return ww::request{}.deadline(6e-3); };
  outcome const o = simulation::run(s);
  CHECK(o.in_time >= s.requests / 1000 * 995);
}

TEST_CASE("two lanes of a device do not split what one has, and add where a device runs both") {
  setup one;
  one.load = 0.6;
  double const alone = simulation::run(one).quantile(0.5);
  setup two = one;
  two.lanes = {1.0, 1.0};
  CHECK(simulation::run(two).quantile(0.5) <= 1.1 * alone);
  two.load = 1.5;
  CHECK(simulation::run(two).goodput() >= 0.95);
  two.slowdown = 1.0;  // twice the capacity
  CHECK(simulation::run(two).goodput() >= 0.95);
}

TEST_CASE(
    "a request with time to spare does not make an urgent one wait, nor the other way round") {
  setup s;
  s.load = 1.2;
  std::size_t urgent = 0;
  s.make = [&](std::size_t i, std::mt19937_64&) {
    urgent += i % 2;
    return ww::request{}.deadline(i % 2 == 1 ? 20e-3 : 1.0);
  };
  outcome const o = simulation::run(s);
  CHECK(o.goodput() >= 0.97);
  CHECK(o.late + o.answered_late <= s.requests / 500);
}

TEST_CASE("a low priority that cannot be served is refused at the door") {
  setup s;
  s.load = 1.5;
  s.make = [](std::size_t i, std::mt19937_64&) {
    return ww::request{}.deadline(20e-3).priority(static_cast<int>(i % 2));
  };
  outcome const o = simulation::run(s);
  CHECK(o.goodput() >= 0.97);
  CHECK(o.shed + o.late + o.answered_late <= s.requests / 25);
}

TEST_CASE("a million requests are simulated in seconds") {
  auto const begin = std::chrono::steady_clock::now();
  setup s;
  s.load = 1.5;
  s.requests = 1000000;
  CHECK(simulation::run(s).goodput() >= 0.97);
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
  CHECK(took.count() < 60.0);  // 1 s where nothing else runs, not sanitized
}

TEST_CASE("the higher priority is first, then the earlier deadline, and age counts") {
  ww::batch_policy policy{ww::batcher_options{}.max_items(2).ageing(1.0), model, 1};
  auto const submit = [&](std::uint32_t id, int priority, double deadline, double now) {
    ww::request r = ww::request{}.priority(priority);
    if (deadline > 0.0) r = r.deadline(deadline);
    REQUIRE(policy.submit(id, r, now).admitted);
  };
  submit(0, 0, 0.5, 0.0);
  submit(1, 0, 0.3, 0.0);
  submit(2, 1, 0.9, 0.0);
  submit(3, 1, 0.0, 0.0);
  using ids = std::vector<std::uint32_t>;
  CHECK(ids_of(policy, policy.next(0, 0.0)) == ids{2, 3});
  policy.finished(0, 0.01);
  CHECK(ids_of(policy, policy.next(0, 0.01)) == ids{1, 0});
  policy.finished(0, 0.02);
  // One that has waited a second longer goes before one of the next level.
  submit(4, 0, 0.0, 1.0);
  submit(6, 1, 0.0, 1.5);
  submit(5, 1, 0.0, 2.5);
  CHECK(ids_of(policy, policy.next(0, 2.5)) == ids{6, 4});
}

TEST_CASE("batches have preferred sizes, up or down or the cheaper of both") {
  auto const sizes = [](ww::batch_rounding rule, std::uint32_t requests) {
    ww::batch_policy policy{
        ww::batcher_options{}.max_items(64).preferred({32, 8, 16, 8}).rounding(rule), model, 1};
    for (std::uint32_t i = 0; i < requests; ++i) policy.submit(i, ww::request{}, 0.0);
    ww::batch_decision const d = policy.next(0, 0.0);
    return std::pair<std::size_t, std::size_t>{d.items, d.padded};
  };
  using pair = std::pair<std::size_t, std::size_t>;
  CHECK(sizes(ww::batch_rounding::up, 9) == pair{9, 16});
  CHECK(sizes(ww::batch_rounding::down, 9) == pair{8, 8});
  CHECK(sizes(ww::batch_rounding::down, 3) == pair{3, 8});      // there is no smaller one
  CHECK(sizes(ww::batch_rounding::cheapest, 9) == pair{8, 8});  // 2.8 ms / 9 > 2.4 ms / 8
  CHECK(sizes(ww::batch_rounding::cheapest, 15) == pair{15, 16});
  CHECK(sizes(ww::batch_rounding::up, 50) == pair{50, 50});  // above all of them
}

TEST_CASE("limits of items, bytes and cost refuse, or shed the latest of the lowest priority") {
  auto const limited = ww::batcher_options{}.limit_items(3).limit_bytes(100).limit_cost(10.0);
  ww::batch_policy policy{limited, model, 1};
  CHECK(policy.submit(0, ww::request{}.bytes(60).cost(5.0), 0.0).admitted);
  ww::admission const bytes = policy.submit(1, ww::request{}.bytes(41), 0.0);
  CHECK((bytes.full && !bytes.admitted && bytes.refused == ww::ticket_status::shed));
  CHECK(policy.submit(1, ww::request{}.cost(5.5), 0.0).full);
  CHECK(policy.submit(1, ww::request{}.cost(5.0).bytes(40), 0.0).admitted);
  CHECK(policy.submit(2, ww::request{}.cost(0.0), 0.0).admitted);
  CHECK(policy.submit(3, ww::request{}.cost(0.0), 0.0).full);

  REQUIRE(policy.cancel(0));  // 5 of 10 are left
  CHECK(policy.submit(0, ww::request{}.cost(5.5), 0.0).full);
  CHECK(policy.submit(0, ww::request{}.cost(5.0), 0.0).admitted);

  ww::batch_policy shedding{limited.full(ww::when_full::shed), model, 1};
  shedding.submit(0, ww::request{}.deadline(1.0), 0.0);
  shedding.submit(1, ww::request{}.deadline(3.0), 0.0);
  shedding.submit(2, ww::request{}.deadline(9.0).priority(1), 0.0);
  CHECK(shedding.submit(3, ww::request{}.deadline(4.0), 0.0).full);  // it is the latest itself
  CHECK(shedding.submit(3, ww::request{}.deadline(2.0), 0.0).admitted);
  REQUIRE(shedding.dropped().size() == 1);
  CHECK(shedding.dropped()[0].id == 1);
}

TEST_CASE("nothing is shed for a request that is refused in any case") {
  ww::batch_policy policy{
      ww::batcher_options{}.limit_items(2).limit_bytes(100).full(ww::when_full::shed), model, 1};
  for (std::uint32_t i = 0; i < 2; ++i) policy.submit(i, ww::request{}, 0.0);
  ww::admission const large = policy.submit(2, ww::request{}.bytes(101).priority(7), 0.0);
  CHECK(large.full);
  CHECK(large.retry_after_seconds == 1e300);
  CHECK_FALSE(policy.submit(2, ww::request{}.deadline(1e-6).priority(7), 0.0).admitted);
  CHECK(policy.dropped().empty());
  CHECK(policy.submit(2, ww::request{}.priority(7), 0.0).admitted);
  CHECK(policy.dropped().size() == 1);
}

TEST_CASE("an idle lane does not wait for one whose batch may never end") {
  ww::batch_policy policy{ww::batcher_options{}.max_items(64), model, 2};
  for (std::uint32_t i = 0; i < 64; ++i) policy.submit(i, ww::request{}, 0.0);
  double const seconds = policy.next(0, 0.0).predicted_seconds;
  policy.submit(64, ww::request{}, 0.1 * seconds);
  ww::batch_decision const first = policy.next(1, 0.1 * seconds);
  if (first.items == 0) {
    CHECK(first.until <= 2.0 * seconds);
    CHECK(policy.next(1, 2.0 * seconds).items == 1);
  }
}

TEST_CASE("the most urgent of many keys is next") {
  ww::batch_policy policy{ww::batcher_options{}.max_items(1).ageing(100.0), model, 1};
  constexpr std::uint32_t count = 2000;
  std::multimap<double, std::uint32_t> order;
  for (std::uint32_t i = 0; i < count; ++i) {
    double const deadline = 50.0 + 1e-3 * (i * 7919U % count);
    policy.submit(i, ww::request{}.key(std::size_t{i / 2}).deadline(deadline), 0.0);
    if (i != 2) order.emplace(deadline, i);
  }
  CHECK(policy.cancel(2));
  for (auto const& [deadline, id] : order) {
    if (policy.keys() <= 64) break;  // then times count, too
    REQUIRE(ids_of(policy, policy.next(0, 1.0)) == std::vector<std::uint32_t>{id});
    policy.finished(0, 1.0);
  }
}

TEST_CASE("an idle lane waits for a delay, and no longer than a deadline allows") {
  ww::batch_policy policy{ww::batcher_options{}.max_items(4).max_delay(0.1), model, 1};
  policy.submit(0, ww::request{}, 0.0);
  CHECK(policy.next(0, 0.05).until == Approx(0.1));
  policy.submit(1, ww::request{}.deadline(0.04), 0.05);
  CHECK(policy.next(0, 0.05).until < 0.09);
  for (std::uint32_t i = 2; i < 4; ++i) policy.submit(i, ww::request{}, 0.06);
  CHECK(policy.next(0, 0.06).items == 4);
}

TEST_CASE("a hopeless request is tried while nothing runs, as the model may be wrong") {
  ww::batch_policy policy{ww::batcher_options{}, simulation::model_of(simulation::affine, 100.0),
                          1};
  CHECK(policy.submit(0, ww::request{}.deadline(20e-3), 0.0).admitted);
  CHECK(policy.next(0, 0.0).items == 1);
  ww::admission const second = policy.submit(1, ww::request{}.deadline(20e-3), 1e-3);
  CHECK_FALSE(second.admitted);
  CHECK(second.predicted_seconds > 0.2);
  CHECK(second.retry_after_seconds > 0.1);
  policy.finished(0, 2e-3);  // it took no longer than that
  CHECK(policy.submit(1, ww::request{}.deadline(20e-3), 3e-3).admitted);
}

TEST_CASE("times are learnt by size") {
  ww::batch_policy policy{ww::batcher_options{}.max_items(64), model, 1};
  double now = 0.0;
  for (int round = 0; round < 100; ++round) {
    std::uint32_t const n = round % 2 == 0 ? 1 : 64;
    for (std::uint32_t i = 0; i < n; ++i) policy.submit(i, ww::request{}, now);
    REQUIRE(policy.next(0, now).items == n);
    now += simulation::affine(n) * (n == 1 ? 5.0 : 1.0);
    policy.finished(0, now);
  }
  CHECK(policy.upper(0, {}, 1) == Approx(5.0 * simulation::affine(1)).epsilon(0.1));
  CHECK(policy.upper(0, {}, 64) == Approx(simulation::affine(64)).epsilon(0.1));
}

TEST_CASE("what has waited longer than a second is still ahead") {
  ww::batch_policy policy{ww::batcher_options{}.max_items(64), model, 1};
  policy.submit(0, ww::request{}, 0.0);
  REQUIRE(policy.next(0, 0.0).items == 1);
  for (std::uint32_t i = 1; i <= 128; ++i) policy.submit(i, ww::request{}, 0.0);
  policy.submit(201, ww::request{}, 0.6);
  for (double const now : {1.2, 5.0}) {
    ww::admission const a = policy.submit(200, ww::request{}.deadline(5e-3), now);
    CHECK(a.predicted_seconds > 2.0 * simulation::affine(64));
  }
}

TEST_CASE("a clock that jumps ends nothing twice, and time does not go back") {
  ww::batch_policy policy{ww::batcher_options{}, model, 1};
  policy.submit(0, ww::request{}.deadline(0.1), 100.0);
  CHECK(policy.arrival(0) == 100.0);
  policy.submit(1, ww::request{}.deadline(0.1), 50.0);
  CHECK(policy.arrival(1) == 100.0);
  policy.submit(2, ww::request{}.deadline(0.1), std::numeric_limits<double>::quiet_NaN());
  policy.expire(1e6);
  CHECK(policy.dropped().size() == 3);
  CHECK(policy.queued() == 0);
}

TEST_CASE("a deadline that is over, or none, is late at once") {
  ww::batch_policy policy{ww::batcher_options{}, model, 1};
  for (double const seconds : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(policy.submit(0, ww::request{}.deadline(seconds), 1.0).refused ==
          ww::ticket_status::late);
  }
  CHECK(policy.submit(0, ww::request{}.deadline(std::numeric_limits<double>::infinity()), 1.0)
            .admitted);
}

TEST_CASE("options out of range are refused with the value and the remedy") {
  auto const error = [](ww::batcher_options const& options) {
    try {
      ww::batch_policy const policy{options, model, 1};
    } catch (std::invalid_argument const& e) {
      return std::string{e.what()};
    }
    return std::string{};
  };
  ww::batcher_options const o;
  CHECK_THAT(error(o.max_items(65537)), contains("max_items of 65537; give 1 to 65,536"));
  CHECK_THAT(error(o.max_items(8).preferred({4, 9})), contains("preferred size of 9"));
  CHECK_THAT(error(o.preferred({0})), contains("preferred size of 0"));
  CHECK_THAT(error(o.preferred({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17})),
             contains("at most 16"));
  CHECK_THAT(error(o.limit_items(0)), contains("limit_items of 0"));
  CHECK_THAT(error(o.limit_cost(0.0)), contains("limit_cost of 0"));
  CHECK_THAT(error(o.max_delay(-1.0)), contains("max_delay of -1"));
  CHECK_THAT(error(o.ageing(0.0)), contains("ageing"));
  CHECK_THAT(error(o.watchdog(std::numeric_limits<double>::quiet_NaN())), contains("watchdog"));
  CHECK_THROWS_AS((ww::batch_policy{o, model, 0}), std::invalid_argument);
  CHECK_THROWS_AS((ww::batch_policy{o, model, 65}), std::invalid_argument);
}

TEST_CASE("a million keys leave nothing behind") {
  ww::batch_policy policy{ww::batcher_options{}.max_items(4), model, 1};
  std::uint32_t id = 0;
  double now = 0.0;
  for (std::size_t key = 0; key < 1000000; key += 4) {
    for (std::size_t i = 0; i < 4; ++i)
      policy.submit(id++ % 8, ww::request{}.key(key + i / 2), now);
    for (int batch = 0; batch < 2; ++batch) {
      REQUIRE(policy.next(0, now).items == 2);
      policy.finished(0, now += 1e-3);
    }
  }
  CHECK(policy.keys() == 0);
}

TEST_CASE("random calls agree with a plain list of the requests") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  constexpr int rounds = WARPWRIGHT_NIGHTLY ? 2000 : 20;  // of 5,000 calls
  for (int round = 0; round < rounds; ++round) {
    constexpr std::uint32_t count = 64;
    std::size_t const lanes = 1 + below(3);
    ww::batch_policy policy{ww::batcher_options{}
                                .max_items(1 + below(16))
                                .limit_items(1 + below(40))
                                .full(below(2) == 0 ? ww::when_full::shed : ww::when_full::reject)
                                .max_delay(below(2) == 0 ? 0.0 : 1e-3),
                            model, lanes};
    enum state { free, waiting, running };
    std::map<std::uint32_t, state> plain;
    std::map<std::uint32_t, std::size_t> key;
    std::vector<std::vector<std::uint32_t>> batches(lanes);
    double now = 0.0;
    auto const dropped = [&] {
      for (ww::dropped_request const& d : policy.dropped()) {
        REQUIRE(plain[d.id] == (d.running ? running : waiting));
        if (!d.running) plain[d.id] = free;
      }
      policy.clear_dropped();
    };
    for (int step = 0; step < 5000; ++step) {
      now += 1e-4 * static_cast<double>(below(10));
      auto const id = static_cast<std::uint32_t>(below(count));
      std::size_t const lane = below(lanes);
      switch (below(5)) {
        case 0:
        case 1:
          if (plain[id] == free) {
            key[id] = below(3);
            ww::request r = ww::request{}.key(key[id]).priority(static_cast<int>(below(8)));
            if (below(2) == 0) r = r.deadline(1e-3 * static_cast<double>(1 + below(30)));
            bool const admitted = policy.submit(id, r, now).admitted;
            dropped();
            if (admitted) plain[id] = waiting;
          }
          break;
        case 2:
          if (batches[lane].empty()) {
            ww::batch_decision const d = policy.next(lane, now);
            dropped();
            batches[lane].assign(policy.batch(lane), policy.batch(lane) + d.items);
            for (std::uint32_t const i : batches[lane]) {
              REQUIRE(plain[i] == waiting);
              REQUIRE(key[i] == key[batches[lane][0]]);
              plain[i] = running;
            }
          } else {
            for (std::uint32_t const i : batches[lane]) plain[i] = free;
            policy.finished(lane, now, below(2) == 0);
            batches[lane].clear();
          }
          break;
        case 3:
          policy.expire(now);
          dropped();
          break;
        default:
          if (plain[id] == free) break;
          REQUIRE(policy.cancel(id) == (plain[id] == waiting));
          if (plain[id] == waiting) plain[id] = free;
      }
      std::size_t queued = 0;
      std::size_t active = 0;
      std::set<std::size_t> keys;
      for (auto const& [i, s] : plain) {
        if (s == waiting) keys.insert(key[i]);
        queued += s == waiting ? 1 : 0;
        active += s == running ? 1 : 0;
      }
      REQUIRE(policy.queued() == queued);
      REQUIRE(policy.running() == active);
      REQUIRE(policy.keys() == keys.size());
    }
    policy.close(now);
    CHECK(policy.queued() == 0);
  }
}
