// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The heap of a pool: pure arithmetic on addresses, without CUDA and without a lock.
#pragma once

#include <warpwright/core/detail/container/address_map.hpp>
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
  void add_segment(std::uint64_t address, std::uint64_t bytes, std::uint32_t list = ready);

  /// Allocates a block from a list; the rest of the free block stays in the list.
  /// @param bytes       a multiple of granule_bytes, not 0
  /// @param alignment   a power of two, at least granule_bytes
  /// @param exhaustive  examine every block that could fit, not only the first few of a size class
  /// @return the block; none when no block of the list fits
  /// @throws std::bad_alloc  without any effect
  std::uint32_t allocate(std::uint32_t list, std::uint64_t bytes, std::uint64_t alignment,
                         bool exhaustive, std::uint64_t requested_bytes);

  /// Allocates a block from a free block that it fits into; the rest stays in its list.
  /// @throws std::bad_alloc  without any effect
  std::uint32_t allocate_from(std::uint32_t node, std::uint64_t bytes, std::uint64_t alignment,
                              std::uint64_t requested_bytes);

  /// @return the live block that starts at the address; none if there is none
  [[nodiscard]] std::uint32_t find(std::uint64_t address) const noexcept {
    return live_.find(address);
  }

  /// Frees a live block into a list.
  /// @param epoch  not below the epoch of any block in the list
  void deallocate(std::uint32_t node, std::uint32_t list, std::uint64_t epoch) noexcept;

  void set_tag(std::uint32_t node, std::uint32_t tag) noexcept { blocks_[node].tag = tag; }
  /// Clears a tag on every live block that has it. **Cost:** linear.
  void clear_tags(std::uint32_t tag) noexcept;

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
            std::size_t portion = ~std::size_t{0}) noexcept;

  /// Moves a part of a free block to a list; the rest stays in its list.
  /// @pre the part lies within the block, in multiples of granule_bytes
  /// @return the block that now contains the part
  /// @throws std::bad_alloc  without any effect
  std::uint32_t move_part(std::uint32_t node, std::uint64_t address, std::uint64_t bytes,
                          std::uint32_t to, std::uint64_t epoch);

  /// Moves a free block to a list. It keeps its number even when it coalesces.
  void move_block(std::uint32_t node, std::uint32_t to, std::uint64_t epoch) noexcept;

  /// Removes a segment that is one free block of the ready list and not larger than
  /// `max_bytes`.
  /// @return the segment; 0 bytes if there is none
  segment remove_empty_segment(std::uint64_t max_bytes) noexcept;

  /// The block, live or free, that contains an address; none for a foreign address. **Cost:**
  /// linear.
  [[nodiscard]] std::uint32_t find_containing(std::uint64_t address) const noexcept;

  /// The size of the largest mapped free block of all lists. **Cost:** largest_in() of each list.
  [[nodiscard]] std::uint64_t largest_free_block_bytes() const noexcept;

  [[nodiscard]] array<segment> const& segments() const noexcept { return segments_; }
  [[nodiscard]] std::uint64_t live_bytes() const noexcept { return live_bytes_; }
  [[nodiscard]] std::size_t live_blocks() const noexcept { return live_.size(); }

 private:
  void insert_before(std::uint32_t node, std::uint32_t before) noexcept;
  void remove_node(std::uint32_t node) noexcept;

  /// Whether a block freed into a list coalesces with a free neighbour: one of the same list or,
  /// for a stream's list, a ready block that is not larger than the freed one. Boundaries between a
  /// stream's list and the ready list cause fragmentation; but a small free must not take a large
  /// block away from the other streams.
  [[nodiscard]] bool coalesces_with(std::uint32_t neighbour, std::uint32_t list,
                                    std::uint64_t epoch, std::uint64_t freed_bytes) const noexcept;

  /// Inserts a block that is in no list into one, coalesced with its neighbours.
  void insert_free(std::uint32_t node, std::uint32_t list, std::uint64_t epoch) noexcept;

  /// Splits a block off a free one; it is in no list. The rest keeps its list, epoch and age.
  /// @pre reserve_blocks(2)
  std::uint32_t split(std::uint32_t node, std::uint64_t address, std::uint64_t bytes) noexcept;

  bool coalesces_ready_;
  array<segment> segments_;
  address_map live_;
  std::uint64_t live_bytes_ = 0;
};

/// Rounds up to a granule of the heap; 0 on overflow, a size that no cache holds.
inline std::uint64_t rounded_up(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t granule = block_heap::granule_bytes;
  return (bytes + (granule - 1)) & ~(granule - 1);
}

/// The slot, of 64, in which a cache looks for blocks of a size first; then in that number ^ 1.
/// Fibonacci hashing of the size in granules of 256 bytes.
inline unsigned cache_slot_of(std::uint64_t bytes) noexcept {
  return static_cast<unsigned>(((bytes >> 8U) * 0x9e3779b97f4a7c15ULL) >> 58U);
}

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/heap/block_heap_definitions.hpp>
#endif
