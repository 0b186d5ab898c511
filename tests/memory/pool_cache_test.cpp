// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The caches in front of a pool's heap: each stream's cache, and memory_cache.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/pool.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::all_are;
using test_support::fetch;
using test_support::fill;
using test_support::gate;

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
ww::device_id const device{0};

}  // namespace

TEST_CASE("a freed block of the same size is served by the cache, last in, first out") {
  ww::stream s;
  ww::memory_pool pool{device};
  void* const a = pool.allocate(s, 4096);
  void* const b = pool.allocate(s, 4096);
  CHECK(pool.statistics().cache_hits == 0);
  pool.deallocate(s, a, 4096);
  pool.deallocate(s, b, 4096);
  CHECK(pool.statistics().cached_bytes == 8192);
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.statistics().live_blocks == 0);
  CHECK(pool.allocate(s, 4096) == b);
  CHECK(pool.allocate(s, 4000) == a);  // the same granules
  CHECK(pool.statistics().cache_hits == 2);
  CHECK(pool.statistics().hits >= 2);
  CHECK(pool.statistics().cached_bytes == 0);
  CHECK(pool.statistics().live_bytes == 8192);
  pool.deallocate(s, a, 4000);
  pool.deallocate(s, b, 4096);
}

TEST_CASE("another size is not served from the cache's block") {
  ww::stream s;
  ww::memory_pool pool{device};
  void* const a = pool.allocate(s, 8192);
  pool.deallocate(s, a, 8192);
  void* const b = pool.allocate(s, 4096);
  CHECK(b != a);
  pool.deallocate(s, b, 4096);
}

TEST_CASE("another stream does not get a cached block before its donor has completed the free") {
  ww::stream donor;
  ww::stream taker;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(2 * mib)};
  void* const p = pool.allocate(donor, 2 * mib);
  gate hold{donor};
  fill(donor, p, 1, 2 * mib);
  pool.deallocate(donor, p, 2 * mib);
  CHECK(pool.statistics().cached_bytes == 2 * mib);
  void* const q = pool.allocate(taker, 2 * mib);
  CHECK(q == p);
  CHECK(pool.statistics().stream_waits == 1);
  CHECK(pool.statistics().cached_bytes == 0);
  fill(taker, q, 2, 2 * mib);
  hold.open_late();
  donor.synchronize();
  CHECK(all_are(fetch(taker, q, 2 * mib), 2));
  pool.deallocate(taker, q, 2 * mib);
}

TEST_CASE("a cache stays within its budget, and the rest goes to the heap") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.cache_bytes(8 * kib)};
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(pool.allocate(s, 2 * kib));
  for (void* p : blocks) pool.deallocate(s, p, 2 * kib);
  CHECK(pool.statistics().cached_bytes <= 8 * kib);
  CHECK(pool.statistics().cached_bytes > 0);
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.trim() == pool.statistics().reserved_peak_bytes);
  ww::memory_pool none{device, ww::memory_pool_options{}.cache_bytes(0)};
  for (int i = 0; i < 3; ++i) none.deallocate(s, none.allocate(s, 256), 256);
  CHECK(none.statistics().cache_hits == 0);
  CHECK(none.statistics().hits == 2);
}

TEST_CASE("one block larger than the budget is cached in addition") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.cache_bytes(8 * kib).max_bytes(4 * mib)};
  bool const by_hand = GENERATE(false, true);
  std::size_t const bytes = by_hand ? 2 * mib : mib;
  {
    ww::memory_cache cache = pool.make_cache(s, 8 * kib);
    auto const allocate = [&] { return by_hand ? cache.allocate(bytes) : pool.allocate(s, bytes); };
    auto const free = [&](void* p, std::size_t n) {
      by_hand ? cache.deallocate(p, n) : pool.deallocate(s, p, n);
    };
    void* const a = allocate();
    void* const b = allocate();
    free(a, bytes);
    CHECK(pool.statistics().cached_bytes == bytes);
    CHECK_THROWS_WITH(free(a, bytes), contains("not from this pool") || contains("double free"));
    // The newer block replaces it; the second block of a memory_cache goes to the stream's cache.
    free(b, bytes);
    CHECK(pool.statistics().cached_bytes == (by_hand ? 2 * bytes : bytes));
    CHECK(pool.statistics().live_bytes == 0);
    void* const again = allocate();
    CHECK(again == (by_hand ? a : b));
    CHECK(pool.statistics().cached_bytes == (by_hand ? bytes : 0));
    CHECK(pool.statistics().cache_hits == 1);
    free(again, bytes);
    // Another size, and another stream, can still use its memory.
    ww::stream other;
    void* const all = pool.allocate(other, 4 * mib);
    CHECK(pool.statistics().cached_bytes == 0);
    CHECK(pool.statistics().live_bytes == 4 * mib);
    pool.deallocate(other, all, 4 * mib);
    pool.retire(other);
  }
  CHECK(pool.trim() == 4 * mib);
}

TEST_CASE("a batch is served wherever single calls would be") {
  ww::stream s;
  std::size_t const sizes[] = {3 * mib, mib};
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(4 * mib).initial_bytes(4 * mib)};
  void* const x = pool.allocate(s, mib - 256);
  void* const b = pool.allocate(s, mib);
  void* const z = pool.allocate(s, 2 * mib + 256);
  pool.deallocate(s, x, mib - 256);
  pool.deallocate(s, z, 2 * mib + 256);
  pool.deallocate(s, b, mib);
  void* blocks[2] = {};
  pool.allocate_batch(s, sizes, blocks, 2);  // the cached MiB is in the middle of the other block
  CHECK(pool.statistics().live_bytes == 4 * mib);
  pool.deallocate_batch(s, blocks, sizes, 2);
}

TEST_CASE("a large block freed twice is detected, after any other calls and on every stream") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.cache_bytes(8 * kib)};
  for (ww::stream_ref const on : {s.ref(), ww::stream_ref::per_thread()}) {
    void* const a = pool.allocate(on, mib);
    void* const c = pool.allocate(on, 2 * mib);
    pool.deallocate(on, a, mib);
    pool.deallocate(on, c, 2 * mib);
    CHECK_THROWS_WITH(pool.deallocate(on, a, mib),
                      contains("not from this pool") || contains("double free"));
    CHECK(pool.statistics().live_blocks == 0);
  }
  pool.retire(ww::stream_ref::per_thread());
}

TEST_CASE("more blocks of a size than a slot holds, and more sizes than there are slots") {
  ww::stream s;
  ww::memory_pool pool{device};
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 100; ++i) blocks.push_back(pool.allocate(s, 256));
  for (std::size_t i = 0; i < 400; ++i) blocks.push_back(pool.allocate(s, 256 * (i + 2)));
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      pool.deallocate(s, blocks[i], i < 100 ? 256 : 256 * (i - 98));
    }
    CHECK(pool.statistics().live_bytes == 0);
    CHECK(pool.statistics().live_blocks == 0);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      blocks[i] = pool.allocate(s, i < 100 ? 256 : 256 * (i - 98));
    }
    CHECK(pool.statistics().live_blocks == 500);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    pool.deallocate(s, blocks[i], i < 100 ? 256 : 256 * (i - 98));
  }
  CHECK(pool.trim() == pool.statistics().reserved_peak_bytes);
}

TEST_CASE("more streams than shards share them") {
  std::vector<ww::stream> streams(200);
  ww::memory_pool pool{device};
  for (int round = 0; round < 70; ++round) {
    for (ww::stream const& s : streams) pool.deallocate(s, pool.allocate(s, 1024), 1024);
  }
  ww::pool_statistics const after = pool.statistics();
  CHECK(after.live_blocks == 0);
  CHECK(after.allocations == 200 * 70);
  CHECK(after.deallocations == 200 * 70);
  CHECK(after.reserved_bytes <= 4 * mib);
  CHECK(pool.trim() == after.reserved_bytes);
}

TEST_CASE("a memory_cache") {
  ww::stream s;
  ww::stream other;
  ww::memory_pool pool{device};
  {
    ww::memory_cache cache = pool.make_cache(s, 64 * kib);
    CHECK(cache.stream() == s.ref());
    CHECK(cache.device() == device);
    CHECK(&cache.pool() == &pool);
    CHECK(cache.allocate(0) == nullptr);
    cache.deallocate(nullptr, 0);
    void* const p = cache.allocate(1000);
    REQUIRE(p != nullptr);
    fill(s, p, 3, 1000);
    CHECK(all_are(fetch(s, p, 1000), 3));
    cache.deallocate(p, 1000);
    CHECK(pool.statistics().cached_bytes == 1024);
    CHECK(cache.allocate(1000) == p);
    CHECK(pool.statistics().cache_hits == 1);
    // The pool's interface, for generic code.
    cache.deallocate(s, p, 1000);
    CHECK(cache.allocate(s, 1000) == p);
    void* const q = cache.allocate(other, 1000);
    CHECK(q != p);
    CHECK(q != nullptr);
    cache.deallocate(other, q, 1000);
    void* const aligned = cache.try_allocate(s, 1000, 4096);
    CHECK(reinterpret_cast<std::uintptr_t>(aligned) % 4096 == 0);
    cache.deallocate(s, aligned, 1000);
    pool.deallocate(s, p, 1000);  // allocated in the cache, freed in the pool
    std::vector<void*> many;
    for (int i = 0; i < 100; ++i) many.push_back(cache.allocate(4 * kib));
    for (void* m : many) cache.deallocate(m, 4 * kib);
    CHECK_THROWS_WITH(cache.deallocate(many.back(), 4 * kib), contains("double free"));
    CHECK(pool.statistics().live_bytes == 0);
    cache.clear();
    CHECK_THROWS_WITH(pool.retire(s), contains("memory_cache"));
  }
  CHECK(pool.statistics().live_blocks == 0);
  CHECK(pool.statistics().allocations == pool.statistics().deallocations);
  pool.retire(s);
  CHECK(pool.trim() == pool.statistics().reserved_peak_bytes);
}

TEST_CASE("a memory_cache's blocks return to the pool when memory is short") {
  ww::stream s;
  ww::stream other;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(4 * mib)};
  ww::memory_cache cache = pool.make_cache(s);
  cache.deallocate(cache.allocate(4 * mib), 4 * mib);
  CHECK(pool.statistics().cached_bytes == 4 * mib);
  void* const p = pool.allocate(other, 3 * mib);
  CHECK(p != nullptr);
  pool.deallocate(other, p, 3 * mib);
}

TEST_CASE("the pool takes blocks from caches in use") {
  std::vector<ww::stream> const streams(4);
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(8 * mib).max_wait_seconds(0.0)};
  std::vector<std::string> errors(streams.size());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < errors.size(); ++t) {
    threads.emplace_back([&, t] {
      try {
        ww::stream const& s = streams[t];
        ww::memory_cache cache = pool.make_cache(s);
        std::size_t const sizes[] = {256, 64 * kib, mib, 300 * kib};
        std::vector<std::pair<void*, std::size_t>> live;
        for (std::size_t i = 0; i < 1500; ++i) {
          std::size_t const bytes = sizes[(i * 7 + t) % 4];
          if (void* const p = cache.try_allocate(s, bytes)) live.emplace_back(p, bytes);
          if (live.size() > 2 || i % 3 == 0) {
            if (live.empty()) continue;
            cache.deallocate(live.front().first, live.front().second);
            live.erase(live.begin());
          }
          if (i % 256 == 0) static_cast<void>(pool.statistics());
        }
        for (auto const& b : live) cache.deallocate(b.first, b.second);
      } catch (std::exception const& e) {
        errors[t] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (std::string const& e : errors) CHECK(e == "");
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.statistics().cached_bytes == 0);
}

TEST_CASE("several blocks at once: all or none") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(8 * mib)};
  std::size_t const sizes[] = {100, 0, 2 * mib, 3 * mib};
  void* blocks[4] = {};
  pool.allocate_batch(s, sizes, blocks, 4);
  CHECK(blocks[0] != nullptr);
  CHECK(blocks[1] == nullptr);
  CHECK(blocks[3] != nullptr);
  CHECK(pool.statistics().live_blocks == 3);
  std::size_t const too_much[] = {mib, 7 * mib};
  void* none[2] = {};
  CHECK_THROWS_AS(pool.allocate_batch(s, too_much, none, 2), ww::out_of_memory);
  CHECK(pool.statistics().live_blocks == 3);
  pool.deallocate_batch(s, blocks, sizes, 4);
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("a batch is served by the cache as far as possible, and freed into it") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(4 * mib)};
  std::size_t const sizes[] = {1000, 5000, 1000, mib};
  void* first[4] = {};
  pool.allocate_batch(s, sizes, first, 4);
  pool.deallocate_batch(s, first, sizes, 4);
  std::uint64_t const cached = pool.statistics().cached_bytes;
  CHECK(cached == 1024 + 5120 + 1024 + mib);
  void* again[4] = {};
  pool.allocate_batch(s, sizes, again, 4);
  CHECK(pool.statistics().cache_hits == 4);
  CHECK(again[0] == first[2]);  // last in, first out
  CHECK(again[1] == first[1]);
  CHECK(again[2] == first[0]);
  CHECK(again[3] == first[3]);
  pool.deallocate_batch(s, again, sizes, 4);

  // Blocks from the cache are freed again when the rest cannot be allocated.
  std::size_t const too_much[] = {1000, 8 * mib, 5000};
  void* none[3] = {};
  CHECK_THROWS_AS(pool.allocate_batch(s, too_much, none, 3), ww::out_of_memory);
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.statistics().live_blocks == 0);

  // Blocks before a rejected one are freed, blocks behind it are not.
  pool.allocate_batch(s, sizes, first, 4);
  void* const twice[] = {first[1], first[0], first[0], first[2]};
  std::size_t const bytes[] = {5000, 1000, 1000, 1000};
  CHECK_THROWS_WITH(pool.deallocate_batch(s, twice, bytes, 4),
                    contains("not from this pool") || contains("double free"));
  CHECK(pool.statistics().live_blocks == 2);
  pool.deallocate_batch(s, first + 2, sizes + 2, 2);
  CHECK(pool.statistics().live_blocks == 0);
  pool.allocate_batch(s, nullptr, nullptr, 0);
  pool.deallocate_batch(s, nullptr, nullptr, 0);
}

TEST_CASE("a block with record_use() is reused only after both streams have completed") {
  ww::stream first;
  ww::stream second;
  bool const checked = GENERATE(false, true);
  ww::memory_pool pool{
      device, ww::memory_pool_options{}.max_bytes(2 * mib).max_wait_seconds(0.0).checked(checked)};
  void* const p = pool.allocate(first, 2 * mib);
  {
    gate hold{second};
    fill(second, p, 1, 2 * mib);
    pool.record_use(second, p);
    pool.record_use(second, p);  // once is enough
    pool.record_use(first, p);
    pool.deallocate(first, p, 2 * mib);
    CHECK(pool.statistics().live_bytes == 0);
    if (checked) {
      CHECK_THROWS_WITH(pool.deallocate(first, p, 2 * mib), contains("double free"));
    }
    std::thread opener{[&] { hold.open_late(); }};
    void* const q = pool.allocate(first, 2 * mib);  // out of memory except for p: waits on the host
    CHECK(q == p);
    opener.join();
    fill(first, q, 2, 2 * mib);
    CHECK(all_are(fetch(first, q, 2 * mib), 2));
    pool.deallocate(first, q, 2 * mib);
  }
  int on_the_stack = 0;
  CHECK_THROWS_WITH(pool.record_use(second, &on_the_stack), contains("not from this pool"));
  CHECK(pool.trim() == 2 * mib);
}

TEST_CASE("out_of_memory names what occupies the memory") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(4 * mib).checked()};
  void* const p = pool.allocate(s, 3 * mib);
  CHECK_THROWS_WITH(pool.allocate(s, 2 * mib), contains("Live, allocated at: ") &&
                                                   contains("pool_cache_test.cpp") &&
                                                   contains("3145728 bytes"));
  pool.deallocate(s, p, 3 * mib);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("caches make no CUDA call") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.initial_bytes(2 * mib)};
  ww::stream_ref const kept = s.ref().resolved();
  pool.deallocate(kept, pool.allocate(kept, 1000), 1000);
  ww::memory_cache cache = pool.make_cache(kept);
  ww::testing::reset_call_counts();
  for (int i = 0; i < 100; ++i) {
    pool.deallocate(kept, pool.allocate(kept, 1000), 1000);
    cache.deallocate(cache.allocate(1000), 1000);
    cache.deallocate(kept, cache.allocate(kept, 1000), 1000);
    std::size_t const sizes[] = {1000, 1000};
    void* blocks[2] = {};
    pool.allocate_batch(kept, sizes, blocks, 2);
    pool.deallocate_batch(kept, blocks, sizes, 2);
  }
  CHECK(ww::testing::total_calls() == 0);
}

#endif
