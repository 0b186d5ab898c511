// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// All adaptors over each other, used at random by threads and streams: every layer's counters agree
// with the threads' live blocks, and in the end nothing is live.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/adaptors.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/testing/fault_adaptor.hpp>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
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
  void* pointer;
  std::size_t bytes;
  unsigned char tag;
};

void count_record(void* user, ww::memory_log_record const& record) noexcept {
  auto& live = *static_cast<std::atomic<std::int64_t>*>(user);
  if (record.operation == ww::memory_log_operation::allocate) live += 1;
  if (record.operation == ww::memory_log_operation::deallocate) live -= 1;
}
void count_damage(void* user, ww::guard_damage const&) noexcept {
  *static_cast<std::atomic<int>*>(user) += 1;
}
void count_fallback(void* user, ww::fallback_event const&) noexcept {
  *static_cast<std::atomic<std::uint64_t>*>(user) += 1;
}

}  // namespace

TEST_CASE("all adaptors over each other have the same counters") {
  std::random_device device_seed;
  std::uint64_t const seed = device_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));

  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(4 * mib).growth_bytes(mib)};
  ww::managed_memory_resource managed{device};
  std::atomic<std::uint64_t> fallbacks{0};
  ww::fallback_adaptor plenty{pool, managed, &count_fallback, &fallbacks};
  ww::limit_adaptor part{plenty, 6 * mib};
  ww::fault_adaptor flaky{part, ww::memory_faults{}.fail_randomly(0.05, seed)};
  ww::statistics_adaptor counted{flaky};
  std::atomic<int> damages{0};
  ww::guard_adaptor guarded{counted, &count_damage, &damages};
  std::atomic<std::int64_t> logged_live{0};
  ww::event_log_adaptor log{guarded, &count_record, &logged_live};
  ww::thread_safe_adaptor safe{log};
  ww::tracking_adaptor tracked{safe};

  constexpr std::size_t thread_count = 4;
  std::vector<std::vector<block>> held(thread_count);
  std::vector<std::unique_ptr<ww::stream>> streams;
  for (std::size_t t = 0; t < thread_count; ++t) {
    streams.push_back(std::make_unique<ww::stream>());
  }
  unsigned* wrong = nullptr;
  ww::check(cudaMalloc(reinterpret_cast<void**>(&wrong), thread_count * sizeof(unsigned)),
            "cudaMalloc");
  ww::check(cudaMemset(wrong, 0, thread_count * sizeof(unsigned)), "cudaMemset");
  ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");

  std::atomic<std::uint64_t> refused{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random{seed + t};
      ww::stream_ref const s = *streams[t];
      std::vector<block>& mine = held[t];
      for (int i = 0; i < 250; ++i) {
        if (mine.size() < 12 && random() % 3 != 0) {
          std::size_t const bytes =
              1 + (random() % 8 == 0 ? random() % mib : random() % (16 * kib));
          std::size_t const alignment = std::size_t{1} << random() % 9;
          block b{tracked.try_allocate(s, bytes, alignment), bytes,
                  static_cast<unsigned char>(random())};
          if (b.pointer == nullptr) {
            ++refused;
            continue;
          }
          fill(s, b.pointer, b.tag, b.bytes);
          mine.push_back(b);
        } else if (!mine.empty()) {
          std::size_t const at = random() % mine.size();
          block const b = mine[at];
          mine[at] = mine.back();
          mine.pop_back();
          expect(s, b.pointer, b.tag, b.bytes, wrong + t);
          tracked.deallocate(s, b.pointer, b.bytes);
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();

  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  for (std::vector<block> const& mine : held) {
    for (block const& b : mine) bytes += b.bytes;
    blocks += mine.size();
  }
  CHECK(tracked.outstanding_bytes() == bytes);
  CHECK(tracked.outstanding_blocks() == blocks);
  CHECK(logged_live == static_cast<std::int64_t>(blocks));
  CHECK(counted.statistics().live_blocks == static_cast<std::int64_t>(blocks));
  CHECK(counted.statistics().live_bytes ==
        static_cast<std::int64_t>(bytes + blocks * 512));  // two zones each
  CHECK(part.live_bytes() == bytes + blocks * 512);
  CHECK(counted.statistics().live_peak_bytes <= static_cast<std::int64_t>(6 * mib));
  CHECK(counted.statistics().failures == refused);
  CHECK(flaky.requests() == counted.statistics().allocations + refused);
  CHECK(flaky.injected() <= refused);
  CHECK(plenty.statistics().fallbacks == fallbacks);
  CHECK(pool.statistics().live_blocks + plenty.statistics().live_blocks == blocks);
  ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  CHECK(guarded.check_blocks(*streams[0]) == 0);

  for (std::size_t t = 0; t < thread_count; ++t) {
    for (block const& b : held[t]) tracked.deallocate(*streams[t], b.pointer, b.bytes);
    pool.retire(*streams[t]);
  }
  CHECK(tracked.outstanding_blocks() == 0);
  CHECK(logged_live == 0);
  CHECK(counted.statistics().live_bytes == 0);
  CHECK(part.live_bytes() == 0);
  CHECK(managed.live_bytes() == 0);
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(damages == 0);
  ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  for (std::size_t t = 0; t < thread_count; ++t) {
    unsigned value = 1;
    ww::check(cudaMemcpy(&value, wrong + t, sizeof value, cudaMemcpyDeviceToHost), "cudaMemcpy");
    CHECK(value == 0);
  }
  ww::check(cudaFree(wrong), "cudaFree");
}
