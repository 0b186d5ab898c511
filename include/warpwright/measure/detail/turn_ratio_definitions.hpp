// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The ratio of two times that were taken in turns, with its interval: what compare(), choose() and
// the comparisons of batch_tuner say about a difference.
//
// What both have in common cancels within a turn, such as a drift, another clock rate or other
// work. What remains may still depend on the turns before: then the turns stand for fewer
// independent ones, and the interval is wider. It is always one of 95 %; an unsteady ratio has a
// wide one.
#pragma once

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/measure/detail/statistics.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE robust_mean robust_mean::of(std::vector<double>& values) {
  sort(values.data(), values.size());
  return of_sorted(values.data(), values.size());
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE robust_mean robust_mean::of_sorted(double const* values,
                                                                     std::size_t n) {
  robust_mean r;
  if (n == 0) return r;
  std::size_t const cut = n < 4 ? 0 : (n + 4) / 8;
  r.kept = n - 2 * cut;
  r.least = values[cut];
  r.most = values[n - cut - 1];
  for (std::size_t i = cut; i < n - cut; ++i) r.mean += values[i] / static_cast<double>(r.kept);
  if (n == 1) return r;
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const k = i < cut ? cut : i < n - cut ? i : n - cut - 1;
    squares += (values[k] - r.mean) * (values[k] - r.mean);
  }
  double const share = static_cast<double>(r.kept) / static_cast<double>(n);
  r.deviation = std::sqrt(squares / static_cast<double>(n - 1)) / share;
  r.half_width =
      student(static_cast<double>(r.kept - 1)) * r.deviation / std::sqrt(static_cast<double>(n));
  return r;
}

WARPWRIGHT_INLINE double robust_mean::student(double freedom) {
  double const f = freedom < 1 ? 1.0 : freedom;
  return 1.96 + 2.4 / f + 3.8 / (f * f) + 4.5 / (f * f * f);
}

class turn_ratio_analyzer {
 public:
  // Then analyses of up to `count` turns do not allocate.
  WARPWRIGHT_COLD void reserve(std::size_t count) {
    logs_.reserve(count);
    sorted_.reserve(count);
  }

  WARPWRIGHT_COLD turn_ratio operator()(std::vector<double> const& first,
                                        std::vector<double> const& second, double precision) {
    logs_.clear();
    sorted_.clear();
    for (std::size_t i = 0; i < first.size(); ++i) {
      logs_.push_back(log_seconds(first[i]) - log_seconds(second[i]));
      sorted_.push_back(logs_.back());
    }
    turn_ratio r;
    if (logs_.size() == 0) return r;
    sort(sorted_.begin(), sorted_.size());
    double const median = median_of_sorted(sorted_.begin(), sorted_.size());
    r.median = std::exp(median);
    robust_mean const m = robust_mean::of_sorted(sorted_.begin(), sorted_.size());
    r.log_mean = m.mean;
    double trend = 0;
    bound_changes(m, r, trend);
    if (logs_.size() < turn_ratio::fewest_turns) return r;
    bool const enough = logs_.size() >= series_median::fewest_samples;
    bool steady = r.effective_turns >= fewest_effective;
    if (enough && !steady && r.log_half_width <= 0.25 * precision) {
      // Whatever the changes are, they are well below the precision, to which the ratio is known.
      r.log_half_width = precision;
      steady = true;
    }
    // What was seen, extended by three quarters of its range on either side, holds as well, however
    // long the changes last: simulated, 95 %.
    double const range = sorted_.back() - sorted_.front();
    double const least = sorted_.front() - 0.75 * range;
    double const most = sorted_.back() + 0.75 * range;
    double low = r.log_mean - r.log_half_width;
    double high = r.log_mean + r.log_half_width;
    if (low < least) low = least;
    if (high > most) high = most;
    r.low = std::exp(low < median ? low : median);
    r.high = std::exp(high > median ? high : median);
    if (!enough) return r;
    r.stability = steady                   ? sample_stability::converged
                  : std::fabs(trend) > 0.8 ? sample_stability::drifting
                                           : sample_stability::correlated;
    return r;
  }

 private:
  // With fewer, the deviation of the turns is itself hardly known.
  static constexpr double fewest_effective = 8;
  // What lasts for more turns is not told from a difference.
  static constexpr double longest_change = 100;
  static constexpr std::size_t blocks = 6;
  // They hardly show a correlation, and one that they seem to have is believed in part only.
  static constexpr std::size_t few_turns = 24;

  // Times of zero, of a clock too coarse for the calls, are equal.
  static double log_seconds(double seconds) { return std::log(seconds > 1e-15 ? seconds : 1e-15); }
  static double number(std::size_t count) { return static_cast<double>(count); }

  // Sets effective_turns, the half width, and the correlation of the turns with time.
  WARPWRIGHT_COLD void bound_changes(robust_mean const& m, turn_ratio& r, double& trend) {
    std::size_t const count = logs_.size();
    double const n = number(count);
    r.effective_turns = n;
    if (count < 2 || !(m.deviation > 0)) return;
    double mean = 0;
    for (double& log : logs_) {
      log = log < m.least ? m.least : log > m.most ? m.most : log;
      mean += log / n;
    }
    double squares = 0;
    double products = 0;
    double with_time = 0;
    for (std::size_t i = 0; i < count; ++i) {
      logs_[i] -= mean;
      squares += logs_[i] * logs_[i];
      if (i > 0) products += logs_[i] * logs_[i - 1];
      with_time += logs_[i] * (number(i) - 0.5 * (n - 1));
    }
    trend = with_time / std::sqrt(squares * n * (n * n - 1) / 12);
    // As many turns as hold the information of an independent one: of a first-order process with
    // this autocorrelation, the estimate of which is too low by (1 + 3 r) / n, and varies as much
    // again; and as the means of a few long blocks vary, which shows slow changes below the noise.
    double rho = products / squares;
    rho += 2.5 * (1 + (rho > 0 ? 3 * rho : 0)) / n;
    if (rho > 0.99) rho = 0.99;
    double turns = (1 + rho) / (1 - rho);
    double const by_blocks = turns_by_blocks(squares);
    if (turns < by_blocks) turns = by_blocks;
    if (turns < 1) turns = 1;
    double const least = count < few_turns ? 3 : 1;
    double const effective = n / turns > least ? n / turns : least;
    double const freedom = effective < number(m.kept) ? effective - 1 : number(m.kept) - 1;
    r.effective_turns = effective;
    r.log_half_width = robust_mean::student(freedom) * m.deviation / std::sqrt(effective);
    // If changes last for at most longest_change, their mean is not further from that of the turns
    // seen, whatever the estimate: simulated, 95 %.
    double const share = longest_change / n;
    double const most = (2.5 * std::sqrt(share) + share) * m.deviation;
    if (most < r.log_half_width) r.log_half_width = most;
  }

  [[nodiscard]] WARPWRIGHT_COLD double turns_by_blocks(double squares) const {
    constexpr double student = 1.25;  // the means of six blocks deviate by more than they seem to
    std::size_t const length = logs_.size() / blocks;
    if (length < 7) return 1;
    double sum = 0;
    double sum_squares = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      double mean = 0;
      for (std::size_t i = 0; i < length; ++i) {
        mean += logs_[logs_.size() - (b + 1) * length + i] / number(length);
      }
      sum += mean;
      sum_squares += mean * mean;
    }
    double const variance = (sum_squares - sum * sum / number(blocks)) / number(blocks - 1);
    return student * number(length) * variance * number(logs_.size() - 1) / squares;
  }

  array<double> logs_;  // of the ratios, in the order of the turns
  array<double> sorted_;
};

WARPWRIGHT_COLD WARPWRIGHT_INLINE turn_ratio ratio_of_turns(std::vector<double> const& first,
                                                            std::vector<double> const& second,
                                                            double precision) {
  return turn_ratio_analyzer{}(first, second, precision);
}

}  // namespace detail

WARPWRIGHT_END
