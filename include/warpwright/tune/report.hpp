// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A tune result as CSV, JSON or SVG text. The functions take a tune_result; they are templates, so
// that a file which only includes the header does not compile them.
#pragma once

#include <warpwright/tune/detail/plot.hpp>
#include <warpwright/tune/tune_result.hpp>

WARPWRIGHT_BEGIN

namespace detail {

inline string_builder json_number(double value) {
  return std::isfinite(value) ? format_number("%.9g", value) : "null";
}

inline string_builder json_text(std::string const& text) {
  string_builder escaped = "\"";
  for (char const c : valid_utf8(text)) {
    if (c == '"' || c == '\\') {
      escaped += '\\';
      escaped += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      escaped += code;
    } else {
      escaped += c;
    }
  }
  return escaped + '"';
}

inline string_builder csv_text(std::string const& text) {
  string_builder quoted = "\"";
  for (char const c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace detail

/// Formats the rows as CSV (RFC 4180, but lines end in "\n"): a header, then a line per size;
/// numbers in seconds, bytes and items, text in quotes.
///
/// @param result  the result of batch_tuner::tune()
/// @return the text; the caller writes the file
template <typename Result = tune_result>
std::string to_csv(Result const& result) {
  detail::string_builder csv =
      "batch,items_per_second,seconds_per_batch,slowdown,relative_error,latency_median_seconds,"
      "latency_p99_seconds,joules_per_item,samples,latency_samples,latency_over,latency_shown,"
      "memory_bytes,memory_predicted,interleaved,failures,status,chosen,note\n";
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    tune_row const& row = result.rows[i];
    csv += detail::string_builder(row.batch);
    for (double const value :
         {row.items_per_second, row.seconds_per_batch, row.slowdown, row.relative_error,
          row.latency_median_seconds, row.latency_p99_seconds, row.joules_per_item}) {
      csv += ',' + detail::format_number("%.9g", value);
    }
    csv += ',' + detail::string_builder(row.samples) + ',' +
           detail::string_builder(row.latency_samples) + ',' +
           detail::string_builder(row.latency_over) + ',' + (row.latency_shown ? '1' : '0') + ',' +
           detail::string_builder(row.memory_bytes) + ',' + (row.memory_predicted ? '1' : '0') +
           ',' + (row.interleaved ? '1' : '0') + ',' + detail::string_builder(row.failures) + ',' +
           detail::csv_text(to_string(row.status)) + ',' + (i == result.chosen_index ? '1' : '0') +
           ',' + detail::csv_text(row.note) + '\n';
  }
  return csv;
}

/// Formats the whole result as one JSON object (RFC 8259).
///
/// `chosen_batch` is null if no size is feasible; `latency_limit_seconds` and `memory_budget_bytes`
/// are null if they were not set.
///
/// @param result  the result of batch_tuner::tune()
/// @return the text; the caller writes the file
template <typename Result = tune_result>
std::string to_json(Result const& result) {
  using detail::json_number;
  bool const has_choice = result.chosen_index < result.rows.size();
  detail::string_builder json = "{\"chosen_batch\":";
  json += has_choice ? detail::string_builder(result.rows[result.chosen_index].batch) : "null";
  json += ",\"explanation\":" + detail::json_text(result.explanation);
  json +=
      ",\"latency_limit_seconds\":" + (result.objective.latency_limited()
                                           ? json_number(result.objective.latency_limit_seconds())
                                           : "null");
  json += ",\"latency_quantile\":" + json_number(result.objective.latency_quantile());
  json += ",\"memory_budget_bytes\":" + (result.memory_budget_bytes > 0
                                             ? detail::string_builder(result.memory_budget_bytes)
                                             : "null");
  json += ",\"tolerance\":" + json_number(result.tolerance);
  json += ",\"wave_items\":" + detail::string_builder(result.wave_items);
  json += ",\"elapsed_seconds\":" + json_number(result.elapsed_seconds);
  json += ",\"bracketing_seconds\":" + json_number(result.times.bracketing);
  json += ",\"refinement_seconds\":" + json_number(result.times.refinement);
  json += ",\"comparison_seconds\":" + json_number(result.times.comparison);
  json += ",\"latency_seconds\":" + json_number(result.times.latency);
  json += ",\"soak_seconds\":" + json_number(result.times.soak);
  json += ",\"stopped_early\":";
  json += result.stopped_early ? "true" : "false";
  json += ",\"steps\":[";
  for (std::size_t i = 0; i < result.steps.size(); ++i) {
    if (i > 0) json += ',';
    json += detail::json_text(result.steps[i]);
  }
  json += "]";
  json += ",\"memory_model\":";
  if (result.memory.points() < 2) {
    json += "null";
  } else {
    memory_model const& memory = result.memory;
    std::size_t const largest = memory.largest_measured();
    json += "{\"points\":" + detail::string_builder(memory.points()) + ",\"shape\":\"" +
            to_string(memory.shape()) + "\",\"base_bytes\":" + json_number(memory.base_bytes()) +
            ",\"bytes_per_item\":" + json_number(memory.bytes_per_item()) +
            ",\"margin_bytes\":" + json_number(memory.predict(largest) - memory.estimate(largest)) +
            "}";
  }
  json += ",\"rows\":[";
  bool first = true;
  for (tune_row const& row : result.rows) {
    json += first ? "\n" : ",\n";
    first = false;
    json += "{\"batch\":" + detail::string_builder(row.batch) + ",\"status\":\"" +
            to_string(row.status) + "\",\"items_per_second\":" + json_number(row.items_per_second) +
            ",\"seconds_per_batch\":" + json_number(row.seconds_per_batch) +
            ",\"slowdown\":" + json_number(row.slowdown) +
            ",\"relative_error\":" + json_number(row.relative_error) +
            ",\"latency_median_seconds\":" + json_number(row.latency_median_seconds) +
            ",\"latency_p99_seconds\":" + json_number(row.latency_p99_seconds) +
            ",\"joules_per_item\":" + json_number(row.joules_per_item) +
            ",\"samples\":" + detail::string_builder(row.samples) +
            ",\"latency_samples\":" + detail::string_builder(row.latency_samples) +
            ",\"latency_over\":" + detail::string_builder(row.latency_over) +
            ",\"latency_shown\":" + (row.latency_shown ? "true" : "false") +
            ",\"memory_bytes\":" + detail::string_builder(row.memory_bytes) +
            ",\"memory_predicted\":" + (row.memory_predicted ? "true" : "false") +
            ",\"interleaved\":" + (row.interleaved ? "true" : "false") +
            ",\"failures\":" + detail::string_builder(row.failures) +
            ",\"note\":" + detail::json_text(row.note) + "}";
  }
  return json + "\n]}\n";
}

/// Draws the result as an SVG image: throughput, latency and (if known) memory over the batch size,
/// with the choice, the limits and the sizes that failed.
///
/// The image refers to no other file and runs no script: it can be embedded in HTML unchanged.
///
/// @param result  the result of batch_tuner::tune()
/// @param title  the heading, UTF-8, not escaped: to_svg() escapes it
/// @return the text; the caller writes the file
template <typename Result = tune_result>
std::string to_svg(Result const& result, std::string const& title = "Batch size") {
  using namespace detail;
  bool memory_known = false;
  for (tune_row const& row : result.rows) memory_known = memory_known || row.memory_bytes > 0;
  int const panels = memory_known ? 3 : 2;
  plot<plot_point> p{result.rows.empty() ? 1.0 : static_cast<double>(result.rows.front().batch),
                     result.rows.empty() ? 2.0 : static_cast<double>(result.rows.back().batch),
                     panels};

  array<plot_point> rates;
  array<plot_point> medians;
  array<plot_point> tails;
  array<plot_point> bytes;
  std::vector<double> failed;
  for (tune_row const& row : result.rows) {
    double const x = static_cast<double>(row.batch);
    bool const ok = row.status == tune_status::ok;
    bool const ran = row.items_per_second > 0.0 && std::isfinite(row.items_per_second);
    if (ran) rates.push_back({x, row.items_per_second, ok});
    if (!ran && !ok) failed.push_back(x);
    // A logarithmic axis has no zero, which a coarse clock may measure.
    if (ran && row.latency_median_seconds > 0.0) {
      medians.push_back({x, row.latency_median_seconds, ok});
    }
    if (ran && row.latency_p99_seconds > 0.0) tails.push_back({x, row.latency_p99_seconds, ok});
    if (row.memory_bytes > 0) {
      bytes.push_back({x, static_cast<double>(row.memory_bytes), !row.memory_predicted});
    }
  }

  tune_row const* const chosen =
      result.chosen_index < result.rows.size() ? &result.rows[result.chosen_index] : nullptr;
  detail::string_builder subtitle = "no size fits";
  if (chosen != nullptr) {
    subtitle = "chosen: " + detail::string_builder(chosen->batch) + ", " +
               format_rate(chosen->items_per_second) + " items/s, p99 " +
               format_seconds(chosen->latency_p99_seconds);
    p.mark_x(static_cast<double>(chosen->batch));
  }
  p.heading(title, subtitle, result.explanation);

  p.begin_panel(
      "throughput, items/s", plot_scale::linear,
      [](double value) { return format_tick(value, false); }, {&rates}, 0.0);
  p.line(rates, plot_style::blue, "", "over a limit");
  p.crosses(failed, "not run, or out of memory");

  double const limit =
      result.objective.latency_limited() ? result.objective.latency_limit_seconds() : 0.0;
  p.begin_panel("latency of one batch", plot_scale::logarithmic, format_tick_seconds,
                {&medians, &tails}, limit);
  p.line(tails, plot_style::orange, "p99", "");
  p.line(medians, plot_style::blue, "median", "");
  if (limit > 0.0) p.reference_line(limit, "limit " + format_seconds(limit));

  if (memory_known) {
    double const budget = static_cast<double>(result.memory_budget_bytes);
    p.begin_panel(
        "memory", plot_scale::linear_bytes, [](double value) { return format_tick(value, true); },
        {&bytes}, budget);
    p.line(bytes, plot_style::green, "", "predicted");
    if (budget > 0.0) p.reference_line(budget, "budget " + format_bytes(budget));
  }
  return p.finish("batch size, items");
}

WARPWRIGHT_END
