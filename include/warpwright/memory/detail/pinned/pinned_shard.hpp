// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/address_map.hpp>
#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/memory/detail/pinned/block_table.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// Free blocks, linked through their entries.
struct pinned_list {
  pinned_block* first = nullptr;
  pinned_block* last = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t each = 0;  // the size of each block; 0: they differ

  [[nodiscard]] bool empty() const noexcept { return blocks == 0; }
  void push(pinned_block& block, std::uint64_t rounded_bytes) noexcept {
    block.next = first;
    each = first == nullptr || each == rounded_bytes ? rounded_bytes : 0;
    if (first == nullptr) last = &block;
    first = &block;
    bytes += rounded_bytes;
    ++blocks;
  }
  void append(pinned_list const& other) noexcept {
    if (other.empty()) return;
    if (empty()) {
      *this = other;
      return;
    }
    last->next = other.first;
    last = other.last;
    bytes += other.bytes;
    blocks += other.blocks;
    if (each != other.each) each = 0;
  }
  pinned_list take_all() noexcept {
    pinned_list const all = *this;
    *this = pinned_list{};
    return all;
  }
};

/// The blocks that threads of one shard have freed on one stream, and that may be in use.
///
/// Frees go into the open batch. An event that is recorded on the stream closes it; when the event
/// has completed, its blocks are free for all. While a thread records the event, without the
/// shard's lock, the batch is `closing`.
struct pinned_stream {
  struct closed_batch {
    pinned_list blocks;
    std::uint64_t number = 0;  // unique in the shard
    cudaEvent_t event = nullptr;
  };

  std::uint64_t id = 0;
  cudaStream_t handle = nullptr;  // null: retired
  int device = 0;
  bool used = false;
  unsigned failures = 0;  // to record an event behind the open batch, since the last success
  pinned_list open;
  pinned_list closing;
  std::uint64_t closing_number = 0;
  array<closed_batch> closed;  // oldest first

  [[nodiscard]] bool is_idle() const noexcept {
    return open.empty() && closing.empty() && closed.empty();
  }
};

/// The part of a pinned_pool that some threads use: free blocks by exact size, the batches of
/// streams, and counters.
///
/// Why not the memory pool's front_cache: there a freed block is back at once, and 14 of a size
/// suffice; here whole batches come back, so the lists have no limit but bytes.
/// **Threads:** everything under `lock`, which is held before the heap's.
class pinned_shard {
 public:
  static constexpr std::uint32_t none = ~0U;
  static constexpr unsigned slot_count = 64;

  spin_lock lock;
  bool used = false;
  std::uint32_t stream_at = none;  // of the last free
  std::uint64_t cached_bytes = 0;
  std::uint64_t allocations = 0;
  std::uint64_t deallocations = 0;
  std::uint64_t hits = 0;
  std::uint64_t allocated_bytes = 0;  // in all
  std::uint64_t freed_bytes = 0;
  atomic<block_table::region const*> recent;  // read and written without the lock

  /// @return a free block of exactly this size and alignment; null if there is none
  pinned_block* take(std::uint64_t rounded_bytes, std::uint64_t alignment) noexcept {
    unsigned index = cache_slot_of(rounded_bytes);
    if (slots_[index].bytes != rounded_bytes) index ^= 1U;
    slot& s = slots_[index];
    if (s.bytes != rounded_bytes || s.first == nullptr) return nullptr;
    pinned_block* const block = s.first;
    if ((block->address & (alignment - 1)) != 0) return nullptr;
    s.first = block->next;
    __builtin_prefetch(s.first, 1);
    cached_bytes -= rounded_bytes;
    return block;
  }
  void count_allocation(std::uint64_t rounded_bytes) noexcept {
    ++allocations;
    allocated_bytes += rounded_bytes;
  }
  void count_free(std::uint64_t rounded_bytes) noexcept {
    ++deallocations;
    freed_bytes += rounded_bytes;
  }
  /// Stores a block for take().
  /// @return false when the slots or the budget are full; evict_others() may help
  bool put(pinned_block& block, std::uint64_t rounded_bytes, std::uint64_t budget) noexcept {
    if (cached_bytes + rounded_bytes > budget) return false;
    slot* const s = slot_for(rounded_bytes);
    if (s == nullptr) return false;
    block.next = s->first;
    s->first = &block;
    cached_bytes += rounded_bytes;
    return true;
  }
  /// Stores all blocks of a list of one size, or none.
  bool put(pinned_list const& list, std::uint64_t budget) noexcept {
    if (list.each == 0 || cached_bytes + list.bytes > budget) return false;
    slot* const s = slot_for(list.each);
    if (s == nullptr) return false;
    list.last->next = s->first;
    s->first = list.first;
    cached_bytes += list.bytes;
    return true;
  }
  /// Removes all stored blocks of other sizes.
  pinned_list evict_others(std::uint64_t rounded_bytes) noexcept;
  /// Removes all stored blocks.
  pinned_list evict_all() noexcept { return evict_others(0); }

  // Streams.

  array<pinned_stream> streams;
  std::uint64_t next_number = 0;  // of a batch
  std::uint32_t hand = 0;         // the stream to query next
  unsigned skipped_polls = 0;     // misses until the next query

  /// @return the stream's index in `streams`; none if it is not registered
  [[nodiscard]] std::uint32_t find(std::uint64_t id) noexcept {
    if (stream_at < streams.size() && streams[stream_at].id == id &&
        streams[stream_at].handle != nullptr) {
      return stream_at;
    }
    return find_other(id);
  }
  /// Registers a stream; reuses an entry without blocks if it was retired, or if there are many.
  /// @throws std::bad_alloc  without any effect
  std::uint32_t add(std::uint64_t id, cudaStream_t handle, int device);
  /// A retired stream whose batches are complete leaves its entry.
  void retire(std::uint32_t index) noexcept;
  void remove_if_done(std::uint32_t index) noexcept;

 private:
  struct slot {
    std::uint64_t bytes = 0;  // 0: unused
    pinned_block* first = nullptr;
  };

  /// The slot that holds blocks of this size, or may: null when both hold other sizes.
  slot* slot_for(std::uint64_t bytes) noexcept {
    slot* const s = &slots_[cache_slot_of(bytes)];
    return s->bytes == bytes ? s : other_slot_for(bytes);
  }
  slot* other_slot_for(std::uint64_t bytes) noexcept;
  std::uint32_t find_other(std::uint64_t id) noexcept;

  slot slots_[slot_count];
  address_map by_id_;

 public:
  char padding[128] = {};  // processors fetch cache lines in pairs
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/pinned/pinned_shard_definitions.hpp>
#endif
