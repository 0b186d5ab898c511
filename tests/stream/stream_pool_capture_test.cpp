// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Leases that end while their stream is part of a capture.
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/core/launch.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/stream/stream_pool.hpp>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::device_array;

namespace {

struct add {
  int* out;
  int amount;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] += amount; }
};

}  // namespace

TEST_CASE("a stream returned during a capture is not leased to others while it captures") {
  ww::stream s;
  ww::stream_pool pool{ww::current_device(), 1};
  device_array<int> x{std::vector<int>(16, 0)};
  ww::capture_scope scope{s};
  std::set<cudaStream_t> used;
  for (int i = 0; i < 3; ++i) {
    ww::stream_lease side = pool.lease();
    used.insert(side.stream().get());
    scope.fork(side);
    ww::for_each_index(side, 16, add{x.data(), 1});
  }
  CHECK(used.size() == 3);
  CHECK(pool.available() == 1);
  std::thread{[&] {  // another user's work runs now, and not in the graph
    ww::stream_lease lease = pool.lease();
    CHECK(used.count(lease.stream().get()) == 0);
    CHECK(lease.stream().has_id());
    ww::for_each_index(lease, 16, add{x.data(), 100});
    lease.stream().synchronize();
  }}
      .join();
  ww::graph const captured = scope.end();
  CHECK(captured.size() == 3);
  CHECK(x.fetch(s)[15] == 100);
}

TEST_CASE("a pool of one stream serves several leases of one captured body") {
  ww::stream s;
  ww::stream_pool pool{ww::current_device(), 1};
  device_array<int> x{std::vector<int>(16, 0)};
  for (int round = 0; round < 3; ++round) {
    ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
      for (int i = 0; i < 4; ++i) {
        ww::stream_lease side = pool.lease();
        scope.fork(side);
        ww::for_each_index(side, 4, add{x.data() + 4 * i, 1});
      }
    });
    CHECK(captured.size() == 4);
    ww::graph_exec exec{captured};
    exec.launch(s);
  }
  CHECK(x.fetch(s) == std::vector<int>(16, 3));
  CHECK(pool.size() == 1);
  CHECK(pool.available() == 1);
  pool.synchronize();
}

TEST_CASE("replaced streams are used again when their capture has ended") {
  ww::stream s;
  ww::stream_pool pool{ww::current_device(), 1};
  std::set<cudaStream_t> streams;
  for (int round = 0; round < 20; ++round) {
    ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
      for (int i = 0; i < 2; ++i) {
        ww::stream_lease side = pool.lease();
        streams.insert(side.stream().get());
        scope.fork(side);
      }
    });
    CHECK(captured.size() == 0);
  }
  CHECK(streams.size() <= 3);
}

TEST_CASE("a lease that took no part in the capture goes back as it is") {
  ww::stream s;
  ww::stream_pool pool{ww::current_device(), 1};
  cudaStream_t const before = pool.lease().stream().get();
  ww::graph const captured = ww::capture(s, [&](ww::stream_ref) {
    ww::stream_lease const side = pool.lease();
    CHECK(side.stream().get() == before);
  });
  CHECK(pool.lease().stream().get() == before);
  CHECK(captured.size() == 0);
}

TEST_CASE("the pool can be synchronised while replaced streams capture") {
  ww::stream s;
  ww::stream_pool pool{ww::current_device(), 2};
  ww::capture_scope scope{s, ww::capture_mode::relaxed};
  {
    ww::stream_lease side = pool.lease();
    scope.fork(side);
  }
  std::thread{[&] { pool.synchronize(); }}.join();
  CHECK(scope.end().size() == 0);
  pool.synchronize();
}

TEST_CASE("the pool waits for the work of streams that a capture has replaced") {
  ww::stream s;
  ww::stream_pool pool{ww::current_device(), 1};
  std::atomic<bool> done{false};
  auto const sleep = +[](void* flag) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    *static_cast<std::atomic<bool>*>(flag) = true;
  };
  {
    ww::stream_lease side = pool.lease();
    ww::check(cudaLaunchHostFunc(side.stream().get(), sleep, &done), "cudaLaunchHostFunc");
    ww::capture_scope scope{s};
    scope.fork(side);
    side.reset();
    CHECK(scope.end().size() == 0);
  }
  pool.synchronize();
  CHECK(done);
}

TEST_CASE("to synchronise the pool breaks no capture of another stream") {
  ww::stream s;
  ww::stream_pool pool{ww::current_device(), 2};
  for (auto const mode : {ww::capture_mode::thread, ww::capture_mode::global}) {
    ww::capture_scope scope{s, mode};
    pool.synchronize();
    std::thread{[&] { pool.synchronize(); }}.join();
    CHECK(scope.end().size() == 0);
  }
}

TEST_CASE("threads capture with leases of one pool") {
  constexpr int thread_count = 4;
  ww::stream_pool pool{ww::current_device(), 2};
  device_array<int> x{std::vector<int>(thread_count, 0)};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      try {
        ww::stream s;
        for (int round = 0; round < 20; ++round) {
          ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
            ww::stream_lease side = pool.lease();
            scope.fork(side);
            ww::for_each_index(side, 1, add{x.data() + t, 1});
          });
          if (captured.size() != 1) ++failures;
          ww::graph_exec exec{captured};
          exec.launch(s);
          ww::stream_lease const eager = pool.lease();
          if (eager.stream().is_capturing()) ++failures;
        }
        s.synchronize();
      } catch (...) {
        ++failures;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(failures == 0);
  ww::stream s;
  CHECK(x.fetch(s) == std::vector<int>(thread_count, 20));
}

#if WARPWRIGHT_HOST_RUNTIME
namespace wt = ww::testing;

TEST_CASE("leases make no CUDA call while nothing captures") {
  ww::stream_pool pool{ww::current_device(), 2};
  wt::reset_call_counts();
  for (int i = 0; i < 10; ++i) static_cast<void>(pool.lease());
  CHECK(wt::total_calls() == 0);
}

TEST_CASE("if no stream can be created, the returned one is free when its capture has ended") {
  ww::stream s;
  ww::stream_pool pool{ww::current_device(), 1};
  ww::capture_scope scope{s};
  {
    wt::scoped_fault_plan const plan{
        wt::fault_plan{}.fail("cudaStreamCreateWithPriority", 1, cudaErrorMemoryAllocation)};
    ww::stream_lease side = pool.lease();
    scope.fork(side);
    side.reset();
    CHECK(plan.hits() == 1);
  }
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(pool.available() == 0);
  CHECK_FALSE(pool.try_lease());
  std::atomic<bool> leased{false};
  std::thread waiting{[&] {
    ww::stream_lease const lease = pool.lease();
    CHECK_FALSE(lease.stream().is_capturing());
    leased = true;
  }};
  CHECK_FALSE(leased);
  CHECK(scope.end().size() == 0);
  waiting.join();
  CHECK(leased);
  CHECK(pool.try_lease());
}

TEST_CASE("threads that wait already have a parked stream when its capture has ended") {
  ww::stream s;
  ww::stream_pool pool{ww::current_device(), 1};
  ww::capture_scope scope{s};
  ww::stream_lease side = pool.lease();
  scope.fork(side);
  std::atomic<int> leased{0};
  std::vector<std::thread> waiting;
  for (int t = 0; t < 3; ++t) {
    waiting.emplace_back([&] {
      ww::stream_lease const lease = pool.lease();
      if (!lease.stream().is_capturing()) ++leased;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // they sleep
  {
    wt::scoped_fault_plan const plan{
        wt::fault_plan{}.fail("cudaStreamCreateWithPriority", 1, cudaErrorMemoryAllocation)};
    side.reset();
    CHECK(plan.hits() == 1);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(leased == 0);
  pool.synchronize();  // not the parked stream, whose capture it would break
  CHECK(scope.end().size() == 0);
  for (std::thread& each : waiting) each.join();
  CHECK(leased == 3);
}

TEST_CASE("who waits behind a thread that gives up has the parked stream") {
  using streams = ww::detail::stream_set;
  auto const here = ww::source_location::current();
  ww::stream s;
  streams set{ww::current_device(), 0, 1};
  set.create(1, here);
  unsigned const held = set.take();
  ww::capture_scope scope{s};
  scope.fork(set.stream(held));
  {
    wt::scoped_fault_plan const plan{
        wt::fault_plan{}.fail("cudaStreamCreateWithPriority", 1, cudaErrorMemoryAllocation)};
    set.give_back(held);
    CHECK(plan.hits() == 1);
  }
  std::atomic<bool> gives_up{false};
  std::thread first{[&] {
    constexpr std::uint64_t a_second = 1000000000;  // in which the other one comes to wait
    gives_up =
        set.take_or_wait(ww::detail::monotonic_nanoseconds() + a_second, here) == streams::none;
  }};
  while (set.waiting() != 1) std::this_thread::yield();
  std::atomic<bool> has_it{false};
  std::thread second{[&] { has_it = set.take_or_wait(streams::for_ever, here) == held; }};
  first.join();
  CHECK(set.waiting() == 1);
  CHECK(scope.end().size() == 0);
  second.join();
  CHECK(gives_up);
  CHECK(has_it);
}

TEST_CASE("a query that fails does not let a capturing stream go back") {
  ww::stream s;
  ww::stream_pool pool{ww::current_device(), 1};
  ww::capture_scope scope{s};
  {
    ww::stream_lease side = pool.lease();
    scope.fork(side);
    wt::scoped_fault_plan const plan{
        wt::fault_plan{}.fail("cudaStreamIsCapturing", 1, cudaErrorUnknown)};
    side.reset();
    CHECK(plan.hits() == 1);
  }
  CHECK_FALSE(pool.lease().stream().is_capturing());
  CHECK(scope.end().size() == 0);
}
#endif
