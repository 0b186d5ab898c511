// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Moving blocks between a memory_pool's caches and its heap. Included by pool.hpp.
//
// Lock order: slow_path_mutex_, stream caches, registry_lock_, memory_cache objects, heap_lock_.
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

/// Allocates a block of exactly this size from the stream's cache.
/// @return nullptr when the cache has none
inline void* memory_pool::allocate_cached(std::uint64_t id, std::size_t bytes) noexcept {
  shard* const cache = cache_of(id);
  if (cache == nullptr || bytes == 0) return nullptr;
  biased_guard const lock{cache->lock};
  return cache->stream_id == id ? cache->take(rounded_up(bytes)) : nullptr;
}

/// Whether a live block starts at this address; cached blocks count as live.
inline bool memory_pool::is_live(void* pointer) const noexcept {
  biased_guard const lock{heap_lock_};
  std::uint32_t const node = heap_.find(address_of(pointer));
  return node != heap::none && heap_.at(node).tag == 0;
}

/// Frees a block into its stream's cache.
/// @return false when the cache cannot store it
inline bool memory_pool::deallocate_to_cache(stream_ref stream, std::uint64_t id,
                                             std::uint64_t rounded, void* pointer,
                                             source_location where) {
  bool const of_thread = stream.get() == cudaStreamPerThread;
  if (of_thread && rounded > options_.cache_bytes_) return false;  // it needs an event at once
  shard* const cache = get_or_create_shard(id);
  if (cache == nullptr) return false;
  bool record = false;
  {
    biased_guard lock{cache->lock};
    if (cache->stream_id != id && !claim_shard(stream, id, *cache)) return false;
    front_cache::put_result result = cache->put(pointer, rounded);
    if (result == front_cache::put_result::full) {
      if (rounded > cache->budget_bytes && !is_live(pointer))
        return false;  // the heap reports the misuse
      front_cache::batch out;
      cache->evict_for(rounded, out);
      flush_batch(out, id);
      result = cache->put(pointer, rounded);
    }
    if (result == front_cache::put_result::double_free) {
      lock.unlock();
      throw_unknown_pointer(pointer, static_cast<std::size_t>(rounded), where);
    }
    if (result != front_cache::put_result::stored) return false;
    if (of_thread) record = cache->epoch_is_full(rounded);
  }
  if (record) {
    flush_cache(*cache);
    close_thread_epoch(id);
  }
  return true;
}

/// The stream's shard, created if there is none.
/// @return nullptr when the host has no memory
inline memory_pool::shard* memory_pool::get_or_create_shard(std::uint64_t id) noexcept {
  if (shard* const cache = cache_of(id)) return cache;
  auto* const created = new (std::nothrow) shard;
  if (created == nullptr) return nullptr;
  created->stream_id = invalid_stream_id;
  created->set_budget(options_.cache_bytes_);
  biased_guard lock{heap_lock_};
  if (cache_of(id) == nullptr) {
    shards_[id % shard_count].store(created, detail::memory_order::release);
    existing_shards_.fetch_or(std::uint64_t{1} << (id % shard_count),
                              detail::memory_order::release);
    return created;
  }
  lock.unlock();
  delete created;
  return cache_of(id);
}

/// Assigns a shard to another stream if it is empty, or after every 64th free of other streams:
/// streams that share a shard must not evict each other at every call.
/// @pre the shard's lock is held
/// @return false when the shard stays with its stream
inline bool memory_pool::claim_shard(stream_ref stream, std::uint64_t id, front_cache& cache) {
  if (cache.cached_bytes() != 0 && ++cache.foreign_frees < 64) return false;
  release_shard(cache);
  biased_guard const lock{heap_lock_};
  ++entries_[list_of(id, stream.get())].caches;
  cache.stream_id = id;
  cache.handle = stream.get();
  cache.foreign_frees = 0;
  return true;
}

/// Empties a cache and leaves it without a stream.
/// @pre the cache's lock is held
inline void memory_pool::release_shard(front_cache& cache) noexcept {
  if (cache.stream_id == invalid_stream_id) return;
  front_cache::batch out;
  while (cache.drain(out)) flush_batch(out, cache.stream_id);
  biased_guard const lock{heap_lock_};
  --entries_[lists_.find(cache.stream_id)].caches;
  cache.stream_id = invalid_stream_id;
}

/// Frees a batch of cached blocks into the heap.
/// @pre the stream's entry counts the cache, so that the entry exists
inline void memory_pool::flush_batch(front_cache::batch const& blocks, std::uint64_t id) noexcept {
  if (blocks.count == 0) return;
  biased_guard const lock{heap_lock_};
  std::uint32_t const list = lists_.find(id);
  for (unsigned i = 0; i < blocks.count; ++i) {
    std::uint32_t const node = heap_.find(address_of(blocks.blocks[i]));
    // None: a double free, which unchecked mode cannot report any more.
    if (node != heap::none) heap_.deallocate(node, list, entries_[list].open_epoch);
  }
}

/// Frees the cache's block above the budget into the heap, where other sizes can be allocated from
/// it.
inline void memory_pool::flush_large(std::uint64_t id) noexcept {
  shard* const cache = cache_of(id);
  if (cache == nullptr || !cache->maybe_large()) return;
  biased_guard const lock{cache->lock};
  if (cache->stream_id != id) return;
  front_cache::batch out;
  cache->drain_large(out);
  flush_batch(out, id);
}

template <class Cache>
void memory_pool::flush_cache(Cache& cache) noexcept {
  front_cache::batch out;
  for (bool more = true; more;) {
    detail::unique_lock<decltype(cache.lock)> const lock{
        cache.lock};  // unlocked between batches, so that the stream's own calls proceed
    more = cache.stream_id != invalid_stream_id && cache.drain(out);
    if (more) flush_batch(out, cache.stream_id);
    more = more && cache.maybe_cached();
  }
}

inline void memory_pool::flush_all_caches() noexcept {
  for (std::uint64_t left = existing_shards_.load(detail::memory_order::acquire); left != 0;
       left &= left - 1) {
    shard& cache = *cache_of(static_cast<unsigned>(__builtin_ctzll(left)));
    if (cache.maybe_cached()) flush_cache(cache);
  }
  biased_guard const lock{registry_lock_};
  for (memory_cache* c = caches_; c != nullptr; c = c->next_) {
    if (c->cache_.maybe_cached()) flush_cache(c->cache_);
  }
}

inline void memory_pool::register_cache(memory_cache& cache, stream_ref stream,
                                        source_location where) {
  std::uint64_t const id = id_of(stream, where);
  {
    biased_guard const lock{heap_lock_};
    ++entries_[list_of(id, stream.get())].caches;
  }
  cache.cache_.stream_id = id;
  cache.cache_.handle = stream.get();
  biased_guard const lock{registry_lock_};
  cache.next_ = caches_;
  if (caches_ != nullptr) caches_->previous_ = &cache;
  caches_ = &cache;
}

inline void memory_pool::unregister_cache(memory_cache& cache) noexcept {
  {
    // First: until the cache is empty, misses and statistics() must find it.
    detail::unique_lock<detail::owner_lock> const lock{cache.cache_.lock};
    release_shard(cache.cache_);
  }
  biased_guard const registry{registry_lock_};
  if (cache.next_ != nullptr) cache.next_->previous_ = cache.previous_;
  (cache.previous_ != nullptr ? cache.previous_->next_ : caches_) = cache.next_;
  biased_guard const lock{heap_lock_};
  counters_.allocations += cache.cache_.allocations;
  counters_.hits += cache.cache_.allocations;
  counters_.cache_hits += cache.cache_.allocations;
  counters_.deallocations += cache.cache_.deallocations;
}

/// memory_cache::deallocate() when its cache is full or the fast path is disabled.
inline void memory_cache::deallocate_slow(void* pointer, std::size_t bytes, source_location where) {
  std::uint64_t const rounded = memory_pool::rounded_up(bytes);
  if (pool_.slow_path_reasons() == 0 && pointer != nullptr && rounded != 0 &&
      memory_pool::address_of(pointer) - pool_.first_address_ < pool_.address_span_) {
    front_cache::put_result result = front_cache::put_result::full;
    {
      detail::owner_guard const lock{cache_.lock};
      result = cache_.put(pointer, rounded);
      if (result == front_cache::put_result::full && rounded <= cache_.budget_bytes) {
        front_cache::batch out;
        cache_.evict_for(rounded, out);
        pool_.flush_batch(out, cache_.stream_id);
        result = cache_.put(pointer, rounded);
      }
    }
    if (result == front_cache::put_result::stored) return;
    if (result == front_cache::put_result::double_free)
      pool_.throw_unknown_pointer(pointer, bytes, where);
  }
  pool_.deallocate(stream_, pointer, bytes, where);
}

inline void memory_pool::allocate_batch(stream_ref stream, std::size_t const* bytes,
                                        void** pointers, std::size_t count, source_location where) {
  // Querying the id of a capturing stream would invalidate the capture.
  bool const capturing = (slow_path_reasons() & check_captures) != 0 && is_capturing(stream, where);
  std::uint64_t const id = capturing ? invalid_stream_id : id_of(stream, where);
  if (options_.checked_) check_device(stream, "allocate", where);
  std::size_t done = 0;
  try {
    while (done < count) {
      if (!capturing && !options_.checked_) {
        done += allocate_cached(id, bytes + done, pointers + done, count - done);
        if (done == count) return;
      }
      void*& pointer = pointers[done];
      if (capturing) {
        pointer = allocate(stream, bytes[done], block_alignment_bytes, where);
      } else {
        pointer = allocate_from_heap(stream, id, bytes[done], block_alignment_bytes, where);
        if (pointer == nullptr && bytes[done] != 0) throw_out_of_memory(bytes[done], where);
      }
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

/// Allocates the first blocks of a batch from the stream's cache, up to the first that it does not
/// have. The blocks behind that one stay in the cache: the heap may need their memory for it.
/// @return the number of blocks allocated
inline std::size_t memory_pool::allocate_cached(std::uint64_t id, std::size_t const* bytes,
                                                void** pointers, std::size_t count) noexcept {
  shard* const cache = cache_of(id);
  if (cache == nullptr) return 0;
  std::size_t done = 0;
  for (bool more = true; more && done < count;) {
    biased_guard const lock{cache->lock};
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

/// Frees a batch into the stream's cache, up to the first block that it does not store.
/// @return the number of blocks freed
inline std::size_t memory_pool::cache_batch(std::uint64_t id, void* const* pointers,
                                            std::size_t const* bytes, std::size_t count) noexcept {
  shard* const cache = cache_of(id);
  if (cache == nullptr) return 0;
  biased_guard const lock{cache->lock};
  if (cache->stream_id != id || cache->handle == cudaStreamPerThread) return 0;
  std::size_t done = 0;
  for (; done < count; ++done) {
    std::uint64_t const rounded = rounded_up(bytes[done]);
    if (address_of(pointers[done]) - first_address_ >= address_span_ ||
        cache->put(pointers[done], rounded) != front_cache::put_result::stored) {
      break;
    }
  }
  return done;
}

/// Frees a block that was allocated by the current call. Cannot fail.
inline void memory_pool::undo_allocation(std::uint64_t id, cudaStream_t handle,
                                         void* pointer) noexcept {
  biased_guard const lock{heap_lock_};
  std::uint32_t const node = heap_.find(address_of(pointer));
  if (node == heap::none) return;
  std::uint32_t const tag = heap_.at(node).tag;
  std::uint32_t list = heap::ready;
  if (tag == 0 && id != invalid_stream_id) {
    // The entry may belong to another stream by now, and the block may have come with a wait or
    // from the stream's own list: it is not ready for all streams.
    try {
      list = list_of(id, handle);
    } catch (...) {
      return;  // without an entry the block is leaked: reusing it could be too early
    }
  }
  if (tag != 0) {
    for (detail::graph_list const& l : graphs_[tag - 1].lists) {
      if (l.handle == handle) list = l.list;
    }
  }
  bool const of_stream = list != heap::ready && tag == 0;
  heap_.deallocate(node, list, of_stream ? entries_[list].open_epoch : 0);
  ++counters_.deallocations;
}

inline void memory_pool::deallocate_batch(stream_ref stream, void* const* pointers,
                                          std::size_t const* bytes, std::size_t count,
                                          source_location where) {
  stream_ref const resolved =
      (slow_path_reasons() & check_captures) != 0 ? stream : stream.resolved(where);
  for (std::size_t i = 0; i < count; ++i) {
    if (slow_path_reasons() == 0 && resolved.has_id()) {
      i += cache_batch(resolved.id(where), pointers + i, bytes + i, count - i);
    }
    if (i < count) deallocate(resolved, pointers[i], bytes[i], where);
  }
}

WARPWRIGHT_END
