// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/pinned.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
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

static_assert(!std::is_move_constructible<ww::pinned_pool>::value, "buffers point to their pool");
static_assert(!std::is_copy_constructible<ww::pinned_buffer<int>>::value, "one owner");
static_assert(std::is_nothrow_move_assignable<ww::pinned_buffer<int>>::value, "");

TEST_CASE("a pinned pool allocates page-locked memory without rounding up to powers of two") {
  ww::pinned_pool pool;
  void* const p = pool.allocate(1000);
  std::memset(p, 1, 1000);
  cudaPointerAttributes attributes{};
  ww::check(cudaPointerGetAttributes(&attributes, p), "cudaPointerGetAttributes");
  CHECK(attributes.type == cudaMemoryTypeHost);
  ww::pinned_statistics const live = pool.statistics();
  CHECK(live.live_bytes == 1024);
  CHECK(live.reserved_bytes == 32 * mib);
  CHECK(live.largest_free_block_bytes == 32 * mib - 1024);
  pool.deallocate(p, 1000);
  CHECK(pool.allocate(1000) == p);
  pool.deallocate(p, 1000);
  ww::pinned_statistics const after = pool.statistics();
  CHECK(after.live_bytes == 0);
  CHECK(after.allocations == 2);
  CHECK(after.deallocations == 2);
  CHECK(after.hits == 1);
  CHECK(after.hit_rate() == 0.5);
  CHECK(after.upstream_allocations == 1);
  CHECK(pool.trim() == 32 * mib);
  CHECK(pool.statistics().upstream_deallocations == 1);
}

TEST_CASE("pinned: 0 bytes, absurd sizes, alignments") {
  ww::pinned_pool pool{ww::pinned_pool_options{}.growth_bytes(mib)};
  CHECK(pool.allocate(0) == nullptr);
  pool.deallocate(nullptr, 0);
  CHECK(pool.statistics().allocations == 0);
  for (std::size_t bytes : {~std::size_t{0}, ~std::size_t{0} - 300, std::size_t{1} << 60U}) {
    CHECK(pool.try_allocate(bytes) == nullptr);
    CHECK_THROWS_AS(pool.allocate(bytes), ww::out_of_memory);
  }
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  void* const odd = pool.allocate(1);
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    void* const p = pool.allocate(10, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
    pool.deallocate(p, 10);
  }
  pool.deallocate(odd, 1);
  for (std::size_t bad : {std::size_t{0}, std::size_t{24}, std::size_t{8192}}) {
    CHECK_THROWS_WITH(pool.allocate(10, bad), contains("is not a power of two from 1 to 4096"));
  }
}

TEST_CASE("pinned: the limit holds and is reported") {
  ww::pinned_pool pool{small(mib)};
  CHECK(pool.limit_bytes() == mib);
  void* const p = pool.allocate(700 * kib);
  try {
    static_cast<void>(pool.allocate(400 * kib));
    FAIL("more than the limit");
  } catch (ww::out_of_memory const& e) {
    CHECK(e.report().requested_bytes == 400 * kib);
    CHECK(e.report().live_bytes == 700 * kib);
    CHECK(e.report().limit_bytes == mib);
    CHECK_THAT(std::string{e.what()}, contains("page-locked memory"));
  }
  pool.deallocate(p, 700 * kib);
  void* const all = pool.allocate(mib);
  CHECK(all != nullptr);
  CHECK(pool.statistics().reserved_bytes <= mib);
  pool.deallocate(all, mib);
  CHECK_THROWS_AS(ww::pinned_pool(small(mib).initial_bytes(2 * mib)), ww::out_of_memory);
}

TEST_CASE("pinned: initial memory serves without a call") {
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(mib)};
  CHECK(pool.statistics().reserved_bytes == mib);
#if WARPWRIGHT_HOST_RUNTIME
  ww::testing::reset_call_counts();
#endif
  void* const p = pool.allocate(mib);
  pool.deallocate(p, mib);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::total_calls() == 0);
#endif
  CHECK(pool.statistics().hits == 1);
}

TEST_CASE("pinned: a block in flight is not reused") {
  ww::stream s;
  ww::pinned_pool pool{small(ww::pinned_pool_options::unlimited)};
  void* const p = pool.allocate(256 * kib);
  {
    gate hold{s};
    pool.deallocate(s, p, 256 * kib);
    void* const q = pool.allocate(256 * kib);
    CHECK(q != p);
    pool.deallocate(q, 256 * kib);
    CHECK(pool.statistics().live_bytes == 0);
  }
  // The stream has completed: both blocks are coalesced.
  CHECK(pool.trim() == 512 * kib);
}

TEST_CASE("pinned: at the limit it waits for the block in flight") {
  ww::stream s;
  ww::pinned_pool pool{small(256 * kib)};
  void* const p = pool.allocate(256 * kib);
  gate hold{s};
  pool.deallocate(s, p, 256 * kib);
  std::thread opener{[&] { hold.open_late(); }};
  void* const q = pool.allocate(256 * kib);
  CHECK(s.done());  // it has waited
  opener.join();
  CHECK(q == p);
  pool.deallocate(q, 256 * kib);
}

TEST_CASE("pinned: at the limit it waits for the stream that suffices, not for a slower one") {
  ww::stream slow;
  ww::stream fast;
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(8 * mib).max_bytes(8 * mib)};
  void* const a = pool.allocate(4 * mib);
  void* const b = pool.allocate(4 * mib);
  test_support::gate held{slow};
  test_support::gate opened{fast};
  pool.deallocate(slow.ref(), a, 4 * mib);
  pool.deallocate(fast.ref(), b, 4 * mib);
  std::thread opener{[&] { opened.open_late(); }};
  void* const c = pool.allocate(4 * mib);
  CHECK(c == b);
  CHECK_FALSE(slow.done());
  opener.join();
  pool.deallocate(c, 4 * mib);
}

TEST_CASE("pinned: at the limit a block that is freed without a stream is noticed") {
  ww::stream slow;
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(8 * mib).max_bytes(8 * mib)};
  void* const a = pool.allocate(4 * mib);
  void* const b = pool.allocate(4 * mib);
  test_support::gate held{slow};
  pool.deallocate(slow.ref(), a, 4 * mib);
  std::thread other{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pool.deallocate(b, 4 * mib);
  }};
  void* const c = pool.allocate(4 * mib);
  CHECK_FALSE(slow.done());
  other.join();
  pool.deallocate(c, 4 * mib);
}

TEST_CASE("pinned: at the limit it does not wait for blocks that are freed later") {
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(8 * mib).max_bytes(8 * mib)};
  void* const first = pool.allocate(3 * mib);
  void* const middle = pool.allocate(mib);
  void* const last = pool.allocate(3 * mib);
  pool.deallocate(first, 3 * mib);
  pool.deallocate(last, 3 * mib);  // 7 MiB are free, and no 5 of them in a row
  std::atomic<bool> stop{false};
  std::atomic<int> running{0};
  std::vector<std::thread> others;
  for (int t = 0; t < 3; ++t) {
    others.emplace_back([&] {
      ww::stream s;
      for (int round = 0; !stop; ++round) {
        void* const p = pool.allocate(mib);
        test_support::pause(s);
        pool.deallocate(s.ref(), p, mib);  // an event each, nearly always pending
        s.synchronize();
        if (round == 0) ++running;
      }
      pool.retire(s);
    });
  }
  while (running != 3) std::this_thread::yield();
  auto const start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) CHECK(pool.try_allocate(5 * mib) == nullptr);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{3});
  stop = true;
  for (std::thread& other : others) other.join();
  pool.deallocate(middle, mib);
}

TEST_CASE("pinned: memory that the library can do without is not waited for") {
  ww::stream s;
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(8 * mib).max_bytes(8 * mib)};
  auto const try_allocate_now = [&](std::size_t bytes) {
    return ww::detail::pinned_access::core(pool).try_allocate_now(bytes,
                                                                  ww::source_location::current());
  };
  void* const a = try_allocate_now(8 * mib);
  REQUIRE(a != nullptr);
  gate hold{s};
  pool.deallocate(s, a, 8 * mib);
  CHECK(try_allocate_now(8 * mib) == nullptr);
  CHECK_FALSE(s.done());
  void* b = nullptr;
  std::thread other{[&] { b = pool.allocate(8 * mib); }};  // waits
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(try_allocate_now(8 * mib) == nullptr);  // nor for that one
  CHECK_FALSE(s.done());
  hold.open();
  other.join();
  CHECK(b == a);
  pool.deallocate(b, 8 * mib);
  CHECK(try_allocate_now(8 * mib) == a);
  CHECK(try_allocate_now(0) == nullptr);
  CHECK(try_allocate_now(~std::size_t{0}) == nullptr);
  pool.deallocate(a, 8 * mib);
}

TEST_CASE("pinned: misuse is reported") {
  ww::stream s;
  ww::pinned_pool pool{small(mib)};
  void* const p = pool.allocate(1000);
  CHECK_THROWS_WITH(pool.deallocate(p, 999), contains("wrong size: 1000 bytes were allocated"));
  CHECK_THROWS_WITH(pool.deallocate(s, p, 999), contains("wrong size"));
  CHECK_THROWS_WITH(pool.deallocate(static_cast<char*>(p) + 256, 1000), contains("double free"));
  int on_the_stack = 0;
  CHECK_THROWS_WITH(pool.deallocate(&on_the_stack, 4), contains("not from this pool"));
  pool.deallocate(s, p, 1000);
  CHECK_THROWS_WITH(pool.deallocate(s, p, 1000), contains("double free"));
  CHECK_THROWS_WITH(pool.deallocate(p, 1000), contains("double free"));
  CHECK(pool.statistics().deallocations == 1);
}

TEST_CASE("a pinned buffer owns its elements") {
  ww::stream s;
  ww::pinned_pool pool{small(4 * mib)};
  {
    ww::pinned_buffer<int> x{pool, 100};
    CHECK(x.size() == 100);
    CHECK(x.size_bytes() == 400);
    int i = 0;
    for (int& v : x) v = i++;
    CHECK(x[99] == 99);
    ww::pinned_buffer<int> y{std::move(x)};
    CHECK(x.empty());
    CHECK(y[5] == 5);
    x = std::move(y);
    CHECK(x[5] == 5);
    CHECK(y.empty());
  }
  CHECK(pool.statistics().live_blocks == 0);
  CHECK(pool.statistics().event_records == 0);
  { ww::pinned_buffer<int> const x{pool, s, 100}; }
  CHECK(pool.statistics().pending_bytes == 512);
  {
    ww::pinned_buffer<int> x{pool, s, 100};
    x.clear_stream();
  }
  CHECK(pool.statistics().pending_bytes == 512);
  CHECK(pool.statistics().live_blocks == 0);
  ww::pinned_buffer<int> const none;
  CHECK(none.empty());
  CHECK_THROWS_AS(ww::pinned_buffer<int>(pool, ~std::size_t{0} / 4 + 1), ww::out_of_memory);
}
