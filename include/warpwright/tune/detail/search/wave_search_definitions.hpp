// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the steps of a time that grows by waves: of the sizes of one step the largest is the best.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/tune/detail/search/bracketing_definitions.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// The usable sizes and their times, ascending.
struct curve_point {
  std::size_t batch;
  double seconds;
  double error;  // of the seconds, relative
};

WARPWRIGHT_COLD WARPWRIGHT_INLINE array<curve_point> curve(search_state const& s) {
  array<curve_point> points;
  for (candidate const& c : s.candidates) {
    if (!usable(c) || !(c.row.seconds_per_batch > 0.0)) continue;
    points.push_back(curve_point{c.row.batch, c.row.seconds_per_batch, error_of(c.row)});
  }
  return points;
}

// The line through two points.
WARPWRIGHT_COLD WARPWRIGHT_INLINE double line_at(curve_point const& p, curve_point const& q,
                                                 double batch) {
  double const x = static_cast<double>(p.batch);
  double const w = (batch - x) / (static_cast<double>(q.batch) - x);
  return p.seconds + w * (q.seconds - p.seconds);
}

// Whether a point lies on the line through its neighbours, up to the noise: there is then no step
// near it. The ends have one neighbour, whose line counts.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool is_on_line(array<curve_point> const& points, std::size_t i) {
  if (points.size() < 3) return false;
  if (i == 0) i = 1;
  if (i + 1 == points.size()) --i;
  auto const& p = points[i];
  double const line = line_at(points[i - 1], points[i + 1], static_cast<double>(p.batch));
  double const noise = p.error + 0.5 * (points[i - 1].error + points[i + 1].error);
  double const allowed = noise > 0.01 ? noise : 0.01;
  return std::fabs(line - p.seconds) <= allowed * p.seconds;
}

// Whether the times near the best size, which decide, do not lie on lines.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool has_steps(search_state const& s) {
  array<curve_point> const points = curve(s);
  double best = 0.0;
  for (curve_point const& p : points) {
    double const rate = static_cast<double>(p.batch) / p.seconds;
    if (rate > best) best = rate;
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (static_cast<double>(points[i].batch) / points[i].seconds < 0.6 * best) continue;
    if (!is_on_line(points, i)) return true;
  }
  return false;
}

// The largest size that takes as long as `low`, between `low` and `high`, which is one step above.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::size_t end_of_step(search_state& s, std::size_t low,
                                                          std::size_t high) {
  double const level =
      0.5 * (s.find(low)->row.seconds_per_batch + s.find(high)->row.seconds_per_batch);
  while (high - low > s.settings.multiple) {
    std::size_t const middle = s.round(low + (high - low) / 2);
    if (middle <= low || middle >= high || !has_time_for(s, middle)) break;
    if (!evaluate(s, middle)) return 0;
    (s.find(middle)->row.seconds_per_batch <= level ? low : high) = middle;
  }
  return low;
}

// The number of items of one wave: the time is that of one item up to it, and steps up behind it
// and behind twice as many. 0: there is no such step.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::size_t find_wave(search_state& s) {
  array<curve_point> const points = curve(s);
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    double const noise = points[i].error + points[0].error;
    if (points[i].seconds > (1.05 + noise) * points[0].seconds) return 0;
    if (points[i + 1].seconds < (1.1 + noise) * points[i].seconds) continue;
    if (i < 2) return 0;
    std::size_t const wave = end_of_step(s, points[i].batch, points[i + 1].batch);
    std::size_t const second = wave + s.settings.multiple;
    std::size_t const end = s.round(2 * wave);
    // Few sizes on a step show none.
    if (wave < 8 * s.settings.multiple || end <= wave ||
        end + s.settings.multiple > s.settings.last)
      return 0;
    for (std::size_t const batch : {second, end, end + s.settings.multiple}) {
      if (!has_time_for(s, batch) || !evaluate(s, batch)) return 0;
    }
    double const level = s.find(second)->row.seconds_per_batch;
    bool const even = std::fabs(s.find(end)->row.seconds_per_batch / level - 1.0) <= 0.03 + noise;
    // With multiples, the end of the second step is known to one multiple.
    bool const steps = s.settings.multiple > 1 ||
                       s.find(end + s.settings.multiple)->row.seconds_per_batch > 1.03 * level;
    bool const up = level > 1.08 * s.find(wave)->row.seconds_per_batch;
    return up && even && steps ? wave : 0;
  }
  return 0;
}

// The steps of the time: their length in items, which need not be a multiple, and their ends.
class time_steps {
 public:
  // Whether there are steps.
  explicit operator bool() const noexcept { return low_ > 0.0; }
  // Their length; from below, if only multiples run.
  [[nodiscard]] double items() const noexcept { return low_; }

  // The length is the user's, or is looked for where the times are not on lines.
  WARPWRIGHT_COLD void find(search_state& s) {
    std::size_t wave = s.settings.wave;
    bool const given = wave != 0;
    if (!given && has_steps(s)) wave = find_wave(s);
    if (wave == 0) return;
    low_ = static_cast<double>(wave);
    high_ = low_ + (given ? 0.0 : static_cast<double>(s.settings.multiple));
    first_ = given ? 0.0 : s.find(wave)->row.seconds_per_batch;
    step_ = given ? 0.0 : s.find(wave + s.settings.multiple)->row.seconds_per_batch - first_;
    narrow(s);
  }

  // The largest size of step k, which counts from 1.
  [[nodiscard]] WARPWRIGHT_COLD std::size_t end(search_state const& s, std::size_t k) const {
    return s.round(static_cast<double>(k) * low_ + 1e-6);
  }
  // The first step whose end is above a size, and the last one whose end is below another.
  [[nodiscard]] WARPWRIGHT_COLD std::size_t first_after(search_state const& s,
                                                        std::size_t batch) const {
    auto k = static_cast<std::size_t>(static_cast<double>(batch) / low_);
    if (k < 1) k = 1;
    while (end(s, k) <= batch && end(s, k) < s.settings.last) ++k;
    return k;
  }
  [[nodiscard]] WARPWRIGHT_COLD std::size_t last_before(search_state const& s,
                                                        std::size_t batch) const {
    auto k = static_cast<std::size_t>(static_cast<double>(batch) / low_) + 1;
    while (k > 0 && (end(s, k) >= batch ||
                     static_cast<double>(k) * low_ > static_cast<double>(s.settings.last))) {
      --k;
    }
    return k;
  }
  // The throughput that the end of a step is expected to have; 0: not known.
  [[nodiscard]] WARPWRIGHT_COLD double rate(search_state const& s, std::size_t k) const {
    double const seconds = first_ + step_ * static_cast<double>(k - 1);
    return first_ > 0.0 && seconds > 0.0 ? static_cast<double>(end(s, k)) / seconds : 0.0;
  }

  // Runs the ends of those steps that may be the best or the smallest near it.
  WARPWRIGHT_COLD void try_ends(search_state& s) {
    array<curve_point> const points = curve(s);
    if (points.empty()) return;
    std::size_t const largest = points.back().batch;
    auto const try_end = [&](std::size_t k) {
      if (!*this || k < 1) return false;
      std::size_t const batch = end(s, k);
      return batch <= largest && has_time_for(s, batch) && evaluate(s, batch);
    };
    find_length(s, largest);
    if (!*this) return;
    std::size_t const most = last_before(s, largest + 1);
    if (most == 0 || !try_end(most) || most < 2 || !try_end(1)) return;
    candidate const* const last = s.find(end(s, most));
    if (!*this || last == nullptr) return;
    first_ = s.find(end(s, 1))->row.seconds_per_batch;
    step_ = (last->row.seconds_per_batch - first_) / static_cast<double>(most - 1);
    std::size_t k = 1;
    while (k < most && rate(s, k) < rate(s, most) * (1.0 - s.settings.tolerance)) ++k;
    try_end(k);
    try_end(k + 1);
    if (k > 1) try_end(k - 1);
  }

 private:
  // If only multiples run, the end of the first step does not tell the length well enough for the
  // ends of later ones: sizes near the ends of the second, fourth and eighth step do.
  WARPWRIGHT_COLD void find_length(search_state& s, std::size_t largest) {
    double const multiple = static_cast<double>(s.settings.multiple);
    for (double k = 2.0; *this && k * high_ < static_cast<double>(largest); k *= 2.0) {
      for (int i = 0; i < 3 && *this && k * (high_ - low_) > multiple; ++i) {
        std::size_t const batch = s.round(0.5 * k * (low_ + high_));
        if (s.find(batch) != nullptr || !has_time_for(s, batch) || !evaluate(s, batch)) break;
        narrow(s);
      }
    }
  }

  // A time tells on which step a size is, and so how long steps can be.
  WARPWRIGHT_COLD void narrow(search_state const& s) {
    if (!(high_ > low_) || !(step_ > 0.0)) return;
    double low = low_;
    double high = high_;
    double step = step_;
    for (curve_point const& p : curve(s)) {
      double const steps = (p.seconds - first_) / step;
      double const whole = std::floor(steps + 0.5);
      bool const sure = std::fabs(steps - whole) < 0.25 && p.error * p.seconds < 0.2 * step;
      if (!sure || whole < 0.0) continue;
      if (whole >= 1.0) step = (p.seconds - first_) / whole;  // the later the step, the better
      double const batch = static_cast<double>(p.batch);
      if (batch / (whole + 1.0) > low) low = batch / (whole + 1.0);
      if (whole >= 1.0 && batch / whole < high) high = batch / whole;
    }
    if (low < high) {
      low_ = low;
      high_ = high;
    } else {
      low_ = high_ = 0.0;  // these are no steps of one length
    }
  }

  double low_ = 0.0;
  double high_ = 0.0;
  double first_ = 0.0;  // the time of the first step
  double step_ = 0.0;
};

}  // namespace detail

WARPWRIGHT_END
