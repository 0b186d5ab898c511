// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What prefetcher and result_collector share, without the type of their elements.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/stream/detail/transfer/transfer_ring.hpp>
#include <warpwright/stream/prefetch_options.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// Owns an object with a virtual destructor; std::unique_ptr is slow to compile.
template <class Interface>
struct owned : private noncopyable {
  explicit owned(Interface* made) noexcept : object{made} {}
  ~owned() { delete object; }
  Interface* object;
};

/// A ring with its lock, its counters, and the order of the copies: they are enqueued in the order
/// of the batches, by whichever thread completes the batch whose turn it is.
class transfer_core : noncopyable {
 public:
  void stop() noexcept;
  /// @return false in a child of fork()
  [[nodiscard]] bool is_in_own_process() const noexcept { return process_.is_current(); }
  [[nodiscard]] std::size_t element_bytes() const noexcept { return element_bytes_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] unsigned number_of(transfer_slot const& slot) const noexcept {
    return ring_.number_of(slot);
  }
  [[nodiscard]] prefetch_statistics statistics() const noexcept;

 protected:
  using stage = transfer_slot::stage;
  using guard = unique_lock<mutex>;

  transfer_core(char const* name, bool to_device, memory_pool& pool, pinned_pool& pinned,
                std::size_t element_bytes, std::size_t capacity, prefetch_options const& options,
                unsigned threads, unsigned default_depth, source_location where);
  ~transfer_core() = default;

  /// For a thread of the core: CUDA calls that a capture of another thread would forbid.
  void set_up_thread() const noexcept {
    static_cast<void>(detail::set_up_thread(ring_.device().value()));
  }
  [[noreturn]] void throw_no_thread(int error, std::size_t started) const;
  /// @throws std::invalid_argument  for a capturing stream
  void check_stream(stream_ref stream, source_location where) const;
  static bool is_idle(stream_ref stream) noexcept;

  // These require the lock; those with a guard may release it meanwhile.

  /// Waits for a change that the condition variable tells of; may return without one. Looks for 20
  /// us before it sleeps: to wake a thread takes as long as a small batch.
  void wait(guard& lock, condition_variable& change) noexcept;
  void tell_one(condition_variable& change) noexcept {
    changes_.fetch_add(1, memory_order::relaxed);
    change.notify_one();
  }
  void tell_all(condition_variable& change) noexcept {
    changes_.fetch_add(1, memory_order::relaxed);
    change.notify_all();
  }

  /// Enqueues the copies of all filled batches, up to the first that is not filled.
  void enqueue_copies(guard& lock) noexcept;
  /// Gives a slot back to the ring; where it was given back in a capture, when that has ended.
  /// @pre it has no error
  void free(transfer_slot& slot) noexcept;
  /// Marks the end of a caller's work with a slot. @return whether the stream could be touched
  bool end_use(guard& lock, transfer_slot& slot) noexcept;
  /// Frees the slots whose captures have ended.
  void look_at_parked(guard& lock) noexcept;
  /// Whether the calling thread is in the source or the sink.
  [[nodiscard]] bool is_in_callback() noexcept;
  /// Whether the calling thread has given all slots back in captures, which it would have to end.
  [[nodiscard]] bool waits_for_own_capture(guard& lock) noexcept;
  [[noreturn]] void throw_waits_for_own_capture(source_location where) const;
  /// Has a thread of the core add a slot, if one more would help: the caller has waited, and so did
  /// the threads since the last one.
  void ask_to_grow() noexcept {
    if (!workers_waited_ || !may_grow_ || ring_.size() >= most_slots_) return;
    grow_ = true;
    tell_one(work_);
  }
  /// Adds a slot. Without memory the ring stays as it is, for good.
  void grow(guard& lock) noexcept;
  /// What a thread of the core does without a slot to work on: adds one that was asked for, or
  /// waits. @param lacks  whether it would work on one
  void grow_or_wait(guard& lock, bool lacks) noexcept;
  /// A caller's wait for a slot.
  struct waiting {
    std::uint64_t since = 0;  // 0: it has not waited
    bool was_idle = false;    // its stream, at the begin
  };
  void begin_wait(guard& lock, waiting& self, stream_ref stream) noexcept;
  /// Counts the time, since the first batch, if it got a slot. @return whether the stream had no
  /// work at the end
  bool end_wait(guard& lock, waiting const& self, stream_ref stream, bool got_slot) noexcept;

  char const* name_;
  source_location where_;
  std::size_t element_bytes_;
  std::size_t capacity_;
  unsigned threads_;
  owning_process process_;
  transfer_ring ring_;
  unsigned most_slots_;

  mutable mutex mutex_;
  condition_variable work_;        // for the core's threads
  condition_variable ready_;       // for callers
  atomic<std::uint64_t> changes_;  // of what follows
  // Guarded by mutex_:
  std::size_t next_copy_ = 0;
  std::size_t end_ = ~std::size_t{0};  // the number of batches, once it is known
  bool copying_ = false;               // a thread enqueues copies
  bool stopping_ = false;
  bool may_grow_ = true;
  bool grow_ = false;            // a thread of the core is to add a slot
  bool workers_waited_ = false;  // for the caller, since the ring has grown last
  unsigned parked_ = 0;          // slots
  unsigned callers_waiting_ = 0;
  std::uint64_t first_call_time_ = 0;
  std::uint64_t last_call_time_ = 0;
  std::uint64_t user_time_ = 0;  // in the source or the sink
  std::uint64_t worker_wait_ = 0;
  std::uint64_t caller_wait_ = 0;
  std::uint64_t starved_ = 0;
  std::uint64_t batches_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t first_bytes_ = 0;  // of the first batch
  std::uint64_t user_bytes_ = 0;   // that the source or the sink had in user_time_
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/stream/detail/transfer/transfer_core_definitions.hpp>
#endif
