// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/core/stream.hpp>

#include <cstddef>
#include <cstdint>

#include <pthread.h>

WARPWRIGHT_BEGIN

namespace detail {

/// The streams of one priority of a stream_pool: which are free, and who waits for one.
///
/// Each stream has a flag, leased or not, on a cache line of its own. A thread takes up to eight
/// streams in turn, others only where these are leased; threads that meet at a stream take fewer,
/// so that they rarely write to the same line.
class stream_set : noncopyable {
 public:
  static constexpr unsigned none = ~0U;
  static constexpr unsigned most_streams = 1024;
  static constexpr std::uint64_t for_ever = ~std::uint64_t{0};

  /// @param maximum  of streams: 1 to most_streams
  /// @throws std::bad_alloc
  stream_set(device_id device, int priority, unsigned maximum);
  ~stream_set();

  /// Creates free streams. @throws cuda_error  and those created stay
  void create(unsigned count, source_location where);

  /// Takes a free stream, without waiting, before nobody who waits.
  /// @return the index; none if no stream is free, or threads wait for one
  unsigned take() noexcept {
    return waiters_.load(memory_order::relaxed) == 0 ? take_free() : none;
  }
  /// Takes a free stream, else creates one, else waits in the order of the calls.
  /// @param until  a time of monotonic_nanoseconds(), 0: does not wait
  /// @return the index; none at that time
  /// @throws cuda_error  when a stream cannot be created
  WARPWRIGHT_COLD unsigned take_or_wait(std::uint64_t until, source_location where);

  /// Frees a stream, or hands it to the first thread that waits. One that is part of a capture is
  /// replaced first.
  /// @param may_capture  it may be part of a capture that the library does not know of
  void give_back(unsigned index, bool may_capture = false) noexcept {
    if ((may_capture || may_be_capturing_anywhere()) && !replace_if_capturing(index)) return;
    free(index);
    // A thread that waits is either counted by now, or sees that the stream is free: seq_cst.
    if (waiters_.load(memory_order::seq_cst) != 0) serve();
  }

  /// @pre the caller has the index; so for event()
  [[nodiscard]] stream_ref stream(unsigned index) const noexcept {
    return streams_[index].owner.ref();
  }
  /// The stream's event for fork_join(), created at its first use.
  cudaEvent_t event(unsigned index, source_location where);

  [[nodiscard]] device_id device() const noexcept { return device_; }
  [[nodiscard]] int priority() const noexcept { return priority_; }
  [[nodiscard]] unsigned max_streams() const noexcept { return max_streams_; }
  [[nodiscard]] unsigned created() const noexcept { return created_.load(memory_order::acquire); }
  [[nodiscard]] unsigned available() const noexcept;
  /// The number of threads that wait.
  [[nodiscard]] unsigned waiting() const noexcept { return waiters_.load(memory_order::relaxed); }
  /// Appends all streams that are not part of a capture, or are leased.
  void list(array<stream_ref>& all) const;

  stream_set* next = nullptr;  // of the pool, with another priority

 private:
  static constexpr std::size_t line_bytes = 64;
  static constexpr unsigned char no_slot = 0xff;
  struct pooled_stream {
    warpwright::stream owner;
    cudaEvent_t event = nullptr;
    atomic<bool> leased{true};
    unsigned char slot = no_slot;  // of the last thread, guarded by `leased`
    char padding[line_bytes - sizeof(warpwright::stream) - sizeof(cudaEvent_t) - 2] = {};
  };
  static constexpr unsigned most_turns = 8;      // CUDA's default of connections to a device
  static constexpr unsigned leases_alone = 256;  // after which a slot takes twice as many in turn
  // Where the threads of one slot look first: at the streams from `home` on, `turn` of them later.
  struct position {
    unsigned home = 0;
    atomic<unsigned> turn;
    atomic<unsigned> turns{most_turns};
    atomic<unsigned> alone;
    char padding[2 * line_bytes - 4 * sizeof(unsigned)];  // processors fetch lines in pairs
  };
  static constexpr unsigned position_bits = 5;
  struct waiter {
    unsigned index = none;
    waiter* next = nullptr;
    condition_variable wake;
  };

  void free(unsigned index) noexcept {
    static_cast<void>(streams_[index].leased.exchange(false, memory_order::seq_cst));
  }
  unsigned take_free() noexcept {
    unsigned const slot = thread_slot<position_bits>(pthread_self());
    position& own = positions_[slot];
    unsigned const count = created();
    unsigned const limit = own.turns.load(memory_order::relaxed);
    unsigned const turns = count < limit ? count : limit;
    unsigned const turn = own.turn.load(memory_order::relaxed);
    for (unsigned tried = 0; tried < count; ++tried) {
      unsigned const place = tried < turns ? (turn + tried) % turns : tried;
      unsigned const index = (own.home + place) % count;
      atomic<bool>& leased = streams_[index].leased;
      if (leased.load(memory_order::seq_cst) || leased.exchange(true, memory_order::acquire)) {
        continue;
      }
      own.turn.store(place + 1, memory_order::relaxed);
      note_user(streams_[index], own, slot);
      return index;
    }
    return none;
  }
  // Two slots that meet at a stream take fewer in turn each, until they have been alone for a
  // while.
  static void note_user(pooled_stream& taken, position& own, unsigned slot) noexcept {
    unsigned const turns = own.turns.load(memory_order::relaxed);
    bool const met = taken.slot != slot && taken.slot != no_slot;
    taken.slot = static_cast<unsigned char>(slot);
    unsigned alone = met ? 0 : own.alone.load(memory_order::relaxed) + 1;
    if (met && turns > 1) own.turns.store(turns / 2, memory_order::relaxed);
    if (alone == leases_alone) {
      alone = 0;
      if (turns < most_turns) own.turns.store(turns * 2, memory_order::relaxed);
    }
    own.alone.store(alone, memory_order::relaxed);
  }
  void serve() noexcept;
  bool replace_if_capturing(unsigned index) noexcept;
  // These require mutex_:
  void serve_first() noexcept;
  void leave_queue(waiter& self) noexcept;
  bool free_parked() noexcept;
  unsigned grow(unique_lock<mutex>& lock, source_location where);

  device_id device_;
  int priority_;
  unsigned max_streams_;
  position positions_[1U << position_bits];
  array<pooled_stream> streams_;  // has capacity for all
  atomic<unsigned> created_;      // its size
  atomic<unsigned> waiters_;
  mutable mutex mutex_;
  // Guarded by mutex_, with what creates or exchanges a stream:
  unsigned creating_ = 0;
  waiter* first_waiter_ = nullptr;  // in the order of their calls
  waiter* last_waiter_ = nullptr;
  array<warpwright::stream> replaced_;  // were part of a capture when they were returned
  array<unsigned> parked_;              // returned, part of a capture, and not replaced
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/stream/detail/stream_set_definitions.hpp>
#endif
