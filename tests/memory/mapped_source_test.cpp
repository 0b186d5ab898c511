// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool's memory in one address range: where it grows, and which memory it takes.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/detail/source/mapped_source.hpp>

#include <cstdint>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
namespace testing = warpwright::testing;
#endif

namespace ww = warpwright;
using ww::detail::allocation_request;
using ww::detail::block_heap;
using ww::detail::heap_guard;
using ww::detail::mapped_source;
using ww::detail::slack_options;
using extent = ww::detail::mapped_source::extent;

namespace {

constexpr std::uint32_t none = block_heap::none;
constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
ww::source_location const here = ww::source_location::current();

// At most 64 MiB, without slack unless told. Sizes below are in granules: the limit is `limit` of
// them.
struct mapped_heap {
  ww::stream stream;  // first: it creates the context
  ww::detail::pool_heap heap;
  ww::detail::event_store events{heap};
  ww::detail::epoch_tracker streams{heap, events};
  mapped_source source{heap, streams};
  std::uint64_t granule = 0;
  std::uint64_t limit = 0;
  std::uint32_t own = 0;  // the stream's list

  explicit mapped_heap(slack_options const& slack = {}) {
    heap.driver.find();
    REQUIRE(source.open(ww::device_id{0}, slack, 64 * mib, 64 * mib, 256));
    granule = source.granule_bytes();
    limit = 64 * mib / granule;
    heap_guard const lock{heap.lock};
    own = streams.list_of(stream.id(), stream.get());
  }
  std::uint32_t grow(heap_guard& lock, std::uint64_t size, extent how_far = extent::up_to_limit,
                     std::uint64_t run = 0, bool ahead = false) {
    allocation_request const request{size * granule, size * granule, block_heap::granule_bytes};
    return source.grow(lock, own, request, (run > size ? run : size) * granule, how_far, ahead,
                       here);
  }
  void free(std::uint32_t node, std::uint32_t list) {
    heap.blocks.deallocate(node, list, list == own ? streams.open_epoch(own) : 0);
  }
  [[nodiscard]] std::uint64_t address(std::uint32_t node) const {
    return (heap.blocks.at(node).address - source.address()) / granule;
  }
  [[nodiscard]] std::uint64_t in(std::uint32_t list) const {
    return heap.blocks.bytes_in(list) / granule;
  }
  [[nodiscard]] std::uint64_t ready() const { return in(block_heap::ready); }
  [[nodiscard]] std::uint64_t reserved() const { return source.reserved_bytes() / granule; }
  // Whether no block was lost in the list of blocks that a slow operation has reserved.
  [[nodiscard]] bool complete() const {
    return heap.blocks.empty(block_heap::reserved_list) &&
           heap.counters.reserved_bytes == source.reserved_bytes();
  }
  [[nodiscard]] bool is_usable(std::uint32_t node) const {
    auto const& block = heap.blocks.at(node);
    return test_support::is_usable(stream, block.address, block.bytes);
  }
};

}  // namespace

TEST_CASE("an open source has addresses without memory, for twice its capacity") {
  mapped_heap t;
  CHECK(t.source.is_open());
  CHECK(t.source.bytes() >= 128 * mib);
  CHECK(t.reserved() == 0);
  CHECK(t.heap.blocks.bytes_in(block_heap::unmapped) == t.source.bytes());
  t.source.close();
  CHECK_FALSE(t.source.is_open());
}

TEST_CASE("a limit below a granule cannot be mapped") {
  ww::stream s;
  ww::detail::pool_heap heap;
  ww::detail::event_store events{heap};
  ww::detail::epoch_tracker streams{heap, events};
  mapped_source source{heap, streams};
  CHECK_FALSE(source.open(ww::device_id{0}, {}, mib, mib, 256));
  CHECK_FALSE(source.is_open());
  CHECK(heap.blocks.segments().size() == 0);
}

TEST_CASE("growing maps what a request needs, in granules") {
  mapped_heap t;
  heap_guard lock{t.heap.lock};
  allocation_request const small{256, 256, 256};
  std::uint32_t const first =
      t.source.grow(lock, t.own, small, 256, extent::up_to_limit, true, here);
  REQUIRE(first != none);
  CHECK(t.reserved() == 1);
  CHECK(t.is_usable(first));
  CHECK(t.heap.blocks.bytes_in(block_heap::ready) == t.granule - 256);
  std::uint32_t const second = t.grow(lock, 3);
  REQUIRE(second != none);
  CHECK(t.is_usable(second));
  CHECK(t.reserved() == 4);  // with what was ready before it
  CHECK(t.complete());
}

TEST_CASE("growing completes a free block of the stream or a ready one, and no other stream's") {
  for (bool const usable : {true, false}) {
    mapped_heap t;
    ww::stream other;
    heap_guard lock{t.heap.lock};
    std::uint32_t const first = t.grow(lock, 1);
    std::uint32_t const second = t.grow(lock, 2);
    std::uint32_t const lists[] = {t.own, block_heap::ready, t.streams.list_of(other.id(), other)};
    t.free(second, usable ? lists[0] : lists[2]);
    std::uint32_t const third = t.grow(lock, 4);
    REQUIRE(third != none);
    CHECK(t.address(third) == (usable ? 1 : 3));
    CHECK(t.reserved() == (usable ? 5 : 7));
    CHECK(t.is_usable(third));
    t.free(third, lists[1]);
    std::uint32_t const fourth = t.grow(lock, 5);
    REQUIRE(fourth != none);
    CHECK(t.address(fourth) == (usable ? 1 : 3));
    CHECK(t.complete());
    static_cast<void>(first);
  }
}

TEST_CASE("memory is mapped where the least is missing, and of equals at the lowest address") {
  mapped_heap t;
  heap_guard lock{t.heap.lock};
  static_cast<void>(t.grow(lock, 1));
  std::uint32_t const hole = t.grow(lock, 2);
  static_cast<void>(t.grow(lock, 1));
  t.free(hole, block_heap::ready);
  t.source.unmap_all_idle(lock, here);
  t.free(t.grow(lock, 3), t.own);  // does not fit into the hole
  std::uint32_t const live = t.heap.blocks.allocate(t.own, 2 * t.granule, 256, true, 1);
  REQUIRE(live != none);
  CHECK(t.address(live) == 4);
  std::uint32_t const behind = t.grow(lock, 2);  // one is free there, none in the hole
  REQUIRE(behind != none);
  CHECK(t.address(behind) == 6);
  t.free(live, block_heap::ready);
  t.source.unmap_all_idle(lock, here);  // a second hole of two
  std::uint32_t const within = t.grow(lock, 2);
  REQUIRE(within != none);
  CHECK(t.address(within) == 1);
  CHECK(t.complete());
}

TEST_CASE(
    "what is left of a larger run is for every stream, unless the stream's own is part of it") {
  for (bool const part_of_it : {false, true}) {
    mapped_heap t;
    heap_guard lock{t.heap.lock};
    static_cast<void>(t.grow(lock, 2, extent::up_to_limit, 5));
    CHECK(t.ready() == 3);
    CHECK(t.reserved() == 5);
    t.heap.blocks.move_block(t.heap.blocks.oldest(block_heap::ready), t.own,
                             t.streams.open_epoch(t.own));
    CHECK(t.grow(lock, part_of_it ? 1 : 4, extent::up_to_limit, 6) != none);
    CHECK(t.reserved() == 8);
    CHECK(t.in(t.own) == (part_of_it ? 5 : 0));
    CHECK(t.ready() == (part_of_it ? 0 : 2));
    CHECK(t.complete());
  }
}

TEST_CASE("within the slack nothing is moved; beyond it idle memory is") {
  mapped_heap t;
  heap_guard lock{t.heap.lock};
  std::uint32_t const a = t.grow(lock, 2);
  std::uint32_t const between = t.grow(lock, 1);
  std::uint32_t const b = t.grow(lock, 3);
  std::uint32_t const above = t.grow(lock, 1);
  t.free(a, block_heap::ready);
  t.free(b, block_heap::ready);
  CHECK(t.reserved() == 7);  // the peak: there is no slack
  CHECK(t.grow(lock, 5, extent::within_slack) == none);
  CHECK(t.ready() == 5);
  std::uint32_t const moved = t.grow(lock, 4, extent::by_moving);
  REQUIRE(moved != none);
  CHECK(t.reserved() == 7);
  CHECK(t.address(moved) >= 7);
  CHECK(t.is_usable(moved));
  CHECK(t.is_usable(between));
  CHECK(t.is_usable(above));
  CHECK(t.heap.counters.remaps == 2);
  CHECK(t.complete());
}

TEST_CASE("beyond the slack, where nothing is idle, only a step up to the limit creates memory") {
  mapped_heap t;
  ww::stream other;
  heap_guard lock{t.heap.lock};
  std::uint32_t const node = t.grow(lock, 6);
  t.heap.blocks.deallocate(node, t.streams.list_of(other.id(), other), 1);  // free, but not idle
  CHECK(t.grow(lock, 4, extent::within_slack) == none);
  CHECK(t.grow(lock, 4, extent::by_moving) == none);
  CHECK(t.reserved() == 6);
  CHECK(t.grow(lock, 4, extent::up_to_limit) != none);
  CHECK(t.reserved() == 10);
  CHECK(t.complete());
}

TEST_CASE("nothing is reserved above the limit") {
  mapped_heap t;
  heap_guard lock{t.heap.lock};
  CHECK(t.grow(lock, t.limit + 1) == none);
  std::uint32_t const most = t.grow(lock, t.limit - 1);
  CHECK(most != none);
  CHECK(t.grow(lock, 2) == none);
  CHECK(t.reserved() == t.limit - 1);
  CHECK(t.grow(lock, 1) != none);
  CHECK(t.reserved() == t.limit);
  CHECK(t.complete());
}

TEST_CASE("ahead of need a quarter of the slack is created, if the caller wants that") {
  for (bool const ahead : {false, true}) {
    mapped_heap t{slack_options{0.0, 32 * mib}};
    heap_guard lock{t.heap.lock};
    std::uint32_t const node = t.grow(lock, 1, extent::within_slack, 0, ahead);
    REQUIRE(node != none);
    CHECK(t.source.reserved_bytes() == (ahead ? 8 * mib : t.granule));
    CHECK(t.complete());
    std::uint64_t const created = t.heap.counters.upstream_allocations;
    CHECK(t.grow(lock, 8 * mib / t.granule - 1, extent::within_slack) != none);
    CHECK((t.heap.counters.upstream_allocations == created) == ahead);
  }
}

TEST_CASE("memory can be mapped for every stream") {
  mapped_heap t;
  heap_guard lock{t.heap.lock};
  t.source.map_ready(lock, 4 * t.granule, here);
  CHECK(t.ready() == 4);
  CHECK(t.reserved() == 4);
  t.source.map_ready(lock, (t.limit + 1) * t.granule, here);
  CHECK(t.reserved() == 4);
  CHECK(t.complete());
}

TEST_CASE("idle chunks return to the device, down to what is kept") {
  mapped_heap t;
  heap_guard lock{t.heap.lock};
  std::uint32_t const low = t.grow(lock, 3);
  std::uint32_t const live = t.grow(lock, 1);
  std::uint32_t const high = t.grow(lock, 2);
  t.free(low, block_heap::ready);
  t.free(high, t.own);  // its stream may still use it
  t.source.release(lock, 5 * t.granule, here);
  CHECK(t.reserved() == 5);
  t.source.release(lock, 0, here);
  CHECK(t.reserved() == 3);
  CHECK(t.ready() == 0);
  CHECK(t.in(t.own) == 2);
  CHECK(t.is_usable(live));
  CHECK(t.heap.counters.upstream_deallocations == 3);
  CHECK(t.complete());
}

TEST_CASE("idle chunks that were unmapped serve the next growth") {
  mapped_heap t;
  heap_guard lock{t.heap.lock};
  std::uint32_t const low = t.grow(lock, 3);
  std::uint32_t const live = t.grow(lock, 1);
  t.free(low, block_heap::ready);
  t.source.unmap_all_idle(lock, here);
  CHECK(t.ready() == 0);
  CHECK(t.reserved() == 4);
  CHECK(t.heap.counters.remaps == 1);
  std::uint64_t const created = t.heap.counters.upstream_allocations;
  std::uint32_t const next = t.grow(lock, 3, extent::within_slack);
  REQUIRE(next != none);
  CHECK(t.is_usable(next));
  CHECK(t.is_usable(live));
  CHECK(t.heap.counters.upstream_allocations == created);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a full device is no error, and changes no list") {
  mapped_heap t;
  heap_guard lock{t.heap.lock};
  t.free(t.grow(lock, 2), t.own);
  testing::scoped_fault_plan const fault{
      testing::fault_plan{}.fail_from("cuMemCreate", 1, cudaErrorMemoryAllocation)};
  CHECK(t.grow(lock, 4) == none);
  CHECK(t.in(t.own) == 2);
  CHECK(t.ready() == 0);
  CHECK(t.complete());
}

TEST_CASE("when a call fails the error is thrown, and the lists are as before") {
  for (char const* call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    mapped_heap t;
    heap_guard lock{t.heap.lock};
    t.free(t.grow(lock, 2), t.own);
    {
      testing::scoped_fault_plan const fault{testing::fault_plan{}.fail(call, 1, cudaErrorUnknown)};
      CHECK_THROWS_WITH(t.grow(lock, 4), contains(call));
    }
    CHECK(t.in(t.own) == 2);
    CHECK(t.ready() == 0);
    CHECK(t.complete());
    std::uint32_t const node = t.grow(lock, 4);
    REQUIRE(node != none);
    CHECK(t.address(node) == 0);
    CHECK(t.is_usable(node));
    CHECK(t.reserved() == 4);
  }
}

TEST_CASE("idle memory that cannot be unmapped stays ready") {
  mapped_heap t;
  heap_guard lock{t.heap.lock};
  std::uint32_t const low = t.grow(lock, 3);
  std::uint32_t const live = t.grow(lock, 1);
  t.free(low, block_heap::ready);
  {
    testing::scoped_fault_plan const fault{
        testing::fault_plan{}.fail_from("cuMemUnmap", 1, cudaErrorUnknown)};
    CHECK_THROWS_WITH(t.source.release(lock, 0, here), contains("cuMemUnmap"));
    CHECK_THROWS_WITH(t.source.unmap_all_idle(lock, here), contains("cuMemUnmap"));
  }
  CHECK(t.ready() == 3);
  CHECK(t.reserved() == 4);
  t.source.release(lock, 0, here);
  CHECK(t.reserved() == 1);
  CHECK(t.is_usable(live));
}

TEST_CASE("memory that cannot be returned is counted, and can be mapped again") {
  mapped_heap t;
  heap_guard lock{t.heap.lock};
  t.free(t.grow(lock, 3), block_heap::ready);
  {
    testing::scoped_fault_plan const fault{
        testing::fault_plan{}.fail("cuMemRelease", 2, cudaErrorUnknown)};
    CHECK_THROWS_WITH(t.source.release(lock, 0, here), contains("cuMemRelease"));
  }
  CHECK(t.reserved() == 2);
  CHECK(t.complete());
  std::uint32_t const node = t.grow(lock, 2);
  REQUIRE(node != none);
  CHECK(t.is_usable(node));
  CHECK(t.reserved() == 2);
}
#endif
