// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// The last few times of a step, and their median: single slow calls do not move it.
class sample_window {
 public:
  static constexpr unsigned capacity = 31;

  void add(double nanoseconds) noexcept {
    values_[next_] = nanoseconds;
    next_ = (next_ + 1) % capacity;
    if (count_ < capacity) ++count_;
  }
  void clear() noexcept { count_ = next_ = 0; }
  [[nodiscard]] unsigned count() const noexcept { return count_; }

  /// @return 0 if there is no sample
  [[nodiscard]] double median() const noexcept {
    double sorted[capacity];
    return sort_deviations(sorted, 0.0) ? middle(sorted) : 0.0;
  }
  /// The standard error of median(), of samples with normal noise: 1.2533 sigma / sqrt(n), where
  /// sigma is 1.4826 times the median deviation.
  [[nodiscard]] double squared_error() const noexcept;

 private:
  // Insertion sort: there are few values, and <algorithm> is slow to compile.
  bool sort_deviations(double* sorted, double from) const noexcept;
  [[nodiscard]] double middle(double const* sorted) const noexcept {
    return count_ % 2 != 0 ? sorted[count_ / 2]
                           : 0.5 * (sorted[count_ / 2 - 1] + sorted[count_ / 2]);
  }

  double values_[capacity] = {};
  unsigned count_ = 0;
  unsigned next_ = 0;
};

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
  plan next() noexcept;

  /// The time of a sample has arrived. @param nanoseconds  negative: it was lost
  void sampled(step_mode mode, double nanoseconds) noexcept;
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
  void observe(std::uint64_t calls, std::uint64_t changes) noexcept;
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
  [[nodiscard]] double break_even() const noexcept;
  /// After how many replays an executable has saved the time of its instantiation, as far as times
  /// are known: no more than that. 0 if none is.
  [[nodiscard]] std::uint64_t paid_after() const noexcept;

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
  plan issue() noexcept;
  void conclude() noexcept;
  // Changes the mode if the other one is clearly faster.
  void compare(double eager, double replay) noexcept;

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

/// Stops a step from being instantiated again and again: after `limit` builds without as many clean
/// replays between, it runs eagerly for a number of calls that doubles each time, and is tried
/// again. Builds follow refused updates or evictions.
class thrash_guard {
 public:
  static constexpr std::uint64_t first_pause = 64;
  static constexpr std::uint64_t longest_pause = 65536;

  explicit thrash_guard(unsigned limit) noexcept : limit_{limit} {}

  /// An executable was instantiated again. @param replays  all replays so far
  void rebuilt(std::uint64_t replays) noexcept {
    settled(replays, limit_);
    count();
  }
  /// The executables were evicted: a later call instantiates one again.
  /// @param replays  all replays so far
  /// @param paid     after so many clean replays, and no less than the limit, that does no harm
  void evicted(std::uint64_t replays, std::uint64_t paid = 0) noexcept {
    if (settled(replays, paid > limit_ ? paid : limit_) || pausing_) return;
    count();
    for_room_ = pausing_;
  }
  /// The step cannot be captured or launched at present. @param replays  all replays so far
  void failed(std::uint64_t replays) noexcept {
    settled(replays, first_pause);
    pause();
  }

  /// Whether the call must run eagerly. @param calls  all calls so far
  [[nodiscard]] bool paused(std::uint64_t calls) noexcept {
    if (!pausing_) return false;
    if (!started_) {
      started_ = true;
      until_ = calls + length_;
    }
    if (calls < until_) return true;
    resume();
    return false;
  }
  /// Ends the pause.
  void resume() noexcept {
    pausing_ = started_ = false;
    // One further rebuild is enough to pause again.
    streak_ = limit_ > 0 ? limit_ - 1 : 0;
  }
  /// The number of calls left of the pause. @pre paused(calls)
  [[nodiscard]] std::uint64_t left(std::uint64_t calls) const noexcept { return until_ - calls; }
  /// Whether the guard has stopped the step, without counting a call.
  [[nodiscard]] bool is_paused() const noexcept { return pausing_; }
  /// Whether the pause is for evictions, so that it may end when there is room.
  [[nodiscard]] bool waits_for_room() const noexcept { return pausing_ && for_room_; }
  /// The length of the present or last pause in calls.
  [[nodiscard]] std::uint64_t pause_calls() const noexcept { return length_; }
  /// How often the step was paused.
  [[nodiscard]] std::uint64_t pauses() const noexcept { return pauses_; }

 private:
  // Whether there were enough clean replays since the last event. After many of them the next pause
  // is short again.
  bool settled(std::uint64_t replays, std::uint64_t enough) noexcept {
    // A failed launch is taken back from the count.
    std::uint64_t const clean = replays > replays_before_ ? replays - replays_before_ : 0;
    replays_before_ = replays;
    if (clean < enough) return false;
    streak_ = 0;
    if (clean >= first_pause) pause_ = first_pause;
    return true;
  }
  void count() noexcept {
    if (++streak_ >= limit_) pause();
  }
  void pause() noexcept {
    pausing_ = true;
    started_ = for_room_ = false;
    ++pauses_;
    length_ = pause_;
    if (pause_ < longest_pause) pause_ *= 2;
  }

  unsigned limit_;
  unsigned streak_ = 0;
  bool pausing_ = false;
  bool started_ = false;
  bool for_room_ = false;
  std::uint64_t pause_ = first_pause;
  std::uint64_t length_ = 0;
  std::uint64_t until_ = 0;
  std::uint64_t pauses_ = 0;
  std::uint64_t replays_before_ = 0;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/cache/cost_gate_definitions.hpp>
#endif
