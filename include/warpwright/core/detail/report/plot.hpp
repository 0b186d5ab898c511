// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Line charts, stacked over one x axis, as SVG.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/report/plot_axis.hpp>
#include <warpwright/core/detail/text/markup.hpp>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

struct plot_point {
  double x;
  double y;
  double low;  // the error bar's ends; both y: none
  double high;
  bool filled;  // false: an outlined marker
};

struct plot_style {
  static constexpr char const* blue = "#1f6fb2";
  static constexpr char const* orange = "#b85c00";
  static constexpr char const* green = "#2e8540";
  static constexpr char const* red = "#c0262d";
  static constexpr char const* foreground = "#24292f";
  static constexpr char const* muted = "#57606a";
  static constexpr char const* grid = "#e3e7eb";
  static constexpr char const* background = "#ffffff";
};

// A marker: drawn, and as a glyph of a legend, which needs no font metrics.
enum class plot_mark { filled, outlined, square, triangle, cross, plus, band, bar, dashes };

WARPWRIGHT_COLD inline char const* glyph_of(plot_mark mark) noexcept {
  constexpr char const* glyphs[] = {"\xE2\x97\x8F", "\xE2\x97\x8B", "\xE2\x96\xA1",
                                    "\xE2\x96\xB3", "\xC3\x97",     "+",
                                    "\xE2\x96\xAC", "\xE2\x94\x82", "- -"};
  return glyphs[static_cast<int>(mark)];
}

struct legend_entry {
  char const* color;
  plot_mark mark;
  std::string name;
};

// Sizes of a chart; the defaults are those of to_svg().
struct plot_layout {
  double width = 760;
  double left = 84;
  double right = 736;
  double top = 122;
  double panel_height = 150;
  double gap = 68;
  double bottom = 52;
  double font = 11.5;
  bool standalone = true;  // false: within a page, which shows the names of panels and legends
};

class plot {
 public:
  plot(plot_layout const& layout, double first_x, double last_x, int panels,
       plot_scale x_scale = plot_scale::doublings,
       string_builder (*x_label)(double) = &whole_number)
      : layout_{layout},
        largest_x_{last_x},
        x_{x_scale, first_x, last_x, layout.left + 14, layout.right - 14},
        x_label_{x_label},
        height_{layout.top + panels * (layout.panel_height + layout.gap) - layout.gap +
                layout.bottom} {}

  void describe(string_builder const& title, string_builder const& description) {
    head_ = "<title>" + xml_text(title) + "</title>\n<desc>" + xml_text(description) + "</desc>\n";
  }
  void heading(string_builder const& title, string_builder const& subtitle) {
    text(layout_.left, 28, "start", 17, plot_style::foreground, title, true);
    text(layout_.left, 49, "start", 13, plot_style::muted, subtitle);
  }

  // A dashed line in all panels that follow; a label stands above the first.
  void mark_x(double x, string_builder const& label) {
    marked_ = true;
    marked_x_ = x;
    mark_label_ = label;
  }

  WARPWRIGHT_COLD void begin_panel(string_builder const& name, plot_scale scale,
                                   string_builder (*label)(double),
                                   std::initializer_list<array<plot_point> const*> series,
                                   double reference) {
    flush_legend();
    top_ = panel_ == 0 ? layout_.top : top_ + layout_.panel_height + layout_.gap;
    ++panel_;
    fit_range(scale, series, reference);
    name_ = name;
    for (double const value : y_.ticks(layout_.font + 4.0)) {
      double const y = y_.at(value);
      line_element(layout_.left, y, layout_.right, y, plot_style::grid, "");
      text(layout_.left - 8, y + 0.35 * layout_.font, "end", layout_.font, plot_style::muted,
           label(value));
    }
    for (double const value : x_ticks()) {
      line_element(x_.at(value), top_, x_.at(value), bottom(), plot_style::grid, "");
    }
    line_element(layout_.left, bottom(), layout_.right, bottom(), plot_style::muted, "");
    if (marked_) {
      double const x = x_.at(marked_x_);
      line_element(x, top_, x, bottom(), plot_style::foreground,
                   " stroke-width=\"1.4\" stroke-dasharray=\"5 3\"");
      if (panel_ == 1 && !mark_label_.empty()) label_mark(x);
    }
  }

  // Everything between two values.
  WARPWRIGHT_COLD void band(double low, double high, char const* color,
                            string_builder const& name) {
    double const y = y_.at(high);
    body_ += "<rect x=\"" + number(layout_.left) + "\" y=\"" + number(y) + "\" width=\"" +
             number(layout_.right - layout_.left) + "\" height=\"" + number(y_.at(low) - y) +
             "\" fill=\"" + color + "\" fill-opacity=\"0.16\"/>\n";
    legend(color, plot_mark::band, name);
  }

  // A line with markers and error bars; names that are not empty appear in the legend.
  WARPWRIGHT_COLD void line(array<plot_point> const& points, char const* color,
                            string_builder const& name, string_builder const& outlined_name) {
    path(points, color, " stroke-width=\"1.8\"");
    bool any_outlined = false;
    bool any_filled = false;
    bool any_bar = false;
    for (plot_point const& p : points) {
      double const x = x_.at(p.x);
      bool const chosen = marked_ && p.x == marked_x_;
      (p.filled ? any_filled : any_outlined) = true;
      if (p.low < p.high) {
        any_bar = true;
        line_element(x, y_.at(p.low), x, y_.at(p.high), color, " stroke-width=\"1.2\"");
      }
      circle(x, y_.at(p.y), chosen ? "5.5" : "3.2", p.filled ? color : plot_style::background,
             chosen ? plot_style::foreground : color, chosen ? "1.8" : "1.4");
    }
    if (any_bar) legend(color, plot_mark::bar, "interval");
    if (any_filled && !name.empty()) legend(color, plot_mark::filled, name);
    if (any_outlined && !outlined_name.empty()) legend(color, plot_mark::outlined, outlined_name);
  }

  // A marker with its name beside it.
  WARPWRIGHT_COLD void point(double x, double y, char const* color, string_builder const& name) {
    double const width = 2.0 * half_width(name);
    bool const left = x_.at(x) + 9.0 + width > layout_.right;
    circle(x_.at(x), y_.at(y), "4.5", color, plot_style::background, "1.4");
    text(x_.at(x) + (left ? -9.0 : 9.0), y_.at(y) + 0.35 * layout_.font, left ? "end" : "start",
         layout_.font, plot_style::foreground, name, false, true);
  }

  // A dashed line without markers.
  void curve(array<plot_point> const& points, char const* color, string_builder const& name) {
    if (points.size() < 2) return;
    path(points, color, " stroke-width=\"1.2\" stroke-dasharray=\"4 3\"");
    legend(color, plot_mark::dashes, name);
  }

  // Sizes of one kind, at the bottom of the panel.
  WARPWRIGHT_COLD void marks(std::vector<double> const& xs, plot_mark mark,
                             string_builder const& name) {
    for (double const x : xs) {
      mark_element(x_.at(x), bottom() - 7, mark, plot_style::red);
    }
    if (!xs.empty()) legend(plot_style::red, mark, name);
  }

  WARPWRIGHT_COLD void reference_line(double value, string_builder const& name) {
    bool const above = !reference_in_range_;
    double const y = above ? top_ : y_.at(value);
    if (!above) {
      line_element(layout_.left, y, layout_.right, y, plot_style::red, " stroke-width=\"1.4\"");
    }
    // Above the line, unless the label would leave the panel.
    bool const below = y - top_ < layout_.font + 6;
    text(layout_.left + 6, below ? y + layout_.font + 3 : y - 5, "start", layout_.font,
         plot_style::red, above ? name + ", above the chart" : name, false, true);
  }

  // Of the panel that was begun last.
  [[nodiscard]] std::vector<legend_entry> const& legends() const noexcept { return legend_; }

  WARPWRIGHT_COLD string_builder finish(string_builder const& x_name) {
    flush_legend();
    for (double const value : x_ticks()) {
      string_builder const label = x_label_(value);
      double const most = layout_.width - half_width(label) - 1.0;
      double const x = x_.at(value);
      text(x < most ? x : most, bottom() + layout_.font + 5.5, "middle", layout_.font,
           plot_style::muted, label);
    }
    text(0.5 * (layout_.left + layout_.right), bottom() + 2 * layout_.font + 15, "middle",
         layout_.font + 1, plot_style::muted, x_name);
    string_builder const size = number(layout_.width) + " " + number(height_);
    string_builder svg = "<svg ";
    if (layout_.standalone) {
      svg += "xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(layout_.width) +
             "\" height=\"" + number(height_) +
             "\" font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" ";
    }
    svg += "role=\"img\" viewBox=\"0 0 " + size + "\">\n" + head_;
    return svg + "<rect width=\"100%\" height=\"100%\" fill=\"" + plot_style::background +
           "\"/>\n" + body_ + "</svg>\n";
  }

 private:
  static string_builder whole_number(double value) { return format_number("%.0f", value); }
  static string_builder number(double value) { return format_number("%.6g", value); }
  static string_builder coordinates(double x, double y) {
    return format_number("%.1f", x) + " " + format_number("%.1f", y);
  }

  double bottom() const { return top_ + layout_.panel_height; }

  std::vector<double> x_ticks() const {
    return x_.ticks(2.0 * half_width(x_label_(largest_x_)) + layout_.font);
  }

  // Half of the width of a label, as wide as fonts make it.
  double half_width(string_builder const& label) const {
    return 0.31 * layout_.font * static_cast<double>(label.size());
  }

  // Fits the y axis to the series, and to the reference line unless that is so far above the series
  // that they would be flat.
  WARPWRIGHT_COLD void fit_range(plot_scale scale,
                                 std::initializer_list<array<plot_point> const*> series,
                                 double reference) {
    double low = 0.0;
    double high = 0.0;
    for (auto const* points : series) {
      for (plot_point const& p : *points) {
        // A wide interval must not flatten the line, either.
        double const top = p.high < 1.5 * p.y ? p.high : 1.5 * p.y;
        if (top > high) high = top;
        if (low == 0.0 || p.y < low) low = p.y;
      }
    }
    bool const drawn = can_be_drawn(reference);
    double const factor = scale == plot_scale::decades ? 20.0 : 3.0;
    reference_in_range_ = drawn && (high == 0.0 || reference <= high * factor);
    if (reference_in_range_) {
      if (reference > high) high = reference;
      if (low == 0.0 || reference < low) low = reference;
    }
    if (high == 0.0) low = high = 1.0;
    y_ = plot_axis{scale, low, high, bottom(), top_};
  }

  WARPWRIGHT_COLD void label_mark(double x) {
    double const half = half_width(mark_label_);
    char const* anchor = "middle";
    if (x - half < layout_.left) anchor = "start";
    if (x + half > layout_.right) anchor = "end";
    text(x, top_ - 7, anchor, layout_.font, plot_style::foreground, mark_label_, true);
  }

  void legend(char const* color, plot_mark mark, string_builder const& name) {
    legend_.push_back(legend_entry{color, mark, name.str()});
  }

  // The name of the panel, and its legend in one or two lines.
  WARPWRIGHT_COLD void flush_legend() {
    double const widest = layout_.right - layout_.left;
    std::vector<string_builder> lines;
    double width = 0.0;
    for (legend_entry const& e : legend_) {
      string_builder const gap = "&#160;&#160;&#160;";
      double const added = 2.0 * half_width(e.name) + 5.0 * 0.62 * layout_.font;
      bool const fits = !lines.empty() && width + added <= widest;
      if (!fits) lines.emplace_back();
      width = fits ? width + added : added;
      lines.back() += (fits ? gap : string_builder{}) + "<tspan fill=\"" + e.color +
                      "\" font-weight=\"700\">" + glyph_of(e.mark) + "</tspan>&#160;" +
                      xml_text(e.name);
    }
    legend_.clear();
    if (!layout_.standalone || panel_ == 0) return;
    double y = top_ - 8.0;
    for (std::size_t i = lines.size(); i > 0; --i, y -= layout_.font + 3.0) {
      text_element(layout_.left, y, "start", layout_.font, plot_style::muted, lines[i - 1], "");
    }
    text(layout_.left, y - 2.0, "start", layout_.font + 1, plot_style::foreground, name_, true);
  }

  WARPWRIGHT_COLD void path(array<plot_point> const& points, char const* color, char const* style) {
    if (points.size() < 2) return;
    string_builder d;
    for (plot_point const& p : points) {
      d += (d.empty() ? "M" : "L") + coordinates(x_.at(p.x), y_.at(p.y));
    }
    body_ += "<path d=\"" + d + "\" fill=\"none\" stroke=\"" + color + "\"" + style +
             " stroke-linejoin=\"round\"/>\n";
  }

  void circle(double x, double y, char const* radius, char const* fill, char const* stroke,
              char const* stroke_width) {
    body_ += "<circle cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"" + radius +
             "\" fill=\"" + fill + "\" stroke=\"" + stroke + "\" stroke-width=\"" + stroke_width +
             "\"/>\n";
  }

  WARPWRIGHT_COLD void mark_element(double x, double y, plot_mark mark, char const* color) {
    string_builder d;
    switch (mark) {
      case plot_mark::square:
        d = "M" + coordinates(x - 4, y - 4) + "h8v8h-8z";
        break;
      case plot_mark::triangle:
        d = "M" + coordinates(x, y - 5) + "l5 9h-10z";
        break;
      case plot_mark::plus:
        d = "M" + coordinates(x - 5, y) + "h10M" + coordinates(x, y - 5) + "v10";
        break;
      case plot_mark::cross:
      case plot_mark::filled:
      case plot_mark::outlined:
      case plot_mark::band:
      case plot_mark::bar:
      case plot_mark::dashes:
        d = "M" + coordinates(x - 4, y - 4) + "l8 8M" + coordinates(x - 4, y + 4) + "l8 -8";
    }
    body_ += "<path class=\"mark\" d=\"" + d + "\" fill=\"none\" stroke=\"" + color +
             "\" stroke-width=\"1.8\"/>\n";
  }

  WARPWRIGHT_COLD void text(double x, double y, char const* anchor, double size, char const* color,
                            string_builder const& content, bool bold = false,
                            bool over_lines = false) {
    string_builder style = bold ? " font-weight=\"600\"" : "";
    if (over_lines) {
      style += " paint-order=\"stroke\" stroke-width=\"3\" stroke=\"" +
               string_builder{plot_style::background} + "\"";
    }
    text_element(x, y, anchor, size, color, xml_text(content), style);
  }

  void text_element(double x, double y, char const* anchor, double size, char const* color,
                    string_builder const& markup, string_builder const& style) {
    body_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" font-size=\"" + number(size) +
             "\" text-anchor=\"" + anchor + "\" fill=\"" + color + "\"" + style + ">" + markup +
             "</text>\n";
  }

  void line_element(double x1, double y1, double x2, double y2, char const* color,
                    char const* style) {
    body_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
             "\" y2=\"" + number(y2) + "\" stroke=\"" + color + "\"" + style + "/>\n";
  }

  plot_layout layout_;
  double largest_x_;
  plot_axis x_;
  string_builder (*x_label_)(double);
  plot_axis y_;
  double height_;
  double top_ = 0.0;
  double marked_x_ = 0.0;
  int panel_ = 0;
  bool marked_ = false;
  bool reference_in_range_ = false;
  string_builder mark_label_;
  string_builder name_;
  string_builder head_;
  string_builder body_;
  std::vector<legend_entry> legend_;
};

}  // namespace detail

WARPWRIGHT_END
