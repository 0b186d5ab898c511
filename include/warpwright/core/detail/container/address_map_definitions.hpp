// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/address_map.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE void address_map::reserve(std::size_t count) {
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

WARPWRIGHT_INLINE std::uint32_t address_map::find(std::uint64_t key) const noexcept {
  if (slots_.empty()) return none;
  for (std::size_t i = home_slot(key);; i = next(i)) {
    slot const& s = slots_[i];
    if (s.value == none) return none;
    if (s.key == key) return s.value;
  }
}

WARPWRIGHT_INLINE std::uint32_t address_map::erase(std::uint64_t key) noexcept {
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

WARPWRIGHT_INLINE void address_map::insert_slot(std::uint64_t key, std::uint32_t value) noexcept {
  std::size_t i = home_slot(key);
  while (slots_[i].value != none) i = next(i);
  slots_[i] = slot{key, value};
}

}  // namespace detail

WARPWRIGHT_END
