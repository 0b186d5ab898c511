// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/stream.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// The ids of streams that another library hands over as raw handles, so that no call has to query
/// them.
///
/// @pre A stream is removed before it is destroyed. CUDA gives the handle of a destroyed stream to
///   a new one: a pool would take the new stream for the old one, and hand out memory that the old
///   stream's work still uses.
///
/// A handle that was not added is resolved as without this object: by a query at each use.
/// **Threads:** any number may look up streams, add and remove them at once; a stream is not used
/// while it is removed. **Capture:** looking up is legal, so that raw handles of added streams may
/// capture.
class known_streams : detail::noncopyable {
 public:
  /// The maximum number of streams.
  static constexpr std::size_t capacity = 128;

  /// Adds a stream; does nothing if it was added already.
  /// @param stream  not the per-thread default stream, whose id depends on the thread. The legacy
  ///   default stream is that of the current device: use one known_streams a device for it
  /// @throws std::invalid_argument  for the per-thread default stream; when 128 streams were added;
  ///   for a handle of a stream that was destroyed without remove(), which is removed then
  /// @throws cuda_error             when the stream's id cannot be queried
  /// **Capture:** `stream` must not be capturing unless it has its id.
  void add(stream_ref stream, source_location where = source_location::current()) {
    if (stream.get() == cudaStreamPerThread) {
      detail::throw_invalid_argument(
          "known_streams: the per-thread default stream is another one in each thread; pass it "
          "without adding it, or use a stream of your own",
          where);
    }
    stream_ref const resolved = stream.resolved(where);
    std::uint64_t const id = resolved.id(where);
    detail::unique_lock<detail::spin_lock> lock{lock_};
    slot* target = nullptr;
    for (std::size_t step = 0, i = first_slot(stream.get()); step < slot_count;
         ++step, i = next_slot(i)) {
      cudaStream_t const handle = slots_[i].handle.load(detail::memory_order::relaxed);
      if (handle == stream.get()) {
        if (slots_[i].stream.id() == id) return;
        std::uint64_t const stale = slots_[i].stream.id();
        erase(i);
        lock.unlock();
        throw_stale(stream.get(), stale, id, where);
      }
      if (target == nullptr && (handle == nullptr || handle == removed())) target = &slots_[i];
      if (handle == nullptr) break;
    }
    if (size_ == capacity) {
      lock.unlock();
      detail::throw_invalid_argument(detail::text{"known_streams: all "} + capacity +
                                         " places are taken; remove streams that are not used, or "
                                         "pass this one without adding it",
                                     where);
    }
    target->stream = resolved;
    target->handle.store(stream.get(), detail::memory_order::release);
    ++size_;
  }
  /// Removes a stream, before it is destroyed; does nothing if it was not added.
  void remove(stream_ref stream) noexcept {
    detail::unique_lock<detail::spin_lock> const lock{lock_};
    std::size_t const i = find(stream.get());
    if (i != slot_count) erase(i);
  }
  /// Returns a reference to a stream, with its id if it was added.
  /// @param handle  of any stream; null as in stream_ref
  /// **Capture:** legal. **Cost:** a hash and in most cases one comparison; no lock, no CUDA call.
  [[nodiscard]] stream_ref ref(cudaStream_t handle) const noexcept {
    stream_ref const plain{handle};
    std::size_t const i = find(plain.get());
    return i == slot_count ? plain : slots_[i].stream;
  }
  /// @return the number of streams that were added and not removed
  [[nodiscard]] std::size_t size() const noexcept {
    detail::unique_lock<detail::spin_lock> const lock{lock_};
    return size_;
  }

 private:
  struct slot {
    detail::atomic<cudaStream_t> handle;  // null: never used since the last probe could end here
    stream_ref stream = stream_ref::legacy_default();  // written before handle is stored
  };
  static constexpr std::size_t slot_count = 2 * capacity;

  // A probe goes on behind a removed stream.
  static cudaStream_t removed() noexcept {
    return reinterpret_cast<cudaStream_t>(~std::uintptr_t{0});
  }
  static std::size_t first_slot(cudaStream_t handle) noexcept {
    auto const address = reinterpret_cast<std::uintptr_t>(handle);
    return ((address * 0x9e3779b97f4a7c15U) >> 56U) % slot_count;
  }
  static std::size_t next_slot(std::size_t i) noexcept { return (i + 1) % slot_count; }

  // The slot of a handle; `slots` if it is not there.
  std::size_t find(cudaStream_t wanted) const noexcept {
    for (std::size_t step = 0, i = first_slot(wanted); step < slot_count;
         ++step, i = next_slot(i)) {
      cudaStream_t const handle = slots_[i].handle.load(detail::memory_order::acquire);
      if (handle == wanted) return i;
      if (handle == nullptr) return slot_count;
    }
    return slot_count;
  }
  // Empties the slot, and those removed before it, if no probe has to go on behind them.
  void erase(std::size_t i) noexcept {
    --size_;
    slots_[i].handle.store(removed(), detail::memory_order::release);
    if (slots_[next_slot(i)].handle.load(detail::memory_order::relaxed) != nullptr) return;
    while (slots_[i].handle.load(detail::memory_order::relaxed) == removed()) {
      slots_[i].handle.store(nullptr, detail::memory_order::release);
      i = (i + slot_count - 1) % slot_count;
    }
  }
  [[noreturn]] WARPWRIGHT_COLD static void throw_stale(cudaStream_t handle, std::uint64_t stale,
                                                       std::uint64_t id, source_location where) {
    detail::throw_invalid_argument(
        detail::text{"known_streams: the handle "} + static_cast<void const*>(handle) +
            " was added for the stream with id " + stale + " and belongs to the one with id " + id +
            " now: remove a stream before it is destroyed, and use one known_streams a device for "
            "the legacy default stream. The entry is removed; add the stream again when no memory "
            "of the old one is in use",
        where);
  }

  mutable detail::spin_lock lock_;
  slot slots_[slot_count];
  std::size_t size_ = 0;  // guarded by lock_
};

WARPWRIGHT_END
