// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/capture_support.hpp"
#include "support/catch.hpp"

#include <warpwright/interop/pmr.hpp>
#include <warpwright/memory/buffer.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#endif

namespace ww = warpwright;
using test_support::gate;

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

ww::pinned_pool_options small(std::size_t maximum) {
  return ww::pinned_pool_options{}.max_bytes(maximum).growth_bytes(256 * kib);
}

}  // namespace

TEST_CASE("standard containers in page-locked memory") {
  ww::pinned_pool pool;
  ww::pmr_pinned_resource resource{pool};
  CHECK(&resource.pool() == &pool);
  {
    std::pmr::vector<int> numbers{&resource};
    for (int i = 0; i < 10000; ++i) numbers.push_back(i);
    CHECK(numbers[9999] == 9999);
    cudaPointerAttributes attributes{};
    ww::check(cudaPointerGetAttributes(&attributes, numbers.data()), "cudaPointerGetAttributes");
    CHECK(attributes.type == cudaMemoryTypeHost);
    std::pmr::map<int, std::pmr::string> names{&resource};
    names[1] = "a string that is too long for the space within a string";
    CHECK(names.begin()->second.get_allocator().resource() == &resource);
    CHECK(pool.statistics().live_blocks == 3);
  }
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("pmr: 0 bytes, alignments, too much memory") {
  ww::pinned_pool pool{small(mib)};
  ww::pmr_pinned_resource resource{pool};
  void* const none = resource.allocate(0);
  CHECK(none != nullptr);
  resource.deallocate(none, 0);
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    void* const odd = resource.allocate(1, 1);
    void* const p = resource.allocate(100, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
    resource.deallocate(p, 100, alignment);
    resource.deallocate(odd, 1, 1);
  }
  CHECK_THROWS_AS(resource.allocate(100, 8192), std::invalid_argument);
  CHECK_THROWS_AS(resource.allocate(2 * mib), ww::out_of_memory);
  std::pmr::vector<char> numbers{&resource};
  CHECK_THROWS_AS(numbers.resize(2 * mib), std::bad_alloc);
  numbers.resize(mib / 2);
  CHECK(pool.statistics().live_blocks == 1);
  numbers = std::pmr::vector<char>{&resource};
  CHECK(pool.statistics().live_bytes == 0);
  int not_ours = 0;
  resource.deallocate(&not_ours, 4);  // the error is ignored
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("pmr: memory that a stream still uses is not reused") {
  ww::stream s;
  ww::pinned_pool pool{small(8 * mib)};
  ww::pmr_pinned_resource on_stream{pool, s};
  ww::pmr_pinned_resource plain{pool};
  void const* used = nullptr;
  {
    std::pmr::vector<char> numbers(100 * kib, &on_stream);
    gate hold{s};
    used = numbers.data();
    numbers = std::pmr::vector<char>{&on_stream};  // freed behind the gate
    CHECK(pool.statistics().live_bytes == 0);
    std::pmr::vector<char> const others(100 * kib, &plain);
    CHECK(static_cast<void const*>(others.data()) != used);
  }
  CHECK(pool.statistics().event_records >= 1);
  // Without a stream it is reusable at once.
  void* const p = plain.allocate(1000);
  plain.deallocate(p, 1000);
  CHECK(plain.allocate(1000) == p);
  plain.deallocate(p, 1000);
}

TEST_CASE("pmr: resources are equal when they can free each other's memory") {
  ww::stream s;
  ww::stream t;
  ww::pinned_pool a;
  ww::pinned_pool b;
  ww::pmr_pinned_resource const plain{a};
  CHECK(plain.is_equal(ww::pmr_pinned_resource{a}));
  CHECK_FALSE(plain.is_equal(ww::pmr_pinned_resource{b}));
  CHECK_FALSE(plain.is_equal(ww::pmr_pinned_resource{a, s}));
  CHECK(ww::pmr_pinned_resource(a, s).is_equal(ww::pmr_pinned_resource{a, s}));
  CHECK_FALSE(ww::pmr_pinned_resource(a, s).is_equal(ww::pmr_pinned_resource{a, t}));
  CHECK_FALSE(plain.is_equal(*std::pmr::new_delete_resource()));
}

TEST_CASE("pmr: several threads") {
  ww::pinned_pool pool;
  ww::pmr_pinned_resource resource{pool};
  std::vector<std::thread> threads;
  std::vector<int> sums(4);
  for (std::size_t t = 0; t < sums.size(); ++t) {
    threads.emplace_back([&resource, &sums, t] {
      for (int round = 0; round < 100; ++round) {
        std::pmr::vector<int> numbers(1000, 1, &resource);
        for (int n : numbers) sums[t] += n;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(sums == std::vector<int>(4, 100000));
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.statistics().allocations == 400);
}

TEST_CASE("pmr: a container that is destroyed in a captured body leaves its memory to the graph") {
  ww::stream s;
  ww::pinned_pool pool{small(8 * mib)};
  ww::pmr_pinned_resource resource{pool, s};
  ww::memory_pool device_pool{ww::device_id{0}};
  ww::device_buffer<char> x{device_pool, s, 1000};
  ww::graph_replay step{0};
  step.recapture(s, [&](ww::stream_ref c) {
    std::pmr::vector<char> const numbers(1000, 5, &resource);
    ww::check(cudaMemcpyAsync(x.data(), numbers.data(), 1000, cudaMemcpyHostToDevice, c.get()),
              "cudaMemcpyAsync");
  });
  CHECK(pool.statistics().live_blocks == 1);
  std::pmr::vector<char> const others(1000, 9, &resource);
  step.launch(s);
  CHECK(test_support::all_are(test_support::fetch(s, x.data(), 1000), 5));
}

#if WARPWRIGHT_HOST_RUNTIME
// The pool queries the device when it registers the stream.
TEST_CASE("pmr: deallocating never throws: of a stream the pool cannot register it waits") {
  ww::stream s;
  ww::pinned_pool pool;
  ww::pmr_pinned_resource resource{pool, s};
  void* const p = resource.allocate(1000);
  gate hold{s};
  std::thread opener{[&hold] { hold.open_late(); }};
  {
    ww::testing::scoped_fault_plan const faults{
        ww::testing::fault_plan{}.fail("cudaStreamGetDevice", 1, cudaErrorUnknown)};
    resource.deallocate(p, 1000);
  }
  CHECK(s.done());
  CHECK(pool.statistics().live_bytes == 0);
  opener.join();
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("pmr: of a stream that can neither be registered nor waited for the block stays live") {
  ww::stream s;
  ww::pinned_pool pool;
  ww::pmr_pinned_resource resource{pool, s};
  void* const p = resource.allocate(1000);
  {
    ww::testing::scoped_fault_plan const faults{
        ww::testing::fault_plan{}
            .fail("cudaStreamGetDevice", 1, cudaErrorUnknown)
            .fail_from("cudaStreamSynchronize", 1, cudaErrorUnknown)};
    resource.deallocate(p, 1000);
  }
  CHECK(pool.statistics().live_blocks == 1);
  resource.deallocate(p, 1000);
  CHECK(pool.statistics().live_blocks == 0);
}
#endif
