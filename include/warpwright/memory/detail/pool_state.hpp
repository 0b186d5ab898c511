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
  cudaStream_t handle = nullptr;  // null: the stream was released
  bool used = false;
  std::uint64_t open_epoch = 1;  // goes on counting when the entry passes to another stream
  std::uint64_t unrecorded_frees = 0;
  std::uint64_t unrecorded_bytes = 0;
  array<closed_epoch> closed;  // oldest first
  array<remembered_wait> waited;
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
