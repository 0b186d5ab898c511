// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/live_block_map.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE void live_block_map::reserve_entry() {
  std::size_t const count = blocks_.size() + reservations_ + 1;
  blocks_.reserve(count);
  numbers_.reserve(count);
  ++reservations_;
}

WARPWRIGHT_INLINE void live_block_map::insert(live_block const& block) noexcept {
  --reservations_;
  bytes_ += block.bytes;
  std::uint32_t const number = numbers_.find(key(block.pointer));
  if (number != address_map::none) {
    // The old block was freed without the adaptor, since its address could not be allocated again
    // otherwise.
    bytes_ -= blocks_[number].bytes;
    blocks_[number] = block;
    return;
  }
  numbers_.insert(key(block.pointer), static_cast<std::uint32_t>(blocks_.size()));
  blocks_.push_back(block);
}

WARPWRIGHT_INLINE bool live_block_map::remove(void const* pointer, live_block& block) noexcept {
  std::uint32_t const number = numbers_.erase(key(pointer));
  if (number == address_map::none) return false;
  block = blocks_[number];
  bytes_ -= block.bytes;
  ++reservations_;
  live_block const last = blocks_.back();
  blocks_.pop_back();
  if (last.pointer != pointer) {  // the last entry moves into the gap
    numbers_.erase(key(last.pointer));
    numbers_.insert(key(last.pointer), number);
    blocks_[number] = last;
  }
  return true;
}

WARPWRIGHT_INLINE live_block_map::removal::~removal() {
  if (!found_) return;
  unique_lock<mutex> const lock{map_.mutex_};
  if (committed_) {
    --map_.reservations_;
  } else {
    map_.insert(block_);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void live_block_map::removal::check(char const* who,
                                                                      std::size_t bytes,
                                                                      source_location where) const {
  if (!found_) {
    throw_invalid_argument(text{who} + ": cannot free " + block_.pointer + " (" + bytes +
                               " bytes): it is not a live block of this adaptor: freed already, or "
                               "not allocated here; free it once, where it was allocated",
                           where);
  }
  if (block_.bytes != bytes) {
    throw_invalid_argument(text{who} + ": wrong size: " + block_.pointer + " is freed with " +
                               bytes + " bytes, but " + block_.bytes + " bytes were allocated at " +
                               text{block_.where.file(), block_.where.line()} +
                               "; pass the same size",
                           where);
  }
}

}  // namespace detail

WARPWRIGHT_END
