// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/core/stream.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// An event that lives as long as anything refers to it.
struct shared_event {
  explicit shared_event(event&& recorded) noexcept : owner{static_cast<event&&>(recorded)} {}

  event owner;
  std::uint64_t recorded_at = monotonic_nanoseconds();
  atomic<unsigned> references{1};

  static void release(shared_event* object) noexcept {
    if (object->references.fetch_sub(1, memory_order::acq_rel) == 1) delete object;
  }
};

/// Lists an event behind the work of a stream that is about to capture: from then on none can be
/// recorded on it, and a memory pool could not tell when that work completes.
class event_before_capture : noncopyable {
 public:
  ~event_before_capture() { end(); }

  /// @pre the stream is not capturing
  void begin(stream_ref stream, int device, source_location where);
  void end() noexcept;

  /// @param id  the stream's; its handle suffices but for a per-thread default stream
  /// @return the event, for shared_event::release(); null if none is listed
  static shared_event* find(cudaStream_t stream, std::uint64_t id) noexcept;

 private:
  cudaStream_t stream_ = nullptr;
  std::uint64_t id_ = 0;  // of a per-thread default stream
  shared_event* event_ = nullptr;
  event_before_capture* next_ = nullptr;
};

/// One list for all libraries of a program, as captures_under_way.
struct event_before_capture_list {
  spin_lock lock;
  event_before_capture* first = nullptr;
  atomic<unsigned> pools{0};  // that may ask for an event: without any, captures record none
};
__attribute__((visibility("default"))) inline event_before_capture_list events_before_captures;

/// A pool that may ask for events, during its lifetime.
class asks_for_events : noncopyable {
 public:
  asks_for_events() noexcept { events_before_captures.pools.fetch_add(1, memory_order::relaxed); }
  ~asks_for_events() { events_before_captures.pools.fetch_sub(1, memory_order::relaxed); }
};

inline void event_before_capture::begin(stream_ref stream, int device, source_location where) {
  end();
  if (events_before_captures.pools.load(memory_order::relaxed) == 0) return;
  scoped_device const scope{device_id{device}, where};
  if (stream.get() == cudaStreamPerThread) id_ = stream.id(where);
  event recorded{where};
  recorded.record(stream.get(), where);
  event_ = new shared_event{static_cast<event&&>(recorded)};
  stream_ = stream.get();
  unique_lock<spin_lock> const guard{events_before_captures.lock};
  next_ = events_before_captures.first;
  events_before_captures.first = this;
}

inline void event_before_capture::end() noexcept {
  if (event_ == nullptr) return;
  {
    unique_lock<spin_lock> const guard{events_before_captures.lock};
    event_before_capture** at = &events_before_captures.first;
    while (*at != this) at = &(*at)->next_;
    *at = next_;
  }
  shared_event::release(exchange(event_, nullptr));
}

inline shared_event* event_before_capture::find(cudaStream_t stream, std::uint64_t id) noexcept {
  unique_lock<spin_lock> const guard{events_before_captures.lock};
  for (event_before_capture const* at = events_before_captures.first; at != nullptr;
       at = at->next_) {
    if (at->stream_ != stream || (stream == cudaStreamPerThread && at->id_ != id)) continue;
    at->event_->references.fetch_add(1, memory_order::relaxed);
    return at->event_;
  }
  return nullptr;
}

}  // namespace detail

WARPWRIGHT_END
