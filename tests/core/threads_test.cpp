// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// core/detail: atomics, the asymmetric fence, locks, the condition variable and threads.
#include "support/catch.hpp"

#include <warpwright/core/detail/thread/asymmetric_fence.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/detail/thread/thread.hpp>

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace detail = warpwright::detail;
using detail::atomic;
using detail::memory_order;

namespace {

constexpr unsigned thread_count = 4;
constexpr unsigned rounds = 5000;

template <class Function>
void run_on_threads(Function const& function) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < thread_count; ++t) threads.emplace_back([&function, t] { function(t); });
  for (std::thread& t : threads) t.join();
}

// Counts with a lock around a plain integer; a lock that admits two threads loses counts.
template <class Lock>
std::uint64_t count_under_lock() {
  Lock lock;
  std::uint64_t count = 0;
  run_on_threads([&](unsigned) {
    for (unsigned k = 0; k < rounds; ++k) {
      detail::unique_lock<Lock> const guard{lock};
      ++count;
    }
  });
  return count;
}

struct counting_lock {
  int locked = 0;
  int unlocked = 0;
  void lock() noexcept { ++locked; }
  void unlock() noexcept { ++unlocked; }
};

// A queue of one number, which the worker adds up until it is told to stop.
struct adder {
  detail::mutex mutex;
  detail::condition_variable changed;
  detail::condition_variable taken;
  unsigned next = 0;  // 0: empty
  bool stop = false;
  std::uint64_t sum = 0;

  void run() noexcept {
    detail::unique_lock<detail::mutex> const lock{mutex};
    for (;;) {
      while (next == 0 && !stop) changed.wait(mutex);
      if (next == 0) return;
      sum += next;
      next = 0;
      taken.notify_one();
    }
  }
  void put(unsigned number) noexcept {
    detail::unique_lock<detail::mutex> const lock{mutex};
    while (next != 0) taken.wait(mutex);
    next = number;
    changed.notify_one();
  }
  void end() noexcept {
    detail::unique_lock<detail::mutex> const lock{mutex};
    stop = true;
    changed.notify_all();
  }
};

struct mask_reader {
  bool blocks_signals = false;
  void run() noexcept {
    sigset_t mask;
    sigemptyset(&mask);
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocks_signals = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGUSR1) == 1;
  }
};

}  // namespace

TEST_CASE("an atomic loads, stores, exchanges and adds") {
  atomic<std::uint64_t> number;
  CHECK(number.load(memory_order::relaxed) == 0);
  number.store(5, memory_order::release);
  CHECK(number.load(memory_order::acquire) == 5);
  CHECK(number.exchange(7, memory_order::acq_rel) == 5);
  CHECK(number.fetch_add(3, memory_order::relaxed) == 7);
  CHECK(number.fetch_sub(2, memory_order::relaxed) == 10);
  CHECK(number.fetch_or(1, memory_order::seq_cst) == 8);
  CHECK(number.load(memory_order::seq_cst) == 9);

  int values[2] = {1, 2};
  atomic<int*> pointer{values};
  CHECK(*pointer.exchange(values + 1, memory_order::seq_cst) == 1);
  CHECK(*pointer.load(memory_order::relaxed) == 2);
  atomic<bool> flag{true};
  CHECK(flag.exchange(false, memory_order::relaxed));
  CHECK_FALSE(flag.load(memory_order::relaxed));
}

TEST_CASE("compare_exchange stores only over the expected value, and reports another") {
  atomic<unsigned> number{4};
  unsigned expected = 3;
  CHECK_FALSE(number.compare_exchange(expected, 9, memory_order::acq_rel, memory_order::acquire));
  CHECK(expected == 4);
  CHECK(number.load(memory_order::relaxed) == 4);
  CHECK(number.compare_exchange(expected, 9, memory_order::acq_rel, memory_order::acquire));
  CHECK(number.load(memory_order::relaxed) == 9);
  expected = 9;
  while (
      !number.compare_exchange_weak(expected, 10, memory_order::relaxed, memory_order::relaxed)) {
    REQUIRE(expected == 9);
  }
  CHECK(number.load(memory_order::relaxed) == 10);
}

TEST_CASE("atomic operations of several threads are not lost") {
  atomic<std::uint64_t> added{0};
  atomic<std::uint64_t> exchanged{0};
  run_on_threads([&](unsigned) {
    for (unsigned k = 0; k < rounds; ++k) {
      added.fetch_add(2, memory_order::relaxed);
      added.fetch_sub(1, memory_order::relaxed);
      std::uint64_t seen = exchanged.load(memory_order::relaxed);
      while (!exchanged.compare_exchange_weak(seen, seen + 1, memory_order::relaxed,
                                              memory_order::relaxed)) {
      }
    }
  });
  CHECK(added.load(memory_order::relaxed) == thread_count * rounds);
  CHECK(exchanged.load(memory_order::relaxed) == thread_count * rounds);
}

TEST_CASE("an atomic is neither copied nor converted") {
  using number = atomic<int>;
  STATIC_REQUIRE_FALSE(std::is_copy_constructible<number>::value);
  STATIC_REQUIRE_FALSE(std::is_copy_assignable<number>::value);
  STATIC_REQUIRE_FALSE(std::is_convertible<int, number>::value);
  STATIC_REQUIRE_FALSE(std::is_convertible<number, int>::value);
  STATIC_REQUIRE_FALSE(std::is_assignable<number&, int>::value);
  STATIC_REQUIRE(std::is_trivially_destructible<number>::value);
  STATIC_REQUIRE(sizeof(atomic<unsigned char>) == 1);
}

TEST_CASE("an asymmetric fence replaces the fence of the threads that do not call it") {
  if (!detail::has_asymmetric_fence()) return;
  // Dekker's algorithm: if neither thread saw the other's flag, the fence did not order them.
  for (unsigned round = 0; round < 200; ++round) {
    atomic<int> fast{0};
    atomic<int> slow{0};
    atomic<int> ready{0};
    bool fast_saw = false;
    bool slow_saw = false;
    auto const meet = [&] {
      ready.fetch_add(1, memory_order::seq_cst);
      while (ready.load(memory_order::seq_cst) != 2) detail::pause_processor();
    };
    std::thread other{[&] {
      meet();
      fast.store(1, memory_order::relaxed);
      detail::compiler_fence();
      fast_saw = slow.load(memory_order::relaxed) == 1;
    }};
    meet();
    slow.store(1, memory_order::relaxed);
    detail::asymmetric_fence();
    slow_saw = fast.load(memory_order::relaxed) == 1;
    other.join();
    REQUIRE((fast_saw || slow_saw));
  }
}

TEST_CASE("a spin_lock and a mutex admit one thread at a time") {
  CHECK(count_under_lock<detail::spin_lock>() == thread_count * rounds);
  CHECK(count_under_lock<detail::mutex>() == thread_count * rounds);
}

TEST_CASE("a unique_lock unlocks once, whether or not it was unlocked before its end") {
  counting_lock lock;
  {
    detail::unique_lock<counting_lock> const guard{lock};
    CHECK(guard.owns_lock());
    CHECK(lock.locked == 1);
  }
  CHECK(lock.unlocked == 1);
  {
    detail::unique_lock<counting_lock> guard{lock};
    guard.unlock();
    CHECK_FALSE(guard.owns_lock());
    CHECK(lock.unlocked == 2);
  }
  CHECK(lock.unlocked == 2);
  {
    detail::unique_lock<counting_lock> guard{lock};
    guard.unlock();
    guard.lock();
    CHECK(guard.owns_lock());
  }
  CHECK(lock.locked == 4);
  CHECK(lock.unlocked == 4);
}

TEST_CASE("a condition variable wakes the thread that waits for each number") {
  adder worker;
  detail::thread thread;
  REQUIRE(thread.start<&adder::run>(worker) == 0);
  CHECK(thread.joinable());
  for (unsigned k = 1; k <= 1000; ++k) worker.put(k);
  worker.end();
  thread.join();
  CHECK_FALSE(thread.joinable());
  CHECK(worker.sum == 500500);
}

TEST_CASE("a thread blocks all signals and leaves its creator's mask as it was") {
  sigset_t before;
  sigemptyset(&before);
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  mask_reader reader;
  detail::thread thread;
  REQUIRE(thread.start<&mask_reader::run>(reader) == 0);
  thread.join();
  CHECK(reader.blocks_signals);
  sigset_t after;
  sigemptyset(&after);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  CHECK(sigismember(&after, SIGINT) == sigismember(&before, SIGINT));
  CHECK(sigismember(&after, SIGUSR1) == sigismember(&before, SIGUSR1));
}

TEST_CASE("a thread is started once, joined once, and joined by its destructor") {
  adder worker;
  {
    detail::thread thread;
    thread.join();  // nothing to join
    REQUIRE(thread.start<&adder::run>(worker) == 0);
    CHECK(thread.start<&adder::run>(worker) == EBUSY);
    worker.put(3);
    worker.end();
  }
  CHECK(worker.sum == 3);
  detail::thread again;
  REQUIRE(again.start<&adder::run>(worker) == 0);
  again.join();
  again.join();
  REQUIRE(again.start<&adder::run>(worker) == 0);  // after a join it can be started again
}
