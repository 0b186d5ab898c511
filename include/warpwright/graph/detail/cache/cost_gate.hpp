// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/graph/detail/cache/sample_window.hpp>

#include <cmath>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// How a step runs.
enum class step_mode : unsigned char { eager, graph };

/// Decides whether a step runs eagerly or from its graph, by the times of a few calls of each.
///
/// It samples in rounds, in which the two modes alternate so that a drift affects both, until their
/// medians differ by three standard errors, or certainly by less than 3 %. Then it lets `period`
/// calls pass and begins again; the period doubles while the answer stays the same. The times of
/// samples may arrive much later.
class cost_gate {
 public:
  static constexpr unsigned round = 6;  // samples of each mode
  static constexpr std::uint64_t first_period = 256;
  static constexpr std::uint64_t longest_period = 4096;
  static constexpr double never = HUGE_VAL;
  static constexpr double hysteresis = 1.03;  // so much faster changes the mode; the first is graph

  struct plan {
    step_mode run = step_mode::graph;
    bool sample = false;
    std::uint64_t next = 0;  // calls until next() is to be called again; until then `mode()` holds
  };

  explicit cost_gate(bool enabled) noexcept : enabled_{enabled} {
    if (enabled_) begin_round();
  }

  /// The plan of one call.
  plan next() noexcept {
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

  /// The time of a sample has arrived. @param nanoseconds  negative: it was lost
  void sampled(step_mode mode, double nanoseconds) noexcept {
    if (pending_ > 0) --pending_;
    if (nanoseconds >= 0.0) {
      (mode == step_mode::eager ? eager_ : graph_).add(nanoseconds);
    } else if (measuring_) {
      ++to_issue_[index(mode)];
      if (mode == step_mode::graph && lost_ < round) ++lost_;
    }
  }
  /// Ends the measurements: there is no memory for eager calls beside the graph.
  void stay_with_graph() noexcept {
    enabled_ = measuring_ = false;
    mode_ = step_mode::graph;
  }
  /// An executable was instantiated, with its capture.
  void built(double nanoseconds) noexcept { builds_.add(nanoseconds); }
  /// An executable was updated or instantiated again, as its bindings had changed.
  void changed(double nanoseconds) noexcept { changes_.add(nanoseconds); }
  /// Calls since the last observation, and how many of them a graph could not have replayed.
  void observe(std::uint64_t calls, std::uint64_t changes) noexcept {
    calls_ += static_cast<double>(calls);
    changed_calls_ += static_cast<double>(changes);
    if (calls_ > 512.0) {
      changed_calls_ *= 256.0 / calls_;
      calls_ = 256.0;
    }
  }
  /// After a change: whether the graph still wins, now that changes are more frequent.
  void reconsider() noexcept {
    if (enabled_ && decided_ && calls_ >= 16.0) compare(eager_time_, replay_time_);
  }

  /// Whether the first launch of an executable, which is slower, is a sample too: so many samples
  /// of the graph were lost that there may never be a second launch.
  [[nodiscard]] bool takes_first_launches() const noexcept { return lost_ >= round; }

  [[nodiscard]] bool enabled() const noexcept { return enabled_; }
  [[nodiscard]] step_mode mode() const noexcept { return mode_; }
  /// Whether both modes have been measured.
  [[nodiscard]] bool decided() const noexcept { return decided_; }
  /// The median times of a call in nanoseconds; 0: not known.
  [[nodiscard]] double eager_time() const noexcept {
    return decided_ ? eager_time_ : eager_.median();
  }
  [[nodiscard]] double replay_time() const noexcept {
    return decided_ ? replay_time_ : graph_.median();
  }
  [[nodiscard]] double build_time() const noexcept { return builds_.median(); }
  [[nodiscard]] double change_time() const noexcept { return changes_.median(); }
  /// The fraction of calls whose bindings have changed.
  [[nodiscard]] double change_rate() const noexcept {
    return calls_ > 0.0 ? changed_calls_ / calls_ : 0.0;
  }
  /// After how many calls the graph has saved the time of its instantiation; `never` if it is not
  /// faster, 0 if that is not known.
  [[nodiscard]] double break_even() const noexcept {
    double const eager = eager_time();
    double const replay = replay_time();
    if (eager <= 0.0 || replay <= 0.0 || builds_.count() == 0) return 0.0;
    double const gain = eager - graph_cost(replay);
    return gain > 0.0 ? build_time() / gain : never;
  }
  /// After how many replays an executable has saved the time of its instantiation, as far as times
  /// are known: no more than that. 0 if none is.
  [[nodiscard]] std::uint64_t paid_after() const noexcept {
    double const eager = eager_time();
    if (eager <= 0.0) return 0;
    double const gain = eager - replay_time();
    constexpr double most = 1e9;
    double const replays = gain > 0.0 ? build_time() / gain : most;
    return static_cast<std::uint64_t>(replays < most ? replays : most);
  }

 private:
  static constexpr unsigned index(step_mode mode) noexcept {
    return mode == step_mode::graph ? 1 : 0;
  }
  [[nodiscard]] double graph_cost(double replay) const noexcept {
    return replay + change_rate() * change_time();
  }
  void begin_round() noexcept {
    to_issue_[0] = to_issue_[1] = round;
    measuring_ = true;
    since_round_ = 0;
    wait_ = 1;
  }
  // Eager, graph, graph, eager, …; but before the first build all eager ones.
  plan issue() noexcept {
    bool graph = turn_ % 4 == 1 || turn_ % 4 == 2;
    ++turn_;
    if (builds_.count() == 0) graph = false;
    if (to_issue_[graph ? 1 : 0] == 0) graph = !graph;
    --to_issue_[graph ? 1 : 0];
    ++pending_;
    return {graph ? step_mode::graph : step_mode::eager, true, 1};
  }
  void conclude() noexcept {
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
  // Changes the mode if the other one is clearly faster.
  void compare(double eager, double replay) noexcept {
    double const graph = graph_cost(replay);
    double const mine = mode_ == step_mode::graph ? graph : eager;
    double const other = mode_ == step_mode::graph ? eager : graph;
    if (other * hysteresis < mine) {
      mode_ = mode_ == step_mode::graph ? step_mode::eager : step_mode::graph;
      period_ = first_period;
    }
  }

  bool enabled_;
  bool decided_ = false;
  bool measuring_ = false;
  step_mode mode_ = step_mode::graph;
  unsigned turn_ = 0;
  unsigned to_issue_[2] = {};
  unsigned pending_ = 0;
  unsigned lost_ = 0;  // samples of the graph in this round
  std::uint64_t wait_ = 1;
  std::uint64_t period_ = first_period;
  std::uint64_t since_round_ = 0;
  double eager_time_ = 0.0;
  double replay_time_ = 0.0;
  double calls_ = 0.0;
  double changed_calls_ = 0.0;
  sample_window eager_;
  sample_window graph_;
  sample_window builds_;
  sample_window changes_;
};

}  // namespace detail

WARPWRIGHT_END
