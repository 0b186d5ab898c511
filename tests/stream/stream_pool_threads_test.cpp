// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Several threads at one pool: who is served first, and who takes streams from where. The threads
// take turns, so that each run is the same.
#include "support/catch.hpp"

#include <warpwright/stream/stream_pool.hpp>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <pthread.h>

namespace ww = warpwright;
using streams = ww::detail::stream_set;

namespace {

// A thread that runs what it is given, while the caller waits.
class obedient_thread {
 public:
  obedient_thread() : runner_{[this] { loop(); }} {}
  ~obedient_thread() {
    {
      std::lock_guard<std::mutex> const lock{mutex_};
      ended_ = true;
    }
    changed_.notify_all();
    runner_.join();
  }
  obedient_thread(obedient_thread const&) = delete;
  obedient_thread& operator=(obedient_thread const&) = delete;

  void run(std::function<void()> const& work) {
    std::unique_lock<std::mutex> lock{mutex_};
    work_ = &work;
    changed_.notify_all();
    changed_.wait(lock, [this] { return work_ == nullptr; });
  }

 private:
  void loop() {
    std::unique_lock<std::mutex> lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return work_ != nullptr || ended_; });
      if (ended_) return;
      (*work_)();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> const* work_ = nullptr;
  bool ended_ = false;
  std::thread runner_;
};

// Threads whose states in a pool are different ones.
std::vector<std::unique_ptr<obedient_thread>> different_threads(std::size_t count) {
  std::vector<std::unique_ptr<obedient_thread>> threads;
  std::vector<std::unique_ptr<obedient_thread>> others;  // alive: their stacks are not reused
  std::set<unsigned> slots;
  for (int i = 0; i < 500 && threads.size() < count; ++i) {
    auto made = std::make_unique<obedient_thread>();
    unsigned slot = 0;
    made->run([&] { slot = ww::detail::thread_slot<5>(pthread_self()); });
    (slots.insert(slot).second ? threads : others).push_back(std::move(made));
  }
  REQUIRE(threads.size() == count);
  return threads;
}

unsigned take_and_return(streams& set) {
  unsigned const index = set.take();
  if (index != streams::none) set.give_back(index);
  return index;
}

}  // namespace

TEST_CASE("a thread waits for as many holds as threads were ahead of it, whoever comes later") {
  constexpr unsigned count = 8;
  streams set{ww::current_device(), 0, 1};
  set.create(1, ww::source_location::current());
  unsigned const held = set.take();
  REQUIRE(held == 0);
  std::atomic<unsigned> holds{0};  // counted by who holds the stream
  std::vector<unsigned> hold_of(count);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      unsigned const index = set.take_or_wait(streams::for_ever, ww::source_location::current());
      hold_of[t] = ++holds;
      set.give_back(index);
    });
    while (set.waiting() != t + 1) std::this_thread::yield();  // the next one is behind it
  }
  // These come later, again and again, and do not wait.
  std::atomic<bool> ended{false};
  std::atomic<unsigned> overtook{0};
  std::vector<std::thread> later;
  for (int t = 0; t < 2; ++t) {
    later.emplace_back([&] {
      while (!ended) {
        unsigned index = set.take();
        if (index == streams::none) index = set.take_or_wait(0, ww::source_location::current());
        if (index == streams::none) continue;
        if (holds < count) ++overtook;
        set.give_back(index);
      }
    });
  }
  set.give_back(held);
  unsigned const again = set.take_or_wait(streams::for_ever, ww::source_location::current());
  unsigned const before_me = holds;
  set.give_back(again);
  for (std::thread& t : threads) t.join();
  ended = true;
  for (std::thread& t : later) t.join();
  CHECK(overtook == 0);
  CHECK(before_me == count);
  for (unsigned t = 0; t < count; ++t) CHECK(hold_of[t] == t + 1);
  CHECK(set.available() == 1);
}

TEST_CASE("a thread goes through as many streams whatever others did before") {
  streams set{ww::current_device(), 0, 32};
  set.create(32, ww::source_location::current());
  auto const threads = different_threads(2);
  auto const lease = [&](std::size_t thread, int count) {
    std::set<unsigned> used;
    threads[thread]->run([&] {
      for (int i = 0; i < count; ++i) used.insert(take_and_return(set));
    });
    return used;
  };
  for (int round = 0; round < 200; ++round) lease(static_cast<std::size_t>(round % 2), 5);
  lease(0, 20000);
  lease(1, 1000);
  CHECK(lease(1, 32).size() == 8);
}

TEST_CASE("threads that meet at streams soon keep apart") {
  streams set{ww::current_device(), 0, 32};
  set.create(32, ww::source_location::current());
  auto const threads = different_threads(16);
  std::vector<std::set<std::size_t>> users(32);  // of each stream
  for (int round = 0; round < 200; ++round) {
    for (std::size_t t = 0; t < threads.size(); ++t) {
      threads[t]->run([&] {
        unsigned const index = take_and_return(set);
        if (round >= 100) users[index].insert(t);
      });
    }
  }
  for (auto const& each : users) CHECK(each.size() <= 1);
}

TEST_CASE("a thread finds every free stream, also those that others took before") {
  streams set{ww::current_device(), 0, 32};
  set.create(32, ww::source_location::current());
  auto const threads = different_threads(16);
  for (int round = 0; round < 200; ++round) {
    for (auto const& thread : threads) thread->run([&] { take_and_return(set); });
  }
  for (auto const& thread : threads) {
    std::vector<unsigned> taken;
    thread->run([&] {
      for (unsigned index = set.take(); index != streams::none; index = set.take()) {
        taken.push_back(index);
      }
      for (unsigned const index : taken) set.give_back(index);
    });
    CHECK(std::set<unsigned>{taken.begin(), taken.end()}.size() == 32);
  }
}
