// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/stream/stream_pool.hpp>

#include <array>
#include <atomic>
#include <chrono>
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
  for (unsigned const size : {1U, 2U, 63U, 64U}) {
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
  CHECK_THROWS_WITH(ww::stream_pool(ww::current_device(), 65),
                    contains("size is 65, it must be 1 to 64: use several pools"));
  CHECK_THROWS_AS(ww::stream_pool(ww::current_device(), 4, 1000), std::invalid_argument);
  CHECK_THROWS_AS(ww::stream_pool(ww::device_id{ww::device_count()}, 4), ww::cuda_error);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("streams are leased in rotation, the one returned last at the end") {
  ww::stream_pool pool{ww::current_device(), 3};
  std::array<std::uint64_t, 6> order{};
  for (auto& id : order) id = pool.lease().stream().id();
  CHECK(order[0] != order[1]);
  CHECK(order[1] != order[2]);
  CHECK(order[0] == order[3]);
  CHECK(order[1] == order[4]);
  CHECK(order[2] == order[5]);
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

TEST_CASE("a failing synchronize of a pool throws") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  ww::stream_pool pool{ww::device_id{0}, 3};
  wt::scoped_fault_plan const plan{
      wt::fault_plan{}.fail("cudaStreamSynchronize", 2, cudaErrorLaunchFailure)};
  CHECK_THROWS_WITH(pool.synchronize(), contains("cudaStreamSynchronize"));
}
#endif
