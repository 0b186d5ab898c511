// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/scale/detail/communicator_core.hpp>

#include <vector>

WARPWRIGHT_BEGIN

/// A collective that a rank has called, as rank_watch records it.
struct collective_record {
  std::uint64_t number = 0;  ///< from 1, in the order of the calls
  char const* name = "";     ///< "all_reduce"
  std::uint64_t bytes = 0;   ///< of the larger buffer
  bool captured = false;     ///< recorded in a graph
  bool completed = false;
};

namespace detail {

/// Counters that kernels of captured graphs change, in page-locked memory.
struct replay_counters {
  unsigned long long begun, ended;  // collectives of replays

  // A kernel may write it meanwhile.
  static unsigned long long read(unsigned long long const& counter) noexcept {
    return __atomic_load_n(&counter, __ATOMIC_RELAXED);
  }
};

/// A rank_watch without its kernels.
class watch_core final : public collective_hook, noncopyable {
 public:
  /// Records a kernel that adds 1 to a counter.
  using mark = void (*)(stream_ref, unsigned long long* counter, source_location where);

  WARPWRIGHT_COLD watch_core(communicator_core& comm, double deadline, mark record,
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
    check(cudaHostAlloc(&memory, sizeof(replay_counters),
                        cudaHostAllocPortable | cudaHostAllocMapped),
          "cudaHostAlloc", where);
    replays_ = new (memory) replay_counters{};
    try {
      comm_.set_hook(this, where);
    } catch (...) {
      discard(cudaFreeHost(replays_));
      throw;
    }
  }
  WARPWRIGHT_COLD ~watch_core() {
    if (!comm_.is_in_own_process()) return;  // in a child of fork() a lock may stay locked
    comm_.set_hook(nullptr, source_location::current());
    device_scope const device{comm_.device()};
    relaxed_capture_mode const relaxed;
    discard(cudaFreeHost(replays_));
  }

  [[nodiscard]] std::uint64_t completed() const noexcept {
    return completed_.load(memory_order::acquire);
  }
  WARPWRIGHT_COLD std::vector<collective_record> last(std::size_t most) const {
    std::vector<collective_record> all;
    std::uint64_t const called = comm_.called();
    std::uint64_t const ring = communicator_core::ring_size;
    std::uint64_t const count = most < ring ? most : ring;
    for (std::uint64_t n = called > count ? called - count + 1 : 1; n <= called; ++n) {
      collective_call call;
      if (!comm_.find_call(n, call)) continue;
      all.push_back({call.number, collective_name(call.operation), call.bytes, call.captured != 0,
                     call.captured == 0 && n <= completed()});
    }
    return all;
  }
  // Around each call in a capture, so that each replay counts it.
  WARPWRIGHT_COLD void calls(stream_ref stream, source_location where) override {
    mark_(stream, &replays_->begun, where);
  }
  void called(stream_ref stream, collective_call const& call, source_location where) override {
    if (call.captured != 0) return mark_(stream, &replays_->ended, where);
    unique_lock<mutex> lock{mutex_};
    if (free_.empty()) {
      free_.push_back(events_.size());
      events_.emplace_back(where);
    }
    std::size_t const index = free_.back();
    free_.pop_back();
    lock.unlock();  // CUDA may wait here for a queue that is full, and the hang is to be seen
    events_[index].record(stream.get(), where);
    lock.lock();
    if (waiting_.empty()) progress_ = monotonic_nanoseconds();
    // What a send or a receive waits for has no number.
    std::uint64_t const before = call.operation < collective::send ? call.number - 1 : call.number;
    waiting_.push_back({call.number, before, index});
  }
  WARPWRIGHT_COLD void begin_group() noexcept override {
    unique_lock<mutex> const lock{mutex_};
    for (watched const& w : waiting_) free_.push_back(w.event);
    waiting_.clear();
    completed_.store(0, memory_order::release);
    replays_->ended = replays_->begun;  // no graph is left
    ended_before_ = replays_->ended;
    told_ = false;
  }
  WARPWRIGHT_COLD void describe(rank_state& state) noexcept override {
    unique_lock<mutex> const lock{mutex_};
    poll();
    if (!waiting_.empty()) state.completed = waiting_.front().before;
    unsigned long long const ended = replay_counters::read(replays_->ended);
    state.replays = ended - ended_before_;
    state.replay = replay_counters::read(replays_->begun) > ended ? 1 : 0;
  }
  WARPWRIGHT_COLD double tick() noexcept override {
    unique_lock<mutex> const lock{mutex_};
    std::uint64_t const now = monotonic_nanoseconds();
    unsigned long long const ended = replay_counters::read(replays_->ended);
    bool const replays = replay_counters::read(replays_->begun) > ended;
    if (poll() || ended != seen_ended_ || (!replays && waiting_.empty())) progress_ = now;
    seen_ended_ = ended;
    bool const waits = !waiting_.empty() || replays;
    bool const late = static_cast<double>(now - progress_) >= deadline_ * 1e9;
    if (told_ || !waits || !late || comm_.is_lost()) return 0.0;
    told_ = true;
    return deadline_;
  }

 private:
  static constexpr std::size_t max_events = 256;
  struct watched {
    std::uint64_t number, before;  // `before` has completed
    std::size_t event;
  };

  // @return whether collectives have completed
  bool poll() noexcept {
    device_scope const device{comm_.device()};
    relaxed_capture_mode const relaxed;
    std::size_t ended = 0;
    for (; ended < waiting_.size(); ++ended) {
      cudaError_t const status = cudaEventQuery(events_[waiting_[ended].event].get());
      if (discard(status) == cudaErrorNotReady) break;
      free_.push_back(waiting_[ended].event);
      completed_.store(waiting_[ended].number, memory_order::release);
    }
    waiting_.remove_front(ended);
    return ended != 0;
  }

  communicator_core& comm_;
  double deadline_;
  mark mark_;
  replay_counters* replays_ = nullptr;
  mutable mutex mutex_;
  array<event> events_;
  array<std::size_t> free_;
  array<watched> waiting_;      // in their order; a stream may pass another
  std::uint64_t progress_ = 0;  // when a collective, or one of a replay, last completed
  unsigned long long seen_ended_ = 0, ended_before_ = 0;
  atomic<std::uint64_t> completed_;
  bool told_ = false;
};

}  // namespace detail

WARPWRIGHT_END
