// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/memory/detail/locks.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <new>

WARPWRIGHT_BEGIN

namespace detail {

enum class trace_kind : std::uint32_t { allocation, deallocation, cancelled };

/// One call of a memory resource.
struct trace_event {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t stream_id = 0;
  std::uint64_t time_us = 0;   // since 1970
  char const* file = nullptr;  // a string literal of the caller's
  int line = 0;
  trace_kind kind = trace_kind::cancelled;
};

/// The last calls of a memory resource, in the order of their tickets; the oldest make room.
///
/// A writer takes a ticket and locks only the ticket's own slot, so writers meet each other only
/// when the ring has gone round while one of them was held up, and never wait for a reader longer
/// than it takes to copy one slot.
class trace_ring {
 public:
  /// @param capacity  calls to keep, rounded up to a power of two @throws std::bad_alloc
  explicit trace_ring(std::size_t capacity) {
    std::size_t room = 16;
    while (room < capacity) {
      if (room > ~std::size_t{0} / (2 * sizeof(slot))) throw std::bad_alloc{};
      room *= 2;
    }
    // Zero-filled by the system, page by page when first used; plus what aligning may take.
    memory_ = std::calloc(room + 1, sizeof(slot));
    if (memory_ == nullptr) throw std::bad_alloc{};
    auto const address = reinterpret_cast<std::uintptr_t>(memory_);
    slots_ = reinterpret_cast<slot*>((address + sizeof(slot) - 1) / sizeof(slot) * sizeof(slot));
    mask_ = room - 1;
  }
  trace_ring(trace_ring const&) = delete;
  trace_ring& operator=(trace_ring const&) = delete;
  ~trace_ring() { std::free(memory_); }

  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }
  /// Calls recorded since construction or clear().
  [[nodiscard]] std::uint64_t recorded() const noexcept {
    return __atomic_load_n(&next_, __ATOMIC_RELAXED) - __atomic_load_n(&first_, __ATOMIC_RELAXED);
  }
  /// Those of them that had to make room.
  [[nodiscard]] std::uint64_t lost() const noexcept {
    std::uint64_t const all = recorded();
    return all > capacity() ? all - capacity() : 0;
  }
  void clear() noexcept {
    __atomic_store_n(&first_, __atomic_load_n(&next_, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  }

  /// @return the ticket, for cancel()
  std::uint64_t record(trace_kind kind, void const* pointer, std::uint64_t bytes,
                       std::uint64_t stream_id, source_location where) noexcept {
    timespec now{};
    static_cast<void>(clock_gettime(CLOCK_REALTIME, &now));
    std::uint64_t const ticket = __atomic_fetch_add(&next_, 1, __ATOMIC_RELAXED);
    slot& s = slots_[ticket & mask_];
    std::uint64_t const mine = state_of(ticket);
    if (!take(s, mine)) return ticket;
    s.event.address = reinterpret_cast<std::uintptr_t>(pointer);
    s.event.bytes = bytes;
    s.event.stream_id = stream_id;
    s.event.time_us = static_cast<std::uint64_t>(now.tv_sec) * 1000000U +
                      static_cast<std::uint64_t>(now.tv_nsec) / 1000U;
    s.event.file = where.file();
    s.event.line = where.line();
    s.event.kind = kind;
    __atomic_store_n(&s.state, mine, __ATOMIC_RELEASE);
    return ticket;
  }

  /// Takes a record back, for a call that failed after all.
  void cancel(std::uint64_t ticket) noexcept {
    slot& s = slots_[ticket & mask_];
    std::uint64_t const mine = state_of(ticket);
    if (!lock_at(s, mine)) return;
    s.event.kind = trace_kind::cancelled;
    __atomic_store_n(&s.state, mine, __ATOMIC_RELEASE);
  }

  /// Appends what is there, oldest first. Calls recorded meanwhile may be missing.
  /// @throws std::bad_alloc
  void copy(array<trace_event>& to) const {
    std::uint64_t const end = __atomic_load_n(&next_, __ATOMIC_RELAXED);
    std::uint64_t begin = __atomic_load_n(&first_, __ATOMIC_RELAXED);
    if (end - begin > capacity()) begin = end - capacity();
    to.reserve(to.size() + static_cast<std::size_t>(end - begin));
    for (std::uint64_t ticket = begin; ticket != end; ++ticket) {
      slot& s = slots_[ticket & mask_];
      std::uint64_t const state = state_of(ticket);
      if (!lock_at(s, state)) continue;
      trace_event const event = s.event;
      __atomic_store_n(&s.state, state, __ATOMIC_RELEASE);
      if (event.kind != trace_kind::cancelled) to.push_back(event);
    }
  }

 private:
  // The state is twice the ticket plus one, so that 0 is an empty slot, and odd while it is locked.
  struct alignas(64) slot {  // a cache line each: neighbours do not disturb each other
    std::uint64_t state;
    trace_event event;
  };

  static std::uint64_t state_of(std::uint64_t ticket) noexcept { return (ticket + 1) * 2; }

  // Locks a slot for a newer ticket. @return false when one still newer has it
  static bool take(slot& s, std::uint64_t mine) noexcept {
    std::uint64_t state = __atomic_load_n(&s.state, __ATOMIC_RELAXED);
    for (;;) {
      if (state > mine) return false;
      if ((state & 1U) != 0) {
        pause_processor();
        state = __atomic_load_n(&s.state, __ATOMIC_RELAXED);
      } else if (__atomic_compare_exchange_n(&s.state, &state, mine + 1, false, __ATOMIC_ACQUIRE,
                                             __ATOMIC_RELAXED)) {
        return true;
      }
    }
  }
  // Locks a slot that holds just this ticket. @return false when it does not
  static bool lock_at(slot& s, std::uint64_t wanted) noexcept {
    for (;;) {
      std::uint64_t state = wanted;
      if (__atomic_compare_exchange_n(&s.state, &state, wanted + 1, false, __ATOMIC_ACQUIRE,
                                      __ATOMIC_RELAXED)) {
        return true;
      }
      if (state != wanted + 1) return false;
      pause_processor();  // another reader, or the writer itself
    }
  }

  void* memory_ = nullptr;
  slot* slots_ = nullptr;
  std::uint64_t mask_ = 0;
  std::uint64_t first_ = 0;
  alignas(64) std::uint64_t next_ = 0;  // every writer changes it
};

}  // namespace detail

WARPWRIGHT_END
