// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// The order of two ways to serve a request when the stream's own free blocks and the ready blocks
/// do not suffice.
enum class reuse_order {
  grow_before_wait,  ///< ready > grow > wait: streams stay independent, more memory is reserved
  wait_before_grow,  ///< ready > wait > grow: less memory, but a stream may wait for another
};

/// Where a pool's memory comes from.
enum class memory_source {
  automatic,          ///< virtual memory where the device supports it, otherwise cudaMalloc
  virtual_memory,     ///< one address range into which memory is mapped in granules of about 2 MiB
  cuda_malloc,        ///< one cudaMalloc a segment; other devices and processes can map it (peer
                      ///< access, cudaIpcGetMemHandle)
  cuda_malloc_async,  ///< one cudaMallocAsync a segment, from the device's default memory pool;
                      ///< shares its release threshold and its other users
};

/// A snapshot of a memory_pool's counters; all sizes in bytes.
struct pool_statistics {
  std::uint64_t live_bytes = 0;                ///< allocated, rounded up to 256 bytes a block
  std::uint64_t live_blocks = 0;               ///< allocated
  std::uint64_t reserved_bytes = 0;            ///< taken from CUDA
  std::uint64_t reserved_peak_bytes = 0;       ///< the highest reserved_bytes so far
  std::uint64_t largest_free_block_bytes = 0;  ///< the largest free block
  std::uint64_t cached_bytes = 0;  ///< free, in the caches of streams and memory_cache objects
  std::uint64_t graph_bytes = 0;   ///< freed, but kept for a graph, or until all streams of
                                   ///< record_use() have completed
  std::uint64_t allocations = 0;   ///< successful ones of at least one byte
  std::uint64_t deallocations = 0;
  std::uint64_t hits = 0;        ///< allocations served without a CUDA call, other than for stream
                                 ///< ids and checks
  std::uint64_t cache_hits = 0;  ///< the part of hits that came from a cache, without the pool's
                                 ///< heap lock
  std::uint64_t cross_stream_steals = 0;     ///< allocations served with a free block of another
                                             ///< stream
  std::uint64_t upstream_allocations = 0;    ///< requests to CUDA for memory that succeeded
  std::uint64_t upstream_deallocations = 0;  ///< times that memory was returned to CUDA
  std::uint64_t remaps = 0;                  ///< times that idle memory was mapped to other
                                             ///< addresses
  std::uint64_t event_records = 0;           ///< cudaEventRecord calls that succeeded
  std::uint64_t stream_waits = 0;            ///< cudaStreamWaitEvent calls that succeeded
  std::uint64_t event_queries = 0;           ///< cudaEventQuery and cudaEventSynchronize calls
  std::uint64_t virtual_memory_calls = 0;    ///< cuMemCreate, cuMemMap, cuMemSetAccess, cuMemUnmap
                                             ///< and cuMemRelease calls

  /// @return hits / allocations, in [0, 1]; 0 before the first allocation
  [[nodiscard]] double hit_rate() const noexcept {
    return allocations == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(allocations);
  }
};

namespace detail {

/// The values of memory_pool_options, which documents them.
struct pool_settings {
  static constexpr std::size_t unlimited = ~std::size_t{0};
  static constexpr std::size_t by_source = ~std::size_t{0};

  std::size_t max_bytes = unlimited;
  double max_fraction = 1.0;
  std::size_t initial_bytes = 0;
  std::size_t growth_bytes = by_source;
  double growth_factor = 0.0;
  memory_source source = memory_source::automatic;
  double slack = 0.08;
  std::size_t slack_floor_bytes = std::size_t{16} << 20U;
  reuse_order order = reuse_order::grow_before_wait;
  std::size_t cache_bytes = std::size_t{16} << 20U;
  double max_wait_seconds = 2e-3;
  bool checked = false;
  bool detect_captures = false;
  bool (*exhausted)(void* user, memory_report const& report) = nullptr;
  void* exhausted_user = nullptr;
  void (*destruction)(void* user, pool_statistics const& last) noexcept = nullptr;
  void* destruction_user = nullptr;
};

}  // namespace detail

WARPWRIGHT_END
