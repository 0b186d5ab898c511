// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/caches/front_cache.hpp>
#include <warpwright/memory/detail/pool/epoch_tracker.hpp>

#include <new>

WARPWRIGHT_BEGIN

namespace detail {

/// The cache of a memory_cache, with its place in the pool's list of them.
struct thread_cache {
  locked_cache<owner_lock> blocks;
  thread_cache* previous = nullptr;
  thread_cache* next = nullptr;
};

/// The caches of a pool: 64 shards, by stream id, and the caches that the program has created.
///
/// A shard belongs to one of its streams at a time. Lock order: shards, registry, thread_cache
/// objects, heap.
class stream_caches : noncopyable {
 public:
  using shard = locked_cache<spin_lock>;
  using shard_guard = unique_lock<spin_lock>;
  static constexpr unsigned shard_count = 64;

  stream_caches(pool_heap& heap, epoch_tracker& streams) noexcept
      : heap_{heap}, streams_{streams} {}
  ~stream_caches();

  /// The shard of a stream; null before the first free of one of its streams.
  [[nodiscard]] shard* find(std::uint64_t id) const noexcept {
    return shards_[id % shard_count].load(memory_order::acquire);
  }
  /// @return a block of exactly this size from the stream's cache; nullptr when it has none
  [[nodiscard]] void* take(std::uint64_t id, std::uint64_t rounded_bytes) const noexcept {
    shard* const cache = find(id);
    if (cache == nullptr) return nullptr;
    shard_guard const lock{cache->lock};
    return cache->stream_id == id ? cache->take(rounded_bytes) : nullptr;
  }
  /// Takes the first blocks of a batch, up to the first that the cache does not have. The blocks
  /// behind that one stay in the cache: the heap may need their memory for it.
  /// @return the number of blocks
  std::size_t take(std::uint64_t id, std::size_t const* bytes, void** pointers,
                   std::size_t count) noexcept;
  /// @return whether the stream's cache stored the block
  [[nodiscard]] bool put(std::uint64_t id, void* pointer, std::uint64_t rounded_bytes) noexcept {
    shard* const cache = find(id);
    if (cache == nullptr) return false;
    shard_guard const lock{cache->lock};
    return cache->stream_id == id && cache->put_fast(pointer, rounded_bytes);
  }
  /// Stores the first blocks of a batch, up to the first that it does not store.
  /// @param accepts  called with each pointer: whether it may be cached
  /// @return the number of blocks
  template <class Accepts>
  std::size_t put(std::uint64_t id, void* const* pointers, std::size_t const* bytes,
                  std::size_t count, Accepts const& accepts) noexcept;

  enum class put_result { stored, not_stored, double_free, stored_and_event_due };
  /// As put(), but creates the cache, makes room in it, and takes it over from an idle stream.
  put_result put_making_room(stream_ref stream, std::uint64_t id, void* pointer,
                             std::uint64_t rounded_bytes, std::uint64_t budget_bytes);

  /// Frees the cache's block above the budget into the heap, where other sizes can be allocated
  /// from it.
  void flush_large(std::uint64_t id) noexcept;
  /// Frees all blocks of a cache into the heap.
  template <class Cache>
  void flush(Cache& cache) noexcept;
  void flush_shard(std::uint64_t id) noexcept;
  void flush_all() noexcept;
  /// Takes a stream's shard away from it.
  void release(std::uint64_t id) noexcept;

  void add(thread_cache& cache, stream_ref stream, std::uint64_t id);
  void remove(thread_cache& cache) noexcept;
  /// As put_making_room(), into a thread_cache.
  front_cache::put_result put_making_room(thread_cache& cache, void* pointer,
                                          std::uint64_t rounded_bytes) noexcept;

  /// Holds every lock that a consistent snapshot of the counters needs, the heap's included.
  class all_locks;

 private:
  shard* get_or_create(std::uint64_t id, std::uint64_t budget_bytes) noexcept;
  bool claim(stream_ref stream, std::uint64_t id, front_cache& cache);
  void release(front_cache& cache) noexcept;
  void free(front_cache::batch const& blocks, std::uint64_t id) noexcept;
  [[nodiscard]] bool is_live(void* pointer) const noexcept;

  pool_heap& heap_;
  epoch_tracker& streams_;
  atomic<shard*> shards_[shard_count];  // by stream id; created at a stream's first free
  atomic<std::uint64_t> existing_;      // bit i: shards_[i] exists
  mutable spin_lock registry_lock_;
  thread_cache* threads_ = nullptr;
};

template <class Accepts>
std::size_t stream_caches::put(std::uint64_t id, void* const* pointers, std::size_t const* bytes,
                               std::size_t count, Accepts const& accepts) noexcept {
  shard* const cache = find(id);
  if (cache == nullptr) return 0;
  shard_guard const lock{cache->lock};
  if (cache->stream_id != id || cache->handle == cudaStreamPerThread) return 0;
  std::size_t done = 0;
  while (done < count && accepts(pointers[done]) &&
         cache->put(pointers[done], rounded_up(bytes[done])) == front_cache::put_result::stored) {
    ++done;
  }
  return done;
}

template <class Cache>
void stream_caches::flush(Cache& cache) noexcept {
  front_cache::batch out;
  for (bool more = true; more;) {
    // Unlocked between batches, so that the stream's own calls proceed.
    unique_lock<decltype(cache.lock)> const lock{cache.lock};
    more = cache.stream_id != epoch_tracker::no_id && cache.drain(out);
    if (more) free(out, cache.stream_id);
    more = more && cache.maybe_cached();
  }
}

class stream_caches::all_locks : noncopyable {
 public:
  explicit all_locks(stream_caches const& caches) noexcept : caches_{caches} {
    for (unsigned i = 0; i < shard_count; ++i) {
      shards_[i] = caches.find(i);  // a cache created meanwhile is empty
      if (shards_[i] != nullptr) shards_[i]->lock.lock();
    }
    caches.registry_lock_.lock();
    for (thread_cache* c = caches.threads_; c != nullptr; c = c->next) c->blocks.lock.lock();
    caches.heap_.lock.lock();
  }
  ~all_locks() {
    caches_.heap_.lock.unlock();
    for (thread_cache* c = caches_.threads_; c != nullptr; c = c->next) c->blocks.lock.unlock();
    caches_.registry_lock_.unlock();
    for (shard* cache : shards_) {
      if (cache != nullptr) cache->lock.unlock();
    }
  }

  template <class Use>
  void for_each_cache(Use&& use) const {
    for (shard const* cache : shards_) {
      if (cache != nullptr) use(*cache);
    }
    for (thread_cache const* c = caches_.threads_; c != nullptr; c = c->next) use(c->blocks);
  }

 private:
  stream_caches const& caches_;
  shard* shards_[shard_count];
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/caches/stream_caches_definitions.hpp>
#endif
