// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/error/exception_kind.hpp>
#include <warpwright/tune/batch_plan.hpp>

#include <new>

WARPWRIGHT_BEGIN

namespace detail {

// The micro batches from the largest down, and the plan of each.
class batch_plan_search {
 public:
  batch_plan_search(batch_plan_settings const& settings, source_location where)
      : s_{settings}, where_{where} {
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
    if (s_.minimum == 0) fail("min_micro_batch(0); it must be at least 1");
    if (s_.global == 0) fail("a global batch of 0 items; set global_batch()");
    if (s_.multiple > most_items || s_.minimum > most_items || s_.global > most_items) {
      fail(text{"global_batch("} + s_.global + "), min_micro_batch(" + s_.minimum +
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
           ": lower min_micro_batch() or multiple_of(), or give it more memory");
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

  batch_plan_settings const& s_;
  source_location where_;
  std::size_t first_ = 0;  // the least micro batch
  std::size_t last_ = 0;   // the largest; below first_: none
};

WARPWRIGHT_COLD WARPWRIGHT_INLINE batch_plan
plan_batch(batch_plan_settings const& settings, function_ref<double(std::size_t)> const* seconds,
           source_location where) {
  return batch_plan_search{settings, where}.run(seconds);
}

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE bool default_out_of_memory::operator()(
    std::exception_ptr const& error) const {
  return detail::kind_of(error) == detail::exception_kind::out_of_memory;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void dynamic_batch_size::succeeded() noexcept {
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

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::size_t dynamic_batch_size::next_larger()
    const noexcept {
  std::size_t const now = current();
  std::size_t const top = round_down(largest_);
  if (failed_ == 0) return now < top / 2 ? 2 * now : top;
  if (failed_ <= now + multiple_) return failed_ < top ? failed_ : top;  // once more
  return round_down(now + (failed_ - now) / 2);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void dynamic_batch_size::fail(std::size_t count,
                                                                      memory_report const* report,
                                                                      source_location where) {
  clean_ = 0;
  failed_ = ((count - 1) / multiple_ + 1) * multiple_;
  if (wait_ < most_wait) wait_ *= 2;
  bool const tried = trying_ && before_ < count;
  trying_ = false;
  if (!tried && count <= least()) throw_too_small(count, report, where);
  std::size_t const half = round_down(count / 2);
  size_ = tried ? before_ : half > least() ? half : least();
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void dynamic_batch_size::check_settings(
    source_location where) const {
  if (multiple_ >= 1 && min_size_ >= 1 && least_wait_ >= 1 && size_ >= 1 && min_size_ <= largest_ &&
      least() <= largest_) {
    return;
  }
  detail::throw_invalid_argument(
      detail::text{"dynamic_batch_size: largest "} + largest_ + ", min_size " + min_size_ +
          ", multiple_of " + multiple_ + ", start_at " + size_ + ", grow_after " + least_wait_ +
          "; each must be at least 1, and a multiple must lie between min_size and largest",
      where);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void dynamic_batch_size::throw_too_small(
    std::size_t count, memory_report const* given, source_location where) const {
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
          ": lower min_size() or multiple_of(), or give it more memory"};
}

WARPWRIGHT_END
