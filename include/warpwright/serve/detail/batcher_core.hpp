// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/event_count.hpp>
#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/serve/batch_policy.hpp>
#include <warpwright/serve/batcher_statistics.hpp>
#include <warpwright/serve/detail/ticket_store.hpp>
#include <warpwright/stream/stream_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

/// What drain() has done.
struct drain_report {
  std::size_t answered = 0;       ///< requests that ended in this time, with a value or without
  std::size_t closing = 0;        ///< of these: those that the time was too short for
  std::size_t stuck_batches = 0;  ///< that still run
  double seconds = 0.0;

  /// @return a line
  [[nodiscard]] std::string to_text() const;
};

namespace detail {

/// A batch as the model sees it, without its types.
struct batch_state {
  void* inputs = nullptr;
  void* outputs = nullptr;
  std::size_t size = 0;
  std::size_t padded = 0;
  shape_key const* key = nullptr;
  std::size_t lane = 0;
  std::size_t results = 0;          // that the model has given
  std::string* failures = nullptr;  // of single requests; empty: none
  bool failed = false;              // one of these has a text
};

using batch_model = owned_function<void(batch_state&, stream_ref)>;

/// Streams for a batcher, not leased yet.
struct lane_source {
  stream_pool* pool;  // null: the stream
  stream_ref stream;
};

/// A batcher without the types of its requests: a lock around a batch_policy, a thread for each
/// lane, which runs one batch after another, and one that answers what is late.
///
/// No callback, no CUDA call and no wait is under the lock. A request goes through the inbox, which
/// is emptied at the latest when somebody asks how it ended.
class batcher_core : noncopyable {
 public:
  struct sizes {
    std::size_t input_bytes;
    std::size_t output_bytes;
  };
  batcher_core(batcher_options const& options, array<lane_source> const& lanes,
               latency_model const& model, batch_model run, sizes item, source_location where);
  ~batcher_core();

  /// @return a slot that the caller uses as a ticket does
  ticket_slot* submit(void const* input, request const& r);
  /// Lets the policy decide on what is in the inbox.
  void settle() noexcept;
  void cancel(ticket_slot& slot) noexcept;
  drain_report drain(double seconds, source_location where);
  [[nodiscard]] batcher_statistics statistics() noexcept;

 private:
  struct lane : noncopyable {
    void run() noexcept { core->run_lane(*this); }

    batcher_core* core = nullptr;
    std::size_t index = 0;
    stream_lease lease;
    stream_ref stream = stream_ref::legacy_default();
    int device = 0;
    char* host_in = nullptr;
    char* host_out = nullptr;
    char* device_in = nullptr;
    char* device_out = nullptr;
    array<ticket_slot*> tickets;  // of the batch
    std::string* failures = nullptr;
    bool idle = false;      // it waits for `wake`; under the core's lock, as the next two
    double started = -1.0;  // -1: no batch runs
    bool named = false;     // by the watchdog
    bool brief = false;     // the lane stays attentive in its batch
    bool threw = false;     // the model
    atomic<long> number;    // of the thread
    event_count wake;
    class thread thread;
  };
  /// Answers that are given when the lock has been left: who waits is woken.
  struct answers_later {
    struct entry {
      ticket_slot* slot;
      ticket_status status;
      std::uint32_t releases;
      answer_figures figures;
    };
    explicit answers_later(batcher_core& of) noexcept : core{of} {}

    batcher_core& core;
    array<entry> entries;
    lane* to_wake = nullptr;
    char const* failure = nullptr;  // of `failed`
    bool any = false;
    bool wakes_timer = false;

    void add(entry const& e) noexcept;  // under the lock
    void give_all() noexcept;
  };

  static int const* devices_of(array<lane_source> const& lanes, array<int>& devices,
                               source_location where);
  void start(array<lane_source> const& lanes, source_location where);
  void make(lane& l, lane_source const& from, source_location where);
  void stop() noexcept;
  void run_lane(lane& l) noexcept;
  void run_timer() noexcept;
  void run_batch(lane& l, std::size_t padded);
  void begin_batch(lane& l, batch_decision const& decision, double time) noexcept;
  bool run_range(lane& l, std::size_t first, std::size_t count, std::size_t padded);
  bool call_model(lane& l, std::size_t first, std::size_t count, std::size_t padded);
  void sleep(lane& l, std::uint64_t seen, double seconds) noexcept;
  void be_away() noexcept;
  void submit_blocking(ticket_slot& slot) noexcept;
  void fail_all(char const* text) noexcept;
  // Under the lock:
  lane* lane_to_wake() noexcept;
  void set_timer(double at, answers_later& answers) noexcept;
  lane const* overdue_lane(double time) noexcept;
  void empty_inbox(answers_later& answers) noexcept;
  void empty_inbox_for_lanes(answers_later& answers) noexcept;
  bool admit(ticket_slot& slot, double time, answers_later& answers, bool may_wait) noexcept;
  void take_dropped(answers_later& answers) noexcept;
  std::size_t close_queue(answers_later& answers, ticket_status status) noexcept;
  void give_up_batches(drain_report& report) noexcept;
  // Answers that have left the policy are given without the lock: a drain waits for them, too.
  void begin_answers() noexcept { static_cast<void>(giving_.fetch_add(1, memory_order::relaxed)); }
  void end_answers() noexcept {
    static_cast<void>(giving_.fetch_sub(1, memory_order::release));
    room_.notify();
  }
  [[nodiscard]] bool is_lane() const noexcept;
  [[nodiscard]] double now() const noexcept {
    return static_cast<double>(options_.clock.now()) * 1e-9;
  }
  // Counts the answer first, so that who has it finds it in the statistics.
  // @return whether it was given
  bool give(ticket_slot& slot, ticket_status status, std::uint32_t releases,
            answer_figures const& figures, char const* failure = nullptr) noexcept {
    atomic<std::size_t>& count = ended_[static_cast<unsigned>(status)];
    static_cast<void>(count.fetch_add(1, memory_order::relaxed));
    if (ticket_store::answer(slot, status, releases, figures, failure)) return true;
    static_cast<void>(count.fetch_sub(1, memory_order::relaxed));
    return false;
  }

  sizes item_;
  batch_model model_;
  ticket_store* store_;
  array<int> devices_;
  batch_policy policy_;
  batcher_values const& options_;
  lane* lanes_ = nullptr;
  std::size_t lane_count_ = 0;
  double made_ = 0.0;
  // Requests are pushed here, so that the policy stays in the cache of the thread that has the
  // lock. Who gets the lock empties it first. While a lane is attentive, which means that it will
  // get the lock in some microseconds, nobody else does so at each request.
  alignas(64) atomic<ticket_slot*> inbox_;
  alignas(64) atomic<unsigned> attentive_;

  // Under the store's lock.
  alignas(64) bool ending_ = false;
  double timer_at_ = never;  // when the timer looks next
  batcher_statistics counts_;

  atomic<bool> closed_;  // changed under the lock
  atomic<std::size_t> ended_[7];
  atomic<std::size_t> late_running_;
  atomic<std::size_t> giving_;  // begun under the lock
  event_count room_;            // for submissions that wait for room, and for drains
  event_count timing_;
  thread timer_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/serve/detail/batcher_core_definitions.hpp>
#include <warpwright/serve/detail/batcher_lanes_definitions.hpp>
#endif
