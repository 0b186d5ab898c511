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

#include <warpwright/core/detail/array.hpp>
#include <warpwright/measure/detail/robust_mean.hpp>
#include <warpwright/measure/detail/series_analysis.hpp>

#include <cmath>
#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

struct turn_ratio {
  double log_mean = 0.0;         // of the logarithms of the ratios, without the extremes
  double log_half_width = 0.0;   // of its interval
  double median = 0.0;           // of the ratios
  double low = 0.0;              // the interval, which contains the median as well
  double high = HUGE_VAL;        // of fewer than fewest_turns there is none
  double effective_turns = 0.0;  // independent turns with as much information
  sample_stability stability = sample_stability::too_few_samples;

  // Of fewer turns all may be on one side by chance, in more than 5 %.
  static constexpr std::size_t fewest_turns = 6;

  [[nodiscard]] double half_width() const { return 0.5 * (high - low); }
};

// Real is double: a template, so that a file which only includes the header does not compile it.
template <typename Real>
class turn_ratio_analyzer {
 public:
  // Then analyses of up to `count` turns do not allocate.
  WARPWRIGHT_COLD void reserve(std::size_t count) {
    logs_.reserve(count);
    sorted_.reserve(count);
  }

  // @param first, second  seconds by turn, as many of each
  // @param precision      a fraction; what is known to it is settled, whatever the changes
  template <typename Samples>
  WARPWRIGHT_COLD turn_ratio operator()(Samples const& first, Samples const& second,
                                        Real precision) {
    logs_.clear();
    sorted_.clear();
    for (std::size_t i = 0; i < first.size(); ++i) {
      logs_.push_back(log_seconds(first[i]) - log_seconds(second[i]));
      sorted_.push_back(logs_.back());
    }
    turn_ratio r;
    if (logs_.size() == 0) return r;
    sort(sorted_);
    Real const median = median_of_sorted(sorted_.begin(), sorted_.size());
    r.median = std::exp(median);
    robust_mean<Real> const m = robust_mean<Real>::of_sorted(sorted_.begin(), sorted_.size());
    r.log_mean = m.mean;
    Real trend = 0;
    bound_changes(m, r, trend);
    if (logs_.size() < turn_ratio::fewest_turns) return r;
    bool const enough = logs_.size() >= series_analyzer<Real>::fewest_samples;
    bool steady = r.effective_turns >= fewest_effective;
    if (enough && !steady && r.log_half_width <= Real{0.25} * precision) {
      // Whatever the changes are, they are well below the precision, to which the ratio is known.
      r.log_half_width = precision;
      steady = true;
    }
    // What was seen, extended by three quarters of its range on either side, holds as well, however
    // long the changes last: simulated, 95 %.
    Real const range = sorted_.back() - sorted_.front();
    Real const least = sorted_.front() - Real{0.75} * range;
    Real const most = sorted_.back() + Real{0.75} * range;
    Real low = r.log_mean - r.log_half_width;
    Real high = r.log_mean + r.log_half_width;
    if (low < least) low = least;
    if (high > most) high = most;
    r.low = std::exp(low < median ? low : median);
    r.high = std::exp(high > median ? high : median);
    if (!enough) return r;
    r.stability = steady                         ? sample_stability::settled
                  : std::fabs(trend) > Real{0.8} ? sample_stability::drifting
                                                 : sample_stability::correlated;
    return r;
  }

 private:
  // With fewer, the deviation of the turns is itself hardly known.
  static constexpr Real fewest_effective = 8;
  // What lasts for more turns is not told from a difference.
  static constexpr Real longest_change = 100;
  static constexpr std::size_t blocks = 6;
  // They hardly show a correlation, and one that they seem to have is believed in part only.
  static constexpr std::size_t few_turns = 24;

  // Times of zero, of a clock too coarse for the calls, are equal.
  static Real log_seconds(Real seconds) { return std::log(seconds > 1e-15 ? seconds : 1e-15); }
  static Real number(std::size_t count) { return static_cast<Real>(count); }

  // Sets effective_turns, the half width, and the correlation of the turns with time.
  WARPWRIGHT_COLD void bound_changes(robust_mean<Real> const& m, turn_ratio& r, Real& trend) {
    std::size_t const count = logs_.size();
    Real const n = number(count);
    r.effective_turns = n;
    if (count < 2 || !(m.deviation > 0)) return;
    Real mean = 0;
    for (Real& log : logs_) {
      log = log < m.least ? m.least : log > m.most ? m.most : log;
      mean += log / n;
    }
    Real squares = 0;
    Real products = 0;
    Real with_time = 0;
    for (std::size_t i = 0; i < count; ++i) {
      logs_[i] -= mean;
      squares += logs_[i] * logs_[i];
      if (i > 0) products += logs_[i] * logs_[i - 1];
      with_time += logs_[i] * (number(i) - Real{0.5} * (n - 1));
    }
    trend = with_time / std::sqrt(squares * n * (n * n - 1) / 12);
    // As many turns as hold the information of an independent one: of a first-order process with
    // this autocorrelation, the estimate of which is too low by (1 + 3 r) / n, and varies as much
    // again; and as the means of a few long blocks vary, which shows slow changes below the noise.
    Real rho = products / squares;
    rho += Real{2.5} * (1 + (rho > 0 ? 3 * rho : 0)) / n;
    if (rho > Real{0.99}) rho = Real{0.99};
    Real turns = (1 + rho) / (1 - rho);
    Real const by_blocks = turns_by_blocks(squares);
    if (turns < by_blocks) turns = by_blocks;
    if (turns < 1) turns = 1;
    Real const least = count < few_turns ? 3 : 1;
    Real const effective = n / turns > least ? n / turns : least;
    Real const freedom = effective < number(m.kept) ? effective - 1 : number(m.kept) - 1;
    r.effective_turns = effective;
    r.log_half_width = robust_mean<Real>::student(freedom) * m.deviation / std::sqrt(effective);
    // If changes last for at most longest_change, their mean is not further from that of the turns
    // seen, whatever the estimate: simulated, 95 %.
    Real const share = longest_change / n;
    Real const most = (Real{2.5} * std::sqrt(share) + share) * m.deviation;
    if (most < r.log_half_width) r.log_half_width = most;
  }

  [[nodiscard]] WARPWRIGHT_COLD Real turns_by_blocks(Real squares) const {
    constexpr Real student = 1.25;  // the means of six blocks deviate by more than they seem to
    std::size_t const length = logs_.size() / blocks;
    if (length < 7) return 1;
    Real sum = 0;
    Real sum_squares = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      Real mean = 0;
      for (std::size_t i = 0; i < length; ++i) {
        mean += logs_[logs_.size() - (b + 1) * length + i] / number(length);
      }
      sum += mean;
      sum_squares += mean * mean;
    }
    Real const variance = (sum_squares - sum * sum / number(blocks)) / number(blocks - 1);
    return student * number(length) * variance * number(logs_.size() - 1) / squares;
  }

  array<Real> logs_;  // of the ratios, in the order of the turns
  array<Real> sorted_;
};

template <typename Samples>
WARPWRIGHT_COLD turn_ratio ratio_of_turns(Samples const& first, Samples const& second,
                                          double precision) {
  return turn_ratio_analyzer<double>{}(first, second, precision);
}

}  // namespace detail

WARPWRIGHT_END
