// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

/// The state every slow operation needs: the device's context, a capture mode that lets it make its
/// calls (none of them touches a capturing stream), and entries that do not change owner.
class memory_pool::slow_section {
 public:
  slow_section(memory_pool& pool, source_location where) : pool_{pool}, slow_{pool.slow_} {
    // Asking for the context is a quarter of what asking for the device costs.
    if (pool.context_ == nullptr || pool.driver_.current_context() != pool.context_) {
      check(cudaGetDevice(&before_), "cudaGetDevice", where);
      check(cudaSetDevice(pool.device_.value()), "cudaSetDevice", where);
    }
    cudaError_t const answer = pool.driver_.exchange(&mode_);
    if (answer != cudaSuccess) {
      leave_device();
      check(answer, "cudaThreadExchangeStreamCaptureMode", where);
    }
    __atomic_store_n(&pool_.slow_path_runs_, true, __ATOMIC_RELAXED);
  }
  ~slow_section() {
    __atomic_store_n(&pool_.slow_path_runs_, false, __ATOMIC_RELAXED);
    detail::discard(pool_.driver_.exchange(&mode_));
    leave_device();
  }
  slow_section(slow_section const&) = delete;
  slow_section& operator=(slow_section const&) = delete;

 private:
  void leave_device() const noexcept {
    if (before_ >= 0 && before_ != pool_.device_.value()) detail::discard(cudaSetDevice(before_));
  }

  memory_pool& pool_;
  detail::held<detail::blocking_mutex> slow_;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  int before_ = -1;
};

WARPWRIGHT_END
