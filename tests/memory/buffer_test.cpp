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
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(std::size_t{2} << 20U)};
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

TEST_CASE("a buffer has room for its elements only, until some is reserved") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<int> x{pool, s, 10};
  CHECK(x.capacity() == 10);
  CHECK(x.capacity_bytes() == 40);
  x.resize(5);
  CHECK(x.capacity() == 5);
  x.reserve(3);
  CHECK(x.capacity() == 5);
  CHECK(x.size() == 5);
  x.reserve(100);
  CHECK(x.capacity() == 100);
  CHECK(x.size() == 5);
  x.reserve(50);
  CHECK(x.capacity() == 100);
}

TEST_CASE("resize within what is reserved keeps the elements in place") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<unsigned char> x{pool, s, 10};
  fill(s, x.data(), 3, 10);
  x.reserve(1000);
  CHECK(all_are(fetch(s, x.data(), 10), 3));
  CHECK(pool.statistics().live_blocks == 1);
  unsigned char* const p = x.data();
  x.resize(1000);
  CHECK(x.data() == p);
  CHECK(x.size() == 1000);
  x.resize(0);
  CHECK(x.data() == p);
  CHECK(x.empty());
  CHECK(x.capacity() == 1000);
  x.resize(10);
  CHECK(all_are(fetch(s, x.data(), 10), 3));
  x.resize(1001);  // beyond it: new memory of that size
  CHECK(x.capacity() == 1001);
  CHECK(all_are(fetch(s, x.data(), 10), 3));
  unsigned char* const q = x.data();
  x.resize(999);  // what was reserved stays reserved
  CHECK(x.data() == q);
  CHECK(x.capacity() == 1001);
  CHECK(pool.statistics().live_blocks == 1);
}

TEST_CASE("less room than there is can be reserved, and is kept from then on") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<unsigned char> x{pool, s, 1000};
  unsigned char* const p = x.data();
  x.reserve(500);
  CHECK(x.data() == p);
  x.resize(200);
  CHECK(x.data() == p);
  CHECK(x.capacity() == 1000);
  x.resize(700);  // was not reserved
  CHECK(x.capacity() == 700);
}

TEST_CASE("shrink_to_fit frees what was reserved") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<unsigned char> x{pool, s, 10};
  fill(s, x.data(), 3, 10);
  x.reserve(100000);
  x.shrink_to_fit();
  CHECK(x.capacity() == 10);
  CHECK(x.size() == 10);
  CHECK(all_are(fetch(s, x.data(), 10), 3));
  CHECK(pool.statistics().live_bytes == 256);
  unsigned char* const p = x.data();
  x.shrink_to_fit();
  CHECK(x.data() == p);
  x.reserve(20);
  x.resize(20);
  x.shrink_to_fit();  // nothing to free, and nothing is reserved any more
  x.resize(10);
  CHECK(x.capacity() == 10);
  x.reserve(50);
  x.resize(0);
  x.shrink_to_fit();
  CHECK(x.data() == nullptr);
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("reallocate, release and a move leave no reservation") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<int> x{pool, s, 10};
  x.reserve(100);
  x.reallocate(20);
  CHECK(x.capacity() == 20);
  x.resize(10);
  CHECK(x.capacity() == 10);
  x.reserve(100);
  ww::device_buffer<int> y{std::move(x)};
  CHECK(x.capacity() == 0);
  CHECK(y.capacity() == 100);
  y.resize(50);
  CHECK(y.capacity() == 100);
  x.resize(5);
  CHECK(x.capacity() == 5);
  x = std::move(y);
  CHECK(x.capacity() == 100);
  CHECK(y.capacity() == 0);
  std::size_t const bytes = x.capacity_bytes();
  int* const p = x.release();
  CHECK(x.capacity() == 0);
  CHECK(x.size() == 0);
  pool.deallocate(s, p, bytes);
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("a buffer is made from values on the host, and copied on a stream") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::memory_pool other{device};
  std::vector<int> const values{1, 2, 3, 4, 5};
  ww::device_buffer<int> x{pool, s, values.data(), values.size()};
  x.reserve(100);
  ww::device_buffer<int> const y{other, s, x};
  CHECK(y.size() == 5);
  CHECK(y.capacity() == 5);
  CHECK(y.pool() == &other);
  CHECK(y.data() != x.data());
  ww::device_buffer<int> const z{pool, s, y.data() + 1, 2};
  std::vector<int> got(5);
  y.copy_to(s, got.data(), 5);
  s.synchronize();
  CHECK(got == values);
  z.copy_to(s, got.data(), 2);
  s.synchronize();
  CHECK(got == std::vector<int>{2, 3, 3, 4, 5});
  ww::device_buffer<int> const none{pool, s, ww::device_buffer<int>{}};
  CHECK(none.empty());
  ww::device_buffer<int> const nothing{pool, s, nullptr, 0};
  CHECK(nothing.data() == nullptr);
}

TEST_CASE("elements are copied from and to any place of a buffer") {
  ww::stream s;
  ww::memory_pool pool{device};
  std::vector<int> values{1, 2, 3, 4, 5};
  ww::device_buffer<int> x{pool, s, values.data(), 5};
  std::vector<int> const more{10, 20};
  x.copy_from(s, more.data(), 2, 3);
  x.copy_from(s, more.data(), 1);
  x.copy_to(s, values.data(), 3, 2);
  s.synchronize();
  CHECK(values == std::vector<int>{3, 10, 20, 4, 5});
  x.copy_to(s, values.data(), 2);
  s.synchronize();
  CHECK(values == std::vector<int>{10, 2, 20, 4, 5});
  x.copy_from(s, nullptr, 0, 5);  // an empty range at the end
  x.copy_to(s, nullptr, 0, 5);
}

TEST_CASE("elements beyond the end are refused, with the size") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<int> x{pool, s, 5};
  int value = 0;
  std::size_t const most = ~std::size_t{0};
  CHECK_THROWS_WITH(x.copy_from(s, &value, 1, 5),
                    contains("cannot copy to 1 elements from index 5 on: the buffer has 5"));
  CHECK_THROWS_AS(x.copy_from(s, &value, 6), std::invalid_argument);
  CHECK_THROWS_AS(x.copy_from(s, &value, most, 2), std::invalid_argument);
  CHECK_THROWS_AS(x.copy_from(s, &value, 2, most), std::invalid_argument);
  CHECK_THROWS_AS(x.copy_to(s, &value, 1, 5), std::invalid_argument);
  CHECK_THROWS_AS(x.copy_to(s, &value, 6), std::invalid_argument);
  CHECK_THROWS_AS(x.element(s, 5), std::invalid_argument);
  CHECK_THROWS_AS(x.set_element(s, 5, 1), std::invalid_argument);
  CHECK_THROWS_AS(x.set_element_async(s, 5, value), std::invalid_argument);
  x.reserve(10);
  CHECK_THROWS_WITH(x.element(s, 5), contains("buffer_test.cpp"));  // reserved is not there yet
  ww::device_buffer<int> const none;
  CHECK_THROWS_AS(none.element(s, 0), std::invalid_argument);
}

TEST_CASE("single elements are written and read in the order of the stream") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<double> x{pool, s, 3};
  x.set_to_zero(s);
  CHECK(x.element(s, 2) == 0.0);
  x.set_element(s, 1, 1.5);
  double const two = 2.5;
  x.set_element_async(s, 2, two);
  CHECK(x.element(s, 0) == 0.0);
  CHECK(x.element(s, 1) == 1.5);
  CHECK(x.element(s, 2) == 2.5);
  ww::device_buffer<double>{}.set_to_zero(s);
}

TEST_CASE("an element need not have a default constructor") {
  struct number {
    explicit number(int v) : value{v} {}
    int value;
  };
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<number> x{pool, s, 2};
  x.set_element(s, 1, number{7});
  CHECK(x.element(s, 1).value == 7);
}

TEST_CASE("what waits for the stream is refused in a capture, which goes on") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<int> x{pool, s, 5};
  static int const seven = 7;
  cudaGraph_t graph = nullptr;
  ww::check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "begin");
  CHECK_THROWS_WITH(x.element(s, 0), contains("cannot read an element on a capturing stream"));
  CHECK_THROWS_AS(x.set_element(s, 0, 1), std::invalid_argument);
  x.set_to_zero(s);
  x.set_element_async(s, 1, seven);
  ww::check(cudaStreamEndCapture(s, &graph), "end");
  cudaGraphExec_t exec = nullptr;
  ww::check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  ww::check(cudaGraphLaunch(exec, s), "launch");
  CHECK(x.element(s, 0) == 0);
  CHECK(x.element(s, 1) == 7);
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("a free that fails once loses no block") {
  ww::testing::reset_host_runtime();
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<int> x{pool, ww::stream_ref{s.get()}, 1000};
  {
    ww::testing::scoped_fault_plan const plan{
        ww::testing::fault_plan{}
            .fail("cudaStreamGetId", 1, cudaErrorUnknown)
            .fail("cudaStreamGetId", 2, cudaErrorUnknown)};  // the pool queries it twice
    x = {};
    CHECK(plan.hits() == 2);
  }
  CHECK(pool.statistics().live_blocks == 0);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("every call that fails in a copy is reported and loses nothing") {
  ww::testing::reset_host_runtime();
  {
    ww::stream s;
    ww::memory_pool pool{device};
    int const values[] = {1, 2, 3};
    ww::device_buffer<int> x{pool, s, values, 3};
    int* const p = x.data();
    int out = 0;
    {
      ww::testing::scoped_fault_plan const plan{
          ww::testing::fault_plan{}.fail_from("cudaMemcpyAsync", 1, cudaErrorInvalidValue)};
      CHECK_THROWS_AS(ww::device_buffer<int>(pool, s, values, 3), ww::cuda_error);
      CHECK_THROWS_AS(ww::device_buffer<int>(pool, s, x), ww::cuda_error);
      CHECK_THROWS_AS(x.reserve(100), ww::cuda_error);
      CHECK_THROWS_AS(x.copy_from(s, values, 1), ww::cuda_error);
      CHECK_THROWS_AS(x.copy_to(s, &out, 1), ww::cuda_error);
      CHECK_THROWS_AS(x.element(s, 0), ww::cuda_error);
      CHECK_THROWS_AS(x.set_element(s, 0, 1), ww::cuda_error);
      CHECK_THROWS_AS(x.set_element_async(s, 0, values[1]), ww::cuda_error);
    }
    {
      ww::testing::scoped_fault_plan const plan{
          ww::testing::fault_plan{}.fail_from("cudaStreamSynchronize", 1, cudaErrorInvalidValue)};
      CHECK_THROWS_AS(x.element(s, 0), ww::cuda_error);
      CHECK_THROWS_AS(x.set_element(s, 0, 1), ww::cuda_error);
    }
    {
      ww::testing::scoped_fault_plan const plan{
          ww::testing::fault_plan{}.fail_from("cudaStreamIsCapturing", 1, cudaErrorInvalidValue)};
      CHECK_THROWS_AS(x.element(s, 0), ww::cuda_error);
      CHECK_THROWS_AS(x.set_element(s, 0, 1), ww::cuda_error);
    }
    {
      ww::testing::scoped_fault_plan const plan{
          ww::testing::fault_plan{}.fail_from("cudaMemsetAsync", 1, cudaErrorInvalidValue)};
      CHECK_THROWS_AS(x.set_to_zero(s), ww::cuda_error);
    }
    CHECK(x.data() == p);
    CHECK(x.size() == 3);
    CHECK(x.capacity() == 3);
    CHECK(pool.statistics().live_blocks == 1);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  CHECK(ww::testing::leak_report().empty());
}

TEST_CASE("without memory reserve and shrink_to_fit leave the buffer unchanged") {
  ww::testing::reset_host_runtime();
  ww::stream s;
  ww::memory_pool pool{device};
  ww::limit_adaptor part{pool, 1000};
  using limited = ww::device_buffer<char, ww::limit_adaptor<ww::memory_pool>>;
  limited x{part, s, 400};
  char* const p = x.data();
  CHECK_THROWS_AS(x.reserve(700), ww::out_of_memory);
  CHECK(x.data() == p);
  CHECK(x.size() == 400);
  CHECK(x.capacity() == 400);
  x.resize(100);
  x.reserve(700);
  x.resize(500);
  CHECK_THROWS_AS(x.shrink_to_fit(), ww::out_of_memory);
  CHECK(x.capacity() == 700);
  x.resize(700);  // still reserved
  CHECK(part.live_bytes() == 700);
  CHECK_THROWS_AS(limited(part, s, x), ww::out_of_memory);
}

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
