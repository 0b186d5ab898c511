// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/pinned/pinned_shard.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE pinned_list
pinned_shard::evict_others(std::uint64_t rounded_bytes) noexcept {
  pinned_list evicted;
  for (slot& s : slots_) {
    if (s.bytes == rounded_bytes || s.bytes == 0) continue;
    while (s.first != nullptr) {
      pinned_block& block = *s.first;
      s.first = block.next;
      evicted.push(block, s.bytes);
    }
    s.bytes = 0;
  }
  cached_bytes -= evicted.bytes;
  return evicted;
}

WARPWRIGHT_INLINE pinned_shard::slot* pinned_shard::other_slot_for(std::uint64_t bytes) noexcept {
  unsigned const index = cache_slot_of(bytes);
  slot& second = slots_[index ^ 1U];
  if (second.bytes == bytes) return &second;
  slot& first = slots_[index];
  slot& free = first.first == nullptr ? first : second;
  if (free.first != nullptr) return nullptr;
  free.bytes = bytes;
  return &free;
}

WARPWRIGHT_INLINE std::uint32_t pinned_shard::find_other(std::uint64_t id) noexcept {
  std::uint32_t const index = by_id_.find(id);
  if (index == address_map::none) return none;
  stream_at = index;
  return index;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint32_t pinned_shard::add(std::uint64_t id,
                                                                  cudaStream_t handle, int device) {
  // Streams that are only momentarily idle keep their entries, unless there are many.
  constexpr std::size_t many = 1024;
  std::uint32_t index = 0;
  for (; index < streams.size(); ++index) {
    pinned_stream const& s = streams[index];
    if (!s.used || (streams.size() > many && s.handle != nullptr && s.is_idle())) break;
  }
  by_id_.reserve(by_id_.size() + 1);
  if (index == streams.size()) streams.emplace_back();
  pinned_stream& s = streams[index];
  if (s.used) static_cast<void>(by_id_.erase(s.id));
  s.id = id;
  s.handle = handle;
  s.device = device;
  s.used = true;
  s.failures = 0;
  by_id_.insert(id, index);
  return index;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pinned_shard::retire(std::uint32_t index) noexcept {
  static_cast<void>(by_id_.erase(streams[index].id));
  streams[index].handle = nullptr;
  remove_if_done(index);
}

WARPWRIGHT_INLINE void pinned_shard::remove_if_done(std::uint32_t index) noexcept {
  pinned_stream& s = streams[index];
  if (s.handle == nullptr && s.is_idle()) s.used = false;
}

}  // namespace detail

WARPWRIGHT_END
