// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Peak memory as a function of the batch size, fitted to a few measured sizes, and probes of the
// memory that a workload takes. A memory budget needs peaks: use a tuning_pool, a class of your own
// with reset() and peak_bytes(), or a preparation.
//
//   auto const memory = ww::memory_model::fit({{64, 1'300'000'000}, {128, 2'350'000'000},
//                                              {256, 4'450'000'000}});
//   if (memory.knows(512) && memory.predict(512) <= limit_bytes) …
#pragma once

#include <warpwright/core/error.hpp>
#include <warpwright/tune/detail/memory_model.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Reports the device memory allocated since the probe was constructed.
///
/// It tells what is in use at the call, not the peak: what a workload frees before it returns is
/// not seen, so that a tuner takes it only without a memory budget, for its report. It counts what
/// cudaMalloc and pools take from the device, rounded to their granularity, and the allocations of
/// other processes.
class device_memory_probe {
 public:
  /// @throws cuda_error if the query fails
  explicit device_memory_probe(source_location where = source_location::current())
      : where_{where}, free_at_start_{free_bytes()} {}

  /// @return bytes allocated since construction; 0 if more was freed than allocated
  /// @throws cuda_error if the query fails
  ///
  /// **Stream:** does not block. **Capture:** not legal. **Cost:** one cudaMemGetInfo.
  std::size_t operator()() const {
    std::size_t const now = free_bytes();
    return now < free_at_start_ ? free_at_start_ - now : 0;
  }

 private:
  std::size_t free_bytes() const {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", where_);
    return free;
  }
  source_location where_;
  std::size_t free_at_start_;
};

WARPWRIGHT_END
