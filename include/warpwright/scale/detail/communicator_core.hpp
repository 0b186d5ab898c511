// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/launch/driver_function.hpp>
#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/core/device_id.hpp>
#include <warpwright/scale/detail/graph_count.hpp>
#include <warpwright/scale/detail/nccl_pair.hpp>
#include <warpwright/scale/detail/rank_store.hpp>

#include <exception>

#include <pthread.h>

WARPWRIGHT_BEGIN

namespace detail {

struct communicator_values {
  double deadline = 60.0;  // s
  bool checked = false;
};

/// What a rank_watch adds to a communicator.
class collective_hook {
 public:
  virtual void calls(stream_ref stream, source_location where) = 0;  // in a capture
  virtual void begin_group() noexcept = 0;
  virtual void called(stream_ref stream, collective_call const& call, source_location where) = 0;
  virtual void describe(rank_state& state) noexcept = 0;
  /// @return how long nothing has completed that should, in s, or 0
  virtual double tick() noexcept = 0;

 protected:
  ~collective_hook() = default;
};

/// A communicator without the types of its elements.
class communicator_core final : public store_events, noncopyable {
 public:
  static constexpr std::size_t ring_size = 4096;

  WARPWRIGHT_COLD communicator_core(store_place const& asked, communicator_values const& values,
                                    source_location where)
      : values_{values},
        device_{current_device(where).value()},
        nccl_{device_},
        graphs_{new graph_count},
        ring_{ring_size},
        place_{asked} {
    static_cast<void>(find_driver_function("cuStreamIsCapturing", is_capturing_));
    try {
      if (!(values.deadline > 0.0 && values.deadline <= 1e6)) {
        throw_invalid_argument(text{"communicator_options: the deadline is "} + values.deadline +
                                   " s; above 0, and at most 1000000, is possible",
                               where);
      }
      server_ = open_store(place_, values_.deadline, where);
      client_ = new store_client{place_, values_.deadline, where};
      client_->start(*this, where);
      init_nccl(where);
    } catch (...) {
      if (client_ != nullptr) client_->leave("has failed while its communicator was made");
      nccl_.abort();
      end();
      throw;
    }
  }
  WARPWRIGHT_COLD ~communicator_core() { end(); }
  /// Ends it, at once or, where graphs still have its collectives, when they are destroyed.
  WARPWRIGHT_COLD static void retire(communicator_core* core, bool by_exception) noexcept {
    if (core == nullptr || !core->process_.is_current())
      return;  // a child of fork() has no threads
    core->set_hook(nullptr, source_location::current());
    core->client_->leave(by_exception ? "has ended its communicator by an exception" : nullptr);
    if (core->server_ != nullptr) remove_store_file(core->place_);
    if (by_exception) core->lost_.store(true, memory_order::release);
    auto const end = [](void* object) -> void* {
      auto* const self = static_cast<communicator_core*>(object);
      while (!self->graphs_->none_soon()) {
      }
      self->close_nccl();
      delete self;
      return nullptr;
    };
    // NCCL destroys no communicator whose collectives are in graphs: it would wait for them.
    pthread_t thread{};
    if (core->graphs_->none_soon()) return static_cast<void>(end(core));
    core->client_->done();
    if (pthread_create(&thread, nullptr, end, core) == 0) {
      pthread_detach(thread);
    }  // without a thread it stays, which is better than a wait for ever
  }

  using nccl_call = ncclResult_t(ncclComm_t, cudaStream_t);
  void run(stream_ref stream, collective_call about, function_ref<nccl_call> call, char const* name,
           source_location where) {
    bool const counts = about.operation < collective::send;
    if (values_.checked && counts) check_same(about, where);
    bool watched = false;
    ncclResult_t result;
    {
      unique_lock<mutex> const lock{nccl_.calls()};
      if (is_lost() || get() == nullptr) throw_lost(where);
      bool const captures = captured(stream, where);
      if (captures) {
        graphs_->retain(stream, where);
        if (hook_ != nullptr) hook_->calls(stream, where);
      }
      about.captured = captures ? 1 : 0;
      {
        unique_lock<spin_lock> const ring_lock{ring_lock_};
        std::uint64_t const number = called() + (counts ? 1 : 0);
        about.number = number;
        if (counts) ring_[number % ring_size] = about;
        if (counts) hashes_[number % 8] = hash_with(hashes_[(number - 1) % 8], about);
        called_.store(number, memory_order::release);
      }
      // A send or receive has the number of the collective before it, which has not to end for it.
      in_call_.store(about.number + (counts ? 1 : 2), memory_order::release);
      result = call(get(), stream.get());
      in_call_.store(0, memory_order::release);
      watched = hook_ != nullptr;
      if (watched && nccl_.open_groups > 0) {
        pending_.push_back({stream, about});
        watched = false;
      }
    }
    if (result != ncclSuccess) settle(result, name, where);
    if (!watched) return;
    unique_lock<mutex> const lock{nccl_.calls()};
    if (hook_ != nullptr) hook_->called(stream, about, where);
  }
  /// Calls what calls collectives, which become one of NCCL's.
  WARPWRIGHT_COLD void group(function_ref<void()> calls, source_location where) {
    {
      unique_lock<mutex> const lock{nccl_.calls()};
      if (is_lost() || get() == nullptr) throw_lost(where);
      static_cast<void>(ncclGroupStart());
      ++nccl_.open_groups;
    }
    std::exception_ptr failure;
    try {
      calls();
    } catch (...) {
      failure = std::current_exception();
      // Before its end, which calls those of the group that came before, and may wait for others.
      client_->fail("has left a group of collectives by an exception");
    }
    ncclResult_t result;
    {
      unique_lock<mutex> const lock{nccl_.calls()};
      in_call_.store(called() + 1, memory_order::release);
      result = ncclGroupEnd();
      in_call_.store(0, memory_order::release);
      --nccl_.open_groups;
    }
    bool const failed = failure != nullptr || result != ncclSuccess;
    {
      unique_lock<mutex> const lock{nccl_.calls()};
      if (nccl_.open_groups != 0 && !failed) return;
      for (pending_call const& p : pending_) {
        if (hook_ != nullptr && !failed) hook_->called(p.stream, p.call, where);
      }
      pending_.clear();
    }
    if (failure != nullptr) std::rethrow_exception(failure);
    if (result != ncclSuccess) settle(result, "ncclGroupEnd", where);
  }
  WARPWRIGHT_COLD void exchange(char const* name, void const* mine, std::size_t bytes,
                                array<char>& all, source_location where) {
    unique_lock<mutex> const lock{exchanges_};
    if (is_lost()) throw_lost(where);
    std::size_t const most = max_message_bytes / 2 / static_cast<std::size_t>(ranks());
    if (bytes > most) {
      throw_invalid_argument(text{name} + ": " + bytes + " B of each rank; up to " + most +
                                 " B are possible by way of the hosts",
                             where);
    }
    if (client_->exchange(name, mine, bytes, all, values_.deadline)) return;
    if (is_lost()) throw_lost(where);
    throw_communicator_error(text{name} + ": rank 0, which has the store, has ended", where);
  }
  WARPWRIGHT_COLD void check(source_location where) {
    if (is_lost()) throw_lost(where);
    ncclResult_t result = ncclSuccess;
    {
      unique_lock<mutex> const lock{nccl_.calls()};
      if (get() == nullptr || ncclCommGetAsyncError(get(), &result) != ncclSuccess) {
        throw_lost(where);
      }
    }
    if (by_another(result) && another_ended()) result = ncclSuccess;
    settle(result, "NCCL", where);
  }
  void abort(text const& why) noexcept { client_->fail(why.empty() ? "has aborted" : why); }
  WARPWRIGHT_COLD void regroup(source_location where) {
    if (!graphs_->none_soon()) {
      throw_communicator_error(
          text{"regroup: collectives of this communicator are in "} + graphs_->count() +
              (graphs_->count() == 1 ? " graph" : " graphs") + ": destroy these first",
          where);
    }
    close_nccl();
    text problem = "";
    {
      unique_lock<mutex> const lock{exchanges_};  // their numbers begin anew
      problem = client_->regroup(values_.deadline);
    }
    if (!problem.empty()) {
      throw_communicator_error(text{"regroup: "} + problem + ": start all ranks again", where);
    }
    init_nccl(where);
  }
  /// Calls a function with NCCL's communicator; null: that has been aborted. Not at all while an
  /// abort waits for graphs.
  WARPWRIGHT_COLD void with_nccl(function_ref<void(ncclComm_t)> call) noexcept {
    for (;;) {
      if (!nccl_.wait_for_abort(1.0)) return;
      unique_lock<mutex> const lock{nccl_.calls()};
      if (get() != nullptr || nccl_.wait_for_abort(0.0)) return call(get());
    }  // an abort has begun between the two
  }
  /// @throws std::invalid_argument  if there is one already
  WARPWRIGHT_COLD void set_hook(collective_hook* hook, source_location where) {
    unique_lock<mutex> const lock{nccl_.calls()};
    unique_lock<mutex> const report_lock{report_mutex_};
    if (hook != nullptr && hook_ != nullptr) {
      throw_invalid_argument("rank_watch: the communicator has one already; destroy that first",
                             where);
    }
    hook_ = hook;
  }

  [[nodiscard]] bool is_in_own_process() const noexcept { return process_.is_current(); }
  [[nodiscard]] int rank() const noexcept { return client_->rank(); }
  [[nodiscard]] int ranks() const noexcept { return client_->ranks(); }
  [[nodiscard]] int newcomers() const noexcept { return client_->newcomers(); }
  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] ncclComm_t get() const noexcept { return nccl_.get(); }
  [[nodiscard]] double deadline() const noexcept { return values_.deadline; }
  [[nodiscard]] bool is_lost() const noexcept { return lost_.load(memory_order::acquire); }
  /// @return the number of the group, which regroup() changes
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_.load(memory_order::acquire); }
  [[nodiscard]] std::uint64_t called() const noexcept {
    return called_.load(memory_order::relaxed);
  }
  /// The call of a number, if the ring still has it.
  [[nodiscard]] bool find_call(std::uint64_t number, collective_call& call) noexcept {
    unique_lock<spin_lock> const lock{ring_lock_};
    call = ring_[number % ring_size];
    return number != 0 && call.number == number;
  }

  WARPWRIGHT_COLD void describe(rank_state& state) noexcept override {
    {
      unique_lock<spin_lock> const lock{ring_lock_};
      state.called = called();
      std::memcpy(state.hashes, hashes_, sizeof hashes_);
    }
    state.completed = state.called;  // unless a rank_watch knows better
    {
      unique_lock<mutex> const lock{report_mutex_};
      if (hook_ != nullptr) hook_->describe(state);
    }
    std::uint64_t const in_call = in_call_.load(memory_order::acquire);
    if (in_call > 1 && state.completed > in_call - 2) state.completed = in_call - 2;
    if (!find_call(state.called, state.last)) state.last = {};
    if (!find_call(state.completed + 1, state.waits)) {
      state.waits = {};  // the ring has lost it
      if (state.completed < state.called) state.waits.number = state.completed + 1;
    }
  }
  WARPWRIGHT_COLD void lost(char const* report, std::int32_t const* ranks,
                            std::size_t count) noexcept override {
    try {
      unique_lock<mutex> const lock{report_mutex_};
      report_ = report;
      lost_ranks_.assign(ranks, ranks + count);
    } catch (...) {  // no memory: the text has them
    }
    lost_.store(true, memory_order::release);
  }
  WARPWRIGHT_COLD void end_calls() noexcept override { nccl_.abort(); }
  WARPWRIGHT_COLD void left(std::uint64_t called) noexcept override {
    if (called < left_at_.load(memory_order::relaxed)) {
      left_at_.store(called, memory_order::release);
    }
  }
  // By the client's thread, before anything of the new group can be lost.
  WARPWRIGHT_COLD void begin_group() noexcept override {
    {
      unique_lock<mutex> const lock{report_mutex_};
      report_ = "";
      lost_ranks_.clear();
      if (hook_ != nullptr) hook_->begin_group();
    }
    {
      unique_lock<spin_lock> const lock{ring_lock_};
      for (collective_call& c : ring_) c = {};
      for (std::uint64_t& h : hashes_) h = 0;
      called_.store(0, memory_order::release);
    }
    left_at_.store(~std::uint64_t{0}, memory_order::release);
    told_.store(false, memory_order::release);
    static_cast<void>(epoch_.fetch_add(1, memory_order::acq_rel));
    lost_.store(false, memory_order::release);
  }
  WARPWRIGHT_COLD void tick() noexcept override {
    std::uint64_t const now = monotonic_nanoseconds();
    // A collective that a rank which has ended does not take part in cannot end.
    if (called() > left_at_.load(memory_order::acquire) && !is_lost()) {
      tell("a rank has ended that others wait for");
    }
    if (nccl_.calls().try_lock()) {
      ncclResult_t result = ncclSuccess;
      if (get() == nullptr || ncclCommGetAsyncError(get(), &result) != ncclSuccess) {
        result = ncclSuccess;
      }
      text const problem = error_text(result, get());
      nccl_.calls().unlock();
      if (by_another(result) && another_ended()) result = ncclSuccess;
      if (!by_another(result)) well_since_ = now;  // such a one the store knows soon, mostly
      bool const failed = result != ncclSuccess && result != ncclInProgress;
      if (failed && !is_lost() && (!by_another(result) || now - well_since_ > soon)) {
        tell(problem);
      }
    }
    // NCCL connects ranks in their first calls, and waits for them.
    std::uint64_t const in_call = in_call_.load(memory_order::acquire);
    if (in_call != seen_in_call_ || in_call == 0) in_call_since_ = now;
    seen_in_call_ = in_call;
    if (static_cast<double>(now - in_call_since_) > values_.deadline * 1e9) {
      tell("a call of NCCL's has not returned within the deadline");
    }
    nccl_.end_late_close();
    if (is_lost() && get() != nullptr) nccl_.abort();  // a group was open when it was lost
    double seconds = 0.0;
    {
      unique_lock<mutex> const lock{report_mutex_};
      if (hook_ != nullptr) seconds = hook_->tick();
    }
    if (seconds > 0.0) {  // without the lock, as this may end the communicator
      client_->fail(text{"no collective has completed within "} + seconds + " s", true);
    }
  }

 private:
  static constexpr std::uint64_t soon = 2000 * ns_per_ms;
  struct pending_call {
    stream_ref stream;
    collective_call call;
  };

  // Who has ended in good order ends NCCL, too, at the latest behind its deadline; nothing is
  // missing.
  [[nodiscard]] bool another_ended() const noexcept {
    std::uint64_t const at = left_at_.load(memory_order::acquire);
    return at != ~std::uint64_t{0} && called() <= at;
  }
  static text error_text(ncclResult_t result, ncclComm_t comm) {
    char const* const last = result == ncclSuccess ? "" : ncclGetLastError(comm);
    bool const more = last != nullptr && *last != 0;
    return text{"NCCL: "} + ncclGetErrorString(result) + (more ? text{": "} + last : text{""});
  }
  // Of NCCL's errors those that it has where another rank has ended.
  static bool by_another(ncclResult_t result) noexcept {
    return result == ncclRemoteError || result == ncclSystemError;
  }
  // The driver's function takes a third of the runtime's 70 ns.
  [[nodiscard]] bool captured(stream_ref stream, source_location where) const {
    int status = 0;
    bool const is_default = stream.get() == nullptr || stream.get() == cudaStreamLegacy ||
                            stream.get() == cudaStreamPerThread;
    if (is_default || is_capturing_ == nullptr || is_capturing_(stream.get(), &status) != 0) {
      return is_capturing(stream, where);
    }
    return status != 0;
  }
  // Once in a group.
  WARPWRIGHT_COLD void tell(text const& why) noexcept {
    if (!told_.exchange(true, memory_order::acq_rel)) client_->fail(why, true);
  }
  WARPWRIGHT_COLD void end() noexcept {
    if (server_ != nullptr) remove_store_file(place_);
    delete client_;
    end_store(server_);
    graphs_->release();
  }
  WARPWRIGHT_COLD void init_nccl(source_location where) {
    ncclUniqueId id{};
    if (rank() == 0) {
      ncclResult_t const result = ncclGetUniqueId(&id);
      if (result != ncclSuccess) settle(result, "ncclGetUniqueId", where);
    }
    array<char> all;
    exchange("the start of NCCL", &id, sizeof id, all, where);
    std::memcpy(&id, all.begin(), sizeof id);
    char const* name = nullptr;
    auto const over = [this] { return is_lost(); };
    ncclResult_t const result = nccl_.start(id, rank(), ranks(), values_.deadline, over, name);
    settle(result, name, where);
  }
  WARPWRIGHT_COLD void close_nccl() noexcept {
    nccl_.close(values_.deadline, [this] { return is_lost(); });
  }
  WARPWRIGHT_COLD void wait_until_lost() const noexcept {
    std::uint64_t const until = monotonic_nanoseconds() + soon;
    while (!is_lost() && monotonic_nanoseconds() < until) sleep_nanoseconds(ns_per_ms);
  }
  WARPWRIGHT_COLD void settle(ncclResult_t result, char const* name, source_location where) {
    // Where another rank has ended NCCL may know it before the store, which knows which.
    if (by_another(result)) wait_until_lost();
    if (is_lost()) throw_lost(where);
    if (result == ncclSuccess) return;
    bool const hangs = result == ncclInProgress;  // because of another rank
    text const problem =
        text{name} + (hangs ? text{" has not ended within "} + values_.deadline + " s"
                            : text{": "} + error_text(result, nullptr));
    client_->fail(hangs ? problem : text{"has failed in "} + problem, hangs);
    wait_until_lost();  // so that each later call throws
    if (hangs && is_lost()) throw_lost(where);
    text const all = text{where.file(), where.line()} + ": rank " + rank() + ": " + problem;
    if (result == ncclRemoteError) throw rank_lost{all.c_str(), {}};
    throw communicator_error{all.c_str()};
  }
  [[noreturn]] WARPWRIGHT_COLD void throw_lost(source_location where) {
    unique_lock<mutex> lock{report_mutex_};
    text const report = text{where.file(), where.line()} + ": " +
                        (report_.empty() ? text{"the communicator has been aborted"} : report_);
    std::vector<int> ranks{lost_ranks_};
    lock.unlock();
    throw rank_lost{report.c_str(), static_cast<std::vector<int>&&>(ranks)};
  }
  // All ranks say what they are about to call, before any of them calls it.
  WARPWRIGHT_COLD void check_same(collective_call about, source_location where) {
    array<char> nothing;
    about.number = called() + 1;
    exchange(full_call_text(about).c_str(), nullptr, 0, nothing, where);
  }

  communicator_values values_;
  int device_;
  owning_process process_;
  int (*is_capturing_)(cudaStream_t, int*) = nullptr;
  nccl_pair nccl_;
  graph_count* graphs_;
  atomic<std::uint64_t> in_call_;  // 1 + the number of the call that NCCL is in; 0: none
  std::uint64_t seen_in_call_ = 0, in_call_since_ = 0, well_since_ = 0;  // of tick()
  atomic<std::uint64_t> epoch_;                                          // of groups
  mutex exchanges_;                                                      // one at a time
  array<pending_call> pending_;                                          // of the group
  collective_hook* hook_ = nullptr;
  spin_lock ring_lock_;
  array<collective_call> ring_;
  std::uint64_t hashes_[8] = {};  // of all calls up to the last ones
  atomic<std::uint64_t> called_;
  atomic<std::uint64_t> left_at_{~std::uint64_t{0}};  // a rank has ended behind this call
  atomic<bool> lost_, told_;
  mutex report_mutex_;
  text report_ = "";
  std::vector<int> lost_ranks_;
  store_place place_;
  store_server* server_ = nullptr;
  store_client* client_ = nullptr;
};

}  // namespace detail

WARPWRIGHT_END
