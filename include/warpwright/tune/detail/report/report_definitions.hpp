// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/detail/report/plot_result.hpp>
#include <warpwright/tune/report.hpp>

#include <cmath>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

// Templates for the same reason.

// JSON has no infinity.
template <typename Text = string_builder>
Text json_number(double value) {
  return std::isfinite(value) ? format_number("%.9g", value) : "null";
}

// An empty field: not a finite number.
template <typename Text = string_builder>
Text csv_number(double value) {
  return std::isfinite(value) ? format_number("%.9g", value) : Text{};
}

template <typename Text = string_builder>
Text json_flag(bool value) {
  return value ? "true" : "false";
}

// Of std::string.
template <typename List, typename Text = string_builder>
WARPWRIGHT_COLD Text json_list(List const& texts) {
  Text list = "[";
  for (auto const& text : texts) {
    if (list.size() > 1) list += ',';
    list += json_text(text);
  }
  return list + ']';
}

// Of a size that was not compared it is not known, rather than 0.
template <typename Row>
double reported_compared_error(Row const& row) {
  return row.interleaved ? row.compared_error : HUGE_VAL;
}

}  // namespace detail

template <typename Result>
std::string to_csv(Result const& result) {
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

template <typename Result>
std::string to_json(Result const& result) {
  using detail::json_flag;
  using detail::json_number;
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
                                           ? json_number(result.objective.latency_limit_seconds())
                                           : "null");
  json += ",\"latency_quantile\":" + json_number(result.objective.latency_quantile());
  json += ",\"memory_budget_bytes\":" +
          (result.memory_budget_bytes > 0 ? string_builder(result.memory_budget_bytes) : "null");
  json += ",\"tolerance\":" + json_number(result.tolerance);
  json += ",\"wave_items\":" + string_builder(result.wave_items);
  json += ",\"elapsed_seconds\":" + json_number(result.elapsed_seconds);
  json += ",\"bracketing_seconds\":" + json_number(result.times.bracketing);
  json += ",\"refinement_seconds\":" + json_number(result.times.refinement);
  json += ",\"comparison_seconds\":" + json_number(result.times.comparison);
  json += ",\"latency_seconds\":" + json_number(result.times.latency);
  json += ",\"soak_seconds\":" + json_number(result.times.soak);
  json += ",\"stopped_early\":" + json_flag(result.stopped_early);
  json += ",\"steps\":" + detail::json_list(result.steps);
  json += ",\"memory_model\":";
  if (result.memory.points() < 2) {
    json += "null";
  } else {
    memory_model const& memory = result.memory;
    std::size_t const largest = memory.largest_measured();
    json += "{\"points\":" + string_builder(memory.points()) + ",\"shape\":\"" +
            to_string(memory.shape()) + "\",\"base_bytes\":" + json_number(memory.base_bytes()) +
            ",\"bytes_per_item\":" + json_number(memory.bytes_per_item()) +
            ",\"margin_bytes\":" + json_number(memory.predict(largest) - memory.estimate(largest)) +
            "}";
  }
  json += ",\"rows\":[";
  bool first = true;
  for (auto const& row : result.rows) {
    json += first ? "\n" : ",\n";
    first = false;
    json += "{\"batch\":" + string_builder(row.batch) + ",\"status\":\"" + to_string(row.status) +
            "\",\"items_per_second\":" + json_number(row.items_per_second) +
            ",\"seconds_per_batch\":" + json_number(row.seconds_per_batch) +
            ",\"slowdown\":" + json_number(row.slowdown) +
            ",\"relative_error\":" + json_number(row.relative_error) +
            ",\"latency_median_seconds\":" + json_number(row.latency_median_seconds) +
            ",\"latency_p99_seconds\":" + json_number(row.latency_p99_seconds) +
            ",\"joules_per_item\":" + json_number(row.joules_per_item) +
            ",\"samples\":" + string_builder(row.samples) +
            ",\"latency_samples\":" + string_builder(row.latency_samples) +
            ",\"latency_over\":" + string_builder(row.latency_over) +
            ",\"latency_shown\":" + json_flag(row.latency_shown) +
            ",\"memory_bytes\":" + string_builder(row.memory_bytes) +
            ",\"memory_predicted\":" + json_flag(row.memory_predicted) +
            ",\"interleaved\":" + json_flag(row.interleaved) +
            ",\"compared_error\":" + json_number(detail::reported_compared_error(row)) +
            ",\"failures\":" + string_builder(row.failures) +
            ",\"note\":" + detail::json_text(row.note) + "}";
  }
  return json + "\n]}\n";
}

template <typename Result>
std::string to_svg(Result const& result, std::string const& title) {
  using detail::string_builder;
  detail::result_plot<detail::plot_point> const charts{result};
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

WARPWRIGHT_END
