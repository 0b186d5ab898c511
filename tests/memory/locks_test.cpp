// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The locks with an asymmetric fence: mutual exclusion in every order of threads.
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
    bool const equal = first == second;
    ++first;
    for (int k = 0; k < 3; ++k) ww::detail::pause_processor();
    ++second;
    return equal && first == second;
  }
};

// Each thread locks `calls` times in bursts of random length, so that the bias is granted and
// revoked.
bool counts_stay_equal(unsigned threads, std::uint64_t calls, unsigned seed) {
  biased_lock lock;
  pair_of_counts counts;
  std::atomic<bool> equal{true};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      std::mt19937 random{seed + t};
      for (std::uint64_t k = 0; k < calls;) {
        for (std::uint64_t burst = random() % 1000; burst-- != 0 && k < calls; ++k) {
          lock.lock();
          if (!counts.add()) equal = false;
          lock.unlock();
        }
        std::this_thread::sleep_for(std::chrono::microseconds{random() % 50});
      }
    });
  }
  for (std::thread& t : all) t.join();
  return equal && counts.first == threads * calls && counts.second == counts.first;
}

// A signal handler stops a thread wherever it is while `stopped` is 1, for some milliseconds at
// most.
std::atomic<int> stopped{2};
void stop_thread(int) {
  int expected = 0;
  if (!stopped.compare_exchange_strong(expected, 1)) return;
  for (int k = 0; k < 1000 && stopped.load() == 1; ++k) sched_yield();
}

}  // namespace

TEST_CASE("a biased_lock excludes a formerly biased thread that was stopped anywhere") {
  struct sigaction action {};
  action.sa_handler = stop_thread;
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
    stopped = 0;
    std::thread former{[&] {
      constexpr auto relaxed =
          std::memory_order_relaxed;  // so that most of the time is spent in lock()
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
    while (stopped == 0) sched_yield();
    std::thread next{[&] {
      for (int k = 0; k < 700; ++k) {  // enough to get the next bias
        lock->lock();
        lock->unlock();
      }
      lock->lock();
      inside = true;
      stopped = 2;
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

TEST_CASE("lock_keeping_bias() excludes the biased thread, and the bias remains") {
  biased_lock lock;
  pair_of_counts counts;
  std::atomic<bool> equal{true};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> biased_calls{0};
  std::thread biased_thread{[&] {
    while (!stop) {
      lock.lock();
      if (!counts.add()) equal = false;
      ++biased_calls;
      lock.unlock();
    }
  }};
  while (biased_calls < 1000) sched_yield();
  std::uint64_t suspensions = 0;
  std::uint64_t biased = 0;
  for (; suspensions < 20000; ++suspensions) {
    std::uintptr_t const bias = lock.lock_keeping_bias();
    biased += bias != 0;
    if (!counts.add()) equal = false;
    lock.unlock_restoring_bias(bias);
  }
  stop = true;
  biased_thread.join();
  CHECK(equal);
  CHECK(counts.first == biased_calls + suspensions);
  CHECK(counts.second == counts.first);
  CHECK(biased == (ww::detail::has_asymmetric_fence ? suspensions : 0));
}

TEST_CASE("a biased_lock excludes biased and other threads") {
  unsigned const seed = std::random_device{}();
  INFO("seed " << seed);
  for (unsigned threads = 1; threads <= 4; ++threads) {
    CAPTURE(threads);
    // Four biases are revoked within some thousand calls: many short runs rather than long ones.
    for (unsigned round = 0; round < 20; ++round) {
      REQUIRE(counts_stay_equal(threads, 3000, seed + 10 * round));
    }
  }
}

TEST_CASE("a biased_lock's bias passes to another thread at most four times") {
  biased_lock lock;
  pair_of_counts counts;
  for (int round = 0; round < 8; ++round) {
    bool equal = true;
    std::thread{[&] {
      for (int k = 0; k < 40000; ++k) {  // more in a row than the last bias needs
        lock.lock();
        equal = counts.add() && equal;
        lock.unlock();
      }
    }}.join();
    REQUIRE(equal);
    lock.lock();  // another thread: revokes the bias
    REQUIRE(counts.add());
    lock.unlock();
  }
  REQUIRE(counts.first == 8 * 40001);
}

TEST_CASE("a biased_lock waits for its biased thread to unlock") {
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
