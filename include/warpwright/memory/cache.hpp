// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

/// A cache of one thread for one stream, in front of a memory_pool: memory_pool::make_cache().
///
/// It has the pool's interface; what it cannot serve goes to the pool. Blocks may be allocated here
/// and freed at the pool, and the other way round. What it keeps comes back to the pool when memory
/// is short, at clear() and at its end.
/// @pre the pool and the stream outlive it; the stream is not retired before its end
/// **Threads:** one at a time; the pool may take its blocks at any moment.
/// **Capture:** as the pool, with a stream_ref that carries its id or none: this asks the others
/// for theirs, which breaks the capture.
class memory_cache {
 public:
  static constexpr std::size_t block_alignment_bytes = memory_pool::block_alignment_bytes;
  static constexpr std::size_t maximum_alignment_bytes = memory_pool::maximum_alignment_bytes;

  ~memory_cache() { pool_.remove_cache(*this); }
  memory_cache(memory_cache const&) = delete;
  memory_cache& operator=(memory_cache const&) = delete;

  /// As memory_pool::allocate(), on this cache's stream.
  /// **Cost:** a hit takes no lock that costs anything and makes no CUDA call.
  [[nodiscard]] void* allocate(std::size_t bytes,
                               source_location where = source_location::current()) {
    if (void* const pointer = take(bytes)) return pointer;
    return pool_.allocate(stream_, bytes, block_alignment_bytes, where);
  }
  /// As memory_pool::deallocate(), on this cache's stream.
  void deallocate(void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    if (!keep(pointer, bytes)) give_back(pointer, bytes, where);
  }

  /// As memory_pool::allocate(); from this cache when it is its stream's.
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes,
                               std::size_t alignment = block_alignment_bytes,
                               source_location where = source_location::current()) {
    if (mine(stream) && alignment == block_alignment_bytes) {
      return allocate(bytes, where);
    }
    return pool_.allocate(stream, bytes, alignment, where);
  }
  /// As memory_pool::try_allocate(); from this cache when it is its stream's.
  [[nodiscard]] void* try_allocate(stream_ref stream, std::size_t bytes,
                                   std::size_t alignment = block_alignment_bytes,
                                   source_location where = source_location::current()) {
    if (mine(stream) && alignment == block_alignment_bytes) {
      if (void* const pointer = take(bytes)) return pointer;
    }
    return pool_.try_allocate(stream, bytes, alignment, where);
  }
  /// As memory_pool::deallocate(); into this cache when it is its stream's.
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    if (mine(stream)) return deallocate(pointer, bytes, where);
    pool_.deallocate(stream, pointer, bytes, where);
  }

  /// Gives everything back to the pool.
  void clear() noexcept { pool_.empty_cache(cache_); }

  /// @return the stream it serves, with its id
  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  /// @return the device whose memory this is
  [[nodiscard]] device_id device() const noexcept { return pool_.device(); }
  /// @return the pool behind it
  [[nodiscard]] memory_pool& pool() const noexcept { return pool_; }

 private:
  friend class memory_pool;
  using front_cache = detail::front_cache;

  memory_cache(memory_pool& pool, stream_ref stream, std::size_t budget_bytes,
               source_location where)
      : pool_{pool}, stream_{stream.resolved(where)} {
    cache_.set_budget(budget_bytes);
    pool.add_cache(*this, stream_, where);
  }

  // The handle is not enough: CUDA uses a destroyed stream's again. While calls must look closely,
  // the pool serves anyway, and the stream may be capturing: asking for its id would break that.
  [[nodiscard]] bool mine(stream_ref stream) const {
    return stream == stream_ && (stream.knows_id() || pool_.attention() == 0) &&
           stream.id() == cache_.stream_id;
  }
  [[nodiscard]] void* take(std::size_t bytes) noexcept {
    if (pool_.attention() != 0) return nullptr;
    detail::owner_held const lock{cache_.lock};
    return cache_.take(memory_pool::rounded_up(bytes));
  }
  [[nodiscard]] bool keep(void* pointer, std::size_t bytes) noexcept {
    if (pool_.attention() != 0 ||
        memory_pool::address_of(pointer) - pool_.first_address_ >= pool_.address_span_) {
      return false;
    }
    detail::owner_held const lock{cache_.lock};
    return cache_.put_quickly(pointer, memory_pool::rounded_up(bytes));
  }
  WARPWRIGHT_COLD void give_back(void* pointer, std::size_t bytes, source_location where);

  memory_pool& pool_;
  stream_ref stream_;
  memory_cache* previous_ = nullptr;
  memory_cache* next_ = nullptr;
  detail::locked_cache<detail::owner_lock> cache_;
};

inline memory_cache memory_pool::make_cache(stream_ref stream, std::size_t budget_bytes,
                                            source_location where) {
  return memory_cache{*this, stream, budget_bytes, where};
}

WARPWRIGHT_END

#include <warpwright/memory/detail/pool_caches.hpp>
#include <warpwright/memory/detail/pool_capture.hpp>
#include <warpwright/memory/detail/pool_checks.hpp>
#include <warpwright/memory/detail/pool_epochs.hpp>
#include <warpwright/memory/detail/pool_growth.hpp>
#include <warpwright/memory/detail/pool_lifetime.hpp>
#include <warpwright/memory/detail/pool_slow_path.hpp>
