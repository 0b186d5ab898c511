// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Random use of a pool by threads and streams, against a model: live blocks do not overlap, all
// counters are right, and a block keeps what a stream wrote until its free.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/core/event.hpp>
#include <warpwright/memory/pool.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace ww = warpwright;
using test_support::expect;
using test_support::fill;

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
ww::device_id const device{0};

struct block {
  void* pointer = nullptr;
  std::size_t bytes = 0;
  std::size_t stream = 0;
  unsigned char tag = 0;
};

// The callers' live memory; shared by all threads.
class model {
 public:
  void add(block const& b) {
    std::lock_guard<std::mutex> const lock{mutex_};
    auto const start = reinterpret_cast<std::uintptr_t>(b.pointer);
    auto const above = live_.lower_bound(start);
    if (above != live_.end() && above->first < start + b.bytes) overlap_ = true;
    if (above != live_.begin()) {
      auto const below = std::prev(above);
      if (below->first + below->second > start) overlap_ = true;
    }
    live_[start] = b.bytes;
  }
  void remove(block const& b) {
    std::lock_guard<std::mutex> const lock{mutex_};
    live_.erase(reinterpret_cast<std::uintptr_t>(b.pointer));
  }
  bool overlap() const { return overlap_; }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> live_;
  bool overlap_ = false;
};

std::size_t random_size(std::mt19937_64& random) {
  return 1 + random() % (std::size_t{1} << (random() % 16));
}

struct counts {
  std::uint64_t allocations = 0;
  std::uint64_t refused = 0;
};

/// One thread's part: blocks on its streams, written when allocated, checked before they are freed.
counts use_pool(ww::memory_pool& pool, model& all, std::vector<ww::stream> const& streams,
                unsigned* wrong, std::uint64_t seed, int steps) {
  std::mt19937_64 random{seed};
  std::vector<block> live;
  counts done;
  ww::event passed;
  auto const release = [&](std::size_t i) {
    block b = live[i];
    live[i] = live.back();
    live.pop_back();
    expect(streams[b.stream], b.pointer, b.tag, b.bytes, wrong + b.stream);
    if (random() % 4 == 0) {  // freed on another stream, which is ordered behind the first
      std::size_t const other = random() % streams.size();
      passed.record(streams[b.stream].get());
      streams[other].wait(passed);
      b.stream = other;
    }
    all.remove(b);
    pool.deallocate(streams[b.stream], b.pointer, b.bytes);
  };
  for (int step = 0; step < steps; ++step) {
    unsigned const what = static_cast<unsigned>(random() % 200);
    if (what == 0) {
      pool.trim(random() % (4 * mib));
    } else if (what < 104) {
      block b;
      b.bytes = random_size(random);
      b.stream = random() % streams.size();
      b.tag = static_cast<unsigned char>(random());
      std::size_t const alignment = std::size_t{1} << (random() % 4 == 0 ? random() % 14 : 8);
      b.pointer = pool.try_allocate(streams[b.stream], b.bytes, alignment);
      if (b.pointer == nullptr) {
        ++done.refused;
        if (!live.empty()) release(random() % live.size());
        continue;
      }
      ++done.allocations;
      all.add(b);
      if (random() % 16 == 0) test_support::pause(streams[b.stream]);
      fill(streams[b.stream], b.pointer, b.tag, b.bytes);
      live.push_back(b);
    } else if (!live.empty()) {
      release(random() % live.size());
    }
  }
  while (!live.empty()) release(live.size() - 1);
  return done;
}

class flags {
 public:
  explicit flags(std::size_t count) : count_{count} {
    void* p = nullptr;
    ww::check(cudaMalloc(&p, count * sizeof(unsigned)), "cudaMalloc");
    data_ = static_cast<unsigned*>(p);
    ww::check(cudaMemset(p, 0, count * sizeof(unsigned)), "cudaMemset");
  }
  ~flags() { static_cast<void>(cudaFree(data_)); }
  flags(flags const&) = delete;
  flags& operator=(flags const&) = delete;
  unsigned* data() const { return data_; }
  unsigned sum() const {
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::vector<unsigned> values(count_);
    ww::check(cudaMemcpy(values.data(), data_, count_ * sizeof(unsigned), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    unsigned total = 0;
    for (unsigned v : values) total += v;
    return total;
  }

 private:
  std::size_t count_;
  unsigned* data_ = nullptr;
};

struct setting {
  char const* name;
  std::size_t maximum;
  std::size_t growth;
  ww::reuse_order order;
};

setting const settings[] = {
    {"plenty", ww::memory_pool_options::unlimited, 2 * mib, ww::reuse_order::grow_before_wait},
    {"short of memory", 640 * kib, 128 * kib, ww::reuse_order::grow_before_wait},
    {"waiting first", 4 * mib, 64 * kib, ww::reuse_order::wait_before_grow},
};

}  // namespace

TEST_CASE("the test's own check detects a wrong byte") {
  ww::stream s;
  flags wrong{1};
  ww::memory_pool pool{device};
  void* const p = pool.allocate(s, 100);
  fill(s, p, 1, 100);
  expect(s, p, 1, 100, wrong.data());
  CHECK(wrong.sum() == 0);
  fill(s, static_cast<char*>(p) + 99, 2, 1);
  expect(s, p, 1, 100, wrong.data());
  CHECK(wrong.sum() == 1);
  pool.deallocate(s, p, 100);
}

TEST_CASE("one thread, several streams, any sequence") {
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  for (setting const& how : settings) {
    INFO(how.name);
    std::vector<ww::stream> streams(4);
    flags wrong{streams.size()};
    model all;
    ww::memory_pool pool{
        device,
        ww::memory_pool_options{}.max_bytes(how.maximum).growth_bytes(how.growth).order(how.order)};
    counts const done = use_pool(pool, all, streams, wrong.data(), seed, 6000);
    CHECK_FALSE(all.overlap());
    CHECK(wrong.sum() == 0);
    ww::pool_statistics const s = pool.statistics();
    CHECK(s.live_bytes == 0);
    CHECK(s.live_blocks == 0);
    CHECK(s.allocations == done.allocations);
    CHECK(s.deallocations == done.allocations);
    CHECK(s.hits <= s.allocations);
    CHECK(s.reserved_peak_bytes <= how.maximum);
    // No byte is lost: everything is coalesced and returned.
    CHECK(pool.trim() == s.reserved_bytes);
    CHECK(pool.statistics().reserved_bytes == 0);
    CHECK(pool.statistics().upstream_allocations == pool.statistics().upstream_deallocations);
  }
}

TEST_CASE("eight threads with eight streams each") {
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  constexpr std::size_t thread_count = 8;
  for (setting const& how : settings) {
    INFO(how.name);
    std::vector<std::vector<ww::stream>> streams(thread_count);
    for (auto& own : streams) own = std::vector<ww::stream>(8);
    model all;
    ww::memory_pool pool{
        device,
        ww::memory_pool_options{}.max_bytes(how.maximum).growth_bytes(how.growth).order(how.order)};
    flags wrong{thread_count * 8};
    std::atomic<std::uint64_t> allocations{0};
    std::vector<std::string> errors(thread_count);
    {
      std::vector<std::thread> threads;
      for (std::size_t t = 0; t < thread_count; ++t) {
        threads.emplace_back([&, t] {
          try {
            allocations +=
                use_pool(pool, all, streams[t], wrong.data() + 8 * t, seed + t, 500).allocations;
          } catch (std::exception const& e) {
            errors[t] = e.what();
          }
        });
      }
      for (std::thread& t : threads) t.join();
    }
    for (std::string const& e : errors) CHECK(e == "");
    CHECK_FALSE(all.overlap());
    CHECK(wrong.sum() == 0);
    ww::pool_statistics const s = pool.statistics();
    CHECK(s.live_bytes == 0);
    CHECK(s.allocations == allocations);
    CHECK(s.deallocations == allocations);
    CHECK(pool.trim() == s.reserved_bytes);
  }
}

TEST_CASE("threads may share streams") {
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  std::vector<ww::stream> streams(3);
  model all;
  flags wrong{streams.size()};
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(mib).growth_bytes(64 * kib)};
  std::vector<std::string> errors(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < errors.size(); ++t) {
    threads.emplace_back([&, t] {
      try {
        use_pool(pool, all, streams, wrong.data(), seed + t, 800);
      } catch (std::exception const& e) {
        errors[t] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (std::string const& e : errors) CHECK(e == "");
  CHECK_FALSE(all.overlap());
  CHECK(wrong.sum() == 0);
  CHECK(pool.statistics().live_bytes == 0);
  std::uint64_t const reserved = pool.statistics().reserved_bytes;
  CHECK(pool.trim() == reserved);
}
