// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a batch_tuner maximises, and under which limit of the latency.
//
//   ww::throughput_under_latency(5e-3)                // the 99th percentile at most 5 ms
//   ww::throughput_under_latency(5e-3, 0.5)           // the median
//   ww::max_score([](ww::tune_row const& row) { … })  // a figure of your own
//   ww::throughput_per_joule(ww::energy_counter{device}).within_latency(20e-3)
#pragma once

#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/text/text.hpp>

WARPWRIGHT_BEGIN

struct tune_row;

/// What is maximised.
enum class tuning_goal {
  throughput,  ///< items per second
  latency,     ///< the reciprocal of the median latency of a batch
  energy,      ///< items per joule
  score,       ///< a function of the user's
};

/// The goal's name, as reports print it.
inline char const* to_string(tuning_goal goal) noexcept {
  constexpr char const* names[] = {"throughput", "latency", "throughput per joule", "score"};
  return detail::enum_name(names, goal);
}

/// What a tuner maximises, and under which limit: a copyable value, made by the functions below.
class tuning_objective {
 public:
  /// The most items per second, at any latency.
  tuning_objective() = default;

  /// Limits a percentile of the latency of one batch.
  /// @param seconds   the limit, above 0
  /// @param quantile  of all batches the share that is within the limit, above 0 and below 1; 0.99
  ///   for the 99th percentile
  /// @return a changed copy
  [[nodiscard]] tuning_objective within_latency(double seconds, double quantile = 0.99) const {
    tuning_objective copy = *this;
    copy.latency_limited_ = true;
    copy.latency_limit_seconds_ = seconds;
    copy.latency_quantile_ = quantile;
    return copy;
  }

  /// @return what is maximised
  [[nodiscard]] tuning_goal goal() const noexcept { return goal_; }
  /// @return whether the latency of one batch is limited
  [[nodiscard]] bool latency_limited() const noexcept { return latency_limited_; }
  /// @return the limit, in seconds
  [[nodiscard]] double latency_limit_seconds() const noexcept { return latency_limit_seconds_; }
  /// @return the share of batches that must be within the limit
  [[nodiscard]] double latency_quantile() const noexcept { return latency_quantile_; }
  /// @return the user's function; empty for other goals
  [[nodiscard]] detail::owned_function<double(tune_row const&)> const& score() const noexcept {
    return score_;
  }
  /// @return the reader of energy; empty for other goals
  [[nodiscard]] detail::owned_function<double()> const& joules() const noexcept { return joules_; }

 private:
  friend tuning_objective min_latency();
  template <typename Score>
  friend tuning_objective max_score(Score&& score);
  template <typename Reader>
  friend tuning_objective throughput_per_joule(Reader&& joules);

  tuning_goal goal_ = tuning_goal::throughput;
  bool latency_limited_ = false;
  double latency_limit_seconds_ = 0.0;
  double latency_quantile_ = 0.99;
  detail::owned_function<double(tune_row const&)> score_;
  detail::owned_function<double()> joules_;
};

/// The most items per second, at any latency.
inline tuning_objective max_throughput() { return {}; }

/// The lowest median latency of one batch: the smallest size, unless larger ones are faster.
inline tuning_objective min_latency() {
  tuning_objective objective;
  objective.goal_ = tuning_goal::latency;
  return objective;
}

/// The most items per second with a percentile of one batch's latency within a limit.
///
/// @param seconds   the limit, above 0
/// @param quantile  the share of batches that must be within it: 0.99 for p99, 0.9, 0.5
inline tuning_objective throughput_under_latency(double seconds, double quantile = 0.99) {
  return tuning_objective{}.within_latency(seconds, quantile);
}

/// The highest value of a function of your own.
///
/// @param score  `double(tune_row const&)`, copyable: the higher, the better; above 0; called often
template <typename Score>
tuning_objective max_score(Score&& score) {
  tuning_objective objective;
  objective.goal_ = tuning_goal::score;
  objective.score_ = detail::owned_function<double(tune_row const&)>(static_cast<Score&&>(score));
  return objective;
}

/// The most items per joule.
///
/// Each size runs for another 0.5 s, from one update of the counter to another.
///
/// @param joules  `double()`, copyable: the energy that the device has used since any fixed time,
///   in joules, such as an energy_counter (energy_counter.hpp). It must change within 1 s of work;
///   otherwise the tune ends with std::invalid_argument
template <typename Reader>
tuning_objective throughput_per_joule(Reader&& joules) {
  tuning_objective objective;
  objective.goal_ = tuning_goal::energy;
  objective.joules_ = detail::owned_function<double()>(static_cast<Reader&&>(joules));
  return objective;
}

WARPWRIGHT_END
