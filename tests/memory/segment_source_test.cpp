// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool's memory in segments.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/detail/source/segment_source.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
namespace testing = warpwright::testing;
#endif

namespace ww = warpwright;
using ww::detail::allocation_request;
using ww::detail::block_heap;
using ww::detail::heap_guard;
using ww::detail::segment_source;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr std::uint64_t granule = block_heap::granule_bytes;
ww::source_location const here = ww::source_location::current();

struct segments {
  ww::stream stream;  // first: it creates the context
  ww::detail::pool_heap heap;
  segment_source source{heap};

  explicit segments(bool async = false) {
    heap.driver.find();
    if (async) source.use_malloc_async(here);
  }
  ~segments() { source.close(); }
  segments(segments const&) = delete;
  segments& operator=(segments const&) = delete;

  bool grow(heap_guard& lock, std::uint64_t bytes, std::uint64_t preferred = 0,
            std::uint64_t allowed = 64 * mib, std::uint64_t alignment = granule) {
    return source.grow(lock, allocation_request{bytes, bytes, alignment}, preferred, allowed, here);
  }
  // From ready memory; block_heap::none if it does not fit.
  std::uint32_t allocate(std::uint64_t bytes, std::uint64_t alignment = granule) {
    return heap.blocks.allocate(block_heap::ready, bytes, alignment, true, bytes);
  }
  [[nodiscard]] std::uint64_t ready() const { return heap.blocks.bytes_in(block_heap::ready); }
};

}  // namespace

TEST_CASE("a segment has whole pages of the driver, ready for every stream") {
  segments t;
  heap_guard lock{t.heap.lock};
  CHECK(t.grow(lock, 3 * mib));
  CHECK(t.source.reserved_bytes() == 4 * mib);
  CHECK(t.ready() == 4 * mib);
  CHECK(t.heap.counters.upstream_allocations == 1);
  CHECK(t.heap.counters.reserved_bytes == 4 * mib);
  std::uint32_t const node = t.allocate(3 * mib);
  REQUIRE(node != block_heap::none);
  CHECK(test_support::is_usable(t.stream, t.heap.blocks.at(node).address, 3 * mib));
}

TEST_CASE("a segment of the preferred size is requested where that is larger") {
  segments t;
  heap_guard lock{t.heap.lock};
  CHECK(t.grow(lock, mib, 7 * mib));
  CHECK(t.source.reserved_bytes() == 8 * mib);
  CHECK(t.grow(lock, 12 * mib, 7 * mib));
  CHECK(t.source.reserved_bytes() == 20 * mib);
}

TEST_CASE("no more is reserved than is allowed") {
  segments t;
  heap_guard lock{t.heap.lock};
  CHECK(t.grow(lock, mib, 64 * mib, 8 * mib));  // instead of the preferred size
  CHECK(t.source.reserved_bytes() == 8 * mib);
  CHECK(t.grow(lock, 3 * mib, 0, 3 * mib + 1));  // instead of whole pages
  CHECK(t.source.reserved_bytes() == 11 * mib);
  CHECK_FALSE(t.grow(lock, 3 * mib, 0, 3 * mib - 1));
  CHECK_FALSE(t.grow(lock, granule, 0, 0));
  CHECK(t.source.reserved_bytes() == 11 * mib);
}

TEST_CASE("a segment has room for the request's alignment") {
  segments t;
  heap_guard lock{t.heap.lock};
  CHECK(t.grow(lock, 2 * mib, 0, 64 * mib, 8 * mib));
  CHECK(t.source.reserved_bytes() == 10 * mib);
  CHECK(t.allocate(2 * mib, 8 * mib) != block_heap::none);
}

TEST_CASE("a size that no memory has is refused") {
  segments t;
  heap_guard lock{t.heap.lock};
  std::uint64_t const largest = ~std::uint64_t{0} & ~(granule - 1);
  CHECK_FALSE(t.grow(lock, largest, 0, ~std::uint64_t{0}, 2 * granule));
  CHECK(t.source.reserved_bytes() == 0);
}

TEST_CASE("free segments are returned, the largest first, down to what is kept") {
  for (bool const async : {false, true}) {
    segments t{async};
    heap_guard lock{t.heap.lock};
    CHECK(t.source.add(lock, 6 * mib, here));
    std::uint32_t const live = t.allocate(5 * mib);
    for (std::uint64_t size : {2, 8, 4}) CHECK(t.source.add(lock, size * mib, here));
    t.source.release(lock, 16 * mib, here);  // of 4: 8 would leave too little
    CHECK(t.source.reserved_bytes() == 16 * mib);
    t.source.release(lock, 7 * mib, here);  // 8
    CHECK(t.source.reserved_bytes() == 8 * mib);
    t.source.release(lock, 0, here);
    CHECK(t.source.reserved_bytes() == 6 * mib);
    CHECK(t.ready() == mib);
    CHECK(t.heap.counters.upstream_deallocations == 3);
    CHECK(t.heap.counters.reserved_bytes == 6 * mib);
    CHECK(t.heap.counters.reserved_peak_bytes == 20 * mib);
    t.heap.blocks.deallocate(live, block_heap::ready, 0);
    t.source.release(lock, 0, here);
    CHECK(t.source.reserved_bytes() == 0);
  }
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("closing returns all segments, also those with live blocks") {
  for (bool const async : {false, true}) {
    testing::reset_host_runtime();
    {
      segments t{async};
      heap_guard lock{t.heap.lock};
      CHECK(t.grow(lock, mib));
      CHECK(t.grow(lock, mib));
      static_cast<void>(t.allocate(mib));
    }
    CHECK(testing::stats().device_allocations == 0);
    CHECK(testing::stats().streams == 0);
  }
}

TEST_CASE("a segment of cudaMallocAsync is ready for every stream at once") {
  testing::reset_host_runtime();
  segments t{true};
  heap_guard lock{t.heap.lock};
  CHECK(t.grow(lock, mib));
  CHECK(testing::call_count("cudaMallocAsync") == 1);
  CHECK(testing::call_count("cudaStreamSynchronize") == 1);
  CHECK(testing::call_count("cudaMalloc") == 0);
}

TEST_CASE("where CUDA has no memory for the preferred size, the request's own is tried") {
  for (bool const async : {false, true}) {
    segments t{async};
    heap_guard lock{t.heap.lock};
    testing::scoped_fault_plan const fault{testing::fault_plan{}.fail(
        async ? "cudaMallocAsync" : "cudaMalloc", 1, cudaErrorMemoryAllocation)};
    CHECK(t.grow(lock, mib, 32 * mib));
    CHECK(t.source.reserved_bytes() == 2 * mib);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
}

TEST_CASE("without memory nothing is added, and no error is left behind") {
  segments t;
  heap_guard lock{t.heap.lock};
  testing::scoped_fault_plan const fault{
      testing::fault_plan{}.fail_from("cudaMalloc", 1, cudaErrorMemoryAllocation)};
  CHECK_FALSE(t.grow(lock, mib, 32 * mib));
  CHECK(fault.hits() == 2);
  CHECK(t.source.reserved_bytes() == 0);
  CHECK(t.heap.counters.upstream_allocations == 0);
  CHECK(t.heap.blocks.empty(block_heap::ready));
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("other errors are thrown, and nothing is added or lost") {
  for (char const* call : {"cudaMalloc", "cudaMallocAsync", "cudaStreamSynchronize"}) {
    testing::reset_host_runtime();
    segments t{call != std::string{"cudaMalloc"}};
    heap_guard lock{t.heap.lock};
    {
      testing::scoped_fault_plan const fault{testing::fault_plan{}.fail(call, 1, cudaErrorUnknown)};
      CHECK_THROWS_WITH(t.grow(lock, mib), contains(call));
    }
    CHECK(t.source.reserved_bytes() == 0);
    CHECK(t.heap.blocks.empty(block_heap::ready));
    CHECK(testing::stats().device_allocations == 0);
    CHECK(t.grow(lock, mib));
  }
}

TEST_CASE("a segment that cannot be returned stays in the heap") {
  for (bool const async : {false, true}) {
    segments t{async};
    heap_guard lock{t.heap.lock};
    CHECK(t.source.add(lock, 4 * mib, here));
    CHECK(t.source.add(lock, 2 * mib, here));
    char const* const call = async ? "cudaFreeAsync" : "cudaFree";
    {
      testing::scoped_fault_plan const fault{testing::fault_plan{}.fail(call, 2, cudaErrorUnknown)};
      CHECK_THROWS_WITH(t.source.release(lock, 0, here), contains(call));
    }
    CHECK(t.source.reserved_bytes() == 2 * mib);
    CHECK(t.ready() == 2 * mib);
    CHECK(t.heap.counters.upstream_deallocations == 1);
    t.source.release(lock, 0, here);
    CHECK(t.source.reserved_bytes() == 0);
  }
}

TEST_CASE("other threads get the heap while CUDA is asked for memory") {
  segments t;
  testing::reset_call_counts();
  testing::scoped_fault_plan const slow{
      testing::fault_plan{}.delay("cudaMalloc", 1, std::chrono::milliseconds{1000})};
  std::atomic<bool> growing{true};
  std::atomic<bool> got_it{false};
  heap_guard lock{t.heap.lock};
  std::thread other{[&] {
    while (testing::call_count("cudaMalloc") == 0) std::this_thread::yield();
    heap_guard const own{t.heap.lock};
    got_it = growing.load();
  }};
  CHECK(t.grow(lock, mib));
  growing = false;
  lock.unlock();
  other.join();
  CHECK(got_it);
}
#endif
