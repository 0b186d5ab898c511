// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Where spans are recorded: chunks that a trace allocates and that threads take, one at a time.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/core/detail/thread/locks.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// Who is told of spans, a bit each.
inline constexpr std::uint32_t span_is_recorded = 1;
inline constexpr std::uint32_t span_is_nvtx = 2;
inline constexpr std::uint32_t span_is_followed = 4;  // innermost_span() is asked for

/// The first span asks whether a tool listens to NVTX, and takes that bit away if none does.
__attribute__((visibility("default"))) inline atomic<std::uint32_t> span_listeners{span_is_nvtx};

WARPWRIGHT_ALWAYS_INLINE bool anybody_listens() noexcept {
  return __builtin_expect(span_listeners.load(memory_order::relaxed) != 0, 0) != 0;
}

/// A span between its begin and its end.
struct open_span {
  char const* name;
  std::uint64_t begin;  // monotonic_nanoseconds()
  open_span* outer;
  std::uint32_t session;  // of the store; 0: not recorded
  bool on_stream;
};

/// @return the name of the calling thread's innermost span; null without one. Of spans that began
///   while somebody was told of spans, as by span_is_followed.
char const* innermost_span() noexcept;

struct span_record {
  char const* name;
  std::uint64_t begin, end;
  bool on_stream;
};

/// Spans of one thread, in the order of their ends. A thread keeps its chunk until it is full, also
/// from one trace to the next, so that nobody else ever writes to it. Chunks are never freed.
struct span_chunk {
  static constexpr std::uint32_t max_spans = 128;
  static constexpr std::uint32_t max_name_bytes = 255;

  atomic<std::uint32_t> used;  // records; written by the thread alone
  std::uint32_t first = 0;     // that belongs to the store's session
  std::uint32_t name_bytes = 0;
  std::uint32_t thread = 0;  // the low bits of pthread_self()
  atomic<bool> held;         // by a thread
  span_chunk* next = nullptr;
  span_record records[max_spans];
  char names[4096];
};

/// All chunks of the process.
struct span_store {
  mutex lock;  // of the lists
  span_chunk* chunks = nullptr;
  array<span_chunk*> free;  // of this session, taken in order
  atomic<std::uint32_t> taken;
  atomic<std::uint32_t> session;  // counts traces; 0: there was none
  atomic<std::size_t> dropped;    // spans without a place

  /// Begins a session with room for so many spans.
  /// @throws std::bad_alloc  and there is less room
  void begin_session(std::size_t max_spans);
};

/// Of the process, and never destroyed: threads may end spans while it ends.
span_store& the_span_store() noexcept;

void set_span_listener(std::uint32_t bit, bool on) noexcept;

}  // namespace detail

WARPWRIGHT_END
