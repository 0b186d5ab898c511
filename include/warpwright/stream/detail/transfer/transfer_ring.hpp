// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory, events and copies of a prefetcher or a result_collector.
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/memory/pool.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>

#include <pthread.h>

WARPWRIGHT_BEGIN

namespace detail {

/// A batch on its way: page-locked memory and as much device memory.
struct transfer_slot {
  /// A batch goes free, filling, filled, ready, in_use; a result free, in_use, filled, ready,
  /// draining.
  enum class stage : unsigned char {
    free,
    filling,   // the source writes the host memory
    filled,    // the copy is due, behind those of earlier batches
    ready,     // the copy is enqueued
    in_use,    // the caller has the device memory
    parked,    // was given back in a capture, and its memory is in use until that ends
    draining,  // the sink reads the host memory
  };

  void* host = nullptr;
  void* device = nullptr;
  cudaEvent_t copied = nullptr;  // behind the last copy between the two; at first behind whatever
                                 // had the device memory before
  cudaEvent_t used = nullptr;    // behind the caller's work with the device memory
  bool has_copied = false;       // a copy was enqueued
  bool has_used = false;         // the event was recorded
  bool used_last = false;        // behind the last copy
  bool in_capture = false;       // given back in a capture: no event could be recorded yet
  stream_ref stream = stream_ref::legacy_default();  // of the caller
  long thread = 0;          // which took it, of a per-thread default stream
  pthread_t returned_by{};  // the thread that gave it back
  pthread_t worker{};       // which fills or drains it
  stage now = stage::free;
  cudaError_t use_error = cudaSuccess;  // nothing could be ordered behind the caller's work
  std::uint64_t freed = 0;              // the slot that was freed first is used first
  std::size_t index = 0;                // of the batch
  std::size_t bytes = 0;                // of the batch
  std::exception_ptr error{};
};

/// Slots with a stream for their copies, in one direction. The stages of the slots belong to the
/// owner of the ring, and its lock.
class transfer_ring : noncopyable {
 public:
  static constexpr unsigned most_slots = 64;

  /// @throws cuda_error
  transfer_ring(memory_pool& pool, pinned_pool& pinned, std::size_t slot_bytes, bool to_device,
                source_location where)
      : pool_{pool},
        pinned_{pinned},
        slot_bytes_{slot_bytes},
        to_device_{to_device},
        copies_{pool.device(), 0, where} {}
  /// Waits for the copies, and frees the memory behind the callers' work. Never throws.
  ~transfer_ring();

  /// Allocates a slot's memory and creates its events; not to be called by two threads at once.
  /// @param may_wait  if not, of memory that is to be had without waiting for a stream or another
  ///   thread, so that batches go on. @return false if there is none
  /// @throws out_of_memory, cuda_error  without any effect
  bool add(bool may_wait, source_location where);
  /// Shows the slot that add() has made to the owner. @pre the owner's lock is held
  void publish() noexcept { size_ = created_; }

  /// Prepares the device memory for the caller's work on a stream: behind the last copy, and the
  /// last caller's work.
  cudaError_t acquire(transfer_slot& slot, stream_ref stream) noexcept;
  /// Marks the end of the caller's work. Where an event cannot be recorded, waits for the stream.
  /// @return false: the stream is capturing, or is the legacy one beside a capture, and must not be
  ///   touched
  bool release(transfer_slot& slot) noexcept;
  /// Enqueues the copy of the slot's bytes, behind the caller's work.
  /// @pre not called by two threads at once
  cudaError_t copy(transfer_slot& slot, char const*& api) noexcept;
  /// Waits on the host for the slot's last copy.
  static cudaError_t wait_for_copy(transfer_slot& slot) noexcept;
  /// Whether the caller's stream may not be touched, see release().
  static bool is_closed(stream_ref stream) noexcept;

  [[nodiscard]] unsigned size() const noexcept { return size_; }
  [[nodiscard]] transfer_slot& operator[](unsigned i) noexcept { return slots_[i]; }
  [[nodiscard]] unsigned number_of(transfer_slot const& slot) const noexcept {
    return static_cast<unsigned>(&slot - slots_);
  }
  /// @return the slot in a stage that was freed first; null if there is none
  [[nodiscard]] transfer_slot* oldest(transfer_slot::stage in) noexcept;
  /// @return the slot of a batch that is in a stage; null if there is none
  [[nodiscard]] transfer_slot* find(std::size_t index, transfer_slot::stage in) noexcept;
  void set_free(transfer_slot& slot) noexcept {
    slot.now = transfer_slot::stage::free;
    slot.freed = ++frees_;
  }

  [[nodiscard]] std::size_t slot_bytes() const noexcept { return slot_bytes_; }
  [[nodiscard]] bool to_device() const noexcept { return to_device_; }
  [[nodiscard]] device_id device() const noexcept { return pool_.device(); }
  /// @return the rate of the copies that were timed; 0 before the first one
  [[nodiscard]] double bytes_per_second() const noexcept;

 private:
  /// One copy in some is timed: events with a time cost a microsecond each.
  struct sampled_copy {
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    bool pending = false;
    std::size_t bytes = 0;
  };
  static bool is_captured(cudaEvent_t event) noexcept;
  static cudaError_t wait_without_event(stream_ref stream, cudaError_t failed) noexcept;
  void free_slot(transfer_slot& slot) noexcept;
  void look_at_sample() noexcept;
  bool begin_sample(std::size_t bytes) noexcept;

  memory_pool& pool_;
  pinned_pool& pinned_;
  std::size_t slot_bytes_;
  bool to_device_;
  warpwright::stream copies_;
  transfer_slot slots_[most_slots];
  bool uses_pool_ = false;
  unsigned created_ = 0;
  unsigned size_ = 0;
  std::uint64_t frees_ = 0;
  sampled_copy sample_;
  std::uint64_t copy_count_ = 0;
  atomic<std::uint64_t> sampled_bytes_;
  atomic<std::uint64_t> sampled_nanoseconds_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/stream/detail/transfer/transfer_ring_definitions.hpp>
#endif
