// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests of any threads, run in batches, each answered before its deadline or told at once that
// it will not be:
//
//   ww::batcher<image, label> serve{ww::batcher_options{}.max_items(64), streams, model,
//       [&](ww::batch<image, label>& b, ww::stream_ref s) { infer(b.inputs(), b.outputs(), s); }};
//   ww::ticket<label> t = serve.submit(picture, ww::request{}.key(shape).deadline(20e-3));
//   if (label const* l = t.wait()) use(*l); else log(t.error());
#pragma once

#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/serve/batcher_options.hpp>
#include <warpwright/serve/batcher_statistics.hpp>
#include <warpwright/serve/detail/batcher_core.hpp>
#include <warpwright/stream/stream_pool.hpp>
#include <warpwright/tune/latency_model.hpp>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

template <class In, class Out>
class batcher;

/// The requests that a model gets in one call, on a stream.
template <class In, class Out>
class batch {
 public:
  /// @return size() inputs one behind another, in the memory of the lane's device; with
  ///   batcher_options::host_data() in page-locked memory. Up to padded_size() there are inputs of
  ///   earlier batches, or zeros. The address is the same for each batch of a lane
  [[nodiscard]] In const* inputs() const noexcept { return static_cast<In const*>(state_.inputs); }
  /// @return where the model writes size() outputs, in the order of the inputs; room for
  ///   padded_size()
  [[nodiscard]] Out* outputs() const noexcept { return static_cast<Out*>(state_.outputs); }
  /// @return the number of requests, at least 1
  [[nodiscard]] std::size_t size() const noexcept { return state_.size; }
  /// @return the preferred size to run; size() without one
  [[nodiscard]] std::size_t padded_size() const noexcept { return state_.padded; }
  /// @return the key of all its requests
  [[nodiscard]] shape_key const& key() const noexcept { return *state_.key; }
  /// @return which lane runs it: with the key and padded_size() a key for a graph_cache
  [[nodiscard]] std::size_t lane() const noexcept { return state_.lane; }

  /// Says how many outputs there are, for models that may give fewer or more: unless it is size(),
  /// all requests of the batch fail.
  void set_results(std::size_t n) noexcept { state_.results = n; }
  /// Fails one request; the others are answered.
  /// @param i     below size()
  /// @param text  what ticket::error() says
  /// @throws std::invalid_argument  for an i out of range
  void fail(std::size_t i, std::string text, source_location where = source_location::current()) {
    if (i >= state_.size) {
      detail::throw_invalid_argument(
          detail::text{"batch: fail("} + i + ") of a batch of " + state_.size + " requests", where);
    }
    state_.failures[i] = text.empty() ? "the model failed it" : std::move(text);
    state_.failed = true;
  }

 private:
  friend class batcher<In, Out>;
  explicit batch(detail::batch_state& state) noexcept : state_{state} {}
  detail::batch_state& state_;
};

/// The answer to a request, once: a value, or why there is none. To destroy it does not cancel the
/// request. It may outlive the batcher, which answers all requests before it ends.
///
/// **Threads:** one at a time.
template <class Out>
class ticket {
 public:
  /// A ticket of no request; its status is cancelled.
  ticket() noexcept = default;
  ticket(ticket&& other) noexcept
      : core_{other.core_}, slot_{detail::exchange(other.slot_, nullptr)} {}
  ticket& operator=(ticket&& other) noexcept {
    if (this != &other) {
      reset();
      core_ = other.core_;
      slot_ = detail::exchange(other.slot_, nullptr);
    }
    return *this;
  }
  ~ticket() { reset(); }

  /// Waits for the answer.
  /// @return the value, until the ticket ends; nullptr: error() says why there is none
  /// **Stream:** blocks the calling thread; a model must not wait for a request of its own batcher.
  [[nodiscard]] Out const* wait() { return wait_until(detail::end_of_time); }
  /// Waits for the answer, for a limited time.
  /// @param seconds  0 and less: does not wait
  /// @return as wait(); nullptr as well if there is no answer yet: status() is then pending
  [[nodiscard]] Out const* wait_for(double seconds) {
    return wait_until(seconds > 0.0 ? detail::monotonic_after(seconds) : 0);
  }
  /// @return pending, or how the request has ended
  [[nodiscard]] ticket_status status() const noexcept {
    if (slot_ == nullptr) return ticket_status::cancelled;
    if (slot_->is_in_inbox() && slot_->store->begin_visit()) {
      core_->settle();
      slot_->store->end_visit();
    }
    return slot_->status();
  }
  /// @return why there is no value, with figures; empty if there is one
  [[nodiscard]] std::string error() const { return detail::ticket_error(status(), slot_); }
  /// @return of a request that was shed at the door, in how many seconds this batcher will have
  ///   room for it, by its prediction; 1e300: never, a limit is too low for it; otherwise 0
  [[nodiscard]] double retry_after() const noexcept {
    return status() == ticket_status::shed ? slot_->figures.retry_after : 0.0;
  }
  /// @return seconds from submission to the answer, as the batcher has seen it; 0 while pending,
  ///   and of a request that was refused at once or cancelled
  [[nodiscard]] double seconds() const noexcept {
    bool const ended = slot_ != nullptr && slot_->status() != ticket_status::pending;
    return ended ? slot_->figures.seconds : 0.0;
  }
  /// Ends the request without an answer, unless it has one. What waits leaves the queue; what runs,
  /// runs on.
  void cancel() noexcept {
    if (slot_ == nullptr || !slot_->store->begin_visit()) return;
    core_->cancel(*slot_);
    slot_->store->end_visit();
  }

 private:
  template <class Input, class Output>
  friend class batcher;
  ticket(detail::batcher_core& core, detail::ticket_slot* slot) noexcept
      : core_{&core}, slot_{slot} {}

  Out const* wait_until(std::uint64_t until) {
    if (slot_ == nullptr) return nullptr;
    for (int i = 0; i < 100 && slot_->status() == ticket_status::pending; ++i) {
      detail::pause_processor();
    }
    if (status() == ticket_status::pending && !detail::ticket_store::wait(*slot_, until)) {
      return nullptr;
    }
    bool const has_value = slot_->status() == ticket_status::answered;
    return has_value ? reinterpret_cast<Out const*>(slot_->output) : nullptr;
  }
  void reset() noexcept {
    if (slot_ != nullptr) detail::ticket_store::release(*slot_, detail::ticket_slot::ticket);
    slot_ = nullptr;
  }

  detail::batcher_core* core_ = nullptr;
  detail::ticket_slot* slot_ = nullptr;
};

/// The streams that a batcher runs its batches on, one at a time on each; of any devices.
///
///   ww::batch_lanes lanes{streams};              // two streams of a pool
///   lanes.add(streams_of_another_device, 2);
class batch_lanes {
 public:
  batch_lanes() noexcept = default;
  /// Leases streams of a pool for the life of a batcher, which the pool outlives.
  /// @param pool   of any device
  /// @param count  batches in flight; two overlap the copies of one with the other's work
  batch_lanes(stream_pool& pool, std::size_t count = 2) { add(pool, count); }
  /// Takes a stream that outlives the batcher: a stream, a stream_ref, a lease, a cudaStream_t.
  template <class Stream,
            std::enable_if_t<std::is_convertible<Stream const&, stream_ref>::value, int> = 0>
  batch_lanes(Stream const& stream) {
    add(stream_ref{stream});
  }
  /// Takes streams that outlive the batcher.
  /// @param streams  a list, a std::vector … of them
  template <
      class Streams,
      std::enable_if_t<!std::is_convertible<Streams const&, stream_ref>::value &&
                           std::is_convertible<decltype(*std::declval<Streams const&>().begin()),
                                               stream_ref>::value,
                       int> = 0>
  batch_lanes(Streams const& streams) {
    for (auto const& stream : streams) add(stream_ref{stream});
  }
  batch_lanes(std::initializer_list<stream_ref> streams) {
    for (stream_ref const& stream : streams) add(stream);
  }

  batch_lanes& add(stream_pool& pool, std::size_t count = 2) {
    for (std::size_t i = 0; i < count; ++i) {
      lanes_.push_back(detail::lane_source{&pool, stream_ref::legacy_default()});
    }
    return *this;
  }
  batch_lanes& add(stream_ref stream) {
    lanes_.push_back(detail::lane_source{nullptr, stream});
    return *this;
  }
  [[nodiscard]] std::size_t size() const noexcept { return lanes_.size(); }

 private:
  template <class In, class Out>
  friend class batcher;
  detail::array<detail::lane_source> lanes_;
};

/// Runs requests in batches, on lanes: a thread each, which calls the model for one batch after
/// another, and waits for its stream. A batch runs as soon as a lane is idle; batch_policy says
/// with which requests.
///
/// Inputs and outputs are copied as bytes: by submit() into memory of the batcher, from there
/// through page-locked memory to the device, and the outputs back. With
/// batcher_options::host_data() they stay in page-locked memory, so that an input can be a pointer
/// to device memory.
///
/// A request is answered exactly once. Its deadline is kept by a thread of its own: it is answered
/// in time although a model blocks. What a model throws fails its batch alone. When the device is
/// lost, all requests fail, and later ones are refused.
///
/// @pre The streams, their pools and what the model uses outlive the batcher.
/// @tparam In, Out  trivially copyable
/// **Threads:** any number may call at once.
/// **Capture:** no call touches a stream of the caller. A model may capture on its stream.
/// **Cost:** submit() takes some 100 ns and copies the input; neither it nor an answer allocates
/// when there were as many requests, tickets and keys before.
template <class In, class Out>
class batcher {
  static_assert(std::is_trivially_copyable<In>::value && std::is_trivially_copyable<Out>::value,
                "warpwright::batcher<In, Out> copies inputs and outputs as bytes: both must be "
                "trivially copyable; use a pointer or an index for what is not");
  static_assert(alignof(In) <= 64 && alignof(Out) <= 64,
                "warpwright::batcher<In, Out>: In or Out is aligned to more than 64 bytes");

 public:
  /// Allocates a lane's memory for each lane and starts the threads.
  /// @param options  sizes, limits and rules
  /// @param lanes    1 to 64 streams; convertible from a stream_pool& and from streams
  /// @param model    seconds of a batch over its size, where nothing is known: latency_model::fit()
  ///   of a guess. It is corrected by what batches take
  /// @param run      `void run(batch<In, Out>&, stream_ref)`, moved in: enqueues the work of a
  ///   batch on the stream, or does it. It is called by several threads at once if there are
  ///   several lanes, with the lane's device current. What it throws fails the batch
  /// @throws std::invalid_argument           for an option out of range, or no free stream
  /// @throws std::bad_alloc, cuda_error      when there is no memory
  /// @throws std::runtime_error              when the system refuses a thread
  template <class Run>
  batcher(batcher_options const& options, batch_lanes const& lanes, latency_model const& model,
          Run&& run, source_location where = source_location::current())
      : core_{options,
              lanes.lanes_,
              model,
              typed(std::forward<Run>(run)),
              detail::batcher_core::sizes{sizeof(In), sizeof(Out)},
              where} {}
  /// As drain(batcher_options::drain()), and waits for the models that run.
  /// @pre no other call is in progress; not called by a model. A model that never returns is waited
  ///   for for ever
  ~batcher() = default;
  batcher(batcher const&) = delete;
  batcher& operator=(batcher const&) = delete;

  /// Takes a request.
  /// @param input  copied
  /// @param r      key, deadline, priority, cost
  /// @return its ticket; it may be answered already: shed if it is predicted to be late, or a limit
  ///   is reached, closing behind drain()
  /// @throws std::bad_alloc  when there is no memory for another request
  /// **Threads:** any, models too. **Cost:** see above; waits for room with when_full::block.
  [[nodiscard]] ticket<Out> submit(In const& input, request const& r = {}) {
    return ticket<Out>{*core_, core_->submit(&input, r)};
  }

  /// Refuses new requests for good and waits until all others are answered.
  /// @param seconds  how long at most; then the rest is answered with `closing`
  /// @return what has been done
  /// @throws std::invalid_argument  when a model calls it
  drain_report drain(double seconds, source_location where = source_location::current()) {
    return core_->drain(seconds, where);
  }
  /// @return what has been done so far
  [[nodiscard]] batcher_statistics statistics() noexcept { return core_->statistics(); }

 private:
  template <class Run>
  static detail::batch_model typed(Run&& run) {
    static_assert(std::is_invocable<std::decay_t<Run>&, batch<In, Out>&, stream_ref>::value,
                  "warpwright::batcher<In, Out> calls run(warpwright::batch<In, Out>& b, "
                  "warpwright::stream_ref stream)");
    return detail::batch_model{[run = std::decay_t<Run>(std::forward<Run>(run))](
                                   detail::batch_state& state, stream_ref stream) mutable {
      batch<In, Out> b{state};
      run(b, stream);
    }};
  }

  detail::process_bound<detail::batcher_core> core_;
};

WARPWRIGHT_END
