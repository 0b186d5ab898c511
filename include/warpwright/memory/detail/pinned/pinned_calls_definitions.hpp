// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls of pinned_core that a shard serves, and batches of frees. No CUDA call is made with a
// shard's or the heap's lock.
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/memory/detail/alignment.hpp>
#include <warpwright/memory/detail/pinned/pinned_core.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pinned_core::throw_capturing(source_location where) {
  throw_invalid_argument(
      "pinned_pool: cannot free a block on a capturing stream: the graph would use its memory "
      "after the pool has reused it; keep the block as long as the graph",
      where);
}

WARPWRIGHT_INLINE void* pinned_core::try_allocate(std::size_t bytes, std::size_t alignment,
                                                  source_location where) {
  if (bytes == 0) return nullptr;
  require_alignment("pinned_pool", alignment, max_alignment, where);
  std::uint64_t rounded = 0;
  if (!block_heap::round_up(bytes, block_heap::granule_bytes, rounded)) return nullptr;
  pinned_shard& shard = own_shard();
  {
    shard_guard const lock{shard.lock};
    use(shard);
    if (pinned_block* const block = shard.take(rounded, alignment)) {
      ++shard.hits;
      return give(shard, *block, bytes, rounded);
    }
  }
  if (alignment < default_alignment) alignment = default_alignment;
  return allocate_miss(shard, request{bytes, rounded, alignment}, where);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void* pinned_core::try_allocate_now(std::size_t bytes,
                                                                      source_location where) {
  std::uint64_t rounded = 0;
  if (bytes == 0 || !block_heap::round_up(bytes, block_heap::granule_bytes, rounded))
    return nullptr;
  return allocate_slow(own_shard(), request{bytes, rounded, default_alignment}, false, where);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pinned_core::use_first(pinned_shard& shard) noexcept {
  shard.used = true;
  used_shards_.fetch_add(1, memory_order::relaxed);
  update_budget();
}

/// Half of the memory may be in the shards of the threads that use the pool.
WARPWRIGHT_INLINE void pinned_core::update_budget() noexcept {
  unsigned const used = used_shards_.load(memory_order::relaxed);
  cache_budget_.store(reserved_bytes() / (2 * (used == 0 ? 1 : used)), memory_order::relaxed);
}

/// Now and then takes the shards of threads that are gone, or idle, out of the division of the
/// budget, and gives their blocks to the heap. Without any lock.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void pinned_core::count_cold_call() noexcept {
  constexpr unsigned period = 4096;
  if (cold_calls_.fetch_add(1, memory_order::relaxed) % period != period - 1) return;
  for (pinned_shard& shard : shards_) {
    shard_guard const lock{shard.lock};
    if (shard.used) {
      used_shards_.fetch_sub(1, memory_order::relaxed);
    } else if (shard.cached_bytes != 0) {
      give_to_heap(shard.evict_all());
    }
    shard.used = false;  // until its next call
  }
  update_budget();
}

WARPWRIGHT_INLINE pinned_block& pinned_core::take_from_caller(pinned_shard& shard, void* pointer,
                                                              std::size_t bytes,
                                                              source_location where) const {
  pinned_block* const block = blocks_.find(address_of(pointer), shard.recent);
  if (block == nullptr || !block->take_from_caller(bytes)) {
    throw_misuse(block, pointer, bytes, where);
  }
  return *block;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pinned_core::throw_misuse(pinned_block const* block,
                                                                 void* pointer, std::size_t bytes,
                                                                 source_location where) const {
  text message = text{"pinned_pool: cannot free "} + pointer + " (" + bytes + " bytes): ";
  if (block != nullptr && (block->state.load(memory_order::relaxed) & 1U) != 0) {
    message += text{"wrong size: "} + block->requested_bytes() +
               " bytes were allocated; pass the same size";
  } else if (blocks_.contains(address_of(pointer))) {
    message += "double free, or not the pointer that allocate() returned";
  } else {
    message += "it is not from this pool; free it where it was allocated";
  }
  throw_invalid_argument(message, where);
}

WARPWRIGHT_INLINE void pinned_core::deallocate(void* pointer, std::size_t bytes,
                                               source_location where) {
  if (pointer == nullptr) return;
  pinned_shard& shard = own_shard();
  pinned_block& block = take_from_caller(shard, pointer, bytes, where);
  std::uint64_t const rounded = block.rounded_bytes();
  shard_guard const lock{shard.lock};
  use(shard);
  shard.count_free(rounded);
  if (!shard.put(block, rounded, cache_budget())) spill(shard, block, rounded);
}

WARPWRIGHT_ALWAYS_INLINE void pinned_core::free_on(stream_ref stream, std::uint64_t id,
                                                   void* pointer, std::size_t bytes,
                                                   source_location where) {
  pinned_shard& shard = own_shard();
  pinned_block& block = take_from_caller(shard, pointer, bytes, where);
  std::uint64_t const rounded = block.rounded_bytes();
  shard_guard lock{shard.lock};
  std::uint32_t index = shard.find(id);
  while (index == pinned_shard::none) {
    lock.unlock();
    try {
      register_stream(shard, stream, id, where);
    } catch (...) {
      block.give_to_caller(bytes);
      throw;
    }
    lock.lock();
    index = shard.find(id);
  }
  use(shard);
  shard.count_free(rounded);
  pinned_stream& s = shard.streams[index];
  s.open.push(block, rounded);
  // Of a capturing stream no event can be recorded: it is tried less and less often.
  std::uint64_t const tries = std::uint64_t{1} + s.failures;
  bool const full =
      s.open.blocks >= batch_blocks * tries || s.open.bytes >= cache_budget() / 2 * tries;
  if (full && s.closing.empty()) close_full_batch(lock, shard, index, id);
}

WARPWRIGHT_INLINE void pinned_core::deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                               source_location where) {
  if (pointer == nullptr) return;
  if (may_be_capturing_anywhere() && is_capturing(heap_.driver, stream, where)) {
    throw_capturing(where);
  }
  free_on(stream, stream.has_id() ? stream.id(where) : id_of(heap_.driver, stream, where), pointer,
          bytes, where);
}

WARPWRIGHT_INLINE void pinned_core::free_behind(named_stream const& named, void* pointer,
                                                std::size_t bytes) noexcept {
  if (pointer == nullptr) return;
  source_location const where = source_location::current();
  stream_ref const stream = named.here();
  device_of_default const current{stream, named.device()};
  try {
    if (stream.get() == cudaStreamLegacy) {
      // The query of its id would invalidate a blocking stream's capture: a number that no stream
      // has serves as well.
      free_on(stream, no_id - 1 - static_cast<unsigned>(named.device()), pointer, bytes, where);
      return;
    }
    // So would the query of a capturing stream's.
    if (!stream.has_id() && is_capturing(stream, where)) return;
    deallocate(stream, pointer, bytes, where);
    return;
  } catch (...) {
  }
  relaxed_captures const relaxed{heap_.driver};
  // While the stream's work may run the block stays live.
  if (may_be_capturing(stream.get())) return;
  cudaError_t const result = cudaStreamSynchronize(stream.get());
  discard(result);
  if (result != cudaSuccess) return;
  try {
    deallocate(pointer, bytes, where);
  } catch (...) {  // the pool counts the block as live
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pinned_core::register_stream(pinned_shard& shard,
                                                                    stream_ref stream,
                                                                    std::uint64_t id,
                                                                    source_location where) {
  // First: querying the device of a capturing stream would invalidate the capture.
  if (is_capturing(heap_.driver, stream, where)) throw_capturing(where);
  int const device = device_of(stream, where).value();
  if (stream.get() == cudaStreamPerThread) {
    has_per_thread_streams_.store(true, memory_order::relaxed);
  }
  shard_guard const lock{shard.lock};
  if (shard.find(id) == pinned_shard::none) {
    static_cast<void>(shard.add(id, stream.get(), device));
  }
}

/// The shard has no room: for other sizes than this one it needs none.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void pinned_core::spill(pinned_shard& shard, pinned_block& block,
                                                          std::uint64_t rounded_bytes) noexcept {
  give_to_heap(shard.evict_others(rounded_bytes));
  if (shard.put(block, rounded_bytes, cache_budget())) return;
  pinned_list one;
  one.push(block, rounded_bytes);
  give_to_heap(one);
}

WARPWRIGHT_INLINE void pinned_core::give_to_heap(pinned_list const& blocks) noexcept {
  constexpr unsigned portion = 32;  // so that other threads get the heap in between
  for (pinned_block* next = blocks.first; next != nullptr;) {
    heap_guard const lock{heap_.lock};
    for (unsigned i = 0; i < portion && next != nullptr; ++i) {
      std::uint32_t const node = next->node;
      next = next == blocks.last ? nullptr : next->next;
      heap_.blocks.deallocate(node, block_heap::ready, 0);
    }
  }
}

/// Records an event behind the open batch.
/// @param own_id       of the calling thread's stream: the default stream of another thread cannot
///   be recorded
/// @param last_resort  there an event on the legacy default stream, behind which it is ordered,
///   serves; every blocking stream of the device then waits for the others
/// @return whether no block is without an event
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE bool pinned_core::close_batch(
    shard_guard& lock, pinned_shard& shard, std::uint32_t index, std::uint64_t own_id,
    bool last_resort, source_location where) {
  pinned_stream& stream = shard.streams[index];
  if (stream.open.empty()) return stream.closing.empty();
  if (!stream.closing.empty()) return false;
  cudaStream_t handle = stream.handle;
  if (handle == cudaStreamPerThread && stream.id != own_id) {
    if (!last_resort) return false;
    handle = cudaStreamLegacy;
  }
  int const device = stream.device;
  stream.closed.reserve(stream.closed.size() + 1);
  stream.closing = stream.open.take_all();
  stream.closing_number = shard.next_number++;
  cudaEvent_t event = nullptr;
  lock.unlock();
  try {
    heap_guard heap_lock{heap_.lock};
    event = events_.record(heap_lock, handle, where, device);
  } catch (...) {
    lock.lock();
    reopen(shard.streams[index]);
    throw;
  }
  lock.lock();
  pinned_stream& now = shard.streams[index];  // the array may have moved
  if (event == nullptr) {
    reopen(now);
    return false;
  }
  now.closed.push_back(
      pinned_stream::closed_batch{now.closing.take_all(), now.closing_number, event});
  now.failures = 0;
  return now.open.empty();
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pinned_core::reopen(pinned_stream& stream) noexcept {
  stream.open.append(stream.closing.take_all());
  if (stream.failures < 1000) ++stream.failures;
}

/// An error is not this free's: an allocation that needs the blocks meets it again.
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void pinned_core::close_full_batch(
    shard_guard& lock, pinned_shard& shard, std::uint32_t index, std::uint64_t own_id) noexcept {
  relaxed_captures const relaxed{heap_.driver};
  if (!relaxed.allowed()) return;
  source_location const where = source_location::current();
  try {
    static_cast<void>(close_batch(lock, shard, index, own_id, false, where));
    // Two batches come back for one that is closed, so that events do not pile up.
    static_cast<void>(poll_stream(lock, shard, index, 2, false, where));
  } catch (...) {
  }
  lock.unlock();
  count_cold_call();
  lock.lock();
}

/// Queries the events of a stream's oldest batches, or waits for them.
/// @return whether all queried ones have completed
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE bool pinned_core::poll_stream(shard_guard& lock,
                                                                    pinned_shard& shard,
                                                                    std::uint32_t index,
                                                                    unsigned queries, bool wait,
                                                                    source_location where) {
  for (; queries != 0 && !shard.streams[index].closed.empty(); --queries) {
    // Meanwhile another thread may take the batch, and record the event again.
    std::uint64_t const number = shard.streams[index].closed.front().number;
    cudaEvent_t const event = shard.streams[index].closed.front().event;
    bool done = false;
    lock.unlock();
    try {
      heap_guard heap_lock{heap_.lock};
      done = events_.completed(heap_lock, event, wait, where);
    } catch (...) {
      lock.lock();
      throw;
    }
    lock.lock();
    pinned_stream const& now = shard.streams[index];
    if (now.closed.empty() || now.closed.front().number != number) continue;
    if (!done) return false;
    release_oldest(shard, index);
  }
  return true;
}

WARPWRIGHT_INLINE void pinned_core::release_oldest(pinned_shard& shard,
                                                   std::uint32_t index) noexcept {
  pinned_stream& stream = shard.streams[index];
  pinned_stream::closed_batch const oldest = stream.closed.front();
  stream.closed.remove_front(1);
  absorb(shard, oldest.blocks);
  {
    heap_guard const lock{heap_.lock};
    events_.give_back(oldest.event, stream.device);
  }
  shard.remove_if_done(index);
}

WARPWRIGHT_INLINE void pinned_core::absorb(pinned_shard& shard,
                                           pinned_list const& blocks) noexcept {
  std::uint64_t const budget = cache_budget();
  if (shard.put(blocks, budget)) return;
  if (blocks.each != 0) {
    give_to_heap(shard.evict_others(blocks.each));
    if (shard.put(blocks, budget)) return;
  }
  pinned_list rest;
  for (pinned_block* next = blocks.first; next != nullptr;) {
    pinned_block& block = *next;
    next = next == blocks.last ? nullptr : next->next;
    std::uint64_t const rounded = block.rounded_bytes();
    if (!shard.put(block, rounded, budget)) rest.push(block, rounded);
  }
  give_to_heap(rest);
}

/// Queries the oldest batches of streams of the shard, of one after the other in successive calls.
/// @param most_steps  so many streams are looked at
/// @param all         of those with batches four are queried, else up to two until one has
/// completed
/// @return whether a CUDA call was made, and whether a batch has come back
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE pinned_core::poll_result pinned_core::poll_some(
    shard_guard& lock, pinned_shard& shard, std::size_t most_steps, bool all) noexcept {
  constexpr unsigned most_chosen = 4;
  std::uint32_t chosen[most_chosen];
  unsigned count = 0;
  poll_result result;
  if (most_steps > shard.streams.size()) most_steps = shard.streams.size();
  for (std::size_t step = 0; step < most_steps && count < (all ? most_chosen : 2); ++step) {
    shard.hand = shard.hand + 1 < shard.streams.size() ? shard.hand + 1 : 0;
    if (!shard.streams[shard.hand].closed.empty()) chosen[count++] = shard.hand;
  }
  if (count == 0) return result;
  result.called = true;
  relaxed_captures const relaxed{heap_.driver};
  if (!relaxed.allowed()) return result;
  for (unsigned i = 0; i < count && (all || !result.completed); ++i) {
    try {
      bool const done = poll_stream(lock, shard, chosen[i], 1, false, source_location::current());
      result.completed = result.completed || done;
    } catch (...) {  // the slow path meets the error again
    }
  }
  return result;
}

/// For a miss of the shard. @return whether a CUDA call was made
WARPWRIGHT_INLINE bool pinned_core::poll_for_miss(shard_guard& lock, pinned_shard& shard) noexcept {
  constexpr std::size_t most_steps = 8;
  constexpr unsigned misses_between = 16;  // after one in vain
  if (shard.skipped_polls != 0) {
    --shard.skipped_polls;
    return false;
  }
  poll_result const result = poll_some(lock, shard, most_steps, false);
  if (result.called && !result.completed) shard.skipped_polls = misses_between;
  return result.called;
}

/// Another thread records an event behind a batch of the stream: waits for it, a moment at most.
WARPWRIGHT_INLINE void pinned_core::wait_for_closing(shard_guard& lock, pinned_shard& shard,
                                                     std::uint32_t index) {
  for (int step = 0; step < 10000 && !shard.streams[index].closing.empty(); ++step) {
    lock.unlock();
    spin_wait(step);
    lock.lock();
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void pinned_core::retire(stream_ref stream,
                                                           source_location where) {
  if (is_capturing(stream, where)) {
    throw_invalid_argument(
        "pinned_pool: cannot retire a capturing stream: no event can be recorded behind its "
        "frees; end the capture first",
        where);
  }
  std::uint64_t const id = id_of(heap_.driver, stream, where);
  relaxed_captures const relaxed{heap_.driver};
  relaxed.check_mode(where);
  for (pinned_shard& shard : shards_) {
    shard_guard lock{shard.lock};
    std::uint32_t const index = shard.find(id);
    if (index == pinned_shard::none) continue;
    while (!shard.streams[index].closing.empty()) wait_for_closing(lock, shard, index);
    if (!close_batch(lock, shard, index, id, false, where)) {
      throw_invalid_argument(
          "pinned_pool: cannot retire the stream: a capture has begun on it; end the capture first",
          where);
    }
    shard.retire(index);
    // Streams that come and go leave few batches behind.
    static_cast<void>(poll_some(lock, shard, shard.streams.size(), true));
  }
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
