// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/memory/detail/event_store.hpp>
#include <warpwright/memory/detail/pinned/block_table.hpp>
#include <warpwright/memory/detail/pinned/page_locked_source.hpp>
#include <warpwright/memory/detail/pinned/pinned_settings.hpp>
#include <warpwright/memory/detail/pinned/pinned_shard.hpp>
#include <warpwright/memory/detail/pool/pool_heap.hpp>

#include <cstddef>
#include <cstdint>

#include <pthread.h>

WARPWRIGHT_BEGIN

namespace detail {

/// The steps of a pinned_pool's calls.
///
/// A thread has a shard. It allocates from the shard's free blocks, then from the heap, then from
/// batches of all shards whose events have completed, then from new segments; at the limit it
/// waits. Blocks in a shard are live in the heap. The memory pool's epoch_tracker would take the
/// heap's lock at every free, since device memory goes back to its stream at once; host memory can
/// wait for its event in the shard.
///
/// Locks, in the order in which they are taken: slow_path_mutex_, which serialises misses of the
/// heap and is held across CUDA calls; the shards', of which only all_locks holds several; the
/// heap's.
class pinned_core : noncopyable {
 public:
  static constexpr std::size_t default_alignment = block_heap::granule_bytes;
  static constexpr std::size_t max_alignment = 4096;

  pinned_core(pinned_settings const& options, source_location where);
  ~pinned_core();

  void* try_allocate(std::size_t bytes, std::size_t alignment, source_location where);
  /// For memory that the library can do without, as for growth: page-locks some if it must, but
  /// waits neither for streams nor for another thread's miss.
  /// @return null where allocate() would wait, or throw out_of_memory
  void* try_allocate_now(std::size_t bytes, source_location where);
  void deallocate(void* pointer, std::size_t bytes, source_location where);
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where);
  /// For destructors: as above, or where the stream cannot be registered, after a wait for it. A
  /// block that neither can free, or whose stream is capturing, stays live.
  void free_behind(named_stream const& stream, void* pointer, std::size_t bytes) noexcept;
  void retire(stream_ref stream, source_location where);
  std::size_t trim(std::size_t bytes_to_keep, source_location where);

  [[nodiscard]] pinned_statistics statistics() const noexcept;
  [[noreturn]] void throw_out_of_memory(std::size_t bytes, source_location where) const;
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return options_.max_bytes; }

 private:
  using shard_guard = unique_lock<spin_lock>;
  class all_locks;
  class relaxed_captures;

  static constexpr unsigned shard_bits = 7;  // two of 16 threads have one together
  static constexpr unsigned shard_count = 1U << shard_bits;
  static constexpr std::uint64_t no_id = ~std::uint64_t{0};
  // So many frees, or a part of the shard's budget of bytes, close a batch.
  static constexpr std::uint64_t batch_blocks = 512;  // 16 threads wait 10 us for each event

  [[nodiscard]] pinned_shard& own_shard() noexcept {
    return shards_[thread_slot<shard_bits>(pthread_self())];
  }
  void* give(pinned_shard& shard, pinned_block& block, std::size_t bytes,
             std::uint64_t rounded_bytes) noexcept {
    shard.count_allocation(rounded_bytes);
    block.give_to_caller(bytes);
    return pointer_to(block.address);
  }
  void use(pinned_shard& shard) noexcept {
    if (!shard.used) use_first(shard);
  }
  [[nodiscard]] std::uint64_t cache_budget() const noexcept {
    return cache_budget_.load(memory_order::relaxed);
  }

  // Calls.
  void use_first(pinned_shard& shard) noexcept;
  void update_budget() noexcept;
  void count_cold_call() noexcept;
  pinned_block& take_from_caller(pinned_shard& shard, void* pointer, std::size_t bytes,
                                 source_location where) const;
  [[noreturn]] void throw_misuse(pinned_block const* block, void* pointer, std::size_t bytes,
                                 source_location where) const;
  [[noreturn]] static void throw_capturing(source_location where);
  void register_stream(pinned_shard& shard, stream_ref stream, std::uint64_t id,
                       source_location where);
  void free_on(stream_ref stream, std::uint64_t id, void* pointer, std::size_t bytes,
               source_location where);
  void spill(pinned_shard& shard, pinned_block& block, std::uint64_t rounded_bytes) noexcept;
  void give_to_heap(pinned_list const& blocks) noexcept;

  // Batches. With the shard's lock, which they release around CUDA calls.
  bool close_batch(shard_guard& lock, pinned_shard& shard, std::uint32_t index,
                   std::uint64_t own_id, bool last_resort, source_location where);
  void close_full_batch(shard_guard& lock, pinned_shard& shard, std::uint32_t index,
                        std::uint64_t own_id) noexcept;
  static void reopen(pinned_stream& stream) noexcept;
  bool poll_stream(shard_guard& lock, pinned_shard& shard, std::uint32_t index, unsigned queries,
                   bool wait, source_location where);
  struct poll_result {
    bool called = false, completed = false;
  };
  poll_result poll_some(shard_guard& lock, pinned_shard& shard, std::size_t most_steps,
                        bool all) noexcept;
  bool poll_for_miss(shard_guard& lock, pinned_shard& shard) noexcept;
  void release_oldest(pinned_shard& shard, std::uint32_t index) noexcept;
  void absorb(pinned_shard& shard, pinned_list const& blocks) noexcept;
  static void wait_for_closing(shard_guard& lock, pinned_shard& shard, std::uint32_t index);

  // Misses.
  struct request {
    std::size_t bytes;
    std::uint64_t rounded_bytes;
    std::size_t alignment;
  };
  void* allocate_miss(pinned_shard& shard, request const& wanted, source_location where);
  void* allocate_slow(pinned_shard& shard, request const& wanted, bool may_wait,
                      source_location where);
  static constexpr std::uint64_t for_ever = ~std::uint64_t{0};
  void* allocate_waiting(pinned_shard& shard, request const& wanted, std::uint64_t most_ns,
                         source_location where);
  void* allocate_growing(pinned_shard& shard, request const& wanted, source_location where);
  void* allocate_from_heap(pinned_shard& shard, request const& wanted, bool exhaustive, bool hit);
  // With slow_path_mutex_:
  std::uint64_t own_default_stream_id() const noexcept;
  void flush_shards() noexcept;
  [[nodiscard]] bool many_bytes_of_other_threads(std::uint64_t own_id) noexcept;
  void close_all(std::uint64_t own_id, bool last_resort, source_location where);
  void poll_all(source_location where);
  struct batch_numbers {
    std::uint64_t below[shard_count];
  };
  [[nodiscard]] batch_numbers numbers() noexcept;
  [[nodiscard]] bool any_pending(batch_numbers const& all) noexcept;
  void wait_for_all(std::uint64_t own_id, source_location where);
  bool add_segment(std::uint64_t bytes, source_location where);
  std::size_t release_segments(std::uint64_t keep_bytes, source_location where);
  [[nodiscard]] std::uint64_t reserved_bytes() const noexcept {
    return reserved_bytes_.load(memory_order::relaxed);
  }

  pinned_settings options_;
  page_locked_source source_;
  pool_heap heap_;
  event_store events_{heap_};
  block_table blocks_;
  array<pinned_shard> shards_;
  atomic<unsigned> used_shards_;
  atomic<unsigned> cold_calls_;           // since the start
  atomic<std::uint64_t> cache_budget_;    // of each shard
  atomic<std::uint64_t> reserved_bytes_;  // changes with slow_path_mutex_
  atomic<bool> has_per_thread_streams_;
  mutex slow_path_mutex_;
  array<host_segment> segments_;  // guarded by slow_path_mutex_
  // Guarded by the heap's lock:
  std::uint64_t pageable_bytes_ = 0;
  std::uint64_t live_peak_bytes_ = 0;  // of the heap
};

/// Gives a thread that has none a context, without which the driver's calls fail.
class pinned_core::relaxed_captures : public relaxed_driver_mode {
 public:
  explicit relaxed_captures(driver_calls const& driver) noexcept
      : relaxed_driver_mode{with_context(driver)} {}

 private:
  static driver_calls const& with_context(driver_calls const& driver) noexcept {
    int device = 0;
    if (driver.current_context() == nullptr && cudaGetDevice(&device) == cudaSuccess) {
      discard(cudaSetDevice(device));
    }
    return driver;
  }
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/pinned/pinned_calls_definitions.hpp>
#include <warpwright/memory/detail/pinned/pinned_misses_definitions.hpp>
#endif
