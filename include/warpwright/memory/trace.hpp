// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/stream.hpp>
#include <warpwright/memory/detail/trace_writers.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>

WARPWRIGHT_BEGIN

/// A memory resource that hands every call on to another one and remembers it.
///
/// The last calls stay in a ring of fixed size; the oldest make room, and lost_operations() says
/// how many did. They can be written at any time as a CSV, which warpwright_replay reads, and as a
/// snapshot for the viewer at pytorch.org/memory_viz. What failed is not recorded.
///
/// @tparam Upstream  memory_pool, or anything with its allocate(), try_allocate(), deallocate() and
///   device()
/// @pre the files' names that callers pass with their source_location stay where they are (string
///   literals; a library that was unloaded takes its own along)
///
/// **Threads:** any number may call any member at once. A free is recorded before it happens and an
/// allocation after it has happened, so that the record of an address is always in order.
/// **Capture:** as the upstream's, with a stream_ref that carries its id; asking for it breaks the
/// capture. **Cost:** no CUDA call and no memory request a call with such a stream_ref: one clock
/// reading, two atomic operations and one cache line.
template <class Upstream>
class trace_recorder {
 public:
  static constexpr std::size_t block_alignment_bytes = Upstream::block_alignment_bytes;
  static constexpr std::size_t maximum_alignment_bytes = Upstream::maximum_alignment_bytes;

  /// @param upstream  what memory comes from; must outlive the recorder
  /// @param capacity  calls to keep, rounded up to a power of two of at least 16; 64 bytes each
  /// @throws std::bad_alloc  when the host has no memory for them
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
    stream_ref const known = stream.resolved(where);
    std::uint64_t const id = known.id(where);  // before memory is there that a failure would lose
    return allocated(upstream_.allocate(known, bytes, alignment, where), bytes, id, where);
  }

  /// As the upstream's try_allocate(), recorded when it succeeds.
  /// @throws what the upstream throws; nothing is recorded then
  [[nodiscard]] void* try_allocate(stream_ref stream, std::size_t bytes,
                                   std::size_t alignment = block_alignment_bytes,
                                   source_location where = source_location::current()) {
    if (bytes == 0) return upstream_.try_allocate(stream, bytes, alignment, where);
    stream_ref const known = stream.resolved(where);
    std::uint64_t const id = known.id(where);
    return allocated(upstream_.try_allocate(known, bytes, alignment, where), bytes, id, where);
  }

  /// As the upstream's deallocate(), recorded.
  /// @throws what the upstream throws; nothing is recorded then
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) {
    if (pointer == nullptr) return;
    stream_ref const known = stream.resolved(where);
    undo guard{ring_, ring_.record(detail::trace_kind::deallocation, pointer, bytes,
                                   known.id(where), where)};
    upstream_.deallocate(known, pointer, bytes, where);
    guard.dismiss();
  }

  /// @return the upstream's device
  [[nodiscard]] device_id device() const noexcept { return upstream_.device(); }
  /// @return where the memory comes from
  [[nodiscard]] Upstream& upstream() const noexcept { return upstream_; }
  /// @return calls that the ring can hold
  [[nodiscard]] std::size_t capacity() const noexcept { return ring_.capacity(); }
  /// @return calls recorded since construction or clear(), lost ones included
  [[nodiscard]] std::uint64_t recorded_operations() const noexcept { return ring_.recorded(); }
  /// @return how many of them were the oldest when the ring was full
  [[nodiscard]] std::uint64_t lost_operations() const noexcept { return ring_.lost(); }
  /// Forgets all calls so far. Blocks that are live stay so, and their frees will have no
  /// allocation in the record.
  void clear() noexcept { ring_.clear(); }

  /// Writes the calls as a trace: a comment with figures as JSON, then one line a call,
  /// "a,block,bytes,stream" or "f,block,bytes,stream", with blocks and streams counted from 0.
  ///
  /// The result can be replayed: frees whose allocations were lost are left out, and counted in the
  /// first line. Calls recorded by other threads meanwhile may be missing.
  /// @param file  open for writing; flushed, not closed
  /// @throws std::runtime_error  when it cannot be written, with the system's reason
  /// @throws std::bad_alloc      when the host has no memory for a copy of the ring
  void write_csv(std::FILE* file, source_location where = source_location::current()) const {
    detail::array<detail::trace_event> events;
    ring_.copy(events);
    detail::write_trace_csv(file, events, ring_.lost(), where);
  }

  /// Writes the calls and what they left live as a pickle of the dictionary that
  /// torch.cuda.memory._snapshot() makes; the viewer at pytorch.org/memory_viz opens it.
  ///
  /// The callers' files and lines are its frames. Segments are not recorded: those shown are what
  /// the blocks cover, rounded to 2 MiB. Blocks whose allocations were lost are missing.
  /// @param file  open for writing in binary; flushed, not closed
  /// @throws std::runtime_error  when it cannot be written, with the system's reason
  /// @throws std::bad_alloc      when the host has no memory for a copy of the ring
  void write_snapshot(std::FILE* file, source_location where = source_location::current()) const {
    detail::array<detail::trace_event> events;
    ring_.copy(events);
    detail::write_trace_snapshot(file, events, device().value(), where);
  }

 private:
  // Takes a record back when the call that it stands for throws.
  class undo {
   public:
    undo(detail::trace_ring& ring, std::uint64_t ticket) noexcept : ring_{ring}, ticket_{ticket} {}
    undo(undo const&) = delete;
    undo& operator=(undo const&) = delete;
    ~undo() {
      if (armed_) ring_.cancel(ticket_);
    }
    void dismiss() noexcept { armed_ = false; }

   private:
    detail::trace_ring& ring_;
    std::uint64_t ticket_;
    bool armed_ = true;
  };

  void* allocated(void* pointer, std::size_t bytes, std::uint64_t id, source_location where) {
    if (pointer != nullptr) {
      ring_.record(detail::trace_kind::allocation, pointer, bytes, id, where);
    }
    return pointer;
  }

  Upstream& upstream_;
  detail::trace_ring ring_;
};

WARPWRIGHT_END
