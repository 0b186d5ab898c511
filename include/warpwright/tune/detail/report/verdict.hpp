// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The outcome of a tune in a sentence, UTF-8.
#pragma once

#include <warpwright/tune/detail/report/plot_result.hpp>

WARPWRIGHT_BEGIN

namespace detail {

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
