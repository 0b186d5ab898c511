// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/heap/free_lists.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_INLINE std::uint32_t free_lists::add_list() {
  lists_.emplace_back();
  return static_cast<std::uint32_t>(lists_.size() - 1);
}

WARPWRIGHT_INLINE std::uint32_t free_lists::find_free_containing(
    std::uint32_t list, std::uint64_t address) const noexcept {
  std::uint32_t n = lists_[list].oldest;
  while (n != none && address - blocks_[n].address >= blocks_[n].bytes) n = blocks_[n].age_next;
  return n;
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t free_lists::find_fit(
    std::uint32_t list, std::uint64_t bytes, std::uint64_t alignment,
    bool exhaustive) const noexcept {
  if (lists_[list].bytes < bytes) return none;
  return bytes < large_bytes ? find_best_fit(list, bytes, alignment, exhaustive)
                             : find_lowest_fit(list, bytes, alignment, exhaustive);
}

WARPWRIGHT_INLINE std::uint32_t free_lists::find_best_fit(std::uint32_t list, std::uint64_t bytes,
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

WARPWRIGHT_INLINE std::uint32_t free_lists::better_fit(std::uint32_t a, std::uint32_t b,
                                                       std::uint64_t bytes) const noexcept {
  if (a == none || b == none) return a == none ? b : a;
  bool const second = bytes < large_bytes ? blocks_[b].bytes < blocks_[a].bytes
                                          : blocks_[b].address < blocks_[a].address;
  return second ? b : a;
}

WARPWRIGHT_INLINE std::uint32_t free_lists::largest_in(std::uint32_t number) const noexcept {
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

WARPWRIGHT_INLINE void free_lists::reserve_blocks(std::size_t count) {
  if (spare_node_count_ + (blocks_.capacity() - blocks_.size()) < count) {
    blocks_.reserve(blocks_.capacity() + 64);  // doubles
  }
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t free_lists::new_block() noexcept {
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

WARPWRIGHT_INLINE void free_lists::delete_block(std::uint32_t node) noexcept {
  blocks_[node].bin_next = spare_nodes_;
  spare_nodes_ = node;
  ++spare_node_count_;
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void free_lists::link_bin(std::uint32_t node) noexcept {
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

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void free_lists::unlink_bin(std::uint32_t node) noexcept {
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

WARPWRIGHT_INLINE void free_lists::link_age(std::uint32_t node, std::uint32_t after) noexcept {
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

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void free_lists::unlink_age(std::uint32_t node) noexcept {
  block const& n = blocks_[node];
  free_list& l = lists_[n.list];
  (n.age_previous != none ? blocks_[n.age_previous].age_next : l.oldest) = n.age_next;
  (n.age_next != none ? blocks_[n.age_next].age_previous : l.newest) = n.age_previous;
}

WARPWRIGHT_INLINE unsigned free_lists::bin_of(std::uint64_t bytes) noexcept {
  std::uint64_t const granules = bytes / granule_bytes;
  if (granules < 16) return static_cast<unsigned>(granules);
  auto const level = 59U - static_cast<unsigned>(__builtin_clzll(granules));
  auto const bin = 16 + level * 16 + static_cast<unsigned>((granules >> level) & 15U);
  return bin < bin_count ? bin : bin_count - 1;
}

WARPWRIGHT_INLINE unsigned free_lists::next_bin(std::uint32_t list, unsigned bin) const noexcept {
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

WARPWRIGHT_INLINE std::uint32_t free_lists::find_lowest_fit(std::uint32_t list, std::uint64_t bytes,
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

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
