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
                     int device = current) {
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
  /// @param device  as record()
  void give_back(cudaEvent_t event, int device = current) noexcept {
    spare_.push_back(spare_event{event, device});
  }

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
  static constexpr int unusable = -2;  // no device: no call of record() takes the event
  struct spare_event {
    cudaEvent_t event;
    int device;
  };
  /// Makes a device current, if it is not, until the end of the scope.
  class device_scope {
   public:
    explicit device_scope(int device) noexcept {
      if (device == current) return;
      int before = device;
      status_ = cudaGetDevice(&before);
      if (status_ != cudaSuccess || before == device) return;
      status_ = cudaSetDevice(device);
      if (status_ == cudaSuccess) before_ = before;
    }
    ~device_scope() {
      if (before_ != current) discard(cudaSetDevice(before_));
    }
    device_scope(device_scope const&) = delete;
    device_scope& operator=(device_scope const&) = delete;
    [[nodiscard]] cudaError_t status() const noexcept { return status_; }

   private:
    cudaError_t status_ = cudaSuccess;
    int before_ = current;
  };

  cudaEvent_t take_spare(int device) noexcept {
    for (std::size_t i = spare_.size(); i-- > 0;) {
      if (spare_[i].device != device) continue;
      cudaEvent_t const event = spare_[i].event;
      spare_[i] = spare_.back();
      spare_.pop_back();
      return event;
    }
    return nullptr;
  }

  pool_heap& heap_;
  array<spare_event> spare_;
  std::size_t count_ = 0;  // of all events; spare_ has capacity for them
};

}  // namespace detail

WARPWRIGHT_END
