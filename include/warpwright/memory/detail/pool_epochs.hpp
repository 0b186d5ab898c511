// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How a memory_pool knows that a stream has passed a free. Included by pool.hpp.
//
// A free is stamped with its stream's open epoch; recording an event closes the epoch. Every CUDA
// call is made with lock_ open, so that hits of other threads go on meanwhile.
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

inline std::uint64_t memory_pool::ask_id(stream_ref stream, source_location where) const {
  unsigned long long id = 0;
  // A thread without a context cannot ask the driver; the runtime makes one.
  if (driver_.id(stream.get(), &id) == cudaSuccess) return id;
  return stream.id(where);
}

/// Whether the caller's stream is capturing. A legacy default stream never is, but must not be
/// touched while a blocking stream captures.
inline bool memory_pool::is_capturing(stream_ref stream, source_location where) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (driver_.is_capturing(stream.get(), &status) == cudaSuccess) {
    return status != cudaStreamCaptureStatusNone;
  }
  return detail::is_capturing(stream, where) && stream.get() != cudaStreamLegacy;
}

/// Whether a stream of somebody else had better be left alone.
inline bool memory_pool::may_be_capturing(cudaStream_t stream) const noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return driver_.is_capturing(stream, &status) != cudaSuccess ||
         status != cudaStreamCaptureStatusNone;
}

/// Whether an event stands behind every free block of the list.
inline bool memory_pool::covered(std::uint32_t list) const noexcept {
  if (heap_.empty(list)) return true;
  stream_entry const& entry = entries_[list];
  return !entry.closed.empty() && entry.closed.back().epoch >= heap_.newest_epoch(list);
}

/// Records an event behind the list's blocks where that is needed and possible.
/// @return covered(list)
inline bool memory_pool::close_epoch(pool_held& lock, std::uint32_t list, std::uint64_t own_id,
                                     source_location where) {
  return covered(list) || record_behind(lock, list, own_id, where);
}

/// Records an event on the list's stream: it stands behind everything freed there so far.
/// @return false when the stream is gone, capturing, or another thread's default stream
inline bool memory_pool::record_behind(pool_held& lock, std::uint32_t list, std::uint64_t own_id,
                                       source_location where) {
  cudaStream_t const handle = entries_[list].handle;
  bool const of_thread = handle == cudaStreamPerThread;
  if (handle == nullptr || (of_thread && (own_id == nobody || entries_[list].id != own_id))) {
    return false;
  }
  entries_[list].closed.reserve(entries_[list].closed.size() + 1);
  std::uint64_t const epoch = entries_[list].open_epoch++;  // frees from here on are not covered
  entries_[list].unrecorded_frees = 0;
  entries_[list].unrecorded_bytes = 0;
  cudaEvent_t const event = record_event(lock, handle, where);
  if (event == nullptr) return false;
  entries_[list].closed.push_back(detail::closed_epoch{epoch, event});
  return true;
}

/// Records an event behind what a stream has been given so far.
/// @return the event; nullptr when the stream is capturing
inline cudaEvent_t memory_pool::record_event(pool_held& lock, cudaStream_t handle,
                                             source_location where) {
  cudaEvent_t event = nullptr;
  if (!spare_events_.empty()) {
    event = spare_events_.back();
    spare_events_.pop_back();
  } else {
    spare_events_.reserve(event_count_ + 1);  // giving it back later cannot fail
  }
  bool const is_new = event == nullptr;
  lock.unlock();
  char const* api = "cudaEventCreateWithFlags";
  cudaError_t answer = cudaSuccess;
  if (is_new) answer = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  bool captured = may_be_capturing(handle);
  if (answer == cudaSuccess && !captured) {
    api = "cudaEventRecord";
    answer = driver_.record(event, handle);
    if (answer == cudaSuccess && may_be_capturing(handle)) {
      // A capture began in between: the event may be part of it and must not be touched again.
      captured = true;
      detail::discard(cudaEventDestroy(event));
      event = nullptr;
    }
  }
  lock.lock();
  if (is_new && event != nullptr) ++event_count_;
  if (!is_new && event == nullptr) --event_count_;
  if (answer == cudaSuccess && !captured) {
    ++counters_.event_records;
    return event;
  }
  if (event != nullptr) spare_events_.push_back(event);
  check(answer, api, where);
  return nullptr;
}

/// Called by deallocate() for the calling thread's default stream, whose event nobody else can
/// record. A failure leaves the blocks to a later event.
inline void memory_pool::close_thread_epoch(std::uint64_t id) noexcept {
  source_location const here = source_location::current();
  try {
    slow_section const section{*this, here};
    pool_held lock{lock_};
    std::uint32_t const list = lists_.find(id);
    if (list == detail::address_map::none) return;
    // A program that only hits polls nowhere else: its events would pile up.
    while (!entries_[list].closed.empty() &&
           has_passed(lock, entries_[list].closed.front().event, false, here)) {
      finish_oldest(lock, list);
    }
    static_cast<void>(close_epoch(lock, list, id, here));
  } catch (...) {
    return;
  }
}

/// Learns which streams have passed their events.
/// @param record  an event behind what has none, for this poll and later ones
/// @return with `record`, whether a stream has yet to pass one; else whether anything was learnt
inline bool memory_pool::poll(pool_held& lock, std::uint64_t own_id, bool record,
                              source_location where) {
  bool waiting = false;
  bool learnt = false;
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    if (record && entries_[list].closed.empty()) {
      static_cast<void>(close_epoch(lock, list, own_id, where));
    }
    while (!entries_[list].closed.empty()) {
      if (!stands_behind_nothing(list)) {
        if (!has_passed(lock, entries_[list].closed.front().event, false, where)) {
          waiting = true;
          break;
        }
        learnt = true;
      }
      finish_oldest(lock, list);
    }
  }
  std::size_t const before = pending_.size();
  waiting = poll_shared(lock, false, where) || waiting;
  return record ? waiting : learnt || pending_.size() != before;
}

/// Whether the blocks behind which a stream's oldest event was recorded have gone elsewhere.
inline bool memory_pool::stands_behind_nothing(std::uint32_t list) const noexcept {
  return heap_.empty(list) ||
         heap_.at(heap_.oldest(list)).epoch > entries_[list].closed.front().epoch;
}

/// @param wait  on the host, until it has
inline bool memory_pool::has_passed(pool_held& lock, cudaEvent_t event, bool wait,
                                    source_location where) {
  lock.unlock();
  cudaError_t const answer = wait ? cudaEventSynchronize(event) : driver_.query(event);
  detail::discard(answer);
  lock.lock();
  ++counters_.event_queries;
  if (answer == cudaErrorNotReady) return false;
  check(answer, wait ? "cudaEventSynchronize" : "cudaEventQuery", where);
  return true;
}

/// Makes blocks everyone's that all their streams have passed.
/// @return whether one has yet to be passed
inline bool memory_pool::poll_shared(pool_held& lock, bool wait, source_location where) {
  std::size_t i = 0;
  while (i < pending_.size()) {
    detail::pending_block const done = pending_[i];
    if (!has_passed(lock, done.event, wait, where)) {
      ++i;
      continue;
    }
    spare_events_.push_back(done.event);
    pending_[i] = pending_.back();
    pending_.pop_back();
    if (!is_held(done.node)) end_holding(done.node, heap::none);
  }
  return !pending_.empty();
}

/// Frees a block that several streams or a graph's launches use: nobody gets it before all streams
/// have passed and the graph is gone.
/// @pre slow_ is held
inline void memory_pool::free_shared(pool_held& lock, stream_ref stream, std::uint32_t node,
                                     source_location where) {
  // The calling thread's default stream, asked for only where it matters.
  std::uint64_t mine = nobody;
  bool of_threads = false;
  for (detail::shared_use const& u : uses_) {
    of_threads = of_threads || (u.node == node && u.handle == cudaStreamPerThread);
  }
  if (of_threads) {
    lock.unlock();
    mine = ask_id(stream_ref::per_thread(), where);
    lock.lock();
  }
  try {
    bool own = false;
    for (std::size_t i = 0; i <= uses_.size() && !own;) {
      own = i == uses_.size();
      bool const counts = own || uses_[i].node == node;
      cudaStream_t handle = own ? stream.get() : uses_[i].handle;
      // Another thread's default stream: the legacy one stands behind it.
      if (!own && handle == cudaStreamPerThread && uses_[i].stream_id != mine) {
        handle = cudaStreamLegacy;
      }
      ++i;
      if (!counts) continue;
      pending_.reserve(pending_.size() + 1);
      cudaEvent_t const event = record_event(lock, handle, where);
      if (event == nullptr) {
        detail::throw_invalid_argument(
            "memory_pool: a block with record_use(), or of a graph, is freed while one of its "
            "streams is capturing; end the capture first",
            where);
      }
      pending_.push_back(detail::pending_block{node, event});
    }
    // Read only now: the graph may have ended while the events were recorded.
    std::uint32_t const mark = heap_.at(node).mark;
    if (mark != 0) graphs_[mark - 1].kept.push_back(detail::kept_block{node, heap::none});
  } catch (...) {
    // Not simply the newest: a graph that ended meanwhile may have left blocks behind them.
    for (std::size_t i = pending_.size(); i-- > 0;) {
      if (pending_[i].node != node) continue;
      spare_events_.push_back(pending_[i].event);
      pending_[i] = pending_.back();
      pending_.pop_back();
    }
    throw;
  }
  for (std::size_t i = 0; i < uses_.size();) {
    if (uses_[i].node != node) {
      ++i;
      continue;
    }
    uses_[i] = uses_.back();
    uses_.pop_back();
  }
  begin_holding(node, where);
  update_attention();
}

inline void memory_pool::record_use(stream_ref stream, void* pointer, source_location where) {
  refuse_after_end("record_use", where);
  if (is_capturing(stream, where)) {
    detail::throw_invalid_argument(
        "memory_pool: record_use of a capturing stream; end the capture first", where);
  }
  std::uint64_t const id = id_of(stream, where);
  pool_held lock{lock_};
  std::uint32_t const node = heap_.find(address_of(pointer));
  if (node == heap::none || heap_.at(node).mark == held_mark) {
    lock.unlock();
    refuse_unknown(pointer, 0, where, false);
  }
  for (detail::shared_use const& u : uses_) {
    if (u.node == node && u.stream_id == id) return;
  }
  uses_.push_back(detail::shared_use{node, id, stream.get()});
  update_attention();
}

/// Moves blocks in portions, so that the hits of other threads need not wait for all of them.
inline void memory_pool::move_blocks(pool_held& lock, std::uint32_t from, std::uint64_t epoch,
                                     std::uint32_t to, std::uint64_t new_epoch) noexcept {
  while (!heap_.move(from, epoch, to, new_epoch, 256)) {
    lock.unlock();
    lock.lock();
  }
}

/// The oldest event of a stream has been passed: what it stands behind is everyone's.
inline void memory_pool::finish_oldest(pool_held& lock, std::uint32_t list) noexcept {
  move_blocks(lock, list, entries_[list].closed.front().epoch, heap::ready, 0);
  stream_entry& entry = entries_[list];
  spare_events_.push_back(entry.closed.front().event);
  entry.closed.remove_front(1);
}

inline bool memory_pool::waits_already(std::uint32_t own, std::uint32_t donor,
                                       std::uint64_t epoch) const noexcept {
  for (detail::remembered_wait const& w : entries_[own].waited) {
    if (w.donor == donor) return w.epoch >= epoch;
  }
  return false;
}

/// Makes the stream wait for the donor's first event behind `epoch`, unless it does already.
/// @pre such an event has been recorded
inline void memory_pool::order_behind(pool_held& lock, std::uint32_t own, stream_ref stream,
                                      std::uint32_t donor, std::uint64_t epoch,
                                      source_location where) {
  if (waits_already(own, donor, epoch)) return;
  detail::closed_epoch behind;
  for (detail::closed_epoch const& c : entries_[donor].closed) {
    behind = c;
    if (c.epoch >= epoch) break;
  }
  entries_[own].waited.reserve(entries_[own].waited.size() + 1);
  lock.unlock();
  cudaError_t const answer = driver_.wait(stream.get(), behind.event);
  lock.lock();
  check(answer, "cudaStreamWaitEvent", where);
  ++counters_.stream_waits;
  for (detail::remembered_wait& w : entries_[own].waited) {
    if (w.donor != donor) continue;
    w.epoch = behind.epoch;
    return;
  }
  entries_[own].waited.push_back(detail::remembered_wait{donor, behind.epoch});
}

/// Waits on the host until every free block that can be is everyone's.
inline void memory_pool::finish_all(pool_held& lock, std::uint64_t own_id, source_location where) {
  bool other_threads = false;
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    if (!close_epoch(lock, list, own_id, where) && entries_[list].handle == cudaStreamPerThread) {
      other_threads = true;
    }
    while (!entries_[list].closed.empty()) {
      static_cast<void>(has_passed(lock, entries_[list].closed.front().event, true, where));
      finish_oldest(lock, list);
    }
  }
  static_cast<void>(poll_shared(lock, true, where));
  if (!other_threads) return;
  // Only those threads could record their default streams' events; the legacy default stream stands
  // behind them all. It makes every blocking stream wait, so only here. cudaDeviceSynchronize would
  // break the captures of all other streams.
  detail::array<std::uint64_t> epochs(entries_.size());
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    if (entries_[list].handle == cudaStreamPerThread) epochs[list] = entries_[list].open_epoch++;
  }
  cudaEvent_t const event = record_event(lock, cudaStreamLegacy, where);
  if (event == nullptr) return;  // a blocking stream is capturing
  try {
    static_cast<void>(has_passed(lock, event, true, where));
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
  refuse_after_end("retire", where);
  if (is_capturing(stream, where)) {
    detail::throw_invalid_argument(
        "memory_pool: retire of a capturing stream; end the capture first", where);
  }
  std::uint64_t const id = id_of(stream, where);
  slow_section const section{*this, where};
  if (shard* const cache = cache_of(id)) {
    pool_held const lock{cache->lock};
    if (cache->stream_id == id) release_shard(*cache);
  }
  pool_held lock{lock_};
  std::uint32_t const list = lists_.find(id);
  if (list != detail::address_map::none) {
    retire_list(lock, list, id, where);
    lists_.erase(id);
  }
  if (stream.get() == cudaStreamPerThread) return;
  for (std::uint32_t l = heap::first_stream_list; l < entries_.size(); ++l) {
    // Noted in a capture, when its id could not be asked for.
    if (entries_[l].used && entries_[l].id == nobody && entries_[l].handle == stream.get()) {
      retire_list(lock, l, id, where);
    }
  }
}

/// Puts events behind all that a list has or will have from captures, and forgets its stream.
inline void memory_pool::retire_list(pool_held& lock, std::uint32_t list, std::uint64_t id,
                                     source_location where) {
  if (entries_[list].caches != 0) {
    lock.unlock();
    detail::throw_invalid_argument(
        "memory_pool: retire of a stream that has a memory_cache; end the cache first", where);
  }
  bool recorded = true;
  while (recorded && entries_[list].kept != 0) {
    std::uint32_t node = heap::none;
    for (detail::graph_memory const& g : graphs_) {
      for (detail::kept_block const& k : g.kept) node = k.list == list ? k.node : node;
    }
    pending_.reserve(pending_.size() + 1);
    cudaEvent_t const event = record_event(lock, entries_[list].handle, where);
    recorded = event != nullptr;
    if (!recorded) break;
    bool still = false;  // the graph may have ended meanwhile
    for (detail::graph_memory& g : graphs_) {
      for (detail::kept_block& k : g.kept) {
        if (k.node != node || k.list != list) continue;
        k.list = heap::none;
        --entries_[list].kept;
        still = true;
      }
    }
    if (still) {
      pending_.push_back(detail::pending_block{node, event});
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
