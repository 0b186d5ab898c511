// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An axis of a chart: where a value is drawn, and which values are labelled.
#pragma once

#include <warpwright/core/detail/text/string_builder.hpp>

#include <cmath>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

// Axis labels: 1500000 -> "1.5 M", or in KiB, MiB, ...
template <typename Text = string_builder>
WARPWRIGHT_COLD Text format_tick(double value, bool binary) {
  constexpr char const* decimal_units[] = {"", " k", " M", " G", " T", " P", " E"};
  constexpr char const* binary_units[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  if (value == 0.0) return "0";
  double const base = binary ? 1024.0 : 1000.0;
  int unit = 0;
  for (; value >= base * 0.9999 && unit < 6; ++unit) value /= base;
  return format_number("%.4g", value) + (binary ? binary_units : decimal_units)[unit];
}

template <typename Text = string_builder>
WARPWRIGHT_COLD Text format_tick_seconds(double seconds) {
  if (seconds < 0.9999e-6) return format_number("%.3g ns", seconds * 1e9);
  if (seconds < 0.9999e-3) return format_number("%.3g us", seconds * 1e6);
  if (seconds < 0.9999) return format_number("%.3g ms", seconds * 1e3);
  return format_number("%.3g s", seconds);
}

enum class plot_scale {
  linear,        // from 0, decimal steps
  linear_bytes,  // from 0, steps that are powers of two
  decades,       // logarithmic
  doublings,     // logarithmic, whole numbers
};

// Whether a value can be drawn on any scale: a logarithmic one has no zero, which a coarse clock
// may measure.
inline bool can_be_drawn(double value) noexcept { return value > 1e-250 && value < 1e250; }

// Real is double. A template, so that a file which only includes the header does not compile it.
template <typename Real>
class plot_axis {
 public:
  plot_axis() = default;
  // @param low, high  the values shown; can_be_drawn()
  // @param begin, end  the positions of the axis's ends, of which `end` has the larger values
  WARPWRIGHT_COLD plot_axis(plot_scale scale, Real low, Real high, Real begin, Real end)
      : scale_{scale}, first_{low}, last_{high}, begin_{begin}, end_{end} {
    if (scale == plot_scale::decades) {
      low_ = std::log10(low) - 0.08;
      high_ = std::log10(high) + 0.12;
    } else if (scale == plot_scale::doublings) {
      low_ = std::log2(low);
      high_ = std::log2(high);
      if (!(high_ - low_ > 0.5)) {  // a single size is centred
        low_ -= 1.0;
        high_ += 1.0;
      }
    } else {
      low_ = 0.0;
      high_ = high * 1.12;
    }
  }

  // The position of a value; of one outside, the end's.
  [[nodiscard]] WARPWRIGHT_COLD Real at(Real value) const {
    Real share = (transformed(value) - low_) / (high_ - low_);
    if (!(share > 0.0)) share = 0.0;
    if (share > 1.0) share = 1.0;
    return begin_ * (1.0 - share) + end_ * share;
  }

  // The values to label, such that their positions differ by `spacing` at least.
  [[nodiscard]] WARPWRIGHT_COLD std::vector<Real> ticks(Real spacing) const {
    Real const length = end_ > begin_ ? end_ - begin_ : begin_ - end_;
    Real const unit = length / (high_ - low_);
    if (scale_ == plot_scale::doublings) return doubling_ticks(spacing, unit);
    if (scale_ == plot_scale::decades) return decade_ticks(spacing, unit);
    std::vector<Real> ticks;
    Real const wanted = high_ / 5.0;
    Real const least = spacing / unit > wanted ? spacing / unit : wanted;
    Real const step =
        scale_ == plot_scale::linear_bytes ? std::exp2(std::ceil(std::log2(least))) : nice(least);
    for (int i = 0; i * step <= high_; ++i) ticks.push_back(i * step);
    return ticks;
  }

 private:
  [[nodiscard]] Real transformed(Real value) const {
    if (scale_ == plot_scale::decades) return std::log10(value);
    return scale_ == plot_scale::doublings ? std::log2(value) : value;
  }

  // The two ends of what is shown, where the round values are too far apart.
  [[nodiscard]] std::vector<Real> ends(Real spacing) const {
    Real const distance = at(last_) - at(first_);
    if ((distance < 0.0 ? -distance : distance) < spacing) return {last_};
    return {first_, last_};
  }

  [[nodiscard]] WARPWRIGHT_COLD std::vector<Real> doubling_ticks(Real spacing, Real unit) const {
    std::vector<Real> ticks;
    int const step = spacing > unit ? static_cast<int>(std::ceil(spacing / unit)) : 1;
    Real const lowest = low_ > 0.0 ? low_ : 0.0;
    for (int power = static_cast<int>(std::ceil(lowest - 1e-9)); power <= high_ + 1e-9;
         power += step) {
      ticks.push_back(std::exp2(power));
    }
    return ticks.size() < 2 ? ends(spacing) : ticks;
  }

  [[nodiscard]] WARPWRIGHT_COLD std::vector<Real> decade_ticks(Real spacing, Real unit) const {
    std::vector<Real> ticks;
    bool const fine = 0.3 * unit >= spacing;
    int const step = spacing > unit ? static_cast<int>(std::ceil(spacing / unit)) : 1;
    for (int power = static_cast<int>(std::floor(low_)); power <= high_; ++power) {
      if (power % step != 0) continue;
      for (Real const digit : {1.0, 2.0, 5.0}) {
        Real const at = power + std::log10(digit);
        if (at < low_ || at > high_ || (!fine && digit > 1.0)) continue;
        ticks.push_back(std::pow(10.0, at));
      }
    }
    return ticks.size() < 2 ? ends(spacing) : ticks;
  }

  // Rounds up to 1, 2, 2.5 or 5 times a power of ten.
  WARPWRIGHT_COLD static Real nice(Real least) {
    Real const power = std::pow(10.0, std::floor(std::log10(least)));
    for (Real const digit : {1.0, 2.0, 2.5, 5.0}) {
      if (digit * power >= least) return digit * power;
    }
    return 10.0 * power;
  }

  plot_scale scale_ = plot_scale::linear;
  Real first_ = 0.0;
  Real last_ = 1.0;
  Real begin_ = 0.0;
  Real end_ = 1.0;
  Real low_ = 0.0;
  Real high_ = 1.0;
};

}  // namespace detail

WARPWRIGHT_END
