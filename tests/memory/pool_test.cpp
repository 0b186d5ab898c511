// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/core/device.hpp>
#include <warpwright/memory/pool.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::all_are;
using test_support::fetch;
using test_support::fill;
using test_support::gate;

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

ww::device_id const device{0};

ww::memory_pool_options small(std::size_t maximum) {
  return ww::memory_pool_options{}.max_bytes(maximum).growth_bytes(2 * mib);
}

}  // namespace

static_assert(!std::is_copy_constructible<ww::memory_pool>::value, "buffers point to their pool");
static_assert(!std::is_move_constructible<ww::memory_pool>::value, "buffers point to their pool");

TEST_CASE("a pool allocates memory that the device can write") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.source(ww::memory_source::cuda_malloc)};
  CHECK(pool.device() == device);
  CHECK(pool.source() == ww::memory_source::cuda_malloc);
  CHECK(pool.limit_bytes() == ww::memory_pool_options::unlimited);
  void* const p = pool.allocate(s, 1000);
  REQUIRE(p != nullptr);
  fill(s, p, 7, 1000);
  CHECK(all_are(fetch(s, p, 1000), 7));
  ww::pool_statistics const live = pool.statistics();
  CHECK(live.live_bytes == 1024);
  CHECK(live.live_blocks == 1);
  CHECK(live.reserved_bytes == 64 * mib);
  CHECK(live.upstream_allocations == 1);
  CHECK(live.largest_free_block_bytes == 64 * mib - 1024);
  pool.deallocate(s, p, 1000);
  ww::pool_statistics const after = pool.statistics();
  CHECK(after.live_bytes == 0);
  CHECK(after.allocations == 1);
  CHECK(after.deallocations == 1);
  CHECK(after.reserved_peak_bytes == 64 * mib);
}

TEST_CASE("the same stream can reuse its block at once") {
  ww::stream s;
  ww::memory_pool pool{device};
  void* const p = pool.allocate(s, 4096);
  gate hold{s};  // the stream has not completed
  pool.deallocate(s, p, 4096);
  CHECK(pool.allocate(s, 4096) == p);
  CHECK(pool.statistics().hits == 1);
  CHECK(pool.statistics().hit_rate() == 0.5);
  CHECK(pool.statistics().event_records == 0);
  pool.deallocate(s, p, 4096);
}

TEST_CASE("zero bytes return nullptr and count nothing") {
  ww::stream s;
  ww::memory_pool pool{device};
  CHECK(pool.allocate(s, 0) == nullptr);
  CHECK(pool.try_allocate(s, 0) == nullptr);
  pool.deallocate(s, nullptr, 0);
  CHECK(pool.statistics().allocations == 0);
  CHECK(pool.statistics().deallocations == 0);
  CHECK(pool.statistics().reserved_bytes == 0);
}

TEST_CASE("alignment holds up to 1 GiB") {
  ww::stream s;
  ww::memory_pool pool{device};
  std::vector<void*> blocks;
  for (std::size_t alignment = 1; alignment <= 1024 * mib; alignment *= 2) {
    void* const odd = pool.allocate(s, 300);  // makes the next block unaligned
    void* const p = pool.allocate(s, 100, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
    blocks.push_back(odd);
    blocks.push_back(p);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    pool.deallocate(s, blocks[i], i % 2 == 0 ? 300 : 100);
  }
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.trim() == pool.statistics().reserved_peak_bytes);  // all padding was returned
  for (std::size_t bad : {std::size_t{0}, std::size_t{3}, std::size_t{384}, 2048 * mib}) {
    CHECK_THROWS_WITH(pool.allocate(s, 100, bad), contains("is not a power of two from 1 to"));
  }
}

TEST_CASE("absurd sizes are out of memory, and do not affect the pool") {
  ww::stream s;
  ww::memory_pool pool{device};
  pool.deallocate(s, pool.allocate(s, mib), mib);
  std::size_t const most = ~std::size_t{0};
  for (std::size_t bytes : {most, most - 100, most - 1000, most / 2, std::size_t{1} << 50U}) {
    CHECK_THROWS_AS(pool.allocate(s, bytes), ww::out_of_memory);
    CHECK(pool.try_allocate(s, bytes) == nullptr);
    CHECK(pool.try_allocate(s, bytes, 2 * mib) == nullptr);
  }
  CHECK(pool.statistics().reserved_bytes <= 64 * mib);
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("a limit holds, is reported, and the pool remains usable") {
  ww::stream s;
  ww::memory_pool pool{device, small(8 * mib)};
  CHECK(pool.limit_bytes() == 8 * mib);
  void* const p = pool.allocate(s, 4 * mib);
  try {
    static_cast<void>(pool.allocate(s, 5 * mib));
    FAIL("more than the limit");
  } catch (ww::out_of_memory const& e) {
    CHECK(e.report().requested_bytes == 5 * mib);
    CHECK(e.report().live_bytes == 4 * mib);
    CHECK(e.report().reserved_bytes <= 8 * mib);
    CHECK(e.report().limit_bytes == 8 * mib);
    CHECK(e.report().device == 0);
    std::string const text = e.what();
    CHECK_THAT(text, contains("requested 5242880 bytes"));
    CHECK_THAT(text, contains("limit 8388608 bytes"));
    CHECK_THAT(text, contains("pool_test.cpp"));
  }
  CHECK(pool.try_allocate(s, 5 * mib) == nullptr);
  void* const q = pool.allocate(s, 4 * mib);
  CHECK(q != nullptr);
  pool.deallocate(s, p, 4 * mib);
  pool.deallocate(s, q, 4 * mib);
  void* const all = pool.allocate(s, 8 * mib);  // merged, or freed and allocated again
  CHECK(all != nullptr);
  CHECK(pool.statistics().reserved_bytes == 8 * mib);
  CHECK(pool.statistics().reserved_peak_bytes == 8 * mib);
  pool.deallocate(s, all, 8 * mib);
}

TEST_CASE("a limit may be a fraction of the device, and may be less than a page") {
  ww::stream s;
  ww::device_info const info = ww::get_device_info(device);
  ww::memory_pool half{device, ww::memory_pool_options{}.max_fraction(0.5)};
  CHECK(half.limit_bytes() == info.memory_total_bytes / 2);
  ww::memory_pool tiny{device, ww::memory_pool_options{}.max_bytes(1000)};
  void* const p = tiny.allocate(s, 700);  // 768 bytes: the three granules that fit
  CHECK(tiny.try_allocate(s, 1) == nullptr);
  tiny.deallocate(s, p, 700);
  CHECK(tiny.statistics().reserved_bytes == 768);
}

TEST_CASE("options out of range throw") {
  using options = ww::memory_pool_options;
  for (double bad : {0.0, -1.0, 1.5}) {
    CHECK_THROWS_WITH(ww::memory_pool(device, options{}.max_fraction(bad)),
                      contains("max_fraction"));
  }
  CHECK_THROWS_WITH(ww::memory_pool(device, options{}.growth_factor(-0.5)),
                    contains("growth_factor"));
  for (double bad : {-1.0, 1e9, std::nan("")}) {
    CHECK_THROWS_WITH(ww::memory_pool(device, options{}.max_wait_seconds(bad)),
                      contains("max_wait_seconds"));
  }
  CHECK_THROWS_AS(ww::memory_pool(device, options{}.max_bytes(mib).initial_bytes(2 * mib)),
                  ww::out_of_memory);
  CHECK_THROWS_AS(ww::memory_pool(device, options{}.initial_bytes(~std::size_t{0})),
                  ww::out_of_memory);
  CHECK_THROWS_AS(ww::memory_pool(device, options{}.initial_bytes(std::size_t{1} << 45U)),
                  ww::out_of_memory);
  CHECK_THROWS_AS(ww::memory_pool(ww::device_id{999}), ww::cuda_error);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("a setter of options returns a changed copy") {
  constexpr auto small = ww::memory_pool_options{}.max_bytes(4 * mib);
  constexpr auto large = small.max_bytes(8 * mib).checked();
  CHECK(ww::memory_pool(device, small).limit_bytes() == 4 * mib);
  CHECK(ww::memory_pool(device, large).limit_bytes() == 8 * mib);
}

TEST_CASE("a pool grows as its options say") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}
                                   .initial_bytes(2 * mib)
                                   .growth_bytes(4 * mib)
                                   .growth_factor(1.0)
                                   .source(GENERATE(ww::memory_source::virtual_memory,
                                                    ww::memory_source::cuda_malloc,
                                                    ww::memory_source::cuda_malloc_async))};
  CHECK(pool.statistics().reserved_bytes == 2 * mib);
  std::vector<void*> blocks;
  for (std::uint64_t expected : {2U, 6U, 12U, 24U}) {
    while (pool.statistics().reserved_bytes < expected * mib) {
      blocks.push_back(pool.allocate(s, mib));
    }
    CHECK(pool.statistics().reserved_bytes == expected * mib);
  }
  blocks.push_back(pool.allocate(s, 100 * mib));  // larger than the growth step
  for (void* p : blocks) pool.deallocate(s, p, p == blocks.back() ? 100 * mib : mib);
  CHECK(pool.trim(3 * mib) > 0);
  CHECK(pool.statistics().reserved_bytes == 4 * mib);  // the minimum to keep
  CHECK(pool.trim() == 4 * mib);
  CHECK(pool.statistics().reserved_bytes == 0);
  CHECK(pool.statistics().upstream_deallocations > 0);
  void* const p = pool.allocate(s, mib);  // and the pool can grow again
  pool.deallocate(s, p, mib);
}

TEST_CASE("another stream does not get a block before the donor has completed the free") {
  ww::stream donor;
  ww::stream taker;
  SECTION("it grows instead while it may") {
    ww::memory_pool pool{device, small(16 * mib)};
    void* const p = pool.allocate(donor, 2 * mib);
    gate hold{donor};
    pool.deallocate(donor, p, 2 * mib);
    void* const q = pool.allocate(taker, 2 * mib);
    CHECK(q != p);
    CHECK(pool.statistics().cross_stream_steals == 0);
    CHECK(pool.statistics().stream_waits == 0);
    pool.deallocate(taker, q, 2 * mib);
  }
  ww::memory_pool pool{device, small(4 * mib)};
  SECTION("it waits on the device when it may not grow") {
    void* const p = pool.allocate(donor, 4 * mib);
    gate hold{donor};
    fill(donor, p, 1, 4 * mib);
    pool.deallocate(donor, p, 4 * mib);
    void* const q = pool.allocate(taker, 4 * mib);
    REQUIRE(q == p);
    fill(taker, q, 2, 4 * mib);  // must run behind the donor's fill
    hold.open_late();
    taker.synchronize();
    donor.synchronize();
    CHECK(all_are(fetch(taker, q, 4 * mib), 2));
    CHECK(pool.statistics().cross_stream_steals == 1);
    CHECK(pool.statistics().stream_waits == 1);
    pool.deallocate(taker, q, 4 * mib);
  }
  SECTION("a part of a block is as well ordered as the whole") {
    void* const p = pool.allocate(donor, 4 * mib);
    gate hold{donor};
    fill(donor, p, 1, 4 * mib);
    pool.deallocate(donor, p, 4 * mib);
    void* const q = pool.allocate(taker, mib);
    void* const r = pool.allocate(taker, mib);
    CHECK(pool.statistics().stream_waits == 1);  // one wait orders both
    fill(taker, q, 2, mib);
    fill(taker, r, 3, mib);
    hold.open_late();
    donor.synchronize();
    CHECK(all_are(fetch(taker, q, mib), 2));
    CHECK(all_are(fetch(taker, r, mib), 3));
    pool.deallocate(taker, q, mib);
    pool.deallocate(taker, r, mib);
  }
  SECTION("a block stolen and freed keeps both streams' order") {
    // donor -> taker -> third: the third must be ordered behind the donor, too.
    ww::stream third;
    void* const p = pool.allocate(donor, 4 * mib);
    gate hold{donor};
    fill(donor, p, 1, 4 * mib);
    pool.deallocate(donor, p, 4 * mib);
    void* const q = pool.allocate(taker, 4 * mib);
    pool.deallocate(taker, q, 4 * mib);
    void* const r = pool.allocate(third, 4 * mib);
    REQUIRE(r == p);
    fill(third, r, 3, 4 * mib);
    hold.open_late();
    donor.synchronize();
    taker.synchronize();
    CHECK(all_are(fetch(third, r, 4 * mib), 3));
    pool.deallocate(third, r, 4 * mib);
  }
}

TEST_CASE("blocks of several streams are merged behind all of them") {
  ww::stream donor;
  ww::stream second;
  ww::stream taker;
  ww::stream third;
  ww::memory_pool pool{device, small(4 * mib).initial_bytes(4 * mib)};
  void* const p = pool.allocate(donor, 2 * mib);
  void* const q = pool.allocate(second, 2 * mib);
  REQUIRE(static_cast<char*>(q) - static_cast<char*>(p) == static_cast<std::ptrdiff_t>(2 * mib));
  gate hold_first{donor};
  gate hold_second{second};
  fill(donor, p, 1, 2 * mib);
  fill(second, q, 1, 2 * mib);
  pool.deallocate(donor, p, 2 * mib);
  pool.deallocate(second, q, 2 * mib);
  void* const most = pool.allocate(taker, 3 * mib);
  CHECK(most == p);
  CHECK(pool.statistics().stream_waits == 2);
  fill(taker, most, 2, 3 * mib);
  // The rest of the merged memory is not ready.
  void* const rest = pool.allocate(third, mib);
  CHECK(rest == static_cast<char*>(most) + 3 * mib);
  CHECK(pool.statistics().stream_waits == 3);
  fill(third, rest, 3, mib);
  hold_first.open_late();
  hold_second.open_late();
  donor.synchronize();
  second.synchronize();
  CHECK(all_are(fetch(taker, most, 3 * mib), 2));
  CHECK(all_are(fetch(third, rest, mib), 3));
  pool.deallocate(taker, most, 3 * mib);
  pool.deallocate(third, rest, mib);
}

TEST_CASE("a block whose donor has completed is available to all streams without a wait") {
  ww::stream donor;
  ww::stream taker;
  ww::memory_pool pool{device, small(64 * mib)};
  void* const p = pool.allocate(donor, 2 * mib);
  pool.deallocate(donor, p, 2 * mib);
  donor.synchronize();
  // The first miss records the event; the next one finds it completed at the latest.
  void* const q = pool.allocate(taker, 2 * mib);
  donor.synchronize();
  void* const r = pool.allocate(taker, 2 * mib);
  CHECK((q == p || r == p));
  CHECK(pool.statistics().stream_waits == 0);
  pool.deallocate(taker, q, 2 * mib);
  pool.deallocate(taker, r, 2 * mib);
}

TEST_CASE("reuse_order selects the order of growing and waiting") {
  ww::stream donor;
  ww::stream taker;
  ww::memory_pool pool{device, ww::memory_pool_options{}.growth_bytes(2 * mib).order(
                                   ww::reuse_order::wait_before_grow)};
  void* const p = pool.allocate(donor, 2 * mib);
  gate hold{donor};
  fill(donor, p, 1, 2 * mib);
  pool.deallocate(donor, p, 2 * mib);
  void* const q = pool.allocate(taker, 2 * mib);
  CHECK(q == p);
  CHECK(pool.statistics().reserved_bytes == 2 * mib);
  fill(taker, q, 2, 2 * mib);
  hold.open_late();
  donor.synchronize();
  CHECK(all_are(fetch(taker, q, 2 * mib), 2));
  // A wait covers all earlier frees: the taker does not wait for these again.
  void* const r = pool.allocate(taker, 2 * mib);
  CHECK(r != q);
  pool.deallocate(taker, q, 2 * mib);
  pool.deallocate(taker, r, 2 * mib);
}

TEST_CASE("empty segments make room for a larger one within the limit") {
  ww::stream s;
  ww::memory_pool pool{device, small(16 * mib)};
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(pool.allocate(s, 2 * mib));
  CHECK(pool.statistics().reserved_bytes == 16 * mib);
  for (void* p : blocks) pool.deallocate(s, p, 2 * mib);
  void* const p = pool.allocate(s, 15 * mib);
  CHECK(p != nullptr);
  CHECK(pool.statistics().reserved_bytes <= 16 * mib);
  CHECK(pool.statistics().reserved_peak_bytes == 16 * mib);
  pool.deallocate(s, p, 15 * mib);
}

TEST_CASE("an exhausted device is an ordinary failure") {
  ww::stream s;
  ww::device_info const info = ww::get_device_info(device);
  ww::memory_pool pool{device};
  std::vector<void*> blocks;
  std::size_t const piece = info.memory_total_bytes / 8;
  while (void* const p = pool.try_allocate(s, piece)) blocks.push_back(p);
  CHECK(blocks.size() >= 4);
  CHECK(blocks.size() <= 8);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK_THROWS_AS(pool.allocate(s, piece), ww::out_of_memory);
  for (void* p : blocks) pool.deallocate(s, p, piece);
  CHECK(pool.allocate(s, piece) != nullptr);
}

namespace {

struct helper {
  ww::memory_pool* pool = nullptr;
  ww::stream const* stream = nullptr;
  void* spare = nullptr;
  int calls = 0;
  std::size_t seen_requested = 0;
};

bool free_spare(void* user, ww::memory_report const& report) {
  auto& h = *static_cast<helper*>(user);
  ++h.calls;
  h.seen_requested = report.requested_bytes;
  if (h.spare == nullptr) return false;
  h.pool->deallocate(*h.stream, h.spare, 4 * mib);  // the callback may call the pool
  h.spare = nullptr;
  return true;
}

}  // namespace

TEST_CASE("the exhausted_callback is called once before an allocation fails") {
  ww::stream s;
  helper h;
  ww::memory_pool pool{device, small(4 * mib).on_exhausted(&free_spare, &h)};
  h.pool = &pool;
  h.stream = &s;
  h.spare = pool.allocate(s, 4 * mib);
  void* const p = pool.allocate(s, 3 * mib);
  CHECK(p != nullptr);
  CHECK(h.calls == 1);
  CHECK(h.seen_requested == 3 * mib);
  CHECK(pool.try_allocate(s, 4 * mib) == nullptr);
  CHECK(h.calls == 2);
  pool.deallocate(s, p, 3 * mib);
}

namespace {

void keep_last(void* user, ww::pool_statistics const& last) noexcept {
  *static_cast<ww::pool_statistics*>(user) = last;
}

}  // namespace

TEST_CASE("a pool's destructor reports leaks") {
  ww::stream s;
  ww::pool_statistics last;
  {
    ww::memory_pool pool{device, ww::memory_pool_options{}.on_destruction(&keep_last, &last)};
    void* const p = pool.allocate(s, 1000);
    static_cast<void>(pool.allocate(s, 3000));
    pool.deallocate(s, p, 1000);
  }
  CHECK(last.live_blocks == 1);
  CHECK(last.live_bytes == 3072);
}

TEST_CASE("a retired stream may be destroyed, and its memory is available to the others") {
  ww::memory_pool pool{device, small(2 * mib)};
  void* p = nullptr;
  {
    ww::stream mortal;
    p = pool.allocate(mortal, 2 * mib);
    fill(mortal, p, 1, 2 * mib);
    pool.deallocate(mortal, p, 2 * mib);
    pool.retire(mortal);
    pool.retire(mortal);  // no effect
  }
  ww::stream s;
  void* const q = pool.allocate(s, 2 * mib);
  CHECK(q == p);
  fill(s, q, 2, 2 * mib);
  CHECK(all_are(fetch(s, q, 2 * mib), 2));
  pool.deallocate(s, q, 2 * mib);
}

TEST_CASE("a retired stream may be used again") {
  ww::memory_pool pool{device, small(8 * mib)};
  ww::stream s;
  for (int i = 0; i < 3; ++i) {
    void* const p = pool.allocate(s, mib);
    gate hold{s};
    pool.deallocate(s, p, mib);
    pool.retire(s);
    void* const q = pool.allocate(s, mib);
    pool.deallocate(s, q, mib);
  }
  CHECK(pool.statistics().live_blocks == 0);
  CHECK(pool.trim() == pool.statistics().reserved_peak_bytes);
}

TEST_CASE("many short-lived streams leak nothing") {
  ww::memory_pool pool{device, small(16 * mib)};
  for (int i = 0; i < 300; ++i) {
    ww::stream s;
    void* const p = pool.allocate(s, mib);
    fill(s, p, 1, mib);
    pool.deallocate(s, p, mib);
    pool.retire(s);
  }
  CHECK(pool.statistics().reserved_bytes <= 16 * mib);
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("default streams work, also the per-thread one") {
  ww::memory_pool pool{device, small(4 * mib)};
  ww::stream_ref const legacy = ww::stream_ref::legacy_default();
  void* const p = pool.allocate(legacy, 4 * mib);
  pool.deallocate(legacy, p, 4 * mib);
  std::thread{[&] {
    ww::stream_ref const own = ww::stream_ref::per_thread();
    void* const q = pool.allocate(own, 4 * mib);
    fill(own, q, 5, 4 * mib);
    pool.deallocate(own, q, 4 * mib);
  }}.join();
  // No thread can record that stream's event any more: the pool waits for the device.
  ww::stream s;
  void* const r = pool.allocate(s, 4 * mib);
  CHECK(r == p);
  pool.deallocate(s, r, 4 * mib);
}

TEST_CASE("a per-thread default stream records events as it frees") {
  ww::memory_pool pool{device};
  ww::stream_ref const own = ww::stream_ref::per_thread();
  for (int i = 0; i < 200; ++i) pool.deallocate(own, pool.allocate(own, 256), 256);
  CHECK(pool.statistics().event_records >= 1);
  CHECK(pool.statistics().event_records <= 4);
}

TEST_CASE("a pool does not change the current device") {
  if (ww::device_count() < 2) return;
  ww::scoped_device const scope{ww::device_id{1}};
  ww::stream s{device};
  ww::memory_pool pool{device};
  CHECK(ww::current_device().value() == 1);
  void* const p = pool.allocate(s, mib);
  CHECK(ww::current_device().value() == 1);
  cudaPointerAttributes attributes{};
  ww::check(cudaPointerGetAttributes(&attributes, p), "cudaPointerGetAttributes");
  CHECK(attributes.device == 0);
  pool.deallocate(s, p, mib);
  pool.trim();
  CHECK(ww::current_device().value() == 1);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("a hit makes no CUDA call") {
  ww::stream s;
  ww::stream other;
  ww::memory_pool pool{device, ww::memory_pool_options{}.initial_bytes(64 * mib)};
  ww::stream_ref const kept = s;
  void* const first = pool.allocate(kept, mib);
  pool.deallocate(kept, first, mib);
  ww::testing::reset_call_counts();
  for (int i = 0; i < 1000; ++i) {
    void* const p = pool.allocate(kept, 1000 * static_cast<std::size_t>(i + 1));
    pool.deallocate(kept, p, 1000 * static_cast<std::size_t>(i + 1));
  }
  // Memory that no stream has freed yet is ready.
  void* const q = pool.allocate(other, mib);
  CHECK(ww::testing::total_calls() == 0);
  pool.deallocate(other, q, mib);
  CHECK(ww::testing::total_calls() == 0);
  ww::stream_ref const raw{s.get()};
  void* const p = pool.allocate(raw, mib);
  pool.deallocate(raw, p, mib);
  CHECK(ww::testing::total_calls() == 2);
  CHECK(ww::testing::call_count("cudaStreamGetId") == 2);
}

TEST_CASE("statistics count the calls that map memory, and event queries") {
  ww::stream s;
  ww::stream t;
  ww::memory_pool pool{device, ww::memory_pool_options{}
                                   .source(ww::memory_source::virtual_memory)
                                   .max_bytes(16 * mib)
                                   .cache_bytes(0)};
  ww::testing::reset_call_counts();
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(pool.allocate(s, 2 * mib));
  for (std::size_t i = 0; i < 8; i += 2) pool.deallocate(s, blocks[i], 2 * mib);
  void* const p = pool.allocate(t, 5 * mib);  // remaps idle memory
  for (std::size_t i = 1; i < 8; i += 2) pool.deallocate(s, blocks[i], 2 * mib);
  pool.deallocate(t, p, 5 * mib);
  pool.trim();
  auto const count_of = [](std::initializer_list<char const*> names) {
    std::uint64_t sum = 0;
    for (char const* const name : names) sum += ww::testing::call_count(name);
    return sum;
  };
  ww::pool_statistics const after = pool.statistics();
  CHECK(after.reserved_bytes == 0);
  CHECK(after.remaps > 0);
  CHECK(after.virtual_memory_calls > 16);
  CHECK(after.virtual_memory_calls ==
        count_of({"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease"}));
  CHECK(after.event_queries > 0);
  CHECK(after.event_queries == count_of({"cudaEventQuery", "cudaEventSynchronize"}));
}

TEST_CASE("two devices' pools are independent") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  {
    ww::device_id const second{1};
    ww::stream s{second};
    ww::memory_pool pool{second};
    void* const p = pool.allocate(s, mib);
    cudaPointerAttributes attributes{};
    ww::check(cudaPointerGetAttributes(&attributes, p), "cudaPointerGetAttributes");
    CHECK(attributes.device == 1);
    CHECK(ww::current_device().value() == 0);
    pool.deallocate(s, p, mib);
    // Waiting across streams uses events of the pool's device, for any current device.
    ww::stream t{second};
    ww::memory_pool one{second, small(2 * mib)};
    one.deallocate(s, one.allocate(s, 2 * mib), 2 * mib);
    void* const q = one.allocate(t, 2 * mib);
    CHECK(q != nullptr);
    one.deallocate(t, q, 2 * mib);
    CHECK(ww::current_device().value() == 0);
  }
  CHECK(ww::testing::leak_report().empty());
  ww::testing::reset_host_runtime();
}

TEST_CASE("a pool's destruction during a capture does not disturb it") {
  ww::stream s;
  ww::stream other;
  auto pool = std::make_unique<ww::memory_pool>(ww::current_device());
  pool->deallocate(other, pool->allocate(other, 1000), 1000);
  other.synchronize();
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  pool.reset();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("a pool leaks nothing in the runtime") {
  ww::testing::reset_host_runtime();
  {
    ww::stream a;
    ww::stream b;
    ww::memory_pool pool{device, small(4 * mib)};
    for (int i = 0; i < 50; ++i) {
      ww::stream_ref const s = i % 2 == 0 ? a.ref() : b.ref();
      void* const p = pool.allocate(s, 3 * mib);
      fill(s, p, 1, 3 * mib);
      pool.deallocate(s, p, 3 * mib);
    }
    static_cast<void>(pool.allocate(a, mib));  // leaked by the caller, not by the pool
    a.synchronize();
    b.synchronize();
  }
  CHECK(ww::testing::leak_report().empty());
}

TEST_CASE("the destructor of a pool that outlives the device does not throw") {
  ww::testing::reset_host_runtime();
  {
    ww::memory_pool pool{device};
    ww::stream s;
    static_cast<void>(pool.allocate(s, mib));
    ww::testing::poison_device(0, cudaErrorIllegalAddress);
    CHECK_THROWS_AS(pool.allocate(s, 100 * mib), ww::cuda_error);
  }
  ww::testing::reset_host_runtime();
}

#endif
