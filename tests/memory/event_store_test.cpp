// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The events of a pool alone.
#include "memory/pool_parts_support.hpp"
#include "support/catch.hpp"

#include <warpwright/graph/capture.hpp>

#include <atomic>
#include <chrono>
#include <thread>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
namespace testing = warpwright::testing;
#endif

namespace ww = warpwright;
using test_support::gate;
using test_support::here;
using ww::detail::event_store;
using ww::detail::heap_guard;

namespace {

struct store {
  ww::detail::pool_heap heap;
  event_store events{heap};
  store() { heap.driver.find(); }
};

}  // namespace

TEST_CASE("an event has completed when the work before it has") {
  store t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  cudaEvent_t event = nullptr;
  {
    gate hold{s};
    event = t.events.record(lock, s.get(), here);
    CHECK_FALSE(t.events.completed(lock, event, false, here));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  CHECK(t.events.completed(lock, event, false, here));
  CHECK(t.heap.counters.event_records == 1);
  CHECK(t.heap.counters.event_queries == 2);
  t.events.give_back(event);
}

TEST_CASE("other threads get the heap while one waits for an event") {
  store t;
  ww::stream s;
  gate hold{s};
  heap_guard lock{t.heap.lock};
  cudaEvent_t const event = t.events.record(lock, s.get(), here);
  std::atomic<bool> got_it{false};
  std::thread other{[&] {
    {
      heap_guard const own{t.heap.lock};
      got_it = true;
    }
    hold.open();
  }};
  CHECK(t.events.completed(lock, event, true, here));
  CHECK(got_it);
  lock.unlock();
  other.join();
  t.events.give_back(event);
}

TEST_CASE("an event that was given back is recorded again, and no other") {
  store t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  cudaEvent_t const first = t.events.record(lock, s.get(), here);
  cudaEvent_t const second = t.events.record(lock, s.get(), here);
  CHECK(first != second);
  t.events.give_back(first);
  CHECK(t.events.record(lock, s.get(), here) == first);
  cudaEvent_t const third = t.events.record(lock, s.get(), here);
  CHECK(third != first);
  CHECK(third != second);
  for (cudaEvent_t event : {first, second, third}) t.events.give_back(event);
}

TEST_CASE("nothing is recorded on a capturing stream, and the capture goes on") {
#if WARPWRIGHT_HOST_RUNTIME
  testing::reset_host_runtime();
#endif
  store t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  ww::graph const g = ww::capture(
      s, [&](ww::stream_ref c) { CHECK(t.events.record(lock, c.get(), here) == nullptr); });
  CHECK(g.node_counts().total() == 0);
  CHECK(t.heap.counters.event_records == 0);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(testing::call_count("cudaEventRecord") == 0);
#endif
  cudaEvent_t const event = t.events.record(lock, s.get(), here);
  CHECK(event != nullptr);
  t.events.give_back(event);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("events of several devices, whichever is current") {
  testing::reset_host_runtime(testing::host_runtime_options{}.with_devices(2));
  {
    store t;
    ww::stream first{ww::device_id{0}};
    ww::stream second{ww::device_id{1}};
    heap_guard lock{t.heap.lock};
    cudaEvent_t const of_first = t.events.record(lock, first.get(), here, 0);
    cudaEvent_t const of_second = t.events.record(lock, second.get(), here, 1);
    t.events.give_back(of_second, 1);
    t.events.give_back(of_first, 0);
    CHECK(t.events.record(lock, second.get(), here, 1) == of_second);
    CHECK(t.events.record(lock, first.get(), here, 0) == of_first);
    // A default stream is that of the device, too.
    cudaEvent_t const of_default = t.events.record(lock, cudaStreamLegacy, here, 1);
    CHECK(t.events.completed(lock, of_default, true, here));
    CHECK(ww::current_device().value() == 0);
    t.events.give_back(of_default, 1);
    t.events.give_back(of_first, 0);
    t.events.give_back(of_second, 1);
    for (char const* const call : {"cudaGetDevice", "cudaSetDevice"}) {
      testing::scoped_fault_plan const plan{testing::fault_plan{}.fail(call, 1, cudaErrorUnknown)};
      CHECK_THROWS_WITH(t.events.record(lock, cudaStreamLegacy, here, 1),
                        contains("cudaSetDevice"));
    }
    CHECK(ww::current_device().value() == 0);
  }
  CHECK(testing::leak_report().empty());
  testing::reset_host_runtime();
}

TEST_CASE("events are destroyed with their store") {
  testing::reset_host_runtime();
  ww::stream s;
  {
    store t;
    heap_guard lock{t.heap.lock};
    cudaEvent_t const kept = t.events.record(lock, s.get(), here);
    t.events.give_back(t.events.record(lock, s.get(), here));
    t.events.close();
    CHECK(testing::stats().events == 1);
    t.events.give_back(kept);
  }
  CHECK(testing::stats().events == 0);
}

TEST_CASE("an event that cannot be created leaves the store as it was") {
  testing::reset_host_runtime();
  store t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  {
    testing::scoped_fault_plan const fault{
        testing::fault_plan{}.fail("cudaEventCreateWithFlags", 1, cudaErrorMemoryAllocation)};
    CHECK_THROWS_WITH(t.events.record(lock, s.get(), here), contains("cudaEventCreateWithFlags"));
  }
  CHECK(t.heap.counters.event_records == 0);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  t.events.give_back(t.events.record(lock, s.get(), here));
  CHECK(testing::stats().events == 1);
}

TEST_CASE("an event that cannot be recorded is kept for the next record") {
  testing::reset_host_runtime();
  store t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  for (int round = 0; round < 2; ++round) {  // a new event, then one that was given back
    testing::scoped_fault_plan const fault{
        testing::fault_plan{}.fail("cudaEventRecord", 1, cudaErrorUnknown)};
    CHECK_THROWS_WITH(t.events.record(lock, s.get(), here), contains("cudaEventRecord"));
  }
  CHECK(t.heap.counters.event_records == 0);
  t.events.give_back(t.events.record(lock, s.get(), here));
  CHECK(testing::call_count("cudaEventCreateWithFlags") == 1);
}

TEST_CASE("a query that fails throws, and the event can be queried again") {
  store t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  cudaEvent_t const event = t.events.record(lock, s.get(), here);
  for (bool const wait : {false, true}) {
    char const* const call = wait ? "cudaEventSynchronize" : "cudaEventQuery";
    testing::scoped_fault_plan const fault{testing::fault_plan{}.fail(call, 1, cudaErrorUnknown)};
    CHECK_THROWS_WITH(t.events.completed(lock, event, wait, here), contains(call));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  CHECK(t.events.completed(lock, event, true, here));
  t.events.give_back(event);
}

TEST_CASE("an event that a capture has got hold of is not used again, and kept until the end") {
  testing::reset_host_runtime();
  store t;
  ww::stream s;
  heap_guard lock{t.heap.lock};
  t.events.give_back(t.events.record(lock, s.get(), here));
  testing::reset_call_counts();
  // The capture begins when the store has found that there is none, and has not recorded yet.
  testing::scoped_fault_plan const slow{
      testing::fault_plan{}.delay("cudaEventRecord", 1, std::chrono::milliseconds{200})};
  std::atomic<bool> recorded{false};
  std::thread other{[&] {
    while (testing::call_count("cudaEventRecord") == 0) std::this_thread::yield();
    cudaGraph_t graph = nullptr;
    ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeRelaxed),
              "cudaStreamBeginCapture");
    while (!recorded) std::this_thread::yield();
    ww::check(cudaStreamEndCapture(s.get(), &graph), "cudaStreamEndCapture");
    ww::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }};
  CHECK(t.events.record(lock, s.get(), here) == nullptr);
  recorded = true;
  other.join();
  CHECK(testing::stats().events == 1);
  CHECK(t.heap.counters.event_records == 1);
  cudaEvent_t const event = t.events.record(lock, s.get(), here);
  CHECK(event != nullptr);
  CHECK(testing::stats().events == 2);
  t.events.give_back(event);
  t.events.close();
  CHECK(testing::stats().events == 0);
}
#endif
