// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The caches of a pool alone, over a heap of addresses that nobody touches.
#include "memory/pool_parts_support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/detail/caches/stream_caches.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace ww = warpwright;
using test_support::unit;
using ww::detail::front_cache;
using ww::detail::heap_guard;
using ww::detail::stream_caches;
using ww::detail::thread_cache;

namespace {

constexpr std::uint64_t budget = 8 * unit;

struct cached_heap : test_support::tracked_heap {
  stream_caches caches{heap, streams};

  void* allocate_pointer(std::uint64_t units = 1) {
    heap_guard const lock{heap.lock};
    std::uint32_t const node = allocate(ww::detail::block_heap::ready, units);
    return ww::detail::pointer_to(heap.blocks.at(node).address);
  }
  // A stream's id is what its cache depends on.
  stream_caches::put_result put(ww::stream const& s, std::uint64_t id, void* p,
                                std::uint64_t units = 1) {
    return caches.put_making_room(s, id, p, units * unit, budget);
  }
  stream_caches::put_result put(ww::stream const& s, void* p, std::uint64_t units = 1) {
    return put(s, s.id(), p, units);
  }
  // Units of free memory in a stream's list of the heap.
  [[nodiscard]] std::uint64_t listed(std::uint64_t id) const {
    return heap.blocks.bytes_in(streams.find(id)) / unit;
  }
  [[nodiscard]] int count_caches() const {
    int count = 0;
    stream_caches::all_locks const all{caches};
    all.for_each_cache([&](front_cache const&) { ++count; });
    return count;
  }
  [[nodiscard]] std::uint64_t live() const { return heap.blocks.live_bytes() / unit; }
};

using result = stream_caches::put_result;

}  // namespace

TEST_CASE("a stream takes back what it freed, by exact size") {
  cached_heap t;
  ww::stream s;
  void* const p = t.allocate_pointer();
  CHECK_FALSE(t.caches.put(s.id(), p, unit));  // the first free creates the cache
  CHECK(t.put(s, p) == result::stored);
  CHECK(t.live() == 1);  // for the heap the block is live
  CHECK(t.caches.take(s.id(), 2 * unit) == nullptr);
  CHECK(t.caches.take(s.id(), unit) == p);
  CHECK(t.caches.take(s.id(), unit) == nullptr);
  CHECK(t.caches.put(s.id(), p, unit));
  CHECK(t.caches.take(s.id(), unit) == p);
}

TEST_CASE("a stream does not take what another freed") {
  cached_heap t;
  ww::stream s;
  CHECK(t.put(s, t.allocate_pointer()) == result::stored);
  CHECK(t.caches.take(s.id() + 1, unit) == nullptr);
  // Of the same shard.
  CHECK(t.caches.take(s.id() + stream_caches::shard_count, unit) == nullptr);
  CHECK_FALSE(t.caches.put(s.id() + stream_caches::shard_count, t.allocate_pointer(), unit));
}

TEST_CASE("an empty shard passes to another of its streams at once") {
  cached_heap t;
  ww::stream s;
  ww::stream next;
  std::uint64_t const id = s.id() + stream_caches::shard_count;
  CHECK(t.put(s, t.allocate_pointer()) == result::stored);
  void* const p = t.caches.take(s.id(), unit);
  CHECK(t.put(next, id, p) == result::stored);
  CHECK(t.caches.take(id, unit) == p);
  CHECK(t.streams.caches(t.streams.find(s.id())) == 0);
  CHECK(t.streams.caches(t.streams.find(id)) == 1);
}

TEST_CASE("an occupied shard passes to another stream at its 64th free") {
  cached_heap t;
  ww::stream s;
  ww::stream other;
  std::uint64_t const id = s.id() + stream_caches::shard_count;
  CHECK(t.put(s, t.allocate_pointer()) == result::stored);
  void* const p = t.allocate_pointer();
  for (int i = 1; i < 64; ++i) CHECK(t.put(other, id, p) == result::not_stored);
  CHECK(t.listed(s.id()) == 0);
  CHECK(t.put(other, id, p) == result::stored);
  CHECK(t.listed(s.id()) == 1);  // not other's: s may still use it
  CHECK(t.put(s, t.allocate_pointer()) == result::not_stored);
  CHECK(t.caches.take(id, unit) == p);
}

TEST_CASE("a full cache frees the older half of a size into the stream's list") {
  cached_heap t;
  ww::stream s;
  void* blocks[9];
  for (void*& p : blocks) p = t.allocate_pointer();
  for (int i = 0; i < 8; ++i) CHECK(t.put(s, blocks[i]) == result::stored);
  CHECK_FALSE(t.caches.put(s.id(), blocks[8], unit));
  CHECK(t.listed(s.id()) == 0);
  CHECK(t.put(s, blocks[8]) == result::stored);
  CHECK(t.listed(s.id()) == 4);
  for (int i = 8; i >= 4; --i) CHECK(t.caches.take(s.id(), unit) == blocks[i]);
  CHECK(t.caches.take(s.id(), unit) == nullptr);
}

TEST_CASE("a block that is freed twice in a row is reported") {
  cached_heap t;
  ww::stream s;
  void* const p = t.allocate_pointer();
  void* const large = t.allocate_pointer(9);
  CHECK(t.put(s, p) == result::stored);
  CHECK(t.put(s, p) == result::double_free);
  CHECK(t.put(s, large, 9) == result::stored);
  CHECK(t.caches.take(s.id(), unit) == p);
}

TEST_CASE("one block above the budget is cached, the newest") {
  cached_heap t;
  ww::stream s;
  void* const first = t.allocate_pointer(9);
  void* const second = t.allocate_pointer(10);
  CHECK(t.put(s, first, 9) == result::stored);
  // Not a block of the heap: it must not evict one.
  CHECK(t.put(s, ww::detail::pointer_to(4096), 10) == result::not_stored);
  CHECK(t.listed(s.id()) == 0);
  CHECK(t.put(s, second, 10) == result::stored);
  CHECK(t.listed(s.id()) == 9);
  t.caches.flush_large(s.id() + stream_caches::shard_count);  // of another stream
  CHECK(t.listed(s.id()) == 9);
  t.caches.flush_large(s.id());
  CHECK(t.listed(s.id()) == 19);
  CHECK(t.caches.take(s.id(), 10 * unit) == nullptr);
}

TEST_CASE("flushing frees what all caches hold, each into its stream's list") {
  cached_heap t;
  ww::stream a;
  ww::stream b;
  thread_cache mine;
  mine.blocks.set_budget(budget);
  CHECK(t.put(a, t.allocate_pointer()) == result::stored);
  CHECK(t.put(a, t.allocate_pointer(2), 2) == result::stored);
  CHECK(t.put(a, t.allocate_pointer(9), 9) == result::stored);
  t.caches.add(mine, b, b.id());
  CHECK(t.caches.put_making_room(mine, t.allocate_pointer(3), 3 * unit) ==
        front_cache::put_result::stored);
  t.caches.flush_all();
  CHECK(t.listed(a.id()) == 12);
  CHECK(t.listed(b.id()) == 3);
  CHECK(t.live() == 0);
  CHECK(t.put(a, t.allocate_pointer()) == result::stored);  // a keeps its cache
  t.caches.flush_shard(a.id());
  CHECK(t.listed(a.id()) == 13);
  t.caches.remove(mine);
}

TEST_CASE("a stream whose shard is released has no cache until its next free") {
  cached_heap t;
  ww::stream s;
  CHECK(t.put(s, t.allocate_pointer()) == result::stored);
  t.caches.release(s.id() + stream_caches::shard_count);  // not its stream
  CHECK(t.streams.caches(t.streams.find(s.id())) == 1);
  t.caches.release(s.id());
  CHECK(t.streams.caches(t.streams.find(s.id())) == 0);
  CHECK(t.listed(s.id()) == 1);
  void* const p = t.allocate_pointer();
  CHECK_FALSE(t.caches.put(s.id(), p, unit));
  CHECK(t.put(s, p) == result::stored);
}

TEST_CASE("a batch is served up to the first block that the cache does not have") {
  cached_heap t;
  ww::stream s;
  std::size_t const sizes[] = {unit, 2 * unit - 100, unit, 3 * unit, unit};  // rounded up
  void* given[] = {t.allocate_pointer(), t.allocate_pointer(2), t.allocate_pointer()};
  CHECK(t.caches.put(s.id(), given, sizes, 3, [](void*) { return true; }) == 0);  // no cache yet
  CHECK(t.put(s, given[0]) == result::stored);
  CHECK(t.caches.put(s.id(), given + 1, sizes + 1, 2, [](void*) { return true; }) == 2);
  void* taken[5] = {};
  CHECK(t.caches.take(s.id(), sizes, taken, 5) == 3);
  CHECK(taken[0] == given[2]);  // the last freed first
  CHECK(taken[1] == given[1]);
  CHECK(taken[2] == given[0]);
  CHECK(taken[3] == nullptr);
  CHECK(t.caches.take(s.id() + stream_caches::shard_count, sizes, taken, 5) == 0);
}

TEST_CASE("a batch is stored up to the first block that is not accepted or has no room") {
  cached_heap t;
  ww::stream s;
  CHECK(t.put(s, t.allocate_pointer()) == result::stored);
  CHECK(t.caches.take(s.id(), unit) != nullptr);
  std::size_t const sizes[] = {6 * unit, unit, 2 * unit, unit};
  void* given[] = {t.allocate_pointer(6), t.allocate_pointer(), t.allocate_pointer(2),
                   t.allocate_pointer()};
  auto const accepts = [&](void* p) { return p != given[1]; };
  CHECK(t.caches.put(s.id(), given, sizes, 4, accepts) == 1);
  CHECK(t.caches.put(s.id(), given + 1, sizes + 1, 3, [](void*) { return true; }) == 1);
}

TEST_CASE("of the per-thread default stream an event is due after 64 frees") {
  cached_heap t;
  ww::stream_ref const own = ww::stream_ref::per_thread();
  void* const p = t.allocate_pointer();
  void* const large = t.allocate_pointer(9);
  auto const put = [&](void* pointer, std::uint64_t bytes) {
    return t.caches.put_making_room(own, 7, pointer, bytes, budget);
  };
  for (int round = 0; round < 2; ++round) {
    for (int i = 1; i < 64; ++i) {
      CHECK(put(p, unit) == result::stored);
      CHECK(t.caches.take(7, unit) == p);
    }
    CHECK(put(p, unit) == result::stored_and_event_due);
    CHECK(t.caches.take(7, unit) == p);
  }
  CHECK(put(large, 9 * unit) == result::not_stored);  // it needs an event at once
  std::size_t const size = unit;
  CHECK(t.caches.put(7, &p, &size, 1, [](void*) { return true; }) == 0);
}

TEST_CASE("a cache made by hand counts its calls and frees its blocks when it is removed") {
  cached_heap t;
  ww::stream s;
  thread_cache first;
  thread_cache second;
  thread_cache third;
  for (thread_cache* cache : {&first, &second, &third}) {
    cache->blocks.set_budget(budget);
    t.caches.add(*cache, s, s.id());
  }
  CHECK(t.streams.caches(t.streams.find(s.id())) == 3);
  void* const p = t.allocate_pointer();
  CHECK(t.caches.put_making_room(second, p, unit) == front_cache::put_result::stored);
  CHECK(second.blocks.take(unit) == p);
  CHECK(t.caches.put_making_room(second, p, unit) == front_cache::put_result::stored);
  CHECK(t.caches.put_making_room(first, t.allocate_pointer(), unit) ==
        front_cache::put_result::stored);
  t.caches.remove(second);
  CHECK(t.listed(s.id()) == 1);
  CHECK(t.heap.counters.cache_hits == 1);
  CHECK(t.heap.counters.hits == 1);
  CHECK(t.heap.counters.allocations == 1);
  CHECK(t.heap.counters.deallocations == 2);
  CHECK(t.count_caches() == 2);
  t.caches.remove(first);
  CHECK(t.count_caches() == 1);
  t.caches.remove(third);
  CHECK(t.count_caches() == 0);
  CHECK(t.listed(s.id()) == 2);
  CHECK(t.streams.caches(t.streams.find(s.id())) == 0);
}

TEST_CASE("a full cache made by hand evicts, but not for a block above its budget") {
  cached_heap t;
  ww::stream s;
  thread_cache mine;
  mine.blocks.set_budget(budget);
  t.caches.add(mine, s, s.id());
  for (int i = 0; i < 9; ++i) {
    CHECK(t.caches.put_making_room(mine, t.allocate_pointer(), unit) ==
          front_cache::put_result::stored);
  }
  CHECK(t.listed(s.id()) == 4);
  CHECK(t.caches.put_making_room(mine, t.allocate_pointer(9), 9 * unit) ==
        front_cache::put_result::stored);
  CHECK(t.caches.put_making_room(mine, t.allocate_pointer(9), 9 * unit) ==
        front_cache::put_result::full);
  CHECK(t.listed(s.id()) == 4);
  t.caches.remove(mine);
}

TEST_CASE("a snapshot sees every cache, while calls wait") {
  cached_heap t;
  ww::stream s;
  thread_cache mine;
  mine.blocks.set_budget(budget);
  t.caches.add(mine, s, s.id());
  CHECK(t.put(s, t.allocate_pointer(2), 2) == result::stored);
  CHECK(t.caches.put_making_room(mine, t.allocate_pointer(), unit) ==
        front_cache::put_result::stored);
  std::uint64_t bytes = 0;
  std::atomic<int> done{0};
  std::thread of_shard;
  std::thread of_cache;
  std::thread of_heap;
  {
    stream_caches::all_locks const all{t.caches};
    of_shard = std::thread{[&] {
      static_cast<void>(t.caches.take(s.id(), unit));
      ++done;
    }};
    of_cache = std::thread{[&] {
      static_cast<void>(t.caches.put_making_room(mine, nullptr, 0));
      ++done;
    }};
    of_heap = std::thread{[&] {
      heap_guard const lock{t.heap.lock};
      ++done;
    }};
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    CHECK(done == 0);
    all.for_each_cache([&](front_cache const& cache) { bytes += cache.cached_bytes(); });
  }
  CHECK(bytes == 3 * unit);
  of_shard.join();
  of_cache.join();
  of_heap.join();
  t.caches.remove(mine);
}
