// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/trace/trace_ring.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>

WARPWRIGHT_BEGIN

namespace detail {

/// Writes recorded calls as a CSV, which warpwright_replay reads.
/// @throws std::runtime_error  when the file cannot be written
WARPWRIGHT_COLD void write_trace_csv(std::FILE* file, array<trace_event> const& events,
                                     std::uint64_t lost, source_location where,
                                     file_operations const& operations = stdio_operations);
/// Writes recorded calls as a pickle of the dictionary of torch.cuda.memory._snapshot().
/// @throws std::runtime_error  when the file cannot be written
WARPWRIGHT_COLD void write_trace_snapshot(std::FILE* file, array<trace_event> const& events,
                                          int device, source_location where,
                                          file_operations const& operations = stdio_operations);

}  // namespace detail

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
class trace_recorder : public detail::memory_adaptor<trace_recorder<Upstream>, Upstream> {
 public:
  static constexpr std::size_t max_alignment_bytes = Upstream::max_alignment_bytes;

  /// Creates a recorder.
  /// @param upstream  where the memory comes from; must outlive the recorder
  /// @param capacity  calls to keep, rounded up to a power of two of at least 16; 64 bytes each
  /// @throws std::bad_alloc  when the host has no memory for the ring
  explicit trace_recorder(Upstream& upstream, std::size_t capacity = std::size_t{1} << 18U)
      : base{upstream}, ring_{capacity} {}

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
    detail::write_trace_snapshot(file, events, this->device().value(), where);
  }

 private:
  using base = detail::memory_adaptor<trace_recorder, Upstream>;
  friend class detail::memory_interface<trace_recorder>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& original) {
    detail::memory_request request = original;
    request.stream = original.stream.resolved(original.where);
    // Before the allocation, which a failure of this query would leak.
    std::uint64_t const id = request.stream.id(request.where);
    void* const pointer = detail::allocate_from<Throws>(this->upstream(), request);
    if (pointer != nullptr) {
      ring_.record(detail::trace_kind::allocation, pointer, request.bytes, id, request.where);
    }
    return pointer;
  }
  void do_deallocate(stream_ref original, void* pointer, std::size_t bytes, source_location where) {
    stream_ref const stream = original.resolved(where);
    std::uint64_t const ticket =
        ring_.record(detail::trace_kind::deallocation, pointer, bytes, stream.id(where), where);
    try {
      this->upstream().deallocate(stream, pointer, bytes, where);
    } catch (...) {
      ring_.cancel(ticket);
      throw;
    }
  }

  detail::trace_ring ring_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/trace/trace_writers_definitions.hpp>
#endif
