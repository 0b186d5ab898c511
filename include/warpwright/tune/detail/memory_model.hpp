// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>
#include <initializer_list>
#include <vector>

WARPWRIGHT_BEGIN

/// Pass this to a tuner that does not measure the workload's memory.
struct no_memory_probe {};

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
char const* to_string(memory_shape shape) noexcept;

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
  [[nodiscard]] WARPWRIGHT_COLD_ENTRY static memory_model fit(
      Points const& points, std::size_t granule_bytes = 0, double rounding = 0.0,
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
  [[nodiscard]] std::size_t points_needed() const noexcept;
  /// @return the intercept of the line nearest to the points, in bytes
  [[nodiscard]] double base_bytes() const noexcept { return base_; }
  /// @return the slope of that line, in bytes, not negative
  [[nodiscard]] double bytes_per_item() const noexcept { return slope_; }

  /// Whether predict() can be relied on: the points passed their test, grow by more than their
  /// tolerance hides, and the size is at most twice the largest measured one.
  /// @param batch  items
  [[nodiscard]] bool knows(std::size_t batch) const noexcept;

  /// The most likely peak memory, without a margin.
  /// @param batch  items
  /// @return bytes; of a convex model interpolated; 0 without points
  [[nodiscard]] double estimate(std::size_t batch) const noexcept;

  /// The peak memory that a size may need: an upper bound, which includes the margin.
  ///
  /// Where knows() is false it is a pessimistic guess: with two points the parabola of no linear
  /// part through them, and 5 % on each reading; of irregular points the steepest of the growths.
  ///
  /// @param batch  items
  /// @return bytes; infinity without points
  ///
  /// **Cost:** O(n^2) above the measured sizes, O(n) among them.
  [[nodiscard]] double predict(std::size_t batch) const noexcept;

  /// The largest size whose prediction is reliable and within a limit.
  /// @param limit_bytes  the memory that there is
  /// @return items, at most twice the largest size measured; 0: no size is known to fit
  /// **Cost:** some 60 predictions.
  [[nodiscard]] std::size_t largest_within(std::size_t limit_bytes) const noexcept;

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

  void insert(memory_point const& added, source_location where);
  void choose_granule(std::size_t given) noexcept;

  double tolerance(double bytes) const noexcept;
  void set_tolerances(double scale) noexcept;

  // How far points from `first` on are from any line, in tolerances, and whether below or above.
  struct misfit {
    double convex = 0.0;
    double concave = 0.0;
    double largest() const noexcept { return convex > concave ? convex : concave; }
  };
  misfit line_misfit(std::size_t first) const noexcept;
  // The same for a parabola: convex is faster growth than a parabola's.
  misfit parabola_misfit(std::size_t first) const noexcept;

  void choose_shape() noexcept;

  bool shape_from(std::size_t first) noexcept;

  // Least squares, weighted by the tolerances.
  void fit_line() noexcept;

  double line(double b) const noexcept;

  bool rises(std::size_t i) const noexcept;
  // Growth below the tolerance may be the first rise above a least reservation.
  bool grows() const noexcept;

  std::size_t at_or_above(double b) const noexcept;

  // The line through two points, and how far it may be off. `margin` multiplies that: 0 leaves it
  // out.
  double chord_tolerance(std::size_t i, std::size_t k, double b) const noexcept;
  double chord(std::size_t i, std::size_t k, double b, double margin) const noexcept;

  // The parabola through three points at b; Lagrange's weights also bound its error.
  double interpolate(std::size_t i, std::size_t j, std::size_t k, double b,
                     double margin) const noexcept;

  // The steepest curve through two points that is at most quadratic: one without a linear part.
  double quadratic_growth(std::size_t i, std::size_t k, double b) const noexcept;

  double bound_within(double b) const noexcept;

  double bound_above(double b) const noexcept;

  static double magnitude(double value) noexcept { return value < 0.0 ? -value : value; }
  static void lower(double& bound, double other) noexcept;

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

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/memory_model_definitions.hpp>
#endif
