// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/pool/pool_heap.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// The events of a pool: records them on streams, and keeps completed ones for the next record.
class event_store : noncopyable {
 public:
  explicit event_store(pool_heap& heap) noexcept : heap_{heap} {}
  ~event_store() { close(); }

  /// Of a store whose streams all belong to the device that is current at every call.
  static constexpr int current = -1;

  /// Destroys the events.
  /// @pre all were given back
  void close() noexcept {
    for (spare_event const& spare : spare_) discard(cudaEventDestroy(spare.event));
    spare_.clear();
  }

  /// Records an event behind the work submitted to a stream so far.
  /// @param device  the stream's device; another one may be current
  /// @return the event, for give_back(); nullptr when the stream is capturing
  cudaEvent_t record(heap_guard& lock, cudaStream_t handle, source_location where,
                     int device = current);
  /// @param device  as record()
  void give_back(cudaEvent_t event, int device = current) noexcept {
    spare_.push_back(spare_event{event, device});
  }

  /// @param wait  wait on the host for the event
  /// @return whether the event has completed
  bool completed(heap_guard& lock, cudaEvent_t event, bool wait, source_location where);

 private:
  static constexpr int unusable = -2;  // no device: no call of record() takes the event
  struct spare_event {
    cudaEvent_t event;
    int device;
  };

  cudaEvent_t take_spare(int device) noexcept;

  pool_heap& heap_;
  array<spare_event> spare_;
  std::size_t count_ = 0;  // of all events; spare_ has capacity for them
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/event_store_definitions.hpp>
#endif
