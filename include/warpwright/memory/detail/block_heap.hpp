// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The heap of a pool: pure arithmetic on addresses, without CUDA and without a lock.
#pragma once

#include <warpwright/memory/detail/address_map.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// Segments of memory, divided into blocks. Every block is live, or free in exactly one list.
///
/// Three lists have a fixed meaning: blocks that all streams may use (ready), addresses without
/// memory (unmapped), and blocks that a slow operation has reserved. The pool adds further lists,
/// one a stream. Adjacent free blocks of the same list are coalesced at once. A list finds a block
/// through a two-level bitmap over size classes (16 a power of two, as in TLSF: Masmano et al.,
/// ECRTS 2004), so that the time does not grow with the number of free blocks, and keeps its blocks
/// in the order in which they were freed.
class block_heap {
 public:
  static constexpr std::uint32_t none = 0xffffffffU;
  static constexpr std::uint32_t ready = 0;
  static constexpr std::uint32_t unmapped = 1;
  static constexpr std::uint32_t reserved_list = 2;
  static constexpr std::uint32_t first_stream_list = 3;
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
  struct segment {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;     // 0: unused entry
    std::uint32_t first = none;  // its block with the lowest address
  };

  /// Creates a heap without segments.
  /// @param coalesces_ready  whether a block freed with an epoch may coalesce with ready
  ///   neighbours, see coalesces_with()
  explicit block_heap(bool coalesces_ready = false) : coalesces_ready_{coalesces_ready} {
    while (lists_.size() < first_stream_list) lists_.emplace_back();
  }

  static constexpr bool round_up(std::uint64_t bytes, std::uint64_t unit,
                                 std::uint64_t& rounded) noexcept {
    rounded = (bytes + (unit - 1)) & ~(unit - 1);
    return rounded >= bytes;
  }

  /// @return the number of a new, empty list
  std::uint32_t add_list() {
    lists_.emplace_back();
    return static_cast<std::uint32_t>(lists_.size() - 1);
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
    for (; lists_[from].oldest != none && blocks_[lists_[from].oldest].epoch <= epoch; --portion) {
      if (portion == 0) return false;
      std::uint32_t const node = lists_[from].oldest;
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

  /// The size of the largest mapped free block of all lists. **Cost:** largest_in() of each list.
  [[nodiscard]] std::uint64_t largest_hole_bytes() const noexcept {
    std::uint64_t largest = 0;
    for (std::uint32_t list = 0; list < lists_.size(); ++list) {
      std::uint32_t const node = list == unmapped ? none : largest_in(list);
      if (node != none && blocks_[node].bytes > largest) largest = blocks_[node].bytes;
    }
    return largest;
  }

  [[nodiscard]] block const& at(std::uint32_t node) const noexcept { return blocks_[node]; }
  [[nodiscard]] array<segment> const& segments() const noexcept { return segments_; }
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
  /// The bytes of all blocks of the list.
  [[nodiscard]] std::uint64_t bytes_in(std::uint32_t list) const noexcept {
    return lists_[list].bytes;
  }
  [[nodiscard]] std::uint64_t live_bytes() const noexcept { return live_bytes_; }
  [[nodiscard]] std::size_t live_blocks() const noexcept { return live_.size(); }
  /// One above the highest block number so far: the length of a side table.
  [[nodiscard]] std::size_t node_count_bound() const noexcept { return blocks_.size(); }

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
    link_age(node, lists_[list].newest);
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
  array<block> blocks_;
  array<segment> segments_;
  array<free_list> lists_;
  address_map live_;
  std::uint64_t live_bytes_ = 0;
  std::uint32_t spare_nodes_ = none;
  std::size_t spare_node_count_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
