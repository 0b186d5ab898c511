// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// What a pool does first when neither the stream's own free blocks nor those known to be complete
/// serve a request.
enum class reuse_order {
  grow_before_wait,  ///< ready > grow > wait: streams stay independent, more memory is reserved
  wait_before_grow,  ///< ready > wait > grow: less memory, but a stream may have to wait for
                     ///< another
};

/// Where a pool's memory comes from.
enum class memory_source {
  automatic,       ///< virtual memory where the device has it, else cudaMalloc
  virtual_memory,  ///< one range of addresses, memory mapped into it in granules of some 2 MiB
  cuda_malloc,     ///< segments, each a cudaMalloc: what other devices and processes can map (peer
                   ///< access, cudaIpcGetMemHandle)
  cuda_malloc_async,  ///< segments, each a cudaMallocAsync: from the device's default memory pool,
                      ///< whose threshold and other users they share
};

/// The figures of a memory_pool at one moment; every size in bytes.
struct pool_statistics {
  std::uint64_t live_bytes = 0;           ///< handed out, in granules of 256 bytes
  std::uint64_t live_blocks = 0;          ///< handed out
  std::uint64_t reserved_bytes = 0;       ///< taken from CUDA
  std::uint64_t reserved_peak_bytes = 0;  ///< the highest reserved_bytes so far
  std::uint64_t largest_hole_bytes = 0;   ///< the largest free block
  std::uint64_t cached_bytes = 0;  ///< free, in caches: each stream's own until memory is short
  std::uint64_t graph_bytes = 0;   ///< freed, and kept: for graphs, or till record_use()'s streams
                                   ///< have passed
  std::uint64_t allocations = 0;   ///< successful ones of at least one byte
  std::uint64_t deallocations = 0;
  std::uint64_t hits = 0;        ///< allocations served at once: no CUDA call but for stream ids
                                 ///< and checks
  std::uint64_t cache_hits = 0;  ///< of these, from a cache, without the pool's common books
  std::uint64_t cross_stream_steals = 0;     ///< allocations served by another stream's block
  std::uint64_t upstream_allocations = 0;    ///< times that memory was taken from CUDA
  std::uint64_t upstream_deallocations = 0;  ///< times that memory was given back to CUDA
  std::uint64_t remaps = 0;                  ///< times that idle memory was mapped elsewhere
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

/// How a memory_pool is set up; chain the calls: memory_pool_options{}.maximum_bytes(n).checked().
class memory_pool_options {
 public:
  /// Called once an allocation, before it fails; free or trim something and answer true to have the
  /// pool try again. The pool holds no lock meanwhile. It may throw; the allocation then fails so.
  using exhausted_callback = bool (*)(void* user, memory_report const& report);
  /// Called by the pool's destructor; live_blocks above 0 are leaks.
  using destruction_callback = void (*)(void* user, pool_statistics const& last) noexcept;

  static constexpr std::size_t unlimited = ~std::size_t{0};
  static constexpr std::size_t by_source = ~std::size_t{0};

  /// The most memory to reserve; virtual memory comes in granules of some 2 MiB, and a limit below
  /// one granule makes automatic choose cudaMalloc. @param bytes  default: unlimited
  memory_pool_options& maximum_bytes(std::size_t bytes) noexcept {
    maximum_bytes_ = bytes;
    return *this;
  }
  /// The most memory to reserve, as a fraction of the device's total. Both limits hold.
  /// @param fraction  in (0, 1]
  memory_pool_options& maximum_fraction(double fraction) noexcept {
    maximum_fraction_ = fraction;
    return *this;
  }
  /// Memory to reserve at construction. @param bytes  default: 0
  memory_pool_options& initial_bytes(std::size_t bytes) noexcept {
    initial_bytes_ = bytes;
    return *this;
  }
  /// Where memory comes from. @param source  default: automatic
  memory_pool_options& source(memory_source source) noexcept {
    source_ = source;
    return *this;
  }
  /// The least memory to take from CUDA at a time.
  /// @param bytes  default: by_source: 64 MiB of cudaMalloc or cudaMallocAsync; of virtual memory
  ///   what is needed and no more
  memory_pool_options& growth_bytes(std::size_t bytes) noexcept {
    growth_bytes_ = bytes;
    return *this;
  }
  /// Also takes at least this part of what is reserved already, so that large pools consist of few
  /// segments. @param factor  0 to 16; default: 0; 1 doubles the pool each time
  memory_pool_options& growth_factor(double factor) noexcept {
    growth_factor_ = factor;
    return *this;
  }
  /// What to prefer when a request misses. @param order  default: grow_before_wait
  memory_pool_options& order(reuse_order order) noexcept {
    order_ = order;
    return *this;
  }
  /// How many free bytes each stream's cache may keep away from the others, and beside them one
  /// larger block; they come back when memory is short. @param bytes  default: 16 MiB; 0: no caches
  memory_pool_options& cache_bytes(std::size_t bytes) noexcept {
    cache_bytes_ = bytes;
    return *this;
  }
  /// Looks at every call whether its stream is capturing, as a capture_watch does while it lives:
  /// for captures that other libraries begin. **Cost:** one CUDA call a call.
  memory_pool_options& notice_captures(bool on = true) noexcept {
    notice_captures_ = on;
    return *this;
  }
  /// How long a request that would make the pool grow may wait on the host for streams to pass what
  /// they have freed. Growing takes some 100 microseconds, and the memory stays.
  /// @param microseconds  default: 2000; 0: it grows at once
  memory_pool_options& patience_us(unsigned microseconds) noexcept {
    patience_us_ = microseconds;
    return *this;
  }
  /// Checks every call for misuse and keeps the place of every allocation for the texts.
  /// **Cost:** two or three CUDA calls a call; no caches.
  memory_pool_options& checked(bool on = true) noexcept {
    checked_ = on;
    return *this;
  }
  /// @param callback  see exhausted_callback; null: none
  memory_pool_options& on_exhausted(exhausted_callback callback, void* user = nullptr) noexcept {
    exhausted_ = callback;
    exhausted_user_ = user;
    return *this;
  }
  /// @param callback  see destruction_callback; null: none
  memory_pool_options& on_destruction(destruction_callback callback,
                                      void* user = nullptr) noexcept {
    destruction_ = callback;
    destruction_user_ = user;
    return *this;
  }

 private:
  friend class memory_pool;
  std::size_t maximum_bytes_ = unlimited;
  double maximum_fraction_ = 1.0;
  std::size_t initial_bytes_ = 0;
  std::size_t growth_bytes_ = by_source;
  double growth_factor_ = 0.0;
  memory_source source_ = memory_source::automatic;
  reuse_order order_ = reuse_order::grow_before_wait;
  std::size_t cache_bytes_ = std::size_t{16} << 20U;
  unsigned patience_us_ = 2000;
  bool checked_ = false;
  bool notice_captures_ = false;
  exhausted_callback exhausted_ = nullptr;
  void* exhausted_user_ = nullptr;
  destruction_callback destruction_ = nullptr;
  void* destruction_user_ = nullptr;
};

WARPWRIGHT_END
