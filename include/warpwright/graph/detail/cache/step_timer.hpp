// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/device_id.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/graph/detail/cache/cost_gate.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// Times sampled calls with pairs of events, without waiting: a time arrives when a later call
/// finds the events completed. Nothing here throws: a sample that fails is lost.
class step_timer : noncopyable {
 public:
  /// Samples of one device under way at most; further ones are lost.
  static constexpr std::size_t most = 16;

  struct sample {
    timed_event start;
    timed_event stop;
    int device;
    void* owner = nullptr;  // null: free
    step_mode mode = step_mode::eager;
    bool recorded = false;          // both events
    double host_nanoseconds = 0.0;  // of the call
  };
  ~step_timer() {
    for (sample* const s : samples_) delete s;
  }

  /// Reserves a sample for a call. @return null if it cannot be timed
  sample* reserve(int device, void* owner, step_mode mode) noexcept;
  /// Records one of the events of a reserved sample; without the lock of the other functions.
  static bool record(timed_event& of_sample, cudaStream_t stream) noexcept {
    return discard(cudaEventRecord(of_sample.get(), stream)) == cudaSuccess;
  }
  /// Both events are recorded: the time will arrive.
  void commit(sample* s, double host_nanoseconds) noexcept {
    s->recorded = true;
    s->host_nanoseconds = host_nanoseconds;
    ++pending_;
  }
  /// The call failed, or an event.
  static void abandon(sample* s) noexcept { s->owner = nullptr; }

  [[nodiscard]] bool pending() const noexcept { return pending_ != 0; }
  /// Reports the times that have arrived, as arrived(owner, mode, nanoseconds); negative: lost. A
  /// call takes as long as the longer of its work on the device and its time on the host.
  void poll(void (*arrived)(void* owner, step_mode mode, double nanoseconds)) noexcept;
  /// Forgets all samples. @pre no call is being timed
  void clear() noexcept {
    for (sample* const s : samples_) s->owner = nullptr;
    pending_ = 0;
  }

 private:
  array<sample*> samples_;
  std::size_t pending_ = 0;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/cache/step_timer_definitions.hpp>
#endif
