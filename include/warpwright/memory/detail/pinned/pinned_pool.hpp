// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The members of pinned_pool. Every CUDA call is made with heap_lock_
// released.
#pragma once

#include <warpwright/core/detail/capture/stream_device.hpp>
#include <warpwright/memory/pinned.hpp>

#include <time.h>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE pinned_pool::pinned_pool(pinned_pool_options const& options,
                                           source_location where)
    : options_{options}, streams_(heap::first_stream_list) {
  std::uint64_t initial = 0;
  if (!heap::round_up(options.initial_bytes_, heap::granule_bytes, initial) ||
      initial > options.maximum_bytes_) {
    throw out_of_memory{report(options.initial_bytes_), where};
  }
  if (initial == 0) return;
  detail::relaxed_capture_mode const relaxed{where};
  heap_guard lock{heap_lock_};
  add_segment(lock, initial, where);
  if (reserved_bytes_ != 0) return;
  lock.unlock();
  throw out_of_memory{report(options.initial_bytes_), where};
}

WARPWRIGHT_INLINE pinned_pool::~pinned_pool() {
  detail::relaxed_capture_mode const relaxed;
  for (stream_entry const& entry : streams_) {
    for (pending_event const& each : entry.pending) {
      detail::discard(cudaEventSynchronize(each.marker.event));
      detail::discard(cudaEventDestroy(each.marker.event));
    }
  }
  for (device_event const& spare : spare_events_) detail::discard(cudaEventDestroy(spare.event));
  for (heap::segment const& s : heap_.segments()) {
    if (s.bytes == 0) continue;
    detail::discard(cudaFreeHost(reinterpret_cast<void*>(static_cast<std::uintptr_t>(s.address))));
  }
}

WARPWRIGHT_INLINE memory_report pinned_pool::report(std::size_t requested_bytes) const noexcept {
  heap_guard const lock{heap_lock_};
  memory_report r;
  r.requested_bytes = requested_bytes;
  r.live_bytes = heap_.live_bytes();
  r.reserved_bytes = reserved_bytes_;
  r.largest_hole_bytes = heap_.largest_hole_bytes();
  r.limit_bytes = options_.maximum_bytes_;
  return r;
}

WARPWRIGHT_INLINE pinned_statistics pinned_pool::statistics() const noexcept {
  heap_guard const lock{heap_lock_};
  pinned_statistics s = counters_;
  s.live_bytes = heap_.live_bytes();
  s.live_blocks = heap_.live_blocks();
  s.reserved_bytes = reserved_bytes_;
  s.largest_hole_bytes = heap_.largest_hole_bytes();
  return s;
}

WARPWRIGHT_INLINE void* pinned_pool::commit_allocation(std::uint32_t node) noexcept {
  ++counters_.allocations;
  if (heap_.live_bytes() > counters_.live_peak_bytes) {
    counters_.live_peak_bytes = heap_.live_bytes();
  }
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(heap_.at(node).address));
}

WARPWRIGHT_INLINE void* pinned_pool::allocate_ready(std::uint64_t bytes, std::size_t alignment,
                                                    std::size_t requested) {
  std::uint32_t const node = heap_.allocate(heap::ready, bytes, alignment, true, requested);
  return node == heap::none ? nullptr : commit_allocation(node);
}

WARPWRIGHT_INLINE void* pinned_pool::try_allocate(std::size_t bytes, std::size_t alignment,
                                                  source_location where) {
  if (bytes == 0) return nullptr;
  if (alignment == 0 || alignment > maximum_alignment_bytes || (alignment & (alignment - 1)) != 0) {
    detail::throw_invalid_argument(detail::text{"pinned_pool: an alignment of "} + alignment +
                                       " bytes is not a power of two from 1 to " +
                                       maximum_alignment_bytes,
                                   where);
  }
  if (alignment < block_alignment_bytes) alignment = block_alignment_bytes;
  std::uint64_t rounded = 0;
  if (!heap::round_up(bytes, heap::granule_bytes, rounded)) return nullptr;
  {
    heap_guard const lock{heap_lock_};
    std::uint32_t const node = heap_.allocate(heap::ready, rounded, alignment, false, bytes);
    if (node != heap::none) {
      ++counters_.hits;
      return commit_allocation(node);
    }
  }
  detail::unique_lock<detail::mutex> const slow{slow_path_mutex_};
  detail::relaxed_capture_mode const relaxed{where};
  heap_guard lock{heap_lock_};
  std::uint64_t const limit = options_.maximum_bytes_;
  if (rounded > limit || heap_.live_bytes() > limit - rounded) return nullptr;
  if (void* const pointer = allocate_ready(rounded, alignment, bytes)) return pointer;
  static_cast<void>(release_completed(lock, false, where));
  if (void* const pointer = allocate_ready(rounded, alignment, bytes)) return pointer;
  std::uint64_t const needed = rounded + (alignment - block_alignment_bytes);
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::uint64_t const allowed = (limit - reserved_bytes_) & ~(heap::granule_bytes - 1);
    if (needed >= rounded && needed <= allowed) {
      std::uint64_t preferred = 0;
      if (!heap::round_up(options_.growth_bytes_, heap::granule_bytes, preferred) ||
          preferred > allowed) {
        preferred = allowed;
      }
      std::uint64_t const before = reserved_bytes_;
      if (preferred > needed) add_segment(lock, preferred, where);
      if (reserved_bytes_ == before) add_segment(lock, needed, where);
      if (void* const pointer = allocate_ready(rounded, alignment, bytes)) return pointer;
    }
    if (attempt == 0) {
      // Any stream's blocks may suffice: those of a slow one are not waited for. What is freed from
      // now on is not, either.
      detail::array<std::uint64_t> until(streams_.size());
      for (std::size_t i = 0; i < until.size(); ++i) until[i] = streams_[i].epoch;
      while (any_pending(until)) {
        lock.unlock();
        timespec const moment{0, 50000};
        nanosleep(&moment, nullptr);
        lock.lock();
        static_cast<void>(release_completed(lock, false, where));
        if (void* const pointer = allocate_ready(rounded, alignment, bytes)) return pointer;
      }
      if (void* const pointer = allocate_ready(rounded, alignment, bytes)) return pointer;
      static_cast<void>(release_segments(lock, 0, where));
    }
  }
  return nullptr;
}

WARPWRIGHT_INLINE void pinned_pool::add_segment(heap_guard& lock, std::uint64_t bytes,
                                                source_location where) {
  lock.unlock();
  void* pointer = nullptr;
  cudaError_t const result = cudaHostAlloc(&pointer, bytes, cudaHostAllocPortable);
  if (result == cudaErrorMemoryAllocation) detail::discard(result);
  lock.lock();
  if (result == cudaErrorMemoryAllocation) return;
  check(result, "cudaHostAlloc", where);
  try {
    heap_.add_segment(address_of(pointer), bytes);
  } catch (...) {
    lock.unlock();
    detail::discard(cudaFreeHost(pointer));
    throw;
  }
  ++counters_.upstream_allocations;
  reserved_bytes_ += bytes;
  if (reserved_bytes_ > counters_.reserved_peak_bytes) {
    counters_.reserved_peak_bytes = reserved_bytes_;
  }
}

WARPWRIGHT_INLINE std::size_t pinned_pool::release_segments(heap_guard& lock,
                                                            std::uint64_t keep_bytes,
                                                            source_location where) {
  std::size_t released = 0;
  while (reserved_bytes_ > keep_bytes) {
    heap::segment const s = heap_.remove_empty_segment(reserved_bytes_ - keep_bytes);
    if (s.bytes == 0) break;
    lock.unlock();
    cudaError_t const result =
        cudaFreeHost(reinterpret_cast<void*>(static_cast<std::uintptr_t>(s.address)));
    lock.lock();
    if (result != cudaSuccess) heap_.add_segment(s.address, s.bytes);
    check(result, "cudaFreeHost", where);
    ++counters_.upstream_deallocations;
    reserved_bytes_ -= s.bytes;
    released += s.bytes;
  }
  return released;
}

/// Whether blocks are pending that were freed up to an epoch of each list.
WARPWRIGHT_INLINE bool pinned_pool::any_pending(
    detail::array<std::uint64_t> const& until) const noexcept {
  for (std::size_t i = 0; i < until.size(); ++i) {
    detail::array<pending_event> const& pending = streams_[i].pending;
    if (!pending.empty() && pending.front().epoch <= until[i]) return true;
  }
  return false;
}

/// Whether an event has completed. Releases the lock: meanwhile other threads may give it back, and
/// it may be recorded again, but then its epoch is released.
WARPWRIGHT_INLINE bool pinned_pool::is_complete(heap_guard& lock, cudaEvent_t event, bool wait,
                                                source_location where) {
  lock.unlock();
  cudaError_t result = cudaSuccess;
  {
    detail::relaxed_capture_mode const allowed;  // a capture of any thread forbids it otherwise
    result = wait ? cudaEventSynchronize(event) : cudaEventQuery(event);
    if (result == cudaErrorNotReady) detail::discard(result);
  }
  lock.lock();
  if (result == cudaErrorNotReady) return false;
  check(result, wait ? "cudaEventSynchronize" : "cudaEventQuery", where);
  return true;
}

/// Makes the blocks of a list up to an epoch ready. @return whether there were any
WARPWRIGHT_INLINE bool pinned_pool::release_up_to(std::uint32_t list,
                                                  std::uint64_t epoch) noexcept {
  stream_entry& entry = streams_[list];
  std::size_t count = 0;
  while (count < entry.pending.size() && entry.pending[count].epoch <= epoch) {
    spare_events_.push_back(entry.pending[count++].marker);  // has capacity
  }
  if (count == 0) return false;
  heap_.move(list, epoch, heap::ready, 0);
  entry.pending.remove_front(count);
  std::size_t const twice = 2 * entry.pending.size();
  entry.look_at = twice < stream_entry::least_look ? stream_entry::least_look : twice;
  return true;
}

/// Queries, or waits for, the events of freed blocks, and makes completed blocks ready.
/// @return whether any block became ready
WARPWRIGHT_INLINE bool pinned_pool::release_completed(heap_guard& lock, bool wait,
                                                      source_location where) {
  bool released = false;
  for (std::uint32_t list = heap::first_stream_list; list < streams_.size(); ++list) {
    while (!streams_[list].pending.empty()) {
      // The newest first: behind it all have completed. Else half of them, down to the oldest.
      std::size_t at = wait ? 0 : streams_[list].pending.size() - 1;
      bool done = false;
      for (;;) {
        pending_event const looked = streams_[list].pending[at];
        std::uint64_t const covered = at == 0 ? looked.epoch : looked.covers();
        done = is_complete(lock, looked.marker.event, wait, where) && release_up_to(list, covered);
        released = released || done;
        std::size_t const left = streams_[list].pending.size();
        if (done || at == 0 || left == 0) break;
        at = (at < left ? at : left) / 2;
      }
      if (!done) break;
    }
  }
  return released;
}

/// Takes the lists of idle streams back, before a stream is given a new one: streams that come and
/// go leave a bounded number of lists.
WARPWRIGHT_INLINE void pinned_pool::look_at_some(heap_guard& lock) noexcept {
  for (int i = 0; i < 2 && streams_.size() > heap::first_stream_list; ++i) {
    if (hand_ < heap::first_stream_list || hand_ >= streams_.size()) {
      hand_ = heap::first_stream_list;
    }
    std::uint32_t const list = hand_++;
    if (!streams_[list].pending.empty()) look_at(lock, list, streams_[list].pending.back());
  }
}

/// An error is another stream's: an allocation that needs its blocks meets it again.
WARPWRIGHT_INLINE void pinned_pool::look_at(heap_guard& lock, std::uint32_t list,
                                            pending_event const& looked) noexcept {
  pending_event const event = looked;
  try {
    if (!is_complete(lock, event.marker.event, false, source_location::current())) return;
  } catch (...) {
    return;
  }
  static_cast<void>(release_up_to(list, event.covers()));
}

/// Takes back what a stream has completed, so that its events do not pile up: one query for many.
WARPWRIGHT_INLINE void pinned_pool::look_at_half(heap_guard& lock, std::uint32_t list) noexcept {
  std::size_t const count = streams_[list].pending.size();
  if (count < streams_[list].look_at) return;
  streams_[list].look_at = 2 * count;
  look_at(lock, list, streams_[list].pending[count / 2]);
}

/// Creates an event of the marker's device, whichever is current.
WARPWRIGHT_INLINE cudaError_t pinned_pool::create_event(device_event& marker,
                                                        char const*& api) noexcept {
  int current = marker.device;
  api = "cudaGetDevice";
  cudaError_t result = cudaGetDevice(&current);
  if (result == cudaSuccess && current != marker.device) {
    api = "cudaSetDevice";
    result = cudaSetDevice(marker.device);
  }
  if (result != cudaSuccess) return result;
  api = "cudaEventCreateWithFlags";
  result = cudaEventCreateWithFlags(&marker.event, cudaEventDisableTiming);
  if (result != cudaSuccess) marker.event = nullptr;
  if (current != marker.device) detail::discard(cudaSetDevice(current));
  return result;
}

/// The device of a stream, asked for once. @pre the stream is not capturing
WARPWRIGHT_INLINE int pinned_pool::device_of(heap_guard& lock, stream_ref stream, std::uint64_t id,
                                             source_location where) {
  std::uint32_t const list = lists_.find(id);
  if (list != detail::address_map::none) return streams_[list].device;
  look_at_some(lock);
  lock.unlock();
  int const device = detail::device_of(stream, where).value();
  lock.lock();
  return device;
}

WARPWRIGHT_INLINE std::uint32_t pinned_pool::list_of(std::uint64_t id, int device) {
  std::uint32_t const existing = lists_.find(id);
  if (existing != detail::address_map::none) return existing;
  std::uint32_t list = heap::first_stream_list;
  // An entry without pending events may be reused for another stream.
  while (list < streams_.size() && streams_[list].used && !streams_[list].pending.empty()) ++list;
  lists_.reserve(lists_.size() + 1);
  if (list == streams_.size()) {
    streams_.reserve(streams_.size() + 1);
    static_cast<void>(heap_.add_list());
    streams_.emplace_back();
  }
  if (streams_[list].used) lists_.erase(streams_[list].id);
  streams_[list].id = id;
  streams_[list].device = device;
  streams_[list].used = true;
  lists_.insert(id, list);
  return list;
}

WARPWRIGHT_INLINE std::uint32_t pinned_pool::checked_block(void const* pointer, std::size_t bytes,
                                                           heap_guard& lock,
                                                           source_location where) const {
  std::uint32_t const node = heap_.find(address_of(pointer));
  std::uint64_t const right = node != heap::none ? heap_.at(node).requested_bytes : 0;
  if (node != heap::none && right == bytes) return node;
  bool const ours = node != heap::none || heap_.find_containing(address_of(pointer)) != heap::none;
  lock.unlock();
  detail::text message =
      detail::text{"pinned_pool: cannot free "} + pointer + " (" + bytes + " bytes): ";
  if (node != heap::none) {
    message += detail::text{"wrong size: "} + right + " bytes were allocated; pass the same size";
  } else if (ours) {
    message += "double free, or not the pointer that allocate() returned";
  } else {
    message += "it is not from this pool; free it where it was allocated";
  }
  detail::throw_invalid_argument(message, where);
}

WARPWRIGHT_INLINE void pinned_pool::deallocate(void* pointer, std::size_t bytes,
                                               source_location where) {
  if (pointer == nullptr) return;
  heap_guard lock{heap_lock_};
  heap_.deallocate(checked_block(pointer, bytes, lock, where), heap::ready, 0);
  ++counters_.deallocations;
}

WARPWRIGHT_INLINE void pinned_pool::deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                               source_location where) {
  if (pointer == nullptr) return;
  if (detail::is_capturing(stream, where)) {
    detail::throw_invalid_argument(
        "pinned_pool: cannot free a block on a capturing stream: the graph would use its memory "
        "after the pool has reused it; keep the block as long as the graph",
        where);
  }
  std::uint64_t const id = stream.id(where);
  device_event marker;
  std::uint32_t known = detail::address_map::none;
  std::uint64_t before = 0;
  {
    heap_guard lock{heap_lock_};
    static_cast<void>(checked_block(pointer, bytes, lock, where));
    int const device = device_of(lock, stream, id, where);
    marker.device = device;
    known = lists_.find(id);
    if (known != detail::address_map::none) before = streams_[known].epoch;
    for (std::size_t i = spare_events_.size(); i-- > 0;) {
      if (spare_events_[i].device != device) continue;
      marker = spare_events_[i];
      spare_events_[i] = spare_events_.back();
      spare_events_.pop_back();
      break;
    }
    if (marker.event == nullptr) {
      spare_events_.reserve(event_count_ + 1);  // so that returning the event cannot fail
      ++event_count_;
    }
  }
  char const* api = "cudaEventCreateWithFlags";
  cudaError_t result = cudaSuccess;
  if (marker.event == nullptr) result = create_event(marker, api);
  if (result == cudaSuccess) {
    api = "cudaEventRecord";
    result = cudaEventRecord(marker.event, stream.get());
  }
  heap_guard lock{heap_lock_};
  bool stored = false;
  std::uint32_t freed_on = heap::none;
  try {
    if (result == cudaSuccess) {
      std::uint32_t const node = checked_block(pointer, bytes, lock, where);
      std::uint32_t const list = list_of(id, marker.device);
      stream_entry& entry = streams_[list];
      if (list != known) before = 0;
      if (entry.pending.empty()) before = entry.epoch;
      entry.pending.push_back(pending_event{entry.epoch + 1, before, marker});
      ++entry.epoch;
      stored = true;
      heap_.deallocate(node, list, entry.epoch);
      ++counters_.event_records;
      ++counters_.deallocations;
      freed_on = list;
    }
  } catch (...) {
    // Reached by the second of two threads that free the same block at once.
    if (!lock.owns_lock()) lock.lock();
    if (!stored) spare_events_.push_back(marker);
    throw;
  }
  if (result == cudaSuccess) return look_at_half(lock, freed_on);
  if (marker.event != nullptr) {
    spare_events_.push_back(marker);
  } else {
    --event_count_;
  }
  check(result, api, where);
}

WARPWRIGHT_INLINE std::size_t pinned_pool::trim(std::size_t bytes_to_keep, source_location where) {
  detail::unique_lock<detail::mutex> const slow{slow_path_mutex_};
  detail::relaxed_capture_mode const relaxed{where};
  heap_guard lock{heap_lock_};
  static_cast<void>(release_completed(lock, true, where));
  return release_segments(lock, bytes_to_keep, where);
}

WARPWRIGHT_END
