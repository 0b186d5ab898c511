// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The pinned pool: blocks freed on streams, and the events behind them.
#include "memory/pinned_support.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
namespace testing = warpwright::testing;
#endif

namespace ww = warpwright;
using test_support::allocate_many;
using test_support::exactly;
using test_support::free_many;
using test_support::gate;
using test_support::have_common;
using test_support::kib;
using test_support::mib;

TEST_CASE("pinned: none of many blocks is reused while their stream is held") {
  ww::stream s;
  ww::pinned_pool pool{exactly(16 * mib)};
  // Some are behind an event, the rest in the open batch.
  std::vector<void*> const first = allocate_many(pool, 700, 4 * kib);
  {
    gate hold{s};
    free_many(pool, s, first, 4 * kib);
    CHECK(pool.statistics().event_records == 1);
    CHECK(pool.statistics().pending_bytes == 700 * 4 * kib);
    std::vector<void*> const second = allocate_many(pool, 3000, 4 * kib);
    CHECK_FALSE(have_common(first, second));
    free_many(pool, second, 4 * kib);
  }
  // Now they are.
  std::vector<void*> const all = allocate_many(pool, 4096, 4 * kib);
  CHECK(have_common(first, all));
  free_many(pool, all, 4 * kib);
}

TEST_CASE("pinned: a block of another size than those in flight does not get their memory") {
  ww::stream s;
  ww::pinned_pool pool{exactly(mib)};
  std::vector<void*> const blocks = allocate_many(pool, 256, 4 * kib);
  {
    gate hold{s};
    std::vector<void*> on_stream;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (i % 2 == 0) {
        on_stream.push_back(blocks[i]);
      } else {
        pool.deallocate(blocks[i], 4 * kib);
      }
    }
    free_many(pool, s, on_stream, 4 * kib);
    std::vector<void*> free;
    while (free.size() < 128) free.push_back(pool.allocate(4 * kib));
    CHECK_FALSE(have_common(free, on_stream));
    free_many(pool, free, 4 * kib);
    std::thread opener{[&] { hold.open_late(); }};
    void* const all = pool.allocate(mib);  // the open batch gets its event, which is waited for
    CHECK(s.done());
    opener.join();
    pool.deallocate(all, mib);
  }
  CHECK(pool.trim() == mib);
}

TEST_CASE("pinned: one event covers many frees") {
  for (std::size_t const bytes : {4 * kib, 64 * kib}) {
    ww::stream s;
    ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(1024 * bytes)};
    constexpr int pairs = 20000;
#if WARPWRIGHT_HOST_RUNTIME
    testing::reset_call_counts();
#endif
    for (int i = 0; i < pairs; ++i) {
      pool.deallocate(s.ref(), pool.allocate(bytes), bytes);
      if (i % 100 == 0) s.synchronize();  // a stream that keeps up
    }
    CHECK(pool.statistics().event_records <= pairs / 128 + 1);
    CHECK(pool.statistics().hits >= pairs / 128 * 120);
    CHECK(pool.statistics().reserved_bytes == 1024 * bytes);
#if WARPWRIGHT_HOST_RUNTIME
    CHECK(testing::total_calls() - pairs / 100 < pairs / 10);
    testing::reset_call_counts();
    for (int i = 0; i < pairs; ++i) pool.deallocate(pool.allocate(bytes), bytes);
    CHECK(testing::total_calls() < 10);  // a last query of the stream's events
#endif
  }
}

TEST_CASE("pinned: a part of the memory gets an event even in a few blocks") {
  ww::stream s;
  ww::pinned_pool pool{exactly(16 * mib)};
  std::vector<void*> const blocks = allocate_many(pool, 4, mib);
  gate hold{s};
  free_many(pool, s, blocks, mib);  // a quarter of half the memory, at least
  CHECK(pool.statistics().event_records >= 1);
}

TEST_CASE("pinned: with too much allocated it fails without a wait") {
  ww::stream s;
  ww::pinned_pool pool{exactly(mib)};
  void* const most = pool.allocate(800 * kib);
  gate hold{s};
  pool.deallocate(s, pool.allocate(100 * kib), 100 * kib);
  CHECK(pool.try_allocate(300 * kib) == nullptr);
  CHECK_FALSE(s.done());
  pool.deallocate(most, 800 * kib);
}

TEST_CASE("pinned: a cache that is full makes room for another size") {
  ww::pinned_pool pool{exactly(mib)};
  std::vector<void*> const many = allocate_many(pool, 200, 4 * kib);
  void* const other = pool.allocate(8 * kib);
  free_many(pool, many, 4 * kib);
  CHECK(pool.statistics().cached_bytes == 512 * kib);
  pool.deallocate(other, 8 * kib);
  CHECK(pool.statistics().cached_bytes == 8 * kib);
  CHECK(pool.allocate(8 * kib) == other);
  pool.deallocate(other, 8 * kib);
}

TEST_CASE("pinned: threads that are gone leave their part of the budget to others") {
  constexpr std::size_t bytes = 64 * kib;
  ww::stream s;
  ww::pinned_pool pool{exactly(16 * mib)};
  std::vector<std::thread> threads;
  std::atomic<int> here{0};
  for (int t = 0; t < 32; ++t) {
    threads.emplace_back([&] {
      pool.deallocate(pool.allocate(kib), kib);
      ++here;
      while (here != 32) std::this_thread::yield();  // each has a stack, and so a shard
    });
  }
  for (std::thread& t : threads) t.join();
  auto const events_of_pairs = [&](int pairs) {
    std::uint64_t const before = pool.statistics().event_records;
    for (int i = 0; i < pairs; ++i) {
      pool.deallocate(s.ref(), pool.allocate(bytes), bytes);
      if (i % 32 == 0) s.synchronize();
    }
    return pool.statistics().event_records - before;
  };
  CHECK(events_of_pairs(100) >= 20);
  static_cast<void>(events_of_pairs(30000));
  CHECK(events_of_pairs(1000) <= 20);
  static_cast<void>(events_of_pairs(300000));
  // Nothing of the other threads, but of those that had this one's shard.
  CHECK(pool.statistics().cached_bytes % bytes < 8 * kib);
}

TEST_CASE("pinned: blocks freed on an idle stream leave few events") {
  ww::stream s;
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(64 * mib)};
#if WARPWRIGHT_HOST_RUNTIME
  testing::reset_call_counts();
#endif
  for (int i = 0; i < 20000; ++i) {
    pool.deallocate(s.ref(), pool.allocate(4096), 4096);
    if (i % 100 == 0) s.synchronize();
  }
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(testing::call_count("cudaEventCreateWithFlags") < 20);
  CHECK(testing::call_count("cudaEventQuery") < 3000);
#endif
}

TEST_CASE("pinned: frees of blocks that other threads allocate leave few events") {
  ww::stream s;
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(64 * mib)};
#if WARPWRIGHT_HOST_RUNTIME
  testing::reset_call_counts();
#endif
  // This thread never allocates, so that its own misses query nothing.
  for (int round = 0; round < 60; ++round) {
    std::vector<void*> blocks;
    std::thread{[&] { blocks = allocate_many(pool, 256, 4 * kib); }}.join();
    free_many(pool, s, blocks, 4 * kib);
    s.synchronize();
  }
  CHECK(pool.statistics().reserved_bytes == 64 * mib);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(testing::call_count("cudaEventCreateWithFlags") < 20);
#endif
}

TEST_CASE("pinned: streams that are retired may be destroyed") {
  ww::pinned_pool pool{exactly(256 * kib)};
  for (int i = 0; i < 20; ++i) {
    ww::stream s;
    pool.deallocate(s, pool.allocate(200 * kib), 200 * kib);
    pool.retire(s);
  }
  CHECK(pool.statistics().event_records == 20);
  CHECK(pool.statistics().reserved_bytes == 256 * kib);
}

TEST_CASE("pinned: a retired stream's blocks are reused when its work has completed") {
  ww::pinned_pool pool{exactly(mib)};
  std::vector<void*> const blocks = allocate_many(pool, 10, 4 * kib);
  ww::stream s;
  gate hold{s};
  free_many(pool, s, blocks, 4 * kib);
  CHECK(pool.statistics().event_records == 0);
  pool.retire(s);
  CHECK(pool.statistics().event_records == 1);
  pool.retire(s);  // nothing was freed on it since
  std::vector<void*> const others = allocate_many(pool, 246, 4 * kib);
  CHECK_FALSE(have_common(blocks, others));
  std::thread opener{[&] { hold.open_late(); }};
  std::vector<void*> const again = allocate_many(pool, 10, 4 * kib);
  CHECK(s.done());
  opener.join();
  CHECK(have_common(blocks, again));
  // The stream may come back.
  free_many(pool, s, again, 4 * kib);
  pool.retire(s);
  free_many(pool, others, 4 * kib);
  CHECK(pool.trim() == mib);
}

TEST_CASE("pinned: streams that come and go leave nothing behind") {
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(64 * mib)};
  auto const use_streams = [&pool](int count) {
    for (int i = 0; i < count; ++i) {
      ww::stream s;
      pool.deallocate(s.ref(), pool.allocate(4096), 4096);
      pool.retire(s);
      s.synchronize();
    }
  };
  use_streams(50);
#if WARPWRIGHT_HOST_RUNTIME
  auto const events = testing::stats().events;
#endif
  use_streams(3000);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(testing::stats().events <= events);
  CHECK(events < 20);
#endif
  CHECK(pool.statistics().reserved_bytes == 64 * mib);
  CHECK(pool.statistics().pending_bytes <= 16 * 4096);
}

TEST_CASE("pinned: a thread that only frees and retires leaves few events") {
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(16 * mib)};
  for (void* const block : allocate_many(pool, 1000, 4 * kib)) {
    ww::stream s;
    pool.deallocate(s.ref(), block, 4 * kib);
    pool.retire(s);
    s.synchronize();
  }
  CHECK(pool.statistics().pending_bytes <= 16 * 4 * kib);
}

TEST_CASE("pinned: a stream that several threads use is retired by one") {
  ww::pinned_pool pool{exactly(4 * mib)};
  auto s = std::make_unique<ww::stream>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) pool.deallocate(s->ref(), pool.allocate(kib), kib);
    });
  }
  for (std::thread& t : threads) t.join();
  pool.retire(*s);
  s.reset();
  void* const all = pool.allocate(4 * mib);
  CHECK(all != nullptr);
  pool.deallocate(all, 4 * mib);
}

TEST_CASE("pinned: many streams of one thread") {
  std::vector<ww::stream> const streams(200);
  ww::pinned_pool pool{exactly(8 * mib)};
  for (int i = 0; i < 4000; ++i) {
    ww::stream const& s = streams[static_cast<std::size_t>(i) * 7 % streams.size()];
    pool.deallocate(s.ref(), pool.allocate(16 * kib), 16 * kib);
  }
  void* const all = pool.allocate(8 * mib);
  CHECK(all != nullptr);
  pool.deallocate(all, 8 * mib);
}

TEST_CASE("pinned: default streams") {
  ww::pinned_pool pool{exactly(mib)};
  for (ww::stream_ref const s : {ww::stream_ref::legacy_default(), ww::stream_ref::per_thread()}) {
    gate hold{s};
    std::vector<void*> const blocks = allocate_many(pool, 10, 4 * kib);
    free_many(pool, s, blocks, 4 * kib);
    CHECK_FALSE(have_common(blocks, allocate_many(pool, 100, 4 * kib)));
    hold.open();
    static_cast<void>(pool.trim());
    CHECK(pool.statistics().pending_bytes == 0);
  }
}

TEST_CASE(
    "pinned: blocks freed on another thread's default stream are reused when memory is short") {
  ww::pinned_pool pool{exactly(64 * kib)};
  std::promise<void> freed;
  std::promise<void> stop;
  std::atomic<bool> opened{false};
  std::thread other{[&] {
    {
      gate hold{ww::stream_ref::per_thread()};
      free_many(pool, ww::stream_ref::per_thread(), allocate_many(pool, 3, 4 * kib), 4 * kib);
      freed.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds{30});
      opened = true;
      hold.open();
    }
    stop.get_future().wait();
  }};
  freed.get_future().wait();
  void* const all = pool.allocate(64 * kib);
  CHECK(opened);  // it has waited for that stream
  CHECK(pool.statistics().pending_bytes == 0);
  pool.deallocate(all, 64 * kib);
  stop.set_value();
  other.join();
}

TEST_CASE("pinned: threads that come and go leave no memory behind on their default streams") {
  ww::pinned_pool pool{ww::pinned_pool_options{}.growth_bytes(256 * kib)};
  for (int i = 0; i < 200; ++i) {
    std::thread{[&] {
      ww::stream_ref const own = ww::stream_ref::per_thread();
      free_many(pool, own, allocate_many(pool, 8, 4 * kib), 4 * kib);
      own.synchronize();
    }}.join();
  }
  // 6.25 MiB were freed in all; on a busy machine some of it is not yet done with.
  CHECK(pool.statistics().reserved_bytes <= 2 * mib);
}

TEST_CASE("pinned: own frees on the per-thread default stream need no other stream") {
  ww::pinned_pool pool{exactly(64 * kib)};
  free_many(pool, ww::stream_ref::per_thread(), allocate_many(pool, 3, 4 * kib), 4 * kib);
  ww::stream blocking_work;  // nothing waits for the legacy default stream
  gate hold{ww::stream_ref::legacy_default()};
  std::thread opener{[&] { hold.open_late(); }};
  void* const all = pool.allocate(64 * kib);
  CHECK(all != nullptr);
  opener.join();
  pool.deallocate(all, 64 * kib);
}

TEST_CASE("pinned: the destructor waits for the streams") {
  ww::stream s;
  auto pool = std::make_unique<ww::pinned_pool>(exactly(mib));
  free_many(*pool, s, allocate_many(*pool, 10, 4 * kib), 4 * kib);  // in the open batch
  pool->deallocate(s, pool->allocate(500 * kib), 500 * kib);        // behind an event
  gate hold{s};
  free_many(*pool, s, allocate_many(*pool, 10, 4 * kib), 4 * kib);
  std::thread opener{[&] { hold.open_late(); }};
  pool.reset();
  CHECK(s.done());
  opener.join();
}

TEST_CASE("pinned: trim waits for what was freed, and keeps what it is told to") {
  ww::stream s;
  ww::pinned_pool pool{ww::pinned_pool_options{}.growth_bytes(mib)};
  std::vector<void*> const blocks = allocate_many(pool, 3, mib);
  CHECK(pool.statistics().upstream_allocations == 3);
  gate hold{s};
  free_many(pool, s, blocks, mib);
  std::thread opener{[&] { hold.open_late(); }};
  CHECK(pool.trim(2 * mib) == mib);
  CHECK(s.done());
  opener.join();
  CHECK(pool.statistics().reserved_bytes == 2 * mib);
  CHECK(pool.statistics().upstream_deallocations == 1);
  CHECK(pool.trim() == 2 * mib);
  CHECK(pool.statistics().reserved_bytes == 0);
  void* const p = pool.allocate(100);
  pool.deallocate(p, 100);
}

TEST_CASE("pinned: segments that come and go") {
  ww::pinned_pool pool{ww::pinned_pool_options{}.growth_bytes(4 * kib)};
  for (std::size_t i = 1; i < 40; ++i) {
    std::vector<void*> const blocks = allocate_many(pool, 20, i * 4 * kib);
    CHECK_THROWS_WITH(pool.deallocate(blocks[3], 1), contains("wrong size"));
    free_many(pool, blocks, i * 4 * kib);
    CHECK(pool.trim() != 0);
    CHECK_THROWS_WITH(pool.deallocate(blocks[3], i * 4 * kib), contains("not from this pool"));
  }
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("pinned: streams of other devices, whichever is current") {
  testing::reset_host_runtime(testing::host_runtime_options{}.with_devices(3));
  {
    std::vector<ww::stream> streams;
    for (int device = 0; device < 3; ++device) streams.emplace_back(ww::device_id{device});
    ww::pinned_pool pool{exactly(mib)};
    for (int i = 0; i < 3000; ++i) {
      ww::check(cudaSetDevice(i % 2), "cudaSetDevice");
      pool.deallocate(streams[static_cast<std::size_t>(i % 3)], pool.allocate(kib), kib);
      CHECK(ww::current_device().value() == i % 2);
    }
    void* const all = pool.allocate(mib);
    CHECK(pool.statistics().event_records >= 3000 / 512);
    pool.deallocate(all, mib);
    // The default streams are those of the device that was current at the free.
    for (int device = 0; device < 3; ++device) {
      ww::check(cudaSetDevice(device), "cudaSetDevice");
      gate hold{ww::stream_ref::legacy_default()};
      pool.deallocate(ww::stream_ref::legacy_default(), pool.allocate(kib), kib);
      ww::check(cudaSetDevice((device + 1) % 3), "cudaSetDevice");
      std::thread opener{[&] { hold.open_late(); }};
      void* const again = pool.allocate(mib);
      ww::check(cudaSetDevice(device), "cudaSetDevice");
      CHECK(ww::stream_ref::legacy_default().done());
      opener.join();
      pool.deallocate(again, mib);
    }
    ww::check(cudaSetDevice(0), "cudaSetDevice");
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  testing::reset_host_runtime();
}

TEST_CASE("pinned: a stream of another device is not waited for at a buffer's destruction") {
  testing::reset_host_runtime(testing::host_runtime_options{}.with_devices(2));
  {
    ww::stream s{ww::device_id{1}};
    ww::pinned_pool pool{exactly(mib)};
    for (int i = 0; i < 3; ++i) {
      gate held{s};
      testing::reset_call_counts();
      { ww::pinned_buffer<char> const buffer{pool, s.ref(), 1000}; }
      CHECK(testing::call_count("cudaStreamSynchronize") == 0);
      CHECK(ww::current_device().value() == 0);
    }
    CHECK(pool.statistics().pending_bytes == 3 * kib);
  }
  testing::reset_host_runtime();
}

#endif
