// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/memory/detail/pool/pool_heap.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// The events of a pool: records them on streams, and keeps completed ones for the next record.
class event_store {
 public:
  explicit event_store(pool_heap& heap) noexcept : heap_{heap} {}
  ~event_store() { close(); }
  event_store(event_store const&) = delete;
  event_store& operator=(event_store const&) = delete;

  /// Destroys the events that were given back.
  void close() noexcept {
    for (cudaEvent_t event : spare_) discard(cudaEventDestroy(event));
    spare_.clear();
  }

  /// Records an event behind the work submitted to a stream so far.
  /// @return the event, for give_back(); nullptr when the stream is capturing
  cudaEvent_t record(heap_guard& lock, cudaStream_t handle, source_location where) {
    cudaEvent_t event = nullptr;
    if (!spare_.empty()) {
      event = spare_.back();
      spare_.pop_back();
    } else {
      spare_.reserve(count_ + 1);  // so that give_back() cannot fail
    }
    bool const is_new = event == nullptr;
    char const* api = "cudaEventCreateWithFlags";
    cudaError_t result = cudaSuccess;
    bool captured = false;
    {
      unlocked const released{lock};
      if (is_new) result = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
      captured = may_be_capturing(heap_.driver, handle);
      if (result == cudaSuccess && !captured) {
        api = "cudaEventRecord";
        result = heap_.driver.record(event, handle);
        if (result == cudaSuccess && may_be_capturing(heap_.driver, handle)) {
          // A capture began in between: the event may belong to it and must not be used again.
          captured = true;
          discard(cudaEventDestroy(event));
          event = nullptr;
        }
      }
    }
    if (is_new && event != nullptr) ++count_;
    if (!is_new && event == nullptr) --count_;
    if (result == cudaSuccess && !captured) {
      ++heap_.counters.event_records;
      return event;
    }
    if (event != nullptr) spare_.push_back(event);
    check(result, api, where);
    return nullptr;
  }
  void give_back(cudaEvent_t event) noexcept { spare_.push_back(event); }

  /// @param wait  wait on the host for the event
  /// @return whether the event has completed
  bool completed(heap_guard& lock, cudaEvent_t event, bool wait, source_location where) {
    cudaError_t result = cudaSuccess;
    {
      unlocked const released{lock};
      result = wait ? cudaEventSynchronize(event) : heap_.driver.query(event);
      discard(result);
    }
    ++heap_.counters.event_queries;
    if (result == cudaErrorNotReady) return false;
    check(result, wait ? "cudaEventSynchronize" : "cudaEventQuery", where);
    return true;
  }

 private:
  pool_heap& heap_;
  array<cudaEvent_t> spare_;
  std::size_t count_ = 0;  // of all events; spare_ has capacity for them
};

}  // namespace detail

WARPWRIGHT_END
