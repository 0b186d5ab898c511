// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/stream/detail/transfer/collect_core.hpp>

#include <exception>
#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

template <class T>
class result_collector;

/// Device memory for one result, until reset() or destruction, which copies it to the host behind
/// the work that has been submitted to its stream by then.
///
/// While an exception passes, nothing is copied: cancel().
/// @pre The collector, and the stream, outlive it; the stream is not capturing at its end, nor the
///   legacy one beside a capture: the result is then not copied, next() and finish() throw, and the
///   stream must outlive the collector.
/// **Threads:** one at a time; it may end in another thread than it was taken by.
template <class T>
class result_slot {
 public:
  /// An empty slot.
  result_slot() noexcept = default;
  result_slot(result_slot&& other) noexcept
      : core_{detail::exchange(other.core_, nullptr)},
        slot_{other.slot_},
        size_{other.size_},
        exceptions_{other.exceptions_} {}
  result_slot& operator=(result_slot&& other) noexcept {
    if (this != &other) {
      reset();
      core_ = detail::exchange(other.core_, nullptr);
      slot_ = other.slot_;
      size_ = other.size_;
      exceptions_ = other.exceptions_;
    }
    return *this;
  }
  ~result_slot() { std::uncaught_exceptions() > exceptions_ ? cancel() : reset(); }

  /// @return whether there is memory
  explicit operator bool() const noexcept { return core_ != nullptr; }
  /// @return the memory, in device memory; an address of the slot that stays the same
  /// @pre not empty; as for all that follow
  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(slot_->device); }
  /// @return the number of elements that will be copied: capacity() unless set_size() was called
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// @return the maximum of elements
  [[nodiscard]] std::size_t capacity() const noexcept { return core_->capacity(); }
  /// @return the number that the sink is called with: 0, 1, 2 …
  [[nodiscard]] std::size_t index() const noexcept { return slot_->index; }
  /// @return the number of the slot, below prefetch_statistics::depth: a key for a graph_cache
  [[nodiscard]] unsigned slot() const noexcept { return core_->number_of(*slot_); }

  /// An array of another type in the result, as labels behind scores.
  /// @param offset_bytes  from data(), a multiple of alignof(U)
  template <class U>
  [[nodiscard]] U* at(std::size_t offset_bytes) const noexcept {
    static_assert(std::is_trivially_copyable<U>::value,
                  "warpwright: result_slot::at<U>: U must be trivially copyable");
    return reinterpret_cast<U*>(reinterpret_cast<char*>(data()) + offset_bytes);
  }

  /// Sets the number of elements to copy.
  /// @param elements  0: none, and the sink is not called for this result
  /// @throws std::invalid_argument  for more than capacity()
  void set_size(std::size_t elements, source_location where = source_location::current()) {
    if (elements > capacity()) {
      detail::throw_invalid_argument(detail::text{"result_slot: "} + elements +
                                         " elements, and there is room for " + capacity() +
                                         "; give the result_collector a larger capacity",
                                     where);
    }
    size_ = elements;
  }
  /// Copies the result to the host behind the work submitted to the stream so far. Does nothing
  /// when empty.
  /// @pre as of the destructor, see above
  /// **Cost:** five CUDA calls, now and then three more.
  void reset() noexcept {
    if (core_ != nullptr) detail::exchange(core_, nullptr)->release(*slot_, size_);
  }
  /// Gives the memory back without a result: the sink is not called for it.
  void cancel() noexcept {
    size_ = 0;
    reset();
  }

 private:
  friend class result_collector<T>;
  result_slot(detail::collect_core& core, detail::transfer_slot& slot) noexcept
      : core_{&core}, slot_{&slot}, size_{core.capacity()} {}

  detail::collect_core* core_ = nullptr;
  detail::transfer_slot* slot_ = nullptr;
  std::size_t size_ = 0;
  int exceptions_ = std::uncaught_exceptions();
};

/// Brings results to the host behind the work that makes them: the mirror of a prefetcher. A stream
/// of its own copies them to page-locked memory, and a thread hands them to a function, in order.
///
/// All memory is allocated at construction, and where the ring grows (see
/// prefetch_options::max_bytes()); otherwise a result allocates nothing and page-locks nothing.
///
/// A child of fork() has neither its thread nor CUDA: there it may end, as its slots may, without
/// any effect, and no other call is legal.
///
/// @pre The pools and what the sink uses outlive the collector, and it the slots.
/// @tparam T  trivially copyable
/// **Threads:** any number may call at once.
/// **Capture:** next() must not be called with a capturing stream. The work that makes a result can
/// be a graph: the slots' addresses stay the same. Captures of other streams are not disturbed.
template <class T>
class result_collector {
  static_assert(std::is_trivially_copyable<T>::value && !std::is_const<T>::value,
                "warpwright::result_collector<T> copies elements as bytes: T must be trivially "
                "copyable and not const");
  static_assert(alignof(T) <= pinned_pool::block_alignment_bytes,
                "warpwright::result_collector<T>: T is aligned to more than 256 bytes, a slot is "
                "not");

 public:
  /// Allocates the ring and starts the thread.
  /// @param pool      provides the device memory: depth times a result
  /// @param pinned    provides as much page-locked memory
  /// @param capacity  the maximum of elements of a result, at least 1
  /// @param sink      `void sink(T const* from, std::size_t size, std::size_t index)`: called by
  ///   the thread for one result after the other, in the order in which the slots were taken, with
  ///   the pool's device current and in relaxed capture mode. It is moved in. After what it throws,
  ///   or a result that is not copied, it is not called any more, and every later call of next()
  ///   and finish() throws that. It may call stop(), and next() while a slot is free, but not
  ///   finish(), which throws there
  /// @param options   depth, growth
  /// @throws std::invalid_argument      for a capacity or an option out of range
  /// @throws out_of_memory, cuda_error  when the memory, a stream or an event cannot be created
  /// @throws std::runtime_error         when the system refuses the thread
  /// **Cost:** page-locks the ring unless the pinned_pool has free memory, and starts a thread:
  /// construct it ahead of the loop.
  template <class Sink>
  result_collector(memory_pool& pool, pinned_pool& pinned, std::size_t capacity, Sink&& sink,
                   prefetch_options const& options = {},
                   source_location where = source_location::current())
      : sink_{make(std::forward<Sink>(sink))}, core_{pool,           pinned,  sizeof(T), capacity,
                                                     *sink_->object, options, where} {}
  /// Waits until the sink has had the results of all slots that were given back. Never throws: call
  /// finish() to learn of an error.
  /// @pre no slot is left, and no call is in progress
  ~result_collector() = default;

  /// Takes memory for the next result; waits on the host while all slots hold results that the sink
  /// has not read.
  /// @pre not all slots of the ring are held, by this thread and others together, or are behind one
  ///   that is held, as results stay in order: it would wait for ever
  /// @param stream  of the pool's device: it waits until the memory is free, and the result is
  ///   copied behind its work
  /// @return the slot; empty after stop()
  /// @throws what the sink threw
  /// @throws std::invalid_argument  for a capturing stream; for an earlier result whose stream was
  ///   capturing at its end; in the sink, if no slot is free; and where all memory of the ring is
  ///   kept for captures in which this thread has given it back, and which it would have to end
  /// @throws cuda_error             when an earlier result could not be copied
  /// **Stream:** later work of `stream` runs behind the copy of the slot's last result.
  /// **Capture:** not on a capturing stream. **Cost:** two CUDA calls, and four more if it has to
  /// wait; no allocation.
  [[nodiscard]] result_slot<T> next(stream_ref stream,
                                    source_location where = source_location::current()) {
    detail::transfer_slot* const slot = core_->next(stream, where);
    return slot == nullptr ? result_slot<T>{} : result_slot<T>{*core_, *slot};
  }
  /// Waits until the sink has had the results of all slots that were given back, up to the first
  /// one that is still held: the sink gets them in order.
  /// @throws what the sink threw; cuda_error when a result could not be copied;
  ///   std::invalid_argument for a result whose stream was capturing at its end, and in the sink
  /// **Stream:** blocks the calling thread. **Capture:** legal; it does not wait for the capture.
  void finish() { core_->finish(); }

  /// Ends all calls of next(), also those that wait: they return empty slots. The sink is not
  /// called any more, and results that it has not had are dropped; a call under way is not
  /// interrupted, and finish() waits for it.
  void stop() noexcept { core_->stop(); }

  /// @return what has been done so far; statistics().to_text() says what the limit is
  [[nodiscard]] prefetch_statistics statistics() const noexcept { return core_->statistics(); }

 private:
  template <class Sink>
  class typed_sink final : public detail::result_sink {
   public:
    template <class From>
    explicit typed_sink(From&& sink) : sink_(std::forward<From>(sink)) {}
    void drain(void const* from, std::size_t bytes, std::size_t index) override {
      sink_(static_cast<T const*>(from), bytes / sizeof(T), index);
    }

   private:
    Sink sink_;
  };
  template <class Sink>
  static detail::result_sink* make(Sink&& sink) {
    using stored = std::decay_t<Sink>;
    static_assert(std::is_invocable<stored&, T const*, std::size_t, std::size_t>::value,
                  "warpwright::result_collector<T> calls sink(T const* from, std::size_t size, "
                  "std::size_t index)");
    return new typed_sink<stored>(std::forward<Sink>(sink));
  }

  detail::process_bound<detail::owned<detail::result_sink>> sink_;
  // Destroyed first: its thread calls the sink.
  detail::process_bound<detail::collect_core> core_;
};

WARPWRIGHT_END
