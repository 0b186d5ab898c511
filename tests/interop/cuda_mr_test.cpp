// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/capture_support.hpp"
#include "support/catch.hpp"

#include <warpwright/interop/cuda_mr.hpp>

#include <cstring>
#include <thread>
#include <type_traits>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
namespace mr = cuda::mr;
using test_support::gate;

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

ww::device_id const device{0};

// One set of names for the tests.
#if CCCL_VERSION >= 3001000
template <class Resource>
constexpr bool is_stream_ordered = mr::resource<Resource>;
template <class Resource>
void* allocate(Resource& r, cudaStream_t s, std::size_t bytes, std::size_t alignment = 256) {
  return r.allocate(cuda::stream_ref{s}, bytes, alignment);
}
template <class Resource>
void deallocate(Resource& r, cudaStream_t s, void* p, std::size_t bytes,
                std::size_t alignment = 256) {
  r.deallocate(cuda::stream_ref{s}, p, bytes, alignment);
}
template <class Resource>
void* allocate_now(Resource& r, std::size_t bytes, std::size_t alignment = 256) {
  return r.allocate_sync(bytes, alignment);
}
template <class Resource>
void deallocate_now(Resource& r, void* p, std::size_t bytes, std::size_t alignment = 256) {
  r.deallocate_sync(p, bytes, alignment);
}
using any_device_resource = mr::resource_ref<mr::device_accessible>;
using any_pinned_resource = mr::resource_ref<mr::device_accessible, mr::host_accessible>;
static_assert(mr::synchronous_resource_with<ww::pool_resource<>, mr::device_accessible>, "");
static_assert(mr::resource_with<ww::pool_resource<>, mr::device_accessible>, "");
static_assert(
    mr::resource_with<ww::pinned_pool_resource, mr::device_accessible, mr::host_accessible>, "");
#else
template <class Resource>
constexpr bool is_stream_ordered = mr::async_resource<Resource>;
template <class Resource>
void* allocate(Resource& r, cudaStream_t s, std::size_t bytes, std::size_t alignment = 256) {
  return r.allocate_async(bytes, alignment, cuda::stream_ref{s});
}
template <class Resource>
void deallocate(Resource& r, cudaStream_t s, void* p, std::size_t bytes,
                std::size_t alignment = 256) {
  r.deallocate_async(p, bytes, alignment, cuda::stream_ref{s});
}
template <class Resource>
void* allocate_now(Resource& r, std::size_t bytes, std::size_t alignment = 256) {
  return r.allocate(bytes, alignment);
}
template <class Resource>
void deallocate_now(Resource& r, void* p, std::size_t bytes, std::size_t alignment = 256) {
  r.deallocate(p, bytes, alignment);
}
using any_device_resource = mr::async_resource_ref<mr::device_accessible>;
using any_pinned_resource = mr::async_resource_ref<mr::device_accessible, mr::host_accessible>;
static_assert(mr::async_resource_with<ww::pool_resource<>, mr::device_accessible>, "");
static_assert(
    mr::async_resource_with<ww::pinned_pool_resource, mr::device_accessible, mr::host_accessible>,
    "");
#endif

// The minimum that a pool needs for a resource.
struct counting_pool {
  ww::memory_pool& upstream;
  int taken = 0;
  int given = 0;
  void* allocate(ww::stream_ref s, std::size_t bytes, std::size_t alignment) {
    ++taken;
    return upstream.allocate(s, bytes, alignment);
  }
  void deallocate(ww::stream_ref s, void* p, std::size_t bytes) {
    ++given;
    upstream.deallocate(s, p, bytes);
  }
  ww::device_id device() const { return upstream.device(); }
};

}  // namespace

static_assert(is_stream_ordered<ww::pool_resource<>>, "");
static_assert(is_stream_ordered<ww::pool_resource<counting_pool>>, "");
static_assert(is_stream_ordered<ww::pinned_pool_resource>, "");
static_assert(cuda::has_property<ww::pool_resource<>, mr::device_accessible>, "");
static_assert(!cuda::has_property<ww::pool_resource<>, mr::host_accessible>, "");
static_assert(cuda::has_property<ww::pinned_pool_resource, mr::host_accessible>, "");

TEST_CASE("a pool as a cuda::mr resource") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::pool_resource<> resource{pool};
  CHECK(&resource.pool() == &pool);
  void* const p = allocate(resource, s.get(), 1000);
  REQUIRE(p != nullptr);
  CHECK(pool.statistics().live_bytes == 1024);
  test_support::fill(s, p, 7, 1000);
  CHECK(test_support::all_are(test_support::fetch(s, p, 1000), 7));
  gate hold{s};  // stream-ordered: nothing waits
  deallocate(resource, s.get(), p, 1000);
  CHECK(allocate(resource, s.get(), 1000) == p);
  deallocate(resource, s.get(), p, 1000);
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.statistics().allocations == 2);
}

TEST_CASE("a resource keeps alignments, and rejects invalid ones") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::pool_resource<> resource{pool};
  void* const odd = allocate(resource, s.get(), 300, 8);
  void* const p = allocate(resource, s.get(), 300, 64 * kib);
  CHECK(reinterpret_cast<std::uintptr_t>(p) % (64 * kib) == 0);
  deallocate(resource, s.get(), p, 300, 64 * kib);
  deallocate(resource, s.get(), odd, 300, 8);
  CHECK_THROWS_AS(allocate(resource, s.get(), 300, 3), std::invalid_argument);
  CHECK_THROWS_AS(allocate_now(resource, 300, 3), std::invalid_argument);
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("memory without a stream is usable at once") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::pool_resource<> resource{pool, s};
  void* const first = allocate_now(resource, mib);
  gate hold{s};
  deallocate_now(resource, first, mib);  // as if the work behind the gate used it
  std::thread opener{[&hold] { hold.open_late(); }};
  void* const again = allocate_now(resource, mib);
  CHECK(again == first);
  CHECK(s.done());  // it has waited
  opener.join();
  deallocate_now(resource, again, mib);
  CHECK(pool.statistics().live_bytes == 0);

  ww::pool_resource<> plain{pool};  // on the legacy default stream
  void* const p = allocate_now(plain, 100);
  REQUIRE(p != nullptr);
  deallocate_now(plain, p, 100);
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("a resource that is full throws, and deallocating never does") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(4 * mib)};
  ww::pool_resource<> resource{pool, s};
  CHECK_THROWS_AS(allocate(resource, s.get(), 8 * mib), ww::out_of_memory);
  CHECK_THROWS_AS(allocate_now(resource, 8 * mib), std::bad_alloc);
  int not_ours = 0;
  deallocate(resource, s.get(), &not_ours, 4);
  deallocate_now(resource, &not_ours, 4);
  CHECK(pool.statistics().deallocations == 0);
  deallocate(resource, s.get(), nullptr, 0);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("resources of one pool are equal") {
  ww::stream s;
  ww::memory_pool a{device};
  ww::memory_pool b{device};
  ww::pool_resource<> const first{a};
  CHECK(first == ww::pool_resource<>{a, s});
  CHECK(first != ww::pool_resource<>{b});
  ww::pinned_pool p;
  ww::pinned_pool q;
  CHECK(ww::pinned_pool_resource{p} == ww::pinned_pool_resource{p});
  CHECK(ww::pinned_pool_resource{p} != ww::pinned_pool_resource{q});
}

TEST_CASE("a resource behind CCCL's type erasure") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::pool_resource<> resource{pool, s};
  any_device_resource erased{resource};
  void* const p = allocate(erased, s.get(), 1000);
  CHECK(pool.statistics().live_blocks == 1);
  deallocate(erased, s.get(), p, 1000);
  void* const q = allocate_now(erased, 1000);
  CHECK(q == p);
  deallocate_now(erased, q, 1000);
  CHECK(pool.statistics().live_blocks == 0);

  ww::pinned_pool pinned;
  ww::pinned_pool_resource host{pinned};
  any_pinned_resource erased_host{host};
  void* const h = allocate_now(erased_host, 1000);
  std::memset(h, 1, 1000);
  deallocate_now(erased_host, h, 1000);
  CHECK(pinned.statistics().allocations == 1);
  CHECK(pinned.statistics().live_blocks == 0);
}

TEST_CASE("a resource over any class with the pool's interface") {
  ww::stream s;
  ww::memory_pool pool{device};
  counting_pool counting{pool};
  ww::pool_resource<counting_pool> resource{counting, s};
  deallocate(resource, s.get(), allocate(resource, s.get(), 100), 100);
  deallocate_now(resource, allocate_now(resource, 100), 100);
  CHECK(counting.taken == 2);
  CHECK(counting.given == 2);
}

TEST_CASE("a resource takes the ids of streams that are known, without a change of its results") {
  ww::stream s;
  ww::stream other;
  ww::known_streams known;
  known.add(s);
  ww::memory_pool pool{device};
  ww::pool_resource<> resource{pool, known, s.get()};
  CHECK(resource == ww::pool_resource<>{pool});
  void* const p = allocate(resource, s.get(), 1000);
  deallocate(resource, s.get(), p, 1000);
  CHECK(pool.allocate(s, 1000) == p);  // the same stream for the pool
  pool.deallocate(s, p, 1000);
  void* const q = allocate(resource, other.get(), 1000);  // not added: queried
  CHECK(q != nullptr);
  deallocate(resource, other.get(), q, 1000);
  deallocate_now(resource, allocate_now(resource, 1000), 1000);
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("a resource's memory in a captured body belongs to the graph") {
  ww::memory_pool pool{device};
  ww::known_streams const none_known;
  ww::pool_resource<> resources[] = {ww::pool_resource<>{pool},
                                     ww::pool_resource<>{pool, none_known}};
  for (ww::pool_resource<>& resource : resources) {
    test_support::check_separate(
        pool,
        [&](ww::stream_ref c) {
          void* const p = allocate(resource, c.get(), mib);
          test_support::fill(c, p, 2, mib);
          deallocate(resource, c.get(), p, mib);
        },
        mib);
  }
}

TEST_CASE("memory without a stream is refused while the resource's stream is capturing") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::pool_resource<> resource{pool, s};
  void* const before = allocate_now(resource, mib);
  {
    ww::graph const g = ww::capture(s, [&](ww::stream_ref) {
      CHECK_THROWS_WITH(allocate_now(resource, mib), contains("on a capturing stream"));
      deallocate_now(resource, before, mib);
    });
    CHECK(pool.statistics().live_blocks == 0);
  }
  deallocate_now(resource, allocate_now(resource, mib), mib);
}

TEST_CASE("raw handles of known streams can capture") {
  ww::stream s;
  ww::known_streams known;
  known.add(s);
  ww::memory_pool pool{device};
  ww::pool_resource<> resource{pool, known};
  ww::capture_watch const watch{pool};
  cudaGraph_t graph = nullptr;
  ww::check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "begin");
  void* const p = allocate(resource, s.get(), 1000);
  deallocate(resource, s.get(), p, 1000);
  CHECK(cudaStreamEndCapture(s, &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a hit on a known stream makes no CUDA call, one on a raw handle a query") {
  ww::testing::reset_host_runtime();
  {
    ww::stream s;
    ww::known_streams known;
    known.add(s);
    ww::memory_pool pool{device};
    ww::pool_resource<> fast{pool, known, s.get()};
    ww::pool_resource<> plain{pool};
    deallocate(fast, s.get(), allocate(fast, s.get(), 1000), 1000);
    ww::testing::reset_call_counts();
    deallocate(fast, s.get(), allocate(fast, s.get(), 1000), 1000);
    CHECK(ww::testing::total_calls() == 0);
    deallocate(plain, s.get(), allocate(plain, s.get(), 1000), 1000);
    CHECK(ww::testing::call_count("cudaStreamGetId") == 2);
    CHECK(ww::testing::total_calls() == 2);
    void* const p = allocate_now(fast, 1000);
    deallocate_now(fast, p, 1000);
    CHECK(ww::testing::call_count("cudaStreamGetId") == 2);
  }
  ww::testing::reset_host_runtime();
}
#endif

TEST_CASE("page-locked memory as a cuda::mr resource") {
  ww::stream s;
  ww::pinned_pool pool{ww::pinned_pool_options{}.growth_bytes(4 * mib)};
  ww::pinned_pool_resource resource{pool};
  void* const p = allocate(resource, s.get(), mib);
  std::memset(p, 1, mib);
  {
    gate hold{s};
    deallocate(resource, s.get(), p, mib);
    void* const other = allocate(resource, s.get(), mib);
    CHECK(other != p);  // the stream has not completed
    deallocate_now(resource, other, mib);
    CHECK(allocate_now(resource, mib) == other);
    deallocate_now(resource, other, mib);
  }
  int not_ours = 0;
  deallocate(resource, s.get(), &not_ours, 4);
  deallocate_now(resource, &not_ours, 4);
  CHECK_THROWS_AS(allocate_now(resource, 100, 8 * kib), std::invalid_argument);
  CHECK(pool.statistics().live_bytes == 0);
}
