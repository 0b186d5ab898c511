// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/memory/detail/heap/block_heap.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// What a pinned_pool knows of the block that starts at a granule.
struct pinned_block {
  // Twice the requested bytes, plus 1 while the block belongs to a caller. 0: no block was here.
  atomic<std::uint64_t> state;
  pinned_block* next = nullptr;  // in a list of free blocks
  std::uint64_t address = 0;
  std::uint32_t node = 0;  // in the heap

  [[nodiscard]] std::uint64_t requested_bytes() const noexcept {
    return state.load(memory_order::relaxed) >> 1U;
  }
  [[nodiscard]] std::uint64_t rounded_bytes() const noexcept {
    return rounded_up(requested_bytes());
  }
  void give_to_caller(std::uint64_t bytes) noexcept {
    state.store(2 * bytes + 1, memory_order::release);
  }
  /// Of several threads that free a block at once one succeeds.
  [[nodiscard]] bool take_from_caller(std::uint64_t bytes) noexcept {
    std::uint64_t expected = 2 * bytes + 1;
    return state.compare_exchange(expected, 2 * bytes, memory_order::acq_rel,
                                  memory_order::relaxed);
  }
};

/// Finds a pinned_block by its address, without a lock.
///
/// A segment has an entry for each granule, of which only those pages exist that hold a block's.
/// So the free lists need no memory of their own, and never fail. The entries of a removed segment
/// stay mapped, empty, for a later one: a reader may still be there.
/// **Threads:** find() and contains() at any time; the others one at a time.
class block_table : noncopyable {
 public:
  block_table() noexcept = default;
  ~block_table();

  /// A segment, and the entries of its granules.
  struct region {
    atomic<std::uint64_t> address;
    atomic<std::uint64_t> bytes;  // 0: no segment
    // These do not change once they are set, and a segment has at most so many granules:
    pinned_block* blocks = nullptr;
    std::uint64_t capacity = 0;

    [[nodiscard]] bool contains(std::uint64_t at) const noexcept {
      std::uint64_t const size = bytes.load(memory_order::acquire);
      if (at - address.load(memory_order::acquire) >= size) return false;
      // Another segment may have replaced the one whose size was read.
      return bytes.load(memory_order::relaxed) == size;
    }
  };

  /// @param recent  the region that a caller with the same variable found last, looked at first
  /// @return the entry of the granule; null for an address that is outside of all segments, or not
  ///   a multiple of a granule
  [[nodiscard]] pinned_block* find(std::uint64_t address,
                                   atomic<region const*>& recent) const noexcept {
    region const* r = recent.load(memory_order::relaxed);
    if (r == nullptr || !r->contains(address)) {
      r = region_of(address);
      if (r == nullptr) return nullptr;
      recent.store(r, memory_order::relaxed);
    }
    return entry(*r, address);
  }
  [[nodiscard]] pinned_block* find(std::uint64_t address) const noexcept {
    region const* const r = region_of(address);
    return r == nullptr ? nullptr : entry(*r, address);
  }
  [[nodiscard]] bool contains(std::uint64_t address) const noexcept {
    return region_of(address) != nullptr;
  }

  /// @throws std::bad_alloc  without any effect
  void add(std::uint64_t address, std::uint64_t bytes);
  /// @pre no block of the segment belongs to a caller
  void remove(std::uint64_t address) noexcept;

 private:
  static constexpr std::uint64_t granule = block_heap::granule_bytes;

  struct regions {
    region each[8];
    atomic<regions*> next;
  };

  // Blocks are often a power of two apart: without the permutation within a page their entries
  // would share few lines of the processor's first cache.
  static std::uint64_t index_of(std::uint64_t number) noexcept {
    return number ^ ((((number >> 7U) * 0x9e3779b97f4a7c15ULL) >> 57U));
  }
  static pinned_block* entry(region const& r, std::uint64_t address) noexcept {
    std::uint64_t const offset = address - r.address.load(memory_order::relaxed);
    // The second part is true of a segment that another one has replaced meanwhile.
    if (offset % granule != 0 || offset / granule >= r.capacity) return nullptr;
    return &r.blocks[index_of(offset / granule)];
  }
  [[nodiscard]] region const* region_of(std::uint64_t address) const noexcept;
  region& region_for(std::uint64_t granules);

  regions first_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/pinned/block_table_definitions.hpp>
#endif
