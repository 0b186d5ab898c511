// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/thread/event_count.hpp>
#include <warpwright/scale/detail/nccl_types.hpp>
#include <warpwright/scale/detail/rank_messages.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// Two communicators of NCCL's. The calls are those of one that blocks: one that does not would
/// start a thread for each. It is split off one that does not, the guard, as only that can be
/// started with a deadline; both have one flag, so that the end of the guard ends what the other
/// one waits for.
class nccl_pair : noncopyable {
 public:
  using is_over = function_ref<bool()>;

  explicit nccl_pair(int device) noexcept : device_{device} {}

  /// NCCL's functions of one communicator are called one at a time.
  [[nodiscard]] mutex& calls() noexcept { return calls_; }
  /// @return null: aborted. @pre calls() is locked, or no other thread ends it
  [[nodiscard]] ncclComm_t get() const noexcept { return comm_.load(memory_order::acquire); }

  /// NCCL's groups have the address of the communicator: while one is open abort() ends the guard
  /// alone, and is called again. Of calls().
  int open_groups = 0;

  /// @param name  out: the function of NCCL's that the result is of
  /// @return ncclInProgress: it has not ended within the deadline
  [[nodiscard]] WARPWRIGHT_COLD ncclResult_t start(ncclUniqueId const& id, int rank, int ranks,
                                                   double deadline, is_over over,
                                                   char const*& name) noexcept {
    device_scope const device{device_};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.splitShare = 1;
    name = "ncclCommInitRankConfig";
    ncclResult_t result;
    {
      unique_lock<mutex> const lock{guard_mutex_};
      result = ncclCommInitRankConfig(&guard_, ranks, id, rank, &config);
    }
    result = wait(result, deadline, over);
    if (result != ncclSuccess || over()) return result;
    config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    name = "ncclCommSplit";
    {
      unique_lock<mutex> const lock{guard_mutex_};
      if (guard_ != nullptr) result = ncclCommSplit(guard_, 0, rank, &split_, &config);
    }
    result = wait(result, deadline, over);
    if (result != ncclSuccess || over()) {
      abort();
      while (!wait_for_abort(1.0)) {
      }  // another thread's: until the guard has ended, NCCL writes split_
      if (split_ != nullptr) static_cast<void>(ncclCommAbort(exchange(split_, nullptr)));
      return result;
    }
    unique_lock<mutex> const lock{calls_};
    comm_.store(exchange(split_, nullptr), memory_order::release);
    return ncclSuccess;
  }
  /// Ends it when its collectives have completed, or it is lost, or end_late_close() is called
  /// behind the deadline.
  WARPWRIGHT_COLD void close(double deadline, is_over lost) noexcept {
    device_scope const device{device_};
    close_until_.store(monotonic_after(deadline), memory_order::release);
    {
      unique_lock<mutex> const lock{calls_};
      if (get() != nullptr && !lost() && ncclCommFinalize(get()) == ncclSuccess && !lost()) {
        static_cast<void>(ncclCommDestroy(comm_.exchange(nullptr, memory_order::acq_rel)));
      }
    }
    close_until_.store(end_of_time, memory_order::release);
    abort();  // what is left
  }
  WARPWRIGHT_COLD void end_late_close() noexcept {
    if (monotonic_nanoseconds() > close_until_.load(memory_order::acquire)) abort_guard();
  }
  WARPWRIGHT_COLD void abort() noexcept {
    static_cast<void>(aborts_.fetch_add(1, memory_order::acq_rel));
    abort_guard();  // and what the other one waits for
    ncclComm_t comm = nullptr;
    {
      unique_lock<mutex> const lock{calls_};
      if (open_groups == 0) comm = comm_.exchange(nullptr, memory_order::acq_rel);
    }
    // Without the lock: NCCL waits here until graphs with its collectives are gone.
    device_scope const device{device_};
    relaxed_capture_mode const relaxed;
    if (comm != nullptr) static_cast<void>(ncclCommAbort(comm));
    static_cast<void>(aborts_.fetch_sub(1, memory_order::acq_rel));
  }
  /// @return whether it has come, or was not under way: not while graphs are there
  [[nodiscard]] WARPWRIGHT_COLD bool wait_for_abort(double seconds) const noexcept {
    std::uint64_t const until = monotonic_after(seconds);
    while (aborts_.load(memory_order::acquire) != 0 && monotonic_nanoseconds() < until) {
      sleep_nanoseconds(ns_per_ms);
    }
    return aborts_.load(memory_order::acquire) == 0;
  }

 private:
  [[nodiscard]] WARPWRIGHT_COLD ncclResult_t wait(ncclResult_t result, double deadline,
                                                  is_over over) noexcept {
    if (result != ncclSuccess && result != ncclInProgress) return result;
    std::uint64_t const until = monotonic_after(deadline);
    for (std::uint64_t pause = 1000;; pause = pause < ns_per_ms ? pause * 2 : pause) {
      {
        unique_lock<mutex> const lock{guard_mutex_};
        if (guard_ == nullptr) return ncclRemoteError;  // aborted
        ncclResult_t const asked = ncclCommGetAsyncError(guard_, &result);
        if (asked != ncclSuccess) result = asked;
      }
      if (result != ncclInProgress || over() || monotonic_nanoseconds() >= until) return result;
      sleep_nanoseconds(pause);
    }
  }
  WARPWRIGHT_COLD void abort_guard() noexcept {
    device_scope const device{device_};
    relaxed_capture_mode const relaxed;
    static_cast<void>(aborts_.fetch_add(1, memory_order::acq_rel));
    ncclComm_t guard = nullptr;
    {
      unique_lock<mutex> const lock{guard_mutex_};
      guard = exchange(guard_, nullptr);
    }
    if (guard != nullptr) static_cast<void>(ncclCommAbort(guard));
    static_cast<void>(aborts_.fetch_sub(1, memory_order::acq_rel));
  }

  int device_;
  mutex guard_mutex_;
  ncclComm_t guard_ = nullptr;
  ncclComm_t split_ = nullptr;  // is becoming comm_, which NCCL writes meanwhile
  mutex calls_;
  atomic<ncclComm_t> comm_;
  atomic<std::uint64_t> close_until_{end_of_time};
  atomic<int> aborts_;
};

}  // namespace detail

WARPWRIGHT_END
