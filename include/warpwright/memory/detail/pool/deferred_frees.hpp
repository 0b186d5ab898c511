// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/pool/epoch_tracker.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// Freed blocks that no stream may get yet: events of several streams, or graphs, hold them. In the
/// heap they stay live, with a tag, until nothing holds them any more.
///
/// All members require the heap's lock.
class deferred_frees : noncopyable {
 public:
  static constexpr std::uint32_t none = block_heap::none;

  deferred_frees(pool_heap& heap, event_store& events, epoch_tracker& streams) noexcept
      : heap_{heap}, events_{events}, streams_{streams} {}
  ~deferred_frees() { close(); }

  /// Destroys the events.
  void close() noexcept;

  // Live blocks that another stream uses, from record_use().

  void record_use(std::uint32_t node, std::uint64_t stream_id, cudaStream_t handle);
  [[nodiscard]] bool any_shared() const noexcept { return !uses_.empty(); }
  /// @param with  if not null, by this stream
  [[nodiscard]] bool is_shared(std::uint32_t node, cudaStream_t with = nullptr) const noexcept;

  /// Records an event on `stream` and on every stream that uses the block, which is freed when all
  /// have completed: call begin() or abandon() next.
  /// @param own_thread_id  the id of the calling thread's default stream, if one of them is such
  /// @throws std::invalid_argument  when one of the streams is capturing; nothing is recorded then
  WARPWRIGHT_COLD void record_events(heap_guard& lock, std::uint32_t node, stream_ref stream,
                                     std::uint64_t own_thread_id, source_location where);
  /// Removes the events of record_events().
  void abandon(std::uint32_t node) noexcept;

  /// Reserves host memory, so that begin() cannot fail.
  void reserve() { blocks_.reserve(blocks_.size() + 1); }
  /// Counts a live block as freed. It is reusable once its events have completed and `graphs` calls
  /// of release() were made.
  /// @param list  the list of the stream whose work may still use it then; none: no stream's
  /// @pre reserve()
  WARPWRIGHT_COLD void begin(std::uint32_t node, unsigned graphs, std::uint32_t list) noexcept;
  /// One graph, or one event, holds the block no more.
  WARPWRIGHT_COLD void release(std::uint32_t node) noexcept;

  /// Releases blocks whose events have completed.
  /// @param wait  wait on the host for them
  /// @return whether events are still pending, and whether one has completed
  epoch_tracker::poll_result poll(heap_guard& lock, bool wait, source_location where);

  /// Records events instead of the list behind all its blocks, because its stream ends.
  /// @return false when the stream is capturing
  bool retire(heap_guard& lock, std::uint32_t list, source_location where);

 private:
  struct shared_use {
    std::uint32_t node = 0;
    std::uint64_t stream_id = 0;
    cudaStream_t handle = nullptr;
  };
  struct pending_event {  // of one stream that may still use a freed block
    std::uint32_t node = 0;
    cudaEvent_t event = nullptr;
  };
  struct block {
    std::uint32_t node = 0;
    unsigned holds = 0;
    std::uint32_t list = none;
  };
  template <class T>
  static void remove(array<T>& from, std::size_t i) noexcept {
    from[i] = from.back();
    from.pop_back();
  }

  pool_heap& heap_;
  event_store& events_;
  epoch_tracker& streams_;
  array<shared_use> uses_;
  array<pending_event> pending_;
  array<block> blocks_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/pool/deferred_frees_definitions.hpp>
#endif
