// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The slow path of a memory_pool: calls that its caches do not serve. Included by pool.hpp.
//
// slow_path_mutex_ is held during a whole miss, heap_lock_ only while the heap is read or written.
// Every CUDA call is made with heap_lock_ released, so that hits of other threads proceed.
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/memory/pool.hpp>

#include <time.h>

WARPWRIGHT_BEGIN

/// Registers a stream; reuses the entry of a stream without blocks if there is one.
inline std::uint32_t memory_pool::new_list(std::uint64_t id, cudaStream_t handle) {
  std::uint32_t list = heap::first_stream_list;
  for (; list < entries_.size(); ++list) {
    stream_entry const& entry = entries_[list];
    if (!entry.used) break;
    // Entries of streams that are only momentarily idle are reused only when there are many
    // entries.
    bool const idle = heap_.empty(list) && entry.closed.empty() && entry.caches == 0 &&
                      entry.retained == 0 && !entry.of_graph;
    if (idle && !slow_path_active_.load(detail::memory_order::relaxed) &&
        (entry.handle == nullptr || entries_.size() > 64))
      break;
  }
  lists_.reserve(lists_.size() + 1);
  if (list == entries_.size()) {
    entries_.reserve(entries_.size() + 1);
    static_cast<void>(heap_.add_list());
    entries_.emplace_back();
  }
  stream_entry& entry = entries_[list];
  if (entry.used && entry.handle != nullptr)
    lists_.erase(entry.id);  // a retired stream's id is erased already
  entry.id = id;
  entry.handle = handle;
  entry.used = true;
  entry.unrecorded_frees = 0;
  entry.unrecorded_bytes = 0;
  entry.waited.clear();
  if (id != invalid_stream_id) lists_.insert(id, list);
  return list;
}

inline void* memory_pool::commit_allocation(std::uint32_t node, source_location where) {
  ++counters_.allocations;
  if (options_.checked_) record_allocation_site(node, where);
  return pointer_to(heap_.at(node).address);
}

/// An allocation that the stream's cache did not serve.
inline void* memory_pool::allocate_from_heap(stream_ref stream, std::uint64_t id, std::size_t bytes,
                                             std::size_t alignment, source_location where) {
  if (bytes == 0) return nullptr;
  std::uint64_t rounded = 0;
  if (!heap::round_up(bytes, heap::granule_bytes, rounded)) return nullptr;
  if (rounded >= heap::large_bytes) flush_large(id);
  {
    biased_guard const lock{heap_lock_};
    std::uint32_t const own = lists_.find(id);
    std::uint32_t node = heap::none;
    if (own != detail::address_map::none) node = heap_.find_fit(own, rounded, alignment, false);
    // For a small request no block fits better than one of exactly its size.
    if (node == heap::none || heap_.at(node).bytes != rounded || rounded >= heap::large_bytes) {
      node =
          heap_.better_fit(heap_.find_fit(heap::ready, rounded, alignment, false), node, rounded);
    }
    if (node != heap::none) {
      node = heap_.allocate_from(node, rounded, alignment, bytes);
      ++counters_.hits;
      return commit_allocation(node, where);
    }
  }
  return allocate_slow(stream, id, allocation_request{bytes, rounded, alignment}, where);
}

/// An allocation with an alignment, in checked mode, or while a slow path reason is set.
inline void* memory_pool::allocate_checked(stream_ref stream, std::size_t bytes,
                                           std::size_t alignment, source_location where) {
  check_alive("allocate", where);
  if (bytes == 0) return nullptr;
  if (alignment == 0 || alignment > maximum_alignment_bytes || (alignment & (alignment - 1)) != 0) {
    throw_bad_alignment(alignment, where);
  }
  if (alignment < block_alignment_bytes) alignment = block_alignment_bytes;
  // First: querying a capturing stream's id would invalidate the capture.
  if ((slow_path_reasons() & check_captures) != 0) {
    if (is_capturing(stream, where)) {
      std::uint64_t rounded = 0;
      if (!heap::round_up(bytes, heap::granule_bytes, rounded)) return nullptr;
      return allocate_slow(stream, invalid_stream_id, allocation_request{bytes, rounded, alignment},
                           where);
    }
    if (options_.checked_) check_device(stream, "allocate", where);
  }
  if ((slow_path_reasons() & graph_blocks) != 0) {
    biased_guard const lock{heap_lock_};
    reclaim_graphs();
  }
  std::uint64_t const id = id_of(stream, where);
  // The caches still receive frees, so they may have a block.
  if (alignment == block_alignment_bytes && !options_.checked_) {
    if (void* const pointer = allocate_cached(id, bytes)) return pointer;
  }
  return allocate_from_heap(stream, id, bytes, alignment, where);
}

/// The live block of a pointer passed to deallocate(). Throws for an invalid pointer.
inline std::uint32_t memory_pool::find_live(biased_guard& lock, void* pointer, std::size_t bytes,
                                            source_location where) const {
  std::uint32_t const node = heap_.find(address_of(pointer));
  if (node == heap::none || heap_.at(node).tag == deferred_free) {
    lock.unlock();
    throw_unknown_pointer(pointer, bytes, where);
  }
  if (options_.checked_ && heap_.at(node).requested_bytes != bytes) {
    throw_wrong_size(lock, node, pointer, bytes, where);
  }
  return node;
}

/// A free that the stream's cache did not store.
inline void memory_pool::deallocate_to_heap(stream_ref stream, std::uint64_t id, void* pointer,
                                            std::size_t bytes, source_location where) {
  std::uint64_t const rounded = rounded_up(bytes);
  if (!options_.checked_ && rounded != 0 && options_.cache_bytes_ != 0 &&
      deallocate_to_cache(stream, id, rounded, pointer, where)) {
    return;
  }
  bool record = false;
  {
    biased_guard lock{heap_lock_};
    std::uint32_t const node = find_live(lock, pointer, bytes, where);
    std::uint32_t const list = list_of(id, stream.get());
    if (options_.checked_) record_freed_block(node, where);
    heap_.deallocate(node, list, entries_[list].open_epoch);
    ++counters_.deallocations;
    record = stream.get() == cudaStreamPerThread && entries_[list].epoch_is_full(rounded);
  }
  if (record) close_thread_epoch(id);
}

/// A free in checked mode, of a foreign address, or while a slow path reason is set.
inline void memory_pool::deallocate_checked(stream_ref stream, void* pointer, std::size_t bytes,
                                            source_location where) {
  if (pointer == nullptr) return;
  check_alive("deallocate", where);
  unsigned const reasons = slow_path_reasons();
  if ((reasons & check_captures) != 0) {
    if (is_capturing(stream, where)) return free_in_graph(stream, pointer, bytes, where);
    if (options_.checked_) check_device(stream, "deallocate", where);
  }
  std::uint64_t const id = id_of(stream, where);
  {
    biased_guard lock{heap_lock_};
    reclaim_graphs();
    std::uint32_t const node = find_live(lock, pointer, bytes, where);
    bool deferred = heap_.at(node).tag != 0;
    for (detail::shared_use const& u : shared_uses_) deferred = deferred || u.node == node;
    if (!deferred) {
      lock.unlock();
      return deallocate_to_heap(stream, id, pointer, bytes, where);
    }
  }
  slow_path_scope const section{*this, where};
  biased_guard lock{heap_lock_};
  std::uint32_t const node = find_live(lock, pointer, bytes, where);
  free_deferred(lock, stream, node, where);
}

inline void* memory_pool::allocate_from_list(std::uint32_t list, allocation_request request,
                                             source_location where) {
  std::uint32_t const node =
      heap_.allocate(list, request.rounded_bytes, request.alignment, true, request.bytes);
  return node == heap::none ? nullptr : commit_allocation(node, where);
}

inline void* memory_pool::allocate_available(std::uint32_t own, allocation_request request,
                                             source_location where) {
  std::uint64_t const bytes = request.rounded_bytes;
  std::uint32_t node = heap_.find_fit(heap::ready, bytes, request.alignment, true);
  node = heap_.better_fit(node, heap_.find_fit(own, bytes, request.alignment, true), bytes);
  if (node == heap::none) return nullptr;
  return commit_allocation(heap_.allocate_from(node, bytes, request.alignment, request.bytes),
                           where);
}

inline void* memory_pool::allocate_slow(stream_ref stream, std::uint64_t id,
                                        allocation_request request, source_location where) {
  bool const capturing = id == invalid_stream_id || is_capturing(stream, where);
  auto const once = [&] {
    return capturing ? allocate_for_graph(stream, request, where)
                     : try_allocate_slow(stream, id, request, where);
  };
  void* pointer = once();
  if (pointer == nullptr && options_.exhausted_ != nullptr &&
      options_.exhausted_(options_.exhausted_user_, report(request.bytes))) {
    pointer = once();
  }
  return pointer;
}

/// One pass over the steps in memory_pool's description.
inline void* memory_pool::try_allocate_slow(stream_ref stream, std::uint64_t id,
                                            allocation_request request, source_location where) {
  slow_path_scope const section{*this, where};
  flush_all_caches();
  biased_guard lock{heap_lock_};
  reclaim_graphs();
  // No step below can serve a request above the capacity, and trying would empty the pool.
  if (request.rounded_bytes > capacity_bytes_ ||
      heap_.live_bytes() - deferred_bytes_ > capacity_bytes_ - request.rounded_bytes) {
    return nullptr;
  }
  std::uint32_t const own = list_of(id, stream.get());
  bool const can_wait = stream.get() != cudaStreamLegacy || !may_be_capturing(stream.get());
  if (void* const pointer = allocate_available(own, request, where)) return pointer;
  if (poll(lock, id, false, where)) {
    if (void* const pointer = allocate_available(own, request, where)) return pointer;
  }
  if (void* const pointer = coalesce_and_allocate(own, request, where)) return pointer;
  if (options_.order_ == reuse_order::wait_before_grow || !can_grow(request)) {
    if (void* const pointer = can_wait ? steal(lock, own, stream, request, where) : nullptr) {
      return pointer;
    }
    static_cast<void>(poll(lock, id, true, where));
    if (void* const pointer = allocate_available(own, request, where)) return pointer;
    if (void* const pointer = grow(lock, own, request, where)) return pointer;
  } else {
    if (void* const pointer = wait_and_allocate(lock, own, id, request, where)) return pointer;
    if (void* const pointer = grow(lock, own, request, where)) return pointer;
    if (void* const pointer = can_wait ? steal(lock, own, stream, request, where) : nullptr) {
      return pointer;
    }
  }
  if (can_wait) merge_all_lists(lock, own, stream, where);
  if (void* const pointer = allocate_available(own, request, where)) return pointer;
  synchronize_all(lock, id, where);
  if (void* const pointer = allocate_available(own, request, where)) return pointer;
  return compact_and_allocate(lock, own, request, where);
}

/// Whether the limit and the device allow the pool to grow.
inline bool memory_pool::can_grow(allocation_request request) const noexcept {
  return reserved_bytes_ <= capacity_bytes_ &&
         request.rounded_bytes <= capacity_bytes_ - reserved_bytes_;
}

/// Waits up to maximum_wait_us() for other streams to complete their frees before the pool grows:
/// the wait happens once, but memory stays reserved.
inline void* memory_pool::wait_and_allocate(biased_guard& lock, std::uint32_t own, std::uint64_t id,
                                            allocation_request request, source_location where) {
  std::uint64_t const budget_ns = std::uint64_t{options_.maximum_wait_us_} * 1000;
  std::uint64_t const begin = detail::monotonic_nanoseconds();
  for (int pauses = 16;; pauses += pauses < 512 ? pauses : 0) {
    bool const running = poll(lock, id, true, where);
    if (void* const pointer = allocate_available(own, request, where)) return pointer;
    if (!running) return coalesce_and_allocate(own, request, where);
    if (budget_ns == 0) return nullptr;
    lock.unlock();
    if (pauses < 512) {
      for (int i = 0; i < pauses; ++i) detail::pause_processor();
    } else {
      timespec const pause{0, 20000};
      nanosleep(&pause, nullptr);
    }
    std::uint64_t const spent = detail::monotonic_nanoseconds() - begin;
    lock.lock();
    if (spent > budget_ns) return nullptr;
  }
}

/// Allocates a free block of another stream and makes the caller's stream wait for the donor.
inline void* memory_pool::steal(biased_guard& lock, std::uint32_t own, stream_ref stream,
                                allocation_request request, source_location where) {
  std::uint32_t best = heap::none;
  int best_cost = 3;
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    if (list == own || entries_[list].of_graph) continue;
    std::uint32_t const node = heap_.find_fit(list, request.rounded_bytes, request.alignment, true);
    if (node == heap::none) continue;
    // The cheapest first: already ordered, one wait, one record and one wait. Then the best fit.
    std::uint64_t const epoch = heap_.at(node).epoch;
    stream_entry const& donor = entries_[list];
    bool const recorded = !donor.closed.empty() && donor.closed.back().epoch >= epoch;
    int const cost = already_waits(own, list, epoch) ? 0 : recorded ? 1 : 2;
    if (cost == 2 && (donor.handle == nullptr || donor.handle == cudaStreamPerThread)) continue;
    if (best == heap::none || cost < best_cost ||
        (cost == best_cost && heap_.at(node).bytes < heap_.at(best).bytes)) {
      best = node;
      best_cost = cost;
    }
  }
  if (best == heap::none) return nullptr;
  std::uint32_t const donor = heap_.at(best).list;
  std::uint64_t const epoch = heap_.at(best).epoch;
  std::uint32_t const node =
      heap_.allocate_from(best, request.rounded_bytes, request.alignment, request.bytes);
  bool ordered = best_cost == 0;
  // The block is allocated while the CUDA calls are made, so no other thread can take it.
  auto const return_block = [&] {
    bool const newer = !heap_.empty(donor) && heap_.newest_epoch(donor) > epoch;
    heap_.deallocate(node, donor, newer ? heap_.newest_epoch(donor) : epoch);
  };
  try {
    if (best_cost == 1 ||
        (best_cost == 2 && record_epoch_event(lock, donor, entries_[own].id, where))) {
      wait_on_donor(lock, own, stream, donor, epoch, where);
      ordered = true;
    }
  } catch (...) {
    return_block();
    throw;
  }
  if (!ordered) {
    return_block();
    return nullptr;
  }
  ++counters_.cross_stream_steals;
  return commit_allocation(node, where);
}

/// Moves every free block to the stream's list, behind one wait for each other stream, so that
/// blocks of different streams coalesce.
inline void memory_pool::merge_all_lists(biased_guard& lock, std::uint32_t own, stream_ref stream,
                                         source_location where) {
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    if (list == own || heap_.empty(list) || entries_[list].of_graph) continue;
    static_cast<void>(close_epoch(lock, list, entries_[own].id, where));
    if (entries_[list].closed.empty()) continue;
    std::uint64_t const epoch = entries_[list].closed.back().epoch;
    wait_on_donor(lock, own, stream, list, epoch, where);
    move_blocks(lock, list, epoch, own, entries_[own].open_epoch);
  }
  move_blocks(lock, heap::ready, 0, own, entries_[own].open_epoch);
}

inline std::size_t memory_pool::trim(std::size_t bytes_to_keep, source_location where) {
  check_alive("trim", where);
  slow_path_scope const section{*this, where};
  flush_all_caches();
  biased_guard lock{heap_lock_};
  reclaim_graphs();
  synchronize_all(lock, invalid_stream_id, where);
  return release_memory(lock, bytes_to_keep, where);
}

WARPWRIGHT_END
