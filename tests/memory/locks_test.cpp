// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The locks of the memory pool: mutual exclusion, whoever comes first.
#include "support/catch.hpp"

#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/memory/detail/caches/owner_lock.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace ww = warpwright;

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

// Locks in bursts of random length, with pauses between them.
template <class Lock, class Unlock>
bool add_in_bursts(pair_of_counts& counts, std::uint64_t calls, unsigned seed, Lock const& lock,
                   Unlock const& unlock) {
  std::mt19937 random{seed};
  bool equal = true;
  for (std::uint64_t k = 0; k < calls;) {
    for (std::uint64_t burst = random() % 1000; burst-- != 0 && k < calls; ++k) {
      lock();
      equal = counts.add() && equal;
      unlock();
    }
    std::this_thread::sleep_for(std::chrono::microseconds{random() % 50});
  }
  return equal;
}

}  // namespace

TEST_CASE("a spin_lock admits one thread at a time") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  constexpr std::uint64_t calls = 20000;
  for (unsigned const threads : {2U, 5U}) {
    CAPTURE(threads);
    ww::detail::spin_lock lock;
    pair_of_counts counts;
    std::atomic<bool> equal{true};
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        if (!add_in_bursts(
                counts, calls, seed + t, [&] { lock.lock(); }, [&] { lock.unlock(); })) {
          equal = false;
        }
      });
    }
    for (std::thread& t : all) t.join();
    CHECK(equal);
    CHECK(counts.second == threads * calls);
  }
}

TEST_CASE("a lock that may not wait for a mutex says whether it holds it") {
  ww::detail::mutex mutex;
  auto const is_free = [&] {
    bool held = false;
    std::thread{[&] {
      ww::detail::unique_lock<ww::detail::mutex> const lock{mutex, false};
      held = lock.owns_lock();
    }}.join();
    return held;
  };
  CHECK(is_free());
  CHECK(is_free());  // the other thread has unlocked it
  {
    ww::detail::unique_lock<ww::detail::mutex> const lock{mutex, true};
    CHECK(lock.owns_lock());
    CHECK_FALSE(is_free());
  }
  CHECK(is_free());
}

TEST_CASE("an owner_lock admits its owner or one other thread") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  constexpr std::uint64_t calls = 20000;
  ww::detail::owner_lock lock;
  pair_of_counts counts;
  std::atomic<bool> equal{true};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 3; ++t) {
    all.emplace_back([&, t] {
      bool const own = t == 0;
      auto const take = [&] { own ? lock.lock_by_owner() : lock.lock(); };
      auto const give = [&] { own ? lock.unlock_by_owner() : lock.unlock(); };
      if (!add_in_bursts(counts, calls, seed + t, take, give)) equal = false;
    });
  }
  for (std::thread& t : all) t.join();
  CHECK(equal);
  CHECK(counts.second == 3 * calls);
}

TEST_CASE("a thread waits until an owner_lock's owner has unlocked it") {
  ww::detail::owner_lock lock;
  std::atomic<bool> entered{false};
  lock.lock_by_owner();
  std::thread other{[&] {
    lock.lock();
    entered = true;
    lock.unlock();
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  CHECK_FALSE(entered);
  lock.unlock_by_owner();
  other.join();
  CHECK(entered);
}

TEST_CASE("an owner waits until another thread has unlocked its owner_lock") {
  ww::detail::owner_lock lock;
  std::atomic<bool> entered{false};
  lock.lock();
  std::thread owner{[&] {
    lock.lock_by_owner();
    entered = true;
    lock.unlock_by_owner();
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  CHECK_FALSE(entered);
  lock.unlock();
  owner.join();
  CHECK(entered);
}
