// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/report.hpp>

#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/tune/detail/report/html_style.hpp>
#include <warpwright/tune/detail/report/verdict.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

// JSON has no infinity.
inline string_builder json_figure(double value) {
  return std::isfinite(value) ? format_number("%.9g", value) : "null";
}

// An empty field: not a finite number.
inline string_builder csv_number(double value) {
  return std::isfinite(value) ? format_number("%.9g", value) : string_builder{};
}

inline string_builder json_flag(bool value) { return value ? "true" : "false"; }

WARPWRIGHT_COLD inline string_builder json_list(std::vector<std::string> const& texts) {
  string_builder list = "[";
  for (auto const& text : texts) {
    if (list.size() > 1) list += ',';
    list += json_text(text);
  }
  return list + ']';
}

// Of a size that was not compared it is not known, rather than 0.
inline double reported_compared_error(tune_row const& row) {
  return row.interleaved ? row.compared_error : HUGE_VAL;
}

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string to_csv(tune_result const& result) {
  detail::string_builder csv =
      "batch,items_per_second,seconds_per_batch,slowdown,relative_error,latency_median_seconds,"
      "latency_p99_seconds,joules_per_item,samples,latency_samples,latency_over,latency_shown,"
      "memory_bytes,memory_predicted,interleaved,compared_error,failures,status,chosen,source,"
      "note\n";
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    tune_row const& row = result.rows[i];
    csv += detail::string_builder(row.batch);
    for (double const value :
         {row.items_per_second, row.seconds_per_batch, row.slowdown, row.relative_error,
          row.latency_median_seconds, row.latency_p99_seconds, row.joules_per_item}) {
      csv += ',' + detail::csv_number(value);
    }
    csv += ',' + detail::string_builder(row.samples) + ',' +
           detail::string_builder(row.latency_samples) + ',' +
           detail::string_builder(row.latency_over) + ',' + (row.latency_shown ? '1' : '0') + ',' +
           detail::string_builder(row.memory_bytes) + ',' + (row.memory_predicted ? '1' : '0') +
           ',' + (row.interleaved ? '1' : '0') + ',' +
           detail::csv_number(detail::reported_compared_error(row)) + ',' +
           detail::string_builder(row.failures) + ',' + detail::csv_text(to_string(row.status)) +
           ',' + (i == result.chosen_index ? '1' : '0') + ',' +
           detail::csv_text(to_string(result.source)) + ',' + detail::csv_text(row.note) + '\n';
  }
  return csv;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string to_json(tune_result const& result) {
  using detail::json_figure;
  using detail::json_flag;
  using detail::string_builder;
  bool const has_choice = result.chosen_index < result.rows.size();
  string_builder json = "{\"chosen_batch\":";
  json += has_choice ? string_builder(result.rows[result.chosen_index].batch) : "null";
  json += ",\"explanation\":" + detail::json_text(result.explanation);
  json += string_builder(",\"source\":\"") + to_string(result.source) + '"';
  json += ",\"warnings\":" + detail::json_list(result.warnings);
  json += string_builder(",\"goal\":\"") + to_string(result.objective.goal()) + '"';
  json +=
      ",\"latency_limit_seconds\":" + (result.objective.latency_limited()
                                           ? json_figure(result.objective.latency_limit_seconds())
                                           : "null");
  json += ",\"latency_quantile\":" + json_figure(result.objective.latency_quantile());
  json += ",\"memory_budget_bytes\":" +
          (result.memory_budget_bytes > 0 ? string_builder(result.memory_budget_bytes) : "null");
  json += ",\"tolerance\":" + json_figure(result.tolerance);
  json += ",\"wave_items\":" + string_builder(result.wave_items);
  json += ",\"elapsed_seconds\":" + json_figure(result.elapsed_seconds);
  json += ",\"bracketing_seconds\":" + json_figure(result.times.bracketing);
  json += ",\"refinement_seconds\":" + json_figure(result.times.refinement);
  json += ",\"comparison_seconds\":" + json_figure(result.times.comparison);
  json += ",\"latency_seconds\":" + json_figure(result.times.latency);
  json += ",\"soak_seconds\":" + json_figure(result.times.soak);
  json += ",\"stopped_early\":" + json_flag(result.stopped_early);
  json += ",\"steps\":" + detail::json_list(result.steps);
  json += ",\"memory_model\":";
  if (result.memory.points() < 2) {
    json += "null";
  } else {
    memory_model const& memory = result.memory;
    std::size_t const largest = memory.largest_measured();
    json += "{\"points\":" + string_builder(memory.points()) + ",\"shape\":\"" +
            to_string(memory.shape()) + "\",\"base_bytes\":" + json_figure(memory.base_bytes()) +
            ",\"bytes_per_item\":" + json_figure(memory.bytes_per_item()) +
            ",\"margin_bytes\":" + json_figure(memory.predict(largest) - memory.estimate(largest)) +
            "}";
  }
  json += ",\"rows\":[";
  bool first = true;
  for (auto const& row : result.rows) {
    json += first ? "\n" : ",\n";
    first = false;
    json += "{\"batch\":" + string_builder(row.batch) + ",\"status\":\"" + to_string(row.status) +
            "\",\"items_per_second\":" + json_figure(row.items_per_second) +
            ",\"seconds_per_batch\":" + json_figure(row.seconds_per_batch) +
            ",\"slowdown\":" + json_figure(row.slowdown) +
            ",\"relative_error\":" + json_figure(row.relative_error) +
            ",\"latency_median_seconds\":" + json_figure(row.latency_median_seconds) +
            ",\"latency_p99_seconds\":" + json_figure(row.latency_p99_seconds) +
            ",\"joules_per_item\":" + json_figure(row.joules_per_item) +
            ",\"samples\":" + string_builder(row.samples) +
            ",\"latency_samples\":" + string_builder(row.latency_samples) +
            ",\"latency_over\":" + string_builder(row.latency_over) +
            ",\"latency_shown\":" + json_flag(row.latency_shown) +
            ",\"memory_bytes\":" + string_builder(row.memory_bytes) +
            ",\"memory_predicted\":" + json_flag(row.memory_predicted) +
            ",\"interleaved\":" + json_flag(row.interleaved) +
            ",\"compared_error\":" + json_figure(detail::reported_compared_error(row)) +
            ",\"failures\":" + string_builder(row.failures) +
            ",\"note\":" + detail::json_text(row.note) + "}";
  }
  return json + "\n]}\n";
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string to_svg(tune_result const& result,
                                                           std::string const& title) {
  using detail::string_builder;
  detail::result_plot const charts{result};
  int const panels = 1 + (charts.has_latency() ? 1 : 0) + (charts.has_memory() ? 1 : 0);
  auto p = charts.begin(detail::plot_layout{}, panels);
  string_builder subtitle = "no size was chosen";
  if (tune_row const* const chosen = detail::chosen_row(result)) {
    subtitle = "chosen: " + string_builder(chosen->batch);
    if (detail::is_measured(chosen->items_per_second)) {
      subtitle += ", " + detail::format_rate(chosen->items_per_second) + " items/s";
    }
    if (detail::is_measured(chosen->latency_p99_seconds)) {
      subtitle += ", p99 " + detail::format_seconds(chosen->latency_p99_seconds);
    }
  }
  p.describe(title, result.explanation);
  p.heading(title, subtitle);
  charts.throughput(p, "throughput, items/s");
  if (charts.has_latency()) charts.latency(p, "latency of one batch");
  if (charts.has_memory()) charts.memory(p, "peak memory");
  return p.finish("batch size, items");
}

namespace detail {

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
  [[nodiscard]] WARPWRIGHT_COLD string_builder source_text() const {
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
  void paragraph(char const* style, string_builder const& text) {
    if (text.empty()) return;
    html_ += string_builder{"<p class=\""} + style + "\">" + xml_text(text) + "</p>\n";
  }
  void begin_section(char const* heading) {
    html_ += string_builder{"<section>\n<h2>"} + heading + "</h2>\n";
  }
  void end_section() { html_ += "</section>\n"; }

  WARPWRIGHT_COLD void head() {
    html_ += "<h1>" + xml_text(options_.title()) + "</h1>\n";
    string_builder const separator =
        options_.device().empty() || options_.date().empty() ? "" : ", ";
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
    plot p = charts_.begin(layout, 1);
    p.describe(heading, string_builder{heading} + " over the batch size");
    draw(p);
    string_builder legend;
    for (legend_entry const& e : p.legends()) {
      legend += string_builder{"<span class=\"key\"><span class=\""} + html_color_name(e.color) +
                "\">" + glyph_of(e.mark) + "</span> " + xml_text(e.name) + "</span>\n";
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
      html_ += string_builder{"<tr><td class=\"text\">"} + p.name + "</td><td>" +
               format_seconds(p.seconds) + "</td><td>" + format_number("%.1f %%", percent) +
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
                 (last && row.interleaved ? compared_text(row) : string_builder{}));
      }
      html_ += "<td>" + string_builder(row.failures) + "</td><td class=\"text note\">" +
               xml_text(row.note) + "</td></tr>\n";
    }
    html_ += "</table>\n</div>\n";
    end_section();
  }
  [[nodiscard]] static string_builder compared_text(tune_row const& row) {
    return has_comparison(row)
               ? ", compared in turns (ratio \xC2\xB1 " + error_text(row.compared_error) + ")"
               : string_builder{", compared in turns"};
  }
  [[nodiscard]] string_builder heading(table_column column) const {
    return column == table_column::error ? "\xC2\xB1" : table_heading(result_, column);
  }
  void cell(char const* element, table_column column, string_builder const& text) {
    bool const left = column == table_column::status;
    html_ += string_builder{"<"} + element + (left ? " class=\"text\">" : ">") + xml_text(text) +
             "</" + element + ">";
  }

  WARPWRIGHT_COLD void terms() {
    begin_section("Terms");
    html_ += "<dl>\n";
    for (html_term const& t : html_terms) {
      html_ += string_builder{"<dt>"} + t.name + "</dt><dd>" + t.meaning + "</dd>\n";
    }
    html_ += "</dl>\n";
    end_section();
  }

  tune_result const& result_;
  result_plot charts_;
  html_report_options const& options_;
  string_builder html_;
};

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string to_html(tune_result const& result,
                                                            html_report_options const& options) {
  return detail::html_report{result, options}.page();
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string progress_line::to_text(
    tuning_progress const& p) {
  detail::string_builder line = "tuning: ";
  line += to_string(p.phase);
  line += " " + detail::string_builder(p.batch);
  if (p.best_batch != 0) {
    line += ", best " + detail::string_builder(p.best_batch) + " with " +
            detail::format_rate(p.best_items_per_second) + " items/s";
  }
  line += ", " + detail::counted(p.sizes, "size") + ", " +
          detail::format_number("%.1f", p.elapsed_seconds) + " of " +
          detail::format_number("%.3g s", p.max_seconds);
  return line;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void progress_line::operator()(tuning_progress const& p) {
  if (file_ == nullptr) return;
  std::fprintf(file_, "\r%-*.*s", width, width, to_text(p).c_str());
  std::fflush(file_);
  written_ = true;
}

WARPWRIGHT_END
