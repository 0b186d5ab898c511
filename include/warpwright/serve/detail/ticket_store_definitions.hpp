// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/serve/detail/ticket_store.hpp>

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/text/figures.hpp>

#include <cstdlib>
#include <cstring>
#include <new>

WARPWRIGHT_BEGIN

namespace detail {

constexpr std::size_t slot_alignment = 256;

constexpr std::size_t in_lines(std::size_t bytes) noexcept {
  return (bytes + slot_alignment - 1) / slot_alignment * slot_alignment;
}

WARPWRIGHT_INLINE std::uint64_t monotonic_after(double seconds) noexcept {
  if (!(seconds < 1e9)) return ~std::uint64_t{0};
  return monotonic_nanoseconds() +
         (seconds > 0.0 ? static_cast<std::uint64_t>(seconds * 1e9) : std::uint64_t{0});
}

WARPWRIGHT_INLINE ticket_store::ticket_store(std::size_t input_bytes, std::size_t output_bytes,
                                             bool page_locked) noexcept
    : input_bytes_{input_bytes <= 64 ? 64 : in_lines(input_bytes)},
      output_bytes_{output_bytes <= 64 ? 64 : in_lines(output_bytes)},
      page_locked_{page_locked},
      slots_of_chunk_{256} {
  while (slots_of_chunk_ > 8 && slots_of_chunk_ * input_bytes_ > (std::size_t{4} << 20U)) {
    slots_of_chunk_ /= 2;
  }
}

WARPWRIGHT_INLINE ticket_store::~ticket_store() {
  relaxed_capture_mode const relaxed;
  for (chunk const& c : chunks_) {
    for (std::uint32_t i = 0; i < slots_of_chunk_; ++i) std::free(c.tickets[i].failure);
    delete[] c.tickets;
    page_locked_ ? static_cast<void>(discard(cudaFreeHost(c.data))) : std::free(c.data);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void ticket_store::grow(source_location where) {
  unique_lock<mutex> const one_at_a_time{growing_};
  {
    unique_lock<spin_lock> const lock{free_lock_};
    if (free_ != nullptr) return;
  }
  std::size_t const bytes = slots_of_chunk_ * (input_bytes_ + output_bytes_);
  void* data = nullptr;
  if (page_locked_) {
    relaxed_capture_mode const relaxed{where};
    check(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), "cudaHostAlloc", where);
  } else {
    data = std::aligned_alloc(slot_alignment, in_lines(bytes));
  }
  ticket_slot* const tickets =
      data == nullptr ? nullptr : new (std::nothrow) ticket_slot[slots_of_chunk_];
  std::size_t const first = chunks_.size() * slots_of_chunk_;
  for (std::uint32_t i = 0; tickets != nullptr && i < slots_of_chunk_; ++i) {
    ticket_slot& slot = tickets[i];
    slot.index = static_cast<std::uint32_t>(first) + i;
    slot.store = this;
    slot.input = static_cast<char*>(data) + i * input_bytes_;
    slot.output = static_cast<char*>(data) + slots_of_chunk_ * input_bytes_ + i * output_bytes_;
    slot.next = i + 1 < slots_of_chunk_ ? &tickets[i + 1] : nullptr;
  }
  try {
    if (tickets == nullptr) throw std::bad_alloc{};
    unique_lock<spin_lock> const lock{lock_};
    chunks_.push_back(chunk{tickets, static_cast<char*>(data)});
  } catch (...) {
    delete[] tickets;
    page_locked_ ? static_cast<void>(discard(cudaFreeHost(data))) : std::free(data);
    throw;
  }
  unique_lock<spin_lock> const lock{free_lock_};
  tickets[slots_of_chunk_ - 1].next = free_;
  free_ = tickets;
}

WARPWRIGHT_INLINE ticket_slot* ticket_store::take(source_location where) {
  for (;;) {
    {
      unique_lock<spin_lock> const lock{free_lock_};
      if (ticket_slot* const slot = free_) {
        free_ = slot->next;
        slot->state.store(ticket_slot::ticket | ticket_slot::batcher | ticket_slot::inbox,
                          memory_order::relaxed);
        return slot;
      }
    }
    grow(where);
  }
}

WARPWRIGHT_INLINE void ticket_store::put_back(ticket_slot& slot) noexcept {
  if (slot.failure != nullptr) {
    std::free(slot.failure);
    slot.failure = nullptr;
  }
  unique_lock<spin_lock> const lock{free_lock_};
  slot.next = free_;
  free_ = &slot;
}

WARPWRIGHT_INLINE void ticket_store::release(ticket_slot& slot, std::uint32_t by) noexcept {
  std::uint32_t state = slot.state.load(memory_order::relaxed);
  while (!slot.state.compare_exchange_weak(state, state & ~by, memory_order::acq_rel,
                                           memory_order::relaxed)) {
  }
  if ((state & ticket_slot::orphan) != 0) {
    ticket_store* const store = slot.store;
    if (store->users_.fetch_sub(1, memory_order::acq_rel) == 1) delete store;
  } else if ((state & ~by & (ticket_slot::ticket | ticket_slot::batcher)) == 0) {
    slot.store->put_back(slot);
  }
}

WARPWRIGHT_INLINE void ticket_store::leave_inbox(ticket_slot& slot) noexcept {
  std::uint32_t state = slot.state.load(memory_order::relaxed);
  while (!slot.state.compare_exchange_weak(state, state & ~ticket_slot::inbox,
                                           memory_order::relaxed, memory_order::relaxed)) {
  }
}

WARPWRIGHT_INLINE bool ticket_store::answer(ticket_slot& slot, ticket_status status,
                                            std::uint32_t releases) noexcept {
  std::uint32_t state = slot.state.load(memory_order::relaxed);
  std::uint32_t to = 0;
  do {
    std::uint32_t const now = state & ticket_slot::status_bits;
    if (now != 0 && (now != ticket_slot::claimed || status == ticket_status::answered)) {
      if (releases != 0) release(slot, releases);
      return false;
    }
    to = (state & ~(ticket_slot::status_bits | ticket_slot::waited | releases)) |
         static_cast<std::uint32_t>(status);
  } while (
      !slot.state.compare_exchange_weak(state, to, memory_order::acq_rel, memory_order::relaxed));
  // Without the batcher's use, the slot may be another request's from here on.
  if ((state & ticket_slot::waited) != 0) {
    shard& s = slot.store->shard_of(slot);
    { unique_lock<mutex> const lock{s.lock}; }
    s.answered.notify_all();
  }
  if ((to & (ticket_slot::ticket | ticket_slot::batcher)) == 0) slot.store->put_back(slot);
  return true;
}

WARPWRIGHT_INLINE bool ticket_store::answer(ticket_slot& slot, ticket_status status,
                                            std::uint32_t releases, double waited_seconds,
                                            double predicted_seconds,
                                            char const* failure) noexcept {
  std::uint32_t state = slot.state.load(memory_order::relaxed);
  do {
    if ((state & ticket_slot::status_bits) != 0) {
      if (releases != 0) release(slot, releases);
      return false;
    }
  } while (!slot.state.compare_exchange_weak(state, state | ticket_slot::claimed,
                                             memory_order::acquire, memory_order::relaxed));
  slot.waited_seconds = waited_seconds;
  slot.predicted_seconds = predicted_seconds;
  if (failure != nullptr) slot.failure = ::strdup(failure);
  return answer(slot, status, releases);
}

WARPWRIGHT_INLINE bool ticket_store::wait(ticket_slot& slot, std::uint64_t until) noexcept {
  shard& s = slot.store->shard_of(slot);
  unique_lock<mutex> const lock{s.lock};
  for (;;) {
    std::uint32_t state = slot.state.load(memory_order::acquire);
    std::uint32_t const status = state & ticket_slot::status_bits;
    if (status != 0 && status != ticket_slot::claimed) return true;
    if ((state & ticket_slot::waited) == 0 &&
        !slot.state.compare_exchange(state, state | ticket_slot::waited, memory_order::acquire,
                                     memory_order::relaxed)) {
      continue;
    }
    if (until == ~std::uint64_t{0}) {
      s.answered.wait(s.lock);
    } else {
      if (monotonic_nanoseconds() >= until) return false;
      s.answered.wait_until(s.lock, until);
    }
  }
}

WARPWRIGHT_INLINE void ticket_store::leave() noexcept {
  std::size_t orphans = 0;
  for (chunk const& c : chunks_) {
    for (std::uint32_t i = 0; i < slots_of_chunk_; ++i) {
      ticket_slot& slot = c.tickets[i];
      std::uint32_t state = slot.state.load(memory_order::relaxed);
      if ((state & ticket_slot::ticket) == 0) continue;
      // Counted first: the ticket may end at any moment.
      static_cast<void>(users_.fetch_add(1, memory_order::relaxed));
      while ((state & ticket_slot::ticket) != 0 &&
             !slot.state.compare_exchange_weak(state, state | ticket_slot::orphan,
                                               memory_order::acq_rel, memory_order::relaxed)) {
      }
      if ((state & ticket_slot::ticket) == 0) {
        static_cast<void>(users_.fetch_sub(1, memory_order::relaxed));
      } else {
        ++orphans;
      }
    }
  }
  // A ticket that has just ended may be about to put its slot back.
  for (std::size_t in_use = orphans + 1; in_use != orphans; sched_yield()) {
    in_use = chunks_.size() * slots_of_chunk_;
    unique_lock<spin_lock> const lock{free_lock_};
    for (ticket_slot const* slot = free_; slot != nullptr; slot = slot->next) --in_use;
  }
  if (users_.fetch_sub(1, memory_order::acq_rel) == 1) delete this;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string ticket_error(ticket_status status,
                                                           ticket_slot const* slot) {
  string_builder text = to_text(status);
  if (status == ticket_status::pending) return text + ": not answered yet";
  if (status == ticket_status::answered) return std::string{};
  if (slot == nullptr) return text + ": no request";
  char const* const failure = slot->failure;
  double const waited = slot->waited_seconds;
  double const predicted = slot->predicted_seconds;
  double const deadline = slot->values.deadline;
  double const retry_after = status == ticket_status::shed ? slot->retry_after_seconds : 0.0;
  if (failure != nullptr) return text + ": " + failure;
  if (status == ticket_status::late) {
    if (!(deadline > 0.0)) return text + ": its deadline was over when it was submitted";
    text = text + ": no answer within its deadline of " + format_seconds(deadline);
  }
  if (waited > 0.0) text = text + ", " + format_seconds(waited) + " after its submission";
  if (predicted > 0.0) {
    text = text + ", as the answer would take " + format_seconds(predicted);
    if (deadline > 0.0) text = text + " and its deadline is " + format_seconds(deadline);
  } else if (status == ticket_status::shed) {
    text = text + ", as a limit of requests, bytes or cost is reached";
  }
  if (retry_after > 0.0) text = text + "; try again in " + format_seconds(retry_after);
  return text;
}

}  // namespace detail

WARPWRIGHT_END
