// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// A hash map from 64-bit keys to 32-bit numbers: open addressing with linear probing, at most half
/// full. Erasing moves later entries back (Knuth, TAOCP vol. 3, 6.4, algorithm R), so that no
/// tombstones accumulate in a pool that runs for weeks.
class address_map {
 public:
  static constexpr std::uint32_t none = 0xffffffffU;

  /// Reserves capacity for `count` entries in all, so that insert() cannot fail until then.
  void reserve(std::size_t count) {
    if (count * 2 <= slots_.size()) return;
    std::size_t capacity = slots_.empty() ? 64 : slots_.size() * 2;
    while (capacity < count * 2) capacity *= 2;
    array<slot> old(capacity);
    old.swap(slots_);
    shift_ = 64U - bits(capacity);
    for (slot const& s : old) {
      if (s.value != none) insert_slot(s.key, s.value);
    }
  }

  /// @pre the key is not in the map, and reserve() has reserved capacity
  void insert(std::uint64_t key, std::uint32_t value) noexcept {
    insert_slot(key, value);
    ++size_;
  }

  [[nodiscard]] std::uint32_t find(std::uint64_t key) const noexcept {
    if (slots_.empty()) return none;
    for (std::size_t i = home_slot(key);; i = next(i)) {
      slot const& s = slots_[i];
      if (s.value == none) return none;
      if (s.key == key) return s.value;
    }
  }

  /// @return the erased value; none if the key is not in the map
  std::uint32_t erase(std::uint64_t key) noexcept {
    if (slots_.empty()) return none;
    std::size_t hole = home_slot(key);
    while (slots_[hole].value != none && slots_[hole].key != key) hole = next(hole);
    std::uint32_t const value = slots_[hole].value;
    if (value == none) return none;
    for (std::size_t i = next(hole); slots_[i].value != none; i = next(i)) {
      // An entry may fill the hole unless its home slot lies cyclically after the hole.
      std::size_t const distance_home = (i - home_slot(slots_[i].key)) & (slots_.size() - 1);
      std::size_t const distance_hole = (i - hole) & (slots_.size() - 1);
      if (distance_home >= distance_hole) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole].value = none;
    --size_;
    return value;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct slot {
    std::uint64_t key = 0;
    std::uint32_t value = none;
  };
  static constexpr unsigned bits(std::size_t power_of_two) noexcept {
    unsigned n = 0;
    while ((std::size_t{1} << n) < power_of_two) ++n;
    return n;
  }
  // Fibonacci hashing: multiples of the golden ratio distribute addresses that differ in high bits
  // only.
  [[nodiscard]] std::size_t home_slot(std::uint64_t key) const noexcept {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ULL) >> shift_);
  }
  [[nodiscard]] std::size_t next(std::size_t i) const noexcept {
    return (i + 1) & (slots_.size() - 1);
  }
  void insert_slot(std::uint64_t key, std::uint32_t value) noexcept {
    std::size_t i = home_slot(key);
    while (slots_[i].value != none) i = next(i);
    slots_[i] = slot{key, value};
  }

  array<slot> slots_;
  std::size_t size_ = 0;
  unsigned shift_ = 64;
};

}  // namespace detail

WARPWRIGHT_END
