// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/memory/detail/pinned/pinned_core.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// Page-locked memory for one chunk, and an event behind the copy that uses it.
struct staging_slot {
  char* memory = nullptr;  // null also: a copy may use it that no event is behind
  cudaEvent_t event = nullptr;
  bool in_flight = false;  // a copy uses the memory until the event has completed
  staging_slot* next = nullptr;
};

/// The slots of a staging object, which its copies share. Nobody waits for a slot: a copy behind a
/// stream that does not go on may hold any number of them.
class staging_slots : noncopyable {
 public:
  staging_slots() noexcept = default;

  /// @throws out_of_memory, cuda_error  destroy() then frees what was created
  void create(pinned_core& pool, std::size_t count, std::size_t bytes, source_location where);
  /// Waits for the copies, and frees the slots; one whose copy cannot be waited for stays live in
  /// the pool. @pre nobody has a slot
  void destroy(pinned_core& pool) noexcept;

  /// Takes a slot that no copy uses: if it can, one that was used not long ago, whose memory the
  /// processor's cache has.
  /// @return null if there is none
  staging_slot* take() noexcept;
  /// Gives a slot back, also while a copy uses it.
  void give_back(staging_slot& slot) noexcept;

 private:
  struct list {
    staging_slot* first = nullptr;
    staging_slot* last = nullptr;
    std::size_t size = 0;

    void push_back(staging_slot& slot) noexcept {
      slot.next = nullptr;
      (first == nullptr ? first : last->next) = &slot;
      last = &slot;
      ++size;
    }
    void push_front(staging_slot& slot) noexcept {
      if (first == nullptr) last = &slot;
      slot.next = first;
      first = &slot;
      ++size;
    }
    staging_slot* pop() noexcept {
      staging_slot* const slot = first;
      if (slot == nullptr) return nullptr;
      first = slot->next;
      --size;
      return slot;
    }
  };

  staging_slot* take_arrived() noexcept;

  array<staging_slot> all_;
  std::size_t bytes_ = 0;
  mutex mutex_;
  // Guarded by mutex_:
  list free_;       // the one given back last is the first
  list in_flight_;  // the oldest first
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/staging/staging_slots_definitions.hpp>
#endif
