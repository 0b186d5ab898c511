// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/memory/detail/event_store.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE cudaEvent_t event_store::record(heap_guard& lock, cudaStream_t handle,
                                                  source_location where, int device) {
  cudaEvent_t event = take_spare(device);
  bool const is_new = event == nullptr;
  if (is_new) {
    spare_.reserve(count_ + 1);  // so that give_back() cannot fail
    ++count_;
  }
  char const* api = "cudaSetDevice";
  cudaError_t result = cudaSuccess;
  bool captured = false;
  {
    unlocked const released{lock};
    // A default stream's handle means the current device's stream.
    bool const is_default = handle == cudaStreamLegacy || handle == cudaStreamPerThread;
    device_scope const scope{is_new || is_default ? device : current};
    result = scope.status();
    if (result == cudaSuccess && is_new) {
      api = "cudaEventCreateWithFlags";
      result = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
      if (result != cudaSuccess) event = nullptr;
    }
    captured = may_be_capturing(heap_.driver, handle);
    if (result == cudaSuccess && !captured) {
      api = "cudaEventRecord";
      result = heap_.driver.record(event, handle);
      if (result == cudaSuccess && may_be_capturing(heap_.driver, handle)) {
        // A capture began in between: the event may belong to it and must not be used again. It
        // is kept until close(), because another thread may still be querying it.
        captured = true;
        device = unusable;
      }
    }
  }
  if (result == cudaSuccess && !captured) {
    ++heap_.counters.event_records;
    return event;
  }
  if (event != nullptr) {
    give_back(event, device);
  } else {
    --count_;
  }
  check_of_stream(result, api, where);
  return nullptr;
}

WARPWRIGHT_INLINE bool event_store::completed(heap_guard& lock, cudaEvent_t event, bool wait,
                                              source_location where) {
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

WARPWRIGHT_INLINE cudaEvent_t event_store::take_spare(int device) noexcept {
  for (std::size_t i = spare_.size(); i-- > 0;) {
    if (spare_[i].device != device) continue;
    cudaEvent_t const event = spare_[i].event;
    spare_[i] = spare_.back();
    spare_.pop_back();
    return event;
  }
  return nullptr;
}

}  // namespace detail

WARPWRIGHT_END
