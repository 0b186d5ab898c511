// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Line charts, stacked over one logarithmic x axis, as SVG.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/tune/tune_result.hpp>

#include <cmath>
#include <initializer_list>

WARPWRIGHT_BEGIN

namespace detail {

// Replaces bytes that are not UTF-8 by '?': the text of an exception may hold any bytes.
inline std::string valid_utf8(std::string const& text) {
  std::string valid;
  for (std::size_t i = 0; i < text.size();) {
    auto const lead = static_cast<unsigned char>(text[i]);
    std::size_t const length = lead < 0x80                    ? 1
                               : lead >= 0xC2 && lead <= 0xDF ? 2
                               : lead >= 0xE0 && lead <= 0xEF ? 3
                               : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                              : 0;
    bool good = length > 0 && i + length <= text.size();
    for (std::size_t k = 1; good && k < length; ++k) {
      auto const byte = static_cast<unsigned char>(text[i + k]);
      good = byte >= 0x80 && byte <= 0xBF;
      // Overlong encodings, surrogates and code points above U+10FFFF.
      if (k == 1 && ((lead == 0xE0 && byte < 0xA0) || (lead == 0xED && byte > 0x9F) ||
                     (lead == 0xF0 && byte < 0x90) || (lead == 0xF4 && byte > 0x8F))) {
        good = false;
      }
    }
    if (good) {
      valid.append(text, i, length);
      i += length;
    } else {
      valid += '?';
      ++i;
    }
  }
  return valid;
}

inline string_builder xml_text(string_builder const& text) {
  string_builder escaped;
  for (char const c : valid_utf8(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        // XML cannot represent the other control characters.
        escaped += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return escaped;
}

// Axis labels: 1500000 -> "1.5 M", or in KiB, MiB, ...
inline string_builder format_tick(double value, bool binary) {
  constexpr char const* decimal_units[] = {"", " k", " M", " G", " T"};
  constexpr char const* binary_units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  if (value == 0.0) return "0";
  double const base = binary ? 1024.0 : 1000.0;
  int unit = 0;
  while (value >= base * 0.9999 && unit < 4) {
    value /= base;
    ++unit;
  }
  return format_number("%.4g", value) + (binary ? binary_units : decimal_units)[unit];
}

inline string_builder format_tick_seconds(double seconds) {
  if (seconds < 0.9999e-6) return format_number("%.3g ns", seconds * 1e9);
  if (seconds < 0.9999e-3) return format_number("%.3g us", seconds * 1e6);
  if (seconds < 0.9999) return format_number("%.3g ms", seconds * 1e3);
  return format_number("%.3g s", seconds);
}

struct plot_point {
  double x;
  double y;
  bool filled;  // false: an outlined marker
};

enum class plot_scale { linear, linear_bytes, logarithmic };

struct plot_style {
  static constexpr char const* blue = "#1f6fb2";
  static constexpr char const* orange = "#d9730d";
  static constexpr char const* green = "#2e8540";
  static constexpr char const* red = "#c0262d";
  static constexpr char const* foreground = "#24292f";
  static constexpr char const* muted = "#57606a";
  static constexpr char const* grid = "#e3e7eb";
};

// Point is plot_point. This is a template, so that a file which only includes the header does not
// compile it.
template <typename Point>
class plot {
 public:
  plot(double first_x, double last_x, int panels)
      : low_x_{std::log2(first_x)},
        high_x_{std::log2(last_x)},
        height_{top + panels * (panel_height + gap) - gap + bottom} {
    if (!(high_x_ - low_x_ > 0.5)) {  // a single size is centred
      low_x_ -= 1.0;
      high_x_ += 1.0;
    }
  }

  void heading(string_builder const& title, string_builder const& subtitle,
               string_builder const& description) {
    head_ = "<title>" + xml_text(title) + "</title>\n<desc>" + xml_text(description) + "</desc>\n";
    text(left, 28, "start", "font-size=\"17\" font-weight=\"600\"", plot_style::foreground, title);
    text(left, 49, "start", "font-size=\"13\"", plot_style::muted, subtitle);
  }

  void mark_x(double x) {
    marked_ = true;
    marked_x_ = x;
  }

  void begin_panel(string_builder const& name, plot_scale scale, string_builder (*label)(double),
                   std::initializer_list<array<Point> const*> series, double reference) {
    flush_legend();
    panel_top_ = panel_ == 0 ? top : panel_top_ + panel_height + gap;
    ++panel_;
    scale_ = scale;
    fit_range(series, reference);
    text(left, panel_top_ - 9, "start", "font-size=\"12.5\" font-weight=\"600\"",
         plot_style::foreground, name);
    for (double const value : y_ticks()) {
      double const y = y_of(value);
      line_element(left, y, right, y, plot_style::grid, "");
      text(left - 8, y + 4, "end", "font-size=\"11.5\"", plot_style::muted, label(value));
    }
    for (int power = static_cast<int>(std::ceil(low_x_ - 1e-9)); power <= high_x_ + 1e-9; ++power) {
      double const x = x_of(std::exp2(power));
      line_element(x, panel_top_, x, panel_bottom(), plot_style::grid, "");
    }
    line_element(left, panel_bottom(), right, panel_bottom(), plot_style::muted, "");
    if (marked_) {
      double const x = x_of(marked_x_);
      line_element(x, panel_top_, x, panel_bottom(), plot_style::foreground,
                   " stroke-width=\"1.4\" stroke-dasharray=\"5 3\"");
    }
  }

  // A line with markers; names that are not empty appear in the legend.
  void line(array<Point> const& points, char const* color, string_builder const& name,
            string_builder const& outlined_name) {
    string_builder path;
    for (Point const& p : points) {
      path += (path.empty() ? "M" : "L") + coordinates(x_of(p.x), y_of(p.y));
    }
    if (points.size() > 1) {
      body_ += "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + color +
               "\" stroke-width=\"1.8\" stroke-linejoin=\"round\"/>\n";
    }
    bool any_outlined = false;
    for (Point const& p : points) {
      bool const chosen = marked_ && p.x == marked_x_;
      any_outlined = any_outlined || !p.filled;
      circle(x_of(p.x), y_of(p.y), chosen ? "5.5" : "3.2", p.filled ? color : "#ffffff",
             chosen ? plot_style::foreground : color, chosen ? "1.8" : "1.4");
    }
    if (!name.empty()) legend(name, color, filled_circle);
    if (any_outlined && !outlined_name.empty()) legend(outlined_name, color, outlined_circle);
  }

  // Sizes without a value: crosses at the bottom of the panel.
  void crosses(std::vector<double> const& xs, string_builder const& name) {
    for (double const x : xs) cross(x_of(x), panel_bottom() - 7, plot_style::red);
    if (!xs.empty()) legend(name, plot_style::red, cross_mark);
  }

  void reference_line(double value, string_builder const& name) {
    bool const above = !reference_in_range_;
    double const y = above ? panel_top_ + 16 : y_of(value);
    if (!above) line_element(left, y, right, y, plot_style::red, " stroke-width=\"1.4\"");
    text(left + 6, y - 5, "start", "font-size=\"11.5\"", plot_style::red,
         above ? name + ", above the chart" : name);
  }

  string_builder finish(string_builder const& x_name) {
    flush_legend();
    double const spacing = (right - left) / (high_x_ - low_x_);
    int const step = spacing < 44.0 ? static_cast<int>(std::ceil(44.0 / spacing)) : 1;
    for (int power = static_cast<int>(std::ceil(low_x_ - 1e-9)); power <= high_x_ + 1e-9;
         power += step) {
      if (power < 0) continue;
      text(x_of(std::exp2(power)), panel_bottom() + 17, "middle", "font-size=\"11.5\"",
           plot_style::muted, format_number("%.0f", std::exp2(power)));
    }
    text(0.5 * (left + right), panel_bottom() + 38, "middle", "font-size=\"12.5\"",
         plot_style::muted, x_name);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 " + number(width) +
           " " + number(height_) + "\" width=\"" + number(width) + "\" height=\"" +
           number(height_) +
           "\" font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n" + head_ +
           "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" + body_ + "</svg>\n";
  }

 private:
  static constexpr double width = 760;
  static constexpr double left = 84;
  static constexpr double right = 736;
  static constexpr double top = 92;
  static constexpr double panel_height = 150;
  static constexpr double gap = 38;
  static constexpr double bottom = 52;

  static string_builder number(double value) { return format_number("%.6g", value); }
  static string_builder coordinates(double x, double y) {
    return format_number("%.1f", x) + " " + format_number("%.1f", y);
  }

  double panel_bottom() const { return panel_top_ + panel_height; }

  double x_of(double x) const {
    return left + 14 + (right - left - 28) * (std::log2(x) - low_x_) / (high_x_ - low_x_);
  }

  double y_of(double y) const {
    double const value = scale_ == plot_scale::logarithmic ? std::log10(y) : y;
    return panel_bottom() - panel_height * (value - low_y_) / (high_y_ - low_y_);
  }

  // Fits the y axis to the series, and to the reference line unless that is so far above the series
  // that they would be flat.
  void fit_range(std::initializer_list<array<Point> const*> series, double reference) {
    double low = 0.0;
    double high = 0.0;
    for (auto const* points : series) {
      for (Point const& p : *points) {
        if (p.y > high) high = p.y;
        if (p.y > 0.0 && (low == 0.0 || p.y < low)) low = p.y;
      }
    }
    reference_in_range_ =
        high == 0.0 || reference <= high * (scale_ == plot_scale::logarithmic ? 20.0 : 3.0);
    if (reference > high && reference_in_range_) high = reference;
    if (reference > 0.0 && (low == 0.0 || reference < low)) low = reference;
    if (!(high > 0.0)) low = high = 1.0;
    if (scale_ == plot_scale::logarithmic) {
      low_y_ = std::log10(low) - 0.08;
      high_y_ = std::log10(high) + 0.12;
    } else {
      low_y_ = 0.0;
      high_y_ = high * 1.12;
    }
  }

  std::vector<double> y_ticks() const {
    std::vector<double> ticks;
    if (scale_ == plot_scale::logarithmic) {
      bool const fine = high_y_ - low_y_ < 2.3;
      for (int power = static_cast<int>(std::floor(low_y_)); power <= high_y_; ++power) {
        for (double const digit : {1.0, 2.0, 5.0}) {
          double const at = power + std::log10(digit);
          if (at < low_y_ || at > high_y_ || (!fine && digit > 1.0)) continue;
          ticks.push_back(std::pow(10.0, at));
        }
      }
      // No two ticks fit: label the ends of the range.
      if (ticks.size() < 2) {
        ticks = {std::pow(10.0, low_y_ + 0.08), std::pow(10.0, high_y_ - 0.12)};
      }
      return ticks;
    }
    double const step = scale_ == plot_scale::linear_bytes ? binary_step(high_y_ / 4.5)
                                                           : decimal_step(high_y_ / 4.5);
    for (double value = 0.0; value <= high_y_; value += step) ticks.push_back(value);
    return ticks;
  }

  // Rounds a tick step up to 1, 2 or 5 times a power of ten, or to a power of two.
  static double decimal_step(double least) {
    double const power = std::pow(10.0, std::floor(std::log10(least)));
    for (double const digit : {1.0, 2.0, 5.0}) {
      if (digit * power >= least) return digit * power;
    }
    return 10.0 * power;
  }
  static double binary_step(double least) { return std::exp2(std::ceil(std::log2(least))); }

  // The legend's markers are glyphs of one right-aligned text, which needs no font metrics.
  static constexpr char const* filled_circle = "\xE2\x97\x8F";
  static constexpr char const* outlined_circle = "\xE2\x97\x8B";
  static constexpr char const* cross_mark = "\xC3\x97";

  void legend(string_builder const& name, char const* color, char const* mark) {
    if (!legend_.empty()) legend_ += "&#160;&#160;&#160;&#160;";
    legend_ += "<tspan fill=\"" + string_builder{color} + "\" font-weight=\"700\">" + mark +
               "</tspan>&#160;" + xml_text(name);
  }

  void flush_legend() {
    if (legend_.empty()) return;
    text_element(right, panel_top_ - 9, "end", "font-size=\"11.5\"", plot_style::muted, legend_);
    legend_.clear();
  }

  void circle(double x, double y, char const* radius, char const* fill, char const* stroke,
              char const* stroke_width) {
    body_ += "<circle cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"" + radius +
             "\" fill=\"" + fill + "\" stroke=\"" + stroke + "\" stroke-width=\"" + stroke_width +
             "\"/>\n";
  }

  void cross(double x, double y, char const* color) {
    body_ += "<path d=\"M" + coordinates(x - 4, y - 4) + "L" + coordinates(x + 4, y + 4) + "M" +
             coordinates(x - 4, y + 4) + "L" + coordinates(x + 4, y - 4) + "\" stroke=\"" + color +
             "\" stroke-width=\"1.8\"/>\n";
  }

  void text(double x, double y, char const* anchor, char const* style, char const* color,
            string_builder const& content) {
    text_element(x, y, anchor, style, color, xml_text(content));
  }

  void text_element(double x, double y, char const* anchor, char const* style, char const* color,
                    string_builder const& markup) {
    body_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor +
             "\" fill=\"" + color + "\" " + style + ">" + markup + "</text>\n";
  }

  void line_element(double x1, double y1, double x2, double y2, char const* color,
                    char const* style) {
    body_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
             "\" y2=\"" + number(y2) + "\" stroke=\"" + color + "\"" + style + "/>\n";
  }

  double low_x_;
  double high_x_;
  double height_;
  double panel_top_ = 0.0;
  double low_y_ = 0.0;
  double high_y_ = 1.0;
  double marked_x_ = 0.0;
  int panel_ = 0;
  bool marked_ = false;
  bool reference_in_range_ = true;
  plot_scale scale_ = plot_scale::linear;
  string_builder head_;
  string_builder body_;
  string_builder legend_;
};

}  // namespace detail

WARPWRIGHT_END
