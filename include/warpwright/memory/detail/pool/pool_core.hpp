// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/memory/detail/caches/stream_caches.hpp>
#include <warpwright/memory/detail/pool/call_sites.hpp>
#include <warpwright/memory/detail/pool/graph_memory.hpp>
#include <warpwright/memory/detail/source/mapped_source.hpp>
#include <warpwright/memory/detail/source/segment_source.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// What a memory_pool does, in the order of docs/memory.md, "What an allocation does". The parts
/// own their state; memory_pool documents the calls. Defined in pool_calls_definitions (hits and
/// frees), pool_misses_definitions and pool_lifetime_definitions.
class pool_core : noncopyable {
 public:
  static constexpr std::size_t default_alignment = block_heap::granule_bytes;
  static constexpr std::size_t max_alignment = std::size_t{1} << 30U;

  pool_core(device_id device, pool_settings const& options, source_location where);
  ~pool_core();

  // Step 1: the stream's cache. A stream_ref that carries its id never means the per-thread default
  // stream.
  [[nodiscard]] bool may_allocate_from_cache() const noexcept {
    return (reasons_.load(memory_order::relaxed) & to_check_allocations) == 0 &&
           !may_be_capturing_anywhere();
  }
  [[nodiscard]] bool may_free_to_cache(void const* pointer) const noexcept {
    return reasons_.load(memory_order::relaxed) == 0 && !may_be_capturing_anywhere() &&
           address_of(pointer) - first_address_ < address_span_;
  }
  [[nodiscard]] void* try_cache(stream_ref stream, std::size_t bytes) noexcept {
    if (!may_allocate_from_cache() || !stream.has_id()) return nullptr;
    return caches_.take(stream.id(), rounded_up(bytes));
  }
  [[nodiscard]] bool try_cache_free(stream_ref stream, void* pointer, std::size_t bytes) noexcept {
    if (!may_free_to_cache(pointer) || !stream.has_id()) return false;
    return caches_.put(stream.id(), pointer, rounded_up(bytes));
  }

  // Calls that step 1 did not serve.
  WARPWRIGHT_NOINLINE void* allocate(stream_ref stream, std::size_t bytes, std::size_t alignment,
                                     source_location where) {
    if (alignment != default_alignment || !may_allocate_from_cache() || !stream.has_id()) {
      return allocate_checked(stream, bytes, alignment, where);
    }
    return allocate_from_heap(stream, stream.id(where), bytes, alignment, where);
  }
  /// For memory that the library can do without, as for growth: reserves some if it must, but waits
  /// neither for streams, on the host or by the stream, nor for another thread's miss.
  /// @pre the stream has its id, and is not capturing
  /// @return null where allocate() would wait, or find no memory
  WARPWRIGHT_COLD void* try_allocate_now(stream_ref stream, std::size_t bytes,
                                         source_location where);
  WARPWRIGHT_NOINLINE void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                      source_location where) {
    if (!may_free_to_cache(pointer) || !stream.has_id()) {
      return deallocate_checked(stream, pointer, bytes, where);
    }
    deallocate_to_heap(stream, stream.id(where), pointer, bytes, where);
  }

  void allocate_batch(stream_ref stream, std::size_t const* bytes, void** pointers,
                      std::size_t count, source_location where);
  void deallocate_batch(stream_ref stream, void* const* pointers, std::size_t const* bytes,
                        std::size_t count, source_location where);
  void record_use(stream_ref stream, void* pointer, source_location where);
  void retire(stream_ref stream, source_location where);
  std::size_t trim(std::size_t bytes_to_keep, source_location where);
  [[nodiscard]] pool_statistics statistics() const noexcept;
  void watch_captures(int change) noexcept;

  void add_cache(thread_cache& cache, stream_ref stream, source_location where);
  [[nodiscard]] stream_caches& caches() noexcept { return caches_; }

  [[nodiscard]] device_id device() const noexcept { return device_; }
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_bytes_; }
  [[nodiscard]] memory_source source() const noexcept { return source_; }
  [[noreturn]] WARPWRIGHT_COLD void throw_out_of_memory(std::size_t bytes,
                                                        source_location where) const;
  [[noreturn]] WARPWRIGHT_COLD void throw_unknown(void* pointer, std::size_t bytes,
                                                  source_location where, bool to_free = true) const;

 private:
  static constexpr std::uint32_t none = block_heap::none;
  // Bits of reasons_: why calls cannot use the caches.
  static constexpr unsigned check_captures = 1, shared_blocks = 2, graph_blocks = 4, destroyed = 8;
  static constexpr unsigned to_check_allocations = check_captures | destroyed;
  using extent = mapped_source::extent;

  /// Sets up what every slow operation needs: serialises them, makes the pool's device current and
  /// sets a capture mode that allows CUDA calls (none of them touches a capturing stream). Restores
  /// device and mode.
  class slow_path;

  static void check_options(pool_settings const& options, source_location where);
  WARPWRIGHT_COLD void open(source_location where);
  [[nodiscard]] bool checked() const noexcept { return sites_.enabled(); }
  [[nodiscard]] bool watches_captures() const noexcept;
  /// On the host runtime: throws for a capture that a pool on a GPU would not notice.
  void check_unwatched_capture(stream_ref stream, char const* verb, source_location where) const;
  void update_reasons() noexcept;
  void reclaim_graphs() noexcept;
  void check_alive(char const* call, source_location where) const;
  [[nodiscard]] std::uint64_t id_of(stream_ref stream, source_location where) const;
  [[nodiscard]] memory_report report(std::size_t requested_bytes) const noexcept;

  // Step 2, and what leads there.
  void* allocate_from_heap(stream_ref stream, std::uint64_t id, std::size_t bytes,
                           std::size_t alignment, source_location where);
  void deallocate_to_heap(stream_ref stream, std::uint64_t id, void* pointer, std::size_t bytes,
                          source_location where);
  WARPWRIGHT_COLD void* allocate_checked(stream_ref stream, std::size_t bytes,
                                         std::size_t alignment, source_location where);
  WARPWRIGHT_COLD void deallocate_checked(stream_ref stream, void* pointer, std::size_t bytes,
                                          source_location where);
  void* commit(std::uint32_t node, source_location where);
  std::uint32_t find_live(heap_guard& lock, void* pointer, std::size_t bytes,
                          source_location where) const;
  WARPWRIGHT_COLD void undo_allocation(std::uint64_t id, cudaStream_t handle,
                                       void* pointer) noexcept;
  WARPWRIGHT_COLD void close_thread_epoch(std::uint64_t id) noexcept;
  void free_in_graph(stream_ref stream, void* pointer, std::size_t bytes, source_location where);

  // Misses: the other steps.
  WARPWRIGHT_COLD void* allocate_slow(stream_ref stream, std::uint64_t id,
                                      allocation_request const& request, source_location where);
  // What the last step waits for: the report that a graph is destroyed, which a driver makes within
  // 0.1 ms; that of one that still runs, for 50 times max_wait_seconds(); all work of the device.
  enum class last_wait { report, reports, device };
  struct miss {
    heap_guard& lock;
    stream_ref stream;
    std::uint64_t id;   // no_id: the stream is capturing
    std::uint32_t own;  // the list of the stream, or of what its capture has freed there
    allocation_request const& request;
    last_wait wait;
    source_location where;
  };
  std::uint32_t climb(miss const& wanted);
  std::uint32_t climb_in_capture(heap_guard& lock, stream_ref stream,
                                 allocation_request const& request, source_location where);
  std::uint32_t take_available(miss const& m);
  std::uint32_t take_coalesced(miss const& m);
  std::uint32_t take(miss const& m) {
    std::uint32_t const node = take_available(m);
    return node != none ? node : take_coalesced(m);
  }
  bool poll(miss const& m, bool record);
  std::uint32_t grow(miss const& m, extent how_far);
  std::uint32_t take_or_grow(miss const& m, extent how_far);
  std::uint32_t grow_within_slack(miss const& m);
  std::uint32_t steal(miss const& m);
  void await_graphs(miss const& m, std::uint64_t least_ns);
  std::uint32_t wait_for_own_stream(miss const& m);
  std::uint32_t wait_patiently(miss const& m, unsigned divisor, extent how_far);
  std::uint32_t wait_for_all(miss const& m);
  std::uint32_t compact_and_grow(miss const& m);
  [[nodiscard]] std::uint64_t max_wait_ns() const noexcept {
    return static_cast<std::uint64_t>(1e9 * options_.max_wait_seconds);
  }
  [[nodiscard]] bool has_room(allocation_request const& request) const noexcept;
  [[nodiscard]] bool may_grow(allocation_request const& request) const noexcept;
  std::size_t count_graphs() noexcept;
  [[nodiscard]] bool graphs_hold(allocation_request const& request) const noexcept;
  void synchronize(heap_guard& lock, std::uint64_t own_id, source_location where);

  // Read by every call, rarely written.
  atomic<unsigned> reasons_;
  std::uint64_t first_address_ = 1;  // without an address range: every address but null
  std::uint64_t address_span_ = ~std::uint64_t{0} - 1;
  pool_heap heap_;
  event_store events_{heap_};
  epoch_tracker streams_{heap_, events_};
  stream_caches caches_{heap_, streams_};

  device_id device_;
  pool_settings options_;
  memory_source source_ = memory_source::cuda_malloc;
  std::size_t limit_bytes_ = pool_settings::unlimited;
  std::size_t capacity_bytes_ = 0;     // the limit, or the device's memory if that is smaller
  driver::context context_ = nullptr;  // the device's primary context
  mutex slow_path_mutex_;              // serialises misses; locked before all other locks
  int watches_ = 0;                    // guarded by the heap's lock
  deferred_frees deferred_{heap_, events_, streams_};
  graph_memory graphs_{heap_, streams_, deferred_};
  mapped_source mapped_{heap_, streams_};
  segment_source segments_{heap_};
  call_sites sites_;
  owning_process process_;
};

}  // namespace detail

WARPWRIGHT_END
