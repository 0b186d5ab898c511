// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/stream.hpp>
#include <warpwright/memory/detail/trace/trace_writers.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>

WARPWRIGHT_BEGIN

/// A memory resource that forwards every call to another one and records it.
///
/// The last calls stay in a ring of fixed size; a new call overwrites the oldest, and
/// lost_operations() counts the overwritten ones. They can be written at any time as a CSV, which
/// warpwright_replay reads, and as a snapshot for the viewer at pytorch.org/memory_viz. Failed
/// calls are not recorded.
///
/// @tparam Upstream  memory_pool, or a class with its allocate(), try_allocate(), deallocate() and
///   device()
/// @pre The file names in the callers' source_locations stay valid: string literals of libraries
///   that stay loaded.
///
/// **Threads:** any number may call any member at once. A free is recorded before it happens and an
/// allocation after it has happened, so that the records of an address are always in order.
/// **Capture:** as the upstream, with a stream_ref that carries its id; querying the id invalidates
/// the capture. **Cost:** no CUDA call and no memory allocation a call with such a stream_ref: one
/// clock reading, two atomic operations and one cache line.
template <class Upstream>
class trace_recorder {
 public:
  static constexpr std::size_t block_alignment_bytes = Upstream::block_alignment_bytes;
  static constexpr std::size_t maximum_alignment_bytes = Upstream::maximum_alignment_bytes;

  /// Creates a recorder.
  /// @param upstream  where the memory comes from; must outlive the recorder
  /// @param capacity  calls to keep, rounded up to a power of two of at least 16; 64 bytes each
  /// @throws std::bad_alloc  when the host has no memory for the ring
  explicit trace_recorder(Upstream& upstream, std::size_t capacity = std::size_t{1} << 18U)
      : upstream_{upstream}, ring_{capacity} {}
  trace_recorder(trace_recorder const&) = delete;
  trace_recorder& operator=(trace_recorder const&) = delete;

  /// As the upstream's allocate(), recorded.
  /// @throws what the upstream throws; nothing is recorded then
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes,
                               std::size_t alignment = block_alignment_bytes,
                               source_location where = source_location::current()) {
    if (bytes == 0) return upstream_.allocate(stream, bytes, alignment, where);
    stream_ref const resolved = stream.resolved(where);
    std::uint64_t const id = resolved.id(where);  // before the allocation, which a failure of this
                                                  // query would leak
    return record_allocation(upstream_.allocate(resolved, bytes, alignment, where), bytes, id,
                             where);
  }

  /// As the upstream's try_allocate(), recorded when it succeeds.
  /// @throws what the upstream throws; nothing is recorded then
  [[nodiscard]] void* try_allocate(stream_ref stream, std::size_t bytes,
                                   std::size_t alignment = block_alignment_bytes,
                                   source_location where = source_location::current()) {
    if (bytes == 0) return upstream_.try_allocate(stream, bytes, alignment, where);
    stream_ref const resolved = stream.resolved(where);
    std::uint64_t const id = resolved.id(where);
    return record_allocation(upstream_.try_allocate(resolved, bytes, alignment, where), bytes, id,
                             where);
  }

  /// As the upstream's deallocate(), recorded.
  /// @throws what the upstream throws; nothing is recorded then
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    if (pointer == nullptr) return;
    stream_ref const resolved = stream.resolved(where);
    record_guard guard{ring_, ring_.record(detail::trace_kind::deallocation, pointer, bytes,
                                           resolved.id(where), where)};
    upstream_.deallocate(resolved, pointer, bytes, where);
    guard.dismiss();
  }

  /// @return the upstream's device
  [[nodiscard]] device_id device() const noexcept { return upstream_.device(); }
  /// @return the upstream
  [[nodiscard]] Upstream& upstream() const noexcept { return upstream_; }
  /// @return the number of calls that the ring can hold
  [[nodiscard]] std::size_t capacity() const noexcept { return ring_.capacity(); }
  /// @return the number of calls recorded since construction or clear(), overwritten ones included
  [[nodiscard]] std::uint64_t recorded_operations() const noexcept { return ring_.recorded(); }
  /// @return the number of calls that were overwritten
  [[nodiscard]] std::uint64_t lost_operations() const noexcept { return ring_.lost(); }
  /// Discards all recorded calls. Blocks that are live now will have a free without a recorded
  /// allocation.
  void clear() noexcept { ring_.clear(); }

  /// Writes the calls as a trace: a comment with counters as JSON, then one line a call,
  /// "a,block,bytes,stream" or "f,block,bytes,stream", with blocks and streams counted from 0.
  ///
  /// The trace can be replayed: frees without a recorded allocation are omitted, and counted in the
  /// first line. May omit calls that other threads record at the same time.
  /// @param file  open for writing; flushed, not closed
  /// @throws std::runtime_error  when the file cannot be written, with the system's reason
  /// @throws std::bad_alloc      when the host has no memory for a copy of the ring
  void write_csv(std::FILE* file, source_location where = source_location::current()) const {
    detail::array<detail::trace_event> events;
    ring_.copy(events);
    detail::write_trace_csv(file, events, ring_.lost(), where);
  }

  /// Writes the calls and the blocks still live as a pickle of the dictionary of
  /// torch.cuda.memory._snapshot(), which the viewer at pytorch.org/memory_viz opens.
  ///
  /// The frames are the callers' files and lines. Segments are not recorded: the file shows the
  /// ranges that blocks cover, rounded to 2 MiB. Blocks whose allocations were overwritten are
  /// missing.
  /// @param file  open for writing in binary; flushed, not closed
  /// @throws std::runtime_error  when the file cannot be written, with the system's reason
  /// @throws std::bad_alloc      when the host has no memory for a copy of the ring
  void write_snapshot(std::FILE* file, source_location where = source_location::current()) const {
    detail::array<detail::trace_event> events;
    ring_.copy(events);
    detail::write_trace_snapshot(file, events, device().value(), where);
  }

 private:
  // Removes a record whose call throws.
  class record_guard {
   public:
    record_guard(detail::trace_ring& ring, std::uint64_t ticket) noexcept
        : ring_{ring}, ticket_{ticket} {}
    record_guard(record_guard const&) = delete;
    record_guard& operator=(record_guard const&) = delete;
    ~record_guard() {
      if (armed_) ring_.cancel(ticket_);
    }
    void dismiss() noexcept { armed_ = false; }

   private:
    detail::trace_ring& ring_;
    std::uint64_t ticket_;
    bool armed_ = true;
  };

  void* record_allocation(void* pointer, std::size_t bytes, std::uint64_t id,
                          source_location where) {
    if (pointer != nullptr) {
      ring_.record(detail::trace_kind::allocation, pointer, bytes, id, where);
    }
    return pointer;
  }

  Upstream& upstream_;
  detail::trace_ring ring_;
};

WARPWRIGHT_END
