// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls of pool_core that caches do not serve, misses apart.
#pragma once

#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/alignment.hpp>
#include <warpwright/memory/detail/pool/misuse_definitions.hpp>
#include <warpwright/memory/detail/pool/pool_core.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

class pool_core::slow_path : noncopyable {
 public:
  /// @param may_wait  if not, has no effect where another thread is in it: see entered()
  slow_path(pool_core& pool, source_location where, bool may_wait = true)
      : pool_{pool},
        lock_{pool.slow_path_mutex_, may_wait},
        scope_{is_current() ? device_scope::current : pool.device_.value()},
        relaxed_{pool.heap_.driver, entered()} {
    if (!entered()) return;
    check_with_device(scope_.status(), pool.device_, "cudaSetDevice", where);
    relaxed_.check_mode(where);
    pool_.streams_.keep_lists(true);
  }
  ~slow_path() {
    if (entered()) pool_.streams_.keep_lists(false);
  }
  [[nodiscard]] bool entered() const noexcept { return lock_.owns_lock(); }

 private:
  // Querying the context takes a quarter of the time of querying the device.
  [[nodiscard]] bool is_current() const noexcept {
    return !entered() ||
           (pool_.context_ != nullptr && pool_.heap_.driver.current_context() == pool_.context_);
  }

  pool_core& pool_;
  unique_lock<mutex> lock_;
  device_scope scope_;
  relaxed_driver_mode relaxed_;
};

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pool_core::add_cache(thread_cache& cache, stream_ref stream,
                                                            source_location where) {
  check_alive("make_cache", where);
  caches_.add(cache, stream, id_of(stream, where));
}

WARPWRIGHT_INLINE void pool_core::throw_out_of_memory(std::size_t bytes,
                                                      source_location where) const {
  throw out_of_memory{report(bytes), where, memory_users(heap_, streams_, sites_)};
}

WARPWRIGHT_INLINE void pool_core::throw_unknown(void* pointer, std::size_t bytes,
                                                source_location where, bool to_free) const {
  throw_unknown_pointer(heap_, sites_, device_, pointer, bytes, where, to_free);
}

WARPWRIGHT_INLINE bool pool_core::watches_captures() const noexcept {
  return (reasons_.load(memory_order::relaxed) & check_captures) != 0 ||
         captures_under_way.load(memory_order::relaxed) != 0;
}

WARPWRIGHT_INLINE void pool_core::check_unwatched_capture(stream_ref stream, char const* verb,
                                                          source_location where) const {
#if WARPWRIGHT_HOST_RUNTIME
  if (watches_captures() || !may_be_capturing_anywhere()) return;
  if (!is_capturing(heap_.driver, stream, where)) return;
  throw_invalid_argument(
      text{"memory_pool: cannot "} + verb +
          " on a stream that is capturing, because warpwright did not begin the capture: on a "
          "GPU it would not be noticed, and the graph's memory would be reused while the graph "
          "runs; set memory_pool_options::detect_captures(), or create a capture_watch before",
      where);
#else
  static_cast<void>(stream), static_cast<void>(verb), static_cast<void>(where);
#endif
}

WARPWRIGHT_INLINE void pool_core::update_reasons() noexcept {
  unsigned reasons = 0;
  if (watches_ != 0 || checked() || options_.detect_captures) reasons |= check_captures;
  if (deferred_.any_shared()) reasons |= shared_blocks;
  if (graphs_.any()) reasons |= graph_blocks;
  reasons_.store(reasons, memory_order::relaxed);
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void pool_core::reclaim_graphs() noexcept {
  if (graphs_.reclaim()) update_reasons();
}

WARPWRIGHT_INLINE void pool_core::check_alive(char const* call, source_location where) const {
  if ((reasons_.load(memory_order::relaxed) & destroyed) == 0) return;
  throw_invalid_argument(text{"memory_pool: "} + call +
                             "() of a destroyed pool; destroy the objects that use its memory "
                             "before the pool",
                         where);
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint64_t pool_core::id_of(stream_ref stream,
                                                                     source_location where) const {
  return detail::id_of(heap_.driver, stream, where);
}

WARPWRIGHT_INLINE void* pool_core::commit(std::uint32_t node, source_location where) {
  ++heap_.counters.allocations;
  sites_.record_allocation(heap_, node, where);
  return pointer_to(heap_.blocks.at(node).address);
}

WARPWRIGHT_INLINE bool pool_core::may_grow(allocation_request const& request) const noexcept {
  std::uint64_t const reserved = heap_.counters.reserved_bytes;
  return reserved <= capacity_bytes_ && request.rounded_bytes <= capacity_bytes_ - reserved;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pool_core::synchronize(heap_guard& lock,
                                                              std::uint64_t own_id,
                                                              source_location where) {
  streams_.synchronize(lock, own_id, where);
  static_cast<void>(deferred_.poll(lock, true, where));
}

WARPWRIGHT_INLINE void* pool_core::allocate_from_heap(stream_ref stream, std::uint64_t id,
                                                      std::size_t bytes, std::size_t alignment,
                                                      source_location where) {
  if (bytes == 0) return nullptr;
  std::uint64_t rounded = 0;
  if (!block_heap::round_up(bytes, block_heap::granule_bytes, rounded)) return nullptr;
  bool const large = rounded >= block_heap::large_bytes;
  if (large) caches_.flush_large(id);
  {
    heap_guard const lock{heap_.lock};
    block_heap& blocks = heap_.blocks;
    std::uint32_t const own = streams_.find(id);
    std::uint32_t node = none;
    if (own != none) node = blocks.find_fit(own, rounded, alignment, false);
    // For a small request no block fits better than one of exactly its size.
    if (node == none || blocks.at(node).bytes != rounded || large) {
      node = blocks.better_fit(blocks.find_fit(block_heap::ready, rounded, alignment, false), node,
                               rounded);
    }
    if (node != none) {
      node = blocks.allocate_from(node, rounded, alignment, bytes);
      ++heap_.counters.hits;
      return commit(node, where);
    }
  }
  return allocate_slow(stream, id, allocation_request{bytes, rounded, alignment}, where);
}

/// An allocation with an alignment, in checked mode, or while captures are watched.
WARPWRIGHT_INLINE void* pool_core::allocate_checked(stream_ref stream, std::size_t bytes,
                                                    std::size_t alignment, source_location where) {
  check_alive("allocate", where);
  if (bytes == 0) return nullptr;
  require_alignment("memory_pool", alignment, max_alignment, where);
  if (alignment < default_alignment) alignment = default_alignment;
  check_unwatched_capture(stream, "allocate", where);
  // First: querying a capturing stream's id would invalidate the capture.
  if (watches_captures()) {
    if (is_capturing(heap_.driver, stream, where)) {
      std::uint64_t rounded = 0;
      if (!block_heap::round_up(bytes, block_heap::granule_bytes, rounded)) return nullptr;
      return allocate_slow(stream, epoch_tracker::no_id,
                           allocation_request{bytes, rounded, alignment}, where);
    }
    if (checked()) check_device(stream, device_, "allocate", where);
  }
  std::uint64_t const id = id_of(stream, where);
  // The caches still receive frees, so they may have a block.
  if (alignment == default_alignment && !checked()) {
    if (void* const pointer = caches_.take(id, rounded_up(bytes))) return pointer;
  }
  return allocate_from_heap(stream, id, bytes, alignment, where);
}

/// The live block of a pointer passed to deallocate(). Throws for an invalid pointer.
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t pool_core::find_live(
    heap_guard& lock, void* pointer, std::size_t bytes, source_location where) const {
  std::uint32_t const node = heap_.find_live(address_of(pointer));
  if (node == none) {
    lock.unlock();
    throw_unknown(pointer, bytes, where);
  }
  if (checked() && heap_.blocks.at(node).requested_bytes != bytes) {
    throw_wrong_size(lock, heap_, sites_, node, pointer, bytes, where);
  }
  return node;
}

WARPWRIGHT_INLINE void pool_core::deallocate_to_heap(stream_ref stream, std::uint64_t id,
                                                     void* pointer, std::size_t bytes,
                                                     source_location where) {
  std::uint64_t const rounded = rounded_up(bytes);
  if (!checked() && rounded != 0 && options_.cache_bytes != 0) {
    using put_result = stream_caches::put_result;
    put_result const result =
        caches_.put_making_room(stream, id, pointer, rounded, options_.cache_bytes);
    if (result == put_result::double_free) throw_unknown(pointer, bytes, where);
    if (result == put_result::stored_and_event_due) {
      caches_.flush_shard(id);
      close_thread_epoch(id);
    }
    if (result != put_result::not_stored) return;
  }
  bool event_due = false;
  {
    heap_guard lock{heap_.lock};
    std::uint32_t const node = find_live(lock, pointer, bytes, where);
    std::uint32_t const list = streams_.list_of(id, stream.get());
    sites_.record_free(heap_, node, where);
    streams_.free(node, list);
    ++heap_.counters.deallocations;
    event_due = stream.get() == cudaStreamPerThread && streams_.epoch_is_full(list, rounded);
  }
  if (event_due) close_thread_epoch(id);
}

/// Records the event of the calling thread's default stream, which no other thread can record. On
/// failure, and while another thread is in the slow path, the blocks wait for a later event: a miss
/// may wait there for work that this thread has yet to submit or to release.
WARPWRIGHT_INLINE void pool_core::close_thread_epoch(std::uint64_t id) noexcept {
  source_location const here = source_location::current();
  try {
    slow_path const section{*this, here, false};
    if (!section.entered()) return;
    heap_guard lock{heap_.lock};
    std::uint32_t const list = streams_.find(id);
    if (list == none) return;
    // A program without misses polls nowhere else, and its events would accumulate.
    epoch_tracker::poll_result ignored;
    streams_.poll_list(lock, list, ignored, here);
    static_cast<void>(streams_.close_epoch(lock, list, id, here));
  } catch (...) {
    return;
  }
}

/// A free in checked mode, of a foreign address, or while reasons_ is set.
WARPWRIGHT_INLINE void pool_core::deallocate_checked(stream_ref stream, void* pointer,
                                                     std::size_t bytes, source_location where) {
  if (pointer == nullptr) return;
  check_alive("deallocate", where);
  check_unwatched_capture(stream, "free", where);
  if (watches_captures()) {
    if (is_capturing(heap_.driver, stream, where)) {
      return free_in_graph(stream, pointer, bytes, where);
    }
    if (checked()) check_device(stream, device_, "deallocate", where);
  }
  std::uint64_t const id = id_of(stream, where);
  bool shared_with_thread = false;
  {
    heap_guard lock{heap_.lock};
    reclaim_graphs();
    std::uint32_t const node = find_live(lock, pointer, bytes, where);
    if (heap_.blocks.at(node).tag == 0 && !deferred_.is_shared(node)) {
      lock.unlock();
      return deallocate_to_heap(stream, id, pointer, bytes, where);
    }
    shared_with_thread = deferred_.is_shared(node, cudaStreamPerThread);
  }
  // Queried only where it matters.
  std::uint64_t const own_thread_id =
      shared_with_thread ? id_of(stream_ref::per_thread(), where) : epoch_tracker::no_id;
  slow_path const section{*this, where};
  heap_guard lock{heap_.lock};
  std::uint32_t const node = find_live(lock, pointer, bytes, where);
  deferred_.record_events(lock, node, stream, own_thread_id, where);
  try {
    graphs_.free_behind_events(node);
  } catch (...) {
    deferred_.abandon(node);
    throw;
  }
  sites_.record_free(heap_, node, where);
  update_reasons();
}

/// A free on a capturing stream.
WARPWRIGHT_COLD WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void pool_core::free_in_graph(
    stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
  slow_path const section{*this, where};
  heap_guard lock{heap_.lock};
  reclaim_graphs();
  if (deferred_.is_shared(find_live(lock, pointer, bytes, where))) {
    lock.unlock();
    throw_invalid_argument(
        "memory_pool: a block with record_use() is freed while one of its streams is capturing; "
        "end the capture first",
        where);
  }
  std::uint32_t const graph = graphs_.graph_of(lock, stream, where);
  update_reasons();
  // Once more: the lock was released.
  std::uint32_t const node = find_live(lock, pointer, bytes, where);
  graphs_.free(node, graph, stream, where);
  sites_.record_free(heap_, node, where);
}

WARPWRIGHT_INLINE void pool_core::allocate_batch(stream_ref stream, std::size_t const* bytes,
                                                 void** pointers, std::size_t count,
                                                 source_location where) {
  check_alive("allocate_batch", where);
  check_unwatched_capture(stream, "allocate", where);
  // Querying the id of a capturing stream would invalidate the capture.
  bool const capturing = watches_captures() && is_capturing(heap_.driver, stream, where);
  std::uint64_t const id = capturing ? epoch_tracker::no_id : id_of(stream, where);
  if (checked()) check_device(stream, device_, "allocate", where);
  std::size_t done = 0;
  try {
    while (done < count) {
      if (!capturing && !checked()) {
        done += caches_.take(id, bytes + done, pointers + done, count - done);
        if (done == count) return;
      }
      void*& pointer = pointers[done];
      pointer = capturing ? allocate_checked(stream, bytes[done], default_alignment, where)
                          : allocate_from_heap(stream, id, bytes[done], default_alignment, where);
      if (pointer == nullptr && bytes[done] != 0) throw_out_of_memory(bytes[done], where);
      ++done;
    }
  } catch (...) {
    while (done-- > 0) {
      if (pointers[done] != nullptr) undo_allocation(id, stream.get(), pointers[done]);
      pointers[done] = nullptr;
    }
    throw;
  }
}

/// Frees a block that was allocated by the current call. Cannot fail.
WARPWRIGHT_INLINE void pool_core::undo_allocation(std::uint64_t id, cudaStream_t handle,
                                                  void* pointer) noexcept {
  heap_guard const lock{heap_.lock};
  std::uint32_t const node = heap_.blocks.find(address_of(pointer));
  if (node == none) return;
  std::uint32_t const tag = heap_.blocks.at(node).tag;
  std::uint32_t list = none;
  if (tag != 0) {
    list = graphs_.find_list(tag - 1, handle);
  } else if (id != epoch_tracker::no_id) {
    // The list may belong to another stream by now, and the block may have come with a wait or from
    // the stream's own list: it is not ready for all streams.
    try {
      list = streams_.list_of(id, handle);
    } catch (...) {
    }
  }
  if (list == none) return;  // the block is leaked: reusing it could be too early
  streams_.free(node, list);
  ++heap_.counters.deallocations;
}

WARPWRIGHT_INLINE void pool_core::deallocate_batch(stream_ref stream, void* const* pointers,
                                                   std::size_t const* bytes, std::size_t count,
                                                   source_location where) {
  check_alive("deallocate_batch", where);
  check_unwatched_capture(stream, "free", where);
  stream_ref const resolved = watches_captures() ? stream : stream.resolved(where);
  auto const accepts = [&](void* pointer) { return may_free_to_cache(pointer); };
  for (std::size_t i = 0; i < count; ++i) {
    if (resolved.has_id()) {
      i += caches_.put(resolved.id(where), pointers + i, bytes + i, count - i, accepts);
    }
    if (i < count && !try_cache_free(resolved, pointers[i], bytes[i])) {
      deallocate(resolved, pointers[i], bytes[i], where);
    }
  }
}

WARPWRIGHT_INLINE void pool_core::record_use(stream_ref stream, void* pointer,
                                             source_location where) {
  check_alive("record_use", where);
  if (is_capturing(heap_.driver, stream, where)) {
    throw_invalid_argument("memory_pool: record_use of a capturing stream; end the capture first",
                           where);
  }
  std::uint64_t const id = id_of(stream, where);
  heap_guard lock{heap_.lock};
  std::uint32_t const node = heap_.find_live(address_of(pointer));
  if (node == none) {
    lock.unlock();
    throw_unknown(pointer, 0, where, false);
  }
  deferred_.record_use(node, id, stream.get());
  update_reasons();
}

WARPWRIGHT_INLINE void pool_core::retire(stream_ref stream, source_location where) {
  check_alive("retire", where);
  if (is_capturing(heap_.driver, stream, where)) {
    throw_invalid_argument("memory_pool: retire of a capturing stream; end the capture first",
                           where);
  }
  std::uint64_t const id = id_of(stream, where);
  slow_path const section{*this, where};
  caches_.release(id);
  heap_guard lock{heap_.lock};
  auto const retire_list = [&](std::uint32_t list) {
    if (streams_.caches(list) != 0) {
      lock.unlock();
      throw_invalid_argument(
          "memory_pool: retire of a stream that has a memory_cache; end the cache first", where);
    }
    if (!deferred_.retire(lock, list, where) || !streams_.retire(lock, list, id, where)) {
      lock.unlock();
      throw_invalid_argument("memory_pool: retire of a stream whose capture began meanwhile",
                             where);
    }
  };
  std::uint32_t const list = streams_.find(id);
  if (list != none) {
    retire_list(list);
    streams_.forget(id);
  }
  if (stream.get() == cudaStreamPerThread) return;
  for (std::uint32_t l = block_heap::first_stream_list; l < streams_.end(); ++l) {
    // Registered in a capture, without an id.
    if (streams_.used(l) && streams_.id(l) == epoch_tracker::no_id &&
        streams_.handle(l) == stream.get()) {
      retire_list(l);
    }
  }
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::size_t pool_core::trim(std::size_t bytes_to_keep,
                                                                    source_location where) {
  check_alive("trim", where);
  slow_path const section{*this, where};
  caches_.flush_all();
  heap_guard lock{heap_.lock};
  reclaim_graphs();
  synchronize(lock, epoch_tracker::no_id, where);
  std::uint64_t const before = heap_.counters.reserved_bytes;
  if (mapped_.is_open()) {
    mapped_.release(lock, bytes_to_keep, where);
  } else {
    segments_.release(lock, bytes_to_keep, where);
  }
  return before - heap_.counters.reserved_bytes;
}

WARPWRIGHT_INLINE pool_statistics pool_core::statistics() const noexcept {
  stream_caches::all_locks const locks{caches_};
  pool_statistics s = heap_.counters;
  std::uint64_t free_blocks = heap_.deferred_blocks;
  locks.for_each_cache([&](front_cache const& cache) {
    s.allocations += cache.allocations;
    s.hits += cache.allocations;
    s.cache_hits += cache.allocations;
    s.deallocations += cache.deallocations;
    s.cached_bytes += cache.cached_bytes();
    free_blocks += cache.cached_blocks();
  });
  s.graph_bytes = heap_.deferred_bytes + streams_.bytes_of_graphs();
  s.live_bytes = heap_.live_bytes() - s.cached_bytes;
  s.live_blocks = heap_.blocks.live_blocks() - free_blocks;
  s.largest_free_block_bytes = heap_.blocks.largest_free_block_bytes();
  return s;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE memory_report
pool_core::report(std::size_t requested_bytes) const noexcept {
  pool_statistics const s = statistics();
  return {requested_bytes, s.live_bytes,   s.reserved_bytes, s.largest_free_block_bytes,
          limit_bytes_,    device_.value()};
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
