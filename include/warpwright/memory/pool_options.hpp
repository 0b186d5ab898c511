// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {
class pool_core;
}

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
  std::uint64_t live_bytes = 0;           ///< allocated, rounded up to 256 bytes a block
  std::uint64_t live_blocks = 0;          ///< allocated
  std::uint64_t reserved_bytes = 0;       ///< taken from CUDA
  std::uint64_t reserved_peak_bytes = 0;  ///< the highest reserved_bytes so far
  std::uint64_t largest_hole_bytes = 0;   ///< the largest free block
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

/// Options of a memory_pool. Every setter returns a changed copy:
/// memory_pool_options{}.maximum_bytes(n).checked().
class memory_pool_options {
 public:
  /// Called at most once an allocation, before it fails. Return true to make the pool try again
  /// after freeing or trimming memory. It must not allocate from the pool: that may call it again,
  /// without end. The pool holds no lock during the call. An exception from the callback leaves
  /// allocate().
  using exhausted_callback = bool (*)(void* user, memory_report const& report);
  /// Called by the pool's destructor; live_blocks above 0 are leaks.
  using destruction_callback = void (*)(void* user, pool_statistics const& last) noexcept;

  static constexpr std::size_t unlimited = ~std::size_t{0};
  static constexpr std::size_t by_source = ~std::size_t{0};

  /// The maximum of reserved memory. Virtual memory is mapped in granules of about 2 MiB; with a
  /// limit below one granule, memory_source::automatic uses cudaMalloc.
  /// @param bytes  default: unlimited
  [[nodiscard]] constexpr memory_pool_options maximum_bytes(std::size_t bytes) const noexcept {
    memory_pool_options copy = *this;
    copy.maximum_bytes_ = bytes;
    return copy;
  }
  /// The maximum of reserved memory as a fraction of the device's total memory. Holds in addition
  /// to maximum_bytes().
  /// @param fraction  in (0, 1]
  [[nodiscard]] constexpr memory_pool_options maximum_fraction(double fraction) const noexcept {
    memory_pool_options copy = *this;
    copy.maximum_fraction_ = fraction;
    return copy;
  }
  /// Memory to reserve at construction.
  /// @param bytes  default: 0
  [[nodiscard]] constexpr memory_pool_options initial_bytes(std::size_t bytes) const noexcept {
    memory_pool_options copy = *this;
    copy.initial_bytes_ = bytes;
    return copy;
  }
  /// Where the pool's memory comes from.
  /// @param source  default: automatic
  [[nodiscard]] constexpr memory_pool_options source(memory_source source) const noexcept {
    memory_pool_options copy = *this;
    copy.source_ = source;
    return copy;
  }
  /// The minimum to request from CUDA at a time.
  /// @param bytes  default: by_source: 64 MiB from cudaMalloc and cudaMallocAsync; of virtual
  /// memory
  ///   a quarter of the slack(). 0: only what the request needs
  [[nodiscard]] constexpr memory_pool_options growth_bytes(std::size_t bytes) const noexcept {
    memory_pool_options copy = *this;
    copy.growth_bytes_ = bytes;
    return copy;
  }
  /// Grows by at least this fraction of the memory reserved already, so that a large pool consists
  /// of few segments.
  /// @param factor  0 to 16; default: 0; 1 doubles the pool each time
  [[nodiscard]] constexpr memory_pool_options growth_factor(double factor) const noexcept {
    memory_pool_options copy = *this;
    copy.growth_factor_ = factor;
    return copy;
  }
  /// How much more than the peak of live memory may be reserved, with virtual memory, before the
  /// pool moves idle memory instead of requesting more. It grows by a quarter of the slack at a
  /// time, so a large floor is reserved early. Moving takes about 0.1 ms each time; slack lets a
  /// program that repeats its sizes reach a state in which nothing is moved. Ends at the maximum of
  /// reserved memory. A request that no idle memory can serve grows the pool further.
  /// @param fraction     of the peak: 0 to 16; default: 0.08
  /// @param floor_bytes  the least slack, as long as no graph holds memory; default: 16 MiB
  [[nodiscard]] constexpr memory_pool_options slack(double fraction,
                                                    std::size_t floor_bytes) const noexcept {
    memory_pool_options copy = *this;
    copy.slack_ = fraction;
    copy.slack_floor_bytes_ = floor_bytes;
    return copy;
  }
  /// No slack: reserved memory stays within about 3 % of the peak of live memory, and more misses
  /// move memory.
  [[nodiscard]] constexpr memory_pool_options compact() const noexcept { return slack(0.0, 0); }
  /// Whether a miss grows the pool or waits for another stream first.
  /// @param order  default: grow_before_wait
  [[nodiscard]] constexpr memory_pool_options order(reuse_order order) const noexcept {
    memory_pool_options copy = *this;
    copy.order_ = order;
    return copy;
  }
  /// The maximum of free bytes in each stream's cache, where other streams cannot use them until
  /// memory is short. The cache may hold one larger block in addition.
  /// @param bytes  default: 16 MiB; 0: no caches
  [[nodiscard]] constexpr memory_pool_options cache_bytes(std::size_t bytes) const noexcept {
    memory_pool_options copy = *this;
    copy.cache_bytes_ = bytes;
    return copy;
  }
  /// Checks at every call whether its stream is capturing, as during the lifetime of a
  /// capture_watch. For captures that other libraries begin.
  /// **Cost:** one CUDA call a call.
  [[nodiscard]] constexpr memory_pool_options detect_captures(bool on = true) const noexcept {
    memory_pool_options copy = *this;
    copy.detect_captures_ = on;
    return copy;
  }
  /// The maximum time that a request waits on the host for streams to complete their frees before
  /// more than the live peak and the slack() is reserved: the wait happens once, but the pool stays
  /// larger. Within the slack no request waits.
  /// @param microseconds  default: 2000; 0: the pool grows at once, beyond its slack
  [[nodiscard]] constexpr memory_pool_options maximum_wait_us(
      unsigned microseconds) const noexcept {
    memory_pool_options copy = *this;
    copy.maximum_wait_us_ = microseconds;
    return copy;
  }
  /// Checks every call for misuse and records the source location of every allocation for error
  /// messages.
  /// **Cost:** two or three CUDA calls a call; no caches.
  [[nodiscard]] constexpr memory_pool_options checked(bool on = true) const noexcept {
    memory_pool_options copy = *this;
    copy.checked_ = on;
    return copy;
  }
  /// @param callback  see exhausted_callback; null: none
  [[nodiscard]] constexpr memory_pool_options on_exhausted(exhausted_callback callback,
                                                           void* user = nullptr) const noexcept {
    memory_pool_options copy = *this;
    copy.exhausted_ = callback;
    copy.exhausted_user_ = user;
    return copy;
  }
  /// @param callback  see destruction_callback; null: none
  [[nodiscard]] constexpr memory_pool_options on_destruction(destruction_callback callback,
                                                             void* user = nullptr) const noexcept {
    memory_pool_options copy = *this;
    copy.destruction_ = callback;
    copy.destruction_user_ = user;
    return copy;
  }

 private:
  friend class detail::pool_core;
  std::size_t maximum_bytes_ = unlimited;
  double maximum_fraction_ = 1.0;
  std::size_t initial_bytes_ = 0;
  std::size_t growth_bytes_ = by_source;
  double growth_factor_ = 0.0;
  memory_source source_ = memory_source::automatic;
  double slack_ = 0.08;
  std::size_t slack_floor_bytes_ = std::size_t{16} << 20U;
  reuse_order order_ = reuse_order::grow_before_wait;
  std::size_t cache_bytes_ = std::size_t{16} << 20U;
  unsigned maximum_wait_us_ = 2000;
  bool checked_ = false;
  bool detect_captures_ = false;
  exhausted_callback exhausted_ = nullptr;
  void* exhausted_user_ = nullptr;
  destruction_callback destruction_ = nullptr;
  void* destruction_user_ = nullptr;
};

WARPWRIGHT_END
