// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Peak memory as a function of the batch size, fitted to a few measured sizes.
//
//   auto const memory = ww::memory_model::fit({{64, 1'300'000'000}, {128, 2'350'000'000},
//                                              {256, 4'450'000'000}});
//   if (memory.knows(512) && memory.predict(512) <= limit_bytes) …
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>
#include <initializer_list>
#include <limits>
#include <vector>

WARPWRIGHT_BEGIN

/// The peak memory of one batch size, as measured.
struct memory_point {
  std::size_t batch = 0;  ///< items, at least 1
  std::size_t bytes = 0;  ///< peak memory
};

/// What the points of a memory_model look like.
enum class memory_shape {
  unknown,    ///< fewer than 3 sizes: nothing can be tested
  linear,     ///< a line, up to the rounding of allocations
  convex,     ///< grows faster than a line, as attention over a sequence does
  irregular,  ///< neither: a step, another algorithm, or a wrong reading
};

/// The shape's name, as reports print it.
/// @param shape  a shape
/// @return a string literal
inline char const* to_string(memory_shape shape) noexcept {
  switch (shape) {
    case memory_shape::linear:
      return "linear";
    case memory_shape::convex:
      return "convex";
    case memory_shape::irregular:
      return "irregular";
    case memory_shape::unknown:
      break;
  }
  return "unknown";
}

/// Peak memory over the batch size, with a bound that allows for what the points cannot tell.
///
/// It assumes that memory does not shrink as the batch grows, that it grows at most quadratically,
/// and that a reading is off by no more than a tolerance: two allocation granules and 0.25 % of the
/// reading, more where the points scatter more. predict() is the largest value at a size that any
/// such curve through the points can have. So the bound widens with the distance from the measured
/// sizes, the faster the fewer and the closer together they are. A line is believed only if every
/// three points are within the tolerance of one, a parabola only if every four are.
///
/// A copyable value. **Threads:** any number may call const members at once.
/// Source: bounded-error (set-membership) estimation, Milanese and Vicino, Automatica 27 (1991).
class memory_model {
 public:
  /// The model of no points: its prediction is infinite.
  memory_model() = default;

  /// Fits a model to measured sizes.
  ///
  /// Sizes that all double cannot show memory that is padded to powers of two: measure one between
  /// two of them as well.
  ///
  /// @param points  any list of memory_point, in any order; of equal sizes the largest reading
  ///   counts
  /// @param granule_bytes  the memory resource rounds allocations up to a multiple of this; 0: the
  ///   largest power of two that divides all differences of readings, from 512 bytes to 2 MiB
  /// @param rounding  by which fraction it rounds them up at most, if it has size classes: eight of
  ///   them for each power of two are 0.125. Sizes that double cannot show that
  /// @return the model
  /// @throws std::invalid_argument for a batch of 0 items, or a fraction not from 0 to below 1
  ///
  /// **Cost:** O(n^3) in the number of points where a line fits, else O(n^4).
  template <typename Points = std::initializer_list<memory_point>>
  [[nodiscard]] static memory_model fit(Points const& points, std::size_t granule_bytes = 0,
                                        double rounding = 0.0,
                                        source_location where = source_location::current()) {
    if (!(rounding >= 0.0 && rounding < 1.0)) {
      detail::throw_invalid_argument(detail::text{"memory_model: a rounding of "} + rounding +
                                         "; it must be a fraction from 0 to below 1",
                                     where);
    }
    memory_model model;
    model.relative_ = relative_tolerance + rounding;
    for (memory_point const& point : points) model.insert(point, where);
    model.choose_granule(granule_bytes);
    model.choose_shape();
    model.fit_line();
    return model;
  }

  /// @return the number of different sizes fitted
  [[nodiscard]] std::size_t points() const noexcept { return points_.size(); }
  /// @return the largest of them, items; 0 without points
  [[nodiscard]] std::size_t largest_measured() const noexcept {
    return points_.empty() ? 0 : static_cast<std::size_t>(points_.back().batch);
  }
  /// @return what the points look like
  [[nodiscard]] memory_shape shape() const noexcept { return shape_; }
  /// @return whether a line describes the points, tested on at least 3 of them
  [[nodiscard]] bool residual_ok() const noexcept { return shape_ == memory_shape::linear; }
  /// @return how many more sizes are needed, at least, before knows() can be true above the largest
  ///   one; 0: none
  [[nodiscard]] std::size_t points_needed() const noexcept {
    if (points_.size() < 3) return 3 - points_.size();
    return shape_ == memory_shape::irregular || !tested_ || !grows() ? 1 : 0;
  }
  /// @return the intercept of the line nearest to the points, in bytes
  [[nodiscard]] double base_bytes() const noexcept { return base_; }
  /// @return the slope of that line, in bytes, not negative
  [[nodiscard]] double bytes_per_item() const noexcept { return slope_; }

  /// Whether predict() can be relied on: the points passed their test, grow by more than their
  /// tolerance hides, and the size is at most twice the largest measured one.
  /// @param batch  items
  [[nodiscard]] bool knows(std::size_t batch) const noexcept {
    if (shape_ == memory_shape::unknown || shape_ == memory_shape::irregular) return false;
    double const b = static_cast<double>(batch);
    if (first_ > 0 && b < points_[first_].batch) return false;
    if (b <= points_.back().batch) return true;
    return points_needed() == 0 && b <= 2.0 * points_.back().batch;
  }

  /// The most likely peak memory, without a margin.
  /// @param batch  items
  /// @return bytes; of a convex model interpolated; 0 without points
  [[nodiscard]] double estimate(std::size_t batch) const noexcept {
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

  /// The peak memory that a size may need: an upper bound, which includes the margin.
  ///
  /// Where knows() is false it is a pessimistic guess: with two points the parabola of no linear
  /// part through them, and 5 % on each reading; of irregular points the steepest of the growths.
  ///
  /// @param batch  items
  /// @return bytes; infinity without points
  ///
  /// **Cost:** O(n^2) above the measured sizes, O(n) among them.
  [[nodiscard]] double predict(std::size_t batch) const noexcept {
    if (points_.empty()) return std::numeric_limits<double>::infinity();
    double const b = static_cast<double>(batch);
    double const bound = b <= points_.back().batch ? bound_within(b) : bound_above(b);
    return bound + tolerance(bound);
  }

  /// The largest size whose prediction is reliable and within a limit.
  /// @param limit_bytes  the memory that there is
  /// @return items, at most twice the largest size measured; 0: no size is known to fit
  /// **Cost:** some 60 predictions.
  [[nodiscard]] std::size_t largest_within(std::size_t limit_bytes) const noexcept {
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

 private:
  struct point {
    double batch;
    double bytes;      // as measured
    double tolerance;  // how far the reading may be off the curve
  };

  static constexpr double granules = 2.0;
  static constexpr double relative_tolerance = 0.0025;
  static constexpr double untested_tolerance = 0.05;
  // Points that scatter by more than this are no line.
  static constexpr double largest_scatter = 0.03;

  // A template, so that a file that only includes the header does not compile it.
  template <typename Point>
  void insert(Point const& added, source_location where) {
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

  void choose_granule(std::size_t given) noexcept {
    // Of differences: a part that is not rounded may be in all readings.
    std::size_t bits = 0;
    for (point const& p : points_) {
      bits |= static_cast<std::size_t>(magnitude(p.bytes - points_.back().bytes));
    }
    std::size_t granule = std::size_t{2} << 20;
    while (granule > 512 && (bits & (granule - 1)) != 0) granule /= 2;
    granule_ = static_cast<double>(given != 0 ? given : granule);
  }

  double tolerance(double bytes) const noexcept {
    return scale_ * (granules * granule_ + relative_ * bytes);
  }
  void set_tolerances(double scale) noexcept {
    scale_ = scale;
    for (point& p : points_) p.tolerance = tolerance(p.bytes);
  }

  // How far points from `first` on are from any line, in tolerances, and whether below or above.
  struct misfit {
    double convex = 0.0;
    double concave = 0.0;
    double largest() const noexcept { return convex > concave ? convex : concave; }
  };
  misfit line_misfit(std::size_t first) const noexcept {
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
  // The same for a parabola: convex is faster growth than a parabola's.
  misfit parabola_misfit(std::size_t first) const noexcept {
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

  void choose_shape() noexcept {
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

  bool shape_from(std::size_t first) noexcept {
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

  // Least squares, weighted by the tolerances.
  void fit_line() noexcept {
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

  double line(double b) const noexcept {
    double const bytes = base_ + slope_ * b;
    return bytes > 0.0 ? bytes : 0.0;
  }

  bool rises(std::size_t i) const noexcept {
    return points_[i + 1].bytes - points_[i].bytes >
           points_[i + 1].tolerance + points_[i].tolerance;
  }
  // Growth below the tolerance may be the first rise above a least reservation.
  bool grows() const noexcept {
    return points_.back().bytes - points_[first_].bytes >= 16.0 * points_.back().tolerance;
  }

  std::size_t at_or_above(double b) const noexcept {
    std::size_t i = 0;
    while (i < points_.size() && points_[i].batch < b) ++i;
    return i;
  }

  // The line through two points, and how far it may be off. `margin` multiplies that: 0 leaves it
  // out.
  double chord_tolerance(std::size_t i, std::size_t k, double b) const noexcept {
    point const& p = points_[i];
    point const& q = points_[k];
    double const w = (b - p.batch) / (q.batch - p.batch);
    return magnitude(1.0 - w) * p.tolerance + magnitude(w) * q.tolerance;
  }
  double chord(std::size_t i, std::size_t k, double b, double margin) const noexcept {
    point const& p = points_[i];
    point const& q = points_[k];
    double const w = (b - p.batch) / (q.batch - p.batch);
    return p.bytes + w * (q.bytes - p.bytes) + margin * chord_tolerance(i, k, b);
  }

  // The parabola through three points at b; Lagrange's weights also bound its error.
  double interpolate(std::size_t i, std::size_t j, std::size_t k, double b,
                     double margin) const noexcept {
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

  // The steepest curve through two points that is at most quadratic: one without a linear part.
  double quadratic_growth(std::size_t i, std::size_t k, double b) const noexcept {
    point const& p = points_[i];
    point const& q = points_[k];
    double const rise = q.bytes - p.bytes + p.tolerance + q.tolerance;
    double const share = (b * b - q.batch * q.batch) / (q.batch * q.batch - p.batch * p.batch);
    return q.bytes + q.tolerance + (rise > 0.0 ? rise * share : 0.0);
  }

  double bound_within(double b) const noexcept {
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

  double bound_above(double b) const noexcept {
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

  static double magnitude(double value) noexcept { return value < 0.0 ? -value : value; }
  static void lower(double& bound, double other) noexcept {
    if (other < bound) bound = other;
  }

  std::vector<point> points_;  // ascending, each size once
  std::size_t first_ = 0;      // the first point that the shape describes
  std::size_t rise_ = 0;       // of a convex shape: the last point before it grows visibly
  double granule_ = 0.0;
  double relative_ = 0.0;
  double scale_ = 1.0;
  double base_ = 0.0;
  double slope_ = 0.0;
  memory_shape shape_ = memory_shape::unknown;
  bool parabola_ = false;  // convex, and no slower than a parabola
  bool tested_ = false;    // the shape could have been refuted
};

WARPWRIGHT_END
