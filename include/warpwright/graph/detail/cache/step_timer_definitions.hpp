// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/detail/cache/step_timer.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE step_timer::sample* step_timer::reserve(int device, void* owner,
                                                          step_mode mode) noexcept {
  sample* found = nullptr;
  std::size_t of_device = 0;
  for (sample* const s : samples_) {
    if (s->device != device) continue;
    if (s->owner == nullptr) found = s;
    ++of_device;
  }
  if (found == nullptr && of_device < most) {
    try {
      scoped_device const scope{device_id{device}};
      samples_.reserve(samples_.size() + 1);
      found = new sample{timed_event{}, timed_event{}, device};
      samples_.push_back(found);
    } catch (...) {  // a time less
    }
  }
  if (found == nullptr) return nullptr;
  found->owner = owner;
  found->mode = mode;
  found->recorded = false;
  return found;
}

WARPWRIGHT_INLINE void step_timer::poll(void (*arrived)(void* owner, step_mode mode,
                                                        double nanoseconds)) noexcept {
  for (sample* const s : samples_) {
    if (s->owner == nullptr || !s->recorded) continue;
    cudaError_t status = discard(cudaEventQuery(s->stop.get()));
    if (status == cudaErrorNotReady) continue;
    float milliseconds = 0.0F;
    if (status == cudaSuccess) {
      status = discard(cudaEventElapsedTime(&milliseconds, s->start.get(), s->stop.get()));
    }
    double const device = 1e6 * static_cast<double>(milliseconds);
    double const longer = device > s->host_nanoseconds ? device : s->host_nanoseconds;
    void* const owner = s->owner;
    s->owner = nullptr;
    --pending_;
    arrived(owner, s->mode, status == cudaSuccess ? longer : -1.0);
  }
}

}  // namespace detail

WARPWRIGHT_END
