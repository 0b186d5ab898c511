// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/detail/cache/cost_gate.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE double sample_window::squared_error() const noexcept {
  double sorted[capacity];
  if (!sort_deviations(sorted, median())) return 0.0;
  double const error = 1.2533 * 1.4826 * middle(sorted);
  return error * error / count_;
}

WARPWRIGHT_INLINE bool sample_window::sort_deviations(double* sorted, double from) const noexcept {
  for (unsigned i = 0; i < count_; ++i) {
    double value = values_[i] - from;
    if (from != 0.0 && value < 0.0) value = -value;
    unsigned at = i;
    for (; at > 0 && sorted[at - 1] > value; --at) sorted[at] = sorted[at - 1];
    sorted[at] = value;
  }
  return count_ != 0;
}

WARPWRIGHT_INLINE cost_gate::plan cost_gate::next() noexcept {
  if (!enabled_) return {step_mode::graph, false, longest_period};
  if (to_issue_[0] + to_issue_[1] > 0) return issue();
  if (pending_ > 0) {
    wait_ = wait_ < 64 ? 2 * wait_ : 64;
    return {mode_, false, wait_};
  }
  if (measuring_) {
    conclude();
    if (measuring_) return issue();
  } else if (since_round_ >= period_) {
    eager_.clear();
    graph_.clear();
    lost_ = 0;
    begin_round();
    return issue();
  } else if (decided_) {
    compare(eager_time_, replay_time_);
  }
  std::uint64_t const left = period_ - since_round_;
  std::uint64_t const calls = left < first_period ? left : first_period;
  since_round_ += calls;
  return {mode_, false, calls};
}

WARPWRIGHT_INLINE void cost_gate::sampled(step_mode mode, double nanoseconds) noexcept {
  if (pending_ > 0) --pending_;
  if (nanoseconds >= 0.0) {
    (mode == step_mode::eager ? eager_ : graph_).add(nanoseconds);
  } else if (measuring_) {
    ++to_issue_[index(mode)];
    if (mode == step_mode::graph && lost_ < round) ++lost_;
  }
}

WARPWRIGHT_INLINE void cost_gate::observe(std::uint64_t calls, std::uint64_t changes) noexcept {
  calls_ += static_cast<double>(calls);
  changed_calls_ += static_cast<double>(changes);
  if (calls_ > 512.0) {
    changed_calls_ *= 256.0 / calls_;
    calls_ = 256.0;
  }
}

WARPWRIGHT_INLINE double cost_gate::break_even() const noexcept {
  double const eager = eager_time();
  double const replay = replay_time();
  if (eager <= 0.0 || replay <= 0.0 || builds_.count() == 0) return 0.0;
  double const gain = eager - graph_cost(replay);
  return gain > 0.0 ? build_time() / gain : never;
}

WARPWRIGHT_INLINE std::uint64_t cost_gate::paid_after() const noexcept {
  double const eager = eager_time();
  if (eager <= 0.0) return 0;
  double const gain = eager - replay_time();
  constexpr double most = 1e9;
  double const replays = gain > 0.0 ? build_time() / gain : most;
  return static_cast<std::uint64_t>(replays < most ? replays : most);
}

WARPWRIGHT_INLINE cost_gate::plan cost_gate::issue() noexcept {
  bool graph = turn_ % 4 == 1 || turn_ % 4 == 2;
  ++turn_;
  if (builds_.count() == 0) graph = false;
  if (to_issue_[graph ? 1 : 0] == 0) graph = !graph;
  --to_issue_[graph ? 1 : 0];
  ++pending_;
  return {graph ? step_mode::graph : step_mode::eager, true, 1};
}

WARPWRIGHT_INLINE void cost_gate::conclude() noexcept {
  double const eager = eager_.median();
  double const replay = graph_.median();
  double const graph = graph_cost(replay);
  double const least = eager < graph ? eager : graph;
  // Events have steps of half a microsecond, so equal samples are not exact.
  double const of_short = 0.02 * least;
  double const of_long = 500.0 + 0.004 * least;
  double const inexact = of_short < of_long ? of_short : of_long;
  double const squared = eager_.squared_error() + graph_.squared_error() + inexact * inexact;
  double const difference = eager < graph ? graph - eager : eager - graph;
  double const bound = 3.0 * std::sqrt(squared);
  // Clear: which one is faster, or that the difference is none that changes the mode.
  bool const clear = difference > bound || difference + bound < (hysteresis - 1.0) * least;
  if (!clear && eager_.count() + round <= sample_window::capacity) {
    begin_round();
    return;
  }
  measuring_ = false;
  eager_time_ = eager;
  replay_time_ = replay;
  step_mode const before = mode_;
  compare(eager, replay);
  bool const same = decided_ && mode_ == before;
  decided_ = true;
  period_ = same ? (period_ < longest_period ? 2 * period_ : period_) : first_period;
  since_round_ = 0;
}

WARPWRIGHT_INLINE void cost_gate::compare(double eager, double replay) noexcept {
  double const graph = graph_cost(replay);
  double const mine = mode_ == step_mode::graph ? graph : eager;
  double const other = mode_ == step_mode::graph ? eager : graph;
  if (other * hysteresis < mine) {
    mode_ = mode_ == step_mode::graph ? step_mode::eager : step_mode::graph;
    period_ = first_period;
  }
}

}  // namespace detail

WARPWRIGHT_END
