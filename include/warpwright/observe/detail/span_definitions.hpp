// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/observe/span.hpp>

#include <warpwright/core/detail/clock.hpp>

#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__has_include) && !defined(NVTX_DISABLE)
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define WARPWRIGHT_HAS_NVTX 1
#endif
#endif
#ifndef WARPWRIGHT_HAS_NVTX
#define WARPWRIGHT_HAS_NVTX 0
#endif

WARPWRIGHT_BEGIN

namespace detail {

// Of one thread; trivial, so that reading it needs no check.
struct span_thread {
  span_chunk* chunk;
  open_span* innermost;
};

WARPWRIGHT_INLINE span_thread& this_span_thread() noexcept {
  static thread_local span_thread state{nullptr, nullptr};
  return state;
}

WARPWRIGHT_INLINE span_store& the_span_store() noexcept {
  alignas(span_store) static unsigned char memory[sizeof(span_store)];
  static auto* const store = new (static_cast<void*>(memory)) span_store;
  return *store;
}

WARPWRIGHT_INLINE char const* innermost_span() noexcept {
  open_span const* const innermost = this_span_thread().innermost;
  return innermost == nullptr ? nullptr : innermost->name;
}

WARPWRIGHT_INLINE void set_span_listener(std::uint32_t bit, bool on) noexcept {
  std::uint32_t before = span_listeners.load(memory_order::relaxed);
  while (!span_listeners.compare_exchange_weak(before, on ? before | bit : before & ~bit,
                                               memory_order::acq_rel, memory_order::relaxed)) {
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void span_store::begin_session(std::size_t max_spans) {
  unique_lock<mutex> const guard{lock};
  std::size_t const wanted = (max_spans + span_chunk::max_spans - 1) / span_chunk::max_spans;
  free.clear();
  for (span_chunk* chunk = chunks; chunk != nullptr; chunk = chunk->next) {
    if (chunk->held.load(memory_order::acquire)) {
      chunk->first = chunk->used.load(memory_order::acquire);
    } else {
      chunk->used.store(chunk->first = 0, memory_order::relaxed);
      chunk->name_bytes = 0;
      if (free.size() < wanted) free.push_back(chunk);
    }
  }
  free.reserve(wanted);
  while (free.size() < wanted) {
    auto* const chunk = static_cast<span_chunk*>(std::malloc(sizeof(span_chunk)));
    if (chunk == nullptr) throw std::bad_alloc{};
    std::memset(static_cast<void*>(chunk), 1, sizeof *chunk);  // no page fault while it is recorded
    new (static_cast<void*>(chunk)) span_chunk;
    chunk->next = chunks;
    chunks = chunk;
    free.push_back(chunk);
  }
  taken.store(0, memory_order::relaxed);
  dropped.store(0, memory_order::relaxed);
  session.fetch_add(1, memory_order::release);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void leave_chunk(void* chunk) noexcept {
  static_cast<span_chunk*>(chunk)->held.store(false, memory_order::release);
  this_span_thread().chunk = nullptr;
}

/// Takes a chunk for this thread, which gives it back at its end.
/// @return null: there is none left
WARPWRIGHT_COLD WARPWRIGHT_INLINE span_chunk* take_chunk() noexcept {
  struct end_of_thread {
    pthread_key_t key{};
    bool made = pthread_key_create(&key, leave_chunk) == 0;
  };
  static end_of_thread const end;
  span_store& store = the_span_store();
  span_thread& self = this_span_thread();
  if (self.chunk != nullptr) leave_chunk(self.chunk);
  // Beside the start of a session, which replaces the list.
  unique_lock<mutex> const guard{store.lock};
  std::uint32_t const index = store.taken.fetch_add(1, memory_order::relaxed);
  if (index >= store.free.size()) return nullptr;
  self.chunk = store.free[index];
  self.chunk->thread = static_cast<std::uint32_t>(pthread_self());
  self.chunk->held.store(true, memory_order::release);
  if (end.made) pthread_setspecific(end.key, self.chunk);
  return self.chunk;
}

WARPWRIGHT_INLINE span_chunk* chunk_with_room(std::uint32_t name_bytes) noexcept {
  span_chunk* const chunk = this_span_thread().chunk;
  bool const room = chunk != nullptr &&
                    chunk->used.load(memory_order::relaxed) < span_chunk::max_spans &&
                    chunk->name_bytes + name_bytes <= sizeof chunk->names;
  return room ? chunk : take_chunk();
}

}  // namespace detail

WARPWRIGHT_INLINE void span::begin(char const* name, kind what) noexcept {
  listeners_ = detail::span_listeners.load(detail::memory_order::acquire);
  if ((listeners_ & detail::span_is_nvtx) != 0) {
#if WARPWRIGHT_HAS_NVTX
    bool const heard = nvtxRangePushA(name) != NVTX_NO_PUSH_POP_TRACKING;
#else
    bool const heard = false;
#endif
    if (!heard) {
      detail::set_span_listener(detail::span_is_nvtx, false);
      listeners_ &= ~detail::span_is_nvtx;
      if (listeners_ == 0) return;
    }
  }
  detail::span_thread& self = detail::this_span_thread();
  bool const recorded = (listeners_ & detail::span_is_recorded) != 0;
  open_ = {name, 0, self.innermost, 0, what == kind::on_stream};
  self.innermost = &open_;
  if (!recorded) return;
  open_.session = detail::the_span_store().session.load(detail::memory_order::relaxed);
  open_.begin = detail::monotonic_nanoseconds();
}

WARPWRIGHT_INLINE void span::begin_copied(char const* name, std::size_t bytes, kind what) noexcept {
  char const* kept = "(name not kept)";
  std::uint32_t const now = detail::span_listeners.load(detail::memory_order::relaxed);
  if ((now & detail::span_is_recorded) != 0) {
    constexpr std::size_t most = detail::span_chunk::max_name_bytes;
    auto const length = static_cast<std::uint32_t>(bytes < most ? bytes : most);
    if (detail::span_chunk* const chunk = detail::chunk_with_room(length + 1)) {
      char* const copy = chunk->names + chunk->name_bytes;
      std::memcpy(copy, name, length);
      copy[length] = '\0';
      chunk->name_bytes += length + 1;
      kept = copy;
    }
  }
  begin(now == detail::span_is_nvtx ? name : kept, what);
  if (now == detail::span_is_nvtx) open_.name = kept;
}

WARPWRIGHT_INLINE void span::end() noexcept {
#if WARPWRIGHT_HAS_NVTX
  if ((listeners_ & detail::span_is_nvtx) != 0) nvtxRangePop();
#endif
  detail::this_span_thread().innermost = open_.outer;
  if (open_.session == 0) return;
  std::uint64_t const now = detail::monotonic_nanoseconds();
  detail::span_store& store = detail::the_span_store();
  if (open_.session != store.session.load(detail::memory_order::relaxed)) return;
  detail::span_chunk* const chunk = detail::chunk_with_room(0);
  if (chunk == nullptr) {
    store.dropped.fetch_add(1, detail::memory_order::relaxed);
    return;
  }
  std::uint32_t const at = chunk->used.load(detail::memory_order::relaxed);
  chunk->records[at] = {open_.name, open_.begin, now, open_.on_stream};
  chunk->used.store(at + 1, detail::memory_order::release);
}

WARPWRIGHT_END
