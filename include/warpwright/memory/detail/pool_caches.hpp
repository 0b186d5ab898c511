// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How blocks pass between a memory_pool's caches and its books. Included by pool.hpp.
//
// Locks are taken in the order: slow_, caches by stream, registry, caches made by hand, books.
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

/// Takes a block of just that size from the stream's cache.
inline void* memory_pool::take_cached(std::uint64_t id, std::size_t bytes) noexcept {
  shard* const cache = cache_of(id);
  if (cache == nullptr || bytes == 0) return nullptr;
  pool_held const lock{cache->lock};
  return cache->stream_id == id ? cache->take(rounded_up(bytes)) : nullptr;
}

/// Whether the books have a live block that starts there, in a cache or not.
inline bool memory_pool::is_live(void* pointer) const noexcept {
  pool_held const lock{lock_};
  std::uint32_t const node = heap_.find(address_of(pointer));
  return node != heap::none && heap_.at(node).mark == 0;
}

/// Frees a block into its stream's cache.
/// @return false when the cache cannot have it
inline bool memory_pool::keep(stream_ref stream, std::uint64_t id, std::uint64_t rounded,
                              void* pointer, source_location where) {
  bool const of_thread = stream.get() == cudaStreamPerThread;
  if (of_thread && rounded > options_.cache_bytes_) return false;  // its epoch is full at once
  shard* const cache = make_shard(id);
  if (cache == nullptr) return false;
  bool record = false;
  {
    pool_held lock{cache->lock};
    if (cache->stream_id != id && !adopt_shard(stream, id, *cache)) return false;
    front_cache::answer answer = cache->put(pointer, rounded);
    if (answer == front_cache::answer::no_room) {
      if (rounded > cache->budget_bytes && !is_live(pointer)) return false;  // the books refuse it
      front_cache::batch out;
      cache->make_room(rounded, out);
      give_batch(out, id);
      answer = cache->put(pointer, rounded);
    }
    if (answer == front_cache::answer::double_free) {
      lock.unlock();
      refuse_unknown(pointer, static_cast<std::size_t>(rounded), where);
    }
    if (answer != front_cache::answer::kept) return false;
    if (of_thread) record = cache->epoch_is_full(rounded);
  }
  if (record) {
    empty_cache(*cache);
    close_thread_epoch(id);
  }
  return true;
}

/// The shard for a stream's cache, made when there is none; nullptr when the host has no memory.
inline memory_pool::shard* memory_pool::make_shard(std::uint64_t id) noexcept {
  if (shard* const cache = cache_of(id)) return cache;
  auto* const fresh = new (std::nothrow) shard;
  if (fresh == nullptr) return nullptr;
  fresh->stream_id = nobody;
  fresh->set_budget(options_.cache_bytes_);
  pool_held lock{lock_};
  shard*& slot = shards_[id % shard_count];
  if (slot == nullptr) {
    __atomic_store_n(&slot, fresh, __ATOMIC_RELEASE);
    __atomic_fetch_or(&shards_made_, std::uint64_t{1} << (id % shard_count), __ATOMIC_RELEASE);
    return fresh;
  }
  lock.unlock();
  delete fresh;
  return cache_of(id);
}

/// Hands a shard to another stream; streams that share one take turns, but not at every call.
/// @pre under the shard's lock
/// @return false when it stays its owner's
inline bool memory_pool::adopt_shard(stream_ref stream, std::uint64_t id, front_cache& cache) {
  if (cache.cached_bytes() != 0 && ++cache.strangers < 64) return false;
  release_shard(cache);
  pool_held const lock{lock_};
  ++entries_[list_of(id, stream.get())].caches;
  cache.stream_id = id;
  cache.handle = stream.get();
  cache.strangers = 0;
  return true;
}

/// Empties a cache and leaves it without an owner.
/// @pre under the cache's lock
inline void memory_pool::release_shard(front_cache& cache) noexcept {
  if (cache.stream_id == nobody) return;
  front_cache::batch out;
  while (cache.drain(out)) give_batch(out, cache.stream_id);
  pool_held const lock{lock_};
  --entries_[lists_.find(cache.stream_id)].caches;
  cache.stream_id = nobody;
}

/// Frees cached blocks into the books.
/// @pre the stream's entry has noted the cache: it is there
inline void memory_pool::give_batch(front_cache::batch const& blocks, std::uint64_t id) noexcept {
  if (blocks.count == 0) return;
  pool_held const lock{lock_};
  std::uint32_t const list = lists_.find(id);
  for (unsigned i = 0; i < blocks.count; ++i) {
    std::uint32_t const node = heap_.find(address_of(blocks.blocks[i]));
    // None: an unchecked misuse, that nobody can be told of any more.
    if (node != heap::none) heap_.give(node, list, entries_[list].open_epoch);
  }
}

/// Frees the block above the cache's budget into the books: a request that the cache does not serve
/// may use a part of it.
inline void memory_pool::give_large(std::uint64_t id) noexcept {
  shard* const cache = cache_of(id);
  if (cache == nullptr || !cache->maybe_large()) return;
  pool_held const lock{cache->lock};
  if (cache->stream_id != id) return;
  front_cache::batch out;
  cache->drain_large(out);
  give_batch(out, id);
}

template <class Cache>
void memory_pool::empty_cache(Cache& cache) noexcept {
  front_cache::batch out;
  for (bool more = true; more;) {
    detail::held<decltype(cache.lock)> const lock{
        cache.lock};  // let go between batches: its stream may be in a hurry
    more = cache.stream_id != nobody && cache.drain(out);
    if (more) give_batch(out, cache.stream_id);
    more = more && cache.maybe_cached();
  }
}

inline void memory_pool::empty_all_caches() noexcept {
  for (std::uint64_t made = __atomic_load_n(&shards_made_, __ATOMIC_ACQUIRE); made != 0;
       made &= made - 1) {
    shard& cache = *cache_of(static_cast<unsigned>(__builtin_ctzll(made)));
    if (cache.maybe_cached()) empty_cache(cache);
  }
  pool_held const lock{registry_lock_};
  for (memory_cache* c = caches_; c != nullptr; c = c->next_) {
    if (c->cache_.maybe_cached()) empty_cache(c->cache_);
  }
}

inline void memory_pool::add_cache(memory_cache& cache, stream_ref stream, source_location where) {
  std::uint64_t const id = id_of(stream, where);
  {
    pool_held const lock{lock_};
    ++entries_[list_of(id, stream.get())].caches;
  }
  cache.cache_.stream_id = id;
  cache.cache_.handle = stream.get();
  pool_held const lock{registry_lock_};
  cache.next_ = caches_;
  if (caches_ != nullptr) caches_->previous_ = &cache;
  caches_ = &cache;
}

inline void memory_pool::remove_cache(memory_cache& cache) noexcept {
  {
    // First: until it is empty, a miss and the figures must find it.
    detail::held<detail::owner_lock> const lock{cache.cache_.lock};
    release_shard(cache.cache_);
  }
  pool_held const registry{registry_lock_};
  if (cache.next_ != nullptr) cache.next_->previous_ = cache.previous_;
  (cache.previous_ != nullptr ? cache.previous_->next_ : caches_) = cache.next_;
  pool_held const lock{lock_};
  counters_.allocations += cache.cache_.allocations;
  counters_.hits += cache.cache_.allocations;
  counters_.cache_hits += cache.cache_.allocations;
  counters_.deallocations += cache.cache_.deallocations;
}

/// What memory_cache::deallocate() does when its cache is full, or calls must be looked at closely.
inline void memory_cache::give_back(void* pointer, std::size_t bytes, source_location where) {
  std::uint64_t const rounded = memory_pool::rounded_up(bytes);
  if (pool_.attention() == 0 && pointer != nullptr && rounded != 0 &&
      memory_pool::address_of(pointer) - pool_.first_address_ < pool_.address_span_) {
    front_cache::answer answer = front_cache::answer::no_room;
    {
      detail::owner_held const lock{cache_.lock};
      answer = cache_.put(pointer, rounded);
      if (answer == front_cache::answer::no_room && rounded <= cache_.budget_bytes) {
        front_cache::batch out;
        cache_.make_room(rounded, out);
        pool_.give_batch(out, cache_.stream_id);
        answer = cache_.put(pointer, rounded);
      }
    }
    if (answer == front_cache::answer::kept) return;
    if (answer == front_cache::answer::double_free) pool_.refuse_unknown(pointer, bytes, where);
  }
  pool_.deallocate(stream_, pointer, bytes, where);
}

inline void memory_pool::allocate_batch(stream_ref stream, std::size_t const* bytes,
                                        void** pointers, std::size_t count, source_location where) {
  // A capturing stream must not be asked for its id.
  bool const capturing = (attention() & watching) != 0 && is_capturing(stream, where);
  std::uint64_t const id = capturing ? nobody : id_of(stream, where);
  if (options_.checked_) check_device(stream, "allocate", where);
  std::size_t done = 0;
  try {
    while (done < count) {
      if (!capturing && !options_.checked_) {
        done += take_cached(id, bytes + done, pointers + done, count - done);
        if (done == count) return;
      }
      void*& pointer = pointers[done];
      if (capturing) {
        pointer = allocate(stream, bytes[done], block_alignment_bytes, where);
      } else {
        pointer = allocate_from_books(stream, id, bytes[done], block_alignment_bytes, where);
        if (pointer == nullptr && bytes[done] != 0) throw_out_of_memory(bytes[done], where);
      }
      ++done;
    }
  } catch (...) {
    while (done-- > 0) {
      if (pointers[done] != nullptr) take_back(id, stream.get(), pointers[done]);
      pointers[done] = nullptr;
    }
    throw;
  }
}

/// Takes the first blocks of a batch from the stream's cache, up to one that it does not have: what
/// comes behind that one stays in the cache, whose memory the one may need.
/// @return the number of blocks taken
inline std::size_t memory_pool::take_cached(std::uint64_t id, std::size_t const* bytes,
                                            void** pointers, std::size_t count) noexcept {
  shard* const cache = cache_of(id);
  if (cache == nullptr) return 0;
  std::size_t done = 0;
  for (bool more = true; more && done < count;) {
    pool_held const lock{cache->lock};
    if (cache->stream_id != id) break;
    // Let go from time to time: others of the stream may be in a hurry.
    for (std::size_t const end = done + (count - done < 64 ? count - done : 64); done < end;) {
      pointers[done] = cache->take(rounded_up(bytes[done]));
      more = pointers[done] != nullptr;
      if (!more) break;
      ++done;
    }
  }
  return done;
}

/// Frees a batch into the stream's cache, up to the first block that it does not take.
/// @return the number of blocks freed
inline std::size_t memory_pool::keep_batch(std::uint64_t id, void* const* pointers,
                                           std::size_t const* bytes, std::size_t count) noexcept {
  shard* const cache = cache_of(id);
  if (cache == nullptr) return 0;
  pool_held const lock{cache->lock};
  if (cache->stream_id != id || cache->handle == cudaStreamPerThread) return 0;
  std::size_t done = 0;
  for (; done < count; ++done) {
    std::uint64_t const rounded = rounded_up(bytes[done]);
    if (address_of(pointers[done]) - first_address_ >= address_span_ ||
        cache->put(pointers[done], rounded) != front_cache::answer::kept) {
      break;
    }
  }
  return done;
}

/// Frees a block that was handed out just now: nothing can fail.
inline void memory_pool::take_back(std::uint64_t id, cudaStream_t handle, void* pointer) noexcept {
  pool_held const lock{lock_};
  std::uint32_t const node = heap_.find(address_of(pointer));
  if (node == heap::none) return;
  std::uint32_t const mark = heap_.at(node).mark;
  std::uint32_t list = heap::ready;
  if (mark == 0 && id != nobody) {
    // The stream's entry may have passed to another one since, and the block may have come with a
    // wait, or from the stream's own blocks: it is not everyone's.
    try {
      list = list_of(id, handle);
    } catch (...) {
      return;  // no memory to note the stream: rather a lost block than one used too early
    }
  }
  if (mark != 0) {
    for (detail::graph_list const& l : graphs_[mark - 1].lists) {
      if (l.handle == handle) list = l.list;
    }
  }
  bool const of_stream = list != heap::ready && mark == 0;
  heap_.give(node, list, of_stream ? entries_[list].open_epoch : 0);
  ++counters_.deallocations;
}

inline void memory_pool::deallocate_batch(stream_ref stream, void* const* pointers,
                                          std::size_t const* bytes, std::size_t count,
                                          source_location where) {
  stream_ref const known = (attention() & watching) != 0 ? stream : stream.resolved(where);
  for (std::size_t i = 0; i < count; ++i) {
    if (attention() == 0 && known.knows_id()) {
      i += keep_batch(known.id(where), pointers + i, bytes + i, count - i);
    }
    if (i < count) deallocate(known, pointers[i], bytes[i], where);
  }
}

WARPWRIGHT_END
