// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Tracking which frees each stream has completed. Included by pool.hpp.
//
// A free gets its stream's open epoch; recording an event closes the epoch. Every CUDA call is made
// with heap_lock_ released, so that hits of other threads proceed.
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

inline std::uint64_t memory_pool::query_id(stream_ref stream, source_location where) const {
  unsigned long long id = 0;
  // The driver fails on a thread without a context; the runtime creates one.
  if (driver_.id(stream.get(), &id) == cudaSuccess) return id;
  return stream.id(where);
}

/// Whether the caller's stream is capturing. A legacy default stream never is, but must not be used
/// while a blocking stream captures.
inline bool memory_pool::is_capturing(stream_ref stream, source_location where) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (driver_.is_capturing(stream.get(), &status) == cudaSuccess) {
    return status != cudaStreamCaptureStatusNone;
  }
  return detail::is_capturing(stream, where) && stream.get() != cudaStreamLegacy;
}

/// Whether a stream of another caller may be capturing, so that it must not be touched.
inline bool memory_pool::may_be_capturing(cudaStream_t stream) const noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return driver_.is_capturing(stream, &status) != cudaSuccess ||
         status != cudaStreamCaptureStatusNone;
}

/// Whether the list's newest event covers all its free blocks.
inline bool memory_pool::has_covering_event(std::uint32_t list) const noexcept {
  if (heap_.empty(list)) return true;
  stream_entry const& entry = entries_[list];
  return !entry.closed.empty() && entry.closed.back().epoch >= heap_.newest_epoch(list);
}

/// Records an event behind the list's blocks if they need one and it is possible.
/// @return has_covering_event(list)
inline bool memory_pool::close_epoch(biased_guard& lock, std::uint32_t list, std::uint64_t own_id,
                                     source_location where) {
  return has_covering_event(list) || record_epoch_event(lock, list, own_id, where);
}

/// Records an event on the list's stream, which covers everything freed there so far.
/// @return false when the stream is retired, capturing, or another thread's default stream
inline bool memory_pool::record_epoch_event(biased_guard& lock, std::uint32_t list,
                                            std::uint64_t own_id, source_location where) {
  cudaStream_t const handle = entries_[list].handle;
  bool const of_thread = handle == cudaStreamPerThread;
  if (handle == nullptr ||
      (of_thread && (own_id == invalid_stream_id || entries_[list].id != own_id))) {
    return false;
  }
  entries_[list].closed.reserve(entries_[list].closed.size() + 1);
  std::uint64_t const epoch =
      entries_[list].open_epoch++;  // frees from here on are not has_covering_event
  entries_[list].unrecorded_frees = 0;
  entries_[list].unrecorded_bytes = 0;
  cudaEvent_t const event = record_event(lock, handle, where);
  if (event == nullptr) return false;
  entries_[list].closed.push_back(detail::closed_epoch{epoch, event});
  return true;
}

/// Records an event behind the work submitted to a stream so far.
/// @return the event; nullptr when the stream is capturing
inline cudaEvent_t memory_pool::record_event(biased_guard& lock, cudaStream_t handle,
                                             source_location where) {
  cudaEvent_t event = nullptr;
  if (!spare_events_.empty()) {
    event = spare_events_.back();
    spare_events_.pop_back();
  } else {
    spare_events_.reserve(event_count_ + 1);  // so that returning the event cannot fail
  }
  bool const is_new = event == nullptr;
  lock.unlock();
  char const* api = "cudaEventCreateWithFlags";
  cudaError_t result = cudaSuccess;
  if (is_new) result = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  bool captured = may_be_capturing(handle);
  if (result == cudaSuccess && !captured) {
    api = "cudaEventRecord";
    result = driver_.record(event, handle);
    if (result == cudaSuccess && may_be_capturing(handle)) {
      // A capture began in between: the event may belong to it and must not be used again.
      captured = true;
      detail::discard(cudaEventDestroy(event));
      event = nullptr;
    }
  }
  lock.lock();
  if (is_new && event != nullptr) ++event_count_;
  if (!is_new && event == nullptr) --event_count_;
  if (result == cudaSuccess && !captured) {
    ++counters_.event_records;
    return event;
  }
  if (event != nullptr) spare_events_.push_back(event);
  check(result, api, where);
  return nullptr;
}

/// Records the event of the calling thread's default stream, which no other thread can record. On
/// failure the blocks wait for a later event.
inline void memory_pool::close_thread_epoch(std::uint64_t id) noexcept {
  source_location const here = source_location::current();
  try {
    slow_path_scope const section{*this, here};
    biased_guard lock{heap_lock_};
    std::uint32_t const list = lists_.find(id);
    if (list == detail::address_map::none) return;
    // A program without misses polls nowhere else, and its events would accumulate.
    while (!entries_[list].closed.empty() &&
           event_completed(lock, entries_[list].closed.front().event, false, here)) {
      release_oldest_epoch(lock, list);
    }
    static_cast<void>(close_epoch(lock, list, id, here));
  } catch (...) {
    return;
  }
}

/// Queries the events and moves completed blocks to the ready list.
/// @param record  record an event behind uncovered blocks, for this poll and later ones
/// @return with `record`, whether an event is still pending; otherwise whether an event or pending
///   free has completed
inline bool memory_pool::poll(biased_guard& lock, std::uint64_t own_id, bool record,
                              source_location where) {
  bool waiting = false;
  bool completed = false;
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    if (record && entries_[list].closed.empty()) {
      static_cast<void>(close_epoch(lock, list, own_id, where));
    }
    while (!entries_[list].closed.empty()) {
      if (!oldest_event_is_stale(list)) {
        if (!event_completed(lock, entries_[list].closed.front().event, false, where)) {
          waiting = true;
          break;
        }
        completed = true;
      }
      release_oldest_epoch(lock, list);
    }
  }
  std::size_t const before = pending_frees_.size();
  waiting = poll_pending(lock, false, where) || waiting;
  return record ? waiting : completed || pending_frees_.size() != before;
}

/// Whether all blocks that a list's oldest event covers have left the list.
inline bool memory_pool::oldest_event_is_stale(std::uint32_t list) const noexcept {
  return heap_.empty(list) ||
         heap_.at(heap_.oldest(list)).epoch > entries_[list].closed.front().epoch;
}

/// @param wait  wait on the host for the event
/// @return whether the event has completed
inline bool memory_pool::event_completed(biased_guard& lock, cudaEvent_t event, bool wait,
                                         source_location where) {
  lock.unlock();
  cudaError_t const result = wait ? cudaEventSynchronize(event) : driver_.query(event);
  detail::discard(result);
  lock.lock();
  ++counters_.event_queries;
  if (result == cudaErrorNotReady) return false;
  check(result, wait ? "cudaEventSynchronize" : "cudaEventQuery", where);
  return true;
}

/// Moves pending frees to the ready list once all their streams have completed.
/// @return whether a free is still pending
inline bool memory_pool::poll_pending(biased_guard& lock, bool wait, source_location where) {
  std::size_t i = 0;
  while (i < pending_frees_.size()) {
    detail::pending_free const done = pending_frees_[i];
    if (!event_completed(lock, done.event, wait, where)) {
      ++i;
      continue;
    }
    spare_events_.push_back(done.event);
    pending_frees_[i] = pending_frees_.back();
    pending_frees_.pop_back();
    if (!is_deferred(done.node)) end_deferred_free(done.node, heap::none);
  }
  return !pending_frees_.empty();
}

/// Frees a block with record_use() or of a graph: it is reused only when all its streams have
/// completed and the graph is destroyed.
/// @pre slow_path_mutex_ is held
inline void memory_pool::free_deferred(biased_guard& lock, stream_ref stream, std::uint32_t node,
                                       source_location where) {
  // Queries the id of the calling thread's default stream only where it matters.
  std::uint64_t own_thread_id = invalid_stream_id;
  bool uses_thread_stream = false;
  for (detail::shared_use const& u : shared_uses_) {
    uses_thread_stream = uses_thread_stream || (u.node == node && u.handle == cudaStreamPerThread);
  }
  if (uses_thread_stream) {
    lock.unlock();
    own_thread_id = query_id(stream_ref::per_thread(), where);
    lock.lock();
  }
  try {
    bool own = false;
    for (std::size_t i = 0; i <= shared_uses_.size() && !own;) {
      own = i == shared_uses_.size();
      bool const counts = own || shared_uses_[i].node == node;
      cudaStream_t handle = own ? stream.get() : shared_uses_[i].handle;
      // Another thread's default stream cannot be recorded; the legacy stream is ordered behind it.
      if (!own && handle == cudaStreamPerThread && shared_uses_[i].stream_id != own_thread_id) {
        handle = cudaStreamLegacy;
      }
      ++i;
      if (!counts) continue;
      pending_frees_.reserve(pending_frees_.size() + 1);
      cudaEvent_t const event = record_event(lock, handle, where);
      if (event == nullptr) {
        detail::throw_invalid_argument(
            "memory_pool: a block with record_use(), or of a graph, is freed while one of its "
            "streams is capturing; end the capture first",
            where);
      }
      pending_frees_.push_back(detail::pending_free{node, event});
    }
    // Read late: the graph may have been destroyed while the events were recorded.
    std::uint32_t const tag = heap_.at(node).tag;
    if (tag != 0) graphs_[tag - 1].retained.push_back(detail::retained_block{node, heap::none});
  } catch (...) {
    // Searches all entries: a graph destroyed meanwhile may have added blocks behind these.
    for (std::size_t i = pending_frees_.size(); i-- > 0;) {
      if (pending_frees_[i].node != node) continue;
      spare_events_.push_back(pending_frees_[i].event);
      pending_frees_[i] = pending_frees_.back();
      pending_frees_.pop_back();
    }
    throw;
  }
  for (std::size_t i = 0; i < shared_uses_.size();) {
    if (shared_uses_[i].node != node) {
      ++i;
      continue;
    }
    shared_uses_[i] = shared_uses_.back();
    shared_uses_.pop_back();
  }
  begin_deferred_free(node, where);
  update_slow_path_reasons();
}

inline void memory_pool::record_use(stream_ref stream, void* pointer, source_location where) {
  check_alive("record_use", where);
  if (is_capturing(stream, where)) {
    detail::throw_invalid_argument(
        "memory_pool: record_use of a capturing stream; end the capture first", where);
  }
  std::uint64_t const id = id_of(stream, where);
  biased_guard lock{heap_lock_};
  std::uint32_t const node = heap_.find(address_of(pointer));
  if (node == heap::none || heap_.at(node).tag == deferred_free) {
    lock.unlock();
    throw_unknown_pointer(pointer, 0, where, false);
  }
  for (detail::shared_use const& u : shared_uses_) {
    if (u.node == node && u.stream_id == id) return;
  }
  shared_uses_.push_back(detail::shared_use{node, id, stream.get()});
  update_slow_path_reasons();
}

/// Moves blocks in portions of 256, with heap_lock_ released in between so that hits of other
/// threads proceed.
inline void memory_pool::move_blocks(biased_guard& lock, std::uint32_t from, std::uint64_t epoch,
                                     std::uint32_t to, std::uint64_t new_epoch) noexcept {
  while (!heap_.move(from, epoch, to, new_epoch, 256)) {
    lock.unlock();
    lock.lock();
  }
}

/// A list's oldest event has completed: moves the blocks it covers to the ready list.
inline void memory_pool::release_oldest_epoch(biased_guard& lock, std::uint32_t list) noexcept {
  move_blocks(lock, list, entries_[list].closed.front().epoch, heap::ready, 0);
  stream_entry& entry = entries_[list];
  spare_events_.push_back(entry.closed.front().event);
  entry.closed.remove_front(1);
}

inline bool memory_pool::already_waits(std::uint32_t own, std::uint32_t donor,
                                       std::uint64_t epoch) const noexcept {
  for (detail::recorded_wait const& w : entries_[own].waited) {
    if (w.donor == donor) return w.epoch >= epoch;
  }
  return false;
}

/// Makes the stream wait for the donor's first event behind `epoch`, unless it already does.
/// @pre such an event is recorded
inline void memory_pool::wait_on_donor(biased_guard& lock, std::uint32_t own, stream_ref stream,
                                       std::uint32_t donor, std::uint64_t epoch,
                                       source_location where) {
  if (already_waits(own, donor, epoch)) return;
  detail::closed_epoch behind;
  for (detail::closed_epoch const& c : entries_[donor].closed) {
    behind = c;
    if (c.epoch >= epoch) break;
  }
  entries_[own].waited.reserve(entries_[own].waited.size() + 1);
  lock.unlock();
  cudaError_t const result = driver_.wait(stream.get(), behind.event);
  lock.lock();
  check(result, "cudaStreamWaitEvent", where);
  ++counters_.stream_waits;
  for (detail::recorded_wait& w : entries_[own].waited) {
    if (w.donor != donor) continue;
    w.epoch = behind.epoch;
    return;
  }
  entries_[own].waited.push_back(detail::recorded_wait{donor, behind.epoch});
}

/// Waits on the host until every free block that can become ready is ready.
inline void memory_pool::synchronize_all(biased_guard& lock, std::uint64_t own_id,
                                         source_location where) {
  bool other_threads = false;
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    if (!close_epoch(lock, list, own_id, where) && entries_[list].handle == cudaStreamPerThread) {
      other_threads = true;
    }
    while (!entries_[list].closed.empty()) {
      static_cast<void>(event_completed(lock, entries_[list].closed.front().event, true, where));
      release_oldest_epoch(lock, list);
    }
  }
  static_cast<void>(poll_pending(lock, true, where));
  if (!other_threads) return;
  // Only those threads can record events on their default streams, but the legacy default stream is
  // ordered behind all of them. An event on it makes every blocking stream wait, so it is used only
  // here. cudaDeviceSynchronize would invalidate the captures of all other streams.
  detail::array<std::uint64_t> epochs(entries_.size());
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    if (entries_[list].handle == cudaStreamPerThread) epochs[list] = entries_[list].open_epoch++;
  }
  cudaEvent_t const event = record_event(lock, cudaStreamLegacy, where);
  if (event == nullptr) return;  // a blocking stream is capturing
  try {
    static_cast<void>(event_completed(lock, event, true, where));
  } catch (...) {
    spare_events_.push_back(event);
    throw;
  }
  spare_events_.push_back(event);
  for (std::uint32_t list = heap::first_stream_list; list < epochs.size(); ++list) {
    if (epochs[list] != 0) move_blocks(lock, list, epochs[list], heap::ready, 0);
  }
}

inline void memory_pool::retire(stream_ref stream, source_location where) {
  check_alive("retire", where);
  if (is_capturing(stream, where)) {
    detail::throw_invalid_argument(
        "memory_pool: retire of a capturing stream; end the capture first", where);
  }
  std::uint64_t const id = id_of(stream, where);
  slow_path_scope const section{*this, where};
  if (shard* const cache = cache_of(id)) {
    biased_guard const lock{cache->lock};
    if (cache->stream_id == id) release_shard(*cache);
  }
  biased_guard lock{heap_lock_};
  std::uint32_t const list = lists_.find(id);
  if (list != detail::address_map::none) {
    retire_list(lock, list, id, where);
    lists_.erase(id);
  }
  if (stream.get() == cudaStreamPerThread) return;
  for (std::uint32_t l = heap::first_stream_list; l < entries_.size(); ++l) {
    // Registered in a capture, without an id.
    if (entries_[l].used && entries_[l].id == invalid_stream_id &&
        entries_[l].handle == stream.get()) {
      retire_list(lock, l, id, where);
    }
  }
}

/// Records events behind all blocks that the list has or will get from graphs, and clears its
/// stream.
inline void memory_pool::retire_list(biased_guard& lock, std::uint32_t list, std::uint64_t id,
                                     source_location where) {
  if (entries_[list].caches != 0) {
    lock.unlock();
    detail::throw_invalid_argument(
        "memory_pool: retire of a stream that has a memory_cache; end the cache first", where);
  }
  bool recorded = true;
  while (recorded && entries_[list].retained != 0) {
    std::uint32_t node = heap::none;
    for (detail::graph_memory const& g : graphs_) {
      for (detail::retained_block const& k : g.retained) node = k.list == list ? k.node : node;
    }
    pending_frees_.reserve(pending_frees_.size() + 1);
    cudaEvent_t const event = record_event(lock, entries_[list].handle, where);
    recorded = event != nullptr;
    if (!recorded) break;
    bool still_retained = false;  // the graph may have destroyed meanwhile
    for (detail::graph_memory& g : graphs_) {
      for (detail::retained_block& k : g.retained) {
        if (k.node != node || k.list != list) continue;
        k.list = heap::none;
        --entries_[list].retained;
        still_retained = true;
      }
    }
    if (still_retained) {
      pending_frees_.push_back(detail::pending_free{node, event});
    } else {
      spare_events_.push_back(event);
    }
  }
  if (!recorded || !close_epoch(lock, list, id, where)) {
    lock.unlock();
    detail::throw_invalid_argument("memory_pool: retire of a stream whose capture began meanwhile",
                                   where);
  }
  entries_[list].handle = nullptr;
}

WARPWRIGHT_END
