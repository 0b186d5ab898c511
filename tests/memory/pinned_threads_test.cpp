// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The pinned pool: random use, by many threads, and by one beside a model.
#include "memory/pinned_support.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace ww = warpwright;
using test_support::exactly;
using test_support::gate;
using test_support::growing_by_256_kib;
using test_support::kib;
using test_support::mib;

namespace {

constexpr std::size_t thread_count = 16;

/// Allocates and frees at random, with and without streams, and checks the contents.
class random_user {
 public:
  random_user(ww::pinned_pool& pool, std::vector<ww::stream> const& streams, std::uint64_t seed)
      : pool_{pool}, streams_{streams}, random_{seed} {}

  std::string run(int steps) {
    try {
      ww::stream own;
      own_ = &own;
      for (int step = 0; step < steps || !live_.empty(); ++step) {
        if (step < steps && random_() % 100 < 53 && allocate()) continue;
        if (!live_.empty()) free_one();
      }
      pool_.retire(own);
    } catch (std::exception const& e) {
      return e.what();
    }
    return error_;
  }
  std::uint64_t allocations = 0;

 private:
  struct block {
    unsigned char* p;
    std::size_t bytes;
    unsigned char tag;
  };

  bool allocate() {
    std::size_t const bytes = 1 + random_() % (std::size_t{1} << (random_() % 15));
    std::size_t const alignment = random_() % 8 == 0 ? 4096 : 256;
    auto* const p = static_cast<unsigned char*>(pool_.try_allocate(bytes, alignment));
    if (p == nullptr) return false;
    if (reinterpret_cast<std::uintptr_t>(p) % alignment != 0) error_ = "a wrong alignment";
    auto const tag = static_cast<unsigned char>(random_());
    std::memset(p, tag, bytes);
    live_.push_back(block{p, bytes, tag});
    ++allocations;
    return true;
  }
  void free_one() {
    std::size_t const i = random_() % live_.size();
    block const b = live_[i];
    live_[i] = live_.back();
    live_.pop_back();
    for (std::size_t k = 0; k < b.bytes; ++k) {
      if (b.p[k] != b.tag) error_ = "a block was overwritten";
    }
    std::uint64_t const how = random_() % 4;
    if (how == 0) return pool_.deallocate(b.p, b.bytes);
    // The stream still writes into it: the next user must run later.
    std::size_t const which = random_() % (streams_.size() + 1);
    ww::stream const& s = which == streams_.size() ? *own_ : streams_[which];
    if (random_() % 16 == 0) test_support::pause(s);
    ww::check(cudaMemsetAsync(b.p, 0, b.bytes, s.get()), "cudaMemsetAsync");
    pool_.deallocate(s, b.p, b.bytes);
  }

  ww::pinned_pool& pool_;
  std::vector<ww::stream> const& streams_;
  ww::stream const* own_ = nullptr;
  std::mt19937_64 random_;
  std::vector<block> live_;
  std::string error_;
};

}  // namespace

TEST_CASE("pinned: random use by 16 threads and streams neither overlaps nor corrupts blocks") {
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  // Short of memory, so that threads wait and take from each other; and with enough.
  for (std::size_t const maximum : {512 * kib, 64 * mib}) {
    std::vector<ww::stream> streams(3);
    ww::pinned_pool pool{growing_by_256_kib(maximum)};
    std::vector<random_user> users;
    for (std::size_t t = 0; t < thread_count; ++t) users.emplace_back(pool, streams, seed + t);
    std::vector<std::string> errors(thread_count);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < thread_count; ++t) {
      threads.emplace_back([&, t] { errors[t] = users[t].run(600); });
    }
    std::atomic<bool> stop{false};
    std::thread observer{[&] {
      while (!stop) {
        ww::pinned_statistics const s = pool.statistics();
        if (s.live_bytes > s.reserved_bytes) stop = true;
        static_cast<void>(pool.trim(256 * kib));
        std::this_thread::sleep_for(std::chrono::milliseconds{2});
      }
    }};
    for (std::thread& t : threads) t.join();
    CHECK_FALSE(stop.exchange(true));
    observer.join();
    std::uint64_t allocations = 0;
    for (random_user const& user : users) allocations += user.allocations;
    for (std::string const& e : errors) CHECK(e == "");
    ww::pinned_statistics const s = pool.statistics();
    CHECK(s.live_bytes == 0);
    CHECK(s.live_blocks == 0);
    CHECK(s.allocations == allocations);
    CHECK(s.deallocations == allocations);
    CHECK(s.reserved_peak_bytes <= maximum);
    CHECK(pool.trim() == s.reserved_bytes);
    CHECK(pool.statistics().cached_bytes == 0);
  }
}

TEST_CASE("pinned: no thread gets a block while a gate holds its stream") {
  ww::stream held;
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(8 * mib).growth_bytes(mib)};
  std::set<void*> in_flight;
  std::mutex mutex;
  std::atomic<int> wrong{0};
  {
    gate hold{held};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < thread_count; ++t) {
      threads.emplace_back([&, t] {
        ww::stream own;
        std::mt19937_64 random{t};
        for (int i = 0; i < 300; ++i) {
          std::size_t const bytes = std::size_t{256} << (random() % 6);
          void* const p = pool.allocate(bytes);
          {
            std::lock_guard<std::mutex> const lock{mutex};
            if (in_flight.count(p) != 0) ++wrong;
            if (i % 2 == 0) in_flight.insert(p);
          }
          pool.deallocate(i % 2 == 0 ? held.ref() : own.ref(), p, bytes);
        }
        pool.retire(own);
      });
    }
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
    CHECK(pool.statistics().pending_bytes > 0);
  }
  CHECK(pool.trim() > 0);
  CHECK(pool.statistics().pending_bytes == 0);
  CHECK(pool.statistics().reserved_bytes == 0);
}

TEST_CASE("pinned: of threads that free one block at once, one succeeds") {
  ww::stream s;
  ww::pinned_pool pool{exactly(mib)};
  for (int round = 0; round < 50; ++round) {
    void* const p = pool.allocate(1000);
    std::atomic<int> freed{0};
    std::atomic<int> refused{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        while (!go) {
        }
        try {
          if (t % 2 == 0) {
            pool.deallocate(p, 1000);
          } else {
            pool.deallocate(s, p, 1000);
          }
          ++freed;
        } catch (std::invalid_argument const&) {
          ++refused;
        }
      });
    }
    go = true;
    for (std::thread& t : threads) t.join();
    CHECK(freed == 1);
    CHECK(refused == 3);
  }
  CHECK(pool.statistics().deallocations == 50);
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("pinned: a random sequence of calls beside a model") {
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  struct stream_state {
    std::unique_ptr<ww::stream> stream = std::make_unique<ww::stream>();
    std::unique_ptr<gate> held;
    std::map<char*, std::size_t> in_flight;  // freed while the gate is closed
  };
  std::vector<stream_state> streams(5);
  ww::pinned_pool pool{ww::pinned_pool_options{}.growth_bytes(128 * kib)};
  std::map<char*, std::size_t> live;
  std::uint64_t live_bytes = 0;
  std::uint64_t allocations = 0;
  auto const overlaps = [](std::map<char*, std::size_t> const& blocks, char* p, std::size_t bytes) {
    auto const next = blocks.lower_bound(p);
    if (next != blocks.end() && next->first < p + bytes) return true;
    if (next == blocks.begin()) return false;
    auto const before = std::prev(next);
    return before->first + before->second > p;
  };
  auto const rounded = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
  auto const open = [](stream_state& s) {
    s.held.reset();  // waits for the stream
    s.in_flight.clear();
  };
  for (int step = 0; step < 6000; ++step) {
    stream_state& s = streams[random() % streams.size()];
    std::uint64_t const what = random() % 100;
    if (what < 48) {
      std::size_t const bytes = 1 + random() % (std::size_t{1} << (random() % 14));
      std::size_t const alignment = std::size_t{1} << (random() % 13);
      auto* const p = static_cast<char*>(pool.allocate(bytes, alignment));
      REQUIRE(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
      REQUIRE_FALSE(overlaps(live, p, bytes));
      for (stream_state const& each : streams) REQUIRE_FALSE(overlaps(each.in_flight, p, bytes));
      live.emplace(p, bytes);
      live_bytes += rounded(bytes);
      ++allocations;
    } else if (what < 90 && !live.empty()) {
      auto it = live.begin();
      std::advance(it, static_cast<std::ptrdiff_t>(random() % live.size()));
      auto const [p, bytes] = *it;
      if (random() % 20 == 0) {
        REQUIRE_THROWS_WITH(pool.deallocate(*s.stream, p, bytes + 1), contains("wrong size"));
        REQUIRE_THROWS_WITH(pool.deallocate(p + 1, bytes), contains("double free"));
      }
      if (random() % 2 == 0) {
        pool.deallocate(p, bytes);
      } else {
        pool.deallocate(*s.stream, p, bytes);
        if (s.held != nullptr) s.in_flight.emplace(p, bytes);
      }
      live_bytes -= rounded(bytes);
      live.erase(it);
      if (random() % 20 == 0) {
        REQUIRE_THROWS_WITH(pool.deallocate(p, bytes), contains("double free"));
      }
    } else if (what < 94) {
      if (s.held == nullptr) {
        s.held = std::make_unique<gate>(*s.stream);
      } else {
        open(s);
      }
    } else if (what < 97) {
      if (s.held != nullptr) open(s);
      pool.retire(*s.stream);
      s.stream = std::make_unique<ww::stream>();
    } else if (what == 99 && random() % 8 == 0) {
      for (stream_state& each : streams) open(each);
      std::uint64_t const before = pool.statistics().reserved_bytes;
      std::size_t const returned = pool.trim();
      REQUIRE(pool.statistics().pending_bytes == 0);
      REQUIRE(pool.statistics().reserved_bytes == before - returned);
    }
    if (step % 16 == 0) {
      ww::pinned_statistics const now = pool.statistics();
      REQUIRE(now.live_bytes == live_bytes);
      REQUIRE(now.live_blocks == live.size());
      REQUIRE(now.allocations == allocations);
      REQUIRE(now.live_peak_bytes >= live_bytes);
      REQUIRE(now.live_bytes + now.cached_bytes + now.pending_bytes <= now.reserved_bytes);
    }
  }
  for (stream_state& each : streams) open(each);
  for (auto const& [p, bytes] : live) pool.deallocate(p, bytes);
  std::uint64_t const reserved = pool.statistics().reserved_bytes;
  CHECK(pool.trim() == reserved);
}
