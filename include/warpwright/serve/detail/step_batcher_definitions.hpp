// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/serve/step_batcher.hpp>

#pragma push_macro("slots")
#undef slots

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE step_batcher::step_batcher(step_batcher_options const& options,
                                             latency_model const& model, source_location where)
    : options_{values_of(options)}, times_{model} {
  bool const fits = options_.slots >= 1 && options_.slots <= 65536 && options_.budget >= 1 &&
                    options_.memory >= 1 && options_.max_wait_steps >= 1 &&
                    options_.min_chunk >= 1 && options_.max_slowdown > 1.0;
  if (!fits) {
    detail::throw_invalid_argument(
        "step_batcher_options: give 1 to 65,536 slots, a budget, a memory, a chunk and steps of at "
        "least 1, and a slowdown above 1",
        where);
  }
  for (std::size_t i = options_.slots; i-- > 0;) free_slots_.push_back(i);
  parts_.reserve(options_.slots);
}

WARPWRIGHT_INLINE void step_batcher::add(std::uint64_t id, std::size_t tokens, int priority,
                                         source_location where) {
  if (tokens == 0 || tokens >= options_.memory) {
    detail::throw_invalid_argument(detail::text{"step_batcher: a prompt of "} + tokens +
                                       " tokens; give at least 1, and fewer than memory() of " +
                                       options_.memory,
                                   where);
  }
  if (names_.find(id) != detail::address_map::none) {
    detail::throw_invalid_argument(
        detail::text{"step_batcher: the sequence "} + id + " is here already; finish() it first",
        where);
  }
  names_.reserve(names_.size() + 1);
  order_.reserve(order_.size() + 1);
  preempted_.reserve(order_.size() + 1);
  unused_.reserve(items_.size() + 1);
  if (unused_.empty()) {
    items_.emplace_back();
    unused_.push_back(static_cast<std::uint32_t>(items_.size() - 1));
  }
  std::uint32_t const item = unused_.back();
  unused_.pop_back();
  items_[item] = sequence{};
  items_[item].id = id;
  items_[item].priority = priority;
  items_[item].tokens = tokens;
  names_.insert(id, item);
  order_.push_back(item);
  for (std::size_t i = order_.size() - 1; i > 0 && items_[order_[i - 1]].priority < priority; --i) {
    order_[i] = order_[i - 1];
    order_[i - 1] = item;
  }
}

WARPWRIGHT_INLINE std::size_t step_batcher::generating() const noexcept {
  std::size_t n = 0;
  for (std::uint32_t const i : order_) {
    n += items_[i].generates() ? 1U : 0U;
  }
  return n;
}

// How many tokens of prompts slow a step down by no more than is allowed.
WARPWRIGHT_INLINE std::size_t step_batcher::prompt_budget(std::size_t generates) const noexcept {
  std::size_t high = options_.budget - generates;
  if (generates == 0) return high;
  double const limit = options_.max_slowdown * times_.typical(0, generates);
  std::size_t low = 0;
  while (low < high) {
    std::size_t const middle = low + (high - low + 1) / 2;
    if (times_.typical(0, generates + middle) <= limit) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// The last one in order that runs, but none up to a place, and only below a priority.
WARPWRIGHT_INLINE bool step_batcher::preempt_last(std::size_t behind, int below) noexcept {
  for (std::size_t place = order_.size(); place-- > behind + 1;) {
    sequence& s = items_[order_[place]];
    if (!s.runs() || s.planned || s.priority >= below) continue;
    preempted_.push_back(s.id);
    free_slots_.push_back(s.slot);
    resident_ -= s.computed;
    s.slot = no_slot;
    s.computed = s.waited = 0;
    --running_;
    return true;
  }
  return false;
}

WARPWRIGHT_INLINE void step_batcher::take(sequence& s, std::size_t count) noexcept {
  s.planned = true;
  planned_ += count;
  parts_.push_back(step_part{s.id, s.slot, s.computed, count, count == s.left()});
}

// The first one that waits takes the slot and the memory of less urgent ones, if they do.
WARPWRIGHT_INLINE void step_batcher::make_room_for_first() noexcept {
  std::size_t place = 0;
  while (place < order_.size() && items_[order_[place]].runs()) ++place;
  if (place == order_.size()) return;
  sequence const& first = items_[order_[place]];
  std::size_t kept = resident_;
  std::size_t growth = 0;  // of those that stay, in a step
  bool slot = !free_slots_.empty();
  for (std::uint32_t const i : order_) {
    sequence const& s = items_[i];
    if (s.runs() && s.priority < first.priority) {
      kept -= s.computed;
      slot = true;
    } else if (s.generates()) {
      ++growth;
    }
  }
  std::size_t const needs = first.left() + growth;
  if (!slot || kept + needs > options_.memory) return;
  while ((free_slots_.empty() || resident_ + needs > options_.memory) &&
         preempt_last(place, first.priority)) {
  }
}

// @return false: it waits, and there is no room for it
WARPWRIGHT_INLINE bool step_batcher::take_prompt(std::size_t place, std::size_t& budget) noexcept {
  sequence& s = items_[order_[place]];
  std::size_t count = s.left() < budget ? s.left() : budget;
  // One that waits begins where all of it fits.
  std::size_t const needs = s.runs() ? count : s.left();
  if (!s.runs() && free_slots_.empty()) return false;
  while (s.runs() && resident_ + planned_ + needs > options_.memory &&
         preempt_last(place, max_priority)) {
  }
  std::size_t const used = resident_ + planned_;
  std::size_t const room = used < options_.memory ? options_.memory - used : 0;
  if (!s.runs() && needs > room) return false;
  if (count > room) count = room;
  if (count == 0) return true;
  if (!s.runs()) {
    s.slot = free_slots_.back();
    free_slots_.pop_back();
    ++running_;
  }
  take(s, count);
  budget -= count;
  return true;
}

WARPWRIGHT_INLINE bool step_batcher::next() {
  parts_.clear();
  preempted_.clear();
  planned_ = 0;
  if (order_.empty()) return false;
  for (std::uint32_t const i : order_) items_[i].planned = false;
  for (std::size_t place = order_.size(); place-- > 0;) {
    sequence const& s = items_[order_[place]];
    if (s.runs() || s.tokens <= options_.memory) continue;  // it had to go, and is too long now
    preempted_.push_back(s.id);
    remove(place);
  }
  make_room_for_first();
  if (order_.empty()) return false;
  std::size_t generates = generating();
  while (resident_ + (generates < options_.budget ? generates : options_.budget) >
         options_.memory) {
    if (!preempt_last(0, max_priority)) {  // it alone is too long
      preempted_.push_back(items_[order_[0]].id);
      remove(0);
      if (order_.empty()) return false;
    }
    generates = generating();
  }
  std::size_t const n = order_.size();
  std::size_t budget = options_.budget;
  // First who has waited too long, the longest first.
  while (budget != 0) {
    std::size_t longest = n;
    for (std::size_t place = 0; place < n; ++place) {
      sequence const& s = items_[order_[place]];
      if (s.planned || s.waited < options_.max_wait_steps) continue;
      if (longest == n || s.waited > items_[order_[longest]].waited) longest = place;
    }
    if (longest == n) break;
    std::size_t chunk = options_.min_chunk < budget ? options_.min_chunk : budget;
    budget -= chunk;
    static_cast<void>(take_prompt(longest, chunk));  // of one that generates 1
    budget += chunk;
    sequence& s = items_[order_[longest]];
    if (!s.planned) s.waited = 0;  // there is no memory for it
  }
  // Then all that generate, in turn where the budget is short.
  std::size_t const from = turn_ % n;
  std::size_t one_each = 0;
  for (std::size_t k = 0; k < n && budget != 0; ++k) {
    sequence& s = items_[order_[(from + k) % n]];
    if (s.planned || !s.generates()) continue;
    std::size_t const place = (from + k) % n;
    while (resident_ + planned_ >= options_.memory && preempt_last(place, max_priority)) {
    }
    if (resident_ + planned_ >= options_.memory) continue;
    take(s, 1);
    turn_ = (from + k) % n + 1;
    ++one_each;
    --budget;
  }
  // Then prompts.
  std::size_t const prompts = prompt_budget(one_each);
  std::size_t const planned = planned_ - one_each;
  std::size_t left = prompts > planned ? prompts - planned : 0;
  if (left > budget) left = budget;
  bool admits = true;
  for (std::size_t place = 0; place < n && left != 0; ++place) {
    sequence const& s = items_[order_[place]];
    if (s.planned || s.generates() || !(s.runs() || admits)) continue;
    admits = take_prompt(place, left) && admits;
  }
  for (std::uint32_t const i : order_) {
    sequence& s = items_[i];
    bool const could_run =
        s.runs() || (!free_slots_.empty() && resident_ + planned_ + s.left() <= options_.memory);
    s.waited = s.planned || !could_run ? 0 : s.waited + 1;
  }
  return !parts_.empty();
}

WARPWRIGHT_INLINE void step_batcher::done(double seconds) noexcept {
  for (step_part const& part : parts_) {
    std::uint32_t const item = names_.find(part.id);
    if (item == detail::address_map::none || !items_[item].planned) continue;  // it has ended
    sequence& s = items_[item];
    s.computed += part.count;
    resident_ += part.count;
    if (part.generates) ++s.tokens;
    s.planned = false;
  }
  if (seconds > 0.0) times_.observe(0, planned_, seconds, 0.0);
  parts_.clear();
}

WARPWRIGHT_INLINE void step_batcher::remove(std::size_t place) noexcept {
  sequence& s = items_[order_[place]];
  static_cast<void>(names_.erase(s.id));
  if (s.runs()) {
    free_slots_.push_back(s.slot);
    resident_ -= s.computed;
    --running_;
  }
  unused_.push_back(order_[place]);
  for (std::size_t i = place + 1; i < order_.size(); ++i) order_[i - 1] = order_[i];
  order_.pop_back();
}

WARPWRIGHT_INLINE bool step_batcher::finish(std::uint64_t id) noexcept {
  std::uint32_t const item = names_.find(id);
  if (item == detail::address_map::none) return false;
  std::size_t place = 0;
  while (order_[place] != item) ++place;
  remove(place);
  return true;
}

WARPWRIGHT_END
#pragma pop_macro("slots")
