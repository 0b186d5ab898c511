// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The order in which requests wait: heaps of them, and how many are ahead of one.
#pragma once

#include <warpwright/core/detail/container/array.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

constexpr std::uint32_t no_item = 0xffffffffU;

/// The place of an item in one pairing_heap.
struct heap_links {
  std::uint32_t child = no_item;
  std::uint32_t next = no_item;  // sibling
  std::uint32_t prev = no_item;  // sibling; of the first child its parent
};

/// A heap of items of an array, by their indices, that allocates nothing: the first one is on top,
/// and any can be taken out. Insertion is O(1), removal O(log n) amortised.
/// Source: Fredman, Sedgewick, Sleator and Tarjan, The pairing heap (1986).
/// @tparam Links   the heap_links of an Item
/// @tparam Before  `static bool before(Item const&, Item const&)`: a strict order
template <class Item, heap_links Item::*Links, class Before>
class pairing_heap {
 public:
  [[nodiscard]] bool empty() const noexcept { return root_ == no_item; }
  /// @return the first item; no_item when empty
  [[nodiscard]] std::uint32_t top() const noexcept { return root_; }

  /// @pre not in the heap
  void push(array<Item>& items, std::uint32_t i) noexcept {
    items[i].*Links = heap_links{};
    root_ = root_ == no_item ? i : merge(items, root_, i);
  }

  /// @pre in the heap
  void erase(array<Item>& items, std::uint32_t i) noexcept {
    heap_links const links = items[i].*Links;
    std::uint32_t const below = merge_siblings(items, links.child);
    if (i == root_) {
      root_ = below;
      return;
    }
    heap_links& before = items[links.prev].*Links;
    (before.child == i ? before.child : before.next) = links.next;
    if (links.next != no_item) (items[links.next].*Links).prev = links.prev;
    if (below != no_item) root_ = merge(items, root_, below);
  }

 private:
  // Of two roots. @return the one root
  static std::uint32_t merge(array<Item>& items, std::uint32_t a, std::uint32_t b) noexcept {
    if (Before::before(items[b], items[a])) {
      std::uint32_t const first = b;
      b = a;
      a = first;
    }
    heap_links& above = items[a].*Links;
    heap_links& below = items[b].*Links;
    below.prev = a;
    below.next = above.child;
    if (above.child != no_item) (items[above.child].*Links).prev = b;
    above.child = b;
    above.next = above.prev = no_item;
    return a;
  }

  // In pairs from the left, then these from the right.
  static std::uint32_t merge_siblings(array<Item>& items, std::uint32_t first) noexcept {
    std::uint32_t pairs = no_item;  // a list by next
    while (first != no_item) {
      std::uint32_t const second = (items[first].*Links).next;
      std::uint32_t const rest = second == no_item ? no_item : (items[second].*Links).next;
      std::uint32_t const pair = second == no_item ? first : merge(items, first, second);
      (items[pair].*Links).next = pairs;
      pairs = pair;
      first = rest;
    }
    if (pairs == no_item) return no_item;
    std::uint32_t root = pairs;
    pairs = (items[root].*Links).next;
    while (pairs != no_item) {
      std::uint32_t const rest = (items[pairs].*Links).next;
      root = merge(items, root, pairs);
      pairs = rest;
    }
    (items[root].*Links).next = (items[root].*Links).prev = no_item;
    return root;
  }

  std::uint32_t root_ = no_item;
};

/// How many items have a time up to some other: counts by ticks of a second at most ahead. What is
/// older than now is counted as one.
class rank_counts {
 public:
  static constexpr std::size_t ticks = 1024;

  /// @param horizon  seconds that times are ahead of now, at most
  explicit rank_counts(double horizon = 1.0) noexcept
      : tick_seconds_{horizon / (static_cast<double>(ticks) - 2.0)} {}

  /// @return the tick of a time, for what follows. @pre not below now by more than rounding
  [[nodiscard]] std::int64_t tick(double time) const noexcept {
    return static_cast<std::int64_t>(time / tick_seconds_);
  }
  /// Time has passed.
  void advance(double now) noexcept {
    std::int64_t const to = tick(now);
    if (to - first_ >= static_cast<std::int64_t>(ticks)) {
      overdue_ = total_;
      for (std::uint32_t& count : counts_) count = 0;
      for (std::uint32_t& sum : sums_) sum = 0;
      first_ = to;
    }
    for (; first_ < to; ++first_) {
      std::uint32_t& count = counts_[place(first_)];
      overdue_ += count;
      sums_[place(first_) / group] -= count;
      count = 0;
    }
  }
  /// @pre advance() was called with the time
  /// @return the tick that it is counted at: within the horizon
  std::int64_t insert(std::int64_t tick) noexcept {
    ++total_;
    if (tick < first_) {
      ++overdue_;
      return tick;
    }
    std::int64_t const last = first_ + static_cast<std::int64_t>(ticks) - 1;
    if (tick > last) tick = last;
    ++counts_[place(tick)];
    ++sums_[place(tick) / group];
    return tick;
  }
  /// @param tick  that insert() returned
  void erase(std::int64_t tick) noexcept {
    --total_;
    if (tick < first_) {
      --overdue_;
      return;
    }
    --counts_[place(tick)];
    --sums_[place(tick) / group];
  }
  /// @return how many have this tick or an earlier one
  [[nodiscard]] std::size_t up_to(std::int64_t tick) const noexcept {
    if (tick >= first_ + static_cast<std::int64_t>(ticks) - 1) return total_;
    std::size_t sum = overdue_;
    for (std::int64_t t = first_; t <= tick;) {
      if (place(t) % group == 0 && t + static_cast<std::int64_t>(group) - 1 <= tick) {
        sum += sums_[place(t) / group];
        t += static_cast<std::int64_t>(group);
      } else {
        sum += counts_[place(t++)];
      }
    }
    return sum;
  }
  [[nodiscard]] std::size_t total() const noexcept { return total_; }

 private:
  static constexpr std::size_t group = 32;
  static std::size_t place(std::int64_t tick) noexcept {
    return static_cast<std::size_t>(tick) % ticks;
  }

  double tick_seconds_;
  std::int64_t first_ = 0;  // the tick of now
  std::size_t overdue_ = 0;
  std::size_t total_ = 0;
  std::uint32_t counts_[ticks] = {};
  std::uint32_t sums_[ticks / group] = {};
};

}  // namespace detail

WARPWRIGHT_END
