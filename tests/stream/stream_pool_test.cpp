// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/stream/stream_pool.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <set>
#include <thread>
#include <type_traits>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;

static_assert(!std::is_copy_constructible<ww::stream_lease>::value, "a lease has one owner");
static_assert(std::is_nothrow_move_constructible<ww::stream_lease>::value, "");
static_assert(!std::is_copy_constructible<ww::stream_pool>::value, "");

TEST_CASE("two leases never share a stream") {
  for (unsigned const size : {1U, 2U, 3U, 33U, 64U, 65U, 200U}) {
    CAPTURE(size);
    ww::stream_pool pool{ww::current_device(), size};
    CHECK(pool.size() == size);
    CHECK(pool.device() == ww::current_device());
    std::set<std::uint64_t> ids;
    std::vector<ww::stream_lease> leases;
    for (unsigned i = 0; i < size; ++i) {
      leases.push_back(pool.lease());
      REQUIRE(leases.back());
      CHECK(ids.insert(leases.back().stream().id()).second);
    }
    CHECK(pool.available() == 0);
    CHECK_FALSE(pool.try_lease());
    leases.clear();
    CHECK(pool.available() == size);
  }
}

TEST_CASE("a size out of range throws with a remedy") {
  CHECK_THROWS_AS(ww::stream_pool(ww::current_device(), 0), std::invalid_argument);
  CHECK_THROWS_WITH(ww::stream_pool(ww::current_device(), 1025),
                    contains("a size of 1025, it must be 1 to 1024"));
  CHECK_THROWS_WITH(ww::stream_pool(ww::current_device(), ww::stream_pool_options{}.max_streams(0)),
                    contains("a size of 0, it must be 1 to 1024"));
  CHECK_THROWS_WITH(ww::stream_pool(ww::current_device(),
                                    ww::stream_pool_options{}.max_streams(4).initial_streams(5)),
                    contains("5 initial streams, above the maximum of 4"));
  CHECK_THROWS_WITH(ww::stream_pool(ww::current_device(), ww::stream_pool_options{}.priority(7)),
                    contains("priority 7 is outside of the device's"));
  CHECK_THROWS_AS(ww::stream_pool(ww::current_device(), 4, 1000), std::invalid_argument);
  CHECK_THROWS_AS(ww::stream_pool(ww::device_id{ww::device_count()}, 4), ww::cuda_error);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("a pool may have the maximum of streams") {
  ww::stream_pool pool{ww::current_device(),
                       ww::stream_pool_options{}.max_streams(ww::stream_pool::max_size)};
  CHECK(pool.max_streams() == 1024);
  CHECK(pool.lease());
}

TEST_CASE("a thread leases eight streams in turn, and the others where these are leased") {
  for (unsigned const size : {1U, 2U, 3U, 4U, 8U, 31U, 32U, 100U}) {
    CAPTURE(size);
    ww::stream_pool pool{ww::current_device(), size};
    std::vector<std::uint64_t> order;
    unsigned const turns = size < 8 ? size : 8;
    for (unsigned i = 0; i < 3 * size; ++i) order.push_back(pool.lease().stream().id());
    std::set<std::uint64_t> const some{order.begin(), order.end()};
    CHECK(some.size() == turns);
    for (std::size_t i = 0; i + turns < order.size(); ++i) CHECK(order[i] == order[i + turns]);
    std::set<std::uint64_t> all;
    std::vector<ww::stream_lease> leases;
    for (unsigned i = 0; i < size; ++i) {
      leases.push_back(pool.try_lease());
      REQUIRE(leases.back());
      all.insert(leases.back().stream().id());
    }
    CHECK(all.size() == size);
  }
}

TEST_CASE("streams are created when no lease finds a free one") {
  ww::stream_pool pool{ww::current_device(), ww::stream_pool_options{}.max_streams(3)};
  CHECK(pool.size() == 0);
  CHECK(pool.max_streams() == 3);
  ww::stream_lease a = pool.lease();
  CHECK(pool.size() == 1);
  std::uint64_t const first = a.stream().id();
  a.reset();
  CHECK(pool.available() == 1);
  a = pool.lease();
  CHECK(a.stream().id() == first);
  ww::stream_lease const b = pool.try_lease();
  ww::stream_lease const c = pool.lease_for(0.0);
  REQUIRE(b);
  REQUIRE(c);
  CHECK(pool.size() == 3);
  CHECK_FALSE(pool.try_lease());
  CHECK_FALSE(pool.lease_for(0.001));
  CHECK(pool.size() == 3);
  ww::stream_pool const some{ww::current_device(), ww::stream_pool_options{}.initial_streams(2)};
  CHECK(some.size() == 2);
  CHECK(some.available() == 2);
  CHECK(some.max_streams() == 32);
}

TEST_CASE("each priority has streams of its own, up to the maximum") {
  ww::stream_priority_range const range = ww::get_stream_priority_range();
  if (range.greatest == range.least) return;
  ww::stream_pool pool{ww::current_device(), 1};
  ww::stream_lease const plain = pool.lease();
  ww::stream_lease high = pool.lease_with_priority(range.greatest);
  CHECK(high.stream() != plain.stream());
  int priority = 1;
  REQUIRE(cudaStreamGetPriority(high.stream().get(), &priority) == cudaSuccess);
  CHECK(priority == range.greatest);
  CHECK(pool.size() == 2);
  CHECK(pool.available() == 0);
  cudaStream_t const handle = high.stream().get();
  high.reset();
  CHECK(pool.available() == 1);
  CHECK_FALSE(pool.try_lease());  // which is of the pool's own priority
  CHECK(pool.lease_with_priority(range.greatest).stream().get() == handle);
  CHECK_THROWS_WITH(pool.lease_with_priority(range.greatest - 1),
                    contains("is outside of the device's"));
  CHECK(pool.size() == 2);
  pool.synchronize();
}

TEST_CASE("lease_for() waits for a limited time") {
  ww::stream_pool pool{ww::current_device(), 1};
  ww::stream_lease held = pool.lease();
  auto const start = std::chrono::steady_clock::now();
  CHECK_FALSE(pool.lease_for(0.02));
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(20));
  std::thread other{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    held.reset();
  }};
  CHECK(pool.lease_for(1e30));
  other.join();
  CHECK(pool.available() == 1);
  CHECK_THROWS_WITH(pool.lease_for(-1.0), contains("a negative time") && contains("-1 seconds"));
  CHECK_THROWS_WITH(pool.lease_for(std::nan("")), contains("nan seconds") && contains("lease()"));
}

TEST_CASE("waiting threads are served in the order of their calls, and before later calls") {
  ww::stream_pool pool{ww::current_device(), 1};
  ww::stream_lease held = pool.lease();
  std::vector<int> order;
  std::atomic<int> calling{0};
  std::vector<std::thread> threads;
  auto const add = [&](int t) {
    threads.emplace_back([&, t] {
      ++calling;
      ww::stream_lease const lease = pool.lease();
      order.push_back(t);  // the lease excludes the others
    });
    while (calling <= t) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // now it waits
  };
  for (int t = 0; t < 4; ++t) add(t);
  CHECK_FALSE(pool.lease_for(0.01));  // the last in the queue leaves it
  add(4);
  held.reset();
  for (auto& thread : threads) thread.join();
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4});
  CHECK(pool.available() == 1);
}

TEST_CASE("a returned stream is the waiting thread's, not that of who asks first") {
  ww::stream_pool pool{ww::current_device(), 1};
  for (int round = 0; round < 20; ++round) {
    ww::stream_lease held = pool.lease();
    std::atomic<bool> waits{false};
    std::thread waiter{[&] {
      waits = true;
      ww::stream_lease const lease = pool.lease();
      CHECK(lease);
    }};
    while (!waits) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    held.reset();
    static_cast<void>(pool.try_lease());  // empty, or after the other thread's lease
    waiter.join();
  }
  CHECK(pool.available() == 1);
}

TEST_CASE("threads grow a pool, wait with and without limits, and lose no stream") {
  constexpr unsigned size = 5;
  ww::stream_pool pool{ww::current_device(), ww::stream_pool_options{}.max_streams(size)};
  std::atomic<int> holders{0};
  std::atomic<int> violations{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        ww::stream_lease const lease = (i + t) % 3 == 0   ? pool.lease()
                                       : (i + t) % 3 == 1 ? pool.lease_for(20e-6)
                                                          : pool.try_lease();
        if (!lease) continue;
        if (holders.fetch_add(1) >= static_cast<int>(size)) ++violations;
        holders.fetch_sub(1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(violations == 0);
  CHECK(pool.size() <= size);
  CHECK(pool.available() == pool.size());
}

TEST_CASE("a leased stream does not wait for the legacy default stream, nor delay it") {
  ww::stream_pool pool{ww::current_device(), 1};
  std::atomic<bool> go_on{false};
  auto const wait = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
  };
  REQUIRE(cudaLaunchHostFunc(cudaStreamLegacy, wait, &go_on) == cudaSuccess);
  ww::stream_lease const lease = pool.lease();
  ww::stream_ref const stream = lease;
  stream.synchronize();
  CHECK(stream.done());
  go_on = true;
  ww::stream_ref::legacy_default().synchronize();
  go_on = false;
  REQUIRE(cudaLaunchHostFunc(stream.get(), wait, &go_on) == cudaSuccess);
  ww::stream_ref::legacy_default().synchronize();
  CHECK_FALSE(stream.done());
  go_on = true;
  stream.synchronize();
}

TEST_CASE("a lease can be moved, assigned and reset") {
  ww::stream_pool pool{ww::current_device(), 2};
  ww::stream_lease a = pool.lease();
  cudaStream_t const handle = a.stream().get();
  ww::stream_lease b{std::move(a)};
  CHECK(b.stream().get() == handle);
  CHECK(pool.available() == 1);
  ww::stream_lease c = pool.lease();
  CHECK(pool.available() == 0);
  c = std::move(b);  // returns c's first stream
  CHECK(pool.available() == 1);
  CHECK(c.stream().get() == handle);
  c.reset();
  CHECK_FALSE(c);
  c.reset();
  CHECK(pool.available() == 2);
}

TEST_CASE("stream() of an empty lease throws") {
  ww::stream_pool pool{ww::current_device(), 1};
  ww::stream_lease held = pool.lease();
  ww::stream_lease const none = pool.try_lease();
  CHECK_THROWS_WITH(none.stream(), contains("the lease is empty"));
  ww::stream_lease moved{std::move(held)};
  CHECK_THROWS_AS(held.stream(), std::invalid_argument);
  moved.reset();
  CHECK_THROWS_AS(static_cast<ww::stream_ref>(moved), std::invalid_argument);
}

TEST_CASE("lease() waits until a stream is returned") {
  ww::stream_pool pool{ww::current_device(), 1};
  ww::stream_lease held = pool.lease();
  std::atomic<bool> got{false};
  std::thread waiter{[&] {
    ww::stream_lease const lease = pool.lease();
    got = static_cast<bool>(lease);
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(got);
  held.reset();
  waiter.join();
  CHECK(got);
  CHECK(pool.available() == 1);
}

TEST_CASE("under contention every stream has one user at a time and every waiter is woken") {
  constexpr unsigned size = 3;
  constexpr int thread_count = 8;
  constexpr int rounds = 2000;
  ww::stream_pool pool{ww::current_device(), size};
  std::set<std::uint64_t> ids;
  {
    std::vector<ww::stream_lease> all;
    for (unsigned i = 0; i < size; ++i) {
      all.push_back(pool.lease());
      ids.insert(all.back().stream().id());
    }
  }
  std::vector<std::uint64_t> const known{ids.begin(), ids.end()};
  std::array<std::atomic<int>, size> users{};
  std::atomic<int> violations{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        ww::stream_lease const lease = pool.lease();
        std::size_t index = 0;
        while (index < size && known[index] != lease.stream().id()) ++index;
        if (index == size || users[index].fetch_add(1) != 0) {
          ++violations;
          continue;
        }
        users[index].fetch_sub(1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(violations == 0);
  CHECK(pool.available() == size);
}

TEST_CASE("synchronize waits for the work of every stream") {
  ww::stream_pool pool{ww::current_device(), 4};
  std::atomic<int> ran{0};
  for (int i = 0; i < 8; ++i) {
    ww::stream_lease const lease = pool.lease();
    REQUIRE(cudaLaunchHostFunc(
                lease.stream().get(),
                [](void* counter) {
                  std::this_thread::sleep_for(std::chrono::milliseconds(2));
                  ++*static_cast<std::atomic<int>*>(counter);
                },
                &ran) == cudaSuccess);
  }
  pool.synchronize();
  CHECK(ran == 8);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("leasing and returning make no CUDA call") {
  ww::stream_pool pool{ww::current_device(), 4};
  auto const before = ww::testing::total_calls();
  for (int i = 0; i < 100; ++i) {
    ww::stream_lease const a = pool.lease();
    ww::stream_lease const b = pool.try_lease();
    static_cast<void>(b.stream().id());
  }
  CHECK(ww::testing::total_calls() == before);
}

TEST_CASE("a pool whose creation fails midway leaks no stream") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  for (std::uint64_t nth = 1; nth <= 4; ++nth) {
    CAPTURE(nth);
    wt::scoped_fault_plan const plan{
        wt::fault_plan{}.fail("cudaStreamCreateWithPriority", nth, cudaErrorMemoryAllocation)};
    CHECK_THROWS_AS(ww::stream_pool(ww::device_id{0}, 4), ww::cuda_error);
    CHECK(wt::stats().streams == 0);
  }
}

TEST_CASE("a stream that cannot be created is an error of that lease alone") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  ww::stream_pool pool{ww::device_id{0}, ww::stream_pool_options{}.max_streams(2)};
  ww::stream_lease const held = pool.lease();
  for (char const* call : {"cudaStreamCreateWithPriority", "cudaStreamGetId", "cudaGetDevice"}) {
    CAPTURE(call);
    wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(call, 1, cudaErrorMemoryAllocation)};
    CHECK_THROWS_AS(pool.lease(), ww::cuda_error);
    CHECK(plan.hits() == 1);
    CHECK(pool.size() == 1);
  }
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(pool.lease());
  CHECK(pool.size() == 2);
}

TEST_CASE("a thread that waits for the last stream creates it if another thread could not") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  ww::stream_pool pool{ww::device_id{0}, ww::stream_pool_options{}.max_streams(1)};
  wt::scoped_fault_plan const plan{
      wt::fault_plan{}
          .delay("cudaStreamCreateWithPriority", 1, std::chrono::milliseconds(100))
          .fail("cudaStreamCreateWithPriority", 1, cudaErrorMemoryAllocation)};
  std::atomic<bool> failed{false};
  wt::reset_call_counts();
  std::thread first{[&] {
    try {
      static_cast<void>(pool.lease());
    } catch (ww::cuda_error const&) {
      failed = true;
    }
  }};
  while (wt::call_count("cudaStreamCreateWithPriority") == 0) std::this_thread::yield();
  CHECK(pool.lease());
  first.join();
  CHECK(failed);
  CHECK(pool.size() == 1);
}

TEST_CASE("of threads that wait one creates the stream, whichever has the one that is returned") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  ww::stream_pool pool{ww::device_id{0}, ww::stream_pool_options{}.max_streams(2)};
  ww::stream_lease held = pool.lease();
  wt::scoped_fault_plan const plan{
      wt::fault_plan{}
          .delay("cudaStreamCreateWithPriority", 1, std::chrono::milliseconds(200))
          .fail("cudaStreamCreateWithPriority", 1, cudaErrorMemoryAllocation)};
  wt::reset_call_counts();
  std::vector<std::thread> waiting;
  std::thread failing{[&] {
    CHECK_THROWS_AS(pool.lease(), ww::cuda_error);
    held.reset();  // the first thread that waits has it before it is awake
  }};
  while (wt::call_count("cudaStreamCreateWithPriority") == 0) std::this_thread::yield();
  std::atomic<int> have{0};
  for (int i = 0; i < 2; ++i) {
    waiting.emplace_back([&] {
      ww::stream_lease const lease = pool.lease_for(10);
      if (lease) ++have;
      for (int k = 0; k < 10000 && have < 2; ++k) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  failing.join();
  auto const begin = std::chrono::steady_clock::now();
  for (std::thread& each : waiting) each.join();
  CHECK(have == 2);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(8));
}

TEST_CASE("threads that create streams at once keep to the maximum") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  ww::stream_pool pool{ww::device_id{0}, ww::stream_pool_options{}.max_streams(2)};
  wt::scoped_fault_plan const plan{
      wt::fault_plan{}.delay("cudaStreamCreateWithPriority", std::chrono::milliseconds(50))};
  std::vector<std::thread> threads;
  for (int t = 0; t < 5; ++t) {
    threads.emplace_back([&] { static_cast<void>(pool.lease()); });
  }
  for (auto& thread : threads) thread.join();
  CHECK(pool.size() == 2);
  CHECK(wt::stats().streams == 2);
}

TEST_CASE("threads grow a pool whose creations fail at random, and none waits for ever") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  std::random_device device;
  for (int round = 0; round < 20; ++round) {
    unsigned const seed = device();
    CAPTURE(seed);
    ww::stream_pool pool{ww::device_id{0}, ww::stream_pool_options{}.max_streams(2)};
    wt::scoped_fault_plan const plan{
        wt::fault_plan{}
            .fail_randomly("cudaStreamCreateWithPriority", 0.5, cudaErrorMemoryAllocation, seed)
            .delay("cudaStreamCreateWithPriority", std::chrono::microseconds(200))};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          try {
            ww::stream_lease const lease = pool.lease();
            std::this_thread::yield();
          } catch (ww::cuda_error const&) {  // of this thread's creation
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(pool.available() == pool.size());
  }
}

TEST_CASE("a failing synchronize of a pool throws") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  ww::stream_pool pool{ww::device_id{0}, 3};
  wt::scoped_fault_plan const plan{
      wt::fault_plan{}.fail("cudaStreamSynchronize", 2, cudaErrorLaunchFailure)};
  CHECK_THROWS_WITH(pool.synchronize(), contains("cudaStreamSynchronize"));
}
#endif
