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

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_INLINE open_span*& this_thread_span() noexcept {
  static thread_local open_span* innermost = nullptr;
  return innermost;
}

WARPWRIGHT_INLINE char const* innermost_span() noexcept {
  open_span const* const innermost = this_thread_span();
  return innermost == nullptr ? nullptr : innermost->name;
}

WARPWRIGHT_INLINE void set_span_listener(std::uint32_t bit, bool on) noexcept {
  std::uint32_t before = span_listeners.load(memory_order::relaxed);
  while (!span_listeners.compare_exchange_weak(before, on ? before | bit : before & ~bit,
                                               memory_order::acq_rel, memory_order::relaxed)) {
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE span_store& begin_span_store(std::size_t max_spans) {
  span_store* store = the_span_store.load(memory_order::relaxed);
  if (store == nullptr || store->capacity < max_spans) {
    std::size_t const record_bytes = max_spans * sizeof(span_record);
    std::size_t const bytes = record_bytes + max_spans * span_store::name_bytes;
    void* const memory = std::malloc(sizeof(span_store) + bytes);
    if (memory == nullptr) throw std::bad_alloc{};
    store = new (memory) span_store;
    auto* const records = static_cast<char*>(memory) + sizeof(span_store);
    std::memset(records, 0, bytes);  // no page fault while it is recorded
    store->records = reinterpret_cast<span_record*>(records);
    store->names = records + record_bytes;
    store->capacity = max_spans;
    store->next.store(1, memory_order::relaxed);
  }
  store->begin = monotonic_nanoseconds();
  store->names_used.store(0, memory_order::relaxed);
  store->first.store(store->next.load(memory_order::relaxed), memory_order::relaxed);
  the_span_store.store(store, memory_order::release);
  return *store;
}

}  // namespace detail

// Inlined, g++ warns of the address of a local span.
WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void span::begin(char const* name, kind what) noexcept {
  listeners_ = detail::span_listeners.load(detail::memory_order::acquire);
  if (listeners_ == 0) return;  // the last one has ended meanwhile: nobody is told of the end
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
  open_ = {name, 0, detail::this_thread_span(), what == kind::on_stream};
  detail::this_thread_span() = &open_;
  if ((listeners_ & detail::span_is_recorded) != 0) open_.begin = detail::monotonic_nanoseconds();
}

WARPWRIGHT_INLINE void span::begin_copied(char const* name, std::size_t bytes, kind what) noexcept {
  char const* kept = "(name not kept)";
  std::uint32_t const now = detail::span_listeners.load(detail::memory_order::acquire);
  if ((now & detail::span_is_recorded) != 0) {
    detail::span_store& store = *detail::the_span_store.load(detail::memory_order::acquire);
    constexpr std::size_t most = detail::span_store::max_name_bytes;
    std::size_t const length = bytes < most ? bytes : most;
    std::size_t const at = store.names_used.fetch_add(length + 1, detail::memory_order::relaxed);
    if (at + length < store.capacity * detail::span_store::name_bytes) {
      std::memcpy(store.names + at, name, length);
      store.names[at + length] = '\0';
      kept = store.names + at;
    }
  }
  begin(now == detail::span_is_nvtx ? name : kept, what);
  open_.name = kept;
}

WARPWRIGHT_INLINE void span::end() noexcept {
#if WARPWRIGHT_HAS_NVTX
  if ((listeners_ & detail::span_is_nvtx) != 0) nvtxRangePop();
#endif
  detail::this_thread_span() = open_.outer;
  if (open_.begin == 0) return;
  std::uint64_t const now = detail::monotonic_nanoseconds();
  detail::span_store& store = *detail::the_span_store.load(detail::memory_order::acquire);
  std::uint64_t const turn = store.next.fetch_add(1, detail::memory_order::relaxed);
  if (turn - store.first.load(detail::memory_order::relaxed) >= store.capacity) return;  // dropped
  detail::span_record& record = store.records[turn % store.capacity];
  record.name = open_.name;
  record.begin = open_.begin;
  record.end = now;
  record.thread = static_cast<std::uint32_t>(pthread_self());
  record.on_stream = open_.on_stream;
  record.turn.store(turn + 1, detail::memory_order::release);
}

WARPWRIGHT_END_DEFINITIONS
