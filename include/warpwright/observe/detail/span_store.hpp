// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/thread/atomic.hpp>

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
void set_span_listener(std::uint32_t bit, bool on) noexcept;

/// A span between its begin and its end.
struct open_span {
  char const* name;
  std::uint64_t begin;  // monotonic_nanoseconds(); 0: not recorded
  open_span* outer;
  bool on_stream;
};

/// @return the name of the calling thread's innermost span that somebody was told of, or null
char const* innermost_span() noexcept;

struct span_record {
  atomic<std::uint64_t> turn;  // of span_store::next, plus 1: written last
  char const* name;
  std::uint64_t begin, end;
  std::uint32_t thread;  // the low bits of pthread_self()
  bool on_stream;
};

/// Where the spans of one trace are recorded. Never freed, but used for the next trace if that
/// needs no more: a thread may write a record late. Then the record began before that trace.
struct span_store {
  static constexpr std::size_t name_bytes = 32;  // a span, for names that are copied
  static constexpr std::size_t max_name_bytes = 255;

  std::size_t capacity = 0;
  span_record* records = nullptr;  // a ring
  char* names = nullptr;
  std::uint64_t begin = 0;      // of the trace
  atomic<std::uint64_t> first;  // of the trace
  atomic<std::uint64_t> next;   // counts all spans
  atomic<std::size_t> names_used;
};

__attribute__((visibility("default"))) inline atomic<span_store*> the_span_store{nullptr};

/// @return an empty store for so many spans
/// @throws std::bad_alloc
span_store& begin_span_store(std::size_t max_spans);

}  // namespace detail

WARPWRIGHT_END
