// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// The blocks of a heap, and its lists of free ones.
///
/// A list finds a block through a two-level bitmap over size classes (16 a power of two, as in
/// TLSF: Masmano et al., ECRTS 2004), so that the time does not grow with the number of free
/// blocks, and keeps its blocks in the order in which they were freed. Which addresses are adjacent
/// is the heap's concern.
class free_lists {
 public:
  static constexpr std::uint32_t none = 0xffffffffU;
  static constexpr std::uint64_t granule_bytes = 256;

  struct block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;            // a multiple of granule_bytes
    std::uint64_t requested_bytes = 0;  // of a live block
    std::uint64_t epoch = 0;    // of a free block: its stream's epoch at the free; 0: not of a
                                // stream
    std::uint32_t tag = 0;      // of a live block: set by the pool; 0: allocated by a caller
    std::uint32_t list = none;  // none: live
    std::uint32_t segment = 0;
    std::uint32_t previous = none, next = none;  // neighbours in the segment
    std::uint32_t bin_previous = none, bin_next = none;
    std::uint32_t age_previous = none, age_next = none;  // in the order of the frees, oldest first
  };

  /// @return the number of a new, empty list
  WARPWRIGHT_COLD std::uint32_t add_list();

  [[nodiscard]] std::uint32_t list_count() const noexcept {
    return static_cast<std::uint32_t>(lists_.size());
  }

  /// The block of a list that contains an address; none if there is none. **Cost:** the list's
  /// length.
  [[nodiscard]] std::uint32_t find_free_containing(std::uint32_t list,
                                                   std::uint64_t address) const noexcept;

  /// Requests from this size on get the lowest address that fits (address-ordered first fit),
  /// smaller ones the best fit. Large blocks at low addresses leave whole granules free above them,
  /// and small ones fill the gaps. Replays of training waste half as much memory as with best fit
  /// alone.
  static constexpr std::uint64_t large_bytes = std::uint64_t{256} << 10U;

  /// The free block of a list to allocate a request from.
  /// @param exhaustive  examine every block that could fit, not only the first few of a size class
  [[nodiscard]] std::uint32_t find_fit(std::uint32_t list, std::uint64_t bytes,
                                       std::uint64_t alignment, bool exhaustive) const noexcept;

  /// The smallest block that fits. The blocks of a size class differ by 6 %, so the first few
  /// suffice.
  [[nodiscard]] std::uint32_t find_best_fit(std::uint32_t list, std::uint64_t bytes,
                                            std::uint64_t alignment,
                                            bool exhaustive) const noexcept;

  /// The better of two blocks that fit; none is worse than any block.
  [[nodiscard]] std::uint32_t better_fit(std::uint32_t a, std::uint32_t b,
                                         std::uint64_t bytes) const noexcept;

  /// The largest block of a list; none for an empty list. **Cost:** the blocks of its highest size
  /// class.
  [[nodiscard]] std::uint32_t largest_in(std::uint32_t number) const noexcept;

  [[nodiscard]] block const& at(std::uint32_t node) const noexcept { return blocks_[node]; }
  [[nodiscard]] bool empty(std::uint32_t list) const noexcept {
    return lists_[list].oldest == none;
  }
  /// The block of the list that was freed first; none for an empty list. at(n).age_next is the
  /// next.
  [[nodiscard]] std::uint32_t oldest(std::uint32_t list) const noexcept {
    return lists_[list].oldest;
  }
  /// The epoch of the list's block that was freed last.
  /// @pre the list is not empty
  [[nodiscard]] std::uint64_t newest_epoch(std::uint32_t list) const noexcept {
    return blocks_[lists_[list].newest].epoch;
  }
  /// The block of the list that was freed last; none for an empty list.
  [[nodiscard]] std::uint32_t newest(std::uint32_t list) const noexcept {
    return lists_[list].newest;
  }
  /// The bytes of all blocks of the list.
  [[nodiscard]] std::uint64_t bytes_in(std::uint32_t list) const noexcept {
    return lists_[list].bytes;
  }
  /// One above the highest block number so far: the length of a side table.
  [[nodiscard]] std::size_t node_count_bound() const noexcept { return blocks_.size(); }

 protected:
  free_lists() = default;
  ~free_lists() = default;

  void reserve_blocks(std::size_t count);
  std::uint32_t new_block() noexcept;
  void delete_block(std::uint32_t node) noexcept;

  /// Inserts a block into its bin: a large block by address within a limited number of steps, a
  /// small one at the front.
  void link_bin(std::uint32_t node) noexcept;
  void unlink_bin(std::uint32_t node) noexcept;
  /// Inserts a block behind another one in the order of age; none: at the front.
  void link_age(std::uint32_t node, std::uint32_t after) noexcept;
  void unlink_age(std::uint32_t node) noexcept;
  void unlink(std::uint32_t node) noexcept {
    unlink_bin(node);
    unlink_age(node);
  }

 private:
  static constexpr unsigned bin_count = 512;  // up to 2^35 granules, 8 TiB; the last bin holds
                                              // larger blocks
  static constexpr unsigned word_count = bin_count / 64;
  static constexpr unsigned search_limit = 8;

  struct free_list {
    free_list() noexcept {
      for (std::uint32_t& head : heads) head = none;
    }
    std::uint64_t words[word_count] = {};  // bit b of word w: bin 64 w + b is not empty
    std::uint32_t nonempty_words = 0;      // bit w: word w is not 0
    std::uint64_t bytes = 0;
    std::uint32_t oldest = none, newest = none;
    std::uint32_t heads[bin_count];
  };

  static unsigned bin_of(std::uint64_t bytes) noexcept;

  /// The first non-empty bin from `bin` on; bin_count if there is none.
  [[nodiscard]] unsigned next_bin(std::uint32_t list, unsigned bin) const noexcept;

  /// The block with the lowest address that fits, as far as the bins are ordered by address.
  [[nodiscard]] std::uint32_t find_lowest_fit(std::uint32_t list, std::uint64_t bytes,
                                              std::uint64_t alignment,
                                              bool exhaustive) const noexcept;

  static bool fits(block const& b, std::uint64_t bytes, std::uint64_t alignment) noexcept {
    std::uint64_t const padding = (~b.address + 1) & (alignment - 1);
    return b.bytes >= padding && b.bytes - padding >= bytes;
  }

  array<free_list> lists_;
  std::uint32_t spare_nodes_ = none;
  std::size_t spare_node_count_ = 0;

 protected:
  array<block> blocks_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/heap/free_lists_definitions.hpp>
#endif
