// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/memory/detail/caches/owner_lock.hpp>
#include <warpwright/memory/detail/heap/block_heap.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// Freed blocks of one stream by exact size, which the same stream can allocate again at once.
/// Keeps most calls away from the pool's heap and its lock. In the heap these blocks are live.
///
/// Not thread-safe: used under a lock, see locked_cache. Exact sizes only, because the unused rest
/// of a larger block would be wasted memory.
class front_cache {
 public:
  static constexpr unsigned slot_count = 64;
  static constexpr unsigned depth = 14;  // with its key, a slot fills two cache lines
  /// Blocks of one size to be freed into the heap.
  struct batch {
    std::uint64_t bytes = 0;
    unsigned count = 0;
    void* blocks[depth];
  };
  enum class put_result { stored, full, double_free };

  std::uint64_t stream_id = 0;
  std::uint64_t budget_bytes = 0;
  std::uint64_t allocations = 0;
  std::uint64_t deallocations = 0;

  void set_budget(std::uint64_t bytes) noexcept {
    budget_bytes = bytes;
    set_remaining(bytes);
  }

  /// @return a block of exactly this size; nullptr when there is none
  void* take(std::uint64_t bytes) noexcept {
    slot& s = slots_[cache_slot_of(bytes)];
    return s.bytes == bytes && s.count != 0 ? pop(s) : take_alternate(bytes);
  }

  /// Stores a block; one block larger than the budget is stored in addition to it.
  /// @return full when the budget or the slots do not allow it, and for 0 bytes; evict_for() may
  ///   help
  WARPWRIGHT_COLD put_result put(void* block, std::uint64_t bytes) noexcept {
    if (bytes == 0) return put_result::full;
    if (bytes > budget_bytes) return put_large(block, bytes);
    unsigned index = cache_slot_of(bytes);
    if (slots_[index].bytes != bytes &&
        (slots_[index ^ 1U].bytes == bytes || slots_[index].count != 0)) {
      index ^= 1U;
    }
    slot& s = slots_[index];
    if (s.bytes != bytes) {
      if (s.count != 0) return put_result::full;
      s.bytes = bytes;
      occupied_ |= std::uint64_t{1} << index;
    }
    return push(s, block, bytes);
  }
  /// As put(), fast when the size's own slot has room.
  /// @return whether the block is stored
  bool put_fast(void* block, std::uint64_t bytes) noexcept {
    slot& s = slots_[cache_slot_of(bytes)];
    return (s.bytes == bytes ? push(s, block, bytes) : put(block, bytes)) == put_result::stored;
  }

  /// Evicts blocks so that a block of this size can be stored: the older half of its own slot, or
  /// all blocks of another size.
  void evict_for(std::uint64_t bytes, batch& out) noexcept {
    if (bytes > budget_bytes) return drain_large(out);
    unsigned index = cache_slot_of(bytes);
    if (slots_[index].bytes != bytes && slots_[index ^ 1U].bytes == bytes) index ^= 1U;
    slot& s = slots_[index];
    std::uint64_t const count = s.bytes == bytes ? s.count / 2 : s.count;
    remove(s, count, out);
  }

  /// Evicts all blocks of one size.
  /// @return false when the cache is empty
  bool drain(batch& out) noexcept {
    out.count = 0;
    while (occupied_ != 0 && out.count == 0) {
      slot& s = slots_[static_cast<unsigned>(__builtin_ctzll(occupied_))];
      occupied_ &= occupied_ - 1;
      remove(s, s.count, out);
      s.bytes = empty_key;  // a key needs its bit
    }
    if (out.count == 0) drain_large(out);
    return out.count != 0;
  }

  /// Whether there is a block above the budget. May be called without the lock.
  [[nodiscard]] bool maybe_large() const noexcept {
    return large_bytes_.load(memory_order::relaxed) != 0;
  }
  /// Evicts that block; out.count is 0 when there is none.
  void drain_large(batch& out) noexcept {
    out.count = 0;
    if (!maybe_large()) return;
    out.bytes = large_bytes();
    out.count = 1;
    out.blocks[0] = large_;
    set_large(nullptr, 0);
  }

  /// Counts a free on the per-thread default stream, whose event only that thread can record.
  /// @return whether an event is due
  bool epoch_is_full(std::uint64_t bytes) noexcept {
    unrecorded_bytes_ += bytes;
    if (++unrecorded_ < 64 && unrecorded_bytes_ < (std::uint64_t{16} << 20U)) return false;
    unrecorded_ = 0;
    unrecorded_bytes_ = 0;
    return true;
  }

  /// Whether blocks may be cached. May be called without the lock; false only if the cache was
  /// empty a moment ago or changes at the same time.
  [[nodiscard]] bool maybe_cached() const noexcept {
    return remaining_bytes_.load(memory_order::relaxed) != budget_bytes || maybe_large();
  }
  [[nodiscard]] std::uint64_t cached_bytes() const noexcept {
    return budget_bytes - remaining_bytes() + large_bytes();
  }
  [[nodiscard]] std::uint64_t cached_blocks() const noexcept {
    std::uint64_t blocks = maybe_large() ? 1 : 0;
    for (slot const& s : slots_) blocks += s.count;
    return blocks;
  }

 private:
  static constexpr std::uint64_t empty_key = 1;  // key of an empty slot: no block has this size
  struct slot {
    std::uint64_t bytes = empty_key;
    std::uint64_t count = 0;
    void* blocks[depth];  // the most recently freed last
  };

  [[nodiscard]] std::uint64_t remaining_bytes() const noexcept {
    return remaining_bytes_.load(memory_order::relaxed);
  }
  [[nodiscard]] std::uint64_t large_bytes() const noexcept {
    return large_bytes_.load(memory_order::relaxed);
  }
  void set_remaining(std::uint64_t bytes) noexcept {
    remaining_bytes_.store(bytes, memory_order::relaxed);
  }
  void* pop(slot& s) noexcept {
    set_remaining(remaining_bytes() + s.bytes);
    ++allocations;
    return s.blocks[--s.count];
  }
  put_result push(slot& s, void* block, std::uint64_t bytes) noexcept {
    if (s.count == depth || bytes > remaining_bytes()) return put_result::full;
    if (s.count != 0 && s.blocks[s.count - 1] == block) return put_result::double_free;
    s.blocks[s.count++] = block;
    set_remaining(remaining_bytes() - bytes);
    ++deallocations;
    return put_result::stored;
  }
  // Out of line, since take() is inlined into every caller.
  WARPWRIGHT_COLD void* take_alternate(std::uint64_t bytes) noexcept {
    slot& s = slots_[cache_slot_of(bytes) ^ 1U];
    return s.bytes == bytes && s.count != 0 ? pop(s) : take_large(bytes);
  }
  void set_large(void* block, std::uint64_t bytes) noexcept {
    large_ = block;
    large_bytes_.store(bytes, memory_order::relaxed);
  }
  void* take_large(std::uint64_t bytes) noexcept {
    if (bytes != large_bytes() || bytes == 0) return nullptr;
    set_large(large_, 0);
    ++allocations;
    return large_;
  }
  put_result put_large(void* block, std::uint64_t bytes) noexcept {
    if (maybe_large()) {
      return large_ == block ? put_result::double_free : put_result::full;
    }
    if (budget_bytes == 0) return put_result::full;
    set_large(block, bytes);
    ++deallocations;
    return put_result::stored;
  }
  void remove(slot& s, std::uint64_t count, batch& out) noexcept {
    out.bytes = s.bytes;
    out.count = static_cast<unsigned>(count);
    for (std::uint64_t i = 0; i < count; ++i) out.blocks[i] = s.blocks[i];
    s.count -= count;
    for (std::uint64_t i = 0; i < s.count; ++i) s.blocks[i] = s.blocks[i + count];
    set_remaining(remaining_bytes() + count * s.bytes);
  }

  // Read without the lock by maybe_cached(). With the lock and the public members it fills a cache
  // line; a slot's key shares a line with its first blocks.
  atomic<std::uint64_t> remaining_bytes_;  // unused part of the budget
  alignas(64) slot slots_[slot_count];
  std::uint64_t occupied_ = 0;         // bitmap of slots with a key: only these hold blocks
  atomic<std::uint64_t> large_bytes_;  // size of the block above the budget; 0: none
  void* large_ = nullptr;
  std::uint64_t unrecorded_bytes_ = 0;
  unsigned unrecorded_ = 0;

 public:
  cudaStream_t handle = nullptr;
  unsigned foreign_frees = 0;  // frees of other streams that found the shard occupied
};

template <class Lock>
struct lock_base {
  Lock lock;
};

/// A cache and its lock, which shares a cache line with the members that every call uses.
template <class Lock>
struct alignas(64) locked_cache : lock_base<Lock>, front_cache {};

}  // namespace detail

WARPWRIGHT_END
