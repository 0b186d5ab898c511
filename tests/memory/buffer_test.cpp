// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/adaptors/limit.hpp>
#include <warpwright/memory/buffer.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::all_are;
using test_support::fetch;
using test_support::fill;
using test_support::gate;

namespace {

ww::device_id const device{0};

struct alignas(1024) wide {
  unsigned char bytes[1024];
};

}  // namespace

static_assert(!std::is_copy_constructible<ww::device_buffer<int>>::value, "one owner");
static_assert(std::is_nothrow_move_constructible<ww::device_buffer<int>>::value, "");
static_assert(std::is_nothrow_move_assignable<ww::device_buffer<int>>::value, "");

TEST_CASE("a buffer allocates its elements from the pool and frees them") {
  ww::stream s;
  ww::memory_pool pool{device};
  {
    ww::device_buffer<float> x{pool, s, 1000};
    CHECK(x.size() == 1000);
    CHECK(x.size_bytes() == 4000);
    CHECK_FALSE(x.empty());
    CHECK(x.stream() == s.ref());
    CHECK(x.pool() == &pool);
    fill(s, x.data(), 0, x.size_bytes());
    CHECK(all_are(fetch(s, x.data(), x.size_bytes()), 0));
    CHECK(pool.statistics().live_blocks == 1);
  }
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("a buffer may be empty, with or without a pool") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<int> none;
  CHECK(none.empty());
  CHECK(none.data() == nullptr);
  CHECK(none.pool() == nullptr);
  none.resize(0);
  CHECK_THROWS_WITH(none.resize(5), contains("has no pool to allocate 5 elements from"));
  CHECK_THROWS_AS(none.reallocate(5), std::invalid_argument);
  ww::device_buffer<int> zero{pool, s, 0};
  CHECK(zero.data() == nullptr);
  CHECK(pool.statistics().allocations == 0);
  zero.resize(5);
  CHECK(zero.size() == 5);
  none = std::move(zero);
  CHECK(none.size() == 5);
  CHECK(zero.empty());
  zero.resize(7);  // it kept its pool and stream
  CHECK(zero.size() == 7);
}

TEST_CASE("a buffer moves, and frees its old elements") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<int> a{pool, s, 10};
  int* const p = a.data();
  ww::device_buffer<int> b{std::move(a)};
  CHECK(b.data() == p);
  CHECK(a.empty());
  ww::device_buffer<int> c{pool, s, 20};
  CHECK(pool.statistics().live_blocks == 2);
  c = std::move(b);
  CHECK(c.data() == p);
  CHECK(c.size() == 10);
  CHECK(pool.statistics().live_blocks == 1);
  ww::device_buffer<int>& same = c;
  c = std::move(same);
  CHECK(c.data() == p);
  CHECK(c.size() == 10);
}

TEST_CASE("resize keeps the values of the remaining elements") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<unsigned char> x{pool, s, 1000};
  fill(s, x.data(), 3, 1000);
  x.resize(100000);
  CHECK(x.size() == 100000);
  CHECK(all_are(fetch(s, x.data(), 1000), 3));
  x.resize(10);
  CHECK(x.size() == 10);
  CHECK(all_are(fetch(s, x.data(), 10), 3));
  x.resize(0);
  CHECK(x.data() == nullptr);
  CHECK(pool.statistics().live_blocks == 0);
  x.reallocate(50);
  CHECK(x.size() == 50);
}

TEST_CASE("a size that overflows is out of memory, and changes nothing") {
  ww::stream s;
  ww::memory_pool pool{device};
  std::size_t const most = ~std::size_t{0};
  CHECK_THROWS_AS(ww::device_buffer<double>(pool, s, most / 8 + 1), ww::out_of_memory);
  CHECK_THROWS_AS(ww::device_buffer<double>(pool, s, most / 8), ww::out_of_memory);
  CHECK_THROWS_AS(ww::device_buffer<double>(pool, s, most), ww::out_of_memory);
  ww::device_buffer<double> x{pool, s, 4};
  double* const p = x.data();
  CHECK_THROWS_AS(x.resize(most), ww::out_of_memory);
  CHECK(x.data() == p);
  CHECK(x.size() == 4);
  CHECK_THROWS_AS(x.reallocate(most), ww::out_of_memory);
  CHECK(x.empty());
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("elements have the alignment of their type") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<char> odd{pool, s, 1};
  ww::device_buffer<wide> x{pool, s, 3};
  CHECK(reinterpret_cast<std::uintptr_t>(x.data()) % 1024 == 0);
}

TEST_CASE("a buffer is freed on the stream that was set last") {
  ww::stream first;
  ww::stream second;
  ww::memory_pool pool{device, ww::memory_pool_options{}.maximum_bytes(std::size_t{2} << 20U)};
  void* p = nullptr;
  {
    ww::device_buffer<char> x{pool, first, std::size_t{2} << 20U};
    p = x.data();
    second.wait(first);
    x.set_stream(second);
    CHECK(x.stream() == second.ref());
  }
  gate hold{second};
  void* const again =
      pool.allocate(second, std::size_t{2} << 20U);  // no wait: the block is in second's list
  CHECK(again == p);
  CHECK(pool.statistics().stream_waits == 0);
  pool.deallocate(second, again, std::size_t{2} << 20U);
}

TEST_CASE("release gives up ownership of the elements") {
  ww::stream s;
  ww::memory_pool pool{device};
  int* p = nullptr;
  {
    ww::device_buffer<int> x{pool, s, 10};
    p = x.release();
    CHECK(x.empty());
  }
  REQUIRE(p != nullptr);
  CHECK(pool.statistics().live_blocks == 1);
  pool.deallocate(s, p, 40);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("a copy that fails leaves the buffer unchanged") {
  ww::testing::reset_host_runtime();
  {
    ww::stream s;
    ww::memory_pool pool{device};
    ww::device_buffer<int> x{pool, s, 10};
    int* const p = x.data();
    {
      ww::testing::scoped_fault_plan const plan{
          ww::testing::fault_plan{}.fail("cudaMemcpyAsync", 1, cudaErrorInvalidValue)};
      CHECK_THROWS_AS(x.resize(20), ww::cuda_error);
    }
    CHECK(x.data() == p);
    CHECK(x.size() == 10);
    CHECK(pool.statistics().live_blocks == 1);
  }
  CHECK(ww::testing::leak_report().empty());
}

#endif

TEST_CASE("a buffer allocates from any class with the pool's interface") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  ww::memory_cache cache = pool.make_cache(s);
  ww::limit_adaptor part{pool, 4096};
  {
    ww::device_buffer<int, ww::memory_cache> a{cache, s, 100};
    CHECK(a.pool() == &cache);
    ww::device_buffer<int, ww::limit_adaptor<ww::memory_pool>> b{part, s, 1024};
    CHECK(part.live_bytes() == 4096);
    using limited = ww::device_buffer<int, ww::limit_adaptor<ww::memory_pool>>;
    CHECK_THROWS_AS(limited(part, s, 1), ww::out_of_memory);
    b.resize(0);
    CHECK(pool.statistics().live_blocks == 1);
  }
  CHECK(pool.statistics().live_blocks == 0);
  CHECK(part.live_bytes() == 0);
}
