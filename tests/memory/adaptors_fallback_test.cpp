// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The fallback adaptor, and the resources used behind it.
#include "memory/adaptors_support.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/adaptors/fallback.hpp>
#include <warpwright/memory/adaptors/limit.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/memory/resources.hpp>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace ww = warpwright;
using test_support::all_are;
using test_support::fetch;
using test_support::fill;
using test_support::scripted_upstream;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
ww::device_id const device{0};

void collect(void* user, ww::fallback_event const& event) noexcept {
  static_cast<std::vector<ww::fallback_event>*>(user)->push_back(event);
}
void ignore(void*, ww::fallback_event const&) noexcept {}

ww::memory_pool_options small() {
  return ww::memory_pool_options{}.max_bytes(2 * mib).growth_bytes(2 * mib);
}

}  // namespace

TEST_CASE("device memory falls back to managed memory and reports it each time") {
  ww::stream const s;
  ww::memory_pool pool{device, small()};
  ww::managed_memory_resource managed{device};
  std::vector<ww::fallback_event> events;
  ww::fallback_adaptor memory{pool, managed, &collect, &events};
  CHECK(&memory.first() == &pool);
  CHECK(&memory.second() == &managed);
  CHECK(memory.device() == device);

  void* const p = memory.allocate(s, mib);
  CHECK(events.empty());
  CHECK(managed.live_bytes() == 0);
  void* const q = memory.allocate(s, 2 * mib);
  int const line = __LINE__ - 1;
  REQUIRE(events.size() == 1);
  CHECK(events[0].pointer == q);
  CHECK(events[0].bytes == 2 * mib);
  CHECK(events[0].fallbacks == 1);
  CHECK(events[0].where.line() == line);
  CHECK(managed.live_bytes() == 2 * mib);
  CHECK(memory.statistics().live_blocks == 1);
  CHECK(memory.statistics().live_bytes == 2 * mib);
  fill(s, q, 9, 2 * mib);
  CHECK(all_are(fetch(s, q, 2 * mib), 9));
  void* const r = memory.try_allocate(s, 3 * mib);
  CHECK(events.size() == 2);
  CHECK(events[1].fallbacks == 2);

  // Each block is freed in its own upstream, in any order.
  memory.deallocate(s, p, mib);
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(managed.live_bytes() == 5 * mib);
  memory.deallocate(s, r, 3 * mib);
  CHECK_THROWS_WITH(memory.deallocate(s, q, mib), contains("wrong size"));
  memory.deallocate(s, q, 2 * mib);
  CHECK(managed.live_bytes() == 0);
  CHECK(memory.statistics().live_blocks == 0);
  CHECK(memory.statistics().fallbacks == 2);
  CHECK(memory.statistics().failures == 0);
  CHECK_THROWS_AS(memory.deallocate(s, q, 2 * mib), std::invalid_argument);  // thrown by the pool
}

TEST_CASE("page-locked memory falls back to pageable memory") {
  ww::stream const s;
  ww::pinned_pool pool{ww::pinned_pool_options{}.max_bytes(mib).growth_bytes(mib)};
  ww::pinned_memory_resource pinned{pool};
  ww::pageable_memory_resource pageable;
  std::vector<ww::fallback_event> events;
  ww::fallback_adaptor memory{pinned, pageable, &collect, &events};
  CHECK(memory.device().value() == -1);
  CHECK(&pinned.pool() == &pool);

  void* const p = memory.allocate(s, mib);
  void* const q = memory.allocate(s, mib, 4096);
  CHECK(events.size() == 1);
  CHECK(reinterpret_cast<std::uintptr_t>(q) % 4096 == 0);
  CHECK(pool.statistics().live_bytes == mib);
  CHECK(pageable.live_bytes() == mib);
  std::memset(p, 1, mib);
  std::memset(q, 2, mib);
  memory.deallocate(s, p, mib);
  memory.deallocate(s, q, mib);
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pageable.live_bytes() == 0);
}

TEST_CASE("when both are out of memory the second's error is thrown and reported") {
  ww::stream const s;
  ww::memory_pool pool{device, small()};
  ww::memory_pool other{device, small()};
  ww::limit_adaptor little{other, 1000};
  std::vector<ww::fallback_event> events;
  ww::fallback_adaptor memory{pool, little, &collect, &events};
  try {
    static_cast<void>(memory.allocate(s, 3 * mib));
    FAIL("neither has it");
  } catch (ww::out_of_memory const& e) {
    CHECK(e.report().limit_bytes == 1000);
    CHECK_THAT(std::string{e.what()}, contains("adaptors_fallback_test.cpp"));
  }
  CHECK(memory.try_allocate(s, 3 * mib) == nullptr);
  REQUIRE(events.size() == 2);
  CHECK(events[0].pointer == nullptr);
  CHECK(events[1].fallbacks == 2);
  CHECK(memory.statistics().failures == 2);
  CHECK(memory.statistics().live_blocks == 0);
}

TEST_CASE("only out of memory falls back") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::memory_pool other{device};
  scripted_upstream first{pool};
  std::vector<ww::fallback_event> events;
  ww::fallback_adaptor memory{first, other, &collect, &events};
  first.next_allocation = scripted_upstream::answer::cuda_error;
  CHECK_THROWS_AS(memory.allocate(s, 10), ww::cuda_error);
  CHECK_THROWS_AS(memory.try_allocate(s, 10), ww::cuda_error);
  CHECK(events.empty());
  CHECK_THROWS_AS(memory.allocate(s, 10, 3), ww::cuda_error);
  first.next_allocation = scripted_upstream::answer::memory;
  CHECK_THROWS_AS(memory.allocate(s, 10, 3), std::invalid_argument);
  CHECK(events.empty());
  CHECK(other.statistics().allocations == 0);
}

TEST_CASE("a fallback without a callback throws") {
  ww::memory_pool pool{device};
  ww::managed_memory_resource managed{device};
  ww::fallback_adaptor<ww::memory_pool, ww::managed_memory_resource>::callback const none = nullptr;
  CHECK_THROWS_WITH(ww::fallback_adaptor(pool, managed, none), contains("the callback is null"));
}

TEST_CASE("several threads fall back, and every block is freed in its own upstream") {
  ww::memory_pool pool{device, small()};
  ww::managed_memory_resource managed{device};
  ww::fallback_adaptor memory{pool, managed, &ignore};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      ww::stream const s;
      void* blocks[4] = {};
      for (int i = 0; i < 40; ++i) {
        for (void*& block : blocks) block = memory.allocate(s, 300000);
        for (void* block : blocks) memory.deallocate(s, block, 300000);
      }
      pool.retire(s);
    });
  }
  for (std::thread& t : threads) t.join();
  ww::fallback_statistics const s = memory.statistics();
  CHECK(s.failures == 0);
  CHECK(s.live_blocks == 0);
  CHECK(s.live_bytes == 0);
  CHECK(managed.live_bytes() == 0);
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.statistics().allocations + s.fallbacks == 640);
}

TEST_CASE("a fallback to managed memory keeps the requested alignment") {
  ww::stream const s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(2 * mib)};
  ww::managed_memory_resource managed{device};
  ww::fallback_adaptor memory{pool, managed, &ignore};
  for (std::size_t const alignment : {std::size_t{512}, std::size_t{4096}, mib}) {
    CAPTURE(alignment);
    void* const a = memory.allocate(s, 3 * mib, alignment);
    void* const b = memory.allocate(s, 5 * mib + 1, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(a) % alignment == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(b) % alignment == 0);
    CHECK(managed.live_bytes() == 8 * mib + 1);
    fill(s, a, 1, 3 * mib);
    fill(s, b, 2, 5 * mib + 1);
    CHECK(all_are(fetch(s, a, 3 * mib), 1));
    CHECK(all_are(fetch(s, b, 5 * mib + 1), 2));
    CHECK_THROWS_WITH(managed.deallocate(s, a, 10), contains("wrong size"));
    memory.deallocate(s, a, 3 * mib);
    memory.deallocate(s, b, 5 * mib + 1);
    CHECK(managed.live_bytes() == 0);
  }
  CHECK(managed.try_allocate(s, ~std::size_t{0}, 4096) == nullptr);
  CHECK_THROWS_AS(managed.allocate(s, ~std::size_t{0}, 4096), ww::out_of_memory);
  CHECK(managed.live_bytes() == 0);
}

TEST_CASE("managed memory has the pool's interface") {
  ww::stream const s;
  ww::managed_memory_resource managed{device};
  CHECK(managed.device() == device);
  CHECK(managed.allocate(s, 0) == nullptr);
  void* const p = managed.allocate(s, 1000);
  CHECK(managed.live_bytes() == 1000);
  CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
  cudaPointerAttributes attributes{};
  ww::check(cudaPointerGetAttributes(&attributes, p), "cudaPointerGetAttributes");
  CHECK(attributes.type == cudaMemoryTypeManaged);
  fill(s, p, 3, 1000);
  CHECK(all_are(fetch(s, p, 1000), 3));
  for (std::size_t const bad : {std::size_t{0}, std::size_t{3}, std::size_t{1} << 31U}) {
    CHECK_THROWS_WITH(managed.allocate(s, 10, bad),
                      contains("bytes is not a power of two from 1 to 1073741824"));
  }
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal), "begin");
  CHECK_THROWS_WITH(managed.deallocate(s, p, 1000), contains("capturing stream"));
  void* const meanwhile = managed.allocate(s, 10);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  managed.deallocate(s, meanwhile, 10);
  managed.deallocate(s, p, 1000);
  CHECK(managed.live_bytes() == 0);
}

TEST_CASE("managed and pageable memory are freed only after waiting for the stream") {
  ww::stream const s;
  ww::managed_memory_resource managed{device};
  void* const p = managed.allocate(s, 1000);
  test_support::pause(s);
  fill(s, p, 3, 1000);
  managed.deallocate(s, p, 1000);
  CHECK(s.done());

  ww::pageable_memory_resource pageable;
  void* const q = pageable.allocate(s, 1000);
  test_support::pause(s);
  auto* const write = +[](void* memory) { std::memset(memory, 1, 1000); };
  ww::check(cudaLaunchHostFunc(s.get(), write, q), "cudaLaunchHostFunc");
  pageable.deallocate(s, q, 1000);
  CHECK(s.done());
}

TEST_CASE("pageable memory has the pool's interface") {
  ww::stream const s;
  ww::pageable_memory_resource pageable;
  CHECK(pageable.device().value() == -2);
  for (std::size_t alignment = 1; alignment <= 2 * mib; alignment *= 2) {
    void* const p = pageable.allocate(s, 100, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
    CHECK(pageable.live_bytes() == 100);
    pageable.deallocate(s, p, 100);
  }
  CHECK_THROWS_WITH(pageable.try_allocate(s, 10, 4 * mib),
                    contains("bytes is not a power of two from 1 to 2097152"));
  ww::limit_adaptor small{pageable, 10};
  CHECK_THROWS_WITH(small.allocate(s, 11), contains("out of memory on pageable memory"));
}

TEST_CASE("a pinned pool as a resource reports that page-locked memory is exhausted") {
  ww::stream const s;
  ww::pinned_pool pool{ww::pinned_pool_options{}.max_bytes(mib).growth_bytes(mib)};
  ww::pinned_memory_resource pinned{pool};
  CHECK_THROWS_WITH(pinned.allocate(s, 2 * mib), contains("out of memory on page-locked memory"));
  CHECK(pinned.try_allocate(s, 2 * mib) == nullptr);
  void* const p = pinned.try_allocate(s, 100, 4096);
  CHECK(reinterpret_cast<std::uintptr_t>(p) % 4096 == 0);
  pinned.deallocate(s, p, 100);
  CHECK(pool.statistics().live_bytes == 0);
}
