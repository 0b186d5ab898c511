// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/caches/stream_caches.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_INLINE stream_caches::~stream_caches() {
  for (auto const& cache : shards_) delete cache.load(memory_order::relaxed);
}

WARPWRIGHT_INLINE void stream_caches::flush_shard(std::uint64_t id) noexcept {
  if (shard* const cache = find(id)) flush(*cache);
}

WARPWRIGHT_INLINE void stream_caches::release(std::uint64_t id) noexcept {
  shard* const cache = find(id);
  if (cache == nullptr) return;
  shard_guard const lock{cache->lock};
  if (cache->stream_id == id) release(*cache);
}

WARPWRIGHT_INLINE bool stream_caches::is_live(void* pointer) const noexcept {
  heap_guard const lock{heap_.lock};
  std::uint32_t const node = heap_.blocks.find(address_of(pointer));
  return node != block_heap::none && heap_.blocks.at(node).tag == 0;
}

WARPWRIGHT_INLINE std::size_t stream_caches::take(std::uint64_t id, std::size_t const* bytes,
                                                  void** pointers, std::size_t count) noexcept {
  shard* const cache = find(id);
  if (cache == nullptr) return 0;
  std::size_t done = 0;
  for (bool more = true; more && done < count;) {
    shard_guard const lock{cache->lock};
    if (cache->stream_id != id) break;
    // Unlocked every 64 blocks, so that other calls on the stream proceed.
    for (std::size_t const end = done + (count - done < 64 ? count - done : 64); done < end;) {
      pointers[done] = cache->take(rounded_up(bytes[done]));
      more = pointers[done] != nullptr;
      if (!more) break;
      ++done;
    }
  }
  return done;
}

WARPWRIGHT_INLINE stream_caches::put_result stream_caches::put_making_room(
    stream_ref stream, std::uint64_t id, void* pointer, std::uint64_t rounded_bytes,
    std::uint64_t budget_bytes) {
  bool const of_thread = stream.get() == cudaStreamPerThread;
  // Above the budget it needs an event at once.
  if (of_thread && rounded_bytes > budget_bytes) return put_result::not_stored;
  shard* const cache = get_or_create(id, budget_bytes);
  if (cache == nullptr) return put_result::not_stored;
  shard_guard const lock{cache->lock};
  if (cache->stream_id != id && !claim(stream, id, *cache)) return put_result::not_stored;
  front_cache::put_result result = cache->put(pointer, rounded_bytes);
  if (result == front_cache::put_result::full) {
    // The heap reports a pointer that is not a live block's; it must not evict the large block.
    if (rounded_bytes > cache->budget_bytes && !is_live(pointer)) return put_result::not_stored;
    front_cache::batch out;
    cache->evict_for(rounded_bytes, out);
    free(out, id);
    result = cache->put(pointer, rounded_bytes);
  }
  if (result == front_cache::put_result::double_free) return put_result::double_free;
  if (result != front_cache::put_result::stored) return put_result::not_stored;
  return of_thread && cache->epoch_is_full(rounded_bytes) ? put_result::stored_and_event_due
                                                          : put_result::stored;
}

/// @return nullptr when the host has no memory
WARPWRIGHT_INLINE stream_caches::shard* stream_caches::get_or_create(
    std::uint64_t id, std::uint64_t budget_bytes) noexcept {
  if (shard* const cache = find(id)) return cache;
  auto* const created = new (std::nothrow) shard;
  if (created == nullptr) return nullptr;
  created->stream_id = epoch_tracker::no_id;
  created->set_budget(budget_bytes);
  {
    heap_guard const lock{heap_.lock};
    if (find(id) == nullptr) {
      shards_[id % shard_count].store(created, memory_order::release);
      existing_.fetch_or(std::uint64_t{1} << (id % shard_count), memory_order::release);
      return created;
    }
  }
  delete created;
  return find(id);
}

/// Assigns a shard to another stream if it is empty, or after every 64th free of other streams:
/// streams that share a shard must not evict each other at every call.
/// @pre the shard's lock is held
/// @return false when the shard stays with its stream
WARPWRIGHT_INLINE bool stream_caches::claim(stream_ref stream, std::uint64_t id,
                                            front_cache& cache) {
  if (cache.cached_bytes() != 0 && ++cache.foreign_frees < 64) return false;
  release(cache);
  heap_guard const lock{heap_.lock};
  ++streams_.caches(streams_.list_of(id, stream.get()));
  cache.stream_id = id;
  cache.handle = stream.get();
  cache.foreign_frees = 0;
  return true;
}

/// Empties a cache and leaves it without a stream.
/// @pre the cache's lock is held
WARPWRIGHT_INLINE void stream_caches::release(front_cache& cache) noexcept {
  if (cache.stream_id == epoch_tracker::no_id) return;
  front_cache::batch out;
  while (cache.drain(out)) free(out, cache.stream_id);
  heap_guard const lock{heap_.lock};
  --streams_.caches(streams_.find(cache.stream_id));
  cache.stream_id = epoch_tracker::no_id;
}

/// Frees a batch of cached blocks into the heap.
/// @pre the stream's list counts the cache, so that it exists
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void stream_caches::free(front_cache::batch const& blocks,
                                                               std::uint64_t id) noexcept {
  if (blocks.count == 0) return;
  heap_guard const lock{heap_.lock};
  std::uint32_t const list = streams_.find(id);
  for (unsigned i = 0; i < blocks.count; ++i) {
    std::uint32_t const node = heap_.blocks.find(address_of(blocks.blocks[i]));
    // None: a double free, which unchecked mode cannot report any more.
    if (node != block_heap::none) streams_.free(node, list);
  }
}

WARPWRIGHT_INLINE void stream_caches::flush_large(std::uint64_t id) noexcept {
  shard* const cache = find(id);
  if (cache == nullptr || !cache->maybe_large()) return;
  shard_guard const lock{cache->lock};
  if (cache->stream_id != id) return;
  front_cache::batch out;
  cache->drain_large(out);
  free(out, id);
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void stream_caches::flush_all() noexcept {
  for (std::uint64_t left = existing_.load(memory_order::acquire); left != 0; left &= left - 1) {
    shard& cache = *find(static_cast<unsigned>(__builtin_ctzll(left)));
    if (cache.maybe_cached()) flush(cache);
  }
  unique_lock<spin_lock> const lock{registry_lock_};
  for (thread_cache* c = threads_; c != nullptr; c = c->next) {
    if (c->blocks.maybe_cached()) flush(c->blocks);
  }
}

WARPWRIGHT_INLINE void stream_caches::add(thread_cache& cache, stream_ref stream,
                                          std::uint64_t id) {
  {
    heap_guard const lock{heap_.lock};
    ++streams_.caches(streams_.list_of(id, stream.get()));
  }
  cache.blocks.stream_id = id;
  cache.blocks.handle = stream.get();
  unique_lock<spin_lock> const lock{registry_lock_};
  cache.next = threads_;
  if (threads_ != nullptr) threads_->previous = &cache;
  threads_ = &cache;
}

WARPWRIGHT_INLINE void stream_caches::remove(thread_cache& cache) noexcept {
  {
    // First: until the cache is empty, misses and statistics() must find it.
    unique_lock<owner_lock> const lock{cache.blocks.lock};
    release(cache.blocks);
  }
  unique_lock<spin_lock> const registry{registry_lock_};
  if (cache.next != nullptr) cache.next->previous = cache.previous;
  (cache.previous != nullptr ? cache.previous->next : threads_) = cache.next;
  heap_guard const lock{heap_.lock};
  heap_.counters.allocations += cache.blocks.allocations;
  heap_.counters.hits += cache.blocks.allocations;
  heap_.counters.cache_hits += cache.blocks.allocations;
  heap_.counters.deallocations += cache.blocks.deallocations;
}

WARPWRIGHT_INLINE front_cache::put_result stream_caches::put_making_room(
    thread_cache& cache, void* pointer, std::uint64_t rounded_bytes) noexcept {
  owner_guard const lock{cache.blocks.lock};
  front_cache::put_result result = cache.blocks.put(pointer, rounded_bytes);
  if (result == front_cache::put_result::full && rounded_bytes <= cache.blocks.budget_bytes) {
    front_cache::batch out;
    cache.blocks.evict_for(rounded_bytes, out);
    free(out, cache.blocks.stream_id);
    result = cache.blocks.put(pointer, rounded_bytes);
  }
  return result;
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
