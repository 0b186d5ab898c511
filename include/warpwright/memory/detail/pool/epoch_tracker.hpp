// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/event_before_capture.hpp>
#include <warpwright/core/detail/container/address_map.hpp>
#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/event_store.hpp>
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
class epoch_tracker : noncopyable {
 public:
  static constexpr std::uint64_t no_id = ~std::uint64_t{0};  // of a stream whose id is not known
  static constexpr std::uint32_t none = block_heap::none;

  epoch_tracker(pool_heap& heap, event_store& events)
      : heap_{heap}, events_{events}, entries_(block_heap::first_stream_list) {}
  ~epoch_tracker() { close(); }

  /// Destroys the events.
  void close() noexcept;

  // Lists. Everything below requires the heap's lock.

  /// The numbers of all lists of streams and graphs are from block_heap::first_stream_list to below
  /// this.
  [[nodiscard]] std::uint32_t end() const noexcept {
    return static_cast<std::uint32_t>(entries_.size());
  }
  /// @return the stream's list; none for a stream that has freed nothing
  [[nodiscard]] std::uint32_t find(std::uint64_t id) const noexcept;
  /// @return the stream's list, created if there is none
  std::uint32_t list_of(std::uint64_t id, cudaStream_t handle);
  /// Registers a stream; reuses the entry of a stream without blocks if there is one.
  /// @param id  no_id: of a capturing stream, found by its handle alone
  WARPWRIGHT_COLD std::uint32_t new_list(std::uint64_t id, cudaStream_t handle);
  /// The list of a stream that was registered in a capture, without an id, or with one.
  [[nodiscard]] std::uint32_t find_by_handle(cudaStream_t handle) const noexcept;

  /// A list without a stream, for the blocks that one capture has freed on one of its streams.
  std::uint32_t add_graph_list();
  /// @pre the list is empty
  void remove_graph_list(std::uint32_t list) noexcept;

  [[nodiscard]] bool used(std::uint32_t list) const noexcept { return entries_[list].used; }
  [[nodiscard]] bool of_graph(std::uint32_t list) const noexcept { return entries_[list].of_graph; }
  [[nodiscard]] std::uint64_t id(std::uint32_t list) const noexcept { return entries_[list].id; }
  /// @return null for a retired stream and for a graph's list
  [[nodiscard]] cudaStream_t handle(std::uint32_t list) const noexcept {
    return entries_[list].handle;
  }
  /// The bytes of the graphs' lists.
  [[nodiscard]] std::uint64_t bytes_of_graphs() const noexcept;
  /// The epoch of a block that is freed into the list now; 0 for a graph's list.
  [[nodiscard]] std::uint64_t open_epoch(std::uint32_t list) const noexcept;
  /// Frees a live block into a list.
  void free(std::uint32_t node, std::uint32_t list) noexcept;

  /// While a list is pinned, its number stays with its stream: caches and deferred frees pin it.
  void pin(std::uint32_t list) noexcept { ++entries_[list].pins; }
  void unpin(std::uint32_t list) noexcept { --entries_[list].pins; }
  /// Whether all lists stay with their streams, as a slow path needs, which releases the lock.
  void keep_lists(bool keep) noexcept { keeps_lists_.store(keep, memory_order::relaxed); }
  /// Caches that free blocks into the list.
  [[nodiscard]] unsigned& caches(std::uint32_t list) noexcept { return entries_[list].caches; }

  /// Counts a free on the per-thread default stream, whose event only that thread can record.
  /// @return whether an event is due
  bool epoch_is_full(std::uint32_t list, std::uint64_t freed_bytes) noexcept;

  // Events. These release the lock around CUDA calls.

  /// Whether the list's newest event covers all its free blocks.
  [[nodiscard]] bool is_covered(std::uint32_t list) const noexcept;
  /// Records an event behind the list's blocks if they need one and it is possible.
  /// @return is_covered(list)
  bool close_epoch(heap_guard& lock, std::uint32_t list, std::uint64_t own_id,
                   source_location where);
  /// Records an event on the list's stream, which covers everything freed there so far. In a
  /// capture of the library that is the event recorded before it: later frees are the graph's.
  /// @param own_id  of the calling stream: the default stream of another thread cannot be recorded
  /// @return false when the stream is retired, capturing otherwise, or another thread's default
  ///   stream
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
  /// @return when the list's newest event was recorded, in monotonic_nanoseconds(), if it was
  ///   before a capture that the stream is a part of; 0: it was not
  [[nodiscard]] std::uint64_t recorded_before_capture(std::uint32_t list) const noexcept;
  /// Waits on the host until every free block that can become ready is ready.
  void synchronize(heap_guard& lock, std::uint64_t own_id, source_location where);

  /// Waits on the host for all work of the device: what is freed by now becomes ready, also where
  /// no event could be recorded.
  void await_device(heap_guard& lock, source_location where);

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
  WARPWRIGHT_COLD void merge_into(heap_guard& lock, std::uint32_t own, stream_ref stream,
                                  source_location where);

  /// Records an event behind all blocks of the list and takes the stream away from it.
  /// @return false when the stream is capturing
  bool retire(heap_guard& lock, std::uint32_t list, std::uint64_t id, source_location where);
  void forget(std::uint64_t id) noexcept { lists_.erase(id); }

 private:
  /// An event behind all work of a stream that precedes its frees up to an epoch.
  struct closed_epoch {
    std::uint64_t epoch = 0;
    cudaEvent_t event = nullptr;
    shared_event* shared = nullptr;  // its owner; null: the event store
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

  [[nodiscard]] bool is_idle(std::uint32_t list) const noexcept;
  std::uint32_t add_entry();
  /// Moves blocks in portions of 256, with the lock released in between so that hits of other
  /// threads proceed.
  void move_blocks(heap_guard& lock, std::uint32_t from, std::uint64_t epoch, std::uint32_t to,
                   std::uint64_t new_epoch) noexcept;
  /// The list's oldest event has completed, or covers no block any more.
  void release_oldest(heap_guard& lock, std::uint32_t list) noexcept;
  /// Whether all blocks that a list's oldest event covers have left the list.
  [[nodiscard]] bool oldest_is_stale(std::uint32_t list) const noexcept;
  [[nodiscard]] bool already_waits(std::uint32_t own, std::uint32_t donor,
                                   std::uint64_t epoch) const noexcept;
  void synchronize_other_threads(heap_guard& lock, source_location where);
  /// Makes what was freed up to an epoch of each list ready. 0: nothing
  void make_ready(heap_guard& lock, array<std::uint64_t> const& epochs) noexcept;

  pool_heap& heap_;
  event_store& events_;
  address_map lists_;     // stream id to list number
  array<entry> entries_;  // by list number; the first belong to the heap's special lists
  atomic<bool> keeps_lists_;
  asks_for_events asks_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/pool/epoch_tracker_definitions.hpp>
#endif
