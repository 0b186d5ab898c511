// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/core/device_id.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/scale/detail/communicator_error.hpp>
#include <warpwright/scale/detail/nccl_types.hpp>
#include <warpwright/scale/detail/rank_store.hpp>

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

/// How many graphs have collectives of a communicator. It outlives both.
struct graph_count {
  atomic<int> graphs, owners{1};
  void release() noexcept {
    if (owners.fetch_sub(1, memory_order::acq_rel) == 1) delete this;
  }
  static void CUDART_CB on_destroyed(void* self) noexcept {
    auto* const count = static_cast<graph_count*>(self);
    static_cast<void>(count->graphs.fetch_sub(1, memory_order::acq_rel));
    count->release();
  }
};

/// A communicator without the types of its elements.
class communicator_core final : public store_events, noncopyable {
 public:
  static constexpr std::size_t ring_size = 4096;

  communicator_core(store_place const& place, communicator_values const& values,
                    source_location where);
  ~communicator_core();
  /// Ends it, at once or, where graphs still have its collectives, when they are destroyed.
  static void retire(communicator_core* core, bool by_exception) noexcept;

  using nccl_call = ncclResult_t(ncclComm_t, cudaStream_t);
  void run(stream_ref stream, collective_call about, function_ref<nccl_call> call, char const* name,
           source_location where);
  /// Calls a function with NCCL's communicator, or null when that is aborted.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_.load(memory_order::acquire); }
  void with_nccl(function_ref<void(ncclComm_t)> call) noexcept {
    unique_lock<mutex> const lock{calls_};
    call(comm_);
  }
  /// Calls what calls collectives, which become one of NCCL's.
  void group(function_ref<void()> calls, source_location where);
  void exchange(char const* name, void const* mine, std::size_t bytes, array<char>& all,
                source_location where);
  void check(source_location where);
  void abort(text const& why) noexcept { client_->fail(why); }
  void regroup(source_location where);
  /// @throws std::invalid_argument  if there is one already
  void set_hook(collective_hook* hook, source_location where);

  [[nodiscard]] int rank() const noexcept { return client_->rank(); }
  [[nodiscard]] int ranks() const noexcept { return client_->ranks(); }
  [[nodiscard]] int newcomers() const noexcept { return client_->newcomers(); }
  [[nodiscard]] rank_process const& process(int rank) const noexcept {
    return client_->process(rank);
  }
  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] ncclComm_t get() const noexcept { return comm_; }
  [[nodiscard]] double deadline() const noexcept { return values_.deadline; }
  [[nodiscard]] bool is_lost() const noexcept { return lost_.load(memory_order::acquire); }
  [[nodiscard]] std::uint64_t called() const noexcept {
    return called_.load(memory_order::relaxed);
  }
  /// The call of a number, if the ring still has it.
  [[nodiscard]] bool find_call(std::uint64_t number, collective_call& call) noexcept;

  void describe(rank_state& state) noexcept override;
  void lost(char const* report, std::int32_t const* ranks, std::size_t count) noexcept override;
  void end_calls() noexcept override { abort_nccl(); }
  void left(std::uint64_t called) noexcept override;
  void tick() noexcept override;
  void begin_group() noexcept override;

 private:
  struct pending_call {
    stream_ref stream;
    collective_call call;
  };

  void init_nccl(source_location where);
  void close_nccl() noexcept;
  void abort_nccl() noexcept;
  void settle(ncclResult_t result, char const* name, source_location where);
  [[nodiscard]] ncclResult_t wait_for_guard() noexcept;
  void check_hanging() noexcept;
  void retain_graph(stream_ref stream, source_location where);
  void check_same(collective_call const& about, source_location where);
  [[noreturn]] void throw_lost(source_location where);

  communicator_values values_;
  int device_;
  owning_process process_;
  graph_count* graphs_;
  unsigned long long last_capture_ = 0;
  // Two communicators of NCCL's. The calls are those of one that blocks: one that does not would
  // start a thread for each. It is split off one that does not, as only that can be started with a
  // deadline; both have one flag, so that the end of the first ends what the second waits for.
  ncclComm_t guard_ = nullptr;
  ncclComm_t split_ = nullptr;  // is becoming comm_
  mutex guard_mutex_;
  ncclComm_t comm_ = nullptr;
  mutex calls_;                    // NCCL's functions of one communicator are called one at a time
  atomic<std::uint64_t> in_call_;  // 1 + the number of the call that NCCL is in; 0: none
  std::uint64_t seen_in_call_ = 0, in_call_since_ = 0, close_until_ = 0;  // of tick()
  atomic<bool> closes_;
  atomic<std::uint64_t> epoch_;  // of groups
  mutex exchanges_;              // one at a time
  int group_depth_ = 0;
  array<pending_call> pending_;  // of the group
  collective_hook* hook_ = nullptr;
  spin_lock ring_lock_;
  array<collective_call> ring_;
  atomic<std::uint64_t> called_;
  atomic<std::uint64_t> left_at_{~std::uint64_t{0}};  // a rank has ended behind this call
  atomic<bool> lost_, told_;
  mutex report_mutex_;
  text report_ = "";
  std::vector<int> lost_ranks_;
  store_server* server_ = nullptr;
  store_client* client_ = nullptr;
};

}  // namespace detail

WARPWRIGHT_END

#include <warpwright/scale/detail/communicator_core_definitions.hpp>
