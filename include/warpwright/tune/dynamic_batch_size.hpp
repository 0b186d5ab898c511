// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A batch size for loops that survives running out of memory.
//
//   auto batch = ww::dynamic_batch_size{512}.minimum(8).multiple_of(8);
//   for (auto const& step : epoch)
//     batch.run(step.items, [&](std::size_t offset, std::size_t count) { … });
#pragma once

#include <warpwright/core/detail/error/exception_kind.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>
#include <exception>
#include <type_traits>

WARPWRIGHT_BEGIN

/// Whether an exception says that memory ran out: out_of_memory and any other std::bad_alloc, and a
/// cuda_error with cudaErrorMemoryAllocation that is not sticky.
struct default_out_of_memory {
  /// @param error  a caught exception, not null
  bool operator()(std::exception_ptr const& error) const {
    return detail::kind_of(error) == detail::exception_kind::out_of_memory;
  }
};

/// The number of items that a loop runs at once: halved when memory runs out, and raised again
/// after a number of clean steps.
///
/// The next larger size is halfway to the smallest size that failed, or twice the size if none has.
/// A failed try returns to the size before it, and doubles the number of clean steps before the
/// next one; a try that lasts takes that back. So under a constant limit a loop of n steps fails
/// O(log n) times, and where the limit rises the size follows it.
///
/// minimum() to grow_after() are setters, which return a changed copy; call them before the loop.
/// **Threads:** one at a time.
class dynamic_batch_size {
 public:
  /// @param largest  items, at least 1; never more than that at once, and that at first
  explicit dynamic_batch_size(std::size_t largest) noexcept : largest_{largest}, size_{largest} {}

  /// @param items  the least size, at least 1; default: one multiple
  [[nodiscard]] dynamic_batch_size minimum(std::size_t items) const noexcept {
    return with(&dynamic_batch_size::minimum_, items);
  }
  /// @param items  sizes are multiples of this, at least 1; default 1
  [[nodiscard]] dynamic_batch_size multiple_of(std::size_t items) const noexcept {
    return with(&dynamic_batch_size::multiple_, items);
  }
  /// @param items  the size to begin with; default: the largest
  [[nodiscard]] dynamic_batch_size start_at(std::size_t items) const noexcept {
    return with(&dynamic_batch_size::size_, items);
  }
  /// @param steps  clean steps at a size before a larger one is tried, at least 1; default 100
  [[nodiscard]] dynamic_batch_size grow_after(std::size_t steps) const noexcept {
    return with(&dynamic_batch_size::least_wait_, steps).with(&dynamic_batch_size::wait_, steps);
  }

  /// @return items to run at once now
  /// @throws std::invalid_argument for settings out of range: no multiple between the least and the
  ///   largest size, or a 0
  [[nodiscard]] std::size_t size(source_location where = source_location::current()) const {
    check_settings(where);
    return current();
  }
  /// @return clean steps at a size before a larger one is tried now
  [[nodiscard]] std::size_t steps_before_growth() const noexcept { return wait_; }

  /// Tells that a step of size() items was clean.
  void succeeded() noexcept {
    bool const at_top = current() == round_down(largest_);
    if ((at_top && !trying_) || ++clean_ < wait_) return;
    clean_ = 0;
    if (trying_) {  // it has lasted
      trying_ = false;
      wait_ = wait_ / 2 > least_wait_ ? wait_ / 2 : least_wait_;
      if (current() >= failed_) failed_ = 0;
      if (at_top) return;
    }
    before_ = current();
    size_ = next_larger();
    trying_ = true;
  }

  /// Tells that a step of size() items ran out of memory: lowers the size.
  /// @throws out_of_memory if the size was the least; its text names it
  /// @throws std::invalid_argument as size()
  void out_of_memory(source_location where = source_location::current()) {
    check_settings(where);
    fail(current(), nullptr, where);
  }

  /// Runs `f` over all items in parts of size(), and those of a part that ran out of memory again
  /// in smaller parts, so that no item is left out.
  ///
  /// Before a part is run again, the exception is destroyed and CUDA's last error cleared.
  ///
  /// @pre when `f` runs out of memory it has no effect: it must not have added to a sum, and what
  ///   it enqueued must not need memory that it has freed
  /// @param items  how many, any number
  /// @param f  `void(std::size_t offset, std::size_t count)`: runs items `offset` to
  ///   `offset + count`; called in ascending order. `count` is a multiple but for the last part
  /// @param is_out_of_memory  `bool(std::exception_ptr const&)`: which exceptions of `f` mean that
  ///   memory ran out
  /// @return the number of parts that ran
  /// @throws out_of_memory if a part of the least size does not fit; its text names that size
  /// @throws cuda_error for an error that a call before has left pending. One that `f` leaves
  ///   pending counts as thrown by it: a part whose launch failed did not run
  /// @throws whatever else `f` throws, at once: the items before that call's `offset` are done, and
  ///   `f` was not called for those behind its part
  /// @throws std::invalid_argument as size(), before anything runs
  ///
  /// **Stream:** none; `f` chooses its own. **Capture:** as `f`; a failed allocation ends a
  /// capture.
  template <typename Function, typename Classifier = default_out_of_memory>
  std::size_t run(std::size_t items, Function&& f, Classifier&& is_out_of_memory = {},
                  source_location where = source_location::current()) {
    static_assert(std::is_invocable_v<Function&, std::size_t, std::size_t>,
                  "warpwright: the function of dynamic_batch_size::run must be callable as "
                  "void(std::size_t offset, std::size_t count)");
    static_assert(std::is_invocable_r_v<bool, Classifier&, std::exception_ptr const&>,
                  "warpwright: the classifier of dynamic_batch_size::run must be callable as "
                  "bool(std::exception_ptr const&)");
    check_settings(where);
    detail::check_pending("a call before dynamic_batch_size::run", where);
    std::size_t parts = 0;
    for (std::size_t offset = 0; offset < items;) {
      std::size_t const left = items - offset;
      std::size_t const count = left < current() ? left : current();
      memory_report report;
      bool reported = false;
      if (fits(f, offset, count, is_out_of_memory, report, reported, where)) {
        // A shorter part at the end does not show that a whole one fits.
        if (count == current()) succeeded();
        offset += count;
        ++parts;
        continue;
      }
      static_cast<void>(cudaGetLastError());
      fail(count, reported ? &report : nullptr, where);
    }
    return parts;
  }

 private:
  template <typename T>
  [[nodiscard]] dynamic_batch_size with(T dynamic_batch_size::*member, T value) const noexcept {
    dynamic_batch_size copy = *this;
    copy.*member = value;
    return copy;
  }

  // Returns after the handler, so that the exception and the memory that it may hold are destroyed.
  template <typename Function, typename Classifier>
  static bool fits(Function& f, std::size_t offset, std::size_t count, Classifier& is_out_of_memory,
                   memory_report& report, bool& reported, source_location where) {
    try {
      f(offset, count);
      detail::check_pending("the function of dynamic_batch_size::run", where);
      return true;
    } catch (warpwright::out_of_memory const& error) {
      if (!is_out_of_memory(std::current_exception())) throw;
      report = error.report();
      reported = true;
    } catch (...) {
      if (!is_out_of_memory(std::current_exception())) throw;
    }
    return false;
  }

  std::size_t round_down(std::size_t items) const noexcept { return items / multiple_ * multiple_; }
  // The least size, rounded up.
  std::size_t least() const noexcept {
    return minimum_ <= multiple_ ? multiple_ : ((minimum_ - 1) / multiple_ + 1) * multiple_;
  }
  std::size_t current() const noexcept {
    std::size_t const down = round_down(size_ < largest_ ? size_ : largest_);
    return down > least() ? down : least();
  }

  std::size_t next_larger() const noexcept {
    std::size_t const now = current();
    std::size_t const top = round_down(largest_);
    if (failed_ == 0) return now < top / 2 ? 2 * now : top;
    if (failed_ <= now + multiple_) return failed_ < top ? failed_ : top;  // once more
    return round_down(now + (failed_ - now) / 2);
  }

  void fail(std::size_t count, memory_report const* report, source_location where) {
    clean_ = 0;
    failed_ = ((count - 1) / multiple_ + 1) * multiple_;
    if (wait_ < most_wait) wait_ *= 2;
    bool const tried = trying_ && before_ < count;
    trying_ = false;
    if (!tried && count <= least()) throw_too_small(count, report, where);
    std::size_t const half = round_down(count / 2);
    size_ = tried ? before_ : half > least() ? half : least();
  }

  WARPWRIGHT_NOINLINE void check_settings(source_location where) const {
    if (multiple_ >= 1 && minimum_ >= 1 && least_wait_ >= 1 && size_ >= 1 && minimum_ <= largest_ &&
        least() <= largest_) {
      return;
    }
    detail::throw_invalid_argument(
        detail::text{"dynamic_batch_size: largest "} + largest_ + ", minimum " + minimum_ +
            ", multiple_of " + multiple_ + ", start_at " + size_ + ", grow_after " + least_wait_ +
            "; each must be at least 1, and a multiple must lie between minimum and largest",
        where);
  }

  [[noreturn]] WARPWRIGHT_COLD void throw_too_small(std::size_t count, memory_report const* given,
                                                    source_location where) const {
    memory_report report;
    if (given != nullptr) {
      report = *given;
    } else {
      std::size_t free = 0;
      std::size_t total = 0;
      detail::discard(cudaGetDevice(&report.device));
      detail::discard(cudaMemGetInfo(&free, &total));
      report.live_bytes = report.reserved_bytes = total - free;
      report.limit_bytes = total;
    }
    throw warpwright::out_of_memory{
        report, where,
        detail::text{"; a batch of "} + count + (count == 1 ? " item" : " items") +
            " does not fit, and dynamic_batch_size may use none below " + least() +
            ": lower minimum() or multiple_of()"};
  }

  static constexpr std::size_t most_wait = std::size_t{1} << 40;

  std::size_t largest_;
  std::size_t size_;
  std::size_t minimum_ = 1;
  std::size_t multiple_ = 1;
  std::size_t least_wait_ = 100;
  std::size_t wait_ = 100;  // clean steps before a larger size is tried
  std::size_t clean_ = 0;   // clean steps since the size changed
  std::size_t failed_ = 0;  // the smallest size known to fail; 0: none
  std::size_t before_ = 0;  // the size to return to if a try fails
  bool trying_ = false;     // the size is larger than one that is known to fit
};

WARPWRIGHT_END
