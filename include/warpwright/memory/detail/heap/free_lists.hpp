// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>

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
  std::uint32_t add_list() {
    lists_.emplace_back();
    return static_cast<std::uint32_t>(lists_.size() - 1);
  }

  [[nodiscard]] std::uint32_t list_count() const noexcept {
    return static_cast<std::uint32_t>(lists_.size());
  }

  /// The block of a list that contains an address; none if there is none. **Cost:** the list's
  /// length.
  [[nodiscard]] std::uint32_t find_free_containing(std::uint32_t list,
                                                   std::uint64_t address) const noexcept {
    std::uint32_t n = lists_[list].oldest;
    while (n != none && address - blocks_[n].address >= blocks_[n].bytes) n = blocks_[n].age_next;
    return n;
  }

  /// Requests from this size on get the lowest address that fits (address-ordered first fit),
  /// smaller ones the best fit. Large blocks at low addresses leave whole granules free above them,
  /// and small ones fill the gaps. Replays of training waste half as much memory as with best fit
  /// alone.
  static constexpr std::uint64_t large_bytes = std::uint64_t{256} << 10U;

  /// The free block of a list to allocate a request from.
  /// @param exhaustive  examine every block that could fit, not only the first few of a size class
  [[nodiscard]] std::uint32_t find_fit(std::uint32_t list, std::uint64_t bytes,
                                       std::uint64_t alignment, bool exhaustive) const noexcept {
    if (lists_[list].bytes < bytes) return none;
    return bytes < large_bytes ? find_best_fit(list, bytes, alignment, exhaustive)
                               : find_lowest_fit(list, bytes, alignment, exhaustive);
  }

  /// The smallest block that fits. The blocks of a size class differ by 6 %, so the first few
  /// suffice.
  [[nodiscard]] std::uint32_t find_best_fit(std::uint32_t list, std::uint64_t bytes,
                                            std::uint64_t alignment,
                                            bool exhaustive) const noexcept {
    std::uint64_t const padded_bytes = bytes + (alignment - granule_bytes);  // a block of this size
                                                                             // fits at any address
    if (padded_bytes < bytes) return none;
    unsigned const last = bin_of(padded_bytes);
    std::uint32_t best = none;
    unsigned bin = next_bin(list, bin_of(bytes));
    for (; bin <= last; bin = next_bin(list, bin + 1)) {
      unsigned examined = 0;
      for (std::uint32_t n = lists_[list].heads[bin];
           n != none && (exhaustive || examined < search_limit);
           n = blocks_[n].bin_next, ++examined) {
        if (!fits(blocks_[n], bytes, alignment)) continue;
        if (best == none || blocks_[n].bytes < blocks_[best].bytes) best = n;
        if (blocks_[n].bytes == bytes) return n;
      }
      if (best != none) return best;
    }
    return bin < bin_count ? lists_[list].heads[bin] : none;
  }

  /// The better of two blocks that fit; none is worse than any block.
  [[nodiscard]] std::uint32_t better_fit(std::uint32_t a, std::uint32_t b,
                                         std::uint64_t bytes) const noexcept {
    if (a == none || b == none) return a == none ? b : a;
    bool const second = bytes < large_bytes ? blocks_[b].bytes < blocks_[a].bytes
                                            : blocks_[b].address < blocks_[a].address;
    return second ? b : a;
  }

  /// The largest block of a list; none for an empty list. **Cost:** the blocks of its highest size
  /// class.
  [[nodiscard]] std::uint32_t largest_in(std::uint32_t number) const noexcept {
    free_list const& list = lists_[number];
    std::uint32_t largest = none;
    if (list.nonempty_words == 0) return none;
    auto const word = 31U - static_cast<unsigned>(__builtin_clz(list.nonempty_words));
    unsigned const bin = word * 64 + 63 - static_cast<unsigned>(__builtin_clzll(list.words[word]));
    for (std::uint32_t n = list.heads[bin]; n != none; n = blocks_[n].bin_next) {
      if (largest == none || blocks_[n].bytes > blocks_[largest].bytes) largest = n;
    }
    return largest;
  }

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

  void reserve_blocks(std::size_t count) {
    if (spare_node_count_ + (blocks_.capacity() - blocks_.size()) < count) {
      blocks_.reserve(blocks_.capacity() + 64);  // doubles
    }
  }
  std::uint32_t new_block() noexcept {
    if (spare_nodes_ == none) {
      blocks_.emplace_back();  // reserve_blocks() has reserved capacity
      return static_cast<std::uint32_t>(blocks_.size() - 1);
    }
    std::uint32_t const node = spare_nodes_;
    spare_nodes_ = blocks_[node].bin_next;
    --spare_node_count_;
    blocks_[node] = block{};
    return node;
  }
  void delete_block(std::uint32_t node) noexcept {
    blocks_[node].bin_next = spare_nodes_;
    spare_nodes_ = node;
    ++spare_node_count_;
  }

  /// Inserts a block into its bin: a large block by address within a limited number of steps, a
  /// small one at the front.
  void link_bin(std::uint32_t node) noexcept {
    block& n = blocks_[node];
    free_list& l = lists_[n.list];
    unsigned const bin = bin_of(n.bytes);
    std::uint32_t after = none;
    std::uint32_t before = l.heads[bin];
    if (n.bytes >= large_bytes) {
      for (unsigned step = 0; step < 2 * search_limit && before != none; ++step) {
        if (blocks_[before].address > n.address) break;
        after = before;
        before = blocks_[before].bin_next;
      }
    }
    n.bin_previous = after;
    n.bin_next = before;
    if (before != none) blocks_[before].bin_previous = node;
    (after != none ? blocks_[after].bin_next : l.heads[bin]) = node;
    l.bytes += n.bytes;
    l.words[bin / 64] |= std::uint64_t{1} << (bin % 64);
    l.nonempty_words |= std::uint32_t{1} << (bin / 64);
  }
  void unlink_bin(std::uint32_t node) noexcept {
    block const& n = blocks_[node];
    free_list& l = lists_[n.list];
    unsigned const bin = bin_of(n.bytes);
    l.bytes -= n.bytes;
    if (n.bin_next != none) blocks_[n.bin_next].bin_previous = n.bin_previous;
    if (n.bin_previous != none) {
      blocks_[n.bin_previous].bin_next = n.bin_next;
    } else {
      l.heads[bin] = n.bin_next;
      if (n.bin_next == none) {
        l.words[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
        if (l.words[bin / 64] == 0) l.nonempty_words &= ~(std::uint32_t{1} << (bin / 64));
      }
    }
  }
  /// Inserts a block behind another one in the order of age; none: at the front.
  void link_age(std::uint32_t node, std::uint32_t after) noexcept {
    block& n = blocks_[node];
    free_list& l = lists_[n.list];
    n.age_previous = after;
    n.age_next = after != none ? blocks_[after].age_next : none;
    if (after != none) {
      blocks_[after].age_next = node;
    } else {
      l.oldest = node;
    }
    if (n.age_next != none) {
      blocks_[n.age_next].age_previous = node;
    } else {
      l.newest = node;
    }
  }
  void unlink_age(std::uint32_t node) noexcept {
    block const& n = blocks_[node];
    free_list& l = lists_[n.list];
    (n.age_previous != none ? blocks_[n.age_previous].age_next : l.oldest) = n.age_next;
    (n.age_next != none ? blocks_[n.age_next].age_previous : l.newest) = n.age_previous;
  }
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

  static unsigned bin_of(std::uint64_t bytes) noexcept {
    std::uint64_t const granules = bytes / granule_bytes;
    if (granules < 16) return static_cast<unsigned>(granules);
    auto const level = 59U - static_cast<unsigned>(__builtin_clzll(granules));
    auto const bin = 16 + level * 16 + static_cast<unsigned>((granules >> level) & 15U);
    return bin < bin_count ? bin : bin_count - 1;
  }

  /// The first non-empty bin from `bin` on; bin_count if there is none.
  [[nodiscard]] unsigned next_bin(std::uint32_t list, unsigned bin) const noexcept {
    if (bin >= bin_count) return bin_count;
    free_list const& l = lists_[list];
    unsigned word = bin / 64;
    std::uint64_t bits = l.words[word] & (~std::uint64_t{0} << (bin % 64));
    if (bits == 0) {
      std::uint32_t const above = l.nonempty_words & (~std::uint32_t{1} << word);
      if (above == 0) return bin_count;
      word = static_cast<unsigned>(__builtin_ctz(above));
      bits = l.words[word];
    }
    return word * 64 + static_cast<unsigned>(__builtin_ctzll(bits));
  }

  /// The block with the lowest address that fits, as far as the bins are ordered by address.
  [[nodiscard]] std::uint32_t find_lowest_fit(std::uint32_t list, std::uint64_t bytes,
                                              std::uint64_t alignment,
                                              bool exhaustive) const noexcept {
    std::uint64_t const padded_bytes = bytes + (alignment - granule_bytes);
    if (padded_bytes < bytes) return none;
    unsigned const last = bin_of(padded_bytes);
    std::uint32_t lowest = none;
    unsigned bin = next_bin(list, bin_of(bytes));
    for (; bin <= last; bin = next_bin(list, bin + 1)) {
      unsigned examined = 0;
      for (std::uint32_t n = lists_[list].heads[bin];
           n != none && (exhaustive || examined < search_limit);
           n = blocks_[n].bin_next, ++examined) {
        if (!fits(blocks_[n], bytes, alignment)) continue;
        if (lowest == none || blocks_[n].address < blocks_[lowest].address) lowest = n;
      }
    }
    for (; bin < bin_count; bin = next_bin(list, bin + 1)) {
      std::uint32_t const n = lists_[list].heads[bin];
      if (lowest == none || blocks_[n].address < blocks_[lowest].address) lowest = n;
    }
    return lowest;
  }

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
