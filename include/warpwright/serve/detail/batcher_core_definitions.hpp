// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/serve/detail/batcher_core.hpp>

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/error/exception_kind.hpp>
#include <warpwright/core/detail/text/figures.hpp>

#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

/// Answers that are given when the lock has been left: who waits is woken.
struct batcher_core::answers_later {
  struct entry {
    ticket_slot* slot;
    ticket_status status;
    std::uint32_t releases;
    double waited;
    double predicted;
  };
  array<entry> entries;
  lane* to_wake = nullptr;

  void add(entry const& e) noexcept {
    try {
      entries.push_back(e);
    } catch (...) {  // no memory: at once, then
      give(e);
    }
  }
  static void give(entry const& e) noexcept {
    ticket_store::answer(*e.slot, e.status, e.releases, e.waited, e.predicted);
  }
  // @return whether there were any
  bool give_all() noexcept {
    if (to_wake != nullptr) wake_lane(*exchange(to_wake, nullptr));
    for (entry const& e : entries) give(e);
    bool const any = !entries.empty();
    entries.clear();
    return any;
  }
};

WARPWRIGHT_INLINE batcher_core::batcher_core(batcher_options const& options,
                                             array<lane_source> const& lanes,
                                             latency_model const& model, batch_model run,
                                             sizes item, source_location where)
    : options_{values_of(options)},
      item_{item},
      model_{std::move(run)},
      store_{nullptr},
      policy_{options, model, devices_of(lanes, devices_, where), lanes.size(), where} {
  if (options_.max_items == 0) options_.max_items = model.last();
  std::size_t const bytes = item.input_bytes + item.output_bytes;
  if (options_.limit_bytes < bytes) {
    throw_invalid_argument(text{"batcher: limit_bytes of "} + options_.limit_bytes +
                               ", and an input and an output have " + bytes +
                               "; raise the limit, or pass pointers",
                           where);
  }
  // Large inputs are copied to the device from where they are.
  direct_ = !options_.host_data && item.input_bytes >= (std::size_t{32} << 10U);
  made_ = now();
  timer_at_.store(~std::uint64_t{0}, memory_order::relaxed);
  counts_.lanes = lanes.size();
  store_ = new ticket_store{item.input_bytes, item.output_bytes, direct_};
  try {
    start(lanes, where);
  } catch (...) {
    stop();
    throw;
  }
}

WARPWRIGHT_INLINE int const* batcher_core::devices_of(array<lane_source> const& lanes,
                                                      array<int>& devices, source_location where) {
  for (lane_source const& from : lanes) {
    int device = 0;
    if (from.pool != nullptr) {
      device = from.pool->device().value();
    } else {
      scoped_stream_device const current{from.stream.get()};
      check(cudaGetDevice(&device), "cudaGetDevice", where);
    }
    devices.push_back(device);
  }
  return devices.begin();
}

WARPWRIGHT_INLINE void batcher_core::start(array<lane_source> const& lanes, source_location where) {
  lanes_ = new lane[lanes.size()];
  lane_count_ = lanes.size();
  for (std::size_t i = 0; i < lane_count_; ++i) {
    lanes_[i].core = this;
    lanes_[i].index = i;
    lanes_[i].device = devices_[i];
    make(lanes_[i], lanes[i], where);
  }
  int error = timer_.start<&batcher_core::run_timer>(*this);
  for (std::size_t i = 0; i < lane_count_ && error == 0; ++i) {
    error = lanes_[i].thread.template start<&lane::run>(lanes_[i]);
  }
  if (error != 0) {
    throw std::runtime_error{(string_builder{"batcher: the system refuses a thread: "} +
                              std::strerror(error) + "; a batcher has one a lane and one more")
                                 .str()};
  }
}

WARPWRIGHT_INLINE void batcher_core::make(lane& l, lane_source const& from, source_location where) {
  if (from.pool != nullptr) {
    l.lease = from.pool->try_lease(where);
    if (!l.lease) {
      throw_invalid_argument(text{"batcher: lane "} + l.index +
                                 " finds no free stream in its stream_pool; give a larger pool, or "
                                 "fewer lanes",
                             where);
    }
    l.stream = l.lease.stream();
  } else {
    l.stream = from.stream;
  }
  l.slots.reserve(options_.max_items);
  l.failures = new std::string[options_.max_items];
  device_scope const current{l.device};
  check(current.status(), "cudaSetDevice", where);
  relaxed_capture_mode const relaxed{where};
  std::size_t const in = options_.max_items * item_.input_bytes;
  std::size_t const out = options_.max_items * item_.output_bytes;
  auto const host = [&](char*& to, std::size_t bytes) {
    check(cudaHostAlloc(reinterpret_cast<void**>(&to), bytes, cudaHostAllocPortable),
          "cudaHostAlloc", where);
    std::memset(to, 0, bytes);
  };
  auto const device = [&](char*& to, std::size_t bytes) {
    check(cudaMalloc(reinterpret_cast<void**>(&to), bytes), "cudaMalloc", where);
    check(cudaMemsetAsync(to, 0, bytes, l.stream.get()), "cudaMemsetAsync", where);
  };
  if (!direct_) host(l.host_in, in);
  host(l.host_out, out);
  if (options_.host_data) return;
  device(l.device_in, in);
  device(l.device_out, out);
}

WARPWRIGHT_INLINE batcher_core::~batcher_core() {
  if (is_lane()) {
    std::fputs("warpwright: a batcher is destroyed by its own model, which it would wait for\n",
               stderr);
    std::terminate();
  }
  static_cast<void>(drain(options_.drain, source_location::current()));
  stop();
}

WARPWRIGHT_INLINE void batcher_core::stop() noexcept {
  {
    unique_lock<spin_lock> const lock{store_->lock()};
    closed_.store(true, memory_order::release);
    ending_ = true;
  }
  wake_timer();
  timer_.join();
  for (std::size_t i = 0; i < lane_count_; ++i) {
    lane& l = lanes_[i];
    wake_lane(l);
    l.thread.join();
    device_scope const current{l.device};
    relaxed_capture_mode const relaxed;
    for (int attempt = 0; attempt < 2; ++attempt) {
      for (char** const host : {&l.host_in, &l.host_out}) {
        if (discard(cudaFreeHost(*host)) == cudaSuccess) *host = nullptr;
      }
      for (char** const device : {&l.device_in, &l.device_out}) {
        if (discard(cudaFree(*device)) == cudaSuccess) *device = nullptr;
      }
    }
    delete[] l.failures;
  }
  delete[] lanes_;
  store_->leave();
}

WARPWRIGHT_INLINE bool batcher_core::is_lane() const noexcept {
  for (std::size_t i = 0; i < lane_count_; ++i) {
    if (lanes_[i].number.load(memory_order::relaxed) == thread_number()) return true;
  }
  return false;
}

// ---------------------------------------------------------------- submission

WARPWRIGHT_INLINE ticket_slot* batcher_core::submit(void const* input, request const& r,
                                                    source_location where) {
  ticket_slot* const slot = store_->take(where);
  std::memcpy(slot->input, input, item_.input_bytes);
  slot->values = values_of(r);
  slot->retry_after_seconds = 0.0;
  if (closed_.load(memory_order::acquire)) {
    count(ticket_status::closing);
    slot->state.store(ticket_slot::ticket | ticket_slot::batcher, memory_order::relaxed);
    ticket_store::answer(*slot, ticket_status::closing, ticket_slot::batcher, 0.0, 0.0);
    return slot;
  }
  if (options_.full == when_full::block) {
    submit_blocking(*slot, r);
    return slot;
  }
  bool const expires = slot->values.deadline != 0.0;
  std::uint64_t deadline = ~std::uint64_t{0};
  if (expires) {
    slot->submitted = now();
    deadline = nanoseconds(slot->submitted + slot->values.deadline);
  }
  ticket_slot* head = inbox_.load(memory_order::relaxed);
  do {
    slot->next = head;
  } while (!inbox_.compare_exchange_weak(head, slot, memory_order::seq_cst, memory_order::relaxed));
  if (attentive_.load(memory_order::seq_cst) == 0) {
    settle();
    return slot;
  }
  std::uint64_t at = timer_at_.load(memory_order::seq_cst);
  while (deadline < at && !timer_at_.compare_exchange_weak(at, deadline, memory_order::seq_cst,
                                                           memory_order::seq_cst)) {
  }
  if (deadline < at) wake_timer();
  return slot;
}

WARPWRIGHT_INLINE void batcher_core::settle() noexcept {
  answers_later later;
  bool timer = false;
  {
    unique_lock<spin_lock> const lock{store_->lock()};
    empty_inbox_for_lanes(later);
    std::uint64_t const at = nanoseconds(policy_.next_expiry());
    timer = at < timer_at_.load(memory_order::relaxed);
    if (timer) timer_at_.store(at, memory_order::relaxed);
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
    answers_later later;
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
  answers_later later;
  {
    unique_lock<spin_lock> const lock{store_->lock()};
    empty_inbox_for_lanes(later);
    queued = slot.status() == ticket_status::pending && policy_.cancel(slot.index);
  }
  later.give_all();
  if (ticket_store::answer(slot, ticket_status::cancelled, queued ? ticket_slot::batcher : 0U, 0.0,
                           0.0)) {
    count(ticket_status::cancelled);
  }
  if (queued) room();
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

// ---------------------------------------------------------------- lanes

WARPWRIGHT_INLINE void batcher_core::wake_lane(lane& l) noexcept {
  l.woken.store(true, memory_order::seq_cst);
  if (!l.asleep.load(memory_order::seq_cst)) return;
  { unique_lock<mutex> const lock{l.sleeping}; }
  l.wake.notify_one();
}

// The lane will not look into the inbox for a while.
WARPWRIGHT_INLINE void batcher_core::be_away() noexcept {
  static_cast<void>(attentive_.fetch_sub(1, memory_order::seq_cst));
  if (inbox_.load(memory_order::seq_cst) != nullptr) settle();
}

WARPWRIGHT_INLINE void batcher_core::sleep(lane& l, double seconds) noexcept {
  // To sleep and be woken takes some 50 us.
  constexpr std::uint64_t looking = 20000;  // ns
  std::uint64_t const until = monotonic_after(seconds);
  std::uint64_t const began = monotonic_nanoseconds();
  std::uint64_t t = began;
  for (int step = 0; t < until && t - began < looking; ++step) {
    for (int i = 0; i < 16; ++i) {
      if (l.woken.load(memory_order::acquire)) return;
      if (inbox_.load(memory_order::relaxed) != nullptr) return;
      spin_wait(step);
    }
    t = monotonic_nanoseconds();
  }
  be_away();
  {
    unique_lock<mutex> const lock{l.sleeping};
    l.asleep.store(true, memory_order::seq_cst);
    while (!l.woken.load(memory_order::seq_cst) && monotonic_nanoseconds() < until) {
      until == ~std::uint64_t{0} ? l.wake.wait(l.sleeping) : l.wake.wait_until(l.sleeping, until);
    }
    l.asleep.store(false, memory_order::relaxed);
  }
  attentive_.fetch_add(1, memory_order::seq_cst);
}

WARPWRIGHT_INLINE void batcher_core::run_lane(lane& l) noexcept {
  l.number.store(thread_number(), memory_order::relaxed);
  static_cast<void>(set_up_thread(l.device));
  answers_later later;
  attentive_.fetch_add(1, memory_order::seq_cst);
  for (;;) {
    batch_decision decision;
    lane* other = nullptr;
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
        l.woken.store(false, memory_order::relaxed);
        seconds = decision.until < never ? decision.until - time : never;
      } else if (decision.items != 0) {
        begin_batch(l, decision, time);
        if (policy_.queued() != 0) other = lane_to_wake();
      }
    }
    if (later.give_all()) room();
    if (other != nullptr) wake_lane(*other);
    if (decision.items != 0) {
      bool const brief = decision.predicted_seconds < 10e-6;
      if (!brief) be_away();
      run_batch(l, decision.padded);
      if (!brief) attentive_.fetch_add(1, memory_order::seq_cst);
    } else if (idle) {
      sleep(l, seconds);
    } else {
      be_away();
      return;
    }
  }
}

// Under the lock.
WARPWRIGHT_INLINE void batcher_core::begin_batch(lane& l, batch_decision const& decision,
                                                 double time) noexcept {
  l.slots.clear();
  std::uint32_t const* const ids = policy_.batch(l.index);
  for (std::size_t i = 0; i < decision.items; ++i) {
    l.slots.push_back(store_->at(ids[i]));
    counts_.wait_seconds += time - policy_.arrival(ids[i]);
  }
  l.started = time;
  l.named = false;
  ++counts_.batches;
  counts_.items += decision.items;
  counts_.padded_items += decision.padded;
  std::size_t power = 0;
  while ((std::size_t{1} << power) < decision.items) ++power;
  ++counts_.sizes[power];
}

WARPWRIGHT_INLINE void batcher_core::run_batch(lane& l, std::size_t padded) {
  std::size_t const n = l.slots.size();
  bool const ok = run_range(l, 0, n, padded);
  {
    unique_lock<spin_lock> const lock{store_->lock()};
    double const time = now();
    for (ticket_slot* const slot : l.slots)
      slot->answered_seconds = time - policy_.arrival(slot->index);
    policy_.finished(l.index, time, ok);
    counts_.busy_seconds += time - l.started;
    l.started = -1.0;
  }
  // Counted first, so that who has an answer finds it in the statistics.
  auto const outcome = [&](std::size_t i) {
    return ok || l.failures[i].empty() ? ticket_status::answered : ticket_status::failed;
  };
  if (ok) count(ticket_status::answered, n);
  for (std::size_t i = 0; i < n && !ok; ++i) count(outcome(i));
  for (std::size_t i = 0; i < n; ++i) {
    ticket_slot& slot = *l.slots[i];
    ticket_status const status = outcome(i);
    bool const given =
        status == ticket_status::answered
            ? ticket_store::answer(slot, status, ticket_slot::batcher)
            : ticket_store::answer(slot, status, ticket_slot::batcher, slot.answered_seconds, 0.0,
                                   l.failures[i].c_str());
    if (!given) count(status, ~std::size_t{0});
  }
  room();
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
      std::memcpy(l.slots[first + i]->output, l.host_out + i * item_.output_bytes,
                  item_.output_bytes);
    }
    return !some_failed;
  }
  // What the model has enqueued may still use the lane's memory.
  bool const lost = is_sticky(discard(cudaStreamSynchronize(l.stream.get()))) ||
                    kind_of(error) == exception_kind::device_lost;
  std::string text;
  try {
    text = text_of(error);
  } catch (...) {  // no memory for it
  }
  if (lost) close(text.c_str());
  if (options_.bisect && count > 1 && !lost) {
    std::size_t const half = count / 2;
    for (std::size_t i = 0; i < count; ++i) l.failures[first + i].clear();
    static_cast<void>(run_range(l, first, half, padded_size(half)));
    static_cast<void>(run_range(l, first + half, count - half, padded_size(count - half)));
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

WARPWRIGHT_INLINE std::size_t batcher_core::padded_size(std::size_t items) const noexcept {
  std::size_t padded = ~std::size_t{0};
  for (std::size_t i = 0; i < options_.size_count && i < batcher_values::most_sizes; ++i) {
    std::size_t const size = options_.sizes[i];
    if (size >= items && size < padded) padded = size;
  }
  return padded == ~std::size_t{0} ? items : padded;
}

// @return whether the model has failed single requests
WARPWRIGHT_INLINE bool batcher_core::call_model(lane& l, std::size_t first, std::size_t count,
                                                std::size_t padded) {
  std::size_t const in = item_.input_bytes;
  source_location const here = source_location::current();
  for (std::size_t i = 0; i < count; ++i) {
    l.failures[first + i].clear();
    char const* const input = l.slots[first + i]->input;
    if (direct_) {
      check(
          cudaMemcpyAsync(l.device_in + i * in, input, in, cudaMemcpyHostToDevice, l.stream.get()),
          "cudaMemcpyAsync", here);
    } else {
      std::memcpy(l.host_in + i * in, input, in);
    }
  }
  batch_state batch;
  batch.inputs = options_.host_data ? l.host_in : l.device_in;
  batch.outputs = options_.host_data ? l.host_out : l.device_out;
  batch.size = batch.results = count;
  batch.padded = padded;
  batch.key = &policy_.key(l.index);
  batch.lane = l.index;
  batch.failures = l.failures + first;
  if (!options_.host_data && !direct_) {
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

// ---------------------------------------------------------------- the timer

WARPWRIGHT_INLINE void batcher_core::wake_timer() noexcept {
  {
    unique_lock<mutex> const lock{timing_};
    timer_woken_ = true;
  }
  time_.notify_one();
}

WARPWRIGHT_INLINE void batcher_core::run_timer() noexcept {
  answers_later later;
  for (;;) {
    double rest = 0.0;
    bool ends = false;
    lane const* overdue = nullptr;
    std::size_t size = 0;
    double ran = 0.0;
    {
      unique_lock<spin_lock> const lock{store_->lock()};
      // Before the inbox is read: who submits sees that the timer sleeps too long, or it sees him.
      timer_at_.store(~std::uint64_t{0}, memory_order::seq_cst);
      empty_inbox_for_lanes(later);
      double const time = now();
      policy_.expire(time);
      take_dropped(later);
      double next = policy_.next_expiry();
      for (std::size_t i = 0; i < lane_count_; ++i) {
        lane& l = lanes_[i];
        double const due = (l.started < 0.0 ? time : l.started) + options_.watchdog;
        if (l.started >= 0.0 && !l.named && overdue == nullptr && time >= due) {
          overdue = &l;
          size = l.slots.size();
          ran = time - l.started;
          l.named = true;
          ++counts_.overdue_batches;
        } else if (due < next && !l.named) {
          next = due;
        }
      }
      std::uint64_t at = timer_at_.load(memory_order::seq_cst);
      std::uint64_t const own = nanoseconds(next);
      while (own < at && !timer_at_.compare_exchange_weak(at, own, memory_order::seq_cst,
                                                          memory_order::seq_cst)) {
      }
      rest = next < never ? next - time : never;
      ends = ending_;
    }
    if (later.give_all()) room();
    if (overdue != nullptr) {
      std::fprintf(stderr,
                   "warpwright: batcher: the batch of %zu on lane %zu has run for %.3g s; its "
                   "model may never return\n",
                   size, overdue->index, ran);
      continue;
    }
    if (ends) return;
    std::uint64_t const until = monotonic_after(rest);
    unique_lock<mutex> const lock{timing_};
    while (!timer_woken_ && monotonic_nanoseconds() < until) {
      until == ~std::uint64_t{0} ? time_.wait(timing_) : time_.wait_until(timing_, until);
    }
    timer_woken_ = false;
  }
}

// ---------------------------------------------------------------- the end

// The device is lost: no request can be answered any more.
WARPWRIGHT_INLINE void batcher_core::close(char const* text) noexcept {
  answers_later later;
  {
    unique_lock<spin_lock> const lock{store_->lock()};
    empty_inbox_for_lanes(later);
    closed_.store(true, memory_order::release);
    try {
      policy_.close(now());
    } catch (...) {  // no memory for the list: they fail one batch after another
    }
    for (dropped_request const& d : policy_.dropped()) {
      count(ticket_status::failed);
      later.add({store_->at(d.id), ticket_status::failed, ticket_slot::batcher, 0.0, 0.0});
    }
    policy_.clear_dropped();
  }
  for (answers_later::entry const& e : later.entries) {
    ticket_store::answer(*e.slot, e.status, e.releases, 0.0, 0.0, text);
  }
  room();
}

WARPWRIGHT_INLINE drain_report batcher_core::drain(double seconds, source_location where) {
  if (is_lane()) {
    throw_invalid_argument("batcher: drain() by a model would wait for that model", where);
  }
  std::uint64_t const began = monotonic_nanoseconds();
  std::uint64_t const until = monotonic_after(seconds);
  auto const left = [&] { return policy_.queued() + policy_.running(); };
  drain_report report;
  std::size_t outstanding = 0;
  bool first = true;
  for (std::size_t rest = 1; rest != 0;) {
    std::uint64_t const seen = changes_.load(memory_order::acquire);
    answers_later later;
    {
      unique_lock<spin_lock> const lock{store_->lock()};
      empty_inbox_for_lanes(later);
      closed_.store(true, memory_order::release);
      rest = left();
    }
    later.give_all();
    if (first) {
      outstanding = rest;
      room();  // submissions that wait for room
      first = false;
      continue;
    }
    if (rest == 0) break;
    if (monotonic_nanoseconds() >= until) {
      give_up(report);
      break;
    }
    wait_for_change(seen, until);
  }
  report.answered = outstanding;
  report.seconds = static_cast<double>(monotonic_nanoseconds() - began) * 1e-9;
  return report;
}

// Answers with `closing` what is left.
WARPWRIGHT_INLINE void batcher_core::give_up(drain_report& report) noexcept {
  answers_later later;
  unique_lock<spin_lock> lock{store_->lock()};
  empty_inbox_for_lanes(later);
  try {
    policy_.close(now());
  } catch (...) {  // no memory for the list: the lanes answer them
  }
  report.closing += policy_.dropped().size();
  take_dropped(later);
  for (std::size_t i = 0; i < lane_count_; ++i) {
    lane& l = lanes_[i];
    if (l.started < 0.0) continue;
    ++report.stuck_batches;
    // The lane keeps the slots until its batch ends.
    for (ticket_slot* const slot : l.slots) {
      if (!ticket_store::answer(*slot, ticket_status::closing, 0U, 0.0, 0.0)) continue;
      ++report.closing;
      count(ticket_status::closing);
    }
  }
  lock.unlock();
  later.give_all();
  room();
}

WARPWRIGHT_INLINE batcher_statistics batcher_core::statistics() noexcept {
  settle();
  unique_lock<spin_lock> const lock{store_->lock()};
  batcher_statistics s = counts_;
  auto const ended = [&](ticket_status status) {
    return ended_[static_cast<unsigned>(status)].load(memory_order::relaxed);
  };
  s.answered = ended(ticket_status::answered);
  s.late = ended(ticket_status::late);
  s.shed = ended(ticket_status::shed);
  s.cancelled = ended(ticket_status::cancelled);
  s.failed = ended(ticket_status::failed);
  s.closing = ended(ticket_status::closing);
  s.queued = policy_.queued();
  s.running = policy_.running();
  s.keys = policy_.keys();
  double const time = now();
  s.elapsed_seconds = time - made_;
  for (std::size_t i = 0; i < lane_count_; ++i) {
    if (lanes_[i].started >= 0.0) s.busy_seconds += time - lanes_[i].started;
  }
  return s;
}

}  // namespace detail

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string drain_report::to_text() const {
  detail::string_builder t = detail::counted(answered, "request");
  t = t + " ended in " + detail::format_seconds(seconds) + ", " + closing +
      " of them without an answer; " + stuck_batches + " batches still run";
  return t;
}

WARPWRIGHT_END
