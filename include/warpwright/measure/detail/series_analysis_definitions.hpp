// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The confidence interval of the median of samples in the order in which they were taken, which may
// depend on each other, and the tests that tell whether it can be believed.
//
// The interval is found by inversion of a test: a value is left out of it where the samples show
// that the median is not beyond the value. Whether they do depends on how many independent samples
// they stand for, which is estimated from the samples' ranks in two ways:
// - from their autocorrelation, for a correlation that decays (Geyer's initial monotone sequence);
// - for phases, from how often the samples change from one side of the value to the other: twenty
//   samples on the slow side in one period count as one, twenty of them here and there as twenty.
// Slow changes that noise hides from both show in the medians of the sixths of the measurement,
// which the interval covers as well.
#pragma once

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/measure/detail/statistics.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE char const* to_string(sample_stability stability) {
  constexpr char const* names[] = {"converged", "too few samples", "drifting", "correlated"};
  return detail::enum_name(names, stability);
}

namespace detail {

class series_analyzer {
 public:
  // Then analyses of up to `count` samples do not allocate.
  WARPWRIGHT_COLD void reserve(std::size_t count) {
    order_.reserve(count);
    sorted_.reserve(count);
    ranks_.reserve(count);
    below_.reserve(count);
    run_.reserve(count);
  }

  // @param precision  fraction of the median up to which changes are allowed for (widen_by_changes)
  WARPWRIGHT_COLD series_median operator()(double const* samples, std::size_t count,
                                           double precision) {
    series_median m;
    if (count == 0) return m;
    samples_ = samples;
    count_ = count;
    sort_samples();
    m.median = median_of_sorted(sorted_.begin(), count);
    m.effective_samples = number(count);
    if (count < series_median::fewest_samples) {
      rank_interval const ranks = quantile_ranks(count, 0.5, 0.025);
      bool const bounded = ranks.low != rank_interval::none;
      m.low = sorted_[bounded ? ranks.low : 0];
      m.high = sorted_[bounded ? ranks.high : count - 1];
    } else if (sorted_.front() == sorted_.back()) {
      m.low = m.high = m.median;
      m.stability = sample_stability::converged;
    } else {
      analyze(m, precision);
    }
    m.deviation = median_deviation_of_sorted(sorted_.begin(), count, m.median);
    return m;
  }

 private:
  // The two-sided level of 0.5 %, not of 5 %: measure() analyses several times and stops at the
  // first narrow interval, and the numbers of effective samples are estimates. The simulations of
  // tests/measure then hold the median in 96 % or more.
  static constexpr double normal_quantile = 2.807;
  static constexpr double drift_quantile = 2.6;
  static constexpr std::size_t max_lag = 500;

  struct entry {
    double value;
    std::size_t index;
  };

  static double number(std::size_t count) { return static_cast<double>(count); }

  WARPWRIGHT_COLD void sort_samples() {
    order_.clear();
    sorted_.clear();
    for (std::size_t i = 0; i < count_; ++i) order_.push_back(entry{samples_[i], i});
    sort(order_.begin(), count_, [](entry const& a, entry const& b) {
      return a.value < b.value || (a.value == b.value && a.index < b.index);
    });
    for (entry const& e : order_) sorted_.push_back(e.value);
  }

  WARPWRIGHT_COLD void analyze(series_median& m, double precision) {
    rank_samples();
    double const tau = autocorrelation_time();
    m.effective_samples = number(count_) / tau;
    std::size_t const low = outer_ranks(false, tau);
    std::size_t const high = outer_ranks(true, tau);
    m.low = sorted_[low == none ? 0 : low];
    m.high = sorted_[count_ - 1 - (high == none ? 0 : high)];
    cover_medians(m, count_ / 6);
    if (drifts()) {
      m.stability = sample_stability::drifting;
    } else if (low == none || high == none) {
      m.stability = sample_stability::correlated;
    } else {
      m.stability = sample_stability::converged;
    }
    if (m.stability != sample_stability::converged) widen_by_changes(m, precision);
  }

  // Ranks minus their mean; equal samples have the mean of their ranks.
  WARPWRIGHT_COLD void rank_samples() {
    ranks_.clear();
    while (ranks_.size() < count_) ranks_.push_back(0);
    square_sum_ = 0;
    for (std::size_t i = 0; i < count_;) {
      std::size_t end = i + 1;
      while (end < count_ && sorted_[end] == sorted_[i]) ++end;
      double const rank = 0.5 * (number(i + end) - number(count_));
      square_sum_ += rank * rank * number(end - i);
      for (; i < end; ++i) ranks_[order_[i].index] = rank;
    }
  }

  double autocorrelation(std::size_t lag) const {
    double sum = 0;
    for (std::size_t i = lag; i < count_; ++i) sum += ranks_[i] * ranks_[i - lag];
    return sum / square_sum_;
  }

  // How many consecutive samples hold as much information as one independent sample, at least 1.
  // Source: Geyer, Practical Markov Chain Monte Carlo, Statistical Science 7 (1992), section 3.3.
  WARPWRIGHT_COLD double autocorrelation_time() const {
    double const first = autocorrelation(1);
    double pairs = 0;
    double previous = 2;
    for (std::size_t lag = 0; lag + 1 < count_ / 2 && lag < max_lag; lag += 2) {
      double pair = lag == 0 ? 1 + first : autocorrelation(lag) + autocorrelation(lag + 1);
      if (pair <= 0) break;
      if (pair > previous) pair = previous;
      pairs += pair;
      previous = pair;
    }
    // Of a first-order process with this first autocorrelation, whose bias is -(1 + 3 r) / n.
    double r = first + (1 + (first > 0 ? 3 * first : 0)) / number(count_);
    if (r > 0.99) r = 0.99;
    double const first_order = (1 + r) / (1 - r);
    double const sequence = 2 * pairs - 1;
    double const tau = sequence > first_order ? sequence : first_order;
    return tau > 1 ? tau : 1;
  }

  // Whether ranks are correlated with time: Spearman's coefficient, for the number of independent
  // samples that the ranks without their trend stand for. It leaves them without it.
  WARPWRIGHT_COLD bool drifts() {
    double const n = number(count_);
    double const middle = 0.5 * (n - 1);
    double products = 0;
    for (std::size_t i = 0; i < count_; ++i) products += ranks_[i] * (number(i) - middle);
    double const time_squares = n * (n * n - 1) / 12;
    double const rho = products / std::sqrt(square_sum_ * time_squares);
    if (std::fabs(rho) > 0.99) return true;
    square_sum_ *= 1 - rho * rho;
    for (std::size_t i = 0; i < count_; ++i) {
      ranks_[i] -= products / time_squares * (number(i) - middle);
    }
    double const effective = n / autocorrelation_time();
    double const freedom = effective > 3 ? effective - 1 : 2;
    return std::fabs(rho) * std::sqrt(freedom / (1 - rho * rho)) > drift_quantile;
  }

  static constexpr std::size_t none = rank_interval::none;

  // The number of samples outside of the lower, or upper, bound of the interval; `none` where there
  // is no bound. It tests each sample as a bound, from the extremes inwards, until one fails.
  //
  // The most extreme samples are skipped, as few samples cannot change sides often.
  WARPWRIGHT_COLD std::size_t outer_ranks(bool upper, double tau) {
    auto const sorted_index = [&](std::size_t i) { return upper ? count_ - 1 - i : i; };
    below_.clear();
    while (below_.size() < count_) below_.push_back(false);
    double const n = number(count_);
    std::size_t const fortieth = (count_ + 39) / 40;
    std::size_t const first = fortieth > 8 ? fortieth : 8;
    std::size_t changes = 0;
    std::size_t bound = none;
    for (std::size_t outside = 0; outside < count_ / 2; ++outside) {
      std::size_t const i = sorted_index(outside);
      bool const tied = outside > 0 && sorted_[i] == sorted_[sorted_index(outside - 1)];
      if (outside == first && tied) bound = first;  // the bound of the skipped samples
      if (outside >= first && !tied) {
        // If the median is beyond sorted_[i], independent samples change sides every second time.
        double const share = 2 * number(changes) / (n - 1);
        double side_tau =
            share < 1 ? (2 - share) / (share > double{1e-9} ? share : double{1e-9}) : 1;
        if (side_tau < tau) side_tau = tau;
        double const effective = n / side_tau;
        double const limit = 0.5 * effective - 0.5 * normal_quantile * std::sqrt(effective) - 0.5;
        if (number(outside) / side_tau > limit) break;
        bound = outside;
      }
      changes += changes_at(order_[i].index);
    }
    return bound;
  }

  // Moves a sample to the other side; returns the change of the number of changes, modulo 2^64.
  WARPWRIGHT_COLD std::size_t changes_at(std::size_t sample) {
    std::size_t change = 0;
    if (sample > 0) change += below_[sample - 1] ? std::size_t{0} - 1 : 1;
    if (sample + 1 < count_) change += below_[sample + 1] ? std::size_t{0} - 1 : 1;
    below_[sample] = true;
    return change;
  }

  // Extends the interval to the medians of all runs of so many consecutive samples.
  WARPWRIGHT_COLD void cover_medians(series_median& m, std::size_t length) {
    for (std::size_t i = 0; i + length <= count_; i += length) {
      run_.clear();
      for (std::size_t k = 0; k < length; ++k) run_.push_back(samples_[i + k]);
      sort(run_.begin(), length);
      double const median = median_of_sorted(run_.begin(), length);
      if (median < m.low) m.low = median;
      if (median > m.high) m.high = median;
    }
  }

  // Where the medians of every five samples, so that spikes do not count, differ by no more than
  // the precision that was asked for, the median is known to that precision, whatever causes the
  // changes. Otherwise the interval covers them.
  WARPWRIGHT_COLD void widen_by_changes(series_median& m, double precision) {
    series_median changes;
    changes.low = changes.high = m.median;
    cover_medians(changes, 5);
    double const allowed = precision * std::fabs(m.median);
    if (changes.high - changes.low <= allowed) {
      m.low = m.median - allowed;
      m.high = m.median + allowed;
      m.stability = sample_stability::converged;
    } else {
      if (changes.low < m.low) m.low = changes.low;
      if (changes.high > m.high) m.high = changes.high;
    }
  }

  double const* samples_ = nullptr;
  std::size_t count_ = 0;
  double square_sum_ = 0;
  array<entry> order_;  // the samples in ascending order
  array<double> sorted_;
  array<double> ranks_;
  array<bool> below_;
  array<double> run_;
};

WARPWRIGHT_COLD WARPWRIGHT_INLINE series_median median_of_series(double const* samples,
                                                                 std::size_t count,
                                                                 double precision) {
  return series_analyzer{}(samples, count, precision);
}

}  // namespace detail

WARPWRIGHT_END
