// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Construction and destruction of pinned_core, the allocations that no shard serves, segments, and
// counters.
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/pinned/pinned_calls_definitions.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

/// Holds every lock that a consistent snapshot of the counters needs.
class pinned_core::all_locks : noncopyable {
 public:
  explicit all_locks(pinned_core const& pool) noexcept : pool_{const_cast<pinned_core&>(pool)} {
    for (pinned_shard& shard : pool_.shards_) shard.lock.lock();
    pool_.heap_.lock.lock();
  }
  ~all_locks() {
    pool_.heap_.lock.unlock();
    for (pinned_shard& shard : pool_.shards_) shard.lock.unlock();
  }

  [[nodiscard]] std::uint64_t live_bytes() const noexcept {
    std::uint64_t live = 0;
    for (pinned_shard const& shard : pool_.shards_) {
      live += shard.allocated_bytes - shard.freed_bytes;
    }
    return live;
  }

 private:
  pinned_core& pool_;
};

WARPWRIGHT_COLD WARPWRIGHT_INLINE pinned_core::pinned_core(pinned_settings const& options,
                                                           source_location where)
    : options_{options}, source_{options}, shards_(shard_count) {
  heap_.driver.find();
  source_.check_options(where);
  std::uint64_t initial = 0;
  if (!block_heap::round_up(options.initial_bytes, block_heap::granule_bytes, initial) ||
      initial > options.max_bytes) {
    throw_out_of_memory(options.initial_bytes, where);
  }
  if (initial == 0) return;
  relaxed_captures const relaxed{heap_.driver};
  relaxed.check_mode(where);
  if (!add_segment(initial, where)) throw_out_of_memory(options.initial_bytes, where);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE pinned_core::~pinned_core() {
  relaxed_captures const relaxed{heap_.driver};
  std::uint64_t const own_id = own_default_stream_id();
  for (pinned_shard& shard : shards_) {
    shard_guard lock{shard.lock};
    for (std::uint32_t i = 0; i < shard.streams.size(); ++i) {
      bool closed = false;
      try {
        closed = close_batch(lock, shard, i, own_id, true, source_location::current());
      } catch (...) {
      }
      pinned_stream const& stream = shard.streams[i];
      if (!closed) {
        bool const of_other_thread = stream.handle == cudaStreamPerThread && stream.id != own_id;
        cudaStream_t const handle = of_other_thread ? cudaStreamLegacy : stream.handle;
        // A capturing stream cannot be waited for.
        device_of_default const current{stream_ref{handle}, stream.device};
        if (!may_be_capturing(handle)) discard(cudaStreamSynchronize(handle));
      }
      for (pinned_stream::closed_batch const& batch : stream.closed) {
        discard(cudaEventSynchronize(batch.event));
        discard(cudaEventDestroy(batch.event));
      }
    }
  }
  for (host_segment const& segment : segments_) discard(page_locked_source::release(segment));
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pinned_core::throw_out_of_memory(
    std::size_t bytes, source_location where) const {
  pinned_statistics const s = statistics();
  throw out_of_memory{memory_report{bytes, s.live_bytes, s.reserved_bytes,
                                    s.largest_free_block_bytes, options_.max_bytes, -1},
                      where};
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE pinned_statistics pinned_core::statistics() const noexcept {
  all_locks const locks{*this};
  pool_statistics const& counters = heap_.counters;
  pinned_statistics s;
  for (pinned_shard const& shard : shards_) {
    s.allocations += shard.allocations;
    s.deallocations += shard.deallocations;
    s.hits += shard.hits;
    s.cached_bytes += shard.cached_bytes;
    for (pinned_stream const& stream : shard.streams) {
      s.pending_bytes += stream.open.bytes + stream.closing.bytes;
      for (pinned_stream::closed_batch const& batch : stream.closed) {
        s.pending_bytes += batch.blocks.bytes;
      }
    }
  }
  s.live_bytes = locks.live_bytes();
  s.live_blocks = s.allocations - s.deallocations;
  s.live_peak_bytes = live_peak_bytes_;
  s.reserved_bytes = counters.reserved_bytes;
  s.reserved_peak_bytes = counters.reserved_peak_bytes;
  s.pageable_bytes = pageable_bytes_;
  s.largest_free_block_bytes = heap_.blocks.largest_free_block_bytes();
  s.upstream_allocations = counters.upstream_allocations;
  s.upstream_deallocations = counters.upstream_deallocations;
  s.event_records = counters.event_records;
  return s;
}

WARPWRIGHT_INLINE void* pinned_core::allocate_from_heap(pinned_shard& shard, request const& wanted,
                                                        bool exhaustive, bool hit) {
  std::uint32_t node = block_heap::none;
  std::uint64_t address = 0;
  {
    heap_guard const lock{heap_.lock};
    node = heap_.blocks.allocate(block_heap::ready, wanted.rounded_bytes, wanted.alignment,
                                 exhaustive, wanted.bytes);
    if (node == block_heap::none) return nullptr;
    address = heap_.blocks.at(node).address;
    if (heap_.blocks.live_bytes() > live_peak_bytes_) {
      live_peak_bytes_ = heap_.blocks.live_bytes();
    }
  }
  pinned_block& block = *blocks_.find(address);
  block.address = address;
  block.node = node;
  shard_guard const lock{shard.lock};
  if (hit) ++shard.hits;
  return give(shard, block, wanted.bytes, wanted.rounded_bytes);
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void* pinned_core::allocate_miss(pinned_shard& shard,
                                                                       request const& wanted,
                                                                       source_location where) {
  bool called = false;
  count_cold_call();
  {
    shard_guard lock{shard.lock};
    called = poll_for_miss(lock, shard);
    if (called) {
      if (pinned_block* const block = shard.take(wanted.rounded_bytes, wanted.alignment)) {
        return give(shard, *block, wanted.bytes, wanted.rounded_bytes);
      }
    }
  }
  if (void* const pointer = allocate_from_heap(shard, wanted, false, !called)) return pointer;
  return allocate_slow(shard, wanted, true, where);
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void* pinned_core::allocate_slow(pinned_shard& shard,
                                                                       request const& wanted,
                                                                       bool may_wait,
                                                                       source_location where) {
  if (wanted.rounded_bytes > options_.max_bytes) return nullptr;
  unique_lock<mutex> const slow{slow_path_mutex_, may_wait};  // a holder may wait for a stream
  if (!slow.owns_lock()) return nullptr;
  relaxed_captures const relaxed{heap_.driver};
  relaxed.check_mode(where);
  std::uint64_t const own_id = own_default_stream_id();
  if (void* const pointer = allocate_from_heap(shard, wanted, true, false)) return pointer;
  flush_shards();
  if (void* const pointer = allocate_from_heap(shard, wanted, true, false)) return pointer;
  close_all(own_id, many_bytes_of_other_threads(own_id), where);
  // What streams complete in a moment need not be page-locked, which takes far longer.
  constexpr std::uint64_t moment_ns = 100000;
  if (void* const pointer = allocate_waiting(shard, wanted, moment_ns, where)) return pointer;
  if (void* const pointer = allocate_growing(shard, wanted, where)) return pointer;
  if (!may_wait) return nullptr;
  {
    all_locks const locks{*this};
    if (locks.live_bytes() > options_.max_bytes - wanted.rounded_bytes) return nullptr;
  }
  close_all(own_id, true, where);
  if (void* const pointer = allocate_waiting(shard, wanted, for_ever, where)) return pointer;
  return release_segments(0, where) == 0 ? nullptr : allocate_growing(shard, wanted, where);
}

WARPWRIGHT_INLINE void* pinned_core::allocate_growing(pinned_shard& shard, request const& wanted,
                                                      source_location where) {
  constexpr std::uint64_t granule = block_heap::granule_bytes;
  constexpr std::uint64_t most_growth = std::uint64_t{1} << 30U;
  std::uint64_t const needed = wanted.rounded_bytes;  // segments start at a page, as aligned as any
  std::uint64_t const allowed = (options_.max_bytes - reserved_bytes()) & ~(granule - 1);
  if (needed > allowed) return nullptr;
  std::uint64_t preferred = reserved_bytes() / 8;
  if (preferred > most_growth) preferred = most_growth;
  if (preferred < options_.growth_bytes) preferred = options_.growth_bytes;
  if (!block_heap::round_up(preferred, granule, preferred) || preferred > allowed) {
    preferred = allowed;
  }
  bool const grown =
      (preferred > needed && add_segment(preferred, where)) || add_segment(needed, where);
  return grown ? allocate_from_heap(shard, wanted, true, false) : nullptr;
}

/// Any stream's blocks may suffice: those of a slow one are not waited for. What is freed from now
/// on is not, either.
/// @param most_ns  how long it waits
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void* pinned_core::allocate_waiting(pinned_shard& shard,
                                                                          request const& wanted,
                                                                          std::uint64_t most_ns,
                                                                          source_location where) {
  std::uint64_t const own_id = own_default_stream_id();
  batch_numbers const all = numbers();
  std::uint64_t const start = most_ns == for_ever ? 0 : monotonic_nanoseconds();
  for (;;) {
    bool const pending = any_pending(all);
    poll_all(where);
    flush_shards();
    if (void* const pointer = allocate_from_heap(shard, wanted, true, false)) return pointer;
    if (!pending) return nullptr;
    if (most_ns == for_ever) {
      sleep_nanoseconds(50000);
      close_all(own_id, false, where);  // what other threads have freed meanwhile may suffice
    } else if (monotonic_nanoseconds() - start >= most_ns) {
      return nullptr;
    } else {
      sched_yield();
    }
  }
}

/// The id of the calling thread's default stream, if one is registered; else no_id.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::uint64_t pinned_core::own_default_stream_id()
    const noexcept {
  if (!has_per_thread_streams_.load(memory_order::relaxed)) return no_id;
  // The query would invalidate a capture.
  if (may_be_capturing(heap_.driver, cudaStreamPerThread)) return no_id;
  unsigned long long id = 0;
  cudaError_t const result = heap_.driver.id(cudaStreamPerThread, &id);
  discard(result);
  return result == cudaSuccess ? id : no_id;
}

WARPWRIGHT_INLINE void pinned_core::flush_shards() noexcept {
  for (pinned_shard& shard : shards_) {
    shard_guard const lock{shard.lock};
    if (shard.cached_bytes != 0) give_to_heap(shard.evict_all());
  }
}

/// Whether blocks of as much as a segment were freed on other threads' default streams, of which no
/// event is recorded: threads that ended may have left them.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool pinned_core::many_bytes_of_other_threads(
    std::uint64_t own_id) noexcept {
  if (!has_per_thread_streams_.load(memory_order::relaxed)) return false;
  std::uint64_t bytes = 0;
  for (pinned_shard& shard : shards_) {
    shard_guard const lock{shard.lock};
    for (pinned_stream const& s : shard.streams) {
      if (s.handle == cudaStreamPerThread && s.id != own_id) bytes += s.open.bytes;
    }
  }
  return bytes >= options_.growth_bytes;
}

WARPWRIGHT_INLINE void pinned_core::close_all(std::uint64_t own_id, bool last_resort,
                                              source_location where) {
  for (pinned_shard& shard : shards_) {
    shard_guard lock{shard.lock};
    for (std::uint32_t i = 0; i < shard.streams.size(); ++i) {
      if (!shard.streams[i].open.empty()) wait_for_closing(lock, shard, i);
      static_cast<void>(close_batch(lock, shard, i, own_id, last_resort, where));
    }
  }
}

WARPWRIGHT_INLINE void pinned_core::poll_all(source_location where) {
  for (pinned_shard& shard : shards_) {
    shard_guard lock{shard.lock};
    for (std::uint32_t i = 0; i < shard.streams.size(); ++i) {
      static_cast<void>(poll_stream(lock, shard, i, ~0U, false, where));
    }
  }
}

WARPWRIGHT_INLINE pinned_core::batch_numbers pinned_core::numbers() noexcept {
  batch_numbers all;
  for (unsigned i = 0; i < shard_count; ++i) {
    shard_guard const lock{shards_[i].lock};
    all.below[i] = shards_[i].next_number;
  }
  return all;
}

WARPWRIGHT_INLINE bool pinned_core::any_pending(batch_numbers const& all) noexcept {
  for (unsigned i = 0; i < shard_count; ++i) {
    shard_guard const lock{shards_[i].lock};
    for (pinned_stream const& s : shards_[i].streams) {
      if (!s.closing.empty() && s.closing_number < all.below[i]) return true;
      if (!s.closed.empty() && s.closed.front().number < all.below[i]) return true;
    }
  }
  return false;
}

WARPWRIGHT_INLINE void pinned_core::wait_for_all(std::uint64_t own_id, source_location where) {
  close_all(own_id, true, where);
  batch_numbers const all = numbers();
  for (unsigned i = 0; i < shard_count; ++i) {
    pinned_shard& shard = shards_[i];
    shard_guard lock{shard.lock};
    for (std::uint32_t at = 0; at < shard.streams.size(); ++at) {
      wait_for_closing(lock, shard, at);
      while (!shard.streams[at].closed.empty() &&
             shard.streams[at].closed.front().number < all.below[i]) {
        static_cast<void>(poll_stream(lock, shard, at, 1, true, where));
      }
    }
  }
}

/// @return false when the system gives no more
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool pinned_core::add_segment(std::uint64_t bytes,
                                                                source_location where) {
  segments_.reserve(segments_.size() + 1);
  host_segment const segment = source_.acquire(bytes, where);
  if (segment.from == host_segment::kind::none) return false;
  bool in_table = false;
  try {
    blocks_.add(segment.address, bytes);
    in_table = true;
    heap_guard const lock{heap_.lock};
    heap_.blocks.add_segment(segment.address, bytes);
  } catch (...) {
    if (in_table) blocks_.remove(segment.address);
    discard(page_locked_source::release(segment));
    throw;
  }
  segments_.push_back(segment);
  reserved_bytes_.store(reserved_bytes() + bytes, memory_order::relaxed);
  update_budget();
  heap_guard const lock{heap_.lock};
  ++heap_.counters.upstream_allocations;
  heap_.set_reserved(reserved_bytes());
  if (segment.from == host_segment::kind::pageable) pageable_bytes_ += bytes;
  return true;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::size_t pinned_core::release_segments(
    std::uint64_t keep_bytes, source_location where) {
  std::size_t released = 0;
  while (reserved_bytes() > keep_bytes) {
    block_heap::segment removed;
    {
      heap_guard const lock{heap_.lock};
      removed = heap_.blocks.remove_empty_segment(reserved_bytes() - keep_bytes);
    }
    if (removed.bytes == 0) break;
    std::size_t at = 0;
    while (segments_[at].address != removed.address) ++at;
    host_segment const segment = segments_[at];
    cudaError_t const result = page_locked_source::release(segment);
    if (result == cudaSuccess) {
      blocks_.remove(segment.address);
      segments_[at] = segments_.back();
      segments_.pop_back();
      reserved_bytes_.store(reserved_bytes() - segment.bytes, memory_order::relaxed);
      update_budget();
    }
    heap_guard lock{heap_.lock};
    if (result != cudaSuccess) {
      heap_.blocks.add_segment(segment.address, segment.bytes);  // its block's memory is there
      lock.unlock();
      check(result, page_locked_source::release_api(segment), where);
    }
    ++heap_.counters.upstream_deallocations;
    heap_.set_reserved(reserved_bytes());
    if (segment.from == host_segment::kind::pageable) pageable_bytes_ -= segment.bytes;
    released += segment.bytes;
  }
  return released;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::size_t pinned_core::trim(std::size_t bytes_to_keep,
                                                                source_location where) {
  unique_lock<mutex> const slow{slow_path_mutex_};
  relaxed_captures const relaxed{heap_.driver};
  relaxed.check_mode(where);
  wait_for_all(own_default_stream_id(), where);
  flush_shards();
  return release_segments(bytes_to_keep, where);
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
