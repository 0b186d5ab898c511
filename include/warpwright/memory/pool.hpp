// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/memory/detail/pool/pool_core.hpp>
#include <warpwright/memory/detail/pool/pool_settings.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// Options of a memory_pool. Every setter returns a changed copy:
/// memory_pool_options{}.max_bytes(n).checked().
class memory_pool_options
    : public detail::options_base<memory_pool_options, detail::pool_settings> {
 public:
  /// Called at most once an allocation, before it fails. Return true to make the pool try again
  /// after freeing or trimming memory. It must not allocate from the pool: that may call it again,
  /// without end. The pool holds no lock during the call. An exception from the callback leaves
  /// allocate().
  using exhausted_callback = bool (*)(void* user, memory_report const& report);
  /// Called by the pool's destructor; live_blocks above 0 are leaks.
  using destruction_callback = void (*)(void* user, pool_statistics const& last) noexcept;

  static constexpr std::size_t unlimited = values::unlimited;
  static constexpr std::size_t by_source = values::by_source;

  /// The maximum of reserved memory. Virtual memory is mapped in granules of about 2 MiB; with a
  /// limit below one granule, memory_source::automatic uses cudaMalloc.
  /// @param n  default: unlimited
  constexpr self max_bytes(std::size_t n) const { return with(&values::max_bytes, n); }
  /// The maximum of reserved memory as a fraction of the device's total memory. Holds in addition
  /// to max_bytes().
  /// @param n  in (0, 1]
  constexpr self max_fraction(double n) const { return with(&values::max_fraction, n); }
  /// Memory to reserve at construction.
  /// @param n  default: 0
  constexpr self initial_bytes(std::size_t n) const { return with(&values::initial_bytes, n); }
  /// Where the pool's memory comes from.
  /// @param source  default: automatic
  constexpr self source(memory_source source) const { return with(&values::source, source); }
  /// The minimum to request from CUDA at a time.
  /// @param n  default: by_source: 64 MiB from cudaMalloc and cudaMallocAsync; of virtual
  ///   memory a quarter of the slack(). 0: only what the request needs
  constexpr self growth_bytes(std::size_t n) const { return with(&values::growth_bytes, n); }
  /// Grows by at least this fraction of the memory reserved already, so that a large pool consists
  /// of few segments.
  /// @param factor  0 to 16; default: 0; 1 doubles the pool each time
  constexpr self growth_factor(double factor) const { return with(&values::growth_factor, factor); }
  /// How much more than the peak of live memory may be reserved, with virtual memory, before the
  /// pool moves idle memory instead of requesting more. It grows by a quarter of the slack at a
  /// time, so a large floor is reserved early. Moving takes about 0.1 ms each time; slack lets a
  /// program that repeats its sizes reach a state in which nothing is moved. Ends at the maximum of
  /// reserved memory. A request that no idle memory can serve grows the pool further.
  /// @param fraction     of the peak: 0 to 16; default: 0.08
  /// @param floor_bytes  the least slack, as long as no graph holds memory; default: 16 MiB
  constexpr self slack(double fraction, std::size_t floor_bytes) const {
    return with(&values::slack, fraction).with(&values::slack_floor_bytes, floor_bytes);
  }
  /// No slack: reserved memory stays within about 3 % of the peak of live memory, and more misses
  /// move memory.
  constexpr self compact() const { return slack(0.0, 0); }
  /// Whether a miss grows the pool or waits for another stream first.
  /// @param order  default: grow_before_wait
  constexpr self order(reuse_order order) const { return with(&values::order, order); }
  /// The maximum of free bytes in each stream's cache, where other streams cannot use them until
  /// memory is short. The cache may hold one larger block in addition.
  /// @param bytes  default: 16 MiB; 0: no caches
  constexpr self cache_bytes(std::size_t bytes) const { return with(&values::cache_bytes, bytes); }
  /// Checks at every call whether its stream is capturing, as during the lifetime of a
  /// capture_watch. For captures that other libraries begin.
  /// **Cost:** one CUDA call a call.
  constexpr self detect_captures(bool on = true) const {
    return with(&values::detect_captures, on);
  }
  /// The maximum time that a request waits on the host for streams to complete their frees before
  /// more than the live peak and the slack() is reserved: the wait happens once, but the pool stays
  /// larger. Within the slack no request waits.
  /// @param seconds  default: 2e-3; 0: the pool grows at once, beyond its slack
  constexpr self max_wait_seconds(double seconds) const {
    return with(&values::max_wait_seconds, seconds);
  }
  /// Checks every call for misuse and records the source location of every allocation for error
  /// messages.
  /// **Cost:** two or three CUDA calls a call; no caches.
  constexpr self checked(bool on = true) const { return with(&values::checked, on); }
  /// @param callback  see exhausted_callback; null: none
  constexpr self on_exhausted(exhausted_callback callback, void* user = nullptr) const {
    return with(&values::exhausted, callback).with(&values::exhausted_user, user);
  }
  /// @param callback  see destruction_callback; null: none
  constexpr self on_destruction(destruction_callback callback, void* user = nullptr) const {
    return with(&values::destruction, callback).with(&values::destruction_user, user);
  }
};

class memory_cache;

namespace detail {
struct pool_access;
}

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
///   1. *ready*: an event shows that the donor stream has completed the work before the free;
///   2. *grow*: memory is requested from CUDA, as long as no more is reserved than the peak of live
///      memory and the slack();
///   3. *wait*: the requesting stream waits on the device for the donor's event;
///   4. *move*: idle memory is mapped to the addresses where it is needed. If too little is idle,
///      the request waits on the host for more, up to max_wait_seconds();
///   5. *grow beyond the slack*, up to the limit.
/// reuse_order::wait_before_grow leaves out 2; so does a limit that leaves no room for the request.
/// If all of this fails, the pool merges the free blocks of all streams behind one wait for each
/// stream, then waits on the host, compacts idle memory and tries once more, then calls the
/// exhausted_callback, then fails. A pool remains usable after a failed allocation. docs/memory.md
/// has the details.
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
/// **Capture:** legal in captures of this library (capture(), capture_scope, graph_replay), and in
/// others during the lifetime of a capture_watch or with detect_captures() or checked(). Otherwise
/// only misses notice a capture: a hit would allocate memory that the pool reuses while the graph
/// still uses it, and a call with a stream_ref that does not carry its id would invalidate the
/// capture, because it queries the id. (The host runtime throws std::invalid_argument for both.)
/// Memory allocated in a capture belongs to the graph until the graph and all executables made from
/// it are destroyed; a block freed in the capture is reused only by the same stream of the same
/// capture; a block allocated before the capture and freed in it is retained as long as the graph.
/// During that time, and while a graph has memory of the pool, every call takes the slow path's
/// checks. A capture takes what its stream has freed before it once the work submitted before it
/// has completed, and may wait for that on the host. Captures on other streams are neither
/// disturbed nor a restriction: growing is legal, and a capturing donor stream is not touched.
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
                       source_location where = source_location::current())
      : core_{device, values_of(options), where} {}

  /// Returns the memory to CUDA. Blocks still live are reported to the destruction_callback and
  /// become invalid.
  /// @pre No work submitted later uses the pool's memory; the destructor waits for work already
  ///   running. The pool's caches and capture_watch objects are destroyed. Graphs that use its
  ///   memory are not launched again.
  /// Never throws, and tolerates a CUDA runtime that is shutting down.
  ~memory_pool() = default;

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
  /// **Stream:** ordered on `stream`. **Capture:** see above. **Cost:** a hit makes no CUDA call
  /// with a stream_ref that carries its id, and one cuStreamGetId with a raw handle.
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes,
                               std::size_t alignment = block_alignment_bytes,
                               source_location where = source_location::current()) {
    void* const pointer = try_allocate(stream, bytes, alignment, where);
    if (pointer == nullptr && bytes != 0) core_.throw_out_of_memory(bytes, where);
    return pointer;
  }

  /// As allocate(), but returns nullptr when there is not enough memory.
  /// @throws std::invalid_argument, std::bad_alloc, cuda_error  as allocate()
  [[nodiscard]] void* try_allocate(stream_ref stream, std::size_t bytes,
                                   std::size_t alignment = block_alignment_bytes,
                                   source_location where = source_location::current()) {
    if (alignment == block_alignment_bytes) {
      if (void* const pointer = core_.try_cache(stream, bytes)) return pointer;
    }
    return core_.allocate(stream, bytes, alignment, where);
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
  /// **Stream:** ordered on `stream`; does not block, but that of a block with record_use() or of a
  /// graph waits for a miss of another thread that is under way. **Capture:** as allocate().
  /// **Cost:** no CUDA call with a stream_ref that carries its id; on the per-thread default
  /// stream, which never does, one cuStreamGetId, and one cudaEventRecord in 64 frees or 16 MiB.
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    if (!core_.try_cache_free(stream, pointer, bytes)) {
      core_.deallocate(stream, pointer, bytes, where);
    }
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
                      std::size_t count, source_location where = source_location::current()) {
    core_.allocate_batch(stream, bytes, pointers, count, where);
  }

  /// Frees several blocks.
  /// @param stream          as deallocate()
  /// @param pointers,bytes  blocks and their sizes, `count` of each
  /// @param count           number of blocks
  /// @throws as deallocate(), for the first block that is rejected; the blocks before it are freed
  /// **Stream:** ordered on `stream`. **Capture:** as allocate(). **Cost:** queries the stream's id
  /// once, and takes the cache's lock once while the cache has room.
  void deallocate_batch(stream_ref stream, void* const* pointers, std::size_t const* bytes,
                        std::size_t count, source_location where = source_location::current()) {
    core_.deallocate_batch(stream, pointers, bytes, count, where);
  }

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
                  source_location where = source_location::current()) {
    core_.record_use(stream, pointer, where);
  }

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
  /// **Stream:** records at most one event; waits for nothing but a miss of another thread that is
  /// under way. **Capture:** `stream` must not be capturing.
  void retire(stream_ref stream, source_location where = source_location::current()) {
    core_.retire(stream, where);
  }

  /// Returns idle memory to CUDA.
  /// @param bytes_to_keep  at least this much stays reserved, if as much is reserved
  /// @return the number of bytes returned
  /// @throws cuda_error  when a CUDA call fails; no memory is lost
  /// **Stream:** waits on the host for all streams with free blocks in the pool, and for the legacy
  /// default stream if one of them is another thread's default stream; cudaFree synchronises the
  /// device. **Capture:** legal; blocks freed on a capturing stream are kept.
  std::size_t trim(std::size_t bytes_to_keep = 0,
                   source_location where = source_location::current()) {
    return core_.trim(bytes_to_keep, where);
  }

  /// @return a snapshot of the counters
  /// **Cost:** takes the lock of every cache and searches each stream's largest free block; not for
  /// a hot loop.
  [[nodiscard]] pool_statistics statistics() const noexcept { return core_.statistics(); }

  /// @return the device of the memory
  [[nodiscard]] device_id device() const noexcept { return core_.device(); }
  /// @return the maximum of reserved bytes; memory_pool_options::unlimited: no limit
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return core_.limit_bytes(); }
  /// @return where the memory comes from; never automatic
  [[nodiscard]] memory_source source() const noexcept { return core_.source(); }

  /// The minimum alignment of a block.
  static constexpr std::size_t block_alignment_bytes = detail::pool_core::default_alignment;
  /// The maximum alignment that allocate() accepts.
  static constexpr std::size_t max_alignment_bytes = detail::pool_core::max_alignment;

 private:
  friend struct detail::pool_access;
  friend class memory_cache;
  friend class capture_watch;

  detail::pool_core core_;
};

namespace detail {

/// What the library's own classes call, and users do not.
struct pool_access {
  static pool_core& core(memory_pool& pool) noexcept { return pool.core_; }
};

}  // namespace detail

/// Makes a pool safe to use in a capture that another library has begun, during the watch's
/// lifetime: every call checks whether its stream is capturing, and memory allocated in a capture
/// belongs to the graph. This library's own captures do not need one. Make it before the capture:
/// it records an event on each stream with free blocks, so that the capture can take them.
/// **Threads:** any. **Cost:** until its destruction every call of the pool, from any thread, makes
/// one more CUDA call: destroy it right after the capture.
class capture_watch : detail::noncopyable {
 public:
  /// Starts watching a pool.
  /// @param pool  outlives the watch
  explicit capture_watch(memory_pool& pool) noexcept : pool_{pool} {
    pool_.core_.watch_captures(1);
  }
  ~capture_watch() { pool_.core_.watch_captures(-1); }

 private:
  memory_pool& pool_;
};

WARPWRIGHT_END

#include <warpwright/memory/cache.hpp>
#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/pool/pool_calls_definitions.hpp>
#include <warpwright/memory/detail/pool/pool_lifetime_definitions.hpp>
#include <warpwright/memory/detail/pool/pool_misses_definitions.hpp>
#endif
