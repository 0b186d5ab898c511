// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/stream.hpp>
#include <warpwright/memory/detail/block_heap.hpp>
#include <warpwright/memory/detail/capture_guard.hpp>
#include <warpwright/memory/detail/locks.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// A point of a stream's work behind all blocks that it freed up to an epoch.
struct closed_epoch {
  std::uint64_t epoch = 0;
  cudaEvent_t event = nullptr;
};

/// "This stream already waits for that one's epoch." A list's epochs only ever rise, so that its
/// number is key enough even after it has passed to another stream.
struct remembered_wait {
  std::uint32_t donor = 0;
  std::uint64_t epoch = 0;
};

/// What a pool knows about a stream; the blocks it freed are the block_heap's list of the same
/// number. A free is stamped with the open epoch; recording an event closes the epoch.
struct stream_entry {
  std::uint64_t id = 0;
  cudaStream_t handle = nullptr;  // null: the stream was retired, or this is a graph's list
  bool used = false;
  bool of_graph = false;         // no stream: a graph_memory's list
  std::uint64_t open_epoch = 1;  // goes on counting when the entry passes to another stream
  unsigned kept = 0;             // kept_blocks that become this list's
  unsigned caches = 0;  // that give blocks back to this entry's list: it stays this stream's
  std::uint64_t unrecorded_frees = 0;
  std::uint64_t unrecorded_bytes = 0;
  array<closed_epoch> closed;  // oldest first
  array<remembered_wait> waited;

  /// Counts a free of a thread's own default stream, whose event only that thread can record.
  /// @return whether it is time to
  bool epoch_is_full(std::uint64_t freed_bytes) noexcept {
    unrecorded_bytes += freed_bytes;
    return ++unrecorded_frees >= 64 || unrecorded_bytes >= (std::uint64_t{16} << 20U);
  }
};

/// A stream of the pool's own.
struct upstream_stream {
  cudaStream_t handle = nullptr;
  upstream_stream() noexcept = default;
  ~upstream_stream() {
    if (handle != nullptr) discard(cudaStreamDestroy(handle));
  }
  upstream_stream(upstream_stream const&) = delete;
  upstream_stream& operator=(upstream_stream const&) = delete;
};

/// A live block that a second stream uses too.
struct shared_use {
  std::uint32_t node = 0;
  std::uint64_t stream_id = 0;
  cudaStream_t handle = nullptr;
};

/// A freed block that a stream has yet to pass; one entry a stream. A graph may keep it, too.
struct pending_block {
  std::uint32_t node = 0;
  cudaEvent_t event = nullptr;
};

/// Told by CUDA when a graph and all its executables are gone; shared by the pool and CUDA, since
/// either may end first.
struct graph_ticket {
  unsigned references = 2;  // both by the compiler's atomics
  unsigned gone = 0;

  static void drop(graph_ticket* ticket) noexcept {
    if (__atomic_sub_fetch(&ticket->references, 1U, __ATOMIC_ACQ_REL) == 0) delete ticket;
  }
  static void CUDART_CB tell(void* ticket) {
    __atomic_store_n(&static_cast<graph_ticket*>(ticket)->gone, 1U, __ATOMIC_RELEASE);
    drop(static_cast<graph_ticket*>(ticket));
  }
  [[nodiscard]] bool is_gone() const noexcept {
    return __atomic_load_n(&gone, __ATOMIC_ACQUIRE) != 0;
  }
};

/// What a graph's capture freed on one of its streams, for that stream's later captured work.
struct graph_list {
  cudaStream_t handle = nullptr;
  std::uint32_t list = 0;
};

/// A block that was freed and is kept until its graph is gone.
struct kept_block {
  std::uint32_t node = 0;
  // Of the stream that a capture freed it on: what that was given before the capture may still use
  // the block. none: events in pending_ stand behind the free.
  std::uint32_t list = block_heap::none;
};

/// The memory of one graph: lists of its own, and blocks that are kept until it is gone.
struct graph_memory {
  unsigned long long capture_id = 0;
  graph_ticket* ticket = nullptr;  // null: the entry is unused
  array<graph_list> lists;
  array<kept_block> kept;
};

/// Where a live block was allocated, or a freed one freed; kept in checked mode only.
struct call_site {
  char const* file = "an unknown place";
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
