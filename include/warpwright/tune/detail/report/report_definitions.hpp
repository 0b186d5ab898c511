// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/report.hpp>

#include <warpwright/core/detail/report/html_style.hpp>
#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/tune/detail/report/html_terms.hpp>
#include <warpwright/tune/detail/report/plot_result.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

// The fields of a line of CSV, or the members of a JSON object.
class record_writer {
 public:
  explicit record_writer(bool json) noexcept : json_{json} {}

  // @param value  as the format has it
  WARPWRIGHT_COLD void add(char const* name, string_builder const& value) {
    if (!text_.empty()) text_ += ',';
    if (json_) text_ += string_builder{"\""} + name + "\":";
    text_ += value;
  }
  // Neither format has an infinity: an empty field, or null.
  void number(char const* name, double value) {
    bool const empty = !json_ && !std::isfinite(value);
    add(name, empty ? string_builder{} : json_number(value, "%.9g"));
  }
  void count(char const* name, std::size_t value) { add(name, string_builder(value)); }
  void flag(char const* name, bool value) {
    add(name, json_ ? (value ? "true" : "false") : (value ? "1" : "0"));
  }
  void text(char const* name, std::string const& value) {
    add(name, json_ ? json_text(value) : csv_text(value));
  }
  // JSON alone.
  WARPWRIGHT_COLD void texts(char const* name, std::vector<std::string> const& values) {
    string_builder list;
    for (auto const& value : values) list += (list.empty() ? "" : ",") + json_text(value);
    add(name, "[" + list + "]");
  }
  void count_or_null(char const* name, bool known, std::size_t value) {
    add(name, known ? string_builder(value) : "null");
  }
  [[nodiscard]] string_builder const& str() const noexcept { return text_; }

 private:
  bool json_;
  string_builder text_;
};

// What both formats have of a size, in the order of the columns of CSV.
WARPWRIGHT_COLD inline void write_row(record_writer& to, tune_row const& row) {
  to.count("batch", row.batch);
  to.number("items_per_second", row.items_per_second);
  to.number("seconds_per_batch", row.seconds_per_batch);
  to.number("slowdown", row.slowdown);
  to.number("relative_error", row.relative_error);
  to.number("latency_median_seconds", row.latency_median_seconds);
  to.number("latency_p99_seconds", row.latency_p99_seconds);
  to.number("joules_per_item", row.joules_per_item);
  to.count("samples", row.samples);
  to.count("latency_samples", row.latency_samples);
  to.count("latency_over", row.latency_over);
  to.flag("latency_shown", row.latency_shown);
  to.count("memory_bytes", row.memory_bytes);
  to.flag("memory_predicted", row.memory_predicted);
  to.flag("interleaved", row.interleaved);
  // Of a size that was not compared it is not known, rather than 0.
  to.number("compared_error", row.interleaved ? row.compared_error : HUGE_VAL);
  to.count("failures", row.failures);
  to.text("status", to_string(row.status));
}

WARPWRIGHT_COLD inline void write_model(record_writer& to, memory_model const& memory) {
  if (memory.points() < 2) return to.add("memory_model", "null");
  std::size_t const largest = memory.largest_measured();
  record_writer model{true};
  model.count("points", memory.points());
  model.text("shape", to_string(memory.shape()));
  model.number("base_bytes", memory.base_bytes());
  model.number("bytes_per_item", memory.bytes_per_item());
  model.number("margin_bytes", memory.predict(largest) - memory.estimate(largest));
  to.add("memory_model", "{" + model.str() + "}");
}

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string to_csv(tune_result const& result) {
  detail::string_builder csv =
      "batch,items_per_second,seconds_per_batch,slowdown,relative_error,latency_median_seconds,"
      "latency_p99_seconds,joules_per_item,samples,latency_samples,latency_over,latency_shown,"
      "memory_bytes,memory_predicted,interleaved,compared_error,failures,status,chosen,source,"
      "note\n";
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    detail::record_writer line{false};
    detail::write_row(line, result.rows[i]);
    line.flag("chosen", i == result.chosen_index);
    line.text("source", to_string(result.source));
    line.text("note", result.rows[i].note);
    csv += line.str() + '\n';
  }
  return csv;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string to_json(tune_result const& result) {
  using detail::string_builder;
  tune_row const* const chosen = detail::chosen_row(result);
  tuning_objective const& objective = result.objective;
  detail::record_writer json{true};
  json.count_or_null("chosen_batch", chosen != nullptr, chosen != nullptr ? chosen->batch : 0);
  json.text("explanation", result.explanation);
  json.text("source", to_string(result.source));
  json.texts("warnings", result.warnings);
  json.text("goal", to_string(objective.goal()));
  json.number("latency_limit_seconds",
              objective.latency_limited() ? objective.latency_limit_seconds() : HUGE_VAL);
  json.number("latency_quantile", objective.latency_quantile());
  json.count_or_null("memory_budget_bytes", result.memory_budget_bytes > 0,
                     result.memory_budget_bytes);
  json.number("tolerance", result.tolerance);
  json.count("wave_items", result.wave_items);
  json.number("elapsed_seconds", result.elapsed_seconds);
  json.number("bracketing_seconds", result.times.bracketing);
  json.number("refinement_seconds", result.times.refinement);
  json.number("comparison_seconds", result.times.comparison);
  json.number("latency_seconds", result.times.latency);
  json.number("soak_seconds", result.times.soak);
  json.flag("stopped_early", result.stopped_early);
  json.texts("steps", result.steps);
  detail::write_model(json, result.memory);
  string_builder rows;
  for (auto const& row : result.rows) {
    detail::record_writer members{true};
    detail::write_row(members, row);
    members.text("note", row.note);
    rows += (rows.empty() ? "\n{" : ",\n{") + members.str() + "}";
  }
  json.add("rows", "[" + rows + "\n]");
  return "{" + json.str() + "}\n";
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
    constexpr plot_layout layout{480, 74, 470, 26, 200, 0, 48, 13, false};
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
