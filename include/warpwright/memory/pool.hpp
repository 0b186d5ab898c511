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

/// Stream-ordered memory of one device, kept and handed out again without calling CUDA.
///
/// A block freed on a stream is that stream's again at once: work given to the stream later runs
/// behind the work that used it. Most calls end in the stream's cache, which holds freed blocks by
/// exact size; the rest, in the pool's common books. Another stream gets a block only when that is
/// safe, in this order:
///   1. *ready*: the donor is known to have passed the free (an event says so); before it grows, a
///      request waits on the host for that, as long as patience_us() says;
///   2. *grow*: memory that lies idle elsewhere is mapped where it is needed, or new memory;
///   3. *wait*: the waiter is ordered behind the donor by an event, on the device.
/// reuse_order swaps 2 and 3, and so does a limit that leaves no room for the request. When all of
/// that fails, the pool gathers every free block behind one wait for each other stream, then waits
/// on the host, moves what is idle together and tries once more, then asks the exhausted_callback,
/// then gives up. It can be used as before afterwards. docs/memory.md tells more.
///
/// @pre A stream used here stays alive until retire() or the pool's end: the pool may record an
///   event on it whenever another stream is short of memory. One that only allocated counts too:
///   free blocks were gathered for it. Streams are told apart by their id, never by their handle,
///   which CUDA uses again.
///
/// Blocks of the thread's own default stream (cudaStreamPerThread) pass to other threads only after
/// some more frees on it or when memory runs out, since only that thread can record its event.
///
/// Misuse: checked() refuses it. Unchecked, a call trusts its arguments: memory of a pointer freed
/// twice, or with wrong bytes, may be handed out twice later. Noticed all the same: a block freed
/// twice in a row, while its stream's cache still has it; from virtual memory, a pointer of another
/// memory; without caches, whatever is no live block's start.
///
/// **Threads:** any number may call any member at once. A hit holds one spin lock for a moment, its
/// stream's, or the books', and never across a CUDA call; requests that miss go one after another,
/// the patience of each included. Thousands of blocks that become ready at once change lists in
/// portions, between which hits go on.
/// **Capture:** while a capture_watch lives, or with notice_captures() or checked(), memory for a
/// capturing stream is the graph's: it stays the graph's until the graph and all executables made
/// from it are gone, what is freed in the capture is used again by the same stream of the same
/// capture only, and what is freed there though it was allocated before is kept as long. Meanwhile,
/// and while a graph has memory, every call looks closer than a hit does. Without them only a
/// request that misses is noticed: a hit would hand out memory that the pool gives to others while
/// the graph still uses it, and a call with a stream_ref that does not carry its id would break the
/// capture, as asking CUDA for it does. Captures on other streams do no harm and take none: growing
/// is legal meanwhile, and a capturing donor is left alone.
class memory_pool {
 public:
  /// @param device   where the memory lies
  /// @param options  limits and policies
  /// @throws std::invalid_argument  for a limit or factor that makes no sense; for
  ///   memory_source::virtual_memory where there is none
  /// @throws out_of_memory          when initial_bytes cannot be had
  /// @throws cuda_error             when CUDA refuses
  /// **Capture:** legal unless the calling thread captures globally. **Cost:** one cudaMemGetInfo
  /// and the reservation of addresses; creates the device's context at the first use of the device.
  explicit memory_pool(device_id device, memory_pool_options const& options = {},
                       source_location where = source_location::current());

  /// Gives the memory back to CUDA. Blocks still live are counted (destruction_callback) and die.
  /// @pre nothing uses the pool's memory any more, or will when the device's running work has
  ///   ended, for which it waits; its caches and watches are gone; graphs that use its memory are
  ///   not launched again
  /// Never throws, and tolerates a CUDA runtime that is shutting down.
  ~memory_pool();
  memory_pool(memory_pool const&) = delete;
  memory_pool& operator=(memory_pool const&) = delete;

  /// Hands out memory for work on a stream.
  /// @param stream     the memory may be used by work given to this stream from now on
  /// @param bytes      0 answers nullptr and counts nothing
  /// @param alignment  of the address, in bytes: a power of two up to 1 GiB; below 256 is 256
  /// @return device memory with undefined contents
  /// @throws out_of_memory          when the steps above all fail
  /// @throws std::invalid_argument  for a bad alignment; in checked mode, with CUDA 12.8 and newer,
  ///   for a stream of another device
  /// @throws std::bad_alloc         when the host has no memory for the books
  /// @throws cuda_error             when another CUDA call fails; nothing is lost then
  /// **Stream:** ordered on `stream`. **Capture:** see above. **Cost:** a hit makes no CUDA call
  /// with a stream_ref that carries its id; one cuStreamGetId more with a raw handle.
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes,
                               std::size_t alignment = block_alignment_bytes,
                               source_location where = source_location::current()) {
    void* const pointer = try_allocate(stream, bytes, alignment, where);
    if (pointer == nullptr && bytes != 0) throw_out_of_memory(bytes, where);
    return pointer;
  }

  /// As allocate(), but answers nullptr when the memory cannot be had.
  /// @throws std::invalid_argument, cuda_error  as allocate()
  [[nodiscard]] void* try_allocate(stream_ref stream, std::size_t bytes,
                                   std::size_t alignment = block_alignment_bytes,
                                   source_location where = source_location::current()) {
    if (alignment == block_alignment_bytes) {
      if (void* const pointer = take_known(stream, bytes)) return pointer;
    }
    return allocate_missed(stream, bytes, alignment, where);
  }

  /// Takes memory back; work given to `stream` before the call may still use it.
  /// @param stream   a stream behind whose work the memory is free: the one it was allocated on,
  ///   where all work with it is on that stream, or one that the user has ordered behind the
  ///   allocation and all work with it
  /// @param pointer  from allocate() of this pool; nullptr does nothing
  /// @param bytes    as given to allocate()
  /// @throws std::invalid_argument  for misuse, nothing has changed then: in checked mode a pointer
  ///   that is not a live block's start (freed twice, foreign, from the middle), wrong bytes, a
  ///   stream of another device; unchecked, some of it (see above)
  /// @throws std::bad_alloc  when the host has no memory to note a stream used here for the first
  ///   time; with a live block, a stream used here before and a stream_ref that carries its id it
  ///   does not throw, but for the next line
  /// @throws std::invalid_argument, cuda_error  for a block with record_use() or of a graph, when
  ///   no event can be recorded behind it, for one of its streams is capturing, say; when a stream
  ///   cannot be asked for its id or its capture. The block stays allocated then
  /// **Stream:** ordered on `stream`; does not block. **Capture:** see above.
  /// **Cost:** no CUDA call with a stream_ref that carries its id; on the thread's own default
  /// stream, which never does, one cuStreamGetId, and one cudaEventRecord in 64 frees or 16 MiB.
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    if (!keep_known(stream, pointer, bytes)) deallocate_missed(stream, pointer, bytes, where);
  }

  /// Allocates several blocks: all or none.
  /// @param bytes     of each, `count` of them
  /// @param pointers  receives the blocks; nullptr for 0 bytes. Unspecified after a throw
  /// @throws as allocate(); no block is allocated then
  /// **Stream:** ordered on `stream`. **Capture:** see above. **Cost:** asks for the stream's id
  /// once, and for each run of blocks that its cache has takes the cache's lock once.
  void allocate_batch(stream_ref stream, std::size_t const* bytes, void** pointers,
                      std::size_t count, source_location where = source_location::current());

  /// Frees several blocks.
  /// @param pointers, bytes  of each, `count` of them
  /// @throws as deallocate(), for the first block that is refused; those before it are freed
  /// **Stream:** ordered on `stream`. **Capture:** see above. **Cost:** asks for the stream's id
  /// once and, as long as its cache is there and has room, takes the cache's lock once.
  void deallocate_batch(stream_ref stream, void* const* pointers, std::size_t const* bytes,
                        std::size_t count, source_location where = source_location::current());

  /// Notes that work on a second stream uses a block too: once freed, the block goes to nobody, not
  /// even to the stream it was freed on, before both streams have passed the free.
  /// @param stream   a stream of the pool's device, alive until the block is freed
  /// @param pointer  a live block's start
  /// @throws std::invalid_argument  for a pointer that is no live block's start (unchecked, one
  /// that
  ///   was freed may pass for live); for a capturing stream
  /// @throws std::bad_alloc         when the host has no memory for the note
  /// @throws cuda_error             when the stream cannot be asked for its id
  /// **Stream:** nothing happens on it before the block is freed. **Capture:** `stream` must not be
  /// capturing, and the block not be freed in a capture, which is refused. **Cost:** until the
  /// block is freed every call looks closer than a hit does; the free records an event on each
  /// stream. Ordering the streams oneself (stream_ref::wait) costs less.
  void record_use(stream_ref stream, void* pointer,
                  source_location where = source_location::current());

  /// Makes a cache of one thread for one stream: the fastest way to allocate.
  /// @param stream        kept, with its id; alive as long as the cache
  /// @param budget_bytes  how much the cache may keep, and beside it one larger block; 0: nothing;
  ///   it comes back when memory is short
  /// @return the cache, which the pool must outlive
  /// @throws std::bad_alloc, cuda_error  when the stream cannot be noted
  /// **Capture:** `stream` must not be capturing. **Cost:** two locks, and where the stream does
  /// not carry its id, a CUDA call.
  [[nodiscard]] memory_cache make_cache(stream_ref stream,
                                        std::size_t budget_bytes = std::size_t{256} << 20U,
                                        source_location where = source_location::current());

  /// Says goodbye to a stream: call it before the stream is destroyed. Its free blocks become
  /// everyone's once the work given to it so far has finished.
  /// @pre no other call of the pool uses the stream meanwhile
  /// @throws std::invalid_argument  for a capturing stream, and one that has a memory_cache
  /// @throws cuda_error             when CUDA refuses; the stream is not retired then
  /// **Stream:** records at most one event; does not block. **Capture:** `stream` must not be
  /// capturing.
  void retire(stream_ref stream, source_location where = source_location::current());

  /// Gives idle memory back to CUDA.
  /// @param bytes_to_keep  at least this much stays reserved, if there is as much
  /// @return the bytes given back
  /// @throws cuda_error  when CUDA refuses; nothing is lost then
  /// **Stream:** waits on the host for all streams that have free blocks here, and for the legacy
  /// default stream when one is another thread's default stream; cudaFree synchronises the device.
  /// **Capture:** legal; what a capturing stream has freed is kept.
  std::size_t trim(std::size_t bytes_to_keep = 0,
                   source_location where = source_location::current());

  /// @return the figures of this moment
  /// **Cost:** takes the lock of every cache, walks the largest free blocks of each stream; not for
  /// a hot loop.
  [[nodiscard]] pool_statistics statistics() const noexcept;

  /// @return the device whose memory this is
  [[nodiscard]] device_id device() const noexcept { return device_; }
  /// @return the most that the pool reserves, in bytes; memory_pool_options::unlimited: no limit
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_bytes_; }
  /// @return where the memory comes from; never automatic
  [[nodiscard]] memory_source source() const noexcept { return source_; }

  /// Every block starts at a multiple of this.
  static constexpr std::size_t block_alignment_bytes = 256;
  /// The largest alignment that allocate() takes.
  static constexpr std::size_t maximum_alignment_bytes = std::size_t{1} << 30U;

 private:
  friend class memory_cache;
  friend class capture_watch;
  using heap = detail::block_heap;
  using front_cache = detail::front_cache;
  using shard = detail::locked_cache<detail::biased_lock>;
  using stream_entry = detail::stream_entry;
  using pool_held = detail::held<detail::biased_lock>;
  struct request {
    std::size_t bytes;
    std::uint64_t rounded_bytes;
    std::uint64_t alignment;
  };
  struct place {  // where memory is to be mapped, and the run of free blocks it completes
    std::uint32_t hole = heap::none;
    std::uint64_t begin = 0, end = 0;
    std::uint64_t map_address = 0, map_bytes = 0;
  };
  class slow_section;
  class all_locks;
  static constexpr std::uint64_t nobody = ~std::uint64_t{0};  // no stream's id
  static constexpr unsigned shard_count = 64;
  static constexpr std::uint32_t held_mark = ~std::uint32_t{0};  // freed, and not yet free
  // Why calls must look closer than the caches do.
  static constexpr unsigned watching = 1, shared_blocks = 2, graph_blocks = 4, ended = 8;

  static std::uint64_t address_of(void const* pointer) noexcept {
    return reinterpret_cast<std::uintptr_t>(pointer);
  }
  static void* pointer_to(std::uint64_t address) noexcept {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  }
  // 0 for more than there can be, a size that no cache has.
  static std::uint64_t rounded_up(std::size_t bytes) noexcept {
    return (std::uint64_t{bytes} + (heap::granule_bytes - 1)) & ~(heap::granule_bytes - 1);
  }
  [[nodiscard]] unsigned attention() const noexcept {
    return __atomic_load_n(&attention_, __ATOMIC_RELAXED);
  }
  [[nodiscard]] shard* cache_of(std::uint64_t id) const noexcept {
    return __atomic_load_n(&shards_[id % shard_count], __ATOMIC_ACQUIRE);
  }

  // A stream_ref that carries its id is never the thread's own default stream.
  [[nodiscard]] void* take_known(stream_ref stream, std::size_t bytes) noexcept {
    if (attention() != 0 || !stream.knows_id()) return nullptr;
    std::uint64_t const id = stream.id();
    shard* const cache = cache_of(id);
    if (cache == nullptr) return nullptr;
    pool_held const lock{cache->lock};
    return cache->stream_id == id ? cache->take(rounded_up(bytes)) : nullptr;
  }
  [[nodiscard]] bool keep_known(stream_ref stream, void* pointer, std::size_t bytes) noexcept {
    if (attention() != 0 || address_of(pointer) - first_address_ >= address_span_ ||
        !stream.knows_id()) {
      return false;
    }
    std::uint64_t const id = stream.id();
    shard* const cache = cache_of(id);
    if (cache == nullptr) return false;
    pool_held const lock{cache->lock};
    return cache->stream_id == id && cache->put_quickly(pointer, rounded_up(bytes));
  }

  // What take_known() and keep_known() could not do.
  WARPWRIGHT_NOINLINE void* allocate_missed(stream_ref stream, std::size_t bytes,
                                            std::size_t alignment, source_location where) {
    if (alignment != block_alignment_bytes || attention() != 0 || !stream.knows_id()) {
      return allocate_with_care(stream, bytes, alignment, where);
    }
    return allocate_from_books(stream, stream.id(where), bytes, alignment, where);
  }
  WARPWRIGHT_NOINLINE void deallocate_missed(stream_ref stream, void* pointer, std::size_t bytes,
                                             source_location where) {
    if (attention() != 0 || address_of(pointer) - first_address_ >= address_span_ ||
        !stream.knows_id()) {
      return deallocate_with_care(stream, pointer, bytes, where);
    }
    deallocate_to_books(stream, stream.id(where), pointer, bytes, where);
  }

  [[nodiscard]] std::uint64_t id_of(stream_ref stream, source_location where) const {
    return stream.knows_id() ? stream.id(where) : ask_id(stream, where);
  }
  [[nodiscard]] std::uint64_t ask_id(stream_ref stream, source_location where) const;
  [[nodiscard]] bool is_capturing(stream_ref stream, source_location where) const;
  [[nodiscard]] bool may_be_capturing(cudaStream_t stream) const noexcept;

  // What is not in the caches. Everything that takes a pool_held runs under lock_; the slow path
  // also holds slow_.
  void* allocate_from_books(stream_ref stream, std::uint64_t id, std::size_t bytes,
                            std::size_t alignment, source_location where);
  void deallocate_to_books(stream_ref stream, std::uint64_t id, void* pointer, std::size_t bytes,
                           source_location where);
  WARPWRIGHT_COLD void* allocate_with_care(stream_ref stream, std::size_t bytes,
                                           std::size_t alignment, source_location where);
  WARPWRIGHT_COLD void deallocate_with_care(stream_ref stream, void* pointer, std::size_t bytes,
                                            source_location where);
  void* hand_out(std::uint32_t node, source_location where);
  std::uint32_t list_of(std::uint64_t id, cudaStream_t handle) {
    std::uint32_t const list = lists_.find(id);
    return list != detail::address_map::none ? list : new_list(id, handle);
  }
  std::uint32_t new_list(std::uint64_t id, cudaStream_t handle);
  std::uint32_t find_live(pool_held& lock, void* pointer, std::size_t bytes,
                          source_location where) const;

  // Caches (pool_caches.hpp)
  void* take_cached(std::uint64_t id, std::size_t bytes) noexcept;
  std::size_t take_cached(std::uint64_t id, std::size_t const* bytes, void** pointers,
                          std::size_t count) noexcept;
  std::size_t keep_batch(std::uint64_t id, void* const* pointers, std::size_t const* bytes,
                         std::size_t count) noexcept;
  void take_back(std::uint64_t id, cudaStream_t handle, void* pointer) noexcept;
  [[nodiscard]] bool is_live(void* pointer) const noexcept;
  bool keep(stream_ref stream, std::uint64_t id, std::uint64_t rounded, void* pointer,
            source_location where);
  shard* make_shard(std::uint64_t id) noexcept;
  bool adopt_shard(stream_ref stream, std::uint64_t id, front_cache& cache);
  void release_shard(front_cache& cache) noexcept;
  void give_batch(front_cache::batch const& blocks, std::uint64_t id) noexcept;
  void give_large(std::uint64_t id) noexcept;
  template <class Cache>
  void empty_cache(Cache& cache) noexcept;
  void empty_all_caches() noexcept;
  void add_cache(memory_cache& cache, stream_ref stream, source_location where);
  void remove_cache(memory_cache& cache) noexcept;

  // A miss (pool_slow_path.hpp)
  WARPWRIGHT_COLD void* allocate_slowly(stream_ref stream, std::uint64_t id, request wanted,
                                        source_location where);
  void* allocate_once(stream_ref stream, std::uint64_t id, request wanted, source_location where);
  void* take(std::uint32_t list, request wanted, source_location where);
  void* take_hit(std::uint32_t own, request wanted, source_location where);
  [[nodiscard]] bool can_grow(request wanted) const noexcept;
  void* join_and_take(std::uint32_t own, request wanted, source_location where);
  void* wait_briefly(pool_held& lock, std::uint32_t own, std::uint64_t id, request wanted,
                     source_location where);
  void* compact_and_take(pool_held& lock, std::uint32_t own, request wanted, source_location where);
  void* steal(pool_held& lock, std::uint32_t own, stream_ref stream, request wanted,
              source_location where);
  void gather(pool_held& lock, std::uint32_t own, stream_ref stream, source_location where);

  // Epochs (pool_epochs.hpp)
  [[nodiscard]] bool covered(std::uint32_t list) const noexcept;
  bool close_epoch(pool_held& lock, std::uint32_t list, std::uint64_t own_id,
                   source_location where);
  bool record_behind(pool_held& lock, std::uint32_t list, std::uint64_t own_id,
                     source_location where);
  cudaEvent_t record_event(pool_held& lock, cudaStream_t handle, source_location where);
  void close_thread_epoch(std::uint64_t id) noexcept;
  bool poll(pool_held& lock, std::uint64_t own_id, bool record, source_location where);
  bool poll_shared(pool_held& lock, bool wait, source_location where);
  void order_behind(pool_held& lock, std::uint32_t own, stream_ref stream, std::uint32_t donor,
                    std::uint64_t epoch, source_location where);
  [[nodiscard]] bool waits_already(std::uint32_t own, std::uint32_t donor,
                                   std::uint64_t epoch) const noexcept;
  void finish_all(pool_held& lock, std::uint64_t own_id, source_location where);
  void finish_oldest(pool_held& lock, std::uint32_t list) noexcept;
  void move_blocks(pool_held& lock, std::uint32_t from, std::uint64_t epoch, std::uint32_t to,
                   std::uint64_t new_epoch) noexcept;
  [[nodiscard]] bool stands_behind_nothing(std::uint32_t list) const noexcept;
  bool has_passed(pool_held& lock, cudaEvent_t event, bool wait, source_location where);
  void free_shared(pool_held& lock, stream_ref stream, std::uint32_t node, source_location where);
  void retire_list(pool_held& lock, std::uint32_t list, std::uint64_t id, source_location where);

  // Where memory comes from, and goes (pool_growth.hpp)
  bool reserve_range() noexcept;
  void* grow(pool_held& lock, std::uint32_t own, request wanted, source_location where);
  void* grow_range(pool_held& lock, std::uint32_t own, request wanted, source_location where);
  void* map_and_take(pool_held& lock, std::uint32_t own, request wanted, std::uint64_t run_bytes,
                     source_location where);
  [[nodiscard]] std::uint64_t growth_wish() const noexcept;
  [[nodiscard]] place find_place(std::uint32_t own, std::uint64_t bytes,
                                 std::uint64_t alignment) const noexcept;
  bool hold_back(place const& found, std::uint32_t own);
  bool supply(pool_held& lock, std::uint64_t bytes, source_location where);
  bool make_spare(pool_held& lock, std::uint64_t bytes, source_location where);
  void add_segment(pool_held& lock, std::size_t bytes, source_location where);
  cudaError_t take_upstream(void** pointer, std::size_t bytes, char const** api) noexcept;
  cudaError_t give_upstream(void* pointer) noexcept;
  void note_reserved(std::uint64_t bytes) noexcept;
  std::size_t release_memory(pool_held& lock, std::uint64_t keep_bytes, source_location where);
  void release_segments(pool_held& lock, std::uint64_t keep_bytes, source_location where);
  void release_spare(pool_held& lock, std::uint64_t keep_bytes, source_location where);

  // Graphs (pool_capture.hpp)
  void* allocate_for_graph(stream_ref stream, request wanted, source_location where);
  void free_in_graph(stream_ref stream, void* pointer, std::size_t bytes, source_location where);
  std::uint32_t list_of_capturing(stream_ref stream, source_location where);
  [[nodiscard]] bool is_held(std::uint32_t node) const noexcept;
  std::uint32_t graph_of(pool_held& lock, stream_ref stream, source_location where);
  std::uint32_t graph_list(std::uint32_t graph, cudaStream_t handle);
  void reclaim_graphs() noexcept;
  void begin_holding(std::uint32_t node, source_location where) noexcept;
  void end_holding(std::uint32_t node, std::uint32_t list) noexcept;
  void watch_captures(int change) noexcept;
  void update_attention() noexcept;

  // Misuse and exhaustion (pool_checks.hpp)
  void check_device(stream_ref stream, char const* verb, source_location where) const;
  void remember_allocation(std::uint32_t node, source_location where) noexcept;
  [[nodiscard]] detail::call_site site_of(std::uint32_t node) const noexcept;
  void remember_free(std::uint32_t node, source_location where) noexcept;
  [[nodiscard]] memory_report report(std::size_t requested_bytes) const noexcept;
  [[nodiscard]] detail::text holders() const noexcept;
  void add_sites(detail::text& text, unsigned shown) const noexcept;
  [[noreturn]] WARPWRIGHT_COLD void throw_out_of_memory(std::size_t bytes,
                                                        source_location where) const;
  [[noreturn]] WARPWRIGHT_COLD static void refuse_alignment(std::size_t alignment,
                                                            source_location where);
  [[noreturn]] WARPWRIGHT_COLD void refuse_unknown(void* pointer, std::size_t bytes,
                                                   source_location where,
                                                   bool to_free = true) const;
  void refuse_after_end(char const* call, source_location where) const;
  [[noreturn]] WARPWRIGHT_COLD void refuse_size(pool_held& lock, std::uint32_t node, void* pointer,
                                                std::size_t bytes, source_location where) const;

  // Read by every call, written rarely.
  unsigned attention_ = 0;  // why calls must look closer than the caches do
  std::uint64_t first_address_ = 0;
  std::uint64_t address_span_ = ~std::uint64_t{0};
  shard* shards_[shard_count] = {};  // by stream id; made at a stream's first free
  std::uint64_t shards_made_ = 0;    // bit i: shards_[i]

  detail::driver_calls driver_;
  detail::driver::context context_ = nullptr;  // the device's primary one

  device_id device_;
  memory_pool_options options_;
  memory_source source_ = memory_source::cuda_malloc;
  std::size_t limit_bytes_ = memory_pool_options::unlimited;
  std::size_t capacity_bytes_ = 0;  // the limit, or the device's memory if that is less
  detail::blocking_mutex slow_;     // serialises misses; taken before the others
  detail::virtual_range range_;     // guarded by slow_
  detail::upstream_stream upstream_stream_;
  mutable detail::biased_lock registry_lock_;  // taken before lock_
  memory_cache* caches_ = nullptr;             // guarded by registry_lock_
  mutable detail::biased_lock lock_;
  // Guarded by lock_:
  detail::block_heap heap_{true};
  detail::address_map lists_;            // stream id to list
  detail::array<stream_entry> entries_;  // by list; the first ones stand for the special lists
  detail::array<cudaEvent_t> spare_events_;
  std::size_t event_count_ = 0;  // in all; spare_events_ has room for them
  std::uint64_t reserved_bytes_ = 0;
  pool_statistics counters_;
  bool slow_path_runs_ = false;  // relaxed atomic, for new_list(): entries keep their streams
  int watches_ = 0;
  detail::array<detail::shared_use> uses_;        // of live blocks, by record_use()
  detail::array<detail::pending_block> pending_;  // freed, and not yet passed by all their streams
  detail::array<detail::graph_memory> graphs_;
  std::uint64_t held_bytes_ = 0;  // freed, and kept for graphs or pending
  std::size_t held_blocks_ = 0;
  detail::array<detail::call_site> sites_;  // by block, in checked mode
  detail::array<detail::freed_block> recent_frees_;
  std::size_t next_recent_free_ = 0;
};

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

/// While it lives, its pool looks at every call whether the stream is capturing, and gives graphs
/// memory that is theirs: make one around every capture whose body allocates or frees.
/// **Threads:** any. **Cost:** while it lives, every call of the pool, by any thread, makes one
/// CUDA call: let it live no longer than the capture.
class capture_watch {
 public:
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
