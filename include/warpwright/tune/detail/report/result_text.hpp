// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The figures of a result as text, and which of them are known.
#include <warpwright/tune/detail/report/tune_result.hpp>
// In header-only mode tune_result.hpp includes this file at its end, so its guard is below that.
#ifndef WARPWRIGHT_RESULT_TEXT
#define WARPWRIGHT_RESULT_TEXT

#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>

#include <cmath>
#include <cstddef>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

// Half of an interval.
WARPWRIGHT_COLD inline string_builder error_text(double fraction) {
  return fraction < 0.995 ? format_number("%.2g %%", 100.0 * fraction)
                          : format_number("%.3g %%", 100.0 * fraction);
}

// Right-aligned.
WARPWRIGHT_COLD inline string_builder pad(string_builder const& text, std::size_t width) {
  return string_builder{std::string(text.size() < width ? width - text.size() : 0, ' ')} + text;
}

inline bool is_measured(double value) noexcept { return value > 0.0 && std::isfinite(value); }

// Not of a single sample.
inline bool has_interval(tune_row const& row) noexcept {
  return is_measured(row.items_per_second) && row.samples > 1 && row.relative_error >= 0.0 &&
         std::isfinite(row.relative_error);
}

// Whether the ratio to another size, which was faster, is known.
inline bool has_comparison(tune_row const& row) noexcept {
  return row.interleaved && is_measured(row.items_per_second) && is_measured(row.compared_error);
}

// A coarse clock may measure 0; what was stored may have figures, but no number of calls.
inline bool has_latencies(tune_row const& row) noexcept {
  bool const known = row.latency_samples > 0 || row.latency_median_seconds > 0.0;
  return known && std::isfinite(row.latency_median_seconds) &&
         std::isfinite(row.latency_p99_seconds);
}

// The chosen row; null: there is none.
inline tune_row const* chosen_row(tune_result const& r) noexcept {
  return r.chosen_index < r.rows.size() ? &r.rows[r.chosen_index] : nullptr;
}

// The usable row with the highest throughput, of those that were compared in turns if the choice
// was, as the others' figures are less certain; null: nothing was chosen.
WARPWRIGHT_COLD inline tune_row const* fastest_row(tune_result const& r) {
  tune_row const* const choice = chosen_row(r);
  tune_row const* best = choice;
  for (tune_row const& row : r.rows) {
    if (choice != nullptr && row.status == tune_status::ok &&
        (row.interleaved || !choice->interleaved) &&
        row.items_per_second > best->items_per_second) {
      best = &row;
    }
  }
  return best;
}

// What is wrong with a number of sizes, in a sentence: "are over the budget"
WARPWRIGHT_COLD inline string_builder status_clause(tune_status status, std::size_t count) {
  string_builder const verb = count == 1 ? "is " : "are ";
  switch (status) {
    case tune_status::over_budget:
      return verb + "over the budget";
    case tune_status::out_of_memory:
      return "ran out of memory";
    case tune_status::over_latency:
      return verb + "over the latency limit";
    case tune_status::failed:
      return "failed";
    case tune_status::ok:
      break;
  }
  return verb + to_string(status);
}

// Whether the calls of this size are compared with the objective's limit of the latency.
inline bool has_latency_limit(tune_result const& r) noexcept {
  return r.objective.latency_limited() && std::isfinite(r.objective.latency_limit_seconds());
}

// The status, and what else happened to the size.
WARPWRIGHT_COLD inline string_builder status_text(tune_row const& row) {
  string_builder text = to_string(row.status);
  if (row.status == tune_status::over_budget && row.memory_predicted) text += ": predicted";
  // Of other sizes that is why they are not ok.
  if (row.status == tune_status::ok && row.failures > 0) {
    text += ", failed " + string_builder(row.failures) + (row.failures == 1 ? " time" : " times");
  }
  if (is_measured(row.slowdown) && row.slowdown != 1.0) {
    text += row.slowdown > 1.0 ? ", device slower by " + format_percent(row.slowdown - 1.0)
                               : ", device faster by " + format_percent(1.0 - row.slowdown);
  }
  return text;
}

// 0 calls of 1194, which show that the limit is kept: "0 of 1194, shown"
WARPWRIGHT_COLD inline string_builder over_limit_text(tune_row const& row) {
  if (row.latency_samples == 0) return "-";
  return string_builder(row.latency_over) + " of " + string_builder(row.latency_samples) +
         (row.latency_shown ? ", shown" : "");
}

WARPWRIGHT_COLD inline string_builder memory_text(tune_row const& row) {
  if (row.memory_bytes == 0) return "-";
  return (row.memory_predicted ? "~" : "") + format_bytes(static_cast<double>(row.memory_bytes));
}

enum class table_column { batch, rate, error, median, p99, over_limit, memory, energy, status };
constexpr int table_columns = 9;

WARPWRIGHT_COLD inline string_builder table_heading(tune_result const& r, table_column column) {
  switch (column) {
    case table_column::batch:
      return "batch";
    case table_column::rate:
      return "items/s";
    case table_column::error:
      return "+-";
    case table_column::median:
      return "latency median";
    case table_column::p99:
      return "latency p99";
    case table_column::over_limit:
      return "over " + format_seconds(r.objective.latency_limit_seconds());
    case table_column::memory:
      return r.memory_budget_bytes == 0
                 ? string_builder{"memory"}
                 : "memory of " + format_bytes(static_cast<double>(r.memory_budget_bytes));
    case table_column::energy:
      return "energy/item";
    case table_column::status:
      break;
  }
  return "status";
}

WARPWRIGHT_COLD inline string_builder table_cell(tune_row const& row, table_column column) {
  switch (column) {
    case table_column::batch:
      return string_builder(row.batch);
    case table_column::rate:
      return is_measured(row.items_per_second) ? format_rate(row.items_per_second) : "-";
    case table_column::error:
      return has_interval(row) ? error_text(row.relative_error) : "-";
    case table_column::median:
      return has_latencies(row) ? format_seconds(row.latency_median_seconds) : "-";
    case table_column::p99:
      return has_latencies(row) ? format_seconds(row.latency_p99_seconds) : "-";
    case table_column::over_limit:
      return over_limit_text(row);
    case table_column::memory:
      return memory_text(row);
    case table_column::energy:
      return is_measured(row.joules_per_item) ? format_joules(row.joules_per_item) : "-";
    case table_column::status:
      break;
  }
  return status_text(row);
}

// A limit or an energy that no tune asked for has no column.
WARPWRIGHT_COLD inline bool table_shows(tune_result const& r, table_column column) {
  if (column == table_column::over_limit) return has_latency_limit(r);
  if (column != table_column::energy) return true;
  for (tune_row const& row : r.rows) {
    if (is_measured(row.joules_per_item)) return true;
  }
  return false;
}

// -- The outcome in a sentence, UTF-8 --

// "12.35 k items/s ± 0.5 % (12.28 k to 12.41 k)"; of a size compared in turns also the ratio:
// ", 98.9 % ± 0.2 % of the fastest, batch 128, compared in turns"
WARPWRIGHT_COLD inline string_builder rate_verdict(tune_result const& r, tune_row const& row) {
  string_builder text = format_rate(row.items_per_second) + " items/s";
  if (has_interval(row)) {
    double const error = row.relative_error;
    double const low = error < 1.0 ? row.items_per_second * (1.0 - error) : 0.0;
    text += " \xC2\xB1 " + error_text(error) + " (" + format_rate(low) + " to " +
            format_rate(row.items_per_second * (1.0 + error)) + ")";
  }
  if (!row.interleaved) return text;
  tune_row const& best = *fastest_row(r);
  if (&best == &row) return text + ", the fastest of those compared in turns";
  text += ", " + format_number("%.3g %%", 100.0 * row.items_per_second / best.items_per_second);
  if (has_comparison(row)) text += " \xC2\xB1 " + error_text(row.compared_error);
  return text + " of the fastest, batch " + string_builder(best.batch) + ", compared in turns";
}

// "p99 of the latency 7.50 ms, limit 8.00 ms: 0 of 1194 calls over it"
WARPWRIGHT_COLD inline string_builder latency_verdict_text(tune_result const& r,
                                                           tune_row const& row) {
  bool const limited = has_latency_limit(r);
  string_builder const name = quantile_name(limited ? r.objective.latency_quantile() : 0.99);
  bool const tail = name.str() == "p99";
  bool const few = tail && row.latency_samples > 0 && row.latency_samples < 100;
  string_builder text = name + " of the latency ";
  if (name.str() == "median") {
    text += format_seconds(row.latency_median_seconds);
  } else if (few) {
    text = "slowest of " + string_builder(row.latency_samples) + " calls " +
           format_seconds(row.latency_p99_seconds);
  } else if (tail) {
    text += format_seconds(row.latency_p99_seconds);
  } else {
    text += "not in the table (p99 " + format_seconds(row.latency_p99_seconds) + ")";
  }
  if (!limited) return text;
  text += (few ? ", limit of the p99 " : ", limit ") +
          format_seconds(r.objective.latency_limit_seconds());
  if (row.latency_samples == 0) return text;
  return text + ": " + string_builder(row.latency_over) + " of " +
         string_builder(row.latency_samples) + " calls over it" +
         (row.latency_shown ? "" : ", which does not show that it is kept");
}

WARPWRIGHT_COLD inline string_builder memory_verdict(tune_result const& r, tune_row const& row) {
  if (row.memory_bytes == 0 && r.memory_budget_bytes == 0) return "";
  string_builder text = "peak memory ";
  text += row.memory_bytes == 0 ? "not known"
                                : (row.memory_predicted ? "predicted as " : "") +
                                      format_bytes(static_cast<double>(row.memory_bytes));
  if (r.memory_budget_bytes == 0) return text;
  return text + ", budget " + format_bytes(static_cast<double>(r.memory_budget_bytes));
}

// "Of 6 sizes, 2 are over the budget, 1 ran out of memory."
WARPWRIGHT_COLD inline string_builder failures_text(tune_result const& r) {
  string_builder text;
  for (tune_status const status : {tune_status::over_budget, tune_status::out_of_memory,
                                   tune_status::over_latency, tune_status::failed}) {
    std::size_t count = 0;
    for (tune_row const& row : r.rows) count += row.status == status ? 1 : 0;
    if (count == 0) continue;
    text += (text.empty() ? "Of " + string_builder(r.rows.size()) +
                                (r.rows.size() == 1 ? " size, " : " sizes, ")
                          : string_builder{", "}) +
            string_builder(count) + " " + status_clause(status, count);
  }
  return text.empty() ? text : text + ".";
}

// The outcome in a sentence.
WARPWRIGHT_COLD inline string_builder verdict_text(tune_result const& r) {
  tune_row const* const row = chosen_row(r);
  if (row == nullptr) {
    return r.rows.empty() ? "No batch size was chosen: none was tried."
                          : "No batch size was chosen: none of those tried is usable.";
  }
  string_builder text = "Batch size " + string_builder(row->batch) + " was chosen";
  char const* separator = ": ";
  auto const add = [&](string_builder const& part) {
    if (part.empty()) return;
    text += separator + part;
    separator = "; ";
  };
  if (is_measured(row->items_per_second)) add(rate_verdict(r, *row));
  if (is_measured(row->joules_per_item)) add(format_joules(row->joules_per_item) + " per item");
  if (has_latencies(*row)) add(latency_verdict_text(r, *row));
  add(memory_verdict(r, *row));
  return text + ".";
}

}  // namespace detail

WARPWRIGHT_END

#endif
