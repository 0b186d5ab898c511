// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/locks.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/memory/detail/block_heap.hpp>
#include <warpwright/memory/detail/capture_guard.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// An event behind all work of a stream that precedes its frees up to an epoch.
struct closed_epoch {
  std::uint64_t epoch = 0;
  cudaEvent_t event = nullptr;
};

/// A wait that a stream has for another list's epoch. The list number is a sufficient key even when
/// the list has passed to another stream, because a list's epochs only grow.
struct recorded_wait {
  std::uint32_t donor = 0;
  std::uint64_t epoch = 0;
};

/// A stream's state in a pool; the blocks it freed are the block_heap's list of the same number. A
/// free gets the open epoch; recording an event closes the epoch.
struct stream_entry {
  std::uint64_t id = 0;
  cudaStream_t handle = nullptr;  // null: retired stream, or a graph's list
  bool used = false;
  bool of_graph = false;         // the list of a graph_memory, not of a stream
  std::uint64_t open_epoch = 1;  // keeps counting when the entry passes to another stream
  unsigned retained = 0;         // retained_blocks that will move to this list
  unsigned caches = 0;  // caches that free blocks into this list; above 0 the list keeps its stream
  std::uint64_t unrecorded_frees = 0;
  std::uint64_t unrecorded_bytes = 0;
  array<closed_epoch> closed;  // oldest first
  array<recorded_wait> waited;

  /// Counts a free on the per-thread default stream, whose event only that thread can record.
  /// @return whether an event is due
  bool epoch_is_full(std::uint64_t freed_bytes) noexcept {
    unrecorded_bytes += freed_bytes;
    return ++unrecorded_frees >= 64 || unrecorded_bytes >= (std::uint64_t{16} << 20U);
  }
};

/// The stream on which the pool calls cudaMallocAsync.
struct upstream_stream {
  cudaStream_t handle = nullptr;
  upstream_stream() noexcept = default;
  ~upstream_stream() {
    if (handle != nullptr) discard(cudaStreamDestroy(handle));
  }
  upstream_stream(upstream_stream const&) = delete;
  upstream_stream& operator=(upstream_stream const&) = delete;
};

/// A live block that another stream uses, from record_use().
struct shared_use {
  std::uint32_t node = 0;
  std::uint64_t stream_id = 0;
  cudaStream_t handle = nullptr;
};

/// A freed block and the event of one stream that may still use it; one entry a stream.
struct pending_free {
  std::uint32_t node = 0;
  cudaEvent_t event = nullptr;
};

/// Set by CUDA when a graph and all its executables are destroyed. Shared by the pool and CUDA,
/// because either may release it first.
struct graph_lifetime {
  atomic<unsigned> references{2};
  atomic<bool> destroyed;

  static void release(graph_lifetime* lifetime) noexcept {
    if (lifetime->references.fetch_sub(1, memory_order::acq_rel) == 1) delete lifetime;
  }
  static void CUDART_CB on_destroyed(void* lifetime) {
    static_cast<graph_lifetime*>(lifetime)->destroyed.store(true, memory_order::release);
    release(static_cast<graph_lifetime*>(lifetime));
  }
  [[nodiscard]] bool is_destroyed() const noexcept { return destroyed.load(memory_order::acquire); }
};

/// The blocks that a capture freed on one of its streams, for that stream's later work in the same
/// capture.
struct graph_list {
  cudaStream_t handle = nullptr;
  std::uint32_t list = 0;
};

/// A freed block that is retained until its graph is destroyed.
struct retained_block {
  std::uint32_t node = 0;
  // The list of the stream on which a capture freed the block: work submitted to it before the
  // capture may still use the block. none: events in pending_frees_ cover the free.
  std::uint32_t list = block_heap::none;
};

/// The memory of one graph: its lists, and blocks retained until it is destroyed.
struct graph_memory {
  unsigned long long capture_id = 0;
  graph_lifetime* lifetime = nullptr;  // null: unused entry
  array<graph_list> lists;
  array<retained_block> retained;
};

/// Where a live block was allocated or a freed block was freed; recorded in checked mode.
struct call_site {
  char const* file = "an unknown location";
  int line = 0;
  operator text() const noexcept { return text{file, line}; }
};

struct freed_block {
  std::uint64_t address = 0;
  std::uint64_t requested_bytes = 0;
  call_site allocated;
  call_site freed;
};

}  // namespace detail

WARPWRIGHT_END
