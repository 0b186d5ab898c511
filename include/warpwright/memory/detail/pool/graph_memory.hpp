// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/pool/deferred_frees.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// The memory of a pool that CUDA graphs use.
///
/// A graph's work runs at every launch, so no event can cover it. What a capture allocates, and
/// what is freed in it, is kept until its graph and all executables made from it are destroyed and
/// their launches have completed. A user object that the graph retains reports this (CUDA C++
/// Programming Guide, "CUDA User Objects"). The caller passes no handle for it, and an abandoned
/// capture returns its memory in the same way.
///
/// A block's tag is its graph's number plus one. All members require the heap's lock.
class graph_memory : noncopyable {
 public:
  static constexpr std::uint32_t none = block_heap::none;

  graph_memory(pool_heap& heap, epoch_tracker& streams, deferred_frees& deferred) noexcept
      : heap_{heap}, streams_{streams}, deferred_{deferred} {}
  ~graph_memory();

  /// Whether a graph has memory of the pool.
  [[nodiscard]] bool any() const noexcept { return count_ != 0; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

  /// The graph that the stream is capturing into, entered at the capture's first call.
  /// @return none: the capture was invalidated, so its work will never run
  /// @pre the pool's slow path is serialised
  std::uint32_t graph_of(heap_guard& lock, stream_ref stream, source_location where);
  /// The list of the blocks that the graph's capture has freed on a stream, for that stream's later
  /// work in the same capture.
  std::uint32_t list_of(std::uint32_t number, cudaStream_t handle);
  /// As list_of(), but none where the capture has freed nothing there.
  [[nodiscard]] std::uint32_t find_list(std::uint32_t number, cudaStream_t handle) const noexcept;
  /// Gives an allocated block to a graph.
  /// @param left_bytes  what the pool can allocate after that
  void own(std::uint32_t node, std::uint32_t number,
           std::uint64_t left_bytes = ~std::uint64_t{0}) noexcept;
  /// Frees a block on a capturing stream: a block of the same graph is reusable in the capture, any
  /// other block is kept for the graph.
  /// @param number  from graph_of(); none: nothing runs that the capture has submitted
  void free(std::uint32_t node, std::uint32_t number, stream_ref stream, source_location where);
  /// Frees a block outside of a capture when its events have completed and its graph, if it has
  /// one, is destroyed.
  /// @pre deferred_frees::record_events()
  void free_behind_events(std::uint32_t node);

  /// Makes the memory of destroyed graphs reusable.
  /// @return whether there was one
  bool reclaim() noexcept;
  /// Waits until CUDA has reported a graph that is destroyed, or would have.
  /// @param in_use    graphs that are known to exist
  /// @param least_ns  how long it waits at least, as for one that still runs
  void await_reports(heap_guard& lock, std::size_t in_use, std::uint64_t least_ns,
                     source_location where);

 private:
  /// Set by CUDA when a graph and all its executables are destroyed. Shared by the pool and CUDA,
  /// because either may release it first.
  struct graph_lifetime {
    atomic<unsigned> references{2};
    atomic<bool> destroyed;

    static void release(graph_lifetime* object) noexcept {
      if (object->references.fetch_sub(1, memory_order::acq_rel) == 1) delete object;
    }
    static void CUDART_CB on_destroyed(void* object) {
      static_cast<graph_lifetime*>(object)->destroyed.store(true, memory_order::release);
      release(static_cast<graph_lifetime*>(object));
    }
    [[nodiscard]] bool is_destroyed() const noexcept {
      return destroyed.load(memory_order::acquire);
    }
  };
  struct freed_on {
    cudaStream_t handle = nullptr;
    std::uint32_t list = 0;
  };
  struct graph {
    unsigned long long capture_id = 0;
    graph_lifetime* lifetime = nullptr;  // null: unused entry
    array<freed_on> lists;
    array<std::uint32_t> kept;  // freed blocks that the graph holds
  };

  /// @return a user object that the caller owns, of `object`, which is deleted if that fails
  static cudaUserObject_t make_user_object(graph_lifetime* object, source_location where);
  graph_lifetime* retain_in(heap_guard& lock, cudaGraph_t captured, source_location where);
  /// The list of a capturing stream, whose id may be unknown: querying it would invalidate the
  /// capture.
  std::uint32_t capturing_list(stream_ref stream, source_location where);

  pool_heap& heap_;
  epoch_tracker& streams_;
  deferred_frees& deferred_;
  array<graph> graphs_;
  std::size_t count_ = 0;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/pool/graph_memory_definitions.hpp>
#endif
