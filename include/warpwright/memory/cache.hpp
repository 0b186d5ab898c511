// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

/// A cache for one thread and one stream in front of a memory_pool; created by
/// memory_pool::make_cache().
///
/// It has the pool's interface and passes to the pool what it cannot serve. A block may be
/// allocated here and freed at the pool, and the other way round. Its blocks return to the pool
/// when memory is short, at clear() and at its destruction.
/// @pre The pool and the stream outlive it; the stream is not retired before its destruction.
/// **Threads:** one at a time; the pool may take its blocks back at any moment.
/// **Capture:** as memory_pool, but only with stream_refs that all carry their id, or none: the
/// cache compares ids, and querying one on a capturing stream invalidates the capture.
class memory_cache {
 public:
  static constexpr std::size_t block_alignment_bytes = memory_pool::block_alignment_bytes;
  static constexpr std::size_t max_alignment_bytes = memory_pool::max_alignment_bytes;

  ~memory_cache() { end(); }
  /// @pre no buffer, adaptor or resource_ref refers to the cache that is moved from
  /// A cache that was moved from may only be assigned to or destroyed.
  memory_cache(memory_cache&& other) noexcept
      : pool_{other.pool_},
        stream_{other.stream_},
        cache_{detail::exchange(other.cache_, nullptr)} {}
  memory_cache& operator=(memory_cache&& other) noexcept {
    if (this == &other) return *this;
    end();
    pool_ = other.pool_;
    stream_ = other.stream_;
    cache_ = detail::exchange(other.cache_, nullptr);
    return *this;
  }

  /// As memory_pool::allocate(), on this cache's stream.
  /// **Cost:** a hit executes no locked instruction and makes no CUDA call.
  [[nodiscard]] void* allocate(std::size_t bytes,
                               source_location where = source_location::current()) {
    if (void* const pointer = try_take(bytes)) return pointer;
    return pool_->allocate(stream_, bytes, block_alignment_bytes, where);
  }
  /// As memory_pool::deallocate(), on this cache's stream.
  void deallocate(void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    if (!try_put(pointer, bytes)) deallocate_slow(pointer, bytes, where);
  }

  /// As memory_pool::allocate(); served by this cache if `stream` is its stream.
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes,
                               std::size_t alignment = block_alignment_bytes,
                               source_location where = source_location::current()) {
    if (is_own_stream(stream) && alignment == block_alignment_bytes) {
      return allocate(bytes, where);
    }
    return pool_->allocate(stream, bytes, alignment, where);
  }
  /// As memory_pool::try_allocate(); served by this cache if `stream` is its stream.
  [[nodiscard]] void* try_allocate(stream_ref stream, std::size_t bytes,
                                   std::size_t alignment = block_alignment_bytes,
                                   source_location where = source_location::current()) {
    if (is_own_stream(stream) && alignment == block_alignment_bytes) {
      if (void* const pointer = try_take(bytes)) return pointer;
    }
    return pool_->try_allocate(stream, bytes, alignment, where);
  }
  /// As memory_pool::deallocate(); into this cache if `stream` is its stream.
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    if (is_own_stream(stream)) return deallocate(pointer, bytes, where);
    pool_->deallocate(stream, pointer, bytes, where);
  }

  /// Returns all cached blocks to the pool.
  void clear() noexcept { pool_->core_.caches().flush(cache_->blocks); }

  /// @return the cache's stream, with its id
  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  /// @return the device of the memory
  [[nodiscard]] device_id device() const noexcept { return pool_->device(); }
  /// @return the pool behind it
  [[nodiscard]] memory_pool& pool() const noexcept { return *pool_; }

 private:
  friend class memory_pool;

  memory_cache(memory_pool& pool, stream_ref stream, std::size_t budget_bytes,
               source_location where)
      : pool_{&pool}, stream_{stream.resolved(where)}, cache_{new detail::thread_cache} {
    cache_->blocks.set_budget(budget_bytes);
    try {
      pool.core_.add_cache(*cache_, stream_, where);
    } catch (...) {
      delete cache_;
      throw;
    }
  }
  void end() noexcept {
    if (cache_ == nullptr) return;
    pool_->core_.caches().remove(*cache_);
    delete detail::exchange(cache_, nullptr);
  }

  // Compares ids, because CUDA reuses the handle of a destroyed stream. While the fast path is
  // disabled the stream may be capturing, and querying its id would invalidate the capture: the
  // pool serves such calls.
  [[nodiscard]] bool is_own_stream(stream_ref stream) const {
    return stream == stream_ && (stream.has_id() || pool_->core_.may_allocate_from_cache()) &&
           stream.id() == cache_->blocks.stream_id;
  }
  [[nodiscard]] void* try_take(std::size_t bytes) noexcept {
    if (!pool_->core_.may_allocate_from_cache()) return nullptr;
    detail::owner_guard const lock{cache_->blocks.lock};
    return cache_->blocks.take(detail::rounded_up(bytes));
  }
  [[nodiscard]] bool try_put(void* pointer, std::size_t bytes) noexcept {
    if (!pool_->core_.may_free_to_cache(pointer)) return false;
    detail::owner_guard const lock{cache_->blocks.lock};
    return cache_->blocks.put_fast(pointer, detail::rounded_up(bytes));
  }
  // When the cache is full or the fast path is disabled.
  WARPWRIGHT_NOINLINE void deallocate_slow(void* pointer, std::size_t bytes,
                                           source_location where) {
    using put_result = detail::front_cache::put_result;
    std::uint64_t const rounded = detail::rounded_up(bytes);
    if (rounded != 0 && pool_->core_.may_free_to_cache(pointer)) {
      put_result const result = pool_->core_.caches().put_making_room(*cache_, pointer, rounded);
      if (result == put_result::stored) return;
      if (result == put_result::double_free) pool_->core_.throw_unknown(pointer, bytes, where);
    }
    pool_->deallocate(stream_, pointer, bytes, where);
  }

  memory_pool* pool_;
  stream_ref stream_;
  detail::thread_cache* cache_;
};

inline memory_cache memory_pool::make_cache(stream_ref stream, std::size_t budget_bytes,
                                            source_location where) {
  return memory_cache{*this, stream, budget_bytes, where};
}

WARPWRIGHT_END
