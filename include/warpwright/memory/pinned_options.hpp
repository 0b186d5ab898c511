// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {
class pinned_core;
class page_locked_source;
}  // namespace detail

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
  std::uint64_t largest_hole_bytes = 0;   ///< the largest free block that no cache holds
  std::uint64_t allocations = 0;          ///< successful ones of at least one byte
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

/// Options of a pinned_pool. Every setter returns a changed copy.
class pinned_pool_options {
 public:
  static constexpr std::size_t unlimited = ~std::size_t{0};
  static constexpr int any_numa_node = -1;

  /// The maximum of page-locked memory.
  /// @param bytes  default: unlimited
  [[nodiscard]] constexpr pinned_pool_options maximum_bytes(std::size_t bytes) const noexcept {
    pinned_pool_options copy = *this;
    copy.maximum_bytes_ = bytes;
    return copy;
  }
  /// Memory to page-lock at construction.
  /// @param bytes  default: 0
  [[nodiscard]] constexpr pinned_pool_options initial_bytes(std::size_t bytes) const noexcept {
    pinned_pool_options copy = *this;
    copy.initial_bytes_ = bytes;
    return copy;
  }
  /// The minimum to page-lock at a time. A large pool grows by an eighth of its size, at most 1
  /// GiB, so that it has few segments.
  /// @param bytes  default: 32 MiB
  [[nodiscard]] constexpr pinned_pool_options growth_bytes(std::size_t bytes) const noexcept {
    pinned_pool_options copy = *this;
    copy.growth_bytes_ = bytes;
    return copy;
  }
  /// Takes the memory from one NUMA node: that of the GPU, for copies at the full speed of its
  /// link. Refused in a container without the right to call mbind.
  /// @param node  as in /sys/devices/system/node; default: any_numa_node, as the system decides
  [[nodiscard]] constexpr pinned_pool_options numa_node(int node) const noexcept {
    pinned_pool_options copy = *this;
    copy.numa_node_ = node;
    return copy;
  }
  /// Write-combined memory, which the host writes in order and a GPU reads without looking into
  /// the processor's caches. The host must not read it: its reads are not cached.
  /// @param on  default: false. It comes from cudaHostAlloc, which page-locks a GiB in most of a
  ///   second; numa_node() does not apply
  [[nodiscard]] constexpr pinned_pool_options write_combined(bool on = true) const noexcept {
    pinned_pool_options copy = *this;
    copy.write_combined_ = on;
    return copy;
  }
  /// Memory that kernels of every device can use through the same pointer, over the link.
  /// @param on  default: false
  [[nodiscard]] constexpr pinned_pool_options mapped(bool on = true) const noexcept {
    pinned_pool_options copy = *this;
    copy.mapped_ = on;
    return copy;
  }
  /// Memory that is not page-locked when the system page-locks no more, within maximum_bytes().
  /// Copies from and to it are slower, and a copy on a stream may wait on the host;
  /// pinned_statistics::pageable_bytes says how much there is. Not with mapped().
  /// @param on  default: false, the pool throws out_of_memory
  [[nodiscard]] constexpr pinned_pool_options pageable_fallback(bool on = true) const noexcept {
    pinned_pool_options copy = *this;
    copy.pageable_fallback_ = on;
    return copy;
  }

 private:
  friend class detail::pinned_core;
  friend class detail::page_locked_source;
  std::size_t maximum_bytes_ = unlimited;
  std::size_t initial_bytes_ = 0;
  std::size_t growth_bytes_ = std::size_t{32} << 20U;
  int numa_node_ = any_numa_node;
  bool write_combined_ = false;
  bool mapped_ = false;
  bool pageable_fallback_ = false;
};

WARPWRIGHT_END
