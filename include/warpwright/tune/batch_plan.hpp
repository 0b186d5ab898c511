// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A global batch as micro batch times accumulation steps times ranks, under a memory limit:
//
//   auto const plan = ww::batch_planner{}.global_batch(4096).ranks(8).multiple_of(8)
//                         .memory(memory, limit_bytes).plan(latency);
//   for (std::size_t step = 0; step < plan.steps; ++step)
//     accumulate(plan.items(rank, step), plan.weight(rank, step));
//
// and a batch size for loops that survives running out of memory:
//
//   auto batch = ww::dynamic_batch_size{512}.min_size(8).multiple_of(8);
//   for (auto const& step : epoch)
//     batch.run(step.items, [&](std::size_t offset, std::size_t count) { … });
#pragma once

#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/tune/detail/memory_model.hpp>

#include <cstddef>
#include <exception>
#include <stdexcept>
#include <type_traits>

WARPWRIGHT_BEGIN

/// How a global batch is divided over ranks and accumulation steps.
struct batch_plan {
  std::size_t global_batch = 0;   ///< items of one optimizer step, over all ranks
  std::size_t ranks = 1;          ///< processes or devices that share it
  std::size_t micro_batch = 0;    ///< items that a rank runs at once
  std::size_t steps = 0;          ///< accumulation steps, the same number on all ranks
  bool exact = true;              ///< micro_batch * steps * ranks == global_batch
  double seconds = 0.0;           ///< predicted, of all steps of a rank; 0: no model was given
  double items_per_second = 0.0;  ///< predicted, of all ranks together; 0: no model was given

  /// The items of one micro batch. All are micro_batch items where the plan is exact; otherwise
  /// the last step's are fewer, perhaps 0 on some ranks.
  /// @param rank  from 0 to below ranks
  /// @param step  from 0 to below steps
  /// @return items
  [[nodiscard]] constexpr std::size_t items(std::size_t rank, std::size_t step) const noexcept {
    std::size_t const mine = rank_items(rank);
    std::size_t const before = step * micro_batch;
    if (before >= mine) return 0;
    return mine - before < micro_batch ? mine - before : micro_batch;
  }
  /// @param rank  from 0 to below ranks
  /// @return the items of a rank in all steps; of any two ranks they differ by at most 1
  [[nodiscard]] constexpr std::size_t rank_items(std::size_t rank) const noexcept {
    return global_batch / ranks + (rank < global_batch % ranks ? 1 : 0);
  }
  /// The weight of a micro batch's mean loss in the mean over the global batch; gradients that are
  /// summed over steps and ranks need the same.
  /// @param rank  from 0 to below ranks
  /// @param step  from 0 to below steps
  /// @return items(rank, step) / global_batch; all weights add up to 1
  [[nodiscard]] constexpr double weight(std::size_t rank, std::size_t step) const noexcept {
    return static_cast<double>(items(rank, step)) / static_cast<double>(global_batch);
  }
};

/// Thrown when no micro batch divides the global batch exactly; what() names the sizes that do.
class no_batch_plan : public std::runtime_error {
 public:
  /// @param text   what is not possible, and the remedy
  /// @param below  the nearest smaller global batch that can be divided; 0: none
  /// @param above  the nearest larger one
  no_batch_plan(char const* text, std::size_t below, std::size_t above)
      : std::runtime_error{text}, below_{below}, above_{above} {}
  /// @return the nearest smaller global batch that can be divided exactly; 0: none
  [[nodiscard]] std::size_t nearest_below() const noexcept { return below_; }
  /// @return the nearest larger global batch that can be divided exactly
  [[nodiscard]] std::size_t nearest_above() const noexcept { return above_; }

 private:
  std::size_t below_;
  std::size_t above_;
};

namespace detail {

struct batch_plan_settings {
  std::size_t global = 0;
  std::size_t ranks = 1;
  std::size_t largest = ~std::size_t{0};
  std::size_t minimum = 1;
  std::size_t multiple = 1;
  bool ragged = false;
};

// @param seconds  the time of a micro batch; null: the fewest steps
batch_plan plan_batch(batch_plan_settings const& settings,
                      function_ref<double(std::size_t)> const* seconds, source_location where);

}  // namespace detail

/// Divides a global batch into micro batches: a value, each setter of which returns a changed copy.
///
/// **Threads:** any number may call const members at once.
class batch_planner : public detail::options_base<batch_planner, detail::batch_plan_settings> {
 public:
  /// @param items  of one optimizer step over all ranks, 1 to 2^40; must be set
  self global_batch(std::size_t items) const { return with(&values::global, items); }
  /// @param count  processes or devices that share the batch, at least 1; default 1
  self ranks(std::size_t count) const { return with(&values::ranks, count); }
  /// @param items  the largest micro batch that fits into a rank's memory; default: any
  self largest_micro_batch(std::size_t items) const { return with(&values::largest, items); }
  /// Sets the largest micro batch to the largest one that a model knows to fit.
  /// @param model  the memory of a rank over its micro batch
  /// @param limit_bytes  the memory of a rank
  self memory(memory_model const& model, std::size_t limit_bytes) const {
    return largest_micro_batch(model.largest_within(limit_bytes));
  }
  /// @param items  the least micro batch worth running, 1 to 2^40; default: one multiple
  self min_micro_batch(std::size_t items) const { return with(&values::minimum, items); }
  /// @param items  micro batches are multiples of this, 1 to 2^40; default 1. A ragged last step
  ///   is not
  self multiple_of(std::size_t items) const { return with(&values::multiple, items); }
  /// Allows a last step of fewer items, and ranks that differ by one, where that is faster or no
  /// exact product exists. Weigh losses by batch_plan::weight() then.
  self allow_ragged() const { return with(&values::ragged, true); }

  /// Chooses the micro batch with the fewest steps; of several the exact one, then the largest.
  ///
  /// @return the plan
  /// @throws no_batch_plan if no product is exact, and ragged steps are not allowed; it names the
  ///   nearest global batches that are
  /// @throws std::invalid_argument for settings out of range, or a largest micro batch below the
  ///   least one, as when a memory model knows none that fits
  ///
  /// **Cost:** O(largest micro batch / multiple).
  [[nodiscard]] batch_plan plan(source_location where = source_location::current()) const {
    return detail::plan_batch(values_, nullptr, where);
  }

  /// Chooses the micro batch with the highest predicted throughput; of several the exact one, then
  /// the largest.
  ///
  /// @param seconds  `double(std::size_t items)`: the time of a micro batch on one rank, such as a
  ///   latency_model; above 0 and finite
  /// The result and the exceptions are those of plan() without a model.
  template <typename Seconds,
            typename = std::enable_if_t<std::is_invocable_r_v<double, Seconds const&, std::size_t>>>
  [[nodiscard]] batch_plan plan(Seconds const& seconds,
                                source_location where = source_location::current()) const {
    auto const call = [&seconds](std::size_t items) { return static_cast<double>(seconds(items)); };
    detail::function_ref<double(std::size_t)> const model{call};
    return detail::plan_batch(values_, &model, where);
  }
};

/// Whether an exception says that memory ran out: out_of_memory and any other std::bad_alloc, and a
/// cuda_error with cudaErrorMemoryAllocation that is not sticky.
struct default_out_of_memory {
  /// @param error  a caught exception, not null
  bool operator()(std::exception_ptr const& error) const;
};

/// The number of items that a loop runs at once: halved when memory runs out, and raised again
/// after a number of clean steps.
///
/// The next larger size is halfway to the smallest size that failed, or twice the size if none has.
/// A failed try returns to the size before it, and doubles the number of clean steps before the
/// next one; a try that lasts takes that back. So under a constant limit a loop of n steps fails
/// O(log n) times, and where the limit rises the size follows it.
///
/// min_size() to grow_after() are setters, which return a changed copy; call them before the loop.
/// **Threads:** one at a time.
class dynamic_batch_size {
  using self = dynamic_batch_size;

 public:
  /// @param largest  items, at least 1; never more than that at once, and that at first
  explicit dynamic_batch_size(std::size_t largest) noexcept : largest_{largest}, size_{largest} {}

  /// @param items  the least size, at least 1; default: one multiple
  self min_size(std::size_t items) const noexcept { return with(&self::min_size_, items); }
  /// @param items  sizes are multiples of this, at least 1; default 1
  self multiple_of(std::size_t items) const noexcept { return with(&self::multiple_, items); }
  /// @param items  the size to begin with; default: the largest
  self start_at(std::size_t items) const noexcept { return with(&self::size_, items); }
  /// @param steps  clean steps at a size before a larger one is tried, at least 1; default 100
  self grow_after(std::size_t steps) const noexcept {
    return with(&self::least_wait_, steps).with(&self::wait_, steps);
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
  void succeeded() noexcept;

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
    return min_size_ <= multiple_ ? multiple_ : ((min_size_ - 1) / multiple_ + 1) * multiple_;
  }
  std::size_t current() const noexcept {
    std::size_t const down = round_down(size_ < largest_ ? size_ : largest_);
    return down > least() ? down : least();
  }
  std::size_t next_larger() const noexcept;

  void fail(std::size_t count, memory_report const* report, source_location where);

  void check_settings(source_location where) const;

  [[noreturn]] void throw_too_small(std::size_t count, memory_report const* given,
                                    source_location where) const;

  static constexpr std::size_t most_wait = std::size_t{1} << 40;

  std::size_t largest_;
  std::size_t size_;
  std::size_t min_size_ = 1;
  std::size_t multiple_ = 1;
  std::size_t least_wait_ = 100;
  std::size_t wait_ = 100;  // clean steps before a larger size is tried
  std::size_t clean_ = 0;   // clean steps since the size changed
  std::size_t failed_ = 0;  // the smallest size known to fail; 0: none
  std::size_t before_ = 0;  // the size to return to if a try fails
  bool trying_ = false;     // the size is larger than one that is known to fit
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/plan/batch_plan_definitions.hpp>
#endif
