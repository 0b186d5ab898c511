// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>

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
  void reserve(std::size_t count);

  /// @pre the key is not in the map, and reserve() has reserved capacity
  void insert(std::uint64_t key, std::uint32_t value) noexcept {
    insert_slot(key, value);
    ++size_;
  }

  [[nodiscard]] std::uint32_t find(std::uint64_t key) const noexcept;

  /// @return the erased value; none if the key is not in the map
  std::uint32_t erase(std::uint64_t key) noexcept;

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
  void insert_slot(std::uint64_t key, std::uint32_t value) noexcept;

  array<slot> slots_;
  std::size_t size_ = 0;
  unsigned shift_ = 64;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/container/address_map_definitions.hpp>
#endif
