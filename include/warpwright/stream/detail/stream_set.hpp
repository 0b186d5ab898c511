// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/thread/asymmetric_fence.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/detail/thread/thread_slot.hpp>
#include <warpwright/core/stream.hpp>

#include <cstdint>

#include <pthread.h>

WARPWRIGHT_BEGIN

namespace detail {

/// The streams of one priority of a stream_pool: which are free, and who waits for one.
///
/// The streams are in groups; a stream's index is `group + groups * place`. A thread takes the
/// streams of a group in turn, then goes on to the next group that no other thread is in, so that
/// one thread uses all streams in turn, and several rarely write to the same cache line: a group
/// has lines of its own, and so have the state of a thread and the marks of who is in which group.
/// These are written only when a thread goes on: at once while it is the only one that does, else
/// after 256 leases. Marks are hints: without them, or with wrong ones, leases are slower and
/// nothing else.
class stream_set {
 public:
  static constexpr unsigned none = ~0U;
  static constexpr unsigned most_groups = 16;
  static constexpr unsigned walker_bits = 7;  // two of 16 threads have one together
  static constexpr unsigned most_walkers = 1U << walker_bits;
  static constexpr unsigned char most_age = 255;
  static constexpr unsigned most_streams = 64 * most_groups;
  static constexpr std::uint64_t for_ever = ~std::uint64_t{0};

  /// @param maximum  of streams: 1 to most_streams
  /// @throws std::bad_alloc
  stream_set(device_id device, int priority, unsigned maximum);
  ~stream_set();
  stream_set(stream_set const&) = delete;
  stream_set& operator=(stream_set const&) = delete;

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
    if (waiters_.load(memory_order::relaxed) == 0) {
      place_of(index).store(false, memory_order::release);
      // A thread that waits was either counted before the load, or sees that the stream is free.
      fence_of_give_back();
      if (waiters_.load(memory_order::relaxed) == 0) return;
    } else if (hand_over(index)) {
      return;
    }
    serve();
  }

  /// @pre the caller has the index; so for event()
  [[nodiscard]] stream_ref stream(unsigned index) const noexcept {
    return streams_[index].owner.ref();
  }
  /// The stream's event for fork_join(), created at its first use.
  cudaEvent_t event(unsigned index, source_location where);

  [[nodiscard]] device_id device() const noexcept { return device_; }
  [[nodiscard]] int priority() const noexcept { return priority_; }
  [[nodiscard]] unsigned maximum() const noexcept { return maximum_; }
  [[nodiscard]] unsigned created() const noexcept { return created_.load(memory_order::relaxed); }
  [[nodiscard]] unsigned available() const noexcept;
  /// The number of threads that wait.
  [[nodiscard]] unsigned waiting() const noexcept { return waiters_.load(memory_order::relaxed); }
  /// Appends all streams that are not part of a capture, or are leased.
  void list(array<stream_ref>& all) const;

  stream_set* next = nullptr;  // of the pool, with another priority

 private:
  struct pooled_stream {
    warpwright::stream owner;
    cudaEvent_t event = nullptr;
  };
  static constexpr unsigned most_places = most_streams / most_groups;
  // Two cache lines each, as processors fetch them in pairs.
  struct group {
    atomic<unsigned> next;            // the place to look at first
    atomic<bool> taken[most_places];  // leased, or not created yet
    char padding[128 - sizeof(unsigned) - most_places];
  };
  // A thread, or several where there are more than most_walkers.
  struct walker {
    atomic<unsigned> at;    // the group that it takes streams from
    atomic<unsigned> left;  // leases until it goes on
    char padding[128 - 2 * sizeof(unsigned)];
  };
  struct marks {
    char padding[128];
    atomic<unsigned char> last;               // 1 + the walker that went on last
    atomic<unsigned char> user[most_groups];  // 1 + the walker in the group
    atomic<unsigned char> age[most_groups];  // how often others went past it since its user went on
    char more_padding[128 - 1 - 2 * most_groups];
  };
  struct waiter {
    unsigned index = none;
    waiter* next = nullptr;
    condition_variable wake;
  };

  [[nodiscard]] atomic<bool>& place_of(unsigned index) noexcept {
    return groups_[index & mask_].taken[index >> shift_];
  }
  void fence_of_give_back() const noexcept {
    if (has_asymmetric_fence_) {
      compiler_fence();
    } else {
      __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
  }
  void fence_of_waiter() const noexcept {
    if (has_asymmetric_fence_) {
      asymmetric_fence();
    } else {
      __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
  }

  static bool take_place(group& here, unsigned place) noexcept {
    return !here.taken[place].load(memory_order::relaxed) &&
           !here.taken[place].exchange(true, memory_order::acquire);
  }
  unsigned taken_from(walker& self, unsigned at, unsigned place) noexcept {
    groups_[at].next.store(place + 1 < places_ ? place + 1 : 0, memory_order::relaxed);
    unsigned const left = self.left.load(memory_order::relaxed);
    if (left > 1) {
      self.left.store(left - 1, memory_order::relaxed);
    } else if (mask_ != 0) {
      go_on(self, self.at.load(memory_order::relaxed));
    }
    return at + (place << shift_);
  }
  unsigned take_free() noexcept {
    walker& self = walker_of(pthread_self());
    unsigned const at = self.at.load(memory_order::relaxed);
    unsigned const place = groups_[at].next.load(memory_order::relaxed);
    return take_place(groups_[at], place) ? taken_from(self, at, place) : search(self);
  }
  // Threads' stacks are a power of two of pages apart, and a guard page: consecutive walkers.
  [[nodiscard]] walker& walker_of(pthread_t thread) noexcept {
    return walkers_[thread_slot<walker_bits>(thread)];
  }
  [[nodiscard]] unsigned char mark_of(walker const& self) const noexcept {
    return static_cast<unsigned char>(&self - walkers_.begin() + 1);
  }

  unsigned search(walker& self) noexcept;
  // The thread has taken as many streams of its group as it may. It needs no mark while it is
  // alone.
  void go_on(walker& self, unsigned from) noexcept {
    unsigned char const mark = mark_of(self);
    unsigned const at = (from + 1) & mask_;
    if (marks_.last.load(memory_order::relaxed) == mark &&
        marks_.user[at].load(memory_order::relaxed) == 0) {
      self.at.store(at, memory_order::relaxed);
      self.left.store(places_, memory_order::relaxed);
    } else {
      go_on_beside_others(self, from);
    }
  }
  void go_on_beside_others(walker& self, unsigned from) noexcept;
  void enter(walker& self, unsigned from, unsigned at, bool marked) noexcept;
  bool hand_over(unsigned index) noexcept;
  void serve() noexcept;
  bool replace_if_capturing(unsigned index) noexcept;
  // These require mutex_:
  void serve_first() noexcept;
  void wake_first(unsigned index) noexcept;
  void leave_queue(waiter& self) noexcept;
  bool free_parked() noexcept;
  unsigned grow(unique_lock<mutex>& lock, source_location where);

  device_id device_;
  int priority_;
  unsigned maximum_;
  bool has_asymmetric_fence_;
  unsigned mask_ = 0;    // number of groups - 1; they are a power of two
  unsigned shift_ = 0;   // the logarithm of that number
  unsigned places_ = 0;  // of a group
  array<group> groups_;
  array<walker> walkers_;
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
  marks marks_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/stream/detail/stream_set_definitions.hpp>
#endif
