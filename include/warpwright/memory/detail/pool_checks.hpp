// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Statistics, misuse and exhaustion of a memory_pool. Included by pool.hpp.
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

/// Holds every lock that a consistent snapshot of the counters needs.
class memory_pool::all_locks {
 public:
  explicit all_locks(memory_pool const& pool) noexcept : pool_{pool} {
    for (unsigned i = 0; i < shard_count; ++i) {
      shards_[i] = pool.cache_of(i);  // a cache created meanwhile is empty
      if (shards_[i] != nullptr) biases_[i] = shards_[i]->lock.lock_keeping_bias();
    }
    pool.registry_lock_.lock();
    for (memory_cache* c = pool.caches_; c != nullptr; c = c->next_) c->cache_.lock.lock();
    heap_bias_ = pool.heap_lock_.lock_keeping_bias();
  }
  ~all_locks() {
    pool_.heap_lock_.unlock_restoring_bias(heap_bias_);
    for (memory_cache* c = pool_.caches_; c != nullptr; c = c->next_) c->cache_.lock.unlock();
    pool_.registry_lock_.unlock();
    for (unsigned i = 0; i < shard_count; ++i) {
      if (shards_[i] != nullptr) shards_[i]->lock.unlock_restoring_bias(biases_[i]);
    }
  }
  all_locks(all_locks const&) = delete;
  all_locks& operator=(all_locks const&) = delete;

  template <class Use>
  void for_each_cache(Use&& use) const {
    for (shard const* cache : shards_) {
      if (cache != nullptr) use(*cache);
    }
    for (memory_cache const* c = pool_.caches_; c != nullptr; c = c->next_) use(c->cache_);
  }

 private:
  memory_pool const& pool_;
  shard* shards_[shard_count];
  std::uintptr_t biases_[shard_count];
  std::uintptr_t heap_bias_;
};

inline pool_statistics memory_pool::statistics() const noexcept {
  all_locks const locks{*this};
  pool_statistics s = counters_;
  std::uint64_t free_blocks = deferred_blocks_;
  locks.for_each_cache([&](front_cache const& cache) {
    s.allocations += cache.allocations;
    s.hits += cache.allocations;
    s.cache_hits += cache.allocations;
    s.deallocations += cache.deallocations;
    s.cached_bytes += cache.cached_bytes();
    free_blocks += cache.cached_blocks();
  });
  s.graph_bytes = deferred_bytes_;
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    if (entries_[list].of_graph) s.graph_bytes += heap_.bytes_in(list);
  }
  s.live_bytes = heap_.live_bytes() - deferred_bytes_ - s.cached_bytes;
  s.live_blocks = heap_.live_blocks() - free_blocks;
  s.reserved_bytes = reserved_bytes_;
  s.largest_hole_bytes = heap_.largest_hole_bytes();
  return s;
}

inline memory_report memory_pool::report(std::size_t requested_bytes) const noexcept {
  pool_statistics const s = statistics();
  memory_report r;
  r.requested_bytes = requested_bytes;
  r.live_bytes = s.live_bytes;
  r.reserved_bytes = s.reserved_bytes;
  r.largest_hole_bytes = s.largest_hole_bytes;
  r.limit_bytes = limit_bytes_;
  r.device = device_.value();
  return r;
}

/// What occupies the memory: the streams with the most free bytes and, in checked mode, the source
/// locations with the most live bytes.
inline detail::text memory_pool::memory_users() const noexcept {
  constexpr unsigned shown = 3;
  detail::text text = "";
  biased_guard const lock{heap_lock_};
  std::uint32_t last = heap::none;
  for (unsigned i = 0; i < shown; ++i) {
    // Selects the next largest each time, of equals the lower number: needs no memory.
    auto const before = [this](std::uint32_t a, std::uint32_t b) {
      std::uint64_t const a_bytes = heap_.bytes_in(a);
      std::uint64_t const b_bytes = heap_.bytes_in(b);
      return a_bytes != b_bytes ? a_bytes > b_bytes : a < b;
    };
    std::uint32_t best = heap::none;
    for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
      if (heap_.bytes_in(list) == 0 || (last != heap::none && !before(last, list))) continue;
      if (best == heap::none || before(list, best)) best = list;
    }
    if (best == heap::none) break;
    last = best;
    text += detail::text{i == 0 ? ". Free, but reserved for one stream: " : ", "} +
            heap_.bytes_in(best) + " bytes of " +
            (entries_[best].of_graph ? detail::text{"a graph"}
                                     : detail::text{"stream "} + entries_[best].id);
  }
  if (options_.checked_) add_sites(text, shown);
  return text;
}

/// Appends the `shown` source locations with the most live bytes.
/// @pre heap_lock_ is held
inline void memory_pool::add_sites(detail::text& text, unsigned shown) const noexcept {
  struct site {
    detail::call_site at;
    std::uint64_t bytes = 0;
  };
  detail::array<site> sites;
  detail::address_map numbers;
  try {
    heap_.for_each([&](std::uint32_t node, heap::block const& b) {
      if (b.list != heap::none || b.tag == deferred_free) return;
      detail::call_site const from = site_of(node);
      // Locations with the same key, which are next to impossible, get the following keys.
      std::uint64_t key =
          address_of(from.file) * 0x9e3779b97f4a7c15U + static_cast<unsigned>(from.line);
      std::uint32_t number = numbers.find(key);
      while (number != detail::address_map::none &&
             (sites[number].at.file != from.file || sites[number].at.line != from.line)) {
        number = numbers.find(++key);
      }
      if (number == detail::address_map::none) {
        number = static_cast<std::uint32_t>(sites.size());
        sites.push_back(site{from, 0});
        numbers.reserve(sites.size());
        numbers.insert(key, number);
      }
      sites[number].bytes += b.bytes;
    });
  } catch (std::bad_alloc const&) {
    return;  // the host is out of memory, too: omit the locations
  }
  for (unsigned i = 0; i < shown && i < sites.size(); ++i) {
    std::size_t most = i;
    for (std::size_t k = i; k < sites.size(); ++k) {
      if (sites[k].bytes > sites[most].bytes) most = k;
    }
    site const largest = sites[most];
    sites[most] = sites[i];
    sites[i] = largest;
    text += detail::text{i == 0 ? ". Live, allocated at: " : ", "} + largest.at + " " +
            largest.bytes + " bytes";
  }
}

inline void memory_pool::throw_out_of_memory(std::size_t bytes, source_location where) const {
  throw out_of_memory{report(bytes), where, memory_users()};
}

inline void memory_pool::throw_bad_alignment(std::size_t alignment, source_location where) {
  detail::throw_invalid_argument(detail::text{"memory_pool: an alignment of "} + alignment +
                                     " bytes is not a power of two from 1 to " +
                                     maximum_alignment_bytes,
                                 where);
}

inline void memory_pool::check_device(stream_ref stream, char const* verb,
                                      source_location where) const {
#if CUDART_VERSION >= 12080
  int device = -1;
  check(cudaStreamGetDevice(stream.get(), &device), "cudaStreamGetDevice", where);
  if (device != device_.value()) {
    detail::throw_invalid_argument(
        detail::text{"memory_pool: cannot "} + verb + " on a stream of device " + device +
            ": the pool's memory is on device " + device_.value() + "; use that device's pool",
        where);
  }
#else
  static_cast<void>(stream);
  static_cast<void>(verb);
  static_cast<void>(where);
#endif
}

inline void memory_pool::record_allocation_site(std::uint32_t node,
                                                source_location where) noexcept {
  if (sites_.size() < heap_.node_count_bound()) {
    try {
      sites_.resize(heap_.node_count_bound());
    } catch (std::bad_alloc const&) {
      return;  // a less exact error message is better than a lost block
    }
  }
  sites_[node] = detail::call_site{where.file(), where.line()};
}

inline detail::call_site memory_pool::site_of(std::uint32_t node) const noexcept {
  return node < sites_.size() ? sites_[node] : detail::call_site{};
}

inline void memory_pool::record_freed_block(std::uint32_t node, source_location where) noexcept {
  detail::block_heap::block const& b = heap_.at(node);
  recent_frees_[next_recent_free_] = detail::freed_block{
      b.address, b.requested_bytes, site_of(node), detail::call_site{where.file(), where.line()}};
  next_recent_free_ = (next_recent_free_ + 1) % recent_frees_.size();
}

inline void memory_pool::throw_wrong_size(biased_guard& lock, std::uint32_t node, void* pointer,
                                          std::size_t bytes, source_location where) const {
  std::uint64_t const right = heap_.at(node).requested_bytes;
  detail::call_site const site = site_of(node);
  lock.unlock();
  detail::throw_invalid_argument(detail::text{"memory_pool: wrong size: "} + pointer +
                                     " is freed with " + bytes + " bytes, but " + right +
                                     " bytes were allocated at " + site + "; pass the same size",
                                 where);
}

/// Throws with the reason why a pointer is not the start of a live block, for deallocate() and
/// record_use().
inline void memory_pool::throw_unknown_pointer(void* pointer, std::size_t bytes,
                                               source_location where, bool to_free) const {
  detail::text message =
      detail::text{"memory_pool: cannot "} + (to_free ? "free " : "record a use of ") + pointer;
  if (to_free) message += detail::text{" ("} + bytes + " bytes)";
  message += ": ";
  char const* const double_free = to_free ? "double free: " : "";
  std::uint64_t const address = address_of(pointer);
  biased_guard lock{heap_lock_};
  for (std::size_t i = 0; i < recent_frees_.size(); ++i) {
    // Newest first, because addresses are reused.
    std::size_t const at =
        (next_recent_free_ + recent_frees_.size() - 1 - i) % recent_frees_.size();
    detail::freed_block const freed = recent_frees_[at];
    if (freed.address != address) continue;
    lock.unlock();
    detail::throw_invalid_argument(message + double_free + "its " + freed.requested_bytes +
                                       " bytes were allocated at " + freed.allocated +
                                       " and freed already at " + freed.freed,
                                   where);
  }
  std::uint32_t const node = heap_.find_containing(address);
  if (node != heap::none) {
    heap::block const block = heap_.at(node);
    detail::call_site const site = block.list == heap::none ? site_of(node) : detail::call_site{};
    lock.unlock();
    if (block.list != heap::none || block.tag == deferred_free || block.address == address) {
      detail::throw_invalid_argument(
          message + double_free + "the memory belongs to this pool and is free already" +
              (options_.checked_ ? ""
                                 : "; memory_pool_options::checked() reports where it was freed"),
          where);
    }
    message += detail::text{"it lies "} + (address - block.address) +
               " bytes inside of a block of " + block.requested_bytes + " bytes";
    if (options_.checked_) message += detail::text{" allocated at "} + site;
    detail::throw_invalid_argument(message + "; pass the pointer that allocate() returned", where);
  }
  lock.unlock();
  cudaPointerAttributes attributes{};
  cudaError_t const result = cudaPointerGetAttributes(&attributes, pointer);
  detail::discard(result);
  message += "it is not from this pool (";
  if (result != cudaSuccess || attributes.type == cudaMemoryTypeUnregistered) {
    message += "memory that is not registered with CUDA";
  } else if (attributes.type == cudaMemoryTypeHost) {
    message += "page-locked host memory";
  } else {
    message += detail::text{"memory of device "} + attributes.device;
  }
  detail::throw_invalid_argument(
      message + "; the pool is on device " + device_.value() + "); " +
          (to_free ? "free it where it was allocated" : "call record_use() of the pool it is from"),
      where);
}

inline void memory_pool::check_alive(char const* call, source_location where) const {
  if ((slow_path_reasons() & destroyed) == 0) return;
  detail::throw_invalid_argument(
      detail::text{"memory_pool: "} + call +
          "() of a destroyed pool; destroy the objects that use its memory before the pool",
      where);
}

WARPWRIGHT_END
