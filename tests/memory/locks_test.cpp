// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The locks that spare a thread its fence: nobody else is inside, whoever comes in whatever order.
#include "support/catch.hpp"

#include <warpwright/memory/detail/biased_lock.hpp>
#include <warpwright/memory/detail/owner_lock.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace ww = warpwright;
using ww::detail::biased_lock;

namespace {

// What a lock guards: two numbers that are the same outside of it.
struct pair_of_counts {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  bool add() {
    bool const alike = first == second;
    ++first;
    for (int k = 0; k < 3; ++k) ww::detail::pause_processor();
    ++second;
    return alike && first == second;
  }
};

// Each thread comes `calls` times in bursts of its own length, so that favours are given and ended.
bool stay_alike(unsigned threads, std::uint64_t calls, unsigned seed) {
  biased_lock lock;
  pair_of_counts counts;
  std::atomic<bool> alike{true};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      std::mt19937 random{seed + t};
      for (std::uint64_t k = 0; k < calls;) {
        for (std::uint64_t burst = random() % 1000; burst-- != 0 && k < calls; ++k) {
          lock.lock();
          if (!counts.add()) alike = false;
          lock.unlock();
        }
        std::this_thread::sleep_for(std::chrono::microseconds{random() % 50});
      }
    });
  }
  for (std::thread& t : all) t.join();
  return alike && counts.first == threads * calls && counts.second == counts.first;
}

}  // namespace

TEST_CASE("a biased_lock keeps others out, its favourite as any") {
  unsigned const seed = std::random_device{}();
  INFO("seed " << seed);
  for (unsigned threads = 1; threads <= 4; ++threads) {
    CAPTURE(threads);
    // Four favours end within the first thousands: many locks, rather than long ones.
    for (unsigned round = 0; round < 20; ++round) {
      REQUIRE(stay_alike(threads, 3000, seed + 10 * round));
    }
  }
}

TEST_CASE("a biased_lock's favour passes on, at most four times") {
  biased_lock lock;
  pair_of_counts counts;
  for (int turn = 0; turn < 8; ++turn) {
    bool alike = true;
    std::thread{[&] {
      for (int k = 0; k < 40000; ++k) {  // more in a row than the last favour takes
        lock.lock();
        alike = counts.add() && alike;
        lock.unlock();
      }
    }}.join();
    REQUIRE(alike);
    lock.lock();  // another thread's: ends the favour
    REQUIRE(counts.add());
    lock.unlock();
  }
  REQUIRE(counts.first == 8 * 40001);
}

TEST_CASE("a biased_lock's favourite that holds it is waited for") {
  biased_lock lock;
  bool inside = false;
  for (int k = 0; k < 1000; ++k) {
    lock.lock();
    lock.unlock();
  }
  lock.lock();
  std::atomic<bool> came{false};
  std::atomic<bool> alone{false};
  std::thread other{[&] {
    lock.lock();
    alone = !inside;
    came = true;
    lock.unlock();
  }};
  inside = true;
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  CHECK_FALSE(came);
  inside = false;
  lock.unlock();
  other.join();
  CHECK(came);
  CHECK(alone);
}
