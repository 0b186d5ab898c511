// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/pool/epoch_tracker.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE void epoch_tracker::close() noexcept {
  for (entry& e : entries_) {
    for (closed_epoch const& c : e.closed) {
      if (c.shared != nullptr) {
        shared_event::release(c.shared);
      } else {
        discard(cudaEventDestroy(c.event));
      }
    }
    e.closed.clear();
  }
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t epoch_tracker::find(
    std::uint64_t id) const noexcept {
  std::uint32_t const list = lists_.find(id);
  return list == address_map::none ? none : list;
}

WARPWRIGHT_INLINE std::uint32_t epoch_tracker::list_of(std::uint64_t id, cudaStream_t handle) {
  std::uint32_t const list = find(id);
  return list != none ? list : new_list(id, handle);
}

WARPWRIGHT_INLINE void epoch_tracker::remove_graph_list(std::uint32_t list) noexcept {
  entries_[list].used = false;
  entries_[list].of_graph = false;
}

WARPWRIGHT_INLINE std::uint64_t epoch_tracker::bytes_of_graphs() const noexcept {
  std::uint64_t bytes = 0;
  for (std::uint32_t list = block_heap::first_stream_list; list < end(); ++list) {
    if (entries_[list].of_graph) bytes += heap_.blocks.bytes_in(list);
  }
  return bytes;
}

WARPWRIGHT_INLINE std::uint64_t epoch_tracker::open_epoch(std::uint32_t list) const noexcept {
  return entries_[list].of_graph ? 0 : entries_[list].open_epoch;
}

WARPWRIGHT_INLINE void epoch_tracker::free(std::uint32_t node, std::uint32_t list) noexcept {
  heap_.blocks.deallocate(node, list, open_epoch(list));
}

WARPWRIGHT_INLINE bool epoch_tracker::epoch_is_full(std::uint32_t list,
                                                    std::uint64_t freed_bytes) noexcept {
  entry& e = entries_[list];
  e.unrecorded_bytes += freed_bytes;
  return ++e.unrecorded_frees >= 64 || e.unrecorded_bytes >= (std::uint64_t{16} << 20U);
}

WARPWRIGHT_INLINE bool epoch_tracker::is_covered(std::uint32_t list) const noexcept {
  if (heap_.blocks.empty(list)) return true;
  array<closed_epoch> const& closed = entries_[list].closed;
  return !closed.empty() && closed.back().epoch >= heap_.blocks.newest_epoch(list);
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE bool epoch_tracker::close_epoch(heap_guard& lock,
                                                                      std::uint32_t list,
                                                                      std::uint64_t own_id,
                                                                      source_location where) {
  return is_covered(list) || record(lock, list, own_id, where);
}

WARPWRIGHT_INLINE bool epoch_tracker::retire(heap_guard& lock, std::uint32_t list, std::uint64_t id,
                                             source_location where) {
  if (!close_epoch(lock, list, id, where)) return false;
  entries_[list].handle = nullptr;
  return true;
}

WARPWRIGHT_INLINE bool epoch_tracker::is_idle(std::uint32_t list) const noexcept {
  entry const& e = entries_[list];
  return heap_.blocks.empty(list) && e.closed.empty() && e.caches == 0 && e.pins == 0 &&
         !e.of_graph;
}

WARPWRIGHT_INLINE std::uint32_t epoch_tracker::add_entry() {
  entries_.reserve(entries_.size() + 1);
  static_cast<void>(heap_.blocks.add_list());
  entries_.emplace_back();
  return end() - 1;
}

WARPWRIGHT_INLINE void epoch_tracker::move_blocks(heap_guard& lock, std::uint32_t from,
                                                  std::uint64_t epoch, std::uint32_t to,
                                                  std::uint64_t new_epoch) noexcept {
  while (!heap_.blocks.move(from, epoch, to, new_epoch, 256)) unlocked const released{lock};
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void epoch_tracker::release_oldest(
    heap_guard& lock, std::uint32_t list) noexcept {
  closed_epoch const oldest = entries_[list].closed.front();
  move_blocks(lock, list, oldest.epoch, block_heap::ready, 0);
  entries_[list].closed.remove_front(1);
  if (oldest.shared == nullptr) return events_.give_back(oldest.event);
  unlocked const released{lock};
  shared_event::release(oldest.shared);
}

WARPWRIGHT_INLINE bool epoch_tracker::oldest_is_stale(std::uint32_t list) const noexcept {
  return heap_.blocks.empty(list) ||
         heap_.blocks.at(heap_.blocks.oldest(list)).epoch > entries_[list].closed.front().epoch;
}

WARPWRIGHT_INLINE bool epoch_tracker::already_waits(std::uint32_t own, std::uint32_t donor,
                                                    std::uint64_t epoch) const noexcept {
  for (recorded_wait const& w : entries_[own].waited) {
    if (w.donor == donor) return w.epoch >= epoch;
  }
  return false;
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t epoch_tracker::new_list(std::uint64_t id,
                                                                            cudaStream_t handle) {
  std::uint32_t list = block_heap::first_stream_list;
  for (; list < end(); ++list) {
    entry const& e = entries_[list];
    if (!e.used) break;
    // Entries of streams that are only momentarily idle are reused only when there are many.
    if (is_idle(list) && !keeps_lists_.load(memory_order::relaxed) &&
        (e.handle == nullptr || entries_.size() > 64)) {
      break;
    }
  }
  lists_.reserve(lists_.size() + 1);
  if (list == end()) list = add_entry();
  entry& e = entries_[list];
  if (e.used && e.handle != nullptr) lists_.erase(e.id);  // a retired stream's is erased already
  e.id = id;
  e.handle = handle;
  e.used = true;
  e.unrecorded_frees = 0;
  e.unrecorded_bytes = 0;
  e.waited.clear();
  if (id != no_id) lists_.insert(id, list);
  return list;
}

WARPWRIGHT_INLINE std::uint32_t epoch_tracker::find_by_handle(cudaStream_t handle) const noexcept {
  for (std::uint32_t list = block_heap::first_stream_list; list < end(); ++list) {
    entry const& e = entries_[list];
    bool const of_thread = handle == cudaStreamPerThread;  // one handle stands for many streams
    if (e.used && e.handle == handle && (!of_thread || e.id == no_id)) return list;
  }
  return none;
}

WARPWRIGHT_INLINE std::uint32_t epoch_tracker::add_graph_list() {
  std::uint32_t list = block_heap::first_stream_list;
  while (list < end() && entries_[list].used) ++list;
  if (list == end()) list = add_entry();
  entries_[list].id = no_id;
  entries_[list].handle = nullptr;
  entries_[list].used = true;
  entries_[list].of_graph = true;
  return list;
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE bool epoch_tracker::record(heap_guard& lock,
                                                                 std::uint32_t list,
                                                                 std::uint64_t own_id,
                                                                 source_location where) {
  cudaStream_t const handle = entries_[list].handle;
  if (handle == nullptr) return false;
  entries_[list].closed.reserve(entries_[list].closed.size() + 1);
  shared_event* shared = nullptr;
  bool const recordable =
      handle != cudaStreamPerThread || (own_id != no_id && entries_[list].id == own_id);
  if (!recordable) {
    shared = event_before_capture::find(handle, entries_[list].id);
    if (shared == nullptr) return false;
  }
  std::uint64_t const epoch = entries_[list].open_epoch++;  // frees from here on are not covered
  entries_[list].unrecorded_frees = 0;
  entries_[list].unrecorded_bytes = 0;
  cudaEvent_t const event = recordable ? events_.record(lock, handle, where) : nullptr;
  // Sought behind the number's increment: what has the old number was freed before that capture.
  if (event == nullptr && shared == nullptr) {
    shared = event_before_capture::find(handle, entries_[list].id);
    if (shared == nullptr) return false;
  }
  entries_[list].closed.push_back(
      closed_epoch{epoch, shared != nullptr ? shared->owner.get() : event, shared});
  return true;
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void epoch_tracker::poll_list(heap_guard& lock,
                                                                    std::uint32_t list,
                                                                    poll_result& result,
                                                                    source_location where) {
  while (!entries_[list].closed.empty()) {
    if (!oldest_is_stale(list)) {
      if (!events_.completed(lock, entries_[list].closed.front().event, false, where)) {
        result.pending = true;
        return;
      }
      result.completed = true;
    }
    release_oldest(lock, list);
  }
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE epoch_tracker::poll_result epoch_tracker::poll(
    heap_guard& lock, std::uint64_t own_id, bool record, source_location where) {
  poll_result result;
  for (std::uint32_t list = block_heap::first_stream_list; list < end(); ++list) {
    if (record && entries_[list].closed.empty()) {
      static_cast<void>(close_epoch(lock, list, own_id, where));
    }
    poll_list(lock, list, result, where);
  }
  return result;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void epoch_tracker::synchronize(heap_guard& lock,
                                                                  std::uint64_t own_id,
                                                                  source_location where) {
  bool other_threads = false;
  for (std::uint32_t list = block_heap::first_stream_list; list < end(); ++list) {
    if (!close_epoch(lock, list, own_id, where) && entries_[list].handle == cudaStreamPerThread) {
      other_threads = true;
    }
    while (!entries_[list].closed.empty()) {
      static_cast<void>(events_.completed(lock, entries_[list].closed.front().event, true, where));
      release_oldest(lock, list);
    }
  }
  if (other_threads) synchronize_other_threads(lock, where);
}

WARPWRIGHT_INLINE std::uint64_t epoch_tracker::recorded_before_capture(
    std::uint32_t list) const noexcept {
  array<closed_epoch> const& closed = entries_[list].closed;
  bool const is_shared = !closed.empty() && closed.back().shared != nullptr;
  return is_shared ? closed.back().shared->recorded_at : 0;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void epoch_tracker::await_device(heap_guard& lock,
                                                                   source_location where) {
  array<std::uint64_t> epochs(entries_.size());
  for (std::uint32_t list = block_heap::first_stream_list; list < end(); ++list) {
    if (entries_[list].of_graph || heap_.blocks.empty(list)) continue;
    epochs[list] = entries_[list].open_epoch++;
  }
  cudaError_t result = cudaSuccess;
  {
    unlocked const released{lock};
    result = wait_for_running_work();
  }
  if (result == cudaErrorMemoryAllocation) return;
  check(result, "cudaFree", where);
  make_ready(lock, epochs);
}

/// Only those threads can record events on their default streams, but the legacy default stream is
/// ordered behind all of them. An event on it makes every blocking stream wait, so it is used only
/// here. cudaDeviceSynchronize would invalidate the captures of all other streams.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void epoch_tracker::synchronize_other_threads(
    heap_guard& lock, source_location where) {
  array<std::uint64_t> epochs(entries_.size());
  for (std::uint32_t list = block_heap::first_stream_list; list < end(); ++list) {
    if (entries_[list].handle == cudaStreamPerThread) epochs[list] = entries_[list].open_epoch++;
  }
  cudaEvent_t const event = events_.record(lock, cudaStreamLegacy, where);
  if (event == nullptr) return;  // a blocking stream is capturing
  try {
    static_cast<void>(events_.completed(lock, event, true, where));
  } catch (...) {
    events_.give_back(event);
    throw;
  }
  events_.give_back(event);
  make_ready(lock, epochs);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void epoch_tracker::make_ready(
    heap_guard& lock, array<std::uint64_t> const& epochs) noexcept {
  for (std::uint32_t list = block_heap::first_stream_list; list < epochs.size(); ++list) {
    if (epochs[list] != 0) move_blocks(lock, list, epochs[list], block_heap::ready, 0);
  }
}

WARPWRIGHT_INLINE epoch_tracker::order_cost epoch_tracker::cost_of(
    std::uint32_t own, std::uint32_t donor, std::uint64_t epoch) const noexcept {
  entry const& e = entries_[donor];
  if (already_waits(own, donor, epoch)) return order_cost::none;
  if (!e.closed.empty() && e.closed.back().epoch >= epoch) return order_cost::wait;
  bool const recordable = e.handle != nullptr && e.handle != cudaStreamPerThread;
  return recordable ? order_cost::record_and_wait : order_cost::impossible;
}

WARPWRIGHT_INLINE void epoch_tracker::wait_on(heap_guard& lock, std::uint32_t own,
                                              stream_ref stream, std::uint32_t donor,
                                              std::uint64_t epoch, source_location where) {
  if (already_waits(own, donor, epoch)) return;
  closed_epoch behind;
  for (closed_epoch const& c : entries_[donor].closed) {
    behind = c;
    if (c.epoch >= epoch) break;
  }
  entries_[own].waited.reserve(entries_[own].waited.size() + 1);
  cudaError_t result = cudaSuccess;
  {
    unlocked const released{lock};
    result = heap_.driver.wait(stream.get(), behind.event);
  }
  check_of_stream(result, "cudaStreamWaitEvent", where);
  ++heap_.counters.stream_waits;
  for (recorded_wait& w : entries_[own].waited) {
    if (w.donor != donor) continue;
    w.epoch = behind.epoch;
    return;
  }
  entries_[own].waited.push_back(recorded_wait{donor, behind.epoch});
}

WARPWRIGHT_INLINE void epoch_tracker::merge_into(heap_guard& lock, std::uint32_t own,
                                                 stream_ref stream, source_location where) {
  for (std::uint32_t list = block_heap::first_stream_list; list < end(); ++list) {
    if (list == own || heap_.blocks.empty(list) || entries_[list].of_graph) continue;
    static_cast<void>(close_epoch(lock, list, entries_[own].id, where));
    if (entries_[list].closed.empty()) continue;
    std::uint64_t const epoch = entries_[list].closed.back().epoch;
    wait_on(lock, own, stream, list, epoch, where);
    move_blocks(lock, list, epoch, own, entries_[own].open_epoch);
  }
  move_blocks(lock, block_heap::ready, 0, own, entries_[own].open_epoch);
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
