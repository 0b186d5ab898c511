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

// The device is lost: no request can be answered any more.
WARPWRIGHT_INLINE void batcher_core::close(char const* text) noexcept {
  answers_later later{*this};
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
  later.give_all(text);
  room();
}

WARPWRIGHT_INLINE drain_report batcher_core::drain(double seconds, source_location where) {
  if (is_lane()) {
    throw_invalid_argument("batcher: drain() by a model would wait for that model", where);
  }
  std::uint64_t const began = monotonic_nanoseconds();
  std::uint64_t const until = monotonic_after(seconds);
  drain_report report;
  std::size_t outstanding = 0;
  bool first = true;
  for (std::size_t rest = 1; rest != 0;) {
    std::uint64_t const seen = changes_.load(memory_order::acquire);
    answers_later later{*this};
    {
      unique_lock<spin_lock> const lock{store_->lock()};
      empty_inbox_for_lanes(later);
      closed_.store(true, memory_order::release);
      rest = policy_.queued() + policy_.running();
      if (first) outstanding = rest;
      rest += giving_.load(memory_order::acquire);
    }
    later.give_all();
    if (first) {
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
  answers_later later{*this};
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
    for (ticket_slot* const slot : l.tickets) {
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
