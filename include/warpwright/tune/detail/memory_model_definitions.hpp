// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/tune/detail/memory_model.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE char const* to_string(memory_shape shape) noexcept {
  constexpr char const* names[] = {"unknown", "linear", "convex", "irregular"};
  return detail::enum_name(names, shape);
}

WARPWRIGHT_INLINE std::size_t memory_model::points_needed() const noexcept {
  if (points_.size() < 3) return 3 - points_.size();
  return shape_ == memory_shape::irregular || !tested_ || !grows() ? 1 : 0;
}

WARPWRIGHT_INLINE bool memory_model::knows(std::size_t batch) const noexcept {
  if (shape_ == memory_shape::unknown || shape_ == memory_shape::irregular) return false;
  double const b = static_cast<double>(batch);
  if (first_ > 0 && b < points_[first_].batch) return false;
  if (b <= points_.back().batch) return true;
  return points_needed() == 0 && b <= 2.0 * points_.back().batch;
}

WARPWRIGHT_INLINE double memory_model::estimate(std::size_t batch) const noexcept {
  if (points_.empty()) return 0.0;
  double const b = static_cast<double>(batch);
  if (shape_ == memory_shape::linear && b >= points_[first_].batch) return line(b);
  std::size_t const n = points_.size();
  if (n == 1) return points_[0].bytes * (b < points_[0].batch ? 1.0 : b / points_[0].batch);
  std::size_t const above = at_or_above(b);
  if (shape_ == memory_shape::convex && b > points_[0].batch) {
    std::size_t const last = above < 2 ? 2 : above < n ? above : n - 1;
    return interpolate(last - 2, last - 1, last, b, 0.0);
  }
  std::size_t const right = above < 1 ? 1 : above < n ? above : n - 1;
  double const bytes = chord(right - 1, right, b, 0.0);
  return bytes > 0.0 ? bytes : 0.0;
}

WARPWRIGHT_INLINE double memory_model::predict(std::size_t batch) const noexcept {
  if (points_.empty()) return HUGE_VAL;
  double const b = static_cast<double>(batch);
  double const bound = b <= points_.back().batch ? bound_within(b) : bound_above(b);
  return bound + tolerance(bound);
}

WARPWRIGHT_INLINE std::size_t memory_model::largest_within(std::size_t limit_bytes) const noexcept {
  if (points_.empty()) return 0;
  std::size_t low = 0;
  std::size_t high = 2 * static_cast<std::size_t>(points_.back().batch);
  while (low < high) {
    std::size_t const middle = high - (high - low) / 2;
    bool const fits = predict(middle) <= static_cast<double>(limit_bytes);
    // What is not known lies above the sizes that are, or below the points that fit.
    if (fits && (knows(middle) || static_cast<double>(middle) < points_[first_].batch)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low > 0 && knows(low) ? low : 0;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void memory_model::insert(memory_point const& added,
                                                                  source_location where) {
  if (added.batch == 0) {
    detail::throw_invalid_argument(detail::text{"memory_model: a point of 0 items and "} +
                                       added.bytes + " bytes; the batch must be at least 1",
                                   where);
  }
  point const p{static_cast<double>(added.batch), static_cast<double>(added.bytes), 0.0};
  std::size_t i = points_.size();
  while (i > 0 && points_[i - 1].batch > p.batch) --i;
  if (i > 0 && points_[i - 1].batch == p.batch) {
    if (p.bytes > points_[i - 1].bytes) points_[i - 1].bytes = p.bytes;
    return;
  }
  points_.push_back(p);
  for (std::size_t k = points_.size() - 1; k > i; --k) points_[k] = points_[k - 1];
  points_[i] = p;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void memory_model::choose_granule(
    std::size_t given) noexcept {
  // Of differences: a part that is not rounded may be in all readings.
  std::size_t bits = 0;
  for (point const& p : points_) {
    bits |= static_cast<std::size_t>(magnitude(p.bytes - points_.back().bytes));
  }
  std::size_t granule = std::size_t{2} << 20;
  while (granule > 512 && (bits & (granule - 1)) != 0) granule /= 2;
  granule_ = static_cast<double>(given != 0 ? given : granule);
}

WARPWRIGHT_INLINE double memory_model::tolerance(double bytes) const noexcept {
  return scale_ * (granules * granule_ + relative_ * bytes);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void memory_model::set_tolerances(double scale) noexcept {
  scale_ = scale;
  for (point& p : points_) p.tolerance = tolerance(p.bytes);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE memory_model::misfit memory_model::line_misfit(
    std::size_t first) const noexcept {
  misfit worst;
  std::size_t const n = points_.size();
  for (std::size_t i = first; i + 2 < n; ++i) {
    for (std::size_t j = i + 1; j + 1 < n; ++j) {
      for (std::size_t k = j + 1; k < n; ++k) {
        double const above = points_[j].bytes - chord(i, k, points_[j].batch, 0.0);
        double const allowed = points_[j].tolerance + chord_tolerance(i, k, points_[j].batch);
        double& side = above > 0.0 ? worst.concave : worst.convex;
        double const ratio = (above > 0.0 ? above : -above) / allowed;
        if (ratio > side) side = ratio;
      }
    }
  }
  return worst;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE memory_model::misfit memory_model::parabola_misfit(
    std::size_t first) const noexcept {
  misfit worst;
  std::size_t const n = points_.size();
  for (std::size_t i = first; i + 3 < n; ++i) {
    for (std::size_t j = i + 1; j + 2 < n; ++j) {
      for (std::size_t k = j + 1; k + 1 < n; ++k) {
        for (std::size_t l = k + 1; l < n; ++l) {
          double const b = points_[l].batch;
          double const curve = interpolate(i, j, k, b, 0.0);
          double const above = points_[l].bytes - curve;
          double const allowed = points_[l].tolerance + interpolate(i, j, k, b, 1.0) - curve;
          double& side = above > 0.0 ? worst.convex : worst.concave;
          double const ratio = (above > 0.0 ? above : -above) / allowed;
          if (ratio > side) side = ratio;
        }
      }
    }
  }
  return worst;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void memory_model::choose_shape() noexcept {
  std::size_t const n = points_.size();
  if (n < 3) relative_ += untested_tolerance;
  set_tolerances(1.0);
  if (n < 3) return;
  if (shape_from(0)) return;
  // More noise than expected, but nothing systematic: a wider tolerance.
  double const scatter = 1.5 * line_misfit(0).largest();
  if (n >= 6 && scatter * points_.back().tolerance <= largest_scatter * points_.back().bytes) {
    shape_ = memory_shape::linear;
    tested_ = true;
    set_tolerances(scatter);
    return;
  }
  // The small sizes may run another algorithm, or hide under a least reservation.
  for (first_ = 1; first_ + 4 <= n; ++first_) {
    if (shape_from(first_)) return;
  }
  first_ = 0;
  shape_ = memory_shape::irregular;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE bool memory_model::shape_from(std::size_t first) noexcept {
  misfit const line = line_misfit(first);
  if (line.largest() <= 1.0) {
    shape_ = memory_shape::linear;
    tested_ = true;
    if (line.largest() > 2.0 / 3.0) set_tolerances(1.5 * line.largest());
    return true;
  }
  if (line.concave > 1.0) return false;
  misfit const parabola = parabola_misfit(first);
  if (parabola.convex > 1.0) return false;
  shape_ = memory_shape::convex;
  // Flat points tell nothing about the curve that begins behind them.
  rise_ = first;
  while (rise_ + 1 < points_.size() && !rises(rise_)) ++rise_;
  tested_ = rise_ + 4 <= points_.size();
  parabola_ = tested_ && parabola.concave <= 1.0;
  return true;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void memory_model::fit_line() noexcept {
  double weights = 0.0;
  double mean_x = 0.0;
  double mean_y = 0.0;
  for (std::size_t i = first_; i < points_.size(); ++i) {
    double const w = 1.0 / (points_[i].tolerance * points_[i].tolerance);
    weights += w;
    mean_x += w * points_[i].batch;
    mean_y += w * points_[i].bytes;
  }
  if (points_.empty()) return;
  mean_x /= weights;
  mean_y /= weights;
  double xx = 0.0;
  double xy = 0.0;
  for (std::size_t i = first_; i < points_.size(); ++i) {
    double const w = 1.0 / (points_[i].tolerance * points_[i].tolerance);
    double const x = points_[i].batch - mean_x;
    xx += w * x * x;
    xy += w * x * (points_[i].bytes - mean_y);
  }
  slope_ = xy > 0.0 ? xy / xx : 0.0;
  base_ = mean_y - slope_ * mean_x;
}

WARPWRIGHT_INLINE double memory_model::line(double b) const noexcept {
  double const bytes = base_ + slope_ * b;
  return bytes > 0.0 ? bytes : 0.0;
}

WARPWRIGHT_INLINE bool memory_model::rises(std::size_t i) const noexcept {
  return points_[i + 1].bytes - points_[i].bytes > points_[i + 1].tolerance + points_[i].tolerance;
}

WARPWRIGHT_INLINE bool memory_model::grows() const noexcept {
  return points_.back().bytes - points_[first_].bytes >= 16.0 * points_.back().tolerance;
}

WARPWRIGHT_INLINE std::size_t memory_model::at_or_above(double b) const noexcept {
  std::size_t i = 0;
  while (i < points_.size() && b > points_[i].batch) ++i;
  return i;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE double memory_model::chord_tolerance(
    std::size_t i, std::size_t k, double b) const noexcept {
  point const& p = points_[i];
  point const& q = points_[k];
  double const w = (b - p.batch) / (q.batch - p.batch);
  return magnitude(1.0 - w) * p.tolerance + magnitude(w) * q.tolerance;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE double memory_model::chord(std::size_t i, std::size_t k,
                                                                   double b,
                                                                   double margin) const noexcept {
  point const& p = points_[i];
  point const& q = points_[k];
  double const w = (b - p.batch) / (q.batch - p.batch);
  return p.bytes + w * (q.bytes - p.bytes) + margin * chord_tolerance(i, k, b);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE double memory_model::interpolate(
    std::size_t i, std::size_t j, std::size_t k, double b, double margin) const noexcept {
  std::size_t const nodes[3] = {i, j, k};
  double bytes = 0.0;
  for (std::size_t const m : nodes) {
    double weight = 1.0;
    for (std::size_t const other : nodes) {
      if (other == m) continue;
      weight *= (b - points_[other].batch) / (points_[m].batch - points_[other].batch);
    }
    bytes += weight * points_[m].bytes + margin * magnitude(weight) * points_[m].tolerance;
  }
  return bytes;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE double memory_model::quadratic_growth(
    std::size_t i, std::size_t k, double b) const noexcept {
  point const& p = points_[i];
  point const& q = points_[k];
  double const rise = q.bytes - p.bytes + p.tolerance + q.tolerance;
  double const share = (b * b - q.batch * q.batch) / (q.batch * q.batch - p.batch * p.batch);
  return q.bytes + q.tolerance + (rise > 0.0 ? rise * share : 0.0);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE double memory_model::bound_within(double b) const noexcept {
  std::size_t const right = at_or_above(b);
  // Memory does not shrink: a larger size's reading holds for the smaller one.
  double bound = points_[right].bytes + points_[right].tolerance;
  double measured = 0.0;
  for (std::size_t i = 0; i < right; ++i) {
    if (points_[i].bytes > measured) measured = points_[i].bytes;
  }
  bool const curve = parabola_ && right > rise_;
  if (right > first_ && (curve || shape_ == memory_shape::linear)) {
    // A convex curve is below its chords; what is not a parabola may be a step.
    lower(bound, chord(right - 1, right, b, 1.0));
    for (std::size_t i = rise_; curve && i < points_.size(); ++i) {
      if (i != right && i != right - 1) lower(bound, interpolate(right - 1, right, i, b, 1.0));
    }
  }
  return bound > measured ? bound : measured;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE double memory_model::bound_above(double b) const noexcept {
  std::size_t const n = points_.size();
  double const last = points_[n - 1].bytes + points_[n - 1].tolerance;
  if (n == 1) return last * b * b / (points_[0].batch * points_[0].batch);
  double bound = quadratic_growth(n - 2, n - 1, b);
  if (shape_ == memory_shape::irregular) {
    for (std::size_t i = 0; i + 2 < n; ++i) {
      double const other = quadratic_growth(i, n - 1, b);
      if (other > bound) bound = other;
    }
  } else {
    for (std::size_t i = tested_ && rise_ > first_ ? rise_ : first_; i + 1 < n; ++i) {
      lower(bound, quadratic_growth(i, n - 1, b));
      for (std::size_t j = i + 1; j + 1 < n; ++j) lower(bound, interpolate(i, j, n - 1, b, 1.0));
    }
  }
  return bound > last ? bound : last;
}

WARPWRIGHT_INLINE void memory_model::lower(double& bound, double other) noexcept {
  if (other < bound) bound = other;
}

WARPWRIGHT_END
