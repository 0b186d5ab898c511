// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the statistics say the limit is: of made-up figures, and of sources and callers that sleep.
#include "stream/prefetch_support.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <random>
#include <string>

namespace ww = warpwright;
using namespace test_support;
using batches_of = ww::prefetcher<std::uint32_t>;

namespace {

// Of 100 batches of 1 MB in a second, behind the first one.
ww::prefetch_statistics figures() {
  ww::prefetch_statistics s;
  s.batches = 101;
  s.bytes = 101000000;
  s.first_bytes = 1000000;
  s.source_bytes = 100000000;
  s.seconds = 1.0;
  s.workers = 2;
  s.depth = 4;
  s.slot_bytes = 1000000;
  return s;
}

}  // namespace

TEST_CASE("limit: the stage that is always busy") {
  ww::prefetch_statistics s = figures();
  s.source_seconds = 1.9;  // of two workers
  s.copy_bytes_per_second = 1e9;
  s.starved_seconds = 0.8;
  CHECK(s.limit() == ww::prefetch_limit::source);
  CHECK(s.source_share() == Approx(0.95));
  CHECK(s.copy_share() == Approx(0.1));
  CHECK_THAT(s.to_text(), contains("The source is the limit") &&
                              contains("0.105 GB/s with 2 threads") && contains("busy 95 %"));
  s.source_seconds = 0.2;
  s.copy_bytes_per_second = 1.02e8;
  CHECK(s.limit() == ww::prefetch_limit::copy);
  CHECK_THAT(s.to_text(), contains("The copy is the limit") && contains("0.102 GB/s"));
  s.copy_bytes_per_second = 1e9;
  s.starved_seconds = 0.04;
  CHECK(s.limit() == ww::prefetch_limit::caller);
  CHECK_THAT(s.to_text(), contains("The work with the batches is the limit"));
  s.starved_seconds = 0.4;
  s.source_seconds = 1.2;
  CHECK(s.limit() == ww::prefetch_limit::depth);
  CHECK_THAT(s.to_text(), contains("larger batches help"));
  s.of_results = true;
  CHECK_THAT(s.to_text(), contains("results: 101 batches") && contains("sink:"));
}

TEST_CASE("limit: figures that are not there divide by nothing") {
  ww::prefetch_statistics const none;
  CHECK(none.limit() == ww::prefetch_limit::unknown);
  CHECK(none.bytes_per_second() == 0.0);
  CHECK(none.source_share() == 0.0);
  CHECK_THAT(none.to_text(), contains("Too few batches") && contains("not timed yet") &&
                                 !contains("nan") && !contains("inf"));
  ww::prefetch_statistics one = figures();
  one.batches = 1;
  CHECK(one.limit() == ww::prefetch_limit::unknown);
}

TEST_CASE("limit: few batches, which the ring had room for, tell nothing unless the caller waits") {
  ww::prefetch_statistics s = figures();
  s.batches = 8;
  s.copy_bytes_per_second = 1.02e8;  // a rate that only the first batches have
  CHECK(s.limit() == ww::prefetch_limit::unknown);
  CHECK_THAT(s.to_text(), contains("Too few batches"));
  s.caller_wait_seconds = 0.1;
  CHECK(s.limit() == ww::prefetch_limit::caller);
  s.starved_seconds = 0.1;
  CHECK(s.limit() == ww::prefetch_limit::copy);
  s.caller_wait_seconds = s.starved_seconds = 0.0;
  s.batches = 9;
  CHECK(s.limit() == ww::prefetch_limit::copy);
}

TEST_CASE("limit: of several callers that wait at once no share is above 100 %") {
  ww::prefetch_statistics s = figures();
  s.caller_wait_seconds = 1.5;
  s.starved_seconds = 1.5;
  s.source_seconds = 3.0;
  CHECK(s.caller_wait_share() == 1.0);
  CHECK_THAT(s.to_text(),
             contains("waited 100 %") && contains("idle 100 %") && contains("busy 100 %"));
}

TEST_CASE("limit: a single batch has neither a time nor a rate") {
  ww::prefetch_statistics one = figures();
  one.batches = 1;
  one.seconds = 0.0;
  one.source_bytes = 0;
  one.bytes = one.first_bytes;
  CHECK_THAT(one.to_text(),
             contains("prefetch: 1 batch, 1 MB\n  source: not timed yet with 2 threads") &&
                 !contains("0 GB/s") && !contains("%"));
}

TEST_CASE("statistics: what is before the first batch, and behind the last one, does not count") {
  feeding f;
  std::atomic<bool> first_taken{false};
  std::atomic<bool> read{false};
  ww::prefetch_statistics s;
  {
    batches_of batches{f.pool, f.pinned, 1000,
                       [&](std::uint32_t* to, std::size_t i) -> std::size_t {
                         if (i > 1) {
                           while (!read) wait_a_little(100);
                         }
                         wait_a_little(20000);
                         if (i > 1) return 0;
                         while (i == 1 && !first_taken) wait_a_little(100);
                         fill_batch(to, i, 1000);
                         return 1000;
                       },
                       ww::prefetch_options{}.workers(2)};
    CHECK(batches.next(f.stream));
    CHECK(batches.statistics().seconds == 0.0);
    first_taken = true;
    CHECK(batches.next(f.stream));
    s = batches.statistics();
    read = true;
    CHECK_FALSE(batches.next(f.stream));  // waits for 20 ms
    CHECK(batches.statistics().caller_wait_seconds == s.caller_wait_seconds);
  }
  CHECK(s.seconds > 0.0);
  CHECK(s.caller_wait_seconds <= s.seconds);
  CHECK(s.starved_seconds <= s.seconds);
  CHECK(s.source_seconds <= 2 * s.seconds);
  CHECK(s.source_bytes < 4000);
}

TEST_CASE(
    "statistics: a caller of a slow source waits nearly all the time, and its stream is idle") {
  feeding f;
  bool waits = false;  // where other programs use the processors, not in every attempt
  for (int attempt = 0; attempt < 10 && !waits; ++attempt) {
    batches_of batches{f.pool, f.pinned, 100,
                       [](std::uint32_t* to, std::size_t i) -> std::size_t {
                         wait_a_little(5000);
                         fill_batch(to, i, 100);
                         return 100;
                       },
                       ww::prefetch_options{}.workers(1)};
    for (int i = 0; i < 12; ++i) static_cast<void>(batches.next(f.stream));
    ww::prefetch_statistics const s = batches.statistics();
    UNSCOPED_INFO(s.to_text());
    CHECK(s.caller_wait_seconds <= s.seconds);
    waits = s.caller_wait_share() > 0.5 && s.starved_share() > 0.25;
  }
  CHECK(waits);
}

TEST_CASE("statistics: what other callers wait before the first batch does not count") {
  feeding f;
  std::atomic<bool> go{false};
  batches_of batches{f.pool, f.pinned, 100,
                     [&](std::uint32_t* to, std::size_t i) -> std::size_t {
                       while (!go) wait_a_little(100);
                       fill_batch(to, i, 100);
                       return 100;
                     },
                     ww::prefetch_options{}.workers(1)};
  std::vector<std::thread> callers;
  for (int t = 0; t < 2; ++t) {
    callers.emplace_back([&] {
      ww::stream const own;
      static_cast<void>(batches.next(own));
    });
  }
  wait_a_little(50000);
  go = true;
  for (std::thread& each : callers) each.join();
  ww::prefetch_statistics const s = batches.statistics();
  CHECK(s.seconds > 0.0);
  CHECK(s.caller_wait_seconds <= s.seconds);
}

TEST_CASE("limit: of pipelines simulated by the thousand it is the slowest stage") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 draw{seed};
  std::uniform_real_distribution<double> stage{0.1, 10.0};
  for (int run = 0; run < 10000; ++run) {
    double const source = stage(draw);  // ms a batch, of all workers together
    double const copy = stage(draw);
    double const work = stage(draw);
    double const slowest = std::max(source, std::max(copy, work));
    // Stages within 20 % of the slowest one are as good an answer.
    ww::prefetch_statistics s = figures();
    s.workers = static_cast<unsigned>(1 + draw() % 8);
    s.seconds = 100 * slowest * 1e-3;
    s.source_seconds = 100 * source * 1e-3 * s.workers;
    s.copy_bytes_per_second = 1e6 / (copy * 1e-3);
    s.starved_seconds = 100 * (slowest - work) * 1e-3;
    ww::prefetch_limit const found = s.limit();
    double const named = found == ww::prefetch_limit::source ? source
                         : found == ww::prefetch_limit::copy ? copy
                                                             : work;
    CAPTURE(source, copy, work, static_cast<int>(found));
    CHECK(found != ww::prefetch_limit::depth);
    CHECK(named >= 0.79 * slowest);
  }
}

TEST_CASE("limit: of a slow source, and of a slow caller") {
  feeding f;
  auto const run = [&](unsigned source_us, unsigned caller_us) {
    batches_of batches{f.pool, f.pinned, 100,
                       [=](std::uint32_t* to, std::size_t i) -> std::size_t {
                         if (i >= 40) return 0;
                         wait_a_little(source_us);
                         fill_batch(to, i, 100);
                         return 100;
                       },
                       ww::prefetch_options{}.workers(1)};
    while (ww::prefetched<std::uint32_t> const batch = batches.next(f.stream)) {
      wait_a_little(caller_us);
      f.stream.synchronize();
    }
    return batches.statistics();
  };
  // Where other programs use the processors, a thread may wait for one for longer than for the
  // other.
  auto const says = [&](unsigned source_us, unsigned caller_us, ww::prefetch_limit expected) {
    for (int attempt = 0; attempt < 10; ++attempt) {
      ww::prefetch_statistics const s = run(source_us, caller_us);
      UNSCOPED_INFO(s.to_text());
      if (s.limit() == expected) return true;
    }
    return false;
  };
  CHECK(says(4000, 0, ww::prefetch_limit::source));
  CHECK(says(0, 4000, ww::prefetch_limit::caller));
}

TEST_CASE("the ring grows where source and caller wait for each other in turn, up to the limit") {
  feeding f;
  auto const run = [&](ww::prefetch_options const& options) {
    batches_of batches{f.pool, f.pinned, 1000,
                       [](std::uint32_t* to, std::size_t i) -> std::size_t {
                         if (i >= 60) return 0;
                         if (i % 10 == 9) wait_a_little(8000);
                         fill_batch(to, i, 1000);
                         return 1000;
                       },
                       options.workers(1)};
    while (ww::prefetched<std::uint32_t> const batch = batches.next(f.stream)) {
      wait_a_little(1000);
      f.stream.synchronize();
    }
    return batches.statistics().depth;
  };
  ww::prefetch_options const o;
  CHECK(run(o.depth(2).max_bytes(0)) == 2);
  unsigned most = 2;  // it grows more than once
  for (int attempt = 0; attempt < 20 && most < 4; ++attempt) {
    unsigned const depth = run(o.depth(2));
    CHECK(depth <= 4);
    most = depth > most ? depth : most;
  }
  CHECK(most == 4);
  CHECK(run(o.depth(2).max_bytes(3 * 4000)) <= 3);
  CHECK(run(o.depth(2).max_bytes(3 * 4000 - 1)) == 2);
  CHECK(run(o.max_bytes(3 * 4000)) == 3);
  CHECK(f.all_given_back());
}

TEST_CASE("without memory the ring does not grow, and goes on") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  ww::pinned_pool pinned{ww::pinned_pool_options{}.initial_bytes(2 * 4096).max_bytes(2 * 4096)};
  batches_of batches{pool, pinned, 1024,
                     [](std::uint32_t* to, std::size_t i) -> std::size_t {
                       if (i >= 60) return 0;
                       if (i % 10 == 9) wait_a_little(5000);
                       fill_batch(to, i, 1024);
                       return 1024;
                     },
                     ww::prefetch_options{}.workers(1).depth(2).max_bytes(1 << 20)};
  std::size_t taken = 0;
  while (ww::prefetched<std::uint32_t> const batch = batches.next(s)) {
    ++taken;
    wait_a_little(500);
    s.synchronize();
  }
  CHECK(taken == 60);
  CHECK(batches.statistics().depth == 2);
}

TEST_CASE("the ring does not grow with memory that it would have to wait for") {
  constexpr std::size_t slot = std::size_t{2} << 20U;
  for (bool const on_device : {false, true}) {
    CAPTURE(on_device);
    ww::stream s;
    ww::stream foreign;
    ww::memory_pool pool{ww::current_device(),
                         ww::memory_pool_options{}.max_bytes(on_device ? 3 * slot : 64 * slot)};
    ww::pinned_pool pinned{ww::pinned_pool_options{}.initial_bytes(3 * slot).max_bytes(
        on_device ? 64 * slot : 3 * slot)};
    // Free behind work that does not end before the batches.
    void* const on_host = pinned.allocate(slot);
    void* const memory = pool.allocate(foreign, slot);
    gate hold{foreign};
    pinned.deallocate(foreign, on_host, slot);
    pool.deallocate(foreign, memory, slot);
    {
      batches_of batches{pool, pinned, slot / 4,
                         [](std::uint32_t*, std::size_t i) -> std::size_t {
                           if (i % 10 == 9) wait_a_little(5000);
                           return i < 60 ? 1 : 0;
                         },
                         ww::prefetch_options{}.workers(1).depth(2).max_bytes(64 * slot)};
      std::size_t taken = 0;
      while (ww::prefetched<std::uint32_t> const batch = batches.next(s)) {
        ++taken;
        wait_a_little(500);
        s.synchronize();
      }
      CHECK(taken == 60);
      CHECK(batches.statistics().depth == 2);
    }
    CHECK(pinned.statistics().live_bytes == 0);
    CHECK(pool.statistics().live_bytes == 0);
    CHECK_FALSE(foreign.done());
    hold.open();
  }
}
