// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/detail/report/html_style.hpp>
#include <warpwright/tune/detail/report/verdict.hpp>
#include <warpwright/tune/report_html.hpp>

#include <cstddef>
#include <string>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

// Point is plot_point: a template for the same reason as plot.
template <typename Point, typename Text = string_builder>
class html_report {
 public:
  html_report(tune_result const& result, html_report_options const& options)
      : result_{result}, charts_{result}, options_{options} {}

  std::string page() {
    html_ =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>";
    html_ += xml_text(options_.title()) + "</title>\n<style>\n" + html_style_sheet() +
             "</style>\n</head>\n<body>\n<main>\n";
    head();
    html_ += "<div class=\"charts\">\n";
    chart("Throughput, items/s", [&](auto& p) { charts_.throughput(p, ""); });
    if (charts_.has_latency()) {
      chart("Latency of one batch", [&](auto& p) { charts_.latency(p, ""); });
    }
    if (charts_.has_memory()) chart("Peak memory", [&](auto& p) { charts_.memory(p, ""); });
    html_ += "</div>\n";
    times();
    steps();
    sizes();
    terms();
    html_ += "</main>\n</body>\n</html>\n";
    return html_;
  }

 private:
  [[nodiscard]] WARPWRIGHT_COLD Text source_text() const {
    switch (result_.source) {
      case tune_source::tuned:
        break;
      case tune_source::stored:
        return "This result was read from a tuning store: nothing was run for it. Sizes that were "
               "not usable, the steps and the intervals are not stored.";
      case tune_source::checked_again:
        return "This result is that of a tuning store, written by other versions: only the chosen "
               "size and its neighbours were run again, and they confirm it.";
    }
    return {};
  }
  void paragraph(char const* style, Text const& text) {
    if (text.empty()) return;
    html_ += Text{"<p class=\""} + style + "\">" + xml_text(text) + "</p>\n";
  }
  void begin_section(char const* heading) {
    html_ += Text{"<section>\n<h2>"} + heading + "</h2>\n";
  }
  void end_section() { html_ += "</section>\n"; }

  WARPWRIGHT_COLD void head() {
    html_ += "<h1>" + xml_text(options_.title()) + "</h1>\n";
    Text const separator = options_.device().empty() || options_.date().empty() ? "" : ", ";
    paragraph("muted", options_.device() + separator + options_.date());
    bool const chosen = chosen_row(result_) != nullptr;
    html_ += "<section>\n";
    paragraph(chosen ? "verdict" : "verdict none", verdict_text(result_));
    paragraph("why", result_.explanation);
    paragraph("source", source_text());
    for (std::string const& warning : result_.warnings) paragraph("warning", "Warning: " + warning);
    paragraph("counts", failures_text(result_));
    if (result_.stopped_early) {
      paragraph("early",
                "The search stopped early, by max_seconds or stop_when: with more time, another "
                "size may be chosen.");
    }
    end_section();
  }

  template <typename Draw>
  WARPWRIGHT_COLD void chart(char const* heading, Draw const& draw) {
    plot_layout layout;
    layout.width = 480;
    layout.left = 74;
    layout.right = 470;
    layout.top = 26;
    layout.panel_height = 200;
    layout.gap = 0;
    layout.bottom = 48;
    layout.font = 13;
    layout.standalone = false;
    begin_section(heading);
    html_ += "<figure>\n";
    plot<Point> p = charts_.begin(layout, 1);
    p.describe(heading, Text{heading} + " over the batch size");
    draw(p);
    Text legend;
    for (legend_entry const& e : p.legends()) {
      legend += Text{"<span class=\"key\"><span class=\""} + html_color_name(e.color) + "\">" +
                glyph_of(e.mark) + "</span> " + xml_text(e.name) + "</span>\n";
    }
    html_ += p.finish("batch size, items");
    html_ += "<figcaption>" + legend + "</figcaption>\n</figure>\n";
    end_section();
  }

  WARPWRIGHT_COLD void times() {
    tune_times const& t = result_.times;
    double const all = result_.elapsed_seconds > t.total() ? result_.elapsed_seconds : t.total();
    if (!is_measured(all)) return;
    begin_section("How the time was spent");
    html_ += "<table>\n";
    struct phase {
      char const* name;
      double seconds;
    };
    for (phase const& p : {phase{"bracketing", t.bracketing}, phase{"refinement", t.refinement},
                           phase{"comparison", t.comparison}, phase{"latency calls", t.latency},
                           phase{"soak", t.soak}, phase{"other", all - t.total()}}) {
      // What is left of the sum by rounding is no time.
      if (!(p.seconds > 1e-6 * all)) continue;
      double const percent = 100.0 * p.seconds / all;
      html_ += Text{"<tr><td class=\"text\">"} + p.name + "</td><td>" + format_seconds(p.seconds) +
               "</td><td>" + format_number("%.1f %%", percent) +
               "</td><td class=\"bar\"><div style=\"width:" + format_number("%.1f", percent) +
               "%\"></div></td></tr>\n";
    }
    html_ += "<tr><td class=\"text\">whole tune</td><td>" + format_seconds(all) +
             "</td><td></td><td></td></tr>\n</table>\n";
    end_section();
  }

  WARPWRIGHT_COLD void steps() {
    if (result_.steps.empty()) return;
    begin_section("Steps");
    html_ += "<ol>\n";
    for (std::string const& step : result_.steps) html_ += "<li>" + xml_text(step) + "</li>\n";
    html_ += "</ol>\n";
    end_section();
  }

  WARPWRIGHT_COLD void sizes() {
    begin_section("All sizes");
    if (result_.rows.empty()) {
      paragraph("muted", "No size was tried.");
      end_section();
      return;
    }
    bool shown[table_columns] = {};
    html_ += "<div class=\"wide\">\n<table class=\"sizes\">\n<tr>";
    for (int c = 0; c < table_columns; ++c) {
      auto const column = static_cast<table_column>(c);
      shown[c] = table_shows(result_, column);
      if (shown[c]) cell("th", column, heading(column));
    }
    html_ += "<th class=\"text\">failures</th><th class=\"text\">note</th></tr>\n";
    for (tune_row const& row : result_.rows) {
      bool const chosen = &row == chosen_row(result_);
      html_ += chosen ? "<tr class=\"chosen\">" : "<tr>";
      for (int c = 0; c < table_columns; ++c) {
        auto const column = static_cast<table_column>(c);
        if (!shown[c]) continue;
        bool const last = column == table_column::status;
        cell("td", column,
             table_cell(row, column) + (last && chosen ? ", chosen" : "") +
                 (last && row.interleaved ? compared_text(row) : Text{}));
      }
      html_ += "<td>" + Text(row.failures) + "</td><td class=\"text note\">" + xml_text(row.note) +
               "</td></tr>\n";
    }
    html_ += "</table>\n</div>\n";
    end_section();
  }
  [[nodiscard]] static Text compared_text(tune_row const& row) {
    return has_comparison(row)
               ? ", compared in turns (ratio \xC2\xB1 " + error_text(row.compared_error) + ")"
               : Text{", compared in turns"};
  }
  [[nodiscard]] Text heading(table_column column) const {
    return column == table_column::error ? "\xC2\xB1" : table_heading(result_, column);
  }
  void cell(char const* element, table_column column, Text const& text) {
    bool const left = column == table_column::status;
    html_ += Text{"<"} + element + (left ? " class=\"text\">" : ">") + xml_text(text) + "</" +
             element + ">";
  }

  WARPWRIGHT_COLD void terms() {
    begin_section("Terms");
    html_ += "<dl>\n";
    for (html_term const& t : html_terms) {
      html_ += Text{"<dt>"} + t.name + "</dt><dd>" + t.meaning + "</dd>\n";
    }
    html_ += "</dl>\n";
    end_section();
  }

  tune_result const& result_;
  result_plot<Point> charts_;
  html_report_options const& options_;
  Text html_;
};

}  // namespace detail

template <typename Result>
std::string to_html(Result const& result, html_report_options const& options) {
  return detail::html_report<detail::plot_point>{result, options}.page();
}

WARPWRIGHT_END
