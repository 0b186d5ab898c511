// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The measured times over the batch size, and the steps in them.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/tune/detail/search/bracketing.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// The usable sizes and their times, ascending.
struct curve_point {
  std::size_t batch;
  double seconds;
  double error;  // of the seconds, relative
};

template <typename State>
WARPWRIGHT_COLD array<curve_point> curve(State const& s) {
  array<curve_point> points;
  for (candidate const& c : s.candidates) {
    if (!State::usable(c) || !(c.row.seconds_per_batch > 0.0)) continue;
    points.push_back(curve_point{c.row.batch, c.row.seconds_per_batch, error_of(c.row)});
  }
  return points;
}

// The line through two points.
WARPWRIGHT_COLD inline double line_at(curve_point const& p, curve_point const& q, double batch) {
  double const x = static_cast<double>(p.batch);
  double const w = (batch - x) / (static_cast<double>(q.batch) - x);
  return p.seconds + w * (q.seconds - p.seconds);
}

// Whether a point lies on the line through its neighbours, up to the noise: there is then no step
// near it. The ends have one neighbour, whose line counts.
template <typename Points>
WARPWRIGHT_COLD bool is_on_line(Points const& points, std::size_t i) {
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
template <typename State>
WARPWRIGHT_COLD bool has_steps(State const& s) {
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
template <typename State>
WARPWRIGHT_COLD std::size_t end_of_step(State& s, std::size_t low, std::size_t high) {
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
template <typename State>
WARPWRIGHT_COLD std::size_t find_wave(State& s) {
  array<curve_point> const points = curve(s);
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    double const noise = points[i].error + points[0].error;
    if (points[i].seconds > (1.05 + noise) * points[0].seconds) return 0;
    if (points[i + 1].seconds < (1.1 + noise) * points[i].seconds) continue;
    if (i < 2) return 0;
    std::size_t const wave = end_of_step(s, points[i].batch, points[i + 1].batch);
    // Few sizes on a step show none.
    if (wave < 8 || 2 * wave >= s.settings.last) return 0;
    for (std::size_t const batch : {wave + 1, 2 * wave, 2 * wave + 1}) {
      if (!has_time_for(s, batch) || !evaluate(s, batch)) return 0;
    }
    auto const seconds = [&s](std::size_t batch) { return s.find(batch)->row.seconds_per_batch; };
    double const level = seconds(wave + 1);
    bool const even = std::fabs(seconds(2 * wave) / level - 1.0) <= 0.03 + noise;
    bool const steps = seconds(2 * wave + 1) > 1.03 * level;
    bool const up = level > 1.08 * seconds(wave);
    return up && even && steps ? wave : 0;
  }
  return 0;
}

// The ends of the steps of a time that grows by waves of so many items: of the sizes of one step
// the largest is the best. The length is the user's; where every size may run, it is looked for
// where the times are not on lines.
template <typename State>
class time_steps {
 public:
  // Whether there are steps.
  explicit operator bool() const noexcept { return wave_ > 0; }

  // Their length in items.
  [[nodiscard]] std::size_t items() const noexcept { return wave_; }
  // The largest size of step k, which counts from 1.
  [[nodiscard]] std::size_t end(State const& s, std::size_t k) const { return s.round(k * wave_); }
  // The first step whose end is above a size, and the last one whose end is below another.
  [[nodiscard]] WARPWRIGHT_COLD std::size_t first_after(State const& s, std::size_t batch) const {
    std::size_t k = batch < wave_ ? 1 : batch / wave_;
    while (end(s, k) <= batch && end(s, k) < s.settings.last) ++k;
    return k;
  }
  [[nodiscard]] WARPWRIGHT_COLD std::size_t last_before(State const& s, std::size_t batch) const {
    std::size_t k = batch / wave_ + 1;
    while (k > 0 && (end(s, k) >= batch || k * wave_ > s.settings.last)) --k;
    return k;
  }
  // The throughput that the end of a step is expected to have; 0: not known.
  [[nodiscard]] WARPWRIGHT_COLD double rate(State const& s, std::size_t k) const {
    double const seconds = first_ + step_ * static_cast<double>(k - 1);
    return first_ > 0.0 && seconds > 0.0 ? static_cast<double>(end(s, k)) / seconds : 0.0;
  }

  // Runs the ends of those steps that may be the best or the smallest near it.
  WARPWRIGHT_COLD void find(State& s) {
    wave_ = s.settings.wave;
    if (wave_ == 0 && s.settings.multiple == 1 && has_steps(s)) wave_ = find_wave(s);
    array<curve_point> const points = curve(s);
    if (wave_ == 0 || points.empty()) return;
    std::size_t const largest = points.back().batch;
    auto const try_end = [&](std::size_t k) {
      std::size_t const batch = end(s, k);
      return batch <= largest && has_time_for(s, batch) && evaluate(s, batch);
    };
    std::size_t const most = last_before(s, largest + 1);
    if (most == 0 || !try_end(most) || most < 2 || !try_end(1)) return;
    candidate const* const last = s.find(end(s, most));
    if (last == nullptr) return;
    first_ = s.find(end(s, 1))->row.seconds_per_batch;
    step_ = (last->row.seconds_per_batch - first_) / static_cast<double>(most - 1);
    std::size_t k = 1;
    while (k < most && rate(s, k) < rate(s, most) * (1.0 - s.settings.tolerance)) ++k;
    try_end(k);
    try_end(k + 1);
    if (k > 1) try_end(k - 1);
  }

 private:
  std::size_t wave_ = 0;
  double first_ = 0.0;  // the time of the first step
  double step_ = 0.0;   // and of each further one
};

}  // namespace detail

WARPWRIGHT_END
