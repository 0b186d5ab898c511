// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/thread/locks.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// How many graphs have collectives of a communicator. It outlives both.
class graph_count {
 public:
  /// Counts the graph that is being captured, once, until it is destroyed.
  WARPWRIGHT_COLD void retain(stream_ref stream, source_location where) {
    capture_info const info = get_capture_info(stream, where);
    if (info.status != cudaStreamCaptureStatusActive || info.id == last_capture_) return;
    cudaUserObject_t object = nullptr;
    check(cudaUserObjectCreate(&object, this, &on_destroyed, 1, cudaUserObjectNoDestructorSync),
          "cudaUserObjectCreate", where);
    static_cast<void>(owners_.fetch_add(1, memory_order::acq_rel));
    static_cast<void>(graphs_.fetch_add(1, memory_order::acq_rel));
    cudaError_t const result =
        cudaGraphRetainUserObject(info.graph, object, 1, cudaGraphUserObjectMove);
    if (result != cudaSuccess) discard(cudaUserObjectRelease(object, 1));
    check(result, "cudaGraphRetainUserObject", where);
    last_capture_ = info.id;
  }
  void release() noexcept {
    if (owners_.fetch_sub(1, memory_order::acq_rel) == 1) delete this;
  }
  [[nodiscard]] int count() const noexcept { return graphs_.load(memory_order::acquire); }
  /// CUDA tells of destroyed graphs a little later. @return whether there are none
  [[nodiscard]] WARPWRIGHT_COLD bool none_soon() const noexcept {
    for (int i = 0; i < 100 && count() > 0; ++i) sleep_nanoseconds(1000000);
    return count() == 0;
  }

 private:
  static void CUDART_CB on_destroyed(void* self) noexcept {
    auto* const count = static_cast<graph_count*>(self);
    static_cast<void>(count->graphs_.fetch_sub(1, memory_order::acq_rel));
    count->release();
  }

  atomic<int> graphs_, owners_{1};
  unsigned long long last_capture_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
