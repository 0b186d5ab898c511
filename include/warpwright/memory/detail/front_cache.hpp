// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/biased_lock.hpp>
#include <warpwright/memory/detail/owner_lock.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// Blocks that one stream has freed and may have back at once, by exact size: what keeps a pool's
/// books, and their lock, out of most calls. In the books these blocks are live.
///
/// Used under a lock, see locked_cache. Exact sizes, for a block handed out for a
/// smaller request would be reserved memory that nobody uses.
class front_cache {
 public:
  static constexpr unsigned slot_count = 64;
  static constexpr unsigned depth = 14;  // with its key, a slot is two cache lines
  /// Blocks of one size on their way back to the books.
  struct batch {
    std::uint64_t bytes = 0;
    unsigned count = 0;
    void* blocks[depth];
  };
  enum class answer { kept, no_room, double_free };

  std::uint64_t stream_id = 0;
  std::uint64_t budget_bytes = 0;
  std::uint64_t allocations = 0;
  std::uint64_t deallocations = 0;

  void set_budget(std::uint64_t bytes) noexcept { budget_bytes = room_bytes_ = bytes; }

  /// @return a block of just that size; nullptr when there is none
  void* take(std::uint64_t bytes) noexcept {
    slot& s = slots_[slot_of(bytes)];
    return s.bytes == bytes && s.count != 0 ? pop(s) : take_elsewhere(bytes);
  }

  /// Keeps a block; beside the budget, one that is larger.
  /// @return no_room when the budget or the slots do not allow it, as for 0 bytes; make_room() may
  /// help then
  WARPWRIGHT_COLD answer put(void* block, std::uint64_t bytes) noexcept {
    if (bytes == 0) return answer::no_room;
    if (bytes > budget_bytes) return put_large(block, bytes);
    unsigned index = slot_of(bytes);
    if (slots_[index].bytes != bytes &&
        (slots_[index ^ 1U].bytes == bytes || slots_[index].count != 0)) {
      index ^= 1U;
    }
    slot& s = slots_[index];
    if (s.bytes != bytes) {
      if (s.count != 0) return answer::no_room;
      s.bytes = bytes;
      occupied_ |= std::uint64_t{1} << index;
    }
    return push(s, block, bytes);
  }
  /// The same, quickly where the size's own slot has room.
  /// @return whether it is kept
  bool put_quickly(void* block, std::uint64_t bytes) noexcept {
    slot& s = slots_[slot_of(bytes)];
    return (s.bytes == bytes ? push(s, block, bytes) : put(block, bytes)) == answer::kept;
  }

  /// Takes out what stands in the way of blocks of a size: the older half of their own slot, or all
  /// of another size's.
  void make_room(std::uint64_t bytes, batch& out) noexcept {
    if (bytes > budget_bytes) return drain_large(out);
    unsigned index = slot_of(bytes);
    if (slots_[index].bytes != bytes && slots_[index ^ 1U].bytes == bytes) index ^= 1U;
    slot& s = slots_[index];
    std::uint64_t const count = s.bytes == bytes ? s.count / 2 : s.count;
    remove(s, count, out);
  }

  /// Takes out the blocks of some size.
  /// @return false when there are none
  bool drain(batch& out) noexcept {
    out.count = 0;
    while (occupied_ != 0 && out.count == 0) {
      slot& s = slots_[static_cast<unsigned>(__builtin_ctzll(occupied_))];
      occupied_ &= occupied_ - 1;
      remove(s, s.count, out);
      s.bytes = no_size;  // a key needs its bit
    }
    if (out.count == 0) drain_large(out);
    return out.count != 0;
  }

  /// Without the lock: whether there is a block above the budget.
  [[nodiscard]] bool maybe_large() const noexcept {
    return __atomic_load_n(&large_bytes_, __ATOMIC_RELAXED) != 0;
  }
  /// Takes that block out; out.count is 0 when there is none.
  void drain_large(batch& out) noexcept {
    out.count = 0;
    if (large_bytes_ == 0) return;
    out.bytes = large_bytes_;
    out.count = 1;
    out.blocks[0] = large_;
    set_large(nullptr, 0);
  }

  /// Counts a free of a thread's own default stream, whose event only that thread can record.
  /// @return whether it is time to
  bool epoch_is_full(std::uint64_t bytes) noexcept {
    unrecorded_bytes_ += bytes;
    if (++unrecorded_ < 64 && unrecorded_bytes_ < (std::uint64_t{16} << 20U)) return false;
    unrecorded_ = 0;
    unrecorded_bytes_ = 0;
    return true;
  }

  /// Without the lock: false only when nothing was cached just before, or blocks came and went at
  /// that moment.
  [[nodiscard]] bool maybe_cached() const noexcept {
    return __atomic_load_n(&room_bytes_, __ATOMIC_RELAXED) != budget_bytes || maybe_large();
  }
  [[nodiscard]] std::uint64_t cached_bytes() const noexcept {
    return budget_bytes - room_bytes_ + large_bytes_;
  }
  [[nodiscard]] std::uint64_t cached_blocks() const noexcept {
    std::uint64_t blocks = large_bytes_ != 0 ? 1 : 0;
    for (slot const& s : slots_) blocks += s.count;
    return blocks;
  }

 private:
  static constexpr std::uint64_t no_size = 1;  // as a slot's key: no block has it
  struct slot {
    std::uint64_t bytes = no_size;
    std::uint64_t count = 0;
    void* blocks[depth];  // the youngest last
  };

  void set_room(std::uint64_t bytes) noexcept {
    __atomic_store_n(&room_bytes_, bytes, __ATOMIC_RELAXED);
  }
  void* pop(slot& s) noexcept {
    set_room(room_bytes_ + s.bytes);
    ++allocations;
    return s.blocks[--s.count];
  }
  answer push(slot& s, void* block, std::uint64_t bytes) noexcept {
    if (s.count == depth || bytes > room_bytes_) return answer::no_room;
    if (s.count != 0 && s.blocks[s.count - 1] == block) return answer::double_free;
    s.blocks[s.count++] = block;
    set_room(room_bytes_ - bytes);
    ++deallocations;
    return answer::kept;
  }
  // Out of line, for take() is in every caller.
  WARPWRIGHT_COLD void* take_elsewhere(std::uint64_t bytes) noexcept {
    slot& s = slots_[slot_of(bytes) ^ 1U];
    return s.bytes == bytes && s.count != 0 ? pop(s) : take_large(bytes);
  }
  void set_large(void* block, std::uint64_t bytes) noexcept {
    large_ = block;
    __atomic_store_n(&large_bytes_, bytes, __ATOMIC_RELAXED);
  }
  void* take_large(std::uint64_t bytes) noexcept {
    if (bytes != large_bytes_ || bytes == 0) return nullptr;
    set_large(large_, 0);
    ++allocations;
    return large_;
  }
  answer put_large(void* block, std::uint64_t bytes) noexcept {
    if (large_bytes_ != 0) {
      return large_ == block ? answer::double_free : answer::no_room;
    }
    if (budget_bytes == 0) return answer::no_room;
    set_large(block, bytes);
    ++deallocations;
    return answer::kept;
  }
  // Fibonacci hashing of the size in granules of 256 bytes.
  static unsigned slot_of(std::uint64_t bytes) noexcept {
    return static_cast<unsigned>(((bytes >> 8U) * 0x9e3779b97f4a7c15ULL) >> 58U);
  }
  void remove(slot& s, std::uint64_t count, batch& out) noexcept {
    out.bytes = s.bytes;
    out.count = static_cast<unsigned>(count);
    for (std::uint64_t i = 0; i < count; ++i) out.blocks[i] = s.blocks[i];
    s.count -= count;
    for (std::uint64_t i = 0; i < s.count; ++i) s.blocks[i] = s.blocks[i + count];
    set_room(room_bytes_ + count * s.bytes);
  }

  // Written by relaxed stores, for maybe_cached(). With the lock and the public members it fills a
  // cache line; a slot's key shares one with its first blocks.
  std::uint64_t room_bytes_ = 0;  // of the budget
  alignas(64) slot slots_[slot_count];
  std::uint64_t occupied_ = 0;     // slots with a key: only they may have blocks
  std::uint64_t large_bytes_ = 0;  // of the block above the budget, 0: none; relaxed likewise
  void* large_ = nullptr;
  std::uint64_t unrecorded_bytes_ = 0;
  unsigned unrecorded_ = 0;

 public:
  cudaStream_t handle = nullptr;
  unsigned strangers = 0;  // frees by other streams that the owner's blocks kept out
};

template <class Lock>
struct lock_first {
  Lock lock;
};

/// A cache with its lock, in one cache line with what every call uses.
template <class Lock>
struct alignas(64) locked_cache : lock_first<Lock>, front_cache {};

}  // namespace detail

WARPWRIGHT_END
