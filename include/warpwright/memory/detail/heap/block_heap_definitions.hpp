// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/heap/block_heap.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void block_heap::add_segment(std::uint64_t address,
                                                                   std::uint64_t bytes,
                                                                   std::uint32_t list) {
  reserve_blocks(1);
  std::uint32_t index = 0;
  while (index < segments_.size() && segments_[index].bytes != 0) ++index;
  if (index == segments_.size()) segments_.emplace_back();
  std::uint32_t const node = new_block();
  segments_[index] = segment{address, bytes, node};
  blocks_[node].address = address;
  blocks_[node].bytes = bytes;
  blocks_[node].segment = index;
  insert_free(node, list, 0);
}

WARPWRIGHT_INLINE std::uint32_t block_heap::allocate(std::uint32_t list, std::uint64_t bytes,
                                                     std::uint64_t alignment, bool exhaustive,
                                                     std::uint64_t requested_bytes) {
  std::uint32_t const node = find_fit(list, bytes, alignment, exhaustive);
  return node == none ? none : allocate_from(node, bytes, alignment, requested_bytes);
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t block_heap::allocate_from(
    std::uint32_t node, std::uint64_t bytes, std::uint64_t alignment,
    std::uint64_t requested_bytes) {
  reserve_blocks(2);
  live_.reserve(live_.size() + 1);
  std::uint64_t const padding = (~blocks_[node].address + 1) & (alignment - 1);
  std::uint32_t const taken = split(node, blocks_[node].address + padding, bytes);
  blocks_[taken].requested_bytes = requested_bytes;
  blocks_[taken].tag = 0;
  live_.insert(blocks_[taken].address, taken);
  live_bytes_ += bytes;
  return taken;
}

WARPWRIGHT_INLINE void block_heap::deallocate(std::uint32_t node, std::uint32_t list,
                                              std::uint64_t epoch) noexcept {
  live_.erase(blocks_[node].address);
  live_bytes_ -= blocks_[node].bytes;
  insert_free(node, list, epoch);
}

WARPWRIGHT_INLINE void block_heap::clear_tags(std::uint32_t tag) noexcept {
  for (block& b : blocks_) {
    if (b.list == none && b.tag == tag) b.tag = 0;
  }
}

WARPWRIGHT_INLINE bool block_heap::move(std::uint32_t from, std::uint64_t epoch, std::uint32_t to,
                                        std::uint64_t new_epoch, std::size_t portion) noexcept {
  for (; !empty(from) && blocks_[oldest(from)].epoch <= epoch; --portion) {
    if (portion == 0) return false;
    std::uint32_t const node = oldest(from);
    unlink(node);
    insert_free(node, to, new_epoch);
  }
  return true;
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t block_heap::move_part(std::uint32_t node,
                                                                          std::uint64_t address,
                                                                          std::uint64_t bytes,
                                                                          std::uint32_t to,
                                                                          std::uint64_t epoch) {
  reserve_blocks(2);
  std::uint32_t const part = split(node, address, bytes);
  insert_free(part, to, epoch);
  return part;
}

WARPWRIGHT_INLINE void block_heap::move_block(std::uint32_t node, std::uint32_t to,
                                              std::uint64_t epoch) noexcept {
  unlink(node);
  insert_free(node, to, epoch);
}

WARPWRIGHT_INLINE block_heap::segment block_heap::remove_empty_segment(
    std::uint64_t max_bytes) noexcept {
  segment best;
  for (segment& s : segments_) {
    if (s.bytes == 0 || s.bytes > max_bytes || s.bytes <= best.bytes) continue;
    block const& first = blocks_[s.first];
    if (first.list == ready && first.bytes == s.bytes) best = s;
  }
  if (best.bytes != 0) {
    segments_[blocks_[best.first].segment].bytes = 0;
    unlink(best.first);
    delete_block(best.first);
  }
  return best;
}

WARPWRIGHT_INLINE std::uint32_t block_heap::find_containing(std::uint64_t address) const noexcept {
  for (segment const& s : segments_) {
    if (s.bytes == 0 || address < s.address || address - s.address >= s.bytes) continue;
    std::uint32_t n = s.first;
    while (address - blocks_[n].address >= blocks_[n].bytes) n = blocks_[n].next;
    return n;
  }
  return none;
}

WARPWRIGHT_INLINE std::uint64_t block_heap::largest_free_block_bytes() const noexcept {
  std::uint64_t largest = 0;
  for (std::uint32_t list = 0; list < list_count(); ++list) {
    std::uint32_t const node = list == unmapped ? none : largest_in(list);
    if (node != none && blocks_[node].bytes > largest) largest = blocks_[node].bytes;
  }
  return largest;
}

WARPWRIGHT_INLINE void block_heap::insert_before(std::uint32_t node,
                                                 std::uint32_t before) noexcept {
  block& n = blocks_[node];
  block& b = blocks_[before];
  n.segment = b.segment;
  n.next = before;
  n.previous = b.previous;
  if (n.previous != none) {
    blocks_[n.previous].next = node;
  } else {
    segments_[n.segment].first = node;
  }
  b.previous = node;
}

WARPWRIGHT_INLINE void block_heap::remove_node(std::uint32_t node) noexcept {
  block const& n = blocks_[node];
  if (n.previous != none) {
    blocks_[n.previous].next = n.next;
  } else {
    segments_[n.segment].first = n.next;
  }
  if (n.next != none) blocks_[n.next].previous = n.previous;
  delete_block(node);
}

WARPWRIGHT_INLINE bool block_heap::coalesces_with(std::uint32_t neighbour, std::uint32_t list,
                                                  std::uint64_t epoch,
                                                  std::uint64_t freed_bytes) const noexcept {
  if (neighbour == none) return false;
  block const& b = blocks_[neighbour];
  return b.list == list ||
         (coalesces_ready_ && b.list == ready && epoch != 0 && b.bytes <= freed_bytes);
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void block_heap::insert_free(std::uint32_t node,
                                                                   std::uint32_t list,
                                                                   std::uint64_t epoch) noexcept {
  block& n = blocks_[node];
  std::uint64_t const freed_bytes = n.bytes;
  while (coalesces_with(n.previous, list, epoch, freed_bytes)) {
    std::uint32_t const lower = n.previous;
    unlink(lower);
    n.address = blocks_[lower].address;
    n.bytes += blocks_[lower].bytes;
    remove_node(lower);
  }
  while (coalesces_with(n.next, list, epoch, freed_bytes)) {
    std::uint32_t const upper = n.next;
    unlink(upper);
    n.bytes += blocks_[upper].bytes;
    remove_node(upper);
  }
  n.list = list;
  n.epoch = epoch;
  link_bin(node);
  link_age(node, newest(list));
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t block_heap::split(
    std::uint32_t node, std::uint64_t address, std::uint64_t bytes) noexcept {
  std::uint64_t const padding = address - blocks_[node].address;
  unlink_bin(node);
  if (padding != 0) {
    std::uint32_t const lower = new_block();
    insert_before(lower, node);
    block& low = blocks_[lower];
    block& n = blocks_[node];
    low.address = n.address;
    low.bytes = padding;
    low.epoch = n.epoch;
    low.list = n.list;
    n.address += padding;
    n.bytes -= padding;
    link_bin(lower);
    link_age(lower, node);
  }
  if (blocks_[node].bytes == bytes) {
    unlink_age(node);
    blocks_[node].list = none;
    return node;
  }
  std::uint32_t const taken = new_block();
  insert_before(taken, node);
  block& t = blocks_[taken];
  block& n = blocks_[node];
  t.address = n.address;
  t.bytes = bytes;
  n.address += bytes;
  n.bytes -= bytes;
  link_bin(node);
  return taken;
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
