// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/error.hpp>

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
  std::uint64_t time_us = 0;   // since 1970, UTC
  char const* file = nullptr;  // a string literal
  int line = 0;
  trace_kind kind = trace_kind::cancelled;
};

/// The last calls of a memory resource, in the order of their tickets; a new call overwrites the
/// oldest.
///
/// A writer draws a ticket and locks only the ticket's slot. Writers therefore collide only when
/// the ring has wrapped around while one of them was descheduled, and wait for a reader no longer
/// than it takes to copy one slot.
class trace_ring : noncopyable {
 public:
  /// Creates an empty ring.
  /// @param capacity  calls to keep, rounded up to a power of two @throws std::bad_alloc
  explicit trace_ring(std::size_t capacity) {
    std::size_t count = 16;
    while (count < capacity) {
      if (count > ~std::size_t{0} / (2 * sizeof(slot))) throw std::bad_alloc{};
      count *= 2;
    }
    // Zero-filled by the system, page by page at first use: a slot of zeros is empty. One slot more
    // for the alignment.
    memory_ = std::calloc(count + 1, sizeof(slot));
    if (memory_ == nullptr) throw std::bad_alloc{};
    auto const address = reinterpret_cast<std::uintptr_t>(memory_);
    slots_ = reinterpret_cast<slot*>((address + sizeof(slot) - 1) / sizeof(slot) * sizeof(slot));
    mask_ = count - 1;
  }
  ~trace_ring() { std::free(memory_); }

  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }
  /// Calls recorded since construction or clear().
  [[nodiscard]] std::uint64_t recorded() const noexcept {
    std::uint64_t const begin = first();
    return next_.load(memory_order::relaxed) - begin;
  }
  /// The part of recorded() that was overwritten.
  [[nodiscard]] std::uint64_t lost() const noexcept {
    std::uint64_t const all = recorded();
    return all > capacity() ? all - capacity() : 0;
  }
  void clear() noexcept { first_.store(next_.load(memory_order::relaxed), memory_order::release); }

  /// @return the ticket, for cancel()
  std::uint64_t record(trace_kind kind, void const* pointer, std::uint64_t bytes,
                       std::uint64_t stream_id, source_location where) noexcept {
    timespec now{};
    static_cast<void>(clock_gettime(CLOCK_REALTIME, &now));
    std::uint64_t const ticket = next_.fetch_add(1, memory_order::relaxed);
    slot& s = slots_[ticket & mask_];
    std::uint64_t const mine = state_of(ticket);
    if (!lock_newer(s, mine)) return ticket;
    s.event.address = reinterpret_cast<std::uintptr_t>(pointer);
    s.event.bytes = bytes;
    s.event.stream_id = stream_id;
    s.event.time_us = static_cast<std::uint64_t>(now.tv_sec) * 1000000U +
                      static_cast<std::uint64_t>(now.tv_nsec) / 1000U;
    s.event.file = where.file();
    s.event.line = where.line();
    s.event.kind = kind;
    s.state.store(mine, memory_order::release);
    return ticket;
  }

  /// Removes a record whose call failed.
  void cancel(std::uint64_t ticket) noexcept {
    slot& s = slots_[ticket & mask_];
    std::uint64_t const mine = state_of(ticket);
    if (!lock_exact(s, mine)) return;
    s.event.kind = trace_kind::cancelled;
    s.state.store(mine, memory_order::release);
  }

  /// Appends the recorded calls, oldest first. May omit calls recorded at the same time.
  /// @throws std::bad_alloc
  void copy(array<trace_event>& to) const {
    std::uint64_t begin = first();
    std::uint64_t const end = next_.load(memory_order::relaxed);
    if (end - begin > capacity()) begin = end - capacity();
    to.reserve(to.size() + (end - begin));
    for (std::uint64_t ticket = begin; ticket != end; ++ticket) {
      slot& s = slots_[ticket & mask_];
      std::uint64_t const state = state_of(ticket);
      if (!lock_exact(s, state)) continue;
      trace_event const event = s.event;
      s.state.store(state, memory_order::release);
      if (event.kind != trace_kind::cancelled) to.push_back(event);
    }
  }

 private:
  // A slot's state is 0 when it is empty, 2 * (ticket + 1) when it holds that ticket, and one more
  // while it is locked.
  struct alignas(64) slot {  // a cache line each, against false sharing
    atomic<std::uint64_t> state;
    trace_event event;
  };

  // To be read before next_, which is not below it then, also while another thread calls clear().
  [[nodiscard]] std::uint64_t first() const noexcept { return first_.load(memory_order::acquire); }

  static std::uint64_t state_of(std::uint64_t ticket) noexcept { return (ticket + 1) * 2; }

  // Locks a slot for a ticket. @return false when a newer ticket has the slot
  static bool lock_newer(slot& s, std::uint64_t mine) noexcept {
    std::uint64_t state = s.state.load(memory_order::relaxed);
    for (;;) {
      if (state > mine) return false;
      if ((state & 1U) != 0) {
        pause_processor();
        state = s.state.load(memory_order::relaxed);
      } else if (s.state.compare_exchange(state, mine + 1, memory_order::acquire,
                                          memory_order::relaxed)) {
        return true;
      }
    }
  }
  // Locks a slot that holds this ticket. @return false when it holds another one
  static bool lock_exact(slot& s, std::uint64_t wanted) noexcept {
    for (;;) {
      std::uint64_t state = wanted;
      if (s.state.compare_exchange(state, wanted + 1, memory_order::acquire,
                                   memory_order::relaxed)) {
        return true;
      }
      if (state != wanted + 1) return false;
      pause_processor();  // locked by another reader or by its writer
    }
  }

  void* memory_ = nullptr;
  slot* slots_ = nullptr;
  std::uint64_t mask_ = 0;
  atomic<std::uint64_t> first_;
  alignas(64) atomic<std::uint64_t> next_;  // written by every writer
};

}  // namespace detail

WARPWRIGHT_END
