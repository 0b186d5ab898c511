// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/serve/detail/batcher_core.hpp>

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/detail/text/figures.hpp>

#include <cstring>
#include <stdexcept>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE batcher_core::batcher_core(batcher_options const& options,
                                             array<lane_source> const& lanes,
                                             latency_model const& model, batch_model run,
                                             sizes item, source_location where)
    : item_{item},
      model_{std::move(run)},
      store_{nullptr},
      policy_{options, model, lanes.size(), devices_of(lanes, devices_, where), where},
      options_{policy_.options()} {
  std::size_t const bytes = item.input_bytes + item.output_bytes;
  if (options_.limit_bytes < bytes) {
    throw_invalid_argument(text{"batcher: limit_bytes of "} + options_.limit_bytes +
                               ", and an input and an output have " + bytes +
                               "; raise the limit, or pass pointers",
                           where);
  }
  made_ = now();
  counts_.lanes = lanes.size();
  store_ = new ticket_store{item.input_bytes, item.output_bytes};
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
  l.tickets.reserve(options_.max_items);
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
  host(l.host_in, in);
  host(l.host_out, out);
  if (options_.host_data) return;
  device(l.device_in, in);
  device(l.device_out, out);
}

WARPWRIGHT_INLINE batcher_core::~batcher_core() {
  static_cast<void>(drain(options_.drain, source_location::current()));
  stop();
}

WARPWRIGHT_INLINE void batcher_core::stop() noexcept {
  store_->end_visits();
  {
    unique_lock<spin_lock> const lock{store_->lock()};
    closed_.store(true, memory_order::release);
    ending_ = true;
  }
  timing_.notify();
  timer_.join();
  for (std::size_t i = 0; i < lane_count_; ++i) {
    lane& l = lanes_[i];
    l.wake.notify();
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

WARPWRIGHT_INLINE ticket_slot* batcher_core::submit(void const* input, request const& r) {
  ticket_slot* const slot = store_->take();
  std::memcpy(slot->input, input, item_.input_bytes);
  slot->values = values_of(r);
  slot->figures = answer_figures{};
  if (options_.full == when_full::block) {
    submit_blocking(*slot);
    return slot;
  }
  if (slot->values.deadline > 0.0) slot->submitted = now();
  // Beyond it who submits helps, so that requests do not come in faster than they are decided on.
  constexpr unsigned deepest = 256;
  ticket_slot* head = inbox_.load(memory_order::relaxed);
  unsigned depth = 1;
  do {
    slot->next = head;
    if (head != nullptr) depth = head->depth.load(memory_order::relaxed) + 1;
    slot->depth.store(depth, memory_order::relaxed);
  } while (!inbox_.compare_exchange_weak(head, slot, memory_order::seq_cst, memory_order::relaxed));
  // Where a lane looks soon, it decides, or who asks how the request ended.
  if (depth >= deepest || attentive_.load(memory_order::seq_cst) == 0) settle();
  return slot;
}

WARPWRIGHT_INLINE void batcher_core::submit_blocking(ticket_slot& slot) noexcept {
  std::uint64_t const until = monotonic_after(options_.max_block);
  slot.submitted = now();
  for (;;) {
    answers_later later{*this};
    std::uint64_t const seen = room_.count();
    bool const may_wait = monotonic_nanoseconds() < until && !is_lane();
    bool decided = false;
    double left = never;
    {
      unique_lock<spin_lock> const lock{store_->lock()};
      double const time = now();
      if (slot.values.deadline > 0.0) left = slot.values.deadline - (time - slot.submitted);
      decided = admit(slot, time, later, may_wait);
      set_timer(policy_.next_expiry(), later);
    }
    later.give_all();
    if (decided) break;
    std::uint64_t const expiry = monotonic_after(left);
    static_cast<void>(room_.wait(seen, expiry < until ? expiry : until));
  }
  settle();
}

WARPWRIGHT_INLINE void batcher_core::settle() noexcept {
  answers_later later{*this};
  {
    unique_lock<spin_lock> const lock{store_->lock()};
    empty_inbox_for_lanes(later);
  }
  later.give_all();
}

// The timer looks at this time or before.
WARPWRIGHT_INLINE void batcher_core::set_timer(double at, answers_later& answers) noexcept {
  if (at >= timer_at_) return;
  timer_at_ = at;
  answers.wakes_timer = true;
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
    ticket_slot* const next = exchange(newest->next, oldest);
    oldest = newest;
    newest = next;
  }
  double const time = now();
  while (oldest != nullptr) {
    ticket_slot& slot = *oldest;
    oldest = slot.next;
    if (!(slot.values.deadline > 0.0)) slot.submitted = time;
    static_cast<void>(admit(slot, time, answers, false));
  }
  set_timer(policy_.next_expiry(), answers);
}

// @return false: a limit is reached, and it may wait for room
WARPWRIGHT_INLINE bool batcher_core::admit(ticket_slot& slot, double time, answers_later& answers,
                                           bool may_wait) noexcept {
  request r;
  set_values(r, slot.values);
  if (slot.values.deadline > 0.0) {
    r = r.deadline(slot.values.deadline - (time - slot.submitted));
  }
  admission a;
  try {
    if (closed_.load(memory_order::relaxed)) {
      a.refused = ticket_status::closing;
    } else {
      std::size_t const own = item_.input_bytes + item_.output_bytes;
      std::size_t const bytes = slot.values.bytes + own;
      a = policy_.submit(slot.index, r.bytes(bytes < own ? ~std::size_t{0} : bytes), time);
    }
  } catch (...) {
    a.refused = ticket_status::failed;  // no memory
  }
  take_dropped(answers);
  if (a.full && may_wait && a.retry_after_seconds < never) return false;
  ++counts_.submitted;
  slot.leave_inbox();
  if (a.admitted) {
    if (policy_.queued() > counts_.max_queued) counts_.max_queued = policy_.queued();
    return true;
  }
  if (a.full) ++counts_.shed_full;
  if (a.refused == ticket_status::shed && !a.full) ++counts_.shed_predicted;
  answers.add({&slot, a.refused, ticket_slot::batcher,
               answer_figures{0.0, a.predicted_seconds, a.retry_after_seconds}});
  return true;
}

// Of the policy's answers.
WARPWRIGHT_INLINE void batcher_core::take_dropped(answers_later& answers) noexcept {
  for (dropped_request const& d : policy_.dropped()) {
    ticket_slot* const slot = store_->at(d.id);
    if (d.running) slot->state.fetch_add(ticket_slot::timer, memory_order::relaxed);
    answers.add({slot, d.status, d.running ? ticket_slot::timer : ticket_slot::batcher,
                 answer_figures{d.waited_seconds, d.predicted_seconds, 0.0}});
  }
  policy_.clear_dropped();
}

WARPWRIGHT_INLINE void batcher_core::answers_later::add(entry const& e) noexcept {
  if (!exchange(any, true)) core.begin_answers();
  try {
    entries.push_back(e);
  } catch (...) {  // no memory: at once, then
    static_cast<void>(core.give(*e.slot, e.status, e.releases, e.figures));
  }
}

WARPWRIGHT_INLINE void batcher_core::answers_later::give_all() noexcept {
  if (to_wake != nullptr) exchange(to_wake, nullptr)->wake.notify();
  if (exchange(wakes_timer, false)) core.timing_.notify();
  for (entry const& e : entries) {
    bool const given = core.give(*e.slot, e.status, e.releases, e.figures,
                                 e.status == ticket_status::failed ? failure : nullptr);
    if (given && e.releases == ticket_slot::timer) {
      static_cast<void>(core.late_running_.fetch_add(1, memory_order::relaxed));
    }
  }
  entries.clear();
  if (exchange(any, false)) core.end_answers();
}

WARPWRIGHT_INLINE void batcher_core::cancel(ticket_slot& slot) noexcept {
  bool queued = false;
  answers_later later{*this};
  {
    unique_lock<spin_lock> const lock{store_->lock()};
    empty_inbox_for_lanes(later);
    queued = slot.status() == ticket_status::pending && policy_.cancel(slot.index);
    begin_answers();
  }
  later.give_all();
  static_cast<void>(
      give(slot, ticket_status::cancelled, queued ? ticket_slot::batcher : 0U, answer_figures{}));
  end_answers();
}

WARPWRIGHT_INLINE batcher_core::lane* batcher_core::lane_to_wake() noexcept {
  std::size_t const i = policy_.lane_to_wake();
  if (i >= lane_count_ || !exchange(lanes_[i].idle, false)) return nullptr;
  return &lanes_[i];
}

// Gives up what waits.
WARPWRIGHT_INLINE std::size_t batcher_core::close_queue(answers_later& answers,
                                                        ticket_status status) noexcept {
  closed_.store(true, memory_order::release);
  try {
    policy_.close(now());
  } catch (...) {  // no memory for the list: the lanes answer them
  }
  std::size_t const n = policy_.dropped().size();
  for (dropped_request const& d : policy_.dropped()) {
    answers.add({store_->at(d.id), status, ticket_slot::batcher,
                 answer_figures{d.waited_seconds, 0.0, 0.0}});
  }
  policy_.clear_dropped();
  return n;
}

// The device is lost: no request can be answered any more.
WARPWRIGHT_INLINE void batcher_core::fail_all(char const* text) noexcept {
  answers_later later{*this};
  {
    unique_lock<spin_lock> const lock{store_->lock()};
    empty_inbox_for_lanes(later);
    static_cast<void>(close_queue(later, ticket_status::failed));
  }
  later.failure = text;
  later.give_all();
}

WARPWRIGHT_INLINE drain_report batcher_core::drain(double seconds, source_location where) {
  if (is_lane()) {
    throw_invalid_argument("batcher: drain() by a model would wait for that model", where);
  }
  std::uint64_t const began = monotonic_nanoseconds();
  std::uint64_t const until = monotonic_after(seconds);
  drain_report report;
  for (bool first = true;; first = false) {
    std::uint64_t const seen = room_.count();
    answers_later later{*this};
    bool ends = false;
    {
      unique_lock<spin_lock> const lock{store_->lock()};
      policy_.end_delays();
      empty_inbox_for_lanes(later);
      closed_.store(true, memory_order::release);
      std::size_t const outstanding = policy_.queued() + policy_.running();
      if (first) report.answered = outstanding;
      ends = outstanding + giving_.load(memory_order::acquire) == 0;
      if (!ends && !first && monotonic_nanoseconds() >= until) {
        ends = true;
        report.closing = close_queue(later, ticket_status::closing);
        give_up_batches(report);
      }
    }
    later.give_all();
    if (ends) break;
    // First submissions that wait for room are told.
    first ? room_.notify() : static_cast<void>(room_.wait(seen, until));
  }
  report.seconds = static_cast<double>(monotonic_nanoseconds() - began) * 1e-9;
  return report;
}

// Answers what runs; the lanes keep the slots until their batches end.
WARPWRIGHT_INLINE void batcher_core::give_up_batches(drain_report& report) noexcept {
  for (std::size_t i = 0; i < lane_count_; ++i) {
    if (lanes_[i].started < 0.0) continue;
    ++report.stuck_batches;
    for (ticket_slot* const slot : lanes_[i].tickets) {
      if (give(*slot, ticket_status::closing, 0U, answer_figures{})) ++report.closing;
    }
  }
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
  s.late_running = late_running_.load(memory_order::relaxed);
  s.queued = policy_.queued();
  std::size_t const ended_now = s.answered + s.late + s.shed + s.cancelled + s.failed + s.closing;
  s.running = s.submitted > s.queued + ended_now ? s.submitted - s.queued - ended_now : 0;
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
      " of them with `closing`; " + stuck_batches +
      (stuck_batches == 1 ? " batch still runs" : " batches still run");
  return t;
}

WARPWRIGHT_END
