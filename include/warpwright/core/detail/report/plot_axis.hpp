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
WARPWRIGHT_COLD inline string_builder format_tick(double value, bool binary) {
  constexpr char const* decimal_units[] = {"", " k", " M", " G", " T", " P", " E"};
  constexpr char const* binary_units[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  if (value == 0.0) return "0";
  double const base = binary ? 1024.0 : 1000.0;
  int unit = 0;
  for (; value >= base * 0.9999 && unit < 6; ++unit) value /= base;
  return format_number("%.4g", value) + (binary ? binary_units : decimal_units)[unit];
}

WARPWRIGHT_COLD inline string_builder format_tick_seconds(double seconds) {
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

class plot_axis {
 public:
  plot_axis() = default;
  // @param low, high  the values shown; can_be_drawn()
  // @param begin, end  the positions of the axis's ends, of which `end` has the larger values
  WARPWRIGHT_COLD plot_axis(plot_scale scale, double low, double high, double begin, double end)
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
  [[nodiscard]] WARPWRIGHT_COLD double at(double value) const {
    double share = (transformed(value) - low_) / (high_ - low_);
    if (!(share > 0.0)) share = 0.0;
    if (share > 1.0) share = 1.0;
    return begin_ * (1.0 - share) + end_ * share;
  }

  // The values to label, such that their positions differ by `spacing` at least.
  [[nodiscard]] WARPWRIGHT_COLD std::vector<double> ticks(double spacing) const {
    double const length = end_ > begin_ ? end_ - begin_ : begin_ - end_;
    double const unit = length / (high_ - low_);
    if (scale_ == plot_scale::doublings) return doubling_ticks(spacing, unit);
    if (scale_ == plot_scale::decades) return decade_ticks(spacing, unit);
    std::vector<double> ticks;
    double const wanted = high_ / 5.0;
    double const least = spacing / unit > wanted ? spacing / unit : wanted;
    double const step =
        scale_ == plot_scale::linear_bytes ? std::exp2(std::ceil(std::log2(least))) : nice(least);
    for (int i = 0; i * step <= high_; ++i) ticks.push_back(i * step);
    return ticks;
  }

 private:
  [[nodiscard]] double transformed(double value) const {
    if (scale_ == plot_scale::decades) return std::log10(value);
    return scale_ == plot_scale::doublings ? std::log2(value) : value;
  }

  // The two ends of what is shown, where the round values are too far apart.
  [[nodiscard]] std::vector<double> ends(double spacing) const {
    double const distance = at(last_) - at(first_);
    if ((distance < 0.0 ? -distance : distance) < spacing) return {last_};
    return {first_, last_};
  }

  [[nodiscard]] WARPWRIGHT_COLD std::vector<double> doubling_ticks(double spacing,
                                                                   double unit) const {
    std::vector<double> ticks;
    int const step = spacing > unit ? static_cast<int>(std::ceil(spacing / unit)) : 1;
    double const lowest = low_ > 0.0 ? low_ : 0.0;
    for (int power = static_cast<int>(std::ceil(lowest - 1e-9)); power <= high_ + 1e-9;
         power += step) {
      ticks.push_back(std::exp2(power));
    }
    return ticks.size() < 2 ? ends(spacing) : ticks;
  }

  [[nodiscard]] WARPWRIGHT_COLD std::vector<double> decade_ticks(double spacing,
                                                                 double unit) const {
    std::vector<double> ticks;
    bool const fine = 0.3 * unit >= spacing;
    int const step = spacing > unit ? static_cast<int>(std::ceil(spacing / unit)) : 1;
    for (int power = static_cast<int>(std::floor(low_)); power <= high_; ++power) {
      if (power % step != 0) continue;
      for (double const digit : {1.0, 2.0, 5.0}) {
        double const at = power + std::log10(digit);
        if (at < low_ || at > high_ || (!fine && digit > 1.0)) continue;
        ticks.push_back(std::pow(10.0, at));
      }
    }
    return ticks.size() < 2 ? ends(spacing) : ticks;
  }

  // Rounds up to 1, 2, 2.5 or 5 times a power of ten.
  WARPWRIGHT_COLD static double nice(double least) {
    double const power = std::pow(10.0, std::floor(std::log10(least)));
    for (double const digit : {1.0, 2.0, 2.5, 5.0}) {
      if (digit * power >= least) return digit * power;
    }
    return 10.0 * power;
  }

  plot_scale scale_ = plot_scale::linear;
  double first_ = 0.0;
  double last_ = 1.0;
  double begin_ = 0.0;
  double end_ = 1.0;
  double low_ = 0.0;
  double high_ = 1.0;
};

}  // namespace detail

WARPWRIGHT_END
