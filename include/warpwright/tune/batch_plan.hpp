// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A global batch as micro batch times accumulation steps times ranks, under a memory limit.
//
//   auto const plan = ww::batch_planner{}.global_batch(4096).ranks(8).multiple_of(8)
//                         .memory(memory, limit_bytes).plan(latency);
//   for (std::size_t step = 0; step < plan.steps; ++step)
//     accumulate(plan.items(rank, step), plan.weight(rank, step));
#pragma once

#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/tune/memory_model.hpp>

#include <cstddef>
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

// The micro batches from the largest down, and the plan of each. Settings is batch_plan_settings;
// a template, so that a file which only includes the header does not compile it.
template <typename Settings>
class batch_plan_search {
 public:
  batch_plan_search(Settings const& settings, source_location where) : s_{settings}, where_{where} {
    check();
  }

  // `seconds` is the time of a micro batch, or null.
  batch_plan run(function_ref<double(std::size_t)> const* seconds) const {
    batch_plan best;
    for (std::size_t micro = last_; micro >= first_ && micro > 0; micro -= s_.multiple) {
      batch_plan const candidate = divide(micro, seconds);
      if ((candidate.exact || s_.ragged) && better(candidate, best)) best = candidate;
    }
    if (best.micro_batch == 0) fail_inexact();
    return best;
  }

 private:
  static constexpr std::size_t most_sizes = std::size_t{1} << 24;
  static constexpr std::size_t most_items = std::size_t{1} << 40;

  [[noreturn]] void fail(text const& problem) const {
    throw_invalid_argument(text{"batch_planner: "} + problem, where_);
  }

  void check() {
    if (s_.ranks == 0) fail("ranks(0); at least 1 is needed");
    if (s_.multiple == 0) fail("multiple_of(0); it must be at least 1, which allows every size");
    if (s_.minimum == 0) fail("minimum_micro_batch(0); it must be at least 1");
    if (s_.global == 0) fail("a global batch of 0 items; set global_batch()");
    if (s_.multiple > most_items || s_.minimum > most_items || s_.global > most_items) {
      fail(text{"global_batch("} + s_.global + "), minimum_micro_batch(" + s_.minimum +
           "), multiple_of(" + s_.multiple + "); each must be at most 2^40");
    }
    std::size_t const each = (s_.global - 1) / s_.ranks + 1;
    first_ = round_up(s_.minimum);
    // A ragged step may be the only one.
    std::size_t useful = each;
    if (s_.ragged) useful = round_up(each) > first_ ? round_up(each) : first_;
    last_ = (s_.largest < useful ? s_.largest : useful) / s_.multiple * s_.multiple;
    if (s_.largest < first_) {
      fail(text{"the largest micro batch is "} + s_.largest + ", the least allowed " + first_ +
           ": lower minimum_micro_batch() or multiple_of(), or give it more memory");
    }
    if ((last_ / s_.multiple) > most_sizes) {
      fail(text{"micro batches up to "} + last_ + " in steps of " + s_.multiple + "; at most " +
           most_sizes + " are tried: raise multiple_of() or lower largest_micro_batch()");
    }
  }

  std::size_t round_up(std::size_t items) const {
    return ((items - 1) / s_.multiple + 1) * s_.multiple;
  }

  batch_plan divide(std::size_t micro, function_ref<double(std::size_t)> const* seconds) const {
    std::size_t const each = (s_.global - 1) / s_.ranks + 1;
    batch_plan plan;
    plan.global_batch = s_.global;
    plan.ranks = s_.ranks;
    plan.micro_batch = micro;
    plan.steps = (each - 1) / micro + 1;
    plan.exact = s_.global % s_.ranks == 0 && each % micro == 0;
    if (seconds != nullptr && (plan.exact || s_.ragged)) {
      std::size_t const rest = each - (plan.steps - 1) * micro;
      plan.seconds = time(seconds, rest);
      if (plan.steps > 1)
        plan.seconds += static_cast<double>(plan.steps - 1) * time(seconds, micro);
      plan.items_per_second = static_cast<double>(s_.global) / plan.seconds;
    }
    return plan;
  }

  double time(function_ref<double(std::size_t)> const* seconds, std::size_t items) const {
    double const value = (*seconds)(items);
    if (!(value > 0.0 && value < 1e30)) {
      fail(text{"the model predicts "} + value + " seconds for " + items +
           " items; it must be above 0 and finite");
    }
    return value;
  }

  // Candidates come in descending order of the micro batch: of equals the larger one stays.
  static bool better(batch_plan const& a, batch_plan const& b) {
    if (b.micro_batch == 0) return true;
    constexpr double equal = 1e-9;  // of sums that are rounded differently
    if (a.items_per_second > b.items_per_second * (1.0 + equal)) return true;
    if (a.items_per_second < b.items_per_second * (1.0 - equal)) return false;
    if (a.items_per_second == 0.0 && a.steps != b.steps) return a.steps < b.steps;
    return a.exact && !b.exact;
  }

  [[noreturn]] void fail_inexact() const {
    std::size_t below = 0;
    std::size_t above = ~std::size_t{0};
    // Above the items of a rank only one step remains.
    std::size_t const one_step = last_ + s_.multiple > first_ ? last_ + s_.multiple : first_;
    std::size_t const most = s_.largest < one_step ? s_.largest : one_step;
    for (std::size_t micro = first_; micro <= most; micro += s_.multiple) {
      if (micro > ~std::size_t{0} / 2 / s_.ranks) break;
      std::size_t const unit = micro * s_.ranks;
      std::size_t const down = s_.global / unit * unit;
      if (down > below) below = down;
      if (down + unit < above) above = down + unit;
    }
    text message = text{"warpwright: a global batch of "} + s_.global + " is not a product of " +
                   s_.ranks + " ranks, accumulation steps and a micro batch from " + first_ +
                   " to " + most / s_.multiple * s_.multiple + " in steps of " + s_.multiple +
                   "; the nearest global batches that are: ";
    if (below > 0) message += text{below} + " and ";
    message += text{above} + "; or allow a ragged last step with allow_ragged()";
    throw no_batch_plan{message.c_str(), below, above};
  }

  Settings s_;
  source_location where_;
  std::size_t first_ = 0;  // the least micro batch
  std::size_t last_ = 0;   // the largest; below first_: none
};

}  // namespace detail

/// Divides a global batch into micro batches: a value, each setter of which returns a changed copy.
///
/// **Threads:** any number may call const members at once.
class batch_planner {
 public:
  /// @param items  of one optimizer step over all ranks, 1 to 2^40; must be set
  [[nodiscard]] batch_planner global_batch(std::size_t items) const {
    return with(&detail::batch_plan_settings::global, items);
  }
  /// @param count  processes or devices that share the batch, at least 1; default 1
  [[nodiscard]] batch_planner ranks(std::size_t count) const {
    return with(&detail::batch_plan_settings::ranks, count);
  }
  /// @param items  the largest micro batch that fits into a rank's memory; default: any
  [[nodiscard]] batch_planner largest_micro_batch(std::size_t items) const {
    return with(&detail::batch_plan_settings::largest, items);
  }
  /// Sets the largest micro batch to the largest one that a model knows to fit.
  /// @param model  the memory of a rank over its micro batch
  /// @param limit_bytes  the memory of a rank
  [[nodiscard]] batch_planner memory(memory_model const& model, std::size_t limit_bytes) const {
    return largest_micro_batch(model.largest_within(limit_bytes));
  }
  /// @param items  the least micro batch worth running, 1 to 2^40; default: one multiple
  [[nodiscard]] batch_planner minimum_micro_batch(std::size_t items) const {
    return with(&detail::batch_plan_settings::minimum, items);
  }
  /// @param items  micro batches are multiples of this, 1 to 2^40; default 1. A ragged last step
  ///   is not
  [[nodiscard]] batch_planner multiple_of(std::size_t items) const {
    return with(&detail::batch_plan_settings::multiple, items);
  }
  /// Allows a last step of fewer items, and ranks that differ by one, where that is faster or no
  /// exact product exists. Weigh losses by batch_plan::weight() then.
  [[nodiscard]] batch_planner allow_ragged() const {
    return with(&detail::batch_plan_settings::ragged, true);
  }

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
    return detail::batch_plan_search<detail::batch_plan_settings>{settings_, where}.run(nullptr);
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
    return detail::batch_plan_search<detail::batch_plan_settings>{settings_, where}.run(&model);
  }

 private:
  template <typename T>
  [[nodiscard]] batch_planner with(T detail::batch_plan_settings::*member, T value) const {
    batch_planner copy = *this;
    copy.settings_.*member = value;
    return copy;
  }

  detail::batch_plan_settings settings_{};
};

WARPWRIGHT_END
