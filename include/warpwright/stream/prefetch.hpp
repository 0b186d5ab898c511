// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/stream/detail/transfer/prefetch_core.hpp>

#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

template <class T>
class prefetcher;

/// A batch in device memory, until reset() or destruction; empty behind the last one.
///
/// Its end gives the memory back behind the work that has been submitted to its stream by then.
/// Work on other streams must be ordered before that (stream_ref::wait).
/// @pre The prefetcher, and the stream, outlive it; the stream outlives the prefetcher, too, if it
///   is capturing at the batch's end.
/// **Threads:** one at a time; it may end in another thread than it was taken by. **Capture:**
/// while its stream is capturing at its end, or is the legacy one beside a capture, the memory is
/// kept until that has ended.
template <class T>
class prefetched {
 public:
  /// An empty batch.
  prefetched() noexcept = default;
  prefetched(prefetched&& other) noexcept
      : core_{detail::exchange(other.core_, nullptr)}, slot_{other.slot_} {}
  prefetched& operator=(prefetched&& other) noexcept {
    if (this != &other) {
      reset();
      core_ = detail::exchange(other.core_, nullptr);
      slot_ = other.slot_;
    }
    return *this;
  }
  ~prefetched() { reset(); }

  /// @return whether there is a batch
  explicit operator bool() const noexcept { return core_ != nullptr; }
  /// @return the elements, in device memory; an address of the slot that stays the same
  /// @pre not empty; as for all that follow
  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(slot_->device); }
  /// @return the number of elements
  [[nodiscard]] std::size_t size() const noexcept { return slot_->bytes / sizeof(T); }
  /// @return the number that the source was called with: 0, 1, 2 …
  [[nodiscard]] std::size_t index() const noexcept { return slot_->index; }
  /// @return the number of the slot, below prefetch_statistics::depth: a key for a graph_cache
  [[nodiscard]] unsigned slot() const noexcept { return core_->number_of(*slot_); }
  /// An array of another type in the batch, as labels behind images.
  /// @param offset_bytes  from data(), a multiple of alignof(U)
  template <class U>
  [[nodiscard]] U* at(std::size_t offset_bytes) const noexcept {
    static_assert(std::is_trivially_copyable<U>::value,
                  "warpwright: prefetched::at<U>: U must be trivially copyable");
    return reinterpret_cast<U*>(static_cast<char*>(slot_->device) + offset_bytes);
  }

  /// Gives the memory back behind the work submitted to the stream so far. Does nothing when empty.
  /// **Cost:** two CUDA calls.
  void reset() noexcept {
    if (core_ != nullptr) detail::exchange(core_, nullptr)->release(*slot_);
  }

 private:
  friend class prefetcher<T>;
  prefetched(detail::prefetch_core& core, detail::transfer_slot& slot) noexcept
      : core_{&core}, slot_{&slot} {}

  detail::prefetch_core* core_ = nullptr;
  detail::transfer_slot* slot_ = nullptr;
};

/// Brings batches to the device ahead of the work with them: threads fill page-locked memory, a
/// stream of its own copies it, and the caller's stream waits for no more than the copy.
///
/// All memory is allocated at construction, and where the ring grows (see
/// prefetch_options::max_bytes()); otherwise a batch allocates nothing and page-locks nothing.
///
/// One stream copies all batches, each behind the work of the slot's last user: a caller whose
/// stream stalls holds up the others. Where they must not wait for each other, give each a
/// prefetcher.
///
/// A child of fork() has neither its threads nor CUDA: there it may end, as its batches may,
/// without any effect, and no other call is legal.
///
/// @pre The pools and what the source uses outlive the prefetcher, and it the batches.
/// @tparam T  trivially copyable
/// **Threads:** any number may call next() and stop() at once; each batch goes to one of them.
/// **Capture:** next() must not be called with a capturing stream. The work with a batch can be a
/// graph: the slots' addresses stay the same, so capture it once a slot(). Captures of other
/// streams are not disturbed.
template <class T>
class prefetcher {
  static_assert(std::is_trivially_copyable<T>::value && !std::is_const<T>::value,
                "warpwright::prefetcher<T> copies elements as bytes: T must be trivially copyable "
                "and not const");
  static_assert(alignof(T) <= pinned_pool::block_alignment_bytes,
                "warpwright::prefetcher<T>: T is aligned to more than 256 bytes, a batch is not");

 public:
  /// Allocates the ring, and starts the workers, which begin to call the source.
  /// @param pool      provides the device memory: depth times a batch
  /// @param pinned    provides as much page-locked memory
  /// @param capacity  the maximum of elements of a batch, at least 1
  /// @param source    `std::size_t source(T* to, std::size_t index)`: writes batch `index` and
  ///   returns its number of elements, at most `capacity`; 0 if there is no such batch, nor a later
  ///   one. Called by the workers, by several at once and for rising indices, each once, with the
  ///   pool's device current and in relaxed capture mode. What it throws, next() throws in place of
  ///   the batch. It may call stop(), but not next(), which throws there. It is moved in
  /// @param options   workers, depth, growth
  /// @throws std::invalid_argument      for a capacity or an option out of range
  /// @throws out_of_memory, cuda_error  when the memory, a stream or an event cannot be created
  /// @throws std::runtime_error         when the system refuses a thread
  /// **Cost:** page-locks the ring unless the pinned_pool has free memory, and starts threads:
  /// construct it ahead of the loop.
  template <class Source>
  prefetcher(memory_pool& pool, pinned_pool& pinned, std::size_t capacity, Source&& source,
             prefetch_options const& options = {},
             source_location where = source_location::current())
      : source_{make(std::forward<Source>(source))}, core_{pool,     pinned,           sizeof(T),
                                                           capacity, *source_->object, options,
                                                           where} {}
  /// Stops, waits for calls of the source and for the copies. Work with batches may still run.
  /// @pre no batch is left, and no call of next() is in progress
  ~prefetcher() = default;

  /// Takes the next batch; waits on the host until its copy is enqueued.
  /// @pre not all batches of the ring are held, by this thread and others together: it would wait
  ///   for ever
  /// @param stream  of the pool's device: it waits for the copy, and the batch is given back behind
  ///   its work
  /// @return the batch; empty behind the last one, and after stop()
  /// @throws what the source threw for this batch; the next call goes on with the one behind it
  /// @throws std::invalid_argument  for a capturing stream; in the source; and where all memory of
  ///   the ring is kept for captures in which this thread has given it back, and which it would
  ///   have to end
  /// @throws cuda_error             when the copy could not be enqueued, or the wait for it
  /// **Stream:** later work of `stream` runs behind the copy. **Capture:** not on a capturing
  /// stream. **Cost:** two CUDA calls, and four more if it has to wait; no allocation.
  [[nodiscard]] prefetched<T> next(stream_ref stream,
                                   source_location where = source_location::current()) {
    detail::transfer_slot* const slot = core_->next(stream, where);
    return slot == nullptr ? prefetched<T>{} : prefetched<T>{*core_, *slot};
  }
  /// Ends all calls of next(), also those that wait: they return empty batches. The source is not
  /// called any more; a call that is under way is not interrupted, nor a wait for a copy.
  void stop() noexcept { core_->stop(); }

  /// @return what has been done so far; statistics().to_text() says what the limit is
  [[nodiscard]] prefetch_statistics statistics() const noexcept { return core_->statistics(); }

 private:
  template <class Source>
  class typed_source final : public detail::batch_source {
   public:
    template <class From>
    explicit typed_source(From&& source) : source_(std::forward<From>(source)) {}
    std::size_t fill(void* to, std::size_t index) override {
      return source_(static_cast<T*>(to), index);
    }

   private:
    Source source_;
  };
  template <class Source>
  static detail::batch_source* make(Source&& source) {
    using stored = std::decay_t<Source>;
    static_assert(std::is_invocable_r<std::size_t, stored&, T*, std::size_t>::value,
                  "warpwright::prefetcher<T> calls source(T* to, std::size_t index), which returns "
                  "the number of elements as std::size_t");
    return new typed_source<stored>(std::forward<Source>(source));
  }

  detail::process_bound<detail::owned<detail::batch_source>> source_;
  // Destroyed first: its threads call the source.
  detail::process_bound<detail::prefetch_core> core_;
};

WARPWRIGHT_END
