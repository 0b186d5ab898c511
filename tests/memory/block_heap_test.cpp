// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The pool's heap against a simple model; no memory is accessed.
#include "support/catch.hpp"

#include <warpwright/memory/detail/heap/block_heap.hpp>

#include <cstdint>
#include <map>
#include <random>
#include <unordered_map>
#include <vector>

namespace ww = warpwright;
using heap = ww::detail::block_heap;

namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;

struct totals {
  std::uint64_t live = 0;
  std::uint64_t free = 0;
  std::uint64_t segments = 0;
  std::uint64_t largest_free = 0;
  std::size_t live_blocks = 0;
  bool consistent = true;
};

// Walks every segment by its neighbours and checks the invariants.
totals walk(heap const& h) {
  totals t;
  for (heap::segment const& s : h.segments()) {
    if (s.bytes == 0) continue;
    t.segments += s.bytes;
    std::uint64_t expected = s.address;
    std::uint32_t before = heap::none;
    for (std::uint32_t n = s.first; n != heap::none; n = h.at(n).next) {
      heap::block const& b = h.at(n);
      if (b.address != expected || b.bytes == 0 || b.bytes % heap::granule_bytes != 0 ||
          b.previous != before) {
        t.consistent = false;
      }
      if (b.list == heap::none) {
        t.live += b.bytes;
        ++t.live_blocks;
        if (h.find(b.address) != n) t.consistent = false;
      } else {
        t.free += b.bytes;
        if (b.list != heap::unmapped && b.bytes > t.largest_free) t.largest_free = b.bytes;
        // Adjacent free blocks of one list are always coalesced.
        if (before != heap::none && h.at(before).list == b.list) t.consistent = false;
        if (h.find(b.address) != heap::none) t.consistent = false;
      }
      expected += b.bytes;
      before = n;
    }
    if (expected != s.address + s.bytes) t.consistent = false;
  }
  return t;
}

bool model_has_fit(heap const& h, std::uint32_t list, std::uint64_t bytes,
                   std::uint64_t alignment) {
  for (heap::segment const& s : h.segments()) {
    if (s.bytes == 0) continue;
    for (std::uint32_t n = s.first; n != heap::none; n = h.at(n).next) {
      heap::block const& b = h.at(n);
      std::uint64_t const start = (b.address + alignment - 1) / alignment * alignment;
      if (b.list == list && start + bytes <= b.address + b.bytes) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("an address map finds what a std::unordered_map finds") {
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  ww::detail::address_map map;
  std::unordered_map<std::uint64_t, std::uint32_t> model;
  CHECK(map.find(5) == ww::detail::address_map::none);
  CHECK(map.erase(5) == ww::detail::address_map::none);
  for (int step = 0; step < 200000; ++step) {
    std::uint64_t const key = (random() % 4096) * 256;  // few keys, so that they collide
    auto const value = static_cast<std::uint32_t>(random() % 1000);
    auto const known = model.find(key);
    if (known == model.end() && random() % 2 == 0) {
      map.reserve(map.size() + 1);
      map.insert(key, value);
      model[key] = value;
    } else if (known != model.end() && random() % 2 == 0) {
      if (map.erase(key) != known->second) FAIL("erased another value");
      model.erase(known);
    }
    std::uint64_t const probe = (random() % 4096) * 256;
    auto const expected = model.find(probe);
    std::uint32_t const found = map.find(probe);
    if (found != (expected == model.end() ? ww::detail::address_map::none : expected->second)) {
      FAIL("a key was lost or found wrongly at step " << step);
    }
  }
  CHECK(map.size() == model.size());
}

TEST_CASE("a heap allocates the lowest part of a free block and coalesces neighbours") {
  heap h;
  h.add_segment(mib, 64 * kib);
  std::uint32_t const a = h.allocate(heap::ready, 4 * kib, 256, false, 4000);
  std::uint32_t const b = h.allocate(heap::ready, 4 * kib, 256, false, 4096);
  REQUIRE(a != heap::none);
  REQUIRE(b != heap::none);
  CHECK(h.at(a).address == mib);
  CHECK(h.at(a).requested_bytes == 4000);
  CHECK(h.at(b).address == mib + 4 * kib);
  CHECK(h.live_bytes() == 8 * kib);
  h.deallocate(a, heap::ready, 0);
  CHECK(h.largest_free_block_bytes() == 56 * kib);
  h.deallocate(b, heap::ready, 0);
  CHECK(h.largest_free_block_bytes() == 64 * kib);
  CHECK(h.live_blocks() == 0);
  CHECK(walk(h).consistent);
  heap::segment const gone = h.remove_empty_segment(64 * kib);
  CHECK(gone.address == mib);
  CHECK(gone.bytes == 64 * kib);
  CHECK(h.allocate(heap::ready, 256, 256, true, 1) == heap::none);
}

TEST_CASE("a heap keeps lists separate until blocks are moved to one list") {
  heap h;
  std::uint32_t const mine = h.add_list();
  std::uint32_t const other = h.add_list();
  h.add_segment(mib, 8 * kib);
  std::uint32_t const a = h.allocate(heap::ready, 4 * kib, 256, false, 1);
  std::uint32_t const b = h.allocate(heap::ready, 4 * kib, 256, false, 1);
  h.deallocate(a, mine, 1);
  h.deallocate(b, other, 5);
  CHECK(h.allocate(mine, 8 * kib, 256, true, 1) == heap::none);
  CHECK(h.allocate(heap::ready, 256, 256, true, 1) == heap::none);
  h.move(other, 4, mine, 2);  // newer than epoch 4: stays
  CHECK_FALSE(h.empty(other));
  h.move(other, 5, mine, 2);
  CHECK(h.empty(other));
  CHECK(h.newest_epoch(mine) == 2);
  CHECK(h.allocate(mine, 8 * kib, 256, true, 1) != heap::none);
}

TEST_CASE("a stream's free coalesces with ready neighbours, but not with larger ones") {
  heap h{true};
  std::uint32_t const mine = h.add_list();
  h.add_segment(mib, 16 * kib);
  std::uint32_t const a = h.allocate(heap::ready, 4 * kib, 256, false, 1);
  std::uint32_t const b = h.allocate(heap::ready, 4 * kib, 256, false, 1);
  h.deallocate(a, heap::ready, 0);
  h.deallocate(b, mine, 3);  // 4 KiB ready before it, 8 KiB behind
  CHECK(h.bytes_in(mine) == 8 * kib);
  CHECK(h.bytes_in(heap::ready) == 8 * kib);
  CHECK(h.at(h.oldest(mine)).epoch == 3);
  CHECK(walk(h).consistent);
}

TEST_CASE("a heap serves small requests from the best fit and large ones from the lowest address") {
  heap h;
  h.add_segment(mib, 8 * mib);
  std::uint32_t nodes[6];
  std::uint64_t const sizes[] = {mib, 256, 512 * kib, 256, 300 * kib, 256};
  for (int i = 0; i < 6; ++i) nodes[i] = h.allocate(heap::ready, sizes[i], 256, true, 1);
  for (int i = 0; i < 6; i += 2) h.deallocate(nodes[i], heap::ready, 0);
  std::uint32_t const large = h.allocate(heap::ready, 256 * kib, 256, true, 1);
  CHECK(h.at(large).address == mib);
  std::uint32_t const small = h.allocate(heap::ready, 4 * kib, 256, true, 1);
  CHECK(h.at(small).address == mib + mib + 256 + 512 * kib + 256);
  h.deallocate(small, heap::ready, 0);
  h.deallocate(large, heap::ready, 0);
  CHECK(walk(h).consistent);
}

TEST_CASE("the best fit is the smallest of several sizes that differ by little") {
  heap h;
  h.add_segment(mib, mib);
  // Free blocks of 128 KiB + 256 B, + 512 B and + 768 B, in two orders, between live ones.
  bool const ascending = GENERATE(true, false);
  std::uint32_t blocks[3];
  for (std::uint64_t i = 0; i < 3; ++i) {
    std::uint64_t const bytes = 128 * kib + 256 * (ascending ? i + 1 : 3 - i);
    blocks[i] = h.allocate(heap::ready, bytes, heap::granule_bytes, true, bytes);
    static_cast<void>(h.allocate(heap::ready, 256, heap::granule_bytes, true, 256));
  }
  for (std::uint32_t const b : blocks) h.deallocate(b, heap::ready, 0);
  std::uint32_t const found = h.find_fit(heap::ready, 128 * kib + 256, heap::granule_bytes, true);
  CHECK(h.at(found).bytes == 128 * kib + 256);
  std::uint32_t const next = h.find_fit(heap::ready, 128 * kib + 512, heap::granule_bytes, true);
  CHECK(h.at(next).bytes == 128 * kib + 512);
  std::uint32_t const below = h.find_fit(heap::ready, 128 * kib, heap::granule_bytes, true);
  CHECK(h.at(below).bytes == 128 * kib + 256);
}

TEST_CASE("a heap removes no segment that is in use or larger than requested") {
  heap h;
  h.add_segment(mib, 8 * kib);
  h.add_segment(2 * mib, 16 * kib);
  std::uint32_t const a = h.allocate(heap::ready, 16 * kib, 256, true, 1);
  CHECK(h.remove_empty_segment(4 * kib).bytes == 0);
  CHECK(h.remove_empty_segment(64 * kib).bytes == 8 * kib);
  CHECK(h.remove_empty_segment(64 * kib).bytes == 0);
  h.deallocate(a, heap::ready, 0);
  CHECK(h.remove_empty_segment(64 * kib).bytes == 16 * kib);
}

TEST_CASE("random use of a heap neither loses nor duplicates a byte") {
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  heap h{GENERATE(false, true)};
  constexpr std::uint32_t stream_lists = 4;
  constexpr std::uint32_t list_count = heap::first_stream_list + stream_lists;
  for (std::uint32_t i = heap::first_stream_list; i < list_count; ++i) REQUIRE(h.add_list() == i);
  auto const any_stream = [&random] {
    return static_cast<std::uint32_t>(heap::first_stream_list + random() % stream_lists);
  };
  auto const any_list = [&] { return random() % 5 == 0 ? heap::ready : any_stream(); };
  std::uint64_t next_address = 4 * mib + 256;  // not even aligned to 512
  std::uint64_t reserved = 0;
  std::uint64_t epoch = 1;
  std::map<std::uint64_t, std::uint64_t> live;  // address to size
  std::uint64_t live_bytes = 0;
  std::vector<std::uint64_t> order;
  for (int step = 0; step < 60000; ++step) {
    unsigned const what = static_cast<unsigned>(random() % 100);
    if (reserved < 8 * mib && (reserved == 0 || what == 0)) {
      std::uint64_t const bytes = (1 + random() % 8192) * 256;
      h.add_segment(next_address, bytes);
      next_address += bytes + (random() % 2) * 256;  // adjacent segments must not be coalesced
      reserved += bytes;
    } else if (what < 50) {
      auto const list = any_list();
      std::uint64_t const bytes = (1 + (random() % (std::uint64_t{1} << (random() % 12)))) * 256;
      std::uint64_t const alignment = std::uint64_t{256} << (random() % 4 == 0 ? random() % 8 : 0);
      bool const exhaustive = random() % 2 == 0;
      bool const possible = exhaustive && model_has_fit(h, list, bytes, alignment);
      std::uint32_t const node = h.allocate(list, bytes, alignment, exhaustive, bytes - 3);
      if (exhaustive && (node != heap::none) != possible) FAIL("a fit was missed, step " << step);
      if (node == heap::none) continue;
      heap::block const& b = h.at(node);
      if (b.bytes != bytes || b.address % alignment != 0 || b.requested_bytes != bytes - 3) {
        FAIL("a wrong block, step " << step);
      }
      auto const above = live.lower_bound(b.address);
      if (above != live.end() && above->first < b.address + bytes) FAIL("overlap above");
      if (above != live.begin()) {
        auto const below = std::prev(above);
        if (below->first + below->second > b.address) FAIL("overlap below");
      }
      live[b.address] = bytes;
      live_bytes += bytes;
      order.push_back(b.address);
    } else if (what < 95) {
      if (order.empty()) continue;
      std::size_t const i = random() % order.size();
      std::uint64_t const address = order[i];
      order[i] = order.back();
      order.pop_back();
      auto const list = any_list();
      live_bytes -= live[address];
      live.erase(address);
      h.deallocate(h.find(address), list, list == heap::ready ? 0 : epoch++);
    } else if (what < 98) {
      h.move(any_stream(), epoch - random() % 50, heap::ready, 0);
    } else if (what < 99) {
      h.move(heap::ready, 0, heap::first_stream_list, epoch++);
    } else if (random() % 2 == 0) {
      // A part is unmapped, or mapped again.
      bool const from_ready = random() % 2 == 0;
      std::uint32_t const node = h.oldest(from_ready ? heap::ready : heap::unmapped);
      if (node == heap::none) continue;
      std::uint64_t const begin = random() % (h.at(node).bytes / 256) * 256;
      std::uint64_t const bytes = (1 + random() % ((h.at(node).bytes - begin) / 256)) * 256;
      std::uint64_t const address = h.at(node).address + begin;
      std::uint32_t const to = from_ready ? heap::unmapped : heap::ready;
      std::uint32_t const now = h.move_part(node, address, bytes, to, 0);
      if (h.at(now).list != to || h.find_free_containing(to, address) != now)
        FAIL("not moved, step " << step);
    } else {
      reserved -= h.remove_empty_segment(random() % mib).bytes;
    }
    if (h.live_bytes() != live_bytes || h.live_blocks() != live.size()) FAIL("counts, " << step);
    if (step % 16 != 0) continue;
    totals const t = walk(h);
    if (!t.consistent || t.live != live_bytes || t.live + t.free != reserved ||
        t.segments != reserved || t.largest_free != h.largest_free_block_bytes()) {
      FAIL("the heap is inconsistent after step " << step);
    }
  }
  for (std::uint64_t address : order) h.deallocate(h.find(address), heap::ready, 0);
  for (std::uint32_t list = heap::first_stream_list; list < list_count; ++list) {
    h.move(list, epoch, heap::ready, 0);
  }
  while (!h.empty(heap::unmapped)) h.move_block(h.oldest(heap::unmapped), heap::ready, 0);
  totals const t = walk(h);
  CHECK(t.consistent);
  CHECK(t.free == reserved);
  // Everything is coalesced: each segment is one block.
  for (heap::segment const& s : h.segments()) {
    if (s.bytes != 0) CHECK(h.at(s.first).bytes == s.bytes);
  }
}
