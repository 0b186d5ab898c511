// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of blocks whose order behind their stream's work is easily lost.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/pool.hpp>

#include <cstddef>

namespace ww = warpwright;
using test_support::fill;
using test_support::gate;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
ww::device_id const device{0};

ww::memory_pool_options four_mib() {
  return ww::memory_pool_options{}.max_bytes(4 * mib).cache_bytes(0);
}

}  // namespace

TEST_CASE("the padding below an aligned block keeps its epoch") {
  ww::stream s;
  ww::stream t;
  ww::memory_pool pool{device, four_mib().order(ww::reuse_order::wait_before_grow)};
  void* const whole = pool.allocate(s, 4 * mib);
  pool.deallocate(s, whole, 4 * mib);
  // t waits for s once, and remembers the epoch.
  void* const first = pool.allocate(t, 256);
  void* const rest = pool.allocate(s, 4 * mib - 256);
  gate hold{s};
  fill(s, rest, 1, 4 * mib - 256);
  pool.deallocate(s, rest, 4 * mib - 256);
  void* const aligned = pool.try_allocate(s, mib, mib);
  auto const before = pool.statistics();
  void* const taken = pool.try_allocate(t, mib / 2);
  REQUIRE(taken != nullptr);
  REQUIRE(taken >= rest);
  // All of `rest` is in use by s's work.
  CHECK(pool.statistics().stream_waits == before.stream_waits + 1);
  hold.open();
  pool.deallocate(t, first, 256);
  pool.deallocate(s, aligned, mib);
  pool.deallocate(t, taken, mib / 2);
}

TEST_CASE("blocks of a batch that fails stay behind their stream's work") {
  ww::stream s;
  ww::stream t;
  ww::memory_pool pool{device, four_mib()};
  void* const p = pool.allocate(s, 4 * mib);
  gate hold{s};
  fill(s, p, 1, 4 * mib);
  pool.deallocate(s, p, 4 * mib);
  std::size_t const sizes[] = {4 * mib, 64 * mib};
  void* blocks[2] = {};
  CHECK_THROWS_AS(pool.allocate_batch(s, sizes, blocks, 2), ww::out_of_memory);
  auto const before = pool.statistics();
  void* const taken = pool.try_allocate(t, 4 * mib);
  REQUIRE(taken == p);
  CHECK(pool.statistics().stream_waits == before.stream_waits + 1);
  hold.open();
  pool.deallocate(t, taken, 4 * mib);
}

TEST_CASE("of other streams' blocks the one that needs no further wait is taken") {
  ww::stream s;
  ww::stream a;
  ww::stream b;
  ww::memory_pool pool{device, four_mib()};
  void* const first = pool.allocate(a, mib);
  void* const second = pool.allocate(a, mib);
  void* const between = pool.allocate(s, mib / 2);
  void* const third = pool.allocate(b, mib);
  void* const rest = pool.allocate(s, mib / 2);
  gate hold{a};
  ww::stream_ref{b}.wait(a);  // both are busy
  pool.deallocate(b, third, mib);
  pool.deallocate(a, second, mib);
  pool.deallocate(a, first, mib);  // one block with the second
  void* const taken = pool.allocate(s, mib);
  REQUIRE(taken == third);  // the best fit, behind a wait
  void* const low = pool.allocate(s, mib);
  REQUIRE(low == first);
  auto const before = pool.statistics();
  CHECK(before.stream_waits == 2);
  pool.deallocate(b, taken, mib);
  // What is left of a's block was freed before what s has waited for; it fits worse than b's.
  void* const next = pool.allocate(s, mib / 2);
  CHECK(next == second);
  CHECK(pool.statistics().stream_waits == before.stream_waits);
  hold.open();
  pool.deallocate(s, next, mib / 2);
  pool.deallocate(s, low, mib);
  pool.deallocate(s, between, mib / 2);
  pool.deallocate(s, rest, mib / 2);
}

TEST_CASE("memory that the library can do without is not waited for, by the host or the stream") {
  ww::stream s;
  ww::stream other;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(8 * mib)};
  auto const try_allocate_now = [&](std::size_t bytes) {
    return ww::detail::pool_access::core(pool).try_allocate_now(other, bytes,
                                                                ww::source_location::current());
  };
  CHECK(try_allocate_now(0) == nullptr);
  CHECK(try_allocate_now(~std::size_t{0}) == nullptr);
  CHECK(try_allocate_now(9 * mib) == nullptr);
  void* const small = try_allocate_now(2 * mib);  // it may reserve memory
  REQUIRE(small != nullptr);
  void* const large = pool.allocate(s, 6 * mib);
  gate hold{s};
  pool.deallocate(s, large, 6 * mib);
  CHECK(try_allocate_now(6 * mib) == nullptr);
  other.synchronize();
  CHECK_FALSE(s.done());
  pool.deallocate(other, small, 2 * mib);
  void* const own = try_allocate_now(2 * mib);
  CHECK(own == small);
  hold.open();
  s.synchronize();
  void* const freed = try_allocate_now(6 * mib);
  CHECK(freed == large);
  pool.deallocate(other, freed, 6 * mib);
  pool.deallocate(other, own, 2 * mib);
}
