// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A request from submit() to the policy, and out of it.
#pragma once

#include <warpwright/serve/detail/batcher_core.hpp>

#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE ticket_slot* batcher_core::submit(void const* input, request const& r,
                                                    source_location where) {
  ticket_slot* const slot = store_->take(where);
  std::memcpy(slot->input, input, item_.input_bytes);
  slot->values = values_of(r);
  slot->retry_after_seconds = 0.0;
  if (closed_.load(memory_order::acquire)) {
    count(ticket_status::closing);
    {
      unique_lock<spin_lock> const lock{store_->lock()};
      ++counts_.submitted;
    }
    slot->state.store(ticket_slot::ticket | ticket_slot::batcher, memory_order::relaxed);
    ticket_store::answer(*slot, ticket_status::closing, ticket_slot::batcher, 0.0, 0.0);
    return slot;
  }
  if (options_.full == when_full::block) {
    submit_blocking(*slot, r);
    return slot;
  }
  if (slot->values.deadline > 0.0) slot->submitted = now();
  ticket_slot* head = inbox_.load(memory_order::relaxed);
  do {
    slot->next = head;
  } while (!inbox_.compare_exchange_weak(head, slot, memory_order::seq_cst, memory_order::relaxed));
  // Where a lane looks soon, it decides, or who asks how the request ended.
  if (attentive_.load(memory_order::seq_cst) == 0) settle();
  return slot;
}

WARPWRIGHT_INLINE void batcher_core::settle() noexcept {
  answers_later later{*this};
  bool timer = false;
  {
    unique_lock<spin_lock> const lock{store_->lock()};
    empty_inbox_for_lanes(later);
    timer = policy_.next_expiry() < timer_at_;
    if (timer) timer_at_ = policy_.next_expiry();
  }
  if (timer) wake_timer();
  if (later.give_all()) room();
}

// By another thread than a lane: one must be told of what is there.
WARPWRIGHT_INLINE void batcher_core::empty_inbox_for_lanes(answers_later& answers) noexcept {
  empty_inbox(answers);
  if (policy_.queued() != 0 && answers.to_wake == nullptr) answers.to_wake = lane_to_wake();
}

WARPWRIGHT_INLINE void batcher_core::empty_inbox(answers_later& answers) noexcept {
  if (inbox_.load(memory_order::relaxed) == nullptr) return;
  ticket_slot* newest = inbox_.exchange(nullptr, memory_order::acq_rel);
  ticket_slot* oldest = nullptr;
  while (newest != nullptr) {
    ticket_slot* const next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  double const time = now();
  while (oldest != nullptr) {
    ticket_slot& slot = *oldest;
    oldest = slot.next;
    request r;
    set_values(r, slot.values);
    if (slot.values.deadline > 0.0) {
      r = r.deadline(slot.values.deadline - (time - slot.submitted));
    }
    static_cast<void>(admit(slot, r, time, answers));
  }
}

// @return false: a limit is reached, and submissions wait for room
WARPWRIGHT_INLINE bool batcher_core::admit(ticket_slot& slot, request const& r, double time,
                                           answers_later& answers) noexcept {
  admission a;
  try {
    if (closed_.load(memory_order::relaxed)) {
      a.refused = ticket_status::closing;
    } else {
      std::size_t const bytes = slot.values.bytes + item_.input_bytes + item_.output_bytes;
      a = policy_.submit(slot.index, r.bytes(bytes), time);
    }
  } catch (...) {
    a.refused = ticket_status::failed;  // no memory
  }
  take_dropped(answers);
  if (a.full && options_.full == when_full::block) return false;
  ++counts_.submitted;
  ticket_store::leave_inbox(slot);
  if (a.admitted) {
    if (policy_.queued() > counts_.max_queued) counts_.max_queued = policy_.queued();
    return true;
  }
  if (a.full) ++counts_.shed_full;
  if (a.refused == ticket_status::shed && !a.full) ++counts_.shed_predicted;
  count(a.refused);
  slot.retry_after_seconds = a.retry_after_seconds;
  answers.add({&slot, a.refused, ticket_slot::batcher, 0.0, a.predicted_seconds});
  return true;
}

WARPWRIGHT_INLINE void batcher_core::submit_blocking(ticket_slot& slot, request r) noexcept {
  std::uint64_t const began = monotonic_nanoseconds();
  for (;;) {
    answers_later later{*this};
    std::uint64_t const seen = changes_.load(memory_order::acquire);
    double const waited = static_cast<double>(monotonic_nanoseconds() - began) * 1e-9;
    double left = options_.max_block - waited;
    if (slot.values.deadline > 0.0) {
      r = r.deadline(slot.values.deadline - waited);
      if (slot.values.deadline - waited < left) left = slot.values.deadline - waited;
    }
    bool admitted = false;
    {
      unique_lock<spin_lock> const lock{store_->lock()};
      admitted = admit(slot, r, now(), later);
      if (!admitted && left <= 0.0) {
        ++counts_.submitted;
        ++counts_.shed_full;
        count(ticket_status::shed);
        ticket_store::leave_inbox(slot);
        later.add({&slot, ticket_status::shed, ticket_slot::batcher, 0.0, 0.0});
        admitted = true;
      }
    }
    if (later.give_all()) room();
    if (admitted) break;
    wait_for_change(seen, monotonic_after(left));
  }
  settle();
}

// Of the policy's answers.
WARPWRIGHT_INLINE void batcher_core::take_dropped(answers_later& answers) noexcept {
  for (dropped_request const& d : policy_.dropped()) {
    if (d.running) ++counts_.late_running;
    count(d.status);
    answers.add({store_->at(d.id), d.status, d.running ? 0U : ticket_slot::batcher,
                 d.waited_seconds, d.predicted_seconds});
  }
  policy_.clear_dropped();
}

WARPWRIGHT_INLINE void batcher_core::cancel(ticket_slot& slot) noexcept {
  bool queued = false;
  answers_later later{*this};
  {
    unique_lock<spin_lock> const lock{store_->lock()};
    empty_inbox_for_lanes(later);
    queued = slot.status() == ticket_status::pending && policy_.cancel(slot.index);
    if (queued) begin_answers();
  }
  bool const others = later.give_all();
  if (ticket_store::answer(slot, ticket_status::cancelled, queued ? ticket_slot::batcher : 0U, 0.0,
                           0.0)) {
    count(ticket_status::cancelled);
  }
  if (queued) end_answers();
  if (queued || others) room();
}

WARPWRIGHT_INLINE batcher_core::lane* batcher_core::lane_to_wake() noexcept {
  std::size_t const i = policy_.lane_to_wake();
  if (i >= lane_count_ || !lanes_[i].idle) return nullptr;
  lanes_[i].idle = false;
  return &lanes_[i];
}

WARPWRIGHT_INLINE void batcher_core::room() noexcept {
  static_cast<void>(changes_.fetch_add(1, memory_order::seq_cst));
  if (waiters_.load(memory_order::seq_cst) == 0) return;
  { unique_lock<mutex> const lock{waiting_}; }
  changed_.notify_all();
}

WARPWRIGHT_INLINE void batcher_core::wait_for_change(std::uint64_t seen,
                                                     std::uint64_t until) noexcept {
  static_cast<void>(waiters_.fetch_add(1, memory_order::seq_cst));
  {
    unique_lock<mutex> const lock{waiting_};
    while (changes_.load(memory_order::seq_cst) == seen && monotonic_nanoseconds() < until) {
      until == ~std::uint64_t{0} ? changed_.wait(waiting_) : changed_.wait_until(waiting_, until);
    }
  }
  static_cast<void>(waiters_.fetch_sub(1, memory_order::seq_cst));
}

}  // namespace detail

WARPWRIGHT_END
