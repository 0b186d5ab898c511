// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/shape_key.hpp>

#include <cstddef>
#include <initializer_list>

WARPWRIGHT_BEGIN

/// How a request ended; pending: not yet.
enum class ticket_status {
  pending,
  answered,   ///< with a value
  late,       ///< its deadline passed before the answer
  shed,       ///< refused, or dropped from the queue: full, or predicted to be late
  cancelled,  ///< by ticket::cancel()
  failed,     ///< the model threw, or its batch gave no result
  closing     ///< the batcher was closed before
};

/// @return the name of the enumerator
char const* to_text(ticket_status status) noexcept;

/// What a batcher does with a request beyond its limits of items, bytes and cost.
enum class when_full {
  reject,  ///< sheds it
  block,   ///< submit() waits for room, for batcher_options::max_block() at most
  shed     ///< sheds the request of the lowest priority with the latest deadline, it or another
};

/// Which of the preferred sizes a batch gets that has another number of items.
enum class batch_rounding {
  cheapest,  ///< up or down, by the time of an item
  up,        ///< the next larger one
  down       ///< the next smaller one; the rest waits
};

/// How a batcher chooses the lane of a batch.
enum class lane_choice {
  first_done,  ///< the one predicted to be done with it first
  round_robin  ///< in turn
};

namespace detail {

constexpr double never = 1e300;  // a time, or a number of seconds

struct request_values {
  shape_key key{};
  double deadline = 0.0;  // 0: none
  int priority = 0;
  double cost = 1.0;
  std::size_t bytes = 0;
};

struct batcher_values {
  static constexpr std::size_t most_sizes = 16;

  std::size_t max_items = 0;  // 0: the largest size of the model
  std::size_t sizes[most_sizes] = {};
  std::size_t size_count = 0;
  std::size_t limit_items = 65536;
  std::size_t limit_bytes = ~std::size_t{0};
  double limit_cost = never;
  double limit_wait = never;
  double max_block = 0.0;
  double max_delay = 0.0;
  double ageing = 1.0;
  double watchdog = 10.0;
  double drain = 5.0;
  when_full full = when_full::reject;
  batch_rounding rounding = batch_rounding::cheapest;
  lane_choice lanes = lane_choice::first_done;
  bool bisect = false;
  bool host_data = false;
  clock_ref clock{};
};

/// @return the smallest preferred size of at least so many items; items, if there is none
constexpr std::size_t padded_size(batcher_values const& values, std::size_t items) noexcept {
  std::size_t padded = ~std::size_t{0};
  for (std::size_t i = 0; i < values.size_count && i < batcher_values::most_sizes; ++i) {
    std::size_t const size = values.sizes[i];
    if (size >= items && size < padded) padded = size;
  }
  return padded == ~std::size_t{0} ? items : padded;
}

}  // namespace detail

/// What a batcher has to know of a request. Every setter returns a changed copy.
class request : public detail::options_base<request, detail::request_values> {
  friend void set_values(request& r, detail::request_values const& values) noexcept {
    r.values_ = values;
  }

 public:
  static constexpr int max_priority = 7;

  /// Requests of different keys are not in one batch.
  /// @param shape  as shape_key{rows, cols}; default: one key for all
  constexpr request key(shape_key const& shape) const { return with(&values::key, shape); }
  /// When the answer must be there; without it any time will do.
  /// @param seconds  from submission, above 0. Negative, 0 or NaN: it is late at once
  constexpr request deadline(double seconds) const {
    return with(&values::deadline, seconds > 0.0 ? seconds : -1.0);
  }
  /// Which requests are sent first; see batcher_options::ageing().
  /// @param level  0 (default) to max_priority, which is first; others are clamped
  constexpr request priority(int level) const {
    int const above = level < 0 ? 0 : level;
    return with(&values::priority, above > max_priority ? max_priority : above);
  }
  /// For limit_cost(), in any unit, as tokens.
  /// @param units  not negative; default: 1. NaN and negative: 0
  constexpr request cost(double units) const {
    return with(&values::cost, units > 0.0 ? units : 0.0);
  }
  /// Memory that the input refers to, for limit_bytes(), beside the input and output themselves.
  constexpr request bytes(std::size_t n) const { return with(&values::bytes, n); }
};

/// Options of a batcher. Every setter returns a changed copy; the batcher's constructor throws
/// std::invalid_argument for values out of range.
class batcher_options : public detail::options_base<batcher_options, detail::batcher_values> {
 public:
  /// @param n  items of a batch at most, 1 to 65,536; default: latency_model::last()
  constexpr batcher_options max_items(std::size_t n) const { return with(&values::max_items, n); }
  /// Sizes that batches are padded to: those that the model has graphs for, or is fast with.
  /// @param sizes  up to 16, each from 1 to max_items(), in any order
  constexpr batcher_options preferred(std::initializer_list<std::size_t> sizes) const {
    batcher_options copy = *this;
    copy.values_.size_count = sizes.size();
    std::size_t i = 0;
    for (std::size_t const size : sizes) {
      if (i < values::most_sizes) copy.values_.sizes[i++] = size;
    }
    return copy;
  }
  /// Default: cheapest.
  constexpr batcher_options rounding(batch_rounding rule) const {
    return with(&values::rounding, rule);
  }

  /// @param n  requests that wait or run, 1 to 2^24; default: 65,536
  constexpr batcher_options limit_items(std::size_t n) const {
    return with(&values::limit_items, n);
  }
  /// @param n  bytes of inputs and outputs of requests that wait or run; at least one request's
  constexpr batcher_options limit_bytes(std::size_t n) const {
    return with(&values::limit_bytes, n);
  }
  /// @param units  sum of request::cost() of requests that wait or run, above 0
  constexpr batcher_options limit_cost(double units) const {
    return with(&values::limit_cost, units);
  }
  /// Sheds requests without a deadline, too, if they are predicted to wait longer.
  /// @param seconds  above 0
  constexpr batcher_options limit_wait(double seconds) const {
    return with(&values::limit_wait, seconds);
  }
  /// Default: reject.
  constexpr batcher_options full(when_full rule) const { return with(&values::full, rule); }
  /// Blocks when full.
  /// @param seconds  how long at most, from 0 to 1e9
  constexpr batcher_options max_block(double seconds) const {
    return with(&values::max_block, seconds).with(&values::full, when_full::block);
  }

  /// Lets an idle stream wait for more requests: for closed bursts, and shared devices.
  /// @param seconds  since the oldest request of the batch, 0 to 1e9; default: 0, which is best
  ///   where requests come one by one: batches form while the streams are busy
  constexpr batcher_options max_delay(double seconds) const {
    return with(&values::max_delay, seconds);
  }
  /// A request that has waited so long is sent as if its priority were one level higher. In the
  /// order of deadlines one that is further ahead, or none, counts as one so far ahead.
  /// @param seconds  1e-3 to 1e9; default: 1
  constexpr batcher_options ageing(double seconds) const { return with(&values::ageing, seconds); }
  /// Default: first_done.
  constexpr batcher_options choose_lane(lane_choice rule) const {
    return with(&values::lanes, rule);
  }

  /// If a batch fails, runs its halves, and so on, until the requests that fail are alone.
  constexpr batcher_options bisect(bool on = true) const { return with(&values::bisect, on); }
  /// A batch that runs longer is named on stderr, once, and counted.
  /// @param seconds  above 0; default: 10
  constexpr batcher_options watchdog(double seconds) const {
    return with(&values::watchdog, seconds);
  }
  /// How long the destructor waits for answers before it answers the rest with `closing`.
  /// @param seconds  0 to 1e9; default: 5
  constexpr batcher_options drain(double seconds) const { return with(&values::drain, seconds); }
  /// The model gets inputs, and writes outputs, in page-locked host memory; nothing is copied to
  /// the device: for models on the host, and for inputs that are pointers to device memory.
  constexpr batcher_options host_data(bool on = true) const { return with(&values::host_data, on); }
  /// For tests and simulations. Waits still end by the system's clock.
  constexpr batcher_options clock(detail::clock_ref clock) const {
    return with(&values::clock, clock);
  }
};

WARPWRIGHT_END
