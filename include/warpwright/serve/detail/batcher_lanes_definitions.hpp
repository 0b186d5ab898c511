// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The threads of the lanes, and the one that keeps the deadlines.
#pragma once

#include <warpwright/serve/detail/batcher_core.hpp>

#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/error/exception_kind.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/detail/text/figures.hpp>

#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

constexpr double longest_brief = 20e-3;

// The lane will not look into the inbox for a while.
WARPWRIGHT_INLINE void batcher_core::be_away() noexcept {
  static_cast<void>(attentive_.fetch_sub(1, memory_order::seq_cst));
  if (inbox_.load(memory_order::seq_cst) != nullptr) settle();
}

WARPWRIGHT_INLINE void batcher_core::sleep(lane& l, std::uint64_t seen, double seconds) noexcept {
  // To sleep and be woken takes some 50 us.
  constexpr std::uint64_t looking = 20000;  // ns
  std::uint64_t const until = monotonic_after(seconds);
  std::uint64_t const began = monotonic_nanoseconds();
  std::uint64_t t = began;
  for (int step = 0; t < until && t - began < looking; ++step) {
    for (int i = 0; i < 16; ++i) {
      if (l.wake.count() != seen || inbox_.load(memory_order::relaxed) != nullptr) return;
      spin_wait(step);
    }
    t = monotonic_nanoseconds();
  }
  be_away();
  static_cast<void>(l.wake.wait(seen, until));
  attentive_.fetch_add(1, memory_order::seq_cst);
}

WARPWRIGHT_INLINE void batcher_core::run_lane(lane& l) noexcept {
  l.number.store(thread_number(), memory_order::relaxed);
  static_cast<void>(set_up_thread(l.device));
  answers_later later{*this};
  attentive_.fetch_add(1, memory_order::seq_cst);
  for (;;) {
    batch_decision decision;
    std::uint64_t seen = 0;
    double seconds = 0.0;
    bool idle = false;
    {
      unique_lock<spin_lock> const lock{store_->lock()};
      empty_inbox(later);
      double const time = now();
      decision = policy_.next(l.index, time);
      take_dropped(later);
      l.idle = idle = decision.items == 0 && !ending_;
      if (idle) {
        seen = l.wake.count();
        seconds = decision.until < never ? decision.until - time : never;
        // Nobody else tells it: this lane has emptied the inbox, or was woken in its place.
        if (decision.faster < lane_count_ && exchange(lanes_[decision.faster].idle, false)) {
          later.to_wake = &lanes_[decision.faster];
        }
      } else if (decision.items != 0) {
        begin_batch(l, decision, time);
        // If it blocks in spite of that, the timer does what an attentive lane would.
        if (l.brief) set_timer(time + longest_brief, later);
        if (policy_.queued() != 0) later.to_wake = lane_to_wake();
      }
    }
    later.give_all();
    if (decision.items != 0) {
      if (!l.brief) be_away();
      run_batch(l, decision.padded);
      if (!l.brief) attentive_.fetch_add(1, memory_order::seq_cst);
    } else if (idle) {
      sleep(l, seen, seconds);
    } else {
      be_away();
      return;
    }
  }
}

// Under the lock.
WARPWRIGHT_INLINE void batcher_core::begin_batch(lane& l, batch_decision const& decision,
                                                 double time) noexcept {
  l.tickets.clear();
  std::uint32_t const* const ids = policy_.batch(l.index);
  for (std::size_t i = 0; i < decision.items; ++i) {
    l.tickets.push_back(store_->at(ids[i]));
    counts_.wait_seconds += time - l.tickets.back()->submitted;
  }
  l.started = time;
  l.named = l.threw = false;
  l.brief = decision.predicted_seconds < 10e-6;
  ++counts_.batches;
  counts_.items += decision.items;
  counts_.padded_items += decision.padded;
  std::size_t power = 0;
  while ((std::size_t{1} << power) < decision.items) ++power;
  ++counts_.sizes[power];
}

WARPWRIGHT_INLINE void batcher_core::run_batch(lane& l, std::size_t padded) {
  std::size_t const n = l.tickets.size();
  bool const ok = run_range(l, 0, n, padded);
  double time = 0.0;
  {
    unique_lock<spin_lock> const lock{store_->lock()};
    time = now();
    policy_.finished(l.index, time, !l.threw);
    begin_answers();
    counts_.busy_seconds += time - l.started;
    l.started = -1.0;
  }
  for (std::size_t i = 0; i < n; ++i) {
    ticket_slot& slot = *l.tickets[i];
    bool const failed = !ok && !l.failures[i].empty();
    static_cast<void>(give(slot, failed ? ticket_status::failed : ticket_status::answered,
                           ticket_slot::batcher, answer_figures{time - slot.submitted, 0.0, 0.0},
                           failed ? l.failures[i].c_str() : nullptr));
  }
  end_answers();
}

// @return whether every request has a value; failures say which have none
WARPWRIGHT_INLINE bool batcher_core::run_range(lane& l, std::size_t first, std::size_t count,
                                               std::size_t padded) {
  std::exception_ptr error;
  bool some_failed = false;
  try {
    some_failed = call_model(l, first, count, padded);
  } catch (...) {
    error = std::current_exception();
  }
  if (error == nullptr) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(l.tickets[first + i]->output, l.host_out + i * item_.output_bytes,
                  item_.output_bytes);
    }
    return !some_failed;
  }
  l.threw = true;
  // What the model has enqueued may still use the lane's memory.
  bool const lost = is_sticky(discard(cudaStreamSynchronize(l.stream.get()))) ||
                    kind_of(error) == exception_kind::device_lost;
  std::string text;
  try {
    text = text_of(error);
  } catch (...) {  // no memory for it
  }
  if (lost) fail_all(text.c_str());
  if (options_.bisect && count > 1 && !lost) {
    std::size_t const half = count / 2;
    for (std::size_t i = 0; i < count; ++i) l.failures[first + i].clear();
    static_cast<void>(run_range(l, first, half, padded_size(options_, half)));
    static_cast<void>(
        run_range(l, first + half, count - half, padded_size(options_, count - half)));
    return false;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::string& failure = l.failures[first + i];
    try {
      failure = text.empty() ? "the model failed" : text;
    } catch (...) {
      failure = "no memory";  // short: it is stored in place
    }
  }
  return false;
}

// @return whether the model has failed single requests
WARPWRIGHT_INLINE bool batcher_core::call_model(lane& l, std::size_t first, std::size_t count,
                                                std::size_t padded) {
  std::size_t const in = item_.input_bytes;
  source_location const here = source_location::current();
  for (std::size_t i = 0; i < count; ++i) {
    l.failures[first + i].clear();
    std::memcpy(l.host_in + i * in, l.tickets[first + i]->input, in);
  }
  batch_state batch;
  batch.inputs = options_.host_data ? l.host_in : l.device_in;
  batch.outputs = options_.host_data ? l.host_out : l.device_out;
  batch.size = batch.results = count;
  batch.padded = padded;
  batch.key = &policy_.key(l.index);
  batch.lane = l.index;
  batch.failures = l.failures + first;
  if (!options_.host_data) {
    check(
        cudaMemcpyAsync(l.device_in, l.host_in, count * in, cudaMemcpyHostToDevice, l.stream.get()),
        "cudaMemcpyAsync", here);
  }
  model_(batch, l.stream);
  check_pending("the batcher's model", here);
  if (batch.results != count) {
    throw std::runtime_error{(string_builder{"the model gave "} + counted(batch.results, "result") +
                              " for " + counted(count, "request") +
                              "; it must write one for each, in their order")
                                 .str()};
  }
  if (!options_.host_data) {
    check(cudaMemcpyAsync(l.host_out, l.device_out, count * item_.output_bytes,
                          cudaMemcpyDeviceToHost, l.stream.get()),
          "cudaMemcpyAsync", here);
  }
  check(cudaStreamSynchronize(l.stream.get()), "cudaStreamSynchronize", here);
  return batch.failed;
}

// The watchdog: @return a lane whose batch has run too long, once; timer_at_: when to look again
WARPWRIGHT_INLINE batcher_core::lane const* batcher_core::overdue_lane(double time) noexcept {
  for (std::size_t i = 0; i < lane_count_; ++i) {
    lane& l = lanes_[i];
    double const due = (l.started < 0.0 ? time : l.started) + options_.watchdog;
    if (l.started >= 0.0 && !l.named && time >= due) {
      l.named = true;
      ++counts_.overdue_batches;
      return &l;
    }
    if (due < timer_at_ && !l.named) timer_at_ = due;
    if (l.started >= 0.0 && l.brief && time + longest_brief < timer_at_) {
      timer_at_ = time + longest_brief;
    }
  }
  return nullptr;
}

WARPWRIGHT_INLINE void batcher_core::run_timer() noexcept {
  answers_later later{*this};
  for (bool ends = false; !ends;) {
    std::uint64_t const seen = timing_.count();
    double rest = 0.0;
    lane const* overdue = nullptr;
    std::size_t size = 0;
    double ran = 0.0;
    {
      unique_lock<spin_lock> const lock{store_->lock()};
      empty_inbox_for_lanes(later);
      double const time = now();
      policy_.expire(time);
      take_dropped(later);
      timer_at_ = policy_.next_expiry();
      overdue = overdue_lane(time);
      if (overdue != nullptr) {
        size = overdue->tickets.size();
        ran = time - overdue->started;
      }
      rest = timer_at_ < never ? timer_at_ - time : never;
      ends = ending_;
    }
    later.give_all();
    if (overdue != nullptr) {
      std::fprintf(stderr,
                   "warpwright: batcher: the batch of %zu on lane %zu has run for %.3g s; its "
                   "model may never return\n",
                   size, overdue->index, ran);
    } else if (!ends) {
      static_cast<void>(timing_.wait(seen, monotonic_after(rest)));
    }
  }
}

}  // namespace detail

WARPWRIGHT_END
