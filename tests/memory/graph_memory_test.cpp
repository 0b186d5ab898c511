// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory of graphs alone, over a heap of addresses that nobody touches.
#include "memory/pool_parts_support.hpp"
#include "support/catch.hpp"

#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/memory/detail/pool/graph_memory.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <thread>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
namespace testing = warpwright::testing;
#endif

namespace ww = warpwright;
using test_support::here;
using test_support::unit;
using ww::detail::block_heap;
using ww::detail::epoch_tracker;
using ww::detail::graph_memory;
using ww::detail::heap_guard;

namespace {

struct graph_heap : test_support::tracked_heap {
  ww::detail::deferred_frees deferred{heap, events, streams};
  graph_memory graphs{heap, streams, deferred};

  // CUDA reports the destruction of a graph with a delay.
  bool reclaim_soon() {
    for (int i = 0; i < 1000; ++i) {
      if (graphs.reclaim()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return false;
  }
  // For what must not be reported.
  bool reclaim_later() {
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    return graphs.reclaim();
  }
  void free_behind_events(heap_guard& lock, std::uint32_t node, ww::stream const& s) {
    deferred.record_events(lock, node, s, epoch_tracker::no_id, here);
    graphs.free_behind_events(node);
  }
};

// Captures a body that gets the number of its graph.
template <class Body>
std::optional<ww::graph> captured(graph_heap& t, heap_guard& lock, ww::stream const& s,
                                  Body const& body) {
  return ww::capture(s, [&](ww::stream_ref c) { body(c, t.graphs.graph_of(lock, c, here)); });
}

}  // namespace

TEST_CASE("a graph has one number, from its capture's first call to its destruction") {
  graph_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  CHECK_FALSE(t.graphs.any());
  std::uint32_t number = 0;
  auto first = captured(t, lock, s, [&](ww::stream_ref c, std::uint32_t g) {
    number = g;
    CHECK(t.graphs.graph_of(lock, c, here) == g);
  });
  CHECK(t.graphs.any());
  auto const second =
      captured(t, lock, s, [&](ww::stream_ref, std::uint32_t g) { CHECK(g != number); });
  first.reset();
  CHECK(t.reclaim_soon());
  CHECK(t.graphs.any());
  auto const third =
      captured(t, lock, s, [&](ww::stream_ref, std::uint32_t g) { CHECK(g == number); });
}

TEST_CASE("what a capture frees of its own memory serves the same stream of the capture") {
  graph_heap t;
  ww::stream s;
  ww::stream other;
  heap_guard lock{t.heap.lock};
  auto g = captured(t, lock, s, [&](ww::stream_ref c, std::uint32_t number) {
    CHECK(t.graphs.find_list(number, c.get()) == graph_memory::none);
    std::uint32_t const node = t.allocate();
    t.graphs.own(node, number);
    t.graphs.free(node, number, c, here);
    std::uint32_t const list = t.graphs.find_list(number, c.get());
    REQUIRE(list != graph_memory::none);
    CHECK(t.heap.blocks.bytes_in(list) == unit);
    CHECK(t.graphs.list_of(number, c.get()) == list);
    CHECK(t.graphs.find_list(number, other.get()) == graph_memory::none);
    CHECK(t.graphs.list_of(number, other.get()) != list);
  });
  CHECK_FALSE(t.reclaim_later());
  CHECK(t.ready_units() == 63);
  g.reset();
  CHECK(t.reclaim_soon());
  CHECK_FALSE(t.graphs.any());
  CHECK(t.ready_units() == 64);
  CHECK(t.heap.counters.deallocations == 1);
}

TEST_CASE("an executable keeps the memory of its graph") {
  graph_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  auto g = captured(t, lock, s, [&](ww::stream_ref c, std::uint32_t number) {
    std::uint32_t const node = t.allocate();
    t.graphs.own(node, number);
    t.graphs.free(node, number, c, here);
  });
  std::optional<ww::graph_exec> exec{std::in_place, *g};
  g.reset();
  CHECK_FALSE(t.reclaim_later());
  exec.reset();
  CHECK(t.reclaim_soon());
  CHECK(t.ready_units() == 64);
}

TEST_CASE("a capture that is abandoned returns its memory") {
  graph_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  auto const body = [&](ww::stream_ref c, std::uint32_t number) {
    std::uint32_t const node = t.allocate();
    t.graphs.own(node, number);
    t.graphs.free(node, number, c, here);
    throw 7;
  };
  CHECK_THROWS_AS(captured(t, lock, s, body), int);
  CHECK(t.reclaim_soon());
  CHECK(t.ready_units() == 64);
}

TEST_CASE("blocks from before the capture return to the stream that freed them") {
  for (bool const id_is_known : {true, false}) {
    graph_heap t;
    ww::stream s;
    heap_guard lock{t.heap.lock};
    std::uint32_t const nodes[] = {t.allocate(), t.allocate()};
    std::uint64_t const address = t.heap.blocks.at(nodes[0]).address;
    auto g = captured(t, lock, s, [&](ww::stream_ref c, std::uint32_t number) {
      for (std::uint32_t node : nodes) {
        t.graphs.free(node, number, id_is_known ? c : ww::stream_ref{c.get()}, here);
      }
      CHECK(t.graphs.find_list(number, c.get()) == graph_memory::none);
    });
    CHECK(t.heap.find_live(address) == block_heap::none);
    CHECK(t.heap.deferred_bytes == 2 * unit);
    g.reset();
    CHECK(t.reclaim_soon());
    CHECK(t.heap.deferred_bytes == 0);
    CHECK(t.ready_units() == 62);  // work from before the capture may still use them
    // A capturing stream's id cannot be queried, so that its list may have none.
    std::uint32_t const list =
        id_is_known ? t.streams.find(s.id()) : t.streams.find_by_handle(s.get());
    REQUIRE(list != block_heap::none);
    CHECK(t.heap.blocks.bytes_in(list) == 2 * unit);
  }
}

TEST_CASE("a graph's block that is freed later is reusable behind the graph and the stream") {
  graph_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  for (bool const graph_first : {false, true}) {
    std::uint32_t node = 0;
    auto g = captured(t, lock, s, [&](ww::stream_ref, std::uint32_t number) {
      node = t.allocate();
      t.graphs.own(node, number);
    });
    t.free_behind_events(lock, node, s);
    s.synchronize();
    for (bool const graph : {graph_first, !graph_first}) {
      CHECK(t.ready_units() == 63);
      if (graph) {
        g.reset();
        CHECK(t.reclaim_soon());
      } else {
        CHECK_FALSE(t.deferred.poll(lock, true, here).pending);
      }
    }
    CHECK(t.ready_units() == 64);
  }
}

TEST_CASE("a block without a graph is reusable behind its stream alone") {
  graph_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  t.free_behind_events(lock, t.allocate(), s);
  CHECK_FALSE(t.deferred.poll(lock, true, here).pending);
  CHECK(t.ready_units() == 64);
}

TEST_CASE("a block of one graph that another frees is kept for both") {
  for (bool const owner_first : {true, false}) {
    graph_heap t;
    ww::stream s;
    heap_guard lock{t.heap.lock};
    std::uint32_t node = 0;
    auto owner = captured(t, lock, s, [&](ww::stream_ref, std::uint32_t number) {
      node = t.allocate();
      t.graphs.own(node, number);
    });
    auto freer = captured(t, lock, s, [&](ww::stream_ref c, std::uint32_t number) {
      t.graphs.free(node, number, c, here);
      CHECK(t.graphs.find_list(number, c.get()) == graph_memory::none);
    });
    (owner_first ? owner : freer).reset();
    CHECK(t.reclaim_soon());
    CHECK(t.heap.deferred_blocks == 1);
    (owner_first ? freer : owner).reset();
    CHECK(t.reclaim_soon());
    CHECK(t.heap.deferred_blocks == 0);
    CHECK(t.heap.live_bytes() == 0);
  }
}

TEST_CASE("a graph's block that is not freed is an ordinary live block after the graph") {
  graph_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  std::uint32_t node = 0;
  auto g = captured(t, lock, s, [&](ww::stream_ref, std::uint32_t number) {
    node = t.allocate();
    t.graphs.own(node, number);
  });
  g.reset();
  CHECK(t.reclaim_soon());
  CHECK(t.heap.find_live(t.heap.blocks.at(node).address) == node);
  CHECK(t.heap.blocks.at(node).tag == 0);
}

TEST_CASE("the list of a destroyed graph serves later captures") {
  graph_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  std::uint32_t lists = 0;
  for (int round = 0; round < 3; ++round) {
    auto g = captured(t, lock, s, [&](ww::stream_ref c, std::uint32_t number) {
      CHECK(t.graphs.find_list(number, c.get()) == graph_memory::none);
      static_cast<void>(t.graphs.list_of(number, c.get()));
    });
    if (round == 0) lists = t.streams.end();
    CHECK(t.streams.end() == lists);
    g.reset();
    CHECK(t.reclaim_soon());
  }
}

TEST_CASE("a capture that was invalidated has no graph") {
  graph_heap t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
  CHECK(cudaStreamQuery(s.get()) != cudaSuccess);
  static_cast<void>(cudaGetLastError());
  CHECK(t.graphs.graph_of(lock, s, here) == ww::detail::block_heap::none);
  CHECK_FALSE(t.graphs.any());
  cudaGraph_t graph = nullptr;
  static_cast<void>(cudaStreamEndCapture(s.get(), &graph));
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("a graph may outlive what it reports to") {
  ww::stream s;
  std::optional<ww::graph> g;
  {
    graph_heap t;
    heap_guard lock{t.heap.lock};
    g = captured(t, lock, s, [](ww::stream_ref, std::uint32_t) {});
  }
  g.reset();
#if WARPWRIGHT_HOST_RUNTIME
  static_cast<void>(testing::leak_report());  // waits for the report
  CHECK(testing::stats().user_objects == 0);
#endif
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a graph that cannot report its destruction gets no memory") {
  for (char const* call : {"cudaUserObjectCreate", "cudaGraphRetainUserObject"}) {
    testing::reset_host_runtime();
    graph_heap t;
    ww::stream s;
    heap_guard lock{t.heap.lock};
    auto const g = ww::capture(s, [&](ww::stream_ref c) {
      {
        testing::scoped_fault_plan const fault{
            testing::fault_plan{}.fail(call, 1, cudaErrorMemoryAllocation)};
        CHECK_THROWS_WITH(t.graphs.graph_of(lock, c, here), contains(call));
      }
      CHECK_FALSE(t.graphs.any());
      static_cast<void>(testing::leak_report());  // waits for destructors
      CHECK(testing::stats().user_objects == 0);
      static_cast<void>(t.graphs.graph_of(lock, c, here));
      CHECK(t.graphs.any());
    });
  }
}
#endif
