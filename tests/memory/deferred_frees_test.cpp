// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks that are freed before their streams or graphs are done with them, over a heap of addresses
// that nobody touches.
#include "memory/pool_parts_support.hpp"
#include "support/catch.hpp"

#include <warpwright/graph/capture.hpp>
#include <warpwright/memory/detail/pool/deferred_frees.hpp>

#include <atomic>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <thread>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
namespace testing = warpwright::testing;
#endif

namespace ww = warpwright;
using test_support::gate;
using test_support::here;
using test_support::unit;
using ww::detail::block_heap;
using ww::detail::deferred_frees;
using ww::detail::epoch_tracker;
using ww::detail::heap_guard;

namespace {

struct deferring_heap : test_support::tracked_heap {
  deferred_frees deferred{heap, events, streams};

  void use(std::uint32_t node, ww::stream const& s) { deferred.record_use(node, s.id(), s.get()); }
  void record_events(heap_guard& lock, std::uint32_t node, ww::stream const& s) {
    deferred.record_events(lock, node, s, epoch_tracker::no_id, here);
  }
  void begin(std::uint32_t node, unsigned graphs, std::uint32_t list = deferred_frees::none) {
    deferred.reserve();
    deferred.begin(node, graphs, list);
  }
  bool pending(heap_guard& lock) { return deferred.poll(lock, false, here).pending; }
};

}  // namespace

TEST_CASE("a block is reusable when every stream that used it has completed") {
  ww::stream own;
  ww::stream other;
  // One gate at a time: a GPU's host functions may share a thread.
  for (ww::stream const* busy : {&own, &other}) {
    deferring_heap t;
    heap_guard lock{t.heap.lock};
    std::uint32_t const node = t.allocate();
    std::uint64_t const address = t.heap.blocks.at(node).address;
    t.use(node, other);
    {
      gate hold{*busy};
      t.record_events(lock, node, own);
      t.begin(node, 0);
      CHECK(t.pending(lock));
      CHECK(t.heap.find_live(address) == block_heap::none);
      CHECK(t.heap.live_bytes() == 0);
      CHECK(t.heap.deferred_blocks == 1);
      CHECK(t.ready_units() == 63);
    }
    own.synchronize();
    other.synchronize();
    CHECK(t.deferred.poll(lock, false, here).completed);
    CHECK(t.ready_units() == 64);
    CHECK(t.heap.deferred_blocks == 0);
    CHECK(t.heap.deferred_bytes == 0);
  }
}

TEST_CASE("poll can wait on the host for the events") {
  deferring_heap t;
  ww::stream s;
  gate hold{s};
  heap_guard lock{t.heap.lock};
  std::uint32_t const node = t.allocate();
  t.record_events(lock, node, s);
  t.begin(node, 0);
  std::thread opener{[&] { hold.open_late(); }};
  CHECK_FALSE(t.deferred.poll(lock, true, here).pending);
  opener.join();
  CHECK(t.ready_units() == 64);
}

TEST_CASE("a stream that uses a block several times is recorded once") {
  deferring_heap t;
  ww::stream s;
  ww::stream other;
  heap_guard lock{t.heap.lock};
  std::uint32_t const node = t.allocate();
  for (int i = 0; i < 3; ++i) t.use(node, other);
  t.record_events(lock, node, s);
  CHECK(t.heap.counters.event_records == 2);
  t.deferred.abandon(node);
}

TEST_CASE("a block's uses end with its free, those of other blocks do not") {
  deferring_heap t;
  ww::stream s;
  ww::stream other;
  heap_guard lock{t.heap.lock};
  std::uint32_t const node = t.allocate();
  std::uint32_t const second = t.allocate();
  CHECK_FALSE(t.deferred.any_shared());
  t.use(second, other);
  t.use(node, other);
  t.use(node, s);
  CHECK(t.deferred.is_shared(node));
  t.record_events(lock, node, s);
  t.begin(node, 0);
  CHECK_FALSE(t.deferred.is_shared(node));
  CHECK(t.deferred.is_shared(second));
  CHECK(t.deferred.any_shared());
  CHECK_FALSE(t.deferred.is_shared(second, cudaStreamPerThread));
  t.deferred.record_use(second, 1, cudaStreamPerThread);
  CHECK(t.deferred.is_shared(second, cudaStreamPerThread));
}

TEST_CASE("a free that is abandoned leaves the block live, with its uses") {
  deferring_heap t;
  ww::stream s;
  ww::stream other;
  heap_guard lock{t.heap.lock};
  std::uint32_t const node = t.allocate();
  std::uint64_t const address = t.heap.blocks.at(node).address;
  t.use(node, other);
  t.record_events(lock, node, s);
  t.deferred.abandon(node);
  CHECK_FALSE(t.pending(lock));
  CHECK(t.heap.find_live(address) == node);
  CHECK(t.deferred.is_shared(node));
  CHECK(t.ready_units() == 63);
}

TEST_CASE("a block that graphs hold is reusable after as many releases") {
  deferring_heap t;
  heap_guard lock{t.heap.lock};
  std::uint32_t const node = t.allocate();
  t.begin(node, 2);
  t.deferred.release(node);
  CHECK(t.ready_units() == 63);
  t.deferred.release(node);
  CHECK(t.ready_units() == 64);
}

TEST_CASE("a block that a graph and an event hold is reusable when both are done") {
  for (bool const graph_first : {false, true}) {
    deferring_heap t;
    ww::stream s;
    heap_guard lock{t.heap.lock};
    std::uint32_t const node = t.allocate();
    t.record_events(lock, node, s);
    t.begin(node, 1);
    s.synchronize();
    for (bool const graph : {graph_first, !graph_first}) {
      CHECK(t.ready_units() == 63);
      if (graph) {
        t.deferred.release(node);
      } else {
        CHECK_FALSE(t.pending(lock));
      }
    }
    CHECK(t.ready_units() == 64);
  }
}

TEST_CASE("a block whose stream may still use it returns to that stream's list") {
  deferring_heap t;
  ww::stream s;
  ww::stream next;
  heap_guard lock{t.heap.lock};
  std::uint32_t const list = t.list_of(s);
  std::uint32_t const node = t.allocate();
  t.begin(node, 1, list);
  CHECK(t.streams.retire(lock, list, 0, here));
  t.streams.forget(s.id());
  CHECK(t.list_of(next) != list);  // the list does not pass to another stream meanwhile
  t.deferred.release(node);
  CHECK(t.heap.blocks.bytes_in(list) == unit);
}

TEST_CASE("of a stream that ends, events hold the blocks instead of its list") {
  deferring_heap t;
  std::optional<ww::stream> s{std::in_place};
  ww::stream other;
  heap_guard lock{t.heap.lock};
  std::uint32_t const list = t.list_of(*s);
  std::uint32_t const kept = t.list_of(other);
  std::uint32_t const node = t.allocate();
  std::uint32_t const second = t.allocate();
  std::uint32_t const of_other = t.allocate();
  t.begin(node, 1, list);
  t.begin(of_other, 1, kept);
  t.begin(second, 1, list);
  {
    gate hold{*s};
    CHECK(t.deferred.retire(lock, list, here));
    CHECK(t.heap.counters.event_records == 2);
    t.deferred.release(node);
    CHECK(t.pending(lock));
    CHECK(t.heap.blocks.empty(list));
  }
  s.reset();
  CHECK_FALSE(t.pending(lock));
  CHECK(t.ready_units() == 62);  // the graph of the second is not destroyed
  t.deferred.release(second);
  CHECK(t.ready_units() == 63);
  t.deferred.release(of_other);
  CHECK(t.heap.blocks.bytes_in(kept) == unit);
}

TEST_CASE("while one of the block's streams is capturing, nothing is recorded") {
  deferring_heap t;
  ww::stream s;
  ww::stream other;
  heap_guard lock{t.heap.lock};
  std::uint32_t const node = t.allocate();
  t.use(node, other);
  for (ww::stream const* capturing : {&s, &other}) {
    ww::graph const g = ww::capture(*capturing, [&](ww::stream_ref) {
      CHECK_THROWS_AS(t.record_events(lock, node, s), std::invalid_argument);
    });
    CHECK_FALSE(t.pending(lock));
    CHECK(t.heap.blocks.at(node).tag == 0);
  }
  t.record_events(lock, node, s);
  t.begin(node, 0);
  CHECK(t.deferred.poll(lock, true, here).completed);
}

TEST_CASE("a stream that is capturing is not retired") {
  deferring_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  std::uint32_t const list = t.list_of(s);
  std::uint32_t const node = t.allocate();
  t.begin(node, 1, list);
  ww::graph const g =
      ww::capture(s, [&](ww::stream_ref) { CHECK_FALSE(t.deferred.retire(lock, list, here)); });
  t.deferred.release(node);
  CHECK(t.heap.blocks.bytes_in(list) == unit);
}

TEST_CASE("another thread's default stream is covered by the legacy default stream") {
  deferring_heap t;
  ww::stream s;
  std::atomic<bool> ready{false};
  std::atomic<bool> finish{false};
  std::thread other{[&] {
    gate hold{ww::stream_ref::per_thread()};
    ready = true;
    while (!finish) std::this_thread::yield();
  }};
  while (!ready) std::this_thread::yield();
  heap_guard lock{t.heap.lock};
  std::uint32_t const node = t.allocate();
  std::uint64_t const own_id = ww::stream_ref::per_thread().id();
  t.deferred.record_use(node, own_id + 1, cudaStreamPerThread);  // not the id of this thread's
  t.deferred.record_events(lock, node, s, own_id, here);
  t.begin(node, 0);
  s.synchronize();
  ww::stream_ref::per_thread().synchronize();
  CHECK(t.pending(lock));
  finish = true;
  other.join();
  CHECK_FALSE(t.deferred.poll(lock, true, here).pending);
  CHECK(t.ready_units() == 64);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("when an event cannot be recorded the block stays live, and its free can be repeated") {
  for (std::uint64_t const nth : {1U, 2U, 3U}) {
    deferring_heap t;
    ww::stream s;
    ww::stream a;
    ww::stream b;
    heap_guard lock{t.heap.lock};
    std::uint32_t const node = t.allocate();
    t.use(node, a);
    t.use(node, b);
    {
      testing::scoped_fault_plan const fault{
          testing::fault_plan{}.fail("cudaEventRecord", nth, cudaErrorUnknown)};
      CHECK_THROWS_AS(t.record_events(lock, node, s), ww::cuda_error);
    }
    CHECK_FALSE(t.pending(lock));
    CHECK(t.heap.blocks.at(node).tag == 0);
    t.record_events(lock, node, s);
    t.begin(node, 0);
    s.synchronize();
    a.synchronize();
    b.synchronize();
    CHECK_FALSE(t.pending(lock));
    CHECK(t.ready_units() == 64);
  }
}

TEST_CASE("a poll whose query fails throws, and the next poll goes on") {
  deferring_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  std::uint32_t const node = t.allocate();
  t.record_events(lock, node, s);
  t.begin(node, 0);
  s.synchronize();
  {
    testing::scoped_fault_plan const fault{
        testing::fault_plan{}.fail("cudaEventQuery", 1, cudaErrorUnknown)};
    CHECK_THROWS_AS(t.pending(lock), ww::cuda_error);
  }
  CHECK(t.ready_units() == 63);
  CHECK_FALSE(t.pending(lock));
  CHECK(t.ready_units() == 64);
}
#endif
