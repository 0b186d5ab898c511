// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a memory_pool does when its caches do not serve a call. Included by pool.hpp.
//
// Two locks: slow_ is held for the whole of a miss, lock_ only while the books are read or written;
// every CUDA call is made with lock_ open, so that hits of other threads go on meanwhile.
#pragma once

#include <warpwright/memory/pool.hpp>

#include <time.h>

WARPWRIGHT_BEGIN

/// Notes a stream; takes over the entry of one that has nothing here any more.
inline std::uint32_t memory_pool::new_list(std::uint64_t id, cudaStream_t handle) {
  std::uint32_t list = heap::first_stream_list;
  for (; list < entries_.size(); ++list) {
    stream_entry const& entry = entries_[list];
    if (!entry.used) break;
    // Some streams are always idle here for a moment: take entries over only when there are many.
    bool const idle = heap_.empty(list) && entry.closed.empty() && entry.caches == 0 &&
                      entry.kept == 0 && !entry.of_graph;
    if (idle && !__atomic_load_n(&slow_path_runs_, __ATOMIC_RELAXED) &&
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
  if (entry.used && entry.handle != nullptr) lists_.erase(entry.id);  // else it is gone already
  entry.id = id;
  entry.handle = handle;
  entry.used = true;
  entry.unrecorded_frees = 0;
  entry.unrecorded_bytes = 0;
  entry.waited.clear();
  if (id != nobody) lists_.insert(id, list);
  return list;
}

inline void* memory_pool::hand_out(std::uint32_t node, source_location where) {
  ++counters_.allocations;
  if (options_.checked_) remember_allocation(node, where);
  return pointer_to(heap_.at(node).address);
}

/// A call that the stream's cache did not serve.
inline void* memory_pool::allocate_from_books(stream_ref stream, std::uint64_t id,
                                              std::size_t bytes, std::size_t alignment,
                                              source_location where) {
  if (bytes == 0) return nullptr;
  std::uint64_t rounded = 0;
  if (!heap::round_up(bytes, heap::granule_bytes, rounded)) return nullptr;
  if (rounded >= heap::large_bytes) give_large(id);
  {
    pool_held const lock{lock_};
    std::uint32_t const own = lists_.find(id);
    std::uint32_t node = heap::none;
    if (own != detail::address_map::none) node = heap_.find_fit(own, rounded, alignment, false);
    // Of small blocks nothing fits better than one of just the size.
    if (node == heap::none || heap_.at(node).bytes != rounded || rounded >= heap::large_bytes) {
      node = heap_.better(heap_.find_fit(heap::ready, rounded, alignment, false), node, rounded);
    }
    if (node != heap::none) {
      node = heap_.take_from(node, rounded, alignment, bytes);
      ++counters_.hits;
      return hand_out(node, where);
    }
  }
  return allocate_slowly(stream, id, request{bytes, rounded, alignment}, where);
}

/// A call with an alignment, in checked mode, or while captures are watched or graphs have memory.
inline void* memory_pool::allocate_with_care(stream_ref stream, std::size_t bytes,
                                             std::size_t alignment, source_location where) {
  refuse_after_end("allocate", where);
  if (bytes == 0) return nullptr;
  if (alignment == 0 || alignment > maximum_alignment_bytes || (alignment & (alignment - 1)) != 0) {
    refuse_alignment(alignment, where);
  }
  if (alignment < block_alignment_bytes) alignment = block_alignment_bytes;
  // First: asking a capturing stream for its id would break the capture.
  if ((attention() & watching) != 0) {
    if (is_capturing(stream, where)) {
      std::uint64_t rounded = 0;
      if (!heap::round_up(bytes, heap::granule_bytes, rounded)) return nullptr;
      return allocate_slowly(stream, nobody, request{bytes, rounded, alignment}, where);
    }
    if (options_.checked_) check_device(stream, "allocate", where);
  }
  if ((attention() & graph_blocks) != 0) {
    pool_held const lock{lock_};
    reclaim_graphs();
  }
  std::uint64_t const id = id_of(stream, where);
  // Frees go into the caches meanwhile, so that they must be looked into.
  if (alignment == block_alignment_bytes && !options_.checked_) {
    if (void* const pointer = take_cached(id, bytes)) return pointer;
  }
  return allocate_from_books(stream, id, bytes, alignment, where);
}

/// The live block that a pointer given to deallocate() stands for.
inline std::uint32_t memory_pool::find_live(pool_held& lock, void* pointer, std::size_t bytes,
                                            source_location where) const {
  std::uint32_t const node = heap_.find(address_of(pointer));
  if (node == heap::none || heap_.at(node).mark == held_mark) {
    lock.unlock();
    refuse_unknown(pointer, bytes, where);
  }
  if (options_.checked_ && heap_.at(node).requested_bytes != bytes) {
    refuse_size(lock, node, pointer, bytes, where);
  }
  return node;
}

/// A free that the stream's cache did not take.
inline void memory_pool::deallocate_to_books(stream_ref stream, std::uint64_t id, void* pointer,
                                             std::size_t bytes, source_location where) {
  std::uint64_t const rounded = rounded_up(bytes);
  if (!options_.checked_ && rounded != 0 && options_.cache_bytes_ != 0 &&
      keep(stream, id, rounded, pointer, where)) {
    return;
  }
  bool record = false;
  {
    pool_held lock{lock_};
    std::uint32_t const node = find_live(lock, pointer, bytes, where);
    std::uint32_t const list = list_of(id, stream.get());
    if (options_.checked_) remember_free(node, where);
    heap_.give(node, list, entries_[list].open_epoch);
    ++counters_.deallocations;
    record = stream.get() == cudaStreamPerThread && entries_[list].epoch_is_full(rounded);
  }
  if (record) close_thread_epoch(id);
}

/// A free in checked mode, of a foreign address, or while captures are watched or blocks have more
/// than one user.
inline void memory_pool::deallocate_with_care(stream_ref stream, void* pointer, std::size_t bytes,
                                              source_location where) {
  if (pointer == nullptr) return;
  refuse_after_end("deallocate", where);
  unsigned const why = attention();
  if ((why & watching) != 0) {
    if (is_capturing(stream, where)) return free_in_graph(stream, pointer, bytes, where);
    if (options_.checked_) check_device(stream, "deallocate", where);
  }
  std::uint64_t const id = id_of(stream, where);
  {
    pool_held lock{lock_};
    reclaim_graphs();
    std::uint32_t const node = find_live(lock, pointer, bytes, where);
    bool several = heap_.at(node).mark != 0;
    for (detail::shared_use const& u : uses_) several = several || u.node == node;
    if (!several) {
      lock.unlock();
      return deallocate_to_books(stream, id, pointer, bytes, where);
    }
  }
  slow_section const section{*this, where};
  pool_held lock{lock_};
  std::uint32_t const node = find_live(lock, pointer, bytes, where);
  free_shared(lock, stream, node, where);
}

inline void* memory_pool::take(std::uint32_t list, request wanted, source_location where) {
  std::uint32_t const node =
      heap_.take(list, wanted.rounded_bytes, wanted.alignment, true, wanted.bytes);
  return node == heap::none ? nullptr : hand_out(node, where);
}

inline void* memory_pool::take_hit(std::uint32_t own, request wanted, source_location where) {
  std::uint64_t const bytes = wanted.rounded_bytes;
  std::uint32_t node = heap_.find_fit(heap::ready, bytes, wanted.alignment, true);
  node = heap_.better(node, heap_.find_fit(own, bytes, wanted.alignment, true), bytes);
  if (node == heap::none) return nullptr;
  return hand_out(heap_.take_from(node, bytes, wanted.alignment, wanted.bytes), where);
}

inline void* memory_pool::allocate_slowly(stream_ref stream, std::uint64_t id, request wanted,
                                          source_location where) {
  bool const capturing = id == nobody || is_capturing(stream, where);
  auto const once = [&] {
    return capturing ? allocate_for_graph(stream, wanted, where)
                     : allocate_once(stream, id, wanted, where);
  };
  void* pointer = once();
  if (pointer == nullptr && options_.exhausted_ != nullptr &&
      options_.exhausted_(options_.exhausted_user_, report(wanted.bytes))) {
    pointer = once();
  }
  return pointer;
}

/// All the steps that memory_pool's description names, once.
inline void* memory_pool::allocate_once(stream_ref stream, std::uint64_t id, request wanted,
                                        source_location where) {
  slow_section const section{*this, where};
  empty_all_caches();
  pool_held lock{lock_};
  reclaim_graphs();
  // Nothing below could help, and a hopeless request must not empty the pool.
  if (wanted.rounded_bytes > capacity_bytes_ ||
      heap_.live_bytes() - held_bytes_ > capacity_bytes_ - wanted.rounded_bytes) {
    return nullptr;
  }
  std::uint32_t const own = list_of(id, stream.get());
  bool const may_wait = stream.get() != cudaStreamLegacy || !may_be_capturing(stream.get());
  if (void* const pointer = take_hit(own, wanted, where)) return pointer;
  if (poll(lock, id, false, where)) {
    if (void* const pointer = take_hit(own, wanted, where)) return pointer;
  }
  if (void* const pointer = join_and_take(own, wanted, where)) return pointer;
  if (options_.order_ == reuse_order::wait_before_grow || !can_grow(wanted)) {
    if (void* const pointer = may_wait ? steal(lock, own, stream, wanted, where) : nullptr) {
      return pointer;
    }
    static_cast<void>(poll(lock, id, true, where));
    if (void* const pointer = take_hit(own, wanted, where)) return pointer;
    if (void* const pointer = grow(lock, own, wanted, where)) return pointer;
  } else {
    if (void* const pointer = wait_briefly(lock, own, id, wanted, where)) return pointer;
    if (void* const pointer = grow(lock, own, wanted, where)) return pointer;
    if (void* const pointer = may_wait ? steal(lock, own, stream, wanted, where) : nullptr) {
      return pointer;
    }
  }
  if (may_wait) gather(lock, own, stream, where);
  if (void* const pointer = take_hit(own, wanted, where)) return pointer;
  finish_all(lock, id, where);
  if (void* const pointer = take_hit(own, wanted, where)) return pointer;
  return compact_and_take(lock, own, wanted, where);
}

/// Whether the limit and the device leave room.
inline bool memory_pool::can_grow(request wanted) const noexcept {
  return reserved_bytes_ <= capacity_bytes_ &&
         wanted.rounded_bytes <= capacity_bytes_ - reserved_bytes_;
}

/// Before growing, gives donors some time to pass what they have freed: memory grown is grown for
/// good, the wait is once.
inline void* memory_pool::wait_briefly(pool_held& lock, std::uint32_t own, std::uint64_t id,
                                       request wanted, source_location where) {
  std::uint64_t const budget_ns = std::uint64_t{options_.patience_us_} * 1000;
  timespec begin{};
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int pauses = 16;; pauses += pauses < 512 ? pauses : 0) {
    bool const running = poll(lock, id, true, where);
    if (void* const pointer = take_hit(own, wanted, where)) return pointer;
    if (!running) return join_and_take(own, wanted, where);
    if (budget_ns == 0) return nullptr;
    lock.unlock();
    if (pauses < 512) {
      for (int i = 0; i < pauses; ++i) detail::pause_processor();
    } else {
      timespec const nap{0, 20000};
      nanosleep(&nap, nullptr);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    lock.lock();
    auto const spent = (now.tv_sec - begin.tv_sec) * 1000000000L + (now.tv_nsec - begin.tv_nsec);
    if (static_cast<std::uint64_t>(spent) > budget_ns) return nullptr;
  }
}

/// Takes one block of another stream and orders the caller's stream behind the donor.
inline void* memory_pool::steal(pool_held& lock, std::uint32_t own, stream_ref stream,
                                request wanted, source_location where) {
  std::uint32_t best = heap::none;
  int best_price = 3;
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    if (list == own || entries_[list].of_graph) continue;
    std::uint32_t const node = heap_.find_fit(list, wanted.rounded_bytes, wanted.alignment, true);
    if (node == heap::none) continue;
    // The cheapest first: already ordered, one wait, one record and one wait. Then the best fit.
    std::uint64_t const epoch = heap_.at(node).epoch;
    stream_entry const& donor = entries_[list];
    bool const recorded = !donor.closed.empty() && donor.closed.back().epoch >= epoch;
    int const price = waits_already(own, list, epoch) ? 0 : recorded ? 1 : 2;
    if (price == 2 && (donor.handle == nullptr || donor.handle == cudaStreamPerThread)) continue;
    if (best == heap::none || price < best_price ||
        (price == best_price && heap_.at(node).bytes < heap_.at(best).bytes)) {
      best = node;
      best_price = price;
    }
  }
  if (best == heap::none) return nullptr;
  std::uint32_t const donor = heap_.at(best).list;
  std::uint64_t const epoch = heap_.at(best).epoch;
  std::uint32_t const node =
      heap_.take_from(best, wanted.rounded_bytes, wanted.alignment, wanted.bytes);
  bool ordered = best_price == 0;
  // The block is out of the books meanwhile: nobody else can take it while the calls are made.
  auto const give_back = [&] {
    bool const newer = !heap_.empty(donor) && heap_.newest_epoch(donor) > epoch;
    heap_.give(node, donor, newer ? heap_.newest_epoch(donor) : epoch);
  };
  try {
    if (best_price == 1 ||
        (best_price == 2 && record_behind(lock, donor, entries_[own].id, where))) {
      order_behind(lock, own, stream, donor, epoch, where);
      ordered = true;
    }
  } catch (...) {
    give_back();
    throw;
  }
  if (!ordered) {
    give_back();
    return nullptr;
  }
  ++counters_.cross_stream_steals;
  return hand_out(node, where);
}

/// Makes every free block the stream's own, behind one wait for each other stream, so that blocks
/// of different streams merge.
inline void memory_pool::gather(pool_held& lock, std::uint32_t own, stream_ref stream,
                                source_location where) {
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    if (list == own || heap_.empty(list) || entries_[list].of_graph) continue;
    static_cast<void>(close_epoch(lock, list, entries_[own].id, where));
    if (entries_[list].closed.empty()) continue;
    std::uint64_t const epoch = entries_[list].closed.back().epoch;
    order_behind(lock, own, stream, list, epoch, where);
    move_blocks(lock, list, epoch, own, entries_[own].open_epoch);
  }
  move_blocks(lock, heap::ready, 0, own, entries_[own].open_epoch);
}

inline std::size_t memory_pool::trim(std::size_t bytes_to_keep, source_location where) {
  refuse_after_end("trim", where);
  slow_section const section{*this, where};
  empty_all_caches();
  pool_held lock{lock_};
  reclaim_graphs();
  finish_all(lock, nobody, where);
  return release_memory(lock, bytes_to_keep, where);
}

WARPWRIGHT_END
