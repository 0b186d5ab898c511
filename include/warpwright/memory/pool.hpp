// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/front_cache.hpp>
#include <warpwright/memory/detail/pool_state.hpp>
#include <warpwright/memory/detail/virtual_range.hpp>
#include <warpwright/memory/pool_options.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

class memory_cache;

/// A stream-ordered memory pool of one device: keeps freed memory and allocates it again without
/// calling CUDA.
///
/// @pre A stream used here stays alive until retire() or the pool's destruction: the pool may
///   record an event on it at any time. This includes streams that only allocated. Streams are
///   identified by their id, never by their handle, which CUDA reuses.
///
/// A block freed on a stream can be allocated again on that stream at once, because later work of
/// the stream runs behind the work that used the block. Most calls are served by the stream's
/// cache, which holds freed blocks by exact size; the others by the pool's heap. Another stream
/// gets a block only when that is safe, in this order:
///   1. *ready*: an event shows that the donor stream has completed the work before the free. A
///      request that would grow the pool first waits on the host for such events, up to
///      maximum_wait_us();
///   2. *grow*: idle memory is mapped to the addresses where it is needed, or memory is requested
///      from CUDA;
///   3. *wait*: the requesting stream waits on the device for the donor's event.
/// reuse_order swaps 2 and 3; so does a limit that leaves no room for the request. If all of this
/// fails, the pool merges the free blocks of all streams behind one wait for each stream, then
/// waits on the host, compacts idle memory and tries once more, then calls the exhausted_callback,
/// then fails. A pool remains usable after a failed allocation. docs/memory.md has the details.
///
/// Blocks freed on the per-thread default stream (cudaStreamPerThread) become available to other
/// threads only after some more frees on it or when memory runs out, because only that thread can
/// record its event.
///
/// Misuse: checked() detects it and throws. Without it, a pointer freed twice or with a wrong size
/// may later be allocated twice. Still detected: a block freed twice in a row while it is in its
/// stream's cache; with virtual memory, a pointer outside the pool's address range; without caches,
/// a pointer that is not the start of a live block.
///
/// **Threads:** any number may call any member at once. A hit holds one spin lock, its stream's or
/// the heap's, and never across a CUDA call. Misses are serialised, including their wait on the
/// host. When thousands of blocks become ready at once they are moved in portions, so that hits
/// proceed in between.
/// **Capture:** allocate and free on a capturing stream only during the lifetime of a
/// capture_watch, or with detect_captures() or checked(). Without these only misses detect a
/// capture: a hit would allocate memory that the pool reuses while the graph still uses it, and a
/// call with a stream_ref that does not carry its id would invalidate the capture, because it
/// queries the id. Memory allocated in a watched capture belongs to the graph until the graph and
/// all executables made from it are destroyed; a block freed in the capture is reused only by the
/// same stream of the same capture; a block allocated before the capture and freed in it is
/// retained as long as the graph. During that time, and while a graph has memory of the pool, every
/// call takes the slow path's checks. Captures on other streams are neither disturbed nor a
/// restriction: growing is legal, and a capturing donor stream is not touched.
class memory_pool {
 public:
  /// Creates a pool on a device.
  /// @param device   the device of the memory
  /// @param options  limits and policies
  /// @throws std::invalid_argument  for a limit or factor out of range; for
  ///   memory_source::virtual_memory on a device without it
  /// @throws out_of_memory          when initial_bytes cannot be allocated
  /// @throws cuda_error             when a CUDA call fails
  /// **Capture:** legal unless the calling thread captures in global mode. **Cost:** one
  /// cudaMemGetInfo and the reservation of the address range; creates the device's context if there
  /// is none.
  explicit memory_pool(device_id device, memory_pool_options const& options = {},
                       source_location where = source_location::current());

  /// Returns the memory to CUDA. Blocks still live are reported to the destruction_callback and
  /// become invalid.
  /// @pre No work submitted later uses the pool's memory; the destructor waits for work already
  ///   running. The pool's caches and capture_watch objects are destroyed. Graphs that use its
  ///   memory are not launched again.
  /// Never throws, and tolerates a CUDA runtime that is shutting down.
  ~memory_pool();
  memory_pool(memory_pool const&) = delete;
  memory_pool& operator=(memory_pool const&) = delete;

  /// Allocates memory for work on a stream.
  /// @param stream     work submitted to this stream from now on may use the memory
  /// @param bytes      0 returns nullptr and is not counted
  /// @param alignment  of the address, in bytes: a power of two up to 1 GiB; at least 256 is used
  /// @return device memory with undefined contents
  /// @throws out_of_memory          when all steps above fail
  /// @throws std::invalid_argument  for a bad alignment; in checked mode, with CUDA 12.8 and newer,
  ///   for a stream of another device
  /// @throws std::bad_alloc         when the host has no memory for the pool's data structures
  /// @throws cuda_error             when another CUDA call fails; no memory is lost
  /// **Stream:** ordered on `stream`. **Capture:** legal with a capture_watch, detect_captures() or
  /// checked(). **Cost:** a hit makes no CUDA call with a stream_ref that carries its id, and one
  /// cuStreamGetId with a raw handle.
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes,
                               std::size_t alignment = block_alignment_bytes,
                               source_location where = source_location::current()) {
    void* const pointer = try_allocate(stream, bytes, alignment, where);
    if (pointer == nullptr && bytes != 0) throw_out_of_memory(bytes, where);
    return pointer;
  }

  /// As allocate(), but returns nullptr when there is not enough memory.
  /// @throws std::invalid_argument, std::bad_alloc, cuda_error  as allocate()
  [[nodiscard]] void* try_allocate(stream_ref stream, std::size_t bytes,
                                   std::size_t alignment = block_alignment_bytes,
                                   source_location where = source_location::current()) {
    if (alignment == block_alignment_bytes) {
      if (void* const pointer = try_cache(stream, bytes)) return pointer;
    }
    return allocate_cache_miss(stream, bytes, alignment, where);
  }

  /// Frees a block; work submitted to `stream` before the call may still use it.
  /// @param stream   a stream that is ordered behind all work with the block: the stream it was
  ///   allocated on, if all such work is on it, or one that the caller has ordered behind the
  ///   allocation and all such work
  /// @param pointer  from allocate() of this pool; nullptr does nothing
  /// @param bytes    as passed to allocate()
  /// @throws std::invalid_argument  for misuse, without any effect: in checked mode for a pointer
  ///   that is not the start of a live block (freed twice, foreign, inside a block), a wrong size,
  ///   or a stream of another device; otherwise for the cases named above
  /// @throws std::bad_alloc  when the host has no memory to register a stream used here for the
  ///   first time. A free of a live block on a known stream with a stream_ref that carries its id
  ///   throws only what the next line names
  /// @throws std::invalid_argument, cuda_error  for a block with record_use() or of a graph, when
  ///   no event can be recorded behind it, for example because one of its streams is capturing;
  ///   when a query of the stream's id or capture status fails. The block stays allocated
  /// **Stream:** ordered on `stream`; does not block. **Capture:** as allocate(). **Cost:** no CUDA
  /// call with a stream_ref that carries its id; on the per-thread default stream, which never
  /// does, one cuStreamGetId, and one cudaEventRecord in 64 frees or 16 MiB.
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    if (!try_cache_free(stream, pointer, bytes))
      deallocate_cache_miss(stream, pointer, bytes, where);
  }

  /// Allocates several blocks: all or none.
  /// @param stream    as allocate()
  /// @param bytes     sizes of the blocks, `count` of them
  /// @param pointers  receives the blocks; nullptr for 0 bytes. Unspecified after an exception
  /// @param count     number of blocks
  /// @throws as allocate(); no block is allocated then
  /// **Stream:** ordered on `stream`. **Capture:** as allocate(). **Cost:** queries the stream's id
  /// once, and takes the cache's lock once for each run of blocks in the cache.
  void allocate_batch(stream_ref stream, std::size_t const* bytes, void** pointers,
                      std::size_t count, source_location where = source_location::current());

  /// Frees several blocks.
  /// @param stream          as deallocate()
  /// @param pointers,bytes  blocks and their sizes, `count` of each
  /// @param count           number of blocks
  /// @throws as deallocate(), for the first block that is rejected; the blocks before it are freed
  /// **Stream:** ordered on `stream`. **Capture:** as allocate(). **Cost:** queries the stream's id
  /// once, and takes the cache's lock once while the cache has room.
  void deallocate_batch(stream_ref stream, void* const* pointers, std::size_t const* bytes,
                        std::size_t count, source_location where = source_location::current());

  /// Records that work on another stream uses a block: after its free the block is reused, even by
  /// the stream it was freed on, only when both streams have completed the work before the free.
  /// @param stream   a stream of the pool's device, alive until the block is freed
  /// @param pointer  the start of a live block
  /// @throws std::invalid_argument  for a pointer that is not the start of a live block (unchecked,
  ///   a freed block in a cache is accepted); for a capturing stream
  /// @throws std::bad_alloc         when the host has no memory for the record
  /// @throws cuda_error             when the stream's id cannot be queried
  /// **Stream:** nothing is submitted before the block is freed. **Capture:** `stream` must not be
  /// capturing, and the block must not be freed in a capture: that throws. **Cost:** until the
  /// block is freed every call takes the slow path's checks; the free records an event on each
  /// stream. Ordering the streams in the caller (stream_ref::wait) costs less.
  void record_use(stream_ref stream, void* pointer,
                  source_location where = source_location::current());

  /// Creates a cache for one thread and one stream: the fastest way to allocate.
  /// @pre the pool and the stream outlive the cache
  /// @param stream        the stream whose blocks it caches
  /// @param budget_bytes  the maximum of cached bytes, plus one larger block; 0 caches nothing. The
  ///   pool takes cached blocks back when memory is short
  /// @return the cache
  /// @throws std::bad_alloc, cuda_error  when the stream cannot be registered
  /// **Capture:** `stream` must not be capturing. **Cost:** two locks, and a CUDA call if the
  /// stream_ref does not carry its id.
  [[nodiscard]] memory_cache make_cache(stream_ref stream,
                                        std::size_t budget_bytes = std::size_t{256} << 20U,
                                        source_location where = source_location::current());

  /// Stops tracking a stream. Call it before the stream is destroyed. Its free blocks become
  /// available to all streams once the work submitted to it so far has completed.
  /// @pre no other call of the pool uses the stream at the same time or later
  /// @param stream  the stream
  /// @throws std::invalid_argument  for a capturing stream, and for one that has a memory_cache
  /// @throws cuda_error             when a CUDA call fails; the stream is still tracked then
  /// **Stream:** records at most one event; does not block. **Capture:** `stream` must not be
  /// capturing.
  void retire(stream_ref stream, source_location where = source_location::current());

  /// Returns idle memory to CUDA.
  /// @param bytes_to_keep  at least this much stays reserved, if as much is reserved
  /// @return the number of bytes returned
  /// @throws cuda_error  when a CUDA call fails; no memory is lost
  /// **Stream:** waits on the host for all streams with free blocks in the pool, and for the legacy
  /// default stream if one of them is another thread's default stream; cudaFree synchronises the
  /// device. **Capture:** legal; blocks freed on a capturing stream are kept.
  std::size_t trim(std::size_t bytes_to_keep = 0,
                   source_location where = source_location::current());

  /// @return a snapshot of the counters
  /// **Cost:** takes the lock of every cache and searches each stream's largest free block; not for
  /// a hot loop.
  [[nodiscard]] pool_statistics statistics() const noexcept;

  /// @return the device of the memory
  [[nodiscard]] device_id device() const noexcept { return device_; }
  /// @return the maximum of reserved bytes; memory_pool_options::unlimited: no limit
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_bytes_; }
  /// @return where the memory comes from; never automatic
  [[nodiscard]] memory_source source() const noexcept { return source_; }

  /// The minimum alignment of a block.
  static constexpr std::size_t block_alignment_bytes = 256;
  /// The maximum alignment that allocate() accepts.
  static constexpr std::size_t maximum_alignment_bytes = std::size_t{1} << 30U;

 private:
  friend class memory_cache;
  friend class capture_watch;
  using heap = detail::block_heap;
  using front_cache = detail::front_cache;
  using shard = detail::locked_cache<detail::biased_lock>;
  using stream_entry = detail::stream_entry;
  using biased_guard = detail::unique_lock<detail::biased_lock>;
  struct allocation_request {
    std::size_t bytes;
    std::uint64_t rounded_bytes;
    std::uint64_t alignment;
  };
  struct mapping_plan {  // where to map memory, and the range of free blocks that this completes
    std::uint32_t hole = heap::none;
    std::uint64_t begin = 0, end = 0;
    std::uint64_t map_address = 0, map_bytes = 0;
  };
  class slow_path_scope;
  class all_locks;
  static constexpr std::uint64_t invalid_stream_id = ~std::uint64_t{0};
  static constexpr unsigned shard_count = 64;
  static constexpr std::uint32_t deferred_free = ~std::uint32_t{0};  // tag of a block that is freed
                                                                     // but not reusable yet
  // Bits of slow_path_reasons(): why calls cannot use the fast path.
  static constexpr unsigned check_captures = 1, shared_blocks = 2, graph_blocks = 4, destroyed = 8;

  static std::uint64_t address_of(void const* pointer) noexcept {
    return reinterpret_cast<std::uintptr_t>(pointer);
  }
  static void* pointer_to(std::uint64_t address) noexcept {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  }
  // Rounds up to a granule; 0 on overflow, a size that no cache holds.
  static std::uint64_t rounded_up(std::size_t bytes) noexcept {
    return (std::uint64_t{bytes} + (heap::granule_bytes - 1)) & ~(heap::granule_bytes - 1);
  }
  [[nodiscard]] unsigned slow_path_reasons() const noexcept {
    return slow_path_reasons_.load(detail::memory_order::relaxed);
  }
  [[nodiscard]] shard* cache_of(std::uint64_t id) const noexcept {
    return shards_[id % shard_count].load(detail::memory_order::acquire);
  }

  // The fast path. A stream_ref that carries its id never means the per-thread default stream.
  [[nodiscard]] void* try_cache(stream_ref stream, std::size_t bytes) noexcept {
    if (slow_path_reasons() != 0 || !stream.has_id()) return nullptr;
    std::uint64_t const id = stream.id();
    shard* const cache = cache_of(id);
    if (cache == nullptr) return nullptr;
    biased_guard const lock{cache->lock};
    return cache->stream_id == id ? cache->take(rounded_up(bytes)) : nullptr;
  }
  [[nodiscard]] bool try_cache_free(stream_ref stream, void* pointer, std::size_t bytes) noexcept {
    if (slow_path_reasons() != 0 || address_of(pointer) - first_address_ >= address_span_ ||
        !stream.has_id()) {
      return false;
    }
    std::uint64_t const id = stream.id();
    shard* const cache = cache_of(id);
    if (cache == nullptr) return false;
    biased_guard const lock{cache->lock};
    return cache->stream_id == id && cache->put_fast(pointer, rounded_up(bytes));
  }

  // Calls that the fast path did not serve.
  WARPWRIGHT_NOINLINE void* allocate_cache_miss(stream_ref stream, std::size_t bytes,
                                                std::size_t alignment, source_location where) {
    if (alignment != block_alignment_bytes || slow_path_reasons() != 0 || !stream.has_id()) {
      return allocate_checked(stream, bytes, alignment, where);
    }
    return allocate_from_heap(stream, stream.id(where), bytes, alignment, where);
  }
  WARPWRIGHT_NOINLINE void deallocate_cache_miss(stream_ref stream, void* pointer,
                                                 std::size_t bytes, source_location where) {
    if (slow_path_reasons() != 0 || address_of(pointer) - first_address_ >= address_span_ ||
        !stream.has_id()) {
      return deallocate_checked(stream, pointer, bytes, where);
    }
    deallocate_to_heap(stream, stream.id(where), pointer, bytes, where);
  }

  [[nodiscard]] std::uint64_t id_of(stream_ref stream, source_location where) const {
    return stream.has_id() ? stream.id(where) : query_id(stream, where);
  }
  [[nodiscard]] std::uint64_t query_id(stream_ref stream, source_location where) const;
  [[nodiscard]] bool is_capturing(stream_ref stream, source_location where) const;
  [[nodiscard]] bool may_be_capturing(cudaStream_t stream) const noexcept;

  // The heap. A parameter of type biased_guard is the caller's hold on heap_lock_, which the
  // function may release and take again; such functions of the slow path also require
  // slow_path_mutex_.
  void* allocate_from_heap(stream_ref stream, std::uint64_t id, std::size_t bytes,
                           std::size_t alignment, source_location where);
  void deallocate_to_heap(stream_ref stream, std::uint64_t id, void* pointer, std::size_t bytes,
                          source_location where);
  WARPWRIGHT_COLD void* allocate_checked(stream_ref stream, std::size_t bytes,
                                         std::size_t alignment, source_location where);
  WARPWRIGHT_COLD void deallocate_checked(stream_ref stream, void* pointer, std::size_t bytes,
                                          source_location where);
  void* commit_allocation(std::uint32_t node, source_location where);
  std::uint32_t list_of(std::uint64_t id, cudaStream_t handle) {
    std::uint32_t const list = lists_.find(id);
    return list != detail::address_map::none ? list : new_list(id, handle);
  }
  std::uint32_t new_list(std::uint64_t id, cudaStream_t handle);
  std::uint32_t find_live(biased_guard& lock, void* pointer, std::size_t bytes,
                          source_location where) const;

  // Caches (pool_caches.hpp)
  void* allocate_cached(std::uint64_t id, std::size_t bytes) noexcept;
  std::size_t allocate_cached(std::uint64_t id, std::size_t const* bytes, void** pointers,
                              std::size_t count) noexcept;
  std::size_t cache_batch(std::uint64_t id, void* const* pointers, std::size_t const* bytes,
                          std::size_t count) noexcept;
  void undo_allocation(std::uint64_t id, cudaStream_t handle, void* pointer) noexcept;
  [[nodiscard]] bool is_live(void* pointer) const noexcept;
  bool deallocate_to_cache(stream_ref stream, std::uint64_t id, std::uint64_t rounded,
                           void* pointer, source_location where);
  shard* get_or_create_shard(std::uint64_t id) noexcept;
  bool claim_shard(stream_ref stream, std::uint64_t id, front_cache& cache);
  void release_shard(front_cache& cache) noexcept;
  void flush_batch(front_cache::batch const& blocks, std::uint64_t id) noexcept;
  void flush_large(std::uint64_t id) noexcept;
  template <class Cache>
  void flush_cache(Cache& cache) noexcept;
  void flush_all_caches() noexcept;
  void register_cache(memory_cache& cache, stream_ref stream, source_location where);
  void unregister_cache(memory_cache& cache) noexcept;

  // Misses (pool_slow_path.hpp)
  WARPWRIGHT_COLD void* allocate_slow(stream_ref stream, std::uint64_t id,
                                      allocation_request request, source_location where);
  void* try_allocate_slow(stream_ref stream, std::uint64_t id, allocation_request request,
                          source_location where);
  void* allocate_from_list(std::uint32_t list, allocation_request request, source_location where);
  void* allocate_available(std::uint32_t own, allocation_request request, source_location where);
  [[nodiscard]] bool can_grow(allocation_request request) const noexcept;
  void* coalesce_and_allocate(std::uint32_t own, allocation_request request, source_location where);
  void* wait_and_allocate(biased_guard& lock, std::uint32_t own, std::uint64_t id,
                          allocation_request request, source_location where);
  void* compact_and_allocate(biased_guard& lock, std::uint32_t own, allocation_request request,
                             source_location where);
  void* steal(biased_guard& lock, std::uint32_t own, stream_ref stream, allocation_request request,
              source_location where);
  void merge_all_lists(biased_guard& lock, std::uint32_t own, stream_ref stream,
                       source_location where);

  // Epochs (pool_epochs.hpp)
  [[nodiscard]] bool has_covering_event(std::uint32_t list) const noexcept;
  bool close_epoch(biased_guard& lock, std::uint32_t list, std::uint64_t own_id,
                   source_location where);
  bool record_epoch_event(biased_guard& lock, std::uint32_t list, std::uint64_t own_id,
                          source_location where);
  cudaEvent_t record_event(biased_guard& lock, cudaStream_t handle, source_location where);
  void close_thread_epoch(std::uint64_t id) noexcept;
  bool poll(biased_guard& lock, std::uint64_t own_id, bool record, source_location where);
  bool poll_pending(biased_guard& lock, bool wait, source_location where);
  void wait_on_donor(biased_guard& lock, std::uint32_t own, stream_ref stream, std::uint32_t donor,
                     std::uint64_t epoch, source_location where);
  [[nodiscard]] bool already_waits(std::uint32_t own, std::uint32_t donor,
                                   std::uint64_t epoch) const noexcept;
  void synchronize_all(biased_guard& lock, std::uint64_t own_id, source_location where);
  void release_oldest_epoch(biased_guard& lock, std::uint32_t list) noexcept;
  void move_blocks(biased_guard& lock, std::uint32_t from, std::uint64_t epoch, std::uint32_t to,
                   std::uint64_t new_epoch) noexcept;
  [[nodiscard]] bool oldest_event_is_stale(std::uint32_t list) const noexcept;
  bool event_completed(biased_guard& lock, cudaEvent_t event, bool wait, source_location where);
  void free_deferred(biased_guard& lock, stream_ref stream, std::uint32_t node,
                     source_location where);
  void retire_list(biased_guard& lock, std::uint32_t list, std::uint64_t id, source_location where);

  // Growing and releasing (pool_growth.hpp)
  bool reserve_range() noexcept;
  void* grow(biased_guard& lock, std::uint32_t own, allocation_request request,
             source_location where);
  void* grow_range(biased_guard& lock, std::uint32_t own, allocation_request request,
                   source_location where);
  void* map_and_allocate(biased_guard& lock, std::uint32_t own, allocation_request request,
                         std::uint64_t run_bytes, source_location where);
  [[nodiscard]] std::uint64_t preferred_growth_bytes() const noexcept;
  [[nodiscard]] mapping_plan plan_mapping(std::uint32_t own, std::uint64_t bytes,
                                          std::uint64_t alignment) const noexcept;
  bool reserve_neighbours(mapping_plan const& plan, std::uint32_t own);
  bool ensure_spare(biased_guard& lock, std::uint64_t bytes, source_location where);
  bool unmap_idle(biased_guard& lock, std::uint64_t bytes, source_location where);
  void add_segment(biased_guard& lock, std::size_t bytes, source_location where);
  cudaError_t allocate_upstream(void** pointer, std::size_t bytes, char const** api) noexcept;
  cudaError_t free_upstream(void* pointer) noexcept;
  void set_reserved_bytes(std::uint64_t bytes) noexcept;
  std::size_t release_memory(biased_guard& lock, std::uint64_t keep_bytes, source_location where);
  void release_segments(biased_guard& lock, std::uint64_t keep_bytes, source_location where);
  void release_spare(biased_guard& lock, std::uint64_t keep_bytes, source_location where);

  // Graphs (pool_capture.hpp)
  void* allocate_for_graph(stream_ref stream, allocation_request request, source_location where);
  void free_in_graph(stream_ref stream, void* pointer, std::size_t bytes, source_location where);
  std::uint32_t capturing_list(stream_ref stream, source_location where);
  [[nodiscard]] bool is_deferred(std::uint32_t node) const noexcept;
  std::uint32_t graph_of(biased_guard& lock, stream_ref stream, source_location where);
  std::uint32_t graph_list(std::uint32_t graph, cudaStream_t handle);
  void reclaim_graphs() noexcept;
  void begin_deferred_free(std::uint32_t node, source_location where) noexcept;
  void end_deferred_free(std::uint32_t node, std::uint32_t list) noexcept;
  void watch_captures(int change) noexcept;
  void update_slow_path_reasons() noexcept;

  // Misuse and exhaustion (pool_checks.hpp)
  void check_device(stream_ref stream, char const* verb, source_location where) const;
  void record_allocation_site(std::uint32_t node, source_location where) noexcept;
  [[nodiscard]] detail::call_site site_of(std::uint32_t node) const noexcept;
  void record_freed_block(std::uint32_t node, source_location where) noexcept;
  [[nodiscard]] memory_report report(std::size_t requested_bytes) const noexcept;
  [[nodiscard]] detail::text memory_users() const noexcept;
  void add_sites(detail::text& text, unsigned shown) const noexcept;
  [[noreturn]] WARPWRIGHT_COLD void throw_out_of_memory(std::size_t bytes,
                                                        source_location where) const;
  [[noreturn]] WARPWRIGHT_COLD static void throw_bad_alignment(std::size_t alignment,
                                                               source_location where);
  [[noreturn]] WARPWRIGHT_COLD void throw_unknown_pointer(void* pointer, std::size_t bytes,
                                                          source_location where,
                                                          bool to_free = true) const;
  void check_alive(char const* call, source_location where) const;
  [[noreturn]] WARPWRIGHT_COLD void throw_wrong_size(biased_guard& lock, std::uint32_t node,
                                                     void* pointer, std::size_t bytes,
                                                     source_location where) const;

  // Read by every call, rarely written.
  detail::atomic<unsigned> slow_path_reasons_;
  std::uint64_t first_address_ = 0;
  std::uint64_t address_span_ = ~std::uint64_t{0};
  detail::atomic<shard*> shards_[shard_count];     // by stream id; created at a stream's first free
  detail::atomic<std::uint64_t> existing_shards_;  // bit i: shards_[i] exists

  detail::driver_calls driver_;
  detail::driver::context context_ = nullptr;  // the device's primary context

  device_id device_;
  memory_pool_options options_;
  memory_source source_ = memory_source::cuda_malloc;
  std::size_t limit_bytes_ = memory_pool_options::unlimited;
  std::size_t capacity_bytes_ = 0;  // the limit, or the device's memory if that is smaller
  detail::mutex slow_path_mutex_;   // serialises misses; locked before all other locks
  detail::virtual_range range_;     // guarded by slow_path_mutex_
  detail::upstream_stream upstream_stream_;
  mutable detail::biased_lock registry_lock_;  // locked before heap_lock_
  memory_cache* caches_ = nullptr;             // guarded by registry_lock_
  mutable detail::biased_lock heap_lock_;
  // Guarded by heap_lock_:
  detail::block_heap heap_{true};
  detail::address_map lists_;            // stream id to list number
  detail::array<stream_entry> entries_;  // by list number; the first entries belong to the special
                                         // lists
  detail::array<cudaEvent_t> spare_events_;
  std::size_t event_count_ = 0;  // of all events; spare_events_ has capacity for them
  std::uint64_t reserved_bytes_ = 0;
  pool_statistics counters_;
  detail::atomic<bool> slow_path_active_;  // for new_list(): entries keep their streams meanwhile
  int watches_ = 0;
  detail::array<detail::shared_use> shared_uses_;  // live blocks with record_use()
  detail::array<detail::pending_free>
      pending_frees_;  // freed blocks that a stream has yet to complete
  detail::array<detail::graph_memory> graphs_;
  std::uint64_t deferred_bytes_ = 0;  // freed, and kept for graphs or until streams complete
  std::size_t deferred_blocks_ = 0;
  detail::array<detail::call_site> sites_;  // by block number, in checked mode
  detail::array<detail::freed_block> recent_frees_;
  std::size_t next_recent_free_ = 0;
};

/// Sets up what every slow operation needs: the pool's device and context, a capture mode that
/// allows its CUDA calls (none of them touches a capturing stream), and stream entries that keep
/// their streams. Restores device and mode.
class memory_pool::slow_path_scope {
 public:
  slow_path_scope(memory_pool& pool, source_location where)
      : pool_{pool}, lock_{pool.slow_path_mutex_} {
    // Querying the context takes a quarter of the time of querying the device.
    if (pool.context_ == nullptr || pool.driver_.current_context() != pool.context_) {
      check(cudaGetDevice(&before_), "cudaGetDevice", where);
      check(cudaSetDevice(pool.device_.value()), "cudaSetDevice", where);
    }
    cudaError_t const result = pool.driver_.exchange(&mode_);
    if (result != cudaSuccess) {
      restore_device();
      check(result, "cudaThreadExchangeStreamCaptureMode", where);
    }
    pool_.slow_path_active_.store(true, detail::memory_order::relaxed);
  }
  ~slow_path_scope() {
    pool_.slow_path_active_.store(false, detail::memory_order::relaxed);
    detail::discard(pool_.driver_.exchange(&mode_));
    restore_device();
  }
  slow_path_scope(slow_path_scope const&) = delete;
  slow_path_scope& operator=(slow_path_scope const&) = delete;

 private:
  void restore_device() const noexcept {
    if (before_ >= 0 && before_ != pool_.device_.value()) detail::discard(cudaSetDevice(before_));
  }

  memory_pool& pool_;
  detail::unique_lock<detail::mutex> lock_;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  int before_ = -1;
};

/// Makes a pool safe to use in a capture during the watch's lifetime: every call checks whether its
/// stream is capturing, and memory allocated in a capture belongs to the graph. Create one around
/// every capture whose body allocates or frees.
/// **Threads:** any. **Cost:** until its destruction every call of the pool, from any thread, makes
/// one more CUDA call: destroy it right after the capture.
class capture_watch {
 public:
  /// Starts watching a pool.
  /// @param pool  outlives the watch
  explicit capture_watch(memory_pool& pool) noexcept : pool_{pool} { pool_.watch_captures(1); }
  ~capture_watch() { pool_.watch_captures(-1); }
  capture_watch(capture_watch const&) = delete;
  capture_watch& operator=(capture_watch const&) = delete;

 private:
  memory_pool& pool_;
};

WARPWRIGHT_END

#include <warpwright/memory/cache.hpp>
