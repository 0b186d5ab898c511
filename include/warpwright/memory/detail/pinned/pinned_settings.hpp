// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// A snapshot of a pinned_pool's counters; all sizes in bytes.
struct pinned_statistics {
  std::uint64_t live_bytes = 0;  ///< allocated, rounded up to 256 bytes a block
  /// An upper bound of the highest live_bytes so far: freed blocks that the pool's caches hold, or
  /// that streams have not completed yet, count too.
  std::uint64_t live_peak_bytes = 0;
  std::uint64_t live_blocks = 0;          ///< allocated
  std::uint64_t cached_bytes = 0;         ///< free, in the caches of threads
  std::uint64_t pending_bytes = 0;        ///< freed on streams that have not completed them yet
  std::uint64_t reserved_bytes = 0;       ///< page-locked, and pageable_bytes
  std::uint64_t reserved_peak_bytes = 0;  ///< the highest reserved_bytes so far
  std::uint64_t pageable_bytes = 0;       ///< see pinned_pool_options::pageable_fallback()
  std::uint64_t largest_free_block_bytes = 0;  ///< the largest free block that no cache holds
  std::uint64_t allocations = 0;               ///< successful ones of at least one byte
  std::uint64_t deallocations = 0;
  std::uint64_t hits = 0;                    ///< allocations served without any CUDA call
  std::uint64_t upstream_allocations = 0;    ///< segments obtained from the system
  std::uint64_t upstream_deallocations = 0;  ///< segments returned to the system
  std::uint64_t event_records = 0;           ///< events recorded; one covers many frees

  /// @return hits / allocations, in [0, 1]; 0 before the first allocation
  [[nodiscard]] double hit_rate() const noexcept {
    return allocations == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(allocations);
  }
};

namespace detail {

/// The values of pinned_pool_options, which documents them.
struct pinned_settings {
  static constexpr std::size_t unlimited = ~std::size_t{0};
  static constexpr int any_numa_node = -1;

  std::size_t max_bytes = unlimited;
  std::size_t initial_bytes = 0;
  std::size_t growth_bytes = std::size_t{32} << 20U;
  int numa_node = any_numa_node;
  bool write_combined = false;
  bool mapped = false;
  bool pageable_fallback = false;
};

}  // namespace detail

WARPWRIGHT_END
