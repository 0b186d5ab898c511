// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/serve/detail/ticket_store.hpp>

#include <warpwright/core/detail/text/figures.hpp>

#include <cstdlib>
#include <cstring>
#include <new>

WARPWRIGHT_BEGIN

namespace detail {

constexpr std::size_t slot_alignment = 256;

constexpr std::size_t in_lines(std::size_t bytes) noexcept {
  if (bytes <= 64) return 64;
  return (bytes + slot_alignment - 1) / slot_alignment * slot_alignment;
}

WARPWRIGHT_INLINE ticket_store::ticket_store(std::size_t input_bytes,
                                             std::size_t output_bytes) noexcept
    : input_bytes_{in_lines(input_bytes)}, output_bytes_{in_lines(output_bytes)} {
  while (slots_of_chunk_ > 8 && slots_of_chunk_ * input_bytes_ > (std::size_t{4} << 20U)) {
    slots_of_chunk_ /= 2;
  }
}

WARPWRIGHT_INLINE ticket_store::~ticket_store() {
  for (chunk const& c : chunks_) {
    delete[] c.tickets;
    std::free(c.data);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void ticket_store::grow() {
  unique_lock<mutex> const one_at_a_time{growing_};
  {
    unique_lock<spin_lock> const lock{free_lock_};
    if (free_ != nullptr) return;
  }
  std::size_t const bytes = slots_of_chunk_ * (input_bytes_ + output_bytes_);
  void* const data = std::aligned_alloc(slot_alignment, bytes);
  ticket_slot* tickets = nullptr;
  try {
    if (data == nullptr) throw std::bad_alloc{};
    tickets = new ticket_slot[slots_of_chunk_];
    unique_lock<spin_lock> const lock{lock_};
    chunks_.push_back(chunk{tickets, static_cast<char*>(data)});
  } catch (...) {
    delete[] tickets;
    std::free(data);
    throw;
  }
  std::size_t const first = (chunks_.size() - 1) * slots_of_chunk_;
  for (std::uint32_t i = 0; i < slots_of_chunk_; ++i) {
    ticket_slot& slot = tickets[i];
    slot.index = static_cast<std::uint32_t>(first) + i;
    slot.store = this;
    slot.input = static_cast<char*>(data) + i * input_bytes_;
    slot.output = static_cast<char*>(data) + slots_of_chunk_ * input_bytes_ + i * output_bytes_;
    slot.next = i + 1 < slots_of_chunk_ ? &tickets[i + 1] : nullptr;
  }
  unique_lock<spin_lock> const lock{free_lock_};
  tickets[slots_of_chunk_ - 1].next = free_;
  free_ = tickets;
}

WARPWRIGHT_INLINE ticket_slot* ticket_store::take() {
  for (;;) {
    {
      unique_lock<spin_lock> const lock{free_lock_};
      if (ticket_slot* const slot = free_) {
        free_ = slot->next;
        ++in_use_;
        slot->state.store(ticket_slot::ticket | ticket_slot::batcher | ticket_slot::inbox,
                          memory_order::relaxed);
        return slot;
      }
    }
    grow();
  }
}

WARPWRIGHT_INLINE void ticket_store::put_back(ticket_slot& slot) noexcept {
  std::free(exchange(slot.failure, nullptr));
  unique_lock<spin_lock> lock{free_lock_};
  slot.next = free_;
  free_ = &slot;
  bool const last = --in_use_ == 0 && ends_;
  lock.unlock();
  if (last) delete this;
}

WARPWRIGHT_INLINE void ticket_store::leave() noexcept {
  unique_lock<spin_lock> lock{free_lock_};
  ends_ = true;
  bool const last = in_use_ == 0;
  lock.unlock();
  if (last) delete this;
}

WARPWRIGHT_INLINE void ticket_store::release(ticket_slot& slot, std::uint32_t by) noexcept {
  std::uint32_t const state = slot.state.fetch_sub(by, memory_order::acq_rel) - by;
  if ((state & ticket_slot::users) == 0) slot.store->put_back(slot);
}

WARPWRIGHT_INLINE bool ticket_store::answer(ticket_slot& slot, ticket_status status,
                                            std::uint32_t releases, answer_figures const& figures,
                                            char const* failure) noexcept {
  std::uint32_t state = slot.state.load(memory_order::relaxed);
  do {
    if ((state & ticket_slot::status_bits) != 0) {
      if (releases != 0) release(slot, releases);
      return false;
    }
  } while (!slot.state.compare_exchange_weak(state, state | ticket_slot::claimed,
                                             memory_order::acquire, memory_order::relaxed));
  slot.figures = figures;
  if (failure != nullptr) slot.failure = ::strdup(failure);
  ticket_store& store = *slot.store;
  event_count& answered = store.answered_[slot.index % shards];
  std::uint32_t const ends = ticket_slot::claimed - static_cast<std::uint32_t>(status) + releases;
  state = slot.state.fetch_sub(ends, memory_order::acq_rel);
  // Without a use, the slot may be another request's from here on.
  if ((state & ticket_slot::waited) != 0) answered.notify();
  if (((state - ends) & ticket_slot::users) == 0) store.put_back(slot);
  return true;
}

WARPWRIGHT_INLINE bool ticket_store::wait(ticket_slot& slot, std::uint64_t until) noexcept {
  event_count& answered = slot.store->answered_[slot.index % shards];
  for (bool in_time = true;;) {
    std::uint64_t const seen = answered.count();
    static_cast<void>(slot.state.fetch_or(ticket_slot::waited, memory_order::acq_rel));
    if (slot.status() != ticket_status::pending) return true;
    if (!in_time) return false;
    in_time = answered.wait(seen, until);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string ticket_error(ticket_status status,
                                                           ticket_slot const* slot) {
  string_builder text = to_text(status);
  if (status == ticket_status::pending) return text + ": not answered yet";
  if (status == ticket_status::answered) return std::string{};
  if (slot == nullptr) return text + ": no request";
  if (slot->failure != nullptr) return text + ": " + slot->failure;
  if (status == ticket_status::failed) return text + ": no memory for it";
  if (status == ticket_status::cancelled) return text + ": by ticket::cancel()";
  if (status == ticket_status::closing) text += ": the batcher was drained, or its device is lost";
  answer_figures const& figures = slot->figures;
  double const deadline = slot->values.deadline;
  if (status == ticket_status::late) {
    if (!(deadline > 0.0)) return text + ": its deadline was over when it was submitted";
    text = text + ": no answer within its deadline of " + format_seconds(deadline);
  }
  if (figures.seconds > 0.0) {
    text = text + ", " + format_seconds(figures.seconds) + " after its submission";
  }
  if (figures.retry_after >= never) return text + ": it alone is above limit_bytes or limit_cost";
  if (figures.predicted > 0.0) {
    text = text + ", as the answer would take " + format_seconds(figures.predicted);
    if (deadline > 0.0) text = text + " and its deadline is " + format_seconds(deadline);
  } else if (status == ticket_status::shed) {
    text = text + ", as a limit of requests, bytes or cost is reached";
  }
  if (figures.retry_after > 0.0) {
    text = text + "; try again in " + format_seconds(figures.retry_after);
  }
  return text;
}

}  // namespace detail

WARPWRIGHT_END
