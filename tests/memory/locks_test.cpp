// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The locks that spare a thread its fence: nobody else is inside, whoever comes in whatever order.
#include "support/catch.hpp"

#include <warpwright/memory/detail/biased_lock.hpp>
#include <warpwright/memory/detail/owner_lock.hpp>

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
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

// A signal holds a thread up wherever it is, as long as `held_up` is 1, but for some milliseconds.
std::atomic<int> held_up{2};
void hold_up(int) {
  int nobody = 0;
  if (!held_up.compare_exchange_strong(nobody, 1)) return;
  for (int k = 0; k < 1000 && held_up.load() == 1; ++k) sched_yield();
}

}  // namespace

TEST_CASE("a biased_lock's former favourite may have been held up anywhere") {
  struct sigaction action {};
  action.sa_handler = hold_up;
  struct sigaction before {};
  REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);
  unsigned const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  std::atomic<bool> alone{true};
  for (int round = 0; round < 600 && alone; ++round) {
    auto const lock = std::make_unique<biased_lock>();
    std::atomic<bool> inside{false};
    std::atomic<bool> stop{false};
    std::atomic<unsigned> taken{0};
    held_up = 0;
    std::thread former{[&] {
      constexpr auto relaxed = std::memory_order_relaxed;  // most of its time it is in lock()
      for (unsigned k = 1; !stop.load(relaxed); ++k) {
        lock->lock();
        if (inside.load(relaxed)) alone = false;
        taken.store(k, relaxed);
        lock->unlock();
      }
    }};
    while (taken < 200) sched_yield();
    for (auto k = random() % 500; k != 0; --k) ww::detail::pause_processor();
    REQUIRE(pthread_kill(former.native_handle(), SIGUSR1) == 0);
    while (held_up == 0) sched_yield();
    std::thread next{[&] {
      for (int k = 0; k < 700; ++k) {  // enough to be the next favourite
        lock->lock();
        lock->unlock();
      }
      lock->lock();
      inside = true;
      held_up = 2;
      for (int k = 0; k < 20000 && alone; ++k) ww::detail::pause_processor();
      inside = false;
      stop = true;
      lock->unlock();
    }};
    next.join();
    former.join();
  }
  CHECK(alone);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("a biased_lock is taken in passing, and its favourite keeps its favour") {
  biased_lock lock;
  pair_of_counts counts;
  std::atomic<bool> alike{true};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> favourite_came{0};
  std::thread favourite{[&] {
    while (!stop) {
      lock.lock();
      if (!counts.add()) alike = false;
      ++favourite_came;
      lock.unlock();
    }
  }};
  while (favourite_came < 1000) sched_yield();
  std::uint64_t passed = 0;
  std::uint64_t favoured = 0;
  for (; passed < 20000; ++passed) {
    std::uintptr_t const favour = lock.lock_in_passing();
    favoured += favour != 0;
    if (!counts.add()) alike = false;
    lock.unlock_in_passing(favour);
  }
  stop = true;
  favourite.join();
  CHECK(alike);
  CHECK(counts.first == favourite_came + passed);
  CHECK(counts.second == counts.first);
  CHECK(favoured == (ww::detail::has_far_fence ? passed : 0));
}

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
