// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The heap of a pool: pure arithmetic on addresses, without CUDA and without a lock.
#pragma once

#include <warpwright/memory/detail/address_map.hpp>
#include <warpwright/memory/detail/heap/free_lists.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// Segments of memory, divided into blocks. Every block is live, or free in exactly one list.
///
/// Three lists have a fixed meaning: blocks that all streams may use (ready), addresses without
/// memory (unmapped), and blocks that a slow operation has reserved. The pool adds further lists,
/// one a stream. Adjacent free blocks of the same list are coalesced at once.
class block_heap : public free_lists {
 public:
  static constexpr std::uint32_t ready = 0;
  static constexpr std::uint32_t unmapped = 1;
  static constexpr std::uint32_t reserved_list = 2;
  static constexpr std::uint32_t first_stream_list = 3;

  struct segment {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;     // 0: unused entry
    std::uint32_t first = none;  // its block with the lowest address
  };

  /// Creates a heap without segments.
  /// @param coalesces_ready  whether a block freed with an epoch may coalesce with ready
  ///   neighbours, see coalesces_with()
  explicit block_heap(bool coalesces_ready = false) : coalesces_ready_{coalesces_ready} {
    while (list_count() < first_stream_list) static_cast<void>(add_list());
  }

  static constexpr bool round_up(std::uint64_t bytes, std::uint64_t unit,
                                 std::uint64_t& rounded) noexcept {
    rounded = (bytes + (unit - 1)) & ~(unit - 1);
    return rounded >= bytes;
  }

  /// Adds a segment as one free block of a list.
  /// @pre address and size are multiples of granule_bytes
  /// @throws std::bad_alloc  without any effect
  void add_segment(std::uint64_t address, std::uint64_t bytes, std::uint32_t list = ready) {
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

  /// Allocates a block from a list; the rest of the free block stays in the list.
  /// @param bytes       a multiple of granule_bytes, not 0
  /// @param alignment   a power of two, at least granule_bytes
  /// @param exhaustive  examine every block that could fit, not only the first few of a size class
  /// @return the block; none when no block of the list fits
  /// @throws std::bad_alloc  without any effect
  std::uint32_t allocate(std::uint32_t list, std::uint64_t bytes, std::uint64_t alignment,
                         bool exhaustive, std::uint64_t requested_bytes) {
    std::uint32_t const node = find_fit(list, bytes, alignment, exhaustive);
    return node == none ? none : allocate_from(node, bytes, alignment, requested_bytes);
  }

  /// Allocates a block from a free block that it fits into; the rest stays in its list.
  /// @throws std::bad_alloc  without any effect
  std::uint32_t allocate_from(std::uint32_t node, std::uint64_t bytes, std::uint64_t alignment,
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

  /// @return the live block that starts at the address; none if there is none
  [[nodiscard]] std::uint32_t find(std::uint64_t address) const noexcept {
    return live_.find(address);
  }

  /// Frees a live block into a list.
  /// @param epoch  not below the epoch of any block in the list
  void deallocate(std::uint32_t node, std::uint32_t list, std::uint64_t epoch) noexcept {
    live_.erase(blocks_[node].address);
    live_bytes_ -= blocks_[node].bytes;
    insert_free(node, list, epoch);
  }

  void set_tag(std::uint32_t node, std::uint32_t tag) noexcept { blocks_[node].tag = tag; }
  /// Clears a tag on every live block that has it. **Cost:** linear.
  void clear_tags(std::uint32_t tag) noexcept {
    for (block& b : blocks_) {
      if (b.list == none && b.tag == tag) b.tag = 0;
    }
  }

  /// Calls `use(node, block)` for every block, live or free, by address within a segment.
  template <class Use>
  void for_each(Use&& use) const {
    for (segment const& s : segments_) {
      if (s.bytes == 0) continue;
      for (std::uint32_t n = s.first; n != none; n = blocks_[n].next) use(n, blocks_[n]);
    }
  }

  /// Moves the free blocks of a list with an epoch of at most `epoch` to another list, the oldest
  /// first.
  /// @return whether all have been moved; false after `portion` blocks
  bool move(std::uint32_t from, std::uint64_t epoch, std::uint32_t to, std::uint64_t new_epoch,
            std::size_t portion = ~std::size_t{0}) noexcept {
    for (; !empty(from) && blocks_[oldest(from)].epoch <= epoch; --portion) {
      if (portion == 0) return false;
      std::uint32_t const node = oldest(from);
      unlink(node);
      insert_free(node, to, new_epoch);
    }
    return true;
  }

  /// Moves a part of a free block to a list; the rest stays in its list.
  /// @pre the part lies within the block, in multiples of granule_bytes
  /// @return the block that now contains the part
  /// @throws std::bad_alloc  without any effect
  std::uint32_t move_part(std::uint32_t node, std::uint64_t address, std::uint64_t bytes,
                          std::uint32_t to, std::uint64_t epoch) {
    reserve_blocks(2);
    std::uint32_t const part = split(node, address, bytes);
    insert_free(part, to, epoch);
    return part;
  }

  /// Moves a free block to a list. It keeps its number even when it coalesces.
  void move_block(std::uint32_t node, std::uint32_t to, std::uint64_t epoch) noexcept {
    unlink(node);
    insert_free(node, to, epoch);
  }

  /// Removes a segment that is one free block of the ready list and not larger than
  /// `maximum_bytes`.
  /// @return the segment; 0 bytes if there is none
  segment remove_empty_segment(std::uint64_t maximum_bytes) noexcept {
    segment best;
    for (segment& s : segments_) {
      if (s.bytes == 0 || s.bytes > maximum_bytes || s.bytes <= best.bytes) continue;
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

  /// The block, live or free, that contains an address; none for a foreign address. **Cost:**
  /// linear.
  [[nodiscard]] std::uint32_t find_containing(std::uint64_t address) const noexcept {
    for (segment const& s : segments_) {
      if (s.bytes == 0 || address < s.address || address - s.address >= s.bytes) continue;
      std::uint32_t n = s.first;
      while (address - blocks_[n].address >= blocks_[n].bytes) n = blocks_[n].next;
      return n;
    }
    return none;
  }

  /// The size of the largest mapped free block of all lists. **Cost:** largest_in() of each list.
  [[nodiscard]] std::uint64_t largest_hole_bytes() const noexcept {
    std::uint64_t largest = 0;
    for (std::uint32_t list = 0; list < list_count(); ++list) {
      std::uint32_t const node = list == unmapped ? none : largest_in(list);
      if (node != none && blocks_[node].bytes > largest) largest = blocks_[node].bytes;
    }
    return largest;
  }

  [[nodiscard]] array<segment> const& segments() const noexcept { return segments_; }
  [[nodiscard]] std::uint64_t live_bytes() const noexcept { return live_bytes_; }
  [[nodiscard]] std::size_t live_blocks() const noexcept { return live_.size(); }

 private:
  void insert_before(std::uint32_t node, std::uint32_t before) noexcept {
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
  void remove_node(std::uint32_t node) noexcept {
    block const& n = blocks_[node];
    if (n.previous != none) {
      blocks_[n.previous].next = n.next;
    } else {
      segments_[n.segment].first = n.next;
    }
    if (n.next != none) blocks_[n.next].previous = n.previous;
    delete_block(node);
  }

  /// Whether a block freed into a list coalesces with a free neighbour: one of the same list or,
  /// for a stream's list, a ready block that is not larger than the freed one. Boundaries between a
  /// stream's list and the ready list cause fragmentation; but a small free must not take a large
  /// block away from the other streams.
  [[nodiscard]] bool coalesces_with(std::uint32_t neighbour, std::uint32_t list,
                                    std::uint64_t epoch, std::uint64_t freed_bytes) const noexcept {
    if (neighbour == none) return false;
    block const& b = blocks_[neighbour];
    return b.list == list ||
           (coalesces_ready_ && b.list == ready && epoch != 0 && b.bytes <= freed_bytes);
  }

  /// Inserts a block that is in no list into one, coalesced with its neighbours.
  void insert_free(std::uint32_t node, std::uint32_t list, std::uint64_t epoch) noexcept {
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

  /// Splits a block off a free one; it is in no list. The rest keeps its list, epoch and age.
  /// @pre reserve_blocks(2)
  std::uint32_t split(std::uint32_t node, std::uint64_t address, std::uint64_t bytes) noexcept {
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

  bool coalesces_ready_;
  array<segment> segments_;
  address_map live_;
  std::uint64_t live_bytes_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
