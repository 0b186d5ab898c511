// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/memory/detail/address_map.hpp>
#include <warpwright/memory/detail/pool/event_store.hpp>
#include <warpwright/memory/detail/pool/pool_heap.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// Which frees each stream of a pool has completed, and which streams wait for each other.
///
/// A stream's free blocks are the heap's list of the same number. A free gets the list's open
/// epoch. Recording an event closes the epoch: the number is incremented first, so that later frees
/// are not covered, then the event is recorded. When it has completed, the blocks up to that epoch
/// are ready for every stream.
class epoch_tracker {
 public:
  static constexpr std::uint64_t no_id = ~std::uint64_t{0};  // of a stream whose id is not known
  static constexpr std::uint32_t none = block_heap::none;

  epoch_tracker(pool_heap& heap, event_store& events)
      : heap_{heap}, events_{events}, entries_(block_heap::first_stream_list) {}
  ~epoch_tracker() { close(); }
  epoch_tracker(epoch_tracker const&) = delete;
  epoch_tracker& operator=(epoch_tracker const&) = delete;

  /// Destroys the events.
  void close() noexcept {
    for (entry& e : entries_) {
      for (closed_epoch const& c : e.closed) discard(cudaEventDestroy(c.event));
      e.closed.clear();
    }
  }

  // Lists. Everything below requires the heap's lock.

  /// The numbers of all lists of streams and graphs are from block_heap::first_stream_list to below
  /// this.
  [[nodiscard]] std::uint32_t end() const noexcept {
    return static_cast<std::uint32_t>(entries_.size());
  }
  /// @return the stream's list; none for a stream that has freed nothing
  [[nodiscard]] std::uint32_t find(std::uint64_t id) const noexcept {
    std::uint32_t const list = lists_.find(id);
    return list == address_map::none ? none : list;
  }
  /// @return the stream's list, created if there is none
  std::uint32_t list_of(std::uint64_t id, cudaStream_t handle) {
    std::uint32_t const list = find(id);
    return list != none ? list : new_list(id, handle);
  }
  /// Registers a stream; reuses the entry of a stream without blocks if there is one.
  /// @param id  no_id: of a capturing stream, found by its handle alone
  std::uint32_t new_list(std::uint64_t id, cudaStream_t handle);
  /// The list of a stream that was registered in a capture, without an id, or with one.
  [[nodiscard]] std::uint32_t find_by_handle(cudaStream_t handle) const noexcept;

  /// A list without a stream, for the blocks that one capture has freed on one of its streams.
  std::uint32_t add_graph_list();
  /// @pre the list is empty
  void remove_graph_list(std::uint32_t list) noexcept {
    entries_[list].used = false;
    entries_[list].of_graph = false;
  }

  [[nodiscard]] bool used(std::uint32_t list) const noexcept { return entries_[list].used; }
  [[nodiscard]] bool of_graph(std::uint32_t list) const noexcept { return entries_[list].of_graph; }
  [[nodiscard]] std::uint64_t id(std::uint32_t list) const noexcept { return entries_[list].id; }
  /// @return null for a retired stream and for a graph's list
  [[nodiscard]] cudaStream_t handle(std::uint32_t list) const noexcept {
    return entries_[list].handle;
  }
  /// The epoch of a block that is freed into the list now; 0 for a graph's list.
  [[nodiscard]] std::uint64_t open_epoch(std::uint32_t list) const noexcept {
    return entries_[list].of_graph ? 0 : entries_[list].open_epoch;
  }
  /// Frees a live block into a list.
  void free(std::uint32_t node, std::uint32_t list) noexcept {
    heap_.blocks.deallocate(node, list, open_epoch(list));
  }

  /// While a list is pinned, its number stays with its stream: caches and deferred frees pin it.
  void pin(std::uint32_t list) noexcept { ++entries_[list].pins; }
  void unpin(std::uint32_t list) noexcept { --entries_[list].pins; }
  /// Whether all lists stay with their streams, as a slow path needs, which releases the lock.
  void keep_lists(bool keep) noexcept { keeps_lists_.store(keep, memory_order::relaxed); }
  /// Caches that free blocks into the list.
  [[nodiscard]] unsigned& caches(std::uint32_t list) noexcept { return entries_[list].caches; }

  /// Counts a free on the per-thread default stream, whose event only that thread can record.
  /// @return whether an event is due
  bool epoch_is_full(std::uint32_t list, std::uint64_t freed_bytes) noexcept {
    entry& e = entries_[list];
    e.unrecorded_bytes += freed_bytes;
    return ++e.unrecorded_frees >= 64 || e.unrecorded_bytes >= (std::uint64_t{16} << 20U);
  }

  // Events. These release the lock around CUDA calls.

  /// Whether the list's newest event covers all its free blocks.
  [[nodiscard]] bool is_covered(std::uint32_t list) const noexcept {
    if (heap_.blocks.empty(list)) return true;
    array<closed_epoch> const& closed = entries_[list].closed;
    return !closed.empty() && closed.back().epoch >= heap_.blocks.newest_epoch(list);
  }
  /// Records an event behind the list's blocks if they need one and it is possible.
  /// @return is_covered(list)
  bool close_epoch(heap_guard& lock, std::uint32_t list, std::uint64_t own_id,
                   source_location where) {
    return is_covered(list) || record(lock, list, own_id, where);
  }
  /// Records an event on the list's stream, which covers everything freed there so far.
  /// @param own_id  of the calling stream: the default stream of another thread cannot be recorded
  /// @return false when the stream is retired, capturing, or another thread's default stream
  bool record(heap_guard& lock, std::uint32_t list, std::uint64_t own_id, source_location where);
  /// Queries the events and moves completed blocks to the ready list.
  /// @param record  record an event behind uncovered blocks, for this poll and later ones
  /// @return whether events are still pending, and whether one has completed
  struct poll_result {
    bool pending = false, completed = false;
  };
  poll_result poll(heap_guard& lock, std::uint64_t own_id, bool record, source_location where);
  /// As poll() of one list, without recording.
  void poll_list(heap_guard& lock, std::uint32_t list, poll_result& result, source_location where);
  /// Waits on the host until every free block that can become ready is ready.
  void synchronize(heap_guard& lock, std::uint64_t own_id, source_location where);

  /// What it costs to order a stream behind a donor's free.
  enum class order_cost { none, wait, record_and_wait, impossible };
  [[nodiscard]] order_cost cost_of(std::uint32_t own, std::uint32_t donor,
                                   std::uint64_t epoch) const noexcept;
  /// Makes the stream wait for the donor's first event behind `epoch`, unless it already does.
  /// @param own  the list of `stream`
  /// @pre such an event is recorded
  void wait_on(heap_guard& lock, std::uint32_t own, stream_ref stream, std::uint32_t donor,
               std::uint64_t epoch, source_location where);
  /// Moves every free block to the stream's list, behind one wait for each other stream.
  void merge_into(heap_guard& lock, std::uint32_t own, stream_ref stream, source_location where);

  /// Records an event behind all blocks of the list and takes the stream away from it.
  /// @return false when the stream is capturing
  bool retire(heap_guard& lock, std::uint32_t list, std::uint64_t id, source_location where) {
    if (!close_epoch(lock, list, id, where)) return false;
    entries_[list].handle = nullptr;
    return true;
  }
  void forget(std::uint64_t id) noexcept { lists_.erase(id); }

 private:
  /// An event behind all work of a stream that precedes its frees up to an epoch.
  struct closed_epoch {
    std::uint64_t epoch = 0;
    cudaEvent_t event = nullptr;
  };
  /// A wait that a stream has for another list's epoch. The list number is a sufficient key even
  /// when the list has passed to another stream, because a list's epochs only grow.
  struct recorded_wait {
    std::uint32_t donor = 0;
    std::uint64_t epoch = 0;
  };
  struct entry {
    std::uint64_t id = 0;
    cudaStream_t handle = nullptr;
    bool used = false;
    bool of_graph = false;
    std::uint64_t open_epoch = 1;  // keeps counting when the entry passes to another stream
    unsigned pins = 0;
    unsigned caches = 0;
    std::uint64_t unrecorded_frees = 0;
    std::uint64_t unrecorded_bytes = 0;
    array<closed_epoch> closed;  // oldest first
    array<recorded_wait> waited;
  };

  [[nodiscard]] bool is_idle(std::uint32_t list) const noexcept {
    entry const& e = entries_[list];
    return heap_.blocks.empty(list) && e.closed.empty() && e.caches == 0 && e.pins == 0 &&
           !e.of_graph;
  }
  std::uint32_t add_entry() {
    entries_.reserve(entries_.size() + 1);
    static_cast<void>(heap_.blocks.add_list());
    entries_.emplace_back();
    return end() - 1;
  }
  /// Moves blocks in portions of 256, with the lock released in between so that hits of other
  /// threads proceed.
  void move_blocks(heap_guard& lock, std::uint32_t from, std::uint64_t epoch, std::uint32_t to,
                   std::uint64_t new_epoch) noexcept {
    while (!heap_.blocks.move(from, epoch, to, new_epoch, 256)) unlocked const released{lock};
  }
  /// The list's oldest event has completed, or covers no block any more.
  void release_oldest(heap_guard& lock, std::uint32_t list) noexcept {
    move_blocks(lock, list, entries_[list].closed.front().epoch, block_heap::ready, 0);
    events_.give_back(entries_[list].closed.front().event);
    entries_[list].closed.remove_front(1);
  }
  /// Whether all blocks that a list's oldest event covers have left the list.
  [[nodiscard]] bool oldest_is_stale(std::uint32_t list) const noexcept {
    return heap_.blocks.empty(list) ||
           heap_.blocks.at(heap_.blocks.oldest(list)).epoch > entries_[list].closed.front().epoch;
  }
  [[nodiscard]] bool already_waits(std::uint32_t own, std::uint32_t donor,
                                   std::uint64_t epoch) const noexcept {
    for (recorded_wait const& w : entries_[own].waited) {
      if (w.donor == donor) return w.epoch >= epoch;
    }
    return false;
  }
  void synchronize_other_threads(heap_guard& lock, source_location where);

  pool_heap& heap_;
  event_store& events_;
  address_map lists_;     // stream id to list number
  array<entry> entries_;  // by list number; the first belong to the heap's special lists
  atomic<bool> keeps_lists_;
};

inline std::uint32_t epoch_tracker::new_list(std::uint64_t id, cudaStream_t handle) {
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

inline std::uint32_t epoch_tracker::find_by_handle(cudaStream_t handle) const noexcept {
  for (std::uint32_t list = block_heap::first_stream_list; list < end(); ++list) {
    entry const& e = entries_[list];
    bool const of_thread = handle == cudaStreamPerThread;  // one handle stands for many streams
    if (e.used && e.handle == handle && (!of_thread || e.id == no_id)) return list;
  }
  return none;
}

inline std::uint32_t epoch_tracker::add_graph_list() {
  std::uint32_t list = block_heap::first_stream_list;
  while (list < end() && entries_[list].used) ++list;
  if (list == end()) list = add_entry();
  entries_[list].id = no_id;
  entries_[list].handle = nullptr;
  entries_[list].used = true;
  entries_[list].of_graph = true;
  return list;
}

inline bool epoch_tracker::record(heap_guard& lock, std::uint32_t list, std::uint64_t own_id,
                                  source_location where) {
  cudaStream_t const handle = entries_[list].handle;
  bool const of_thread = handle == cudaStreamPerThread;
  if (handle == nullptr || (of_thread && (own_id == no_id || entries_[list].id != own_id))) {
    return false;
  }
  entries_[list].closed.reserve(entries_[list].closed.size() + 1);
  std::uint64_t const epoch = entries_[list].open_epoch++;  // frees from here on are not covered
  entries_[list].unrecorded_frees = 0;
  entries_[list].unrecorded_bytes = 0;
  cudaEvent_t const event = events_.record(lock, handle, where);
  if (event == nullptr) return false;
  entries_[list].closed.push_back(closed_epoch{epoch, event});
  return true;
}

inline void epoch_tracker::poll_list(heap_guard& lock, std::uint32_t list, poll_result& result,
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

inline epoch_tracker::poll_result epoch_tracker::poll(heap_guard& lock, std::uint64_t own_id,
                                                      bool record, source_location where) {
  poll_result result;
  for (std::uint32_t list = block_heap::first_stream_list; list < end(); ++list) {
    if (record && entries_[list].closed.empty()) {
      static_cast<void>(close_epoch(lock, list, own_id, where));
    }
    poll_list(lock, list, result, where);
  }
  return result;
}

inline void epoch_tracker::synchronize(heap_guard& lock, std::uint64_t own_id,
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

/// Only those threads can record events on their default streams, but the legacy default stream is
/// ordered behind all of them. An event on it makes every blocking stream wait, so it is used only
/// here. cudaDeviceSynchronize would invalidate the captures of all other streams.
inline void epoch_tracker::synchronize_other_threads(heap_guard& lock, source_location where) {
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
  for (std::uint32_t list = block_heap::first_stream_list; list < epochs.size(); ++list) {
    if (epochs[list] != 0) move_blocks(lock, list, epochs[list], block_heap::ready, 0);
  }
}

inline epoch_tracker::order_cost epoch_tracker::cost_of(std::uint32_t own, std::uint32_t donor,
                                                        std::uint64_t epoch) const noexcept {
  entry const& e = entries_[donor];
  if (already_waits(own, donor, epoch)) return order_cost::none;
  if (!e.closed.empty() && e.closed.back().epoch >= epoch) return order_cost::wait;
  bool const recordable = e.handle != nullptr && e.handle != cudaStreamPerThread;
  return recordable ? order_cost::record_and_wait : order_cost::impossible;
}

inline void epoch_tracker::wait_on(heap_guard& lock, std::uint32_t own, stream_ref stream,
                                   std::uint32_t donor, std::uint64_t epoch,
                                   source_location where) {
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
  check(result, "cudaStreamWaitEvent", where);
  ++heap_.counters.stream_waits;
  for (recorded_wait& w : entries_[own].waited) {
    if (w.donor != donor) continue;
    w.epoch = behind.epoch;
    return;
  }
  entries_[own].waited.push_back(recorded_wait{donor, behind.epoch});
}

inline void epoch_tracker::merge_into(heap_guard& lock, std::uint32_t own, stream_ref stream,
                                      source_location where) {
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

WARPWRIGHT_END
