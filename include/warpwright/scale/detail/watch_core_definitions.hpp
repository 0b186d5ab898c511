// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/scale/detail/watch_core.hpp>

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

// A kernel may write it meanwhile.
inline unsigned long long read(unsigned long long const& counter) noexcept {
  return __atomic_load_n(&counter, __ATOMIC_RELAXED);
}

WARPWRIGHT_COLD inline watch_core::watch_core(communicator_core& comm, double deadline, mark record,
                                              source_location where)
    : comm_{comm}, deadline_{deadline > 0.0 ? deadline : comm.deadline()}, mark_{record} {
  if (!(deadline >= 0.0 && deadline <= 1e6)) {
    throw_invalid_argument(text{"rank_watch: the deadline is "} + deadline +
                               " s; above 0, and at most 1000000, is possible",
                           where);
  }
  scoped_device const device{device_id{comm.device()}, where};
  for (std::size_t i = 0; i < max_events; ++i) {
    events_.emplace_back(where);
    free_.push_back(i);
  }
  waiting_.reserve(max_events);
  void* memory = nullptr;
  check(
      cudaHostAlloc(&memory, sizeof(replay_counters), cudaHostAllocPortable | cudaHostAllocMapped),
      "cudaHostAlloc", where);
  replays_ = new (memory) replay_counters{};
  comm_.set_hook(this);
}

WARPWRIGHT_COLD inline watch_core::~watch_core() {
  comm_.set_hook(nullptr);
  device_scope const device{comm_.device()};
  relaxed_capture_mode const relaxed;
  discard(cudaFreeHost(replays_));
}

// Before a call: in a capture, each replay says that it begins.
WARPWRIGHT_COLD inline void watch_core::calls(stream_ref stream, source_location where) {
  capture_info const info = get_capture_info(stream, where);
  if (info.status != cudaStreamCaptureStatusActive) return;
  if (info.id != capture_ && captures_ < replay_counters::max_captures) {
    capture_ = info.id;
    mark_(stream, &replays_->collectives[captures_++], &replays_->expected, where);
  }
}

inline void watch_core::called(stream_ref stream, collective_call const& call,
                               source_location where) {
  if (call.captured != 0) {
    if (get_capture_info(stream, where).id != capture_) return;  // more graphs than places
    __atomic_fetch_add(&replays_->collectives[captures_ - 1], 1, __ATOMIC_RELAXED);
    mark_(stream, nullptr, &replays_->done, where);
    return;
  }
  unique_lock<mutex> const lock{mutex_};
  if (free_.empty()) return;  // the next one that has an event stands for it, too
  std::size_t const index = free_.back();
  events_[index].record(stream.get(), where);
  free_.pop_back();
  if (waiting_.empty()) progress_ = monotonic_nanoseconds();
  waiting_.push_back({call.number, index});
}

WARPWRIGHT_COLD inline void watch_core::describe(rank_state& state) noexcept {
  {
    unique_lock<mutex> const lock{mutex_};
    if (!waiting_.empty()) state.completed = waiting_.front().number - 1;
  }
  state.replays = read(replays_->done);
  state.replay = read(replays_->expected) > state.replays ? 1 : 0;
}

WARPWRIGHT_COLD inline void watch_core::tick() noexcept {
  unique_lock<mutex> const lock{mutex_};
  std::uint64_t const now = monotonic_nanoseconds();
  unsigned long long const done = read(replays_->done);
  bool const replays = read(replays_->expected) > done;
  if (done != replayed_ || (!replays && waiting_.empty())) progress_ = now;
  replayed_ = done;
  {
    device_scope const device{comm_.device()};
    relaxed_capture_mode const relaxed;
    std::size_t ended = 0;
    for (; ended < waiting_.size(); ++ended) {
      if (discard(cudaEventQuery(events_[waiting_[ended].event].get())) == cudaErrorNotReady) break;
      free_.push_back(waiting_[ended].event);
      completed_.store(waiting_[ended].number, memory_order::release);
    }
    if (ended != 0) progress_ = now;
    waiting_.remove_front(ended);
  }
  if ((waiting_.empty() && !replays) || told_ || comm_.is_lost()) {
    told_ = told_ && comm_.is_lost();  // a new group begins anew
    return;
  }
  if (static_cast<double>(now - progress_) < deadline_ * 1e9) return;
  told_ = true;
  comm_.fail_hanging(text{"no collective has completed within "} + deadline_ + " s");
}

WARPWRIGHT_COLD inline std::vector<collective_record> watch_core::last(std::size_t most) const {
  std::vector<collective_record> all;
  std::uint64_t const called = comm_.called();
  std::uint64_t const count =
      most < communicator_core::ring_size ? most : communicator_core::ring_size;
  for (std::uint64_t n = called > count ? called - count + 1 : 1; n <= called; ++n) {
    collective_call call;
    if (!comm_.find_call(n, call)) continue;
    all.push_back({call.number, collective_name(call.operation), call.bytes, call.captured != 0,
                   call.captured == 0 && n <= completed()});
  }
  return all;
}

WARPWRIGHT_COLD inline std::string watch_core::to_text(std::size_t most) const {
  string_builder all;
  for (collective_record const& r : last(most)) {
    all += string_builder{"#"} + r.number + " " + r.name + " " + r.bytes + " B" +
           (r.captured    ? " (captured)"
            : r.completed ? ""
                          : " (not completed)") +
           "\n";
  }
  return all;
}

WARPWRIGHT_COLD inline std::string watch_core::to_json(std::size_t most) const {
  string_builder all{"["};
  for (collective_record const& r : last(most)) {
    if (all.size() > 1) all += ",";
    all += string_builder{"{\"number\":"} + r.number + ",\"name\":\"" + r.name +
           "\",\"bytes\":" + r.bytes + ",\"captured\":" + (r.captured ? "true" : "false") +
           ",\"completed\":" + (r.completed ? "true" : "false") + "}";
  }
  return all + "]";
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
