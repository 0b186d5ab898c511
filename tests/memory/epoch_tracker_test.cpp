// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The epoch tracker alone, over a heap of addresses that nobody touches.
#include "memory/pool_parts_support.hpp"
#include "support/catch.hpp"

#include <cstdint>

namespace ww = warpwright;
using test_support::gate;
using test_support::here;
using test_support::tracked_heap;
using test_support::unit;
using ww::detail::block_heap;
using ww::detail::epoch_tracker;
using ww::detail::heap_guard;

TEST_CASE("a free is ready when an event recorded behind it has completed") {
  tracked_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  std::uint32_t const list = t.list_of(s);
  std::uint32_t const node = t.allocate(block_heap::ready, 64);
  {
    gate hold{s};
    t.streams.free(node, list);
    CHECK_FALSE(t.streams.is_covered(list));
    CHECK(t.streams.poll(lock, 0, true, here).pending);
    CHECK(t.streams.is_covered(list));
    CHECK(t.heap.blocks.empty(block_heap::ready));
  }
  CHECK(t.streams.poll(lock, 0, false, here).completed);
  CHECK(t.heap.blocks.empty(list));
  CHECK(t.heap.blocks.bytes_in(block_heap::ready) == 64 * unit);
}

TEST_CASE("an event does not cover what is freed after it") {
  tracked_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  std::uint32_t const list = t.list_of(s);
  std::uint32_t const first = t.allocate(block_heap::ready);
  std::uint32_t const between = t.allocate(block_heap::ready);
  std::uint32_t const second = t.allocate(block_heap::ready);
  t.streams.free(first, list);
  CHECK(t.streams.record(lock, list, 0, here));
  t.streams.free(second, list);
  CHECK_FALSE(t.streams.is_covered(list));
  s.synchronize();
  CHECK(t.streams.poll(lock, 0, false, here).completed);
  CHECK(t.heap.blocks.bytes_in(list) == unit);  // the second
  static_cast<void>(between);
}

TEST_CASE("one event covers any number of frees, and a covered list records no other") {
  tracked_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  std::uint32_t const list = t.list_of(s);
  gate hold{s};
  for (int i = 0; i < 20; ++i) t.streams.free(t.allocate(block_heap::ready), list);
  CHECK(t.streams.close_epoch(lock, list, 0, here));
  CHECK(t.streams.close_epoch(lock, list, 0, here));
  CHECK(t.heap.counters.event_records == 1);
}

TEST_CASE("a stream waits once for an epoch of another") {
  tracked_heap t;
  ww::stream donor;
  ww::stream taker;
  heap_guard lock{t.heap.lock};
  std::uint32_t const from = t.list_of(donor);
  std::uint32_t const own = t.list_of(taker);
  std::uint32_t const node = t.allocate(block_heap::ready);
  t.streams.free(node, from);
  std::uint64_t const epoch = t.heap.blocks.newest_epoch(from);
  using cost = epoch_tracker::order_cost;
  CHECK(t.streams.cost_of(own, from, epoch) == cost::record_and_wait);
  CHECK(t.streams.record(lock, from, 0, here));
  CHECK(t.streams.cost_of(own, from, epoch) == cost::wait);
  t.streams.wait_on(lock, own, taker, from, epoch, here);
  CHECK(t.streams.cost_of(own, from, epoch) == cost::none);
  t.streams.wait_on(lock, own, taker, from, epoch, here);
  CHECK(t.heap.counters.stream_waits == 1);
  CHECK(t.streams.cost_of(own, from, epoch + 1) == cost::record_and_wait);
}

TEST_CASE("merging moves the blocks of all streams behind one wait each") {
  tracked_heap t;
  ww::stream a;
  ww::stream b;
  ww::stream taker;
  heap_guard lock{t.heap.lock};
  std::uint32_t const own = t.list_of(taker);
  std::uint32_t const in_a = t.list_of(a);
  std::uint32_t const in_b = t.list_of(b);
  std::uint32_t nodes[32];
  for (std::uint32_t& node : nodes) node = t.allocate(block_heap::ready, 2);
  for (int i = 0; i < 32; ++i) t.streams.free(nodes[i], i % 2 == 0 ? in_a : in_b);
  t.streams.merge_into(lock, own, taker, here);
  CHECK(t.heap.counters.stream_waits == 2);
  CHECK(t.heap.blocks.bytes_in(own) == 64 * unit);
  CHECK(t.heap.blocks.at(t.heap.blocks.oldest(own)).bytes == 64 * unit);  // one block
}

TEST_CASE("a retired stream's frees become ready, and its number passes on") {
  tracked_heap t;
  std::uint32_t list = 0;
  heap_guard lock{t.heap.lock};
  {
    ww::stream s;
    list = t.list_of(s);
    t.streams.free(t.allocate(block_heap::ready), list);
    CHECK(t.streams.retire(lock, list, 0, here));
    t.streams.forget(ww::stream_ref{s}.id());
    CHECK(t.streams.handle(list) == nullptr);
    s.synchronize();
  }
  CHECK(t.streams.poll(lock, 0, true, here).completed);
  ww::stream next;
  CHECK(t.list_of(next) == list);
}

TEST_CASE("the stream that takes over a number waits for itself") {
  tracked_heap t;
  using cost = epoch_tracker::order_cost;
  ww::stream donor;
  ww::stream before;
  ww::stream after;
  heap_guard lock{t.heap.lock};
  std::uint32_t const from = t.list_of(donor);
  t.streams.free(t.allocate(block_heap::ready), from);
  std::uint64_t const epoch = t.heap.blocks.newest_epoch(from);
  CHECK(t.streams.record(lock, from, 0, here));
  std::uint32_t const own = t.list_of(before);
  t.streams.wait_on(lock, own, before, from, epoch, here);
  CHECK(t.streams.retire(lock, own, 0, here));
  t.streams.forget(ww::stream_ref{before}.id());
  REQUIRE(t.list_of(after) == own);
  CHECK(t.streams.cost_of(own, from, epoch) == cost::wait);
}

TEST_CASE(
    "nobody can be ordered behind what a retired or another thread's stream has freed since") {
  tracked_heap t;
  using cost = epoch_tracker::order_cost;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  std::uint32_t const own = t.list_of(s);
  std::uint32_t const of_thread =
      t.streams.list_of(ww::stream_ref::per_thread().id(), cudaStreamPerThread);
  t.streams.free(t.allocate(block_heap::ready), of_thread);
  std::uint64_t const epoch = t.heap.blocks.newest_epoch(of_thread);
  CHECK(t.streams.cost_of(own, of_thread, epoch) == cost::impossible);
  CHECK_FALSE(t.streams.record(lock, of_thread, epoch_tracker::no_id, here));
  CHECK(t.streams.record(lock, of_thread, ww::stream_ref::per_thread().id(), here));
  CHECK(t.streams.cost_of(own, of_thread, epoch) == cost::wait);
  CHECK(t.streams.retire(lock, own, 0, here));
  CHECK(t.streams.cost_of(of_thread, own, 1) == cost::impossible);
}

TEST_CASE("a list that is kept or pinned does not pass to another stream") {
  tracked_heap t;
  heap_guard lock{t.heap.lock};
  ww::stream s;
  std::uint32_t const list = t.list_of(s);
  CHECK(t.streams.retire(lock, list, 0, here));
  t.streams.forget(ww::stream_ref{s}.id());
  ww::stream next;
  ww::stream third;
  t.streams.keep_lists(true);
  CHECK(t.list_of(next) != list);
  t.streams.keep_lists(false);
  t.streams.pin(list);
  CHECK(t.list_of(third) != list);
  t.streams.unpin(list);
}

TEST_CASE("synchronize() makes every free ready") {
  tracked_heap t;
  ww::stream a;
  ww::stream b;
  heap_guard lock{t.heap.lock};
  std::uint32_t const in_a = t.list_of(a);
  std::uint32_t const in_b = t.list_of(b);
  std::uint32_t const lower = t.allocate(block_heap::ready, 32);
  std::uint32_t const upper = t.allocate(block_heap::ready, 32);
  t.streams.free(lower, in_a);
  t.streams.free(upper, in_b);
  t.streams.synchronize(lock, 0, here);
  CHECK(t.heap.blocks.at(t.heap.blocks.oldest(block_heap::ready)).bytes == 64 * unit);
}
