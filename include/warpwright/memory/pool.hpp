// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/pool_state.hpp>

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

/// The figures of a memory_pool at one moment; every size in bytes.
struct pool_statistics {
  std::uint64_t live_bytes = 0;           ///< handed out, in granules of 256 bytes
  std::uint64_t live_peak_bytes = 0;      ///< the highest live_bytes so far
  std::uint64_t live_blocks = 0;          ///< handed out
  std::uint64_t reserved_bytes = 0;       ///< taken from CUDA
  std::uint64_t reserved_peak_bytes = 0;  ///< the highest reserved_bytes so far
  std::uint64_t largest_hole_bytes = 0;   ///< the largest free block
  std::uint64_t allocations = 0;          ///< successful ones of at least one byte
  std::uint64_t deallocations = 0;
  std::uint64_t hits = 0;                    ///< allocations served without any CUDA call
  std::uint64_t cross_stream_steals = 0;     ///< allocations served by another stream's block
  std::uint64_t upstream_allocations = 0;    ///< cudaMalloc calls that succeeded
  std::uint64_t upstream_deallocations = 0;  ///< cudaFree calls that succeeded
  std::uint64_t event_records = 0;           ///< cudaEventRecord calls that succeeded
  std::uint64_t stream_waits = 0;            ///< cudaStreamWaitEvent calls that succeeded

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

  /// The most memory to reserve. @param bytes  default: unlimited
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
  /// The least memory to take from CUDA at a time. @param bytes  default: 64 MiB
  memory_pool_options& growth_bytes(std::size_t bytes) noexcept {
    growth_bytes_ = bytes;
    return *this;
  }
  /// Also takes at least this part of what is reserved already, so that large pools consist of few
  /// segments. @param factor  at least 0; default: 0; 1 doubles the pool each time
  memory_pool_options& growth_factor(double factor) noexcept {
    growth_factor_ = factor;
    return *this;
  }
  /// What to prefer when a request misses. @param order  default: grow_before_wait
  memory_pool_options& order(reuse_order order) noexcept {
    order_ = order;
    return *this;
  }
  /// Checks every call for misuse and keeps the place of every allocation for the texts.
  /// **Cost:** two or three CUDA calls a call, and the books.
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
  std::size_t growth_bytes_ = std::size_t{64} << 20U;
  double growth_factor_ = 0.0;
  reuse_order order_ = reuse_order::grow_before_wait;
  bool checked_ = false;
  exhausted_callback exhausted_ = nullptr;
  void* exhausted_user_ = nullptr;
  destruction_callback destruction_ = nullptr;
  void* destruction_user_ = nullptr;
};

/// Stream-ordered memory of one device, kept and handed out again without calling CUDA.
///
/// A block freed on a stream is that stream's again at once: work given to the stream later runs
/// behind the work that used it. Another stream gets it only when that is safe, in this order:
///   1. *ready*: the donor is known to have passed the free (an event says so); no waiting;
///   2. *grow*: the pool reserves more memory (a cudaMalloc of at least growth_bytes);
///   3. *wait*: the waiter is ordered behind the donor by an event, on the device.
/// reuse_order swaps 2 and 3. When all of that fails, the pool gathers every free block behind one
/// wait for all streams, then waits on the host, gives empty segments back to CUDA and tries once
/// more, then asks the exhausted_callback, then gives up. It can be used as before afterwards.
///
/// @pre A stream that freed blocks here stays alive until release_stream() or the pool's end:
///   the pool may record an event on it whenever another stream is short of memory. Streams are
///   told apart by their id, never by their handle, which CUDA uses again.
///
/// Blocks of the thread's own default stream (cudaStreamPerThread) pass to other threads only after
/// some more frees on it or when memory runs out, since only that thread can record its event.
///
/// **Threads:** any number may call any member at once; one spin lock, held by a hit for some tens
/// of nanoseconds and never across a CUDA call, and a second lock for requests that miss. Thousands
/// of blocks that become ready at once change lists in portions, between which hits go on.
/// **Capture:** a graph that uses memory of the pool must find it allocated before the capture and
/// keep it until the graph's executable is gone: allocating and freeing on a capturing stream is a
/// mistake. A request that misses, and checked mode every call, throws std::invalid_argument there
/// and the capture goes on; an unchecked hit is not noticed, and an unchecked call with a
/// stream_ref that does not carry its id breaks the capture, as cudaStreamGetId does. Captures on
/// other streams do no harm and take none: growing is legal meanwhile, and a capturing donor is
/// left alone.
class memory_pool {
 public:
  /// @param device   where the memory lies
  /// @param options  limits and policies
  /// @throws std::invalid_argument  for a limit or factor that makes no sense
  /// @throws out_of_memory          when initial_bytes cannot be had
  /// @throws cuda_error             when CUDA refuses
  /// **Capture:** legal unless the calling thread captures globally. **Cost:** one cudaMemGetInfo;
  /// creates the device's context at the first use of the device.
  explicit memory_pool(device_id device, memory_pool_options const& options = {},
                       source_location where = source_location::current());

  /// Gives the segments back to CUDA. Blocks still live are counted (destruction_callback) and die.
  /// @pre nothing uses the pool's memory any more, or the device is synchronised with it: cudaFree
  ///   waits for running work
  /// Never throws, and tolerates a CUDA runtime that is shutting down.
  ~memory_pool();
  memory_pool(memory_pool const&) = delete;
  memory_pool& operator=(memory_pool const&) = delete;

  /// Hands out memory for work on a stream.
  /// @param stream     the memory may be used by work given to this stream from now on
  /// @param bytes      0 answers nullptr and counts nothing
  /// @param alignment  of the address, in bytes: a power of two up to 2 MiB; below 256 is 256
  /// @return device memory with undefined contents
  /// @throws out_of_memory          when the steps above all fail
  /// @throws std::invalid_argument  for a bad alignment; on a miss for a capturing stream; in
  ///   checked mode for a stream of another device
  /// @throws cuda_error             when another CUDA call fails; nothing is lost then
  /// **Stream:** ordered on `stream`. **Capture:** not legal, see above. **Cost:** a hit makes no
  /// CUDA call with a stream_ref that carries its id; one cudaStreamGetId more with a raw handle.
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
    if (bytes == 0) return nullptr;
    if (alignment < block_alignment_bytes) {
      if (alignment == 0 || (alignment & (alignment - 1)) != 0) refuse_alignment(alignment, where);
      alignment = block_alignment_bytes;
    } else if (alignment > maximum_alignment_bytes || (alignment & (alignment - 1)) != 0) {
      refuse_alignment(alignment, where);
    }
    std::uint64_t rounded = 0;
    if (!heap::round_up(bytes, heap::granule_bytes, rounded)) return nullptr;
    if (options_.checked_) check_stream(stream, "allocate", where);
    std::uint64_t const id = stream.id(where);
    {
      detail::held<detail::spin_lock> const lock{lock_};
      std::uint32_t const own = lists_.find(id);
      std::uint32_t node = heap::none;
      if (own != detail::address_map::none)
        node = heap_.take(own, rounded, alignment, false, bytes);
      if (node == heap::none) node = heap_.take(heap::ready, rounded, alignment, false, bytes);
      if (node != heap::none) {
        ++counters_.hits;
        return hand_out(node, where);
      }
    }
    return allocate_slowly(stream, id, request{bytes, rounded, alignment}, where);
  }

  /// Takes memory back; work given to `stream` before the call may still use it.
  /// @param stream   a stream behind whose work the memory is free: the one it was allocated on, or
  ///   one that the user has ordered behind all work with it
  /// @param pointer  from allocate() of this pool; nullptr does nothing
  /// @param bytes    as given to allocate()
  /// @throws std::invalid_argument  for misuse, nothing has changed then: always for a pointer
  ///   that is not a live block's start (freed twice, foreign, from the middle), in checked mode
  ///   also for wrong bytes, a stream of another device or a capturing one. Do not rely on it
  ///   unchecked.
  /// @throws std::bad_alloc  when the host has no memory to note a stream used here for the first
  ///   time; with a live block and a stream used here before it does not throw
  /// **Stream:** ordered on `stream`; does not block. **Capture:** not legal, see above.
  /// **Cost:** no CUDA call with a stream_ref that carries its id; one cudaEventRecord in 64 frees
  /// or 16 MiB on the thread's own default stream.
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    if (pointer == nullptr) return;
    if (options_.checked_) check_stream(stream, "deallocate", where);
    std::uint64_t const id = stream.id(where);
    detail::held<detail::spin_lock> lock{lock_};
    std::uint32_t const node = heap_.find(address_of(pointer));
    if (node == heap::none) {
      lock.unlock();
      refuse_unknown(pointer, bytes, where);
    }
    if (options_.checked_) {
      if (heap_.at(node).requested_bytes != bytes) refuse_size(lock, node, pointer, bytes, where);
      remember_free(node, where);
    }
    std::uint32_t const list = list_of(id, stream.get());
    std::uint64_t const rounded = heap_.at(node).bytes;
    heap_.give(node, list, entries_[list].open_epoch);
    ++counters_.deallocations;
    if (stream.get() == cudaStreamPerThread && thread_epoch_is_full(list, rounded)) {
      lock.unlock();
      close_thread_epoch(id);
    }
  }

  /// Says goodbye to a stream: call it before the stream is destroyed. Its free blocks become
  /// everyone's once the work given to it so far has finished.
  /// @throws cuda_error  when CUDA refuses; the stream is not released then
  /// **Stream:** records one event; does not block. **Capture:** `stream` must not be capturing.
  void release_stream(stream_ref stream, source_location where = source_location::current());

  /// Gives segments that are wholly free back to CUDA.
  /// @param bytes_to_keep  at least this much stays reserved, if there is as much
  /// @return the bytes given back
  /// @throws cuda_error  when CUDA refuses; nothing is lost then
  /// **Stream:** waits on the host for all streams that have free blocks here; cudaFree
  /// synchronises the device. **Capture:** legal unless one of those streams is capturing (its
  /// blocks are kept).
  std::size_t trim(std::size_t bytes_to_keep = 0,
                   source_location where = source_location::current());

  /// @return the figures of this moment
  /// **Cost:** walks the largest free blocks of each stream; not for a hot loop.
  [[nodiscard]] pool_statistics statistics() const noexcept;

  /// @return the device whose memory this is
  [[nodiscard]] device_id device() const noexcept { return device_; }
  /// @return the most that the pool reserves, in bytes; memory_pool_options::unlimited: no limit
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_bytes_; }

  /// Every block starts at a multiple of this.
  static constexpr std::size_t block_alignment_bytes = 256;
  /// The largest alignment that allocate() takes.
  static constexpr std::size_t maximum_alignment_bytes = std::size_t{2} << 20U;

 private:
  using heap = detail::block_heap;
  using stream_entry = detail::stream_entry;
  using spin_held = detail::held<detail::spin_lock>;
  struct request {
    std::size_t bytes;
    std::uint64_t rounded_bytes;
    std::uint64_t alignment;
  };
  class slow_section;
  static constexpr std::uint64_t nobody = ~std::uint64_t{0};  // no stream's id

  static std::uint64_t address_of(void const* pointer) noexcept {
    return reinterpret_cast<std::uintptr_t>(pointer);
  }

  // Everything that says "lock" below runs under lock_; the slow path also holds slow_.
  void* hand_out(std::uint32_t node, source_location where) {
    ++counters_.allocations;
    if (heap_.live_bytes() > counters_.live_peak_bytes) {
      counters_.live_peak_bytes = heap_.live_bytes();
    }
    if (options_.checked_) remember_allocation(node, where);
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(heap_.at(node).address));
  }
  std::uint32_t list_of(std::uint64_t id, cudaStream_t handle) {
    std::uint32_t const list = lists_.find(id);
    return list != detail::address_map::none ? list : new_list(id, handle);
  }
  std::uint32_t new_list(std::uint64_t id, cudaStream_t handle);

  [[gnu::cold]] void* allocate_slowly(stream_ref stream, std::uint64_t id, request wanted,
                                      source_location where);
  void* allocate_once(stream_ref stream, std::uint64_t id, request wanted, source_location where);
  void* take(std::uint32_t list, request wanted, source_location where);
  void* take_hit(std::uint32_t own, request wanted, source_location where);
  void* grow(spin_held& lock, request wanted, source_location where);
  void* steal(spin_held& lock, std::uint32_t own, stream_ref stream, request wanted,
              source_location where);
  void gather(spin_held& lock, std::uint32_t own, stream_ref stream, source_location where);
  void add_segment(spin_held& lock, std::size_t bytes, source_location where);
  std::size_t release_segments(spin_held& lock, std::uint64_t keep_bytes, source_location where);

  [[nodiscard]] bool covered(std::uint32_t list) const noexcept;
  bool close_epoch(spin_held& lock, std::uint32_t list, std::uint64_t own_id,
                   source_location where);
  bool thread_epoch_is_full(std::uint32_t list, std::uint64_t freed_bytes) noexcept {
    stream_entry& entry = entries_[list];
    entry.unrecorded_bytes += freed_bytes;
    return ++entry.unrecorded_frees >= 64 || entry.unrecorded_bytes >= (std::uint64_t{16} << 20U);
  }
  bool record_behind(spin_held& lock, std::uint32_t list, std::uint64_t own_id,
                     source_location where);
  void close_thread_epoch(std::uint64_t id) noexcept;
  void poll(spin_held& lock, std::uint64_t own_id, source_location where);
  void order_behind(spin_held& lock, std::uint32_t own, stream_ref stream, std::uint32_t donor,
                    std::uint64_t epoch, source_location where);
  [[nodiscard]] bool waits_already(std::uint32_t own, std::uint32_t donor,
                                   std::uint64_t epoch) const noexcept;
  void finish_all(spin_held& lock, std::uint64_t own_id, source_location where);
  void finish_oldest(spin_held& lock, std::uint32_t list) noexcept;
  void move_blocks(spin_held& lock, std::uint32_t from, std::uint64_t epoch, std::uint32_t to,
                   std::uint64_t new_epoch) noexcept;

  void check_stream(stream_ref stream, char const* verb, source_location where) const;
  void remember_allocation(std::uint32_t node, source_location where) noexcept;
  [[nodiscard]] detail::call_site site_of(std::uint32_t node) const noexcept;
  void remember_free(std::uint32_t node, source_location where) noexcept;
  [[nodiscard]] memory_report report(std::size_t requested_bytes) const noexcept;
  [[noreturn, gnu::cold]] void throw_out_of_memory(std::size_t bytes, source_location where) const;
  [[noreturn, gnu::cold]] static void refuse_alignment(std::size_t alignment,
                                                       source_location where);
  [[noreturn, gnu::cold]] void refuse_unknown(void* pointer, std::size_t bytes,
                                              source_location where) const;
  [[noreturn, gnu::cold]] void refuse_size(spin_held& lock, std::uint32_t node, void* pointer,
                                           std::size_t bytes, source_location where) const;

  device_id device_;
  memory_pool_options options_;
  std::size_t limit_bytes_ = memory_pool_options::unlimited;
  std::size_t capacity_bytes_ = 0;  // the limit, or the device's memory if that is less
  detail::blocking_mutex slow_;     // serialises misses; taken before lock_
  mutable detail::spin_lock lock_;
  // Guarded by lock_:
  detail::block_heap heap_;
  detail::address_map lists_;            // stream id to list
  detail::array<stream_entry> entries_;  // by list; entry 0 stands for the ready list
  detail::array<cudaEvent_t> spare_events_;
  std::size_t event_count_ = 0;  // in all; spare_events_ has room for them
  std::uint64_t reserved_bytes_ = 0;
  pool_statistics counters_;
  bool slow_path_runs_ = false;             // entries keep their streams meanwhile
  detail::array<detail::call_site> sites_;  // by block, in checked mode
  detail::array<detail::freed_block> recent_frees_;
  std::size_t next_recent_free_ = 0;
};

WARPWRIGHT_END

#include <warpwright/memory/detail/pool_checks.hpp>
#include <warpwright/memory/detail/pool_slow_path.hpp>
