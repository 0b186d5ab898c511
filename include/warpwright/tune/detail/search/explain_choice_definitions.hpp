// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The text of tune_result::explanation.
#pragma once

#include <warpwright/tune/detail/report/result_text.hpp>
#include <warpwright/tune/detail/search/search_settings.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace detail {

// A size of which calls are over the limit though most take far less: smaller ones do not help.
WARPWRIGHT_COLD WARPWRIGHT_INLINE string_builder explain_pauses(tune_result const& r) {
  for (tune_row const& row : r.rows) {
    bool const fast = row.latency_median_seconds < 0.7 * r.objective.latency_limit_seconds();
    if (row.status != tune_status::over_latency || !fast) continue;
    return "; " + string_builder(row.latency_over) + " of " + string_builder(row.latency_samples) +
           " calls of batch " + string_builder(row.batch) + " are over it though their median is " +
           format_seconds(row.latency_median_seconds) +
           ": pauses of the host, or other work on the device, which smaller sizes do not avoid";
  }
  return "";
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE string_builder explain_failure(tune_result const& r,
                                                                 search_settings const& settings) {
  string_builder text = "no size from " + string_builder(settings.first) + " to " +
                        string_builder(settings.last) + " fits";
  if (!r.rows.empty()) {
    tune_row const& smallest = r.rows.front();
    text += ": the smallest, " + string_builder(smallest.batch) + ", " +
            (smallest.status == tune_status::ok ? "is not shown to keep the latency limit"
                                                : status_clause(smallest.status, 1));
    if (!smallest.note.empty()) text += " (" + smallest.note + ")";
    text += explain_pauses(r);
  }
  if (r.stopped_early) {
    text += "; the search stopped early (max_seconds or stop_when): give it more time";
  }
  return text;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE string_builder explain_choice(tune_result const& r,
                                                                search_settings const& settings) {
  if (r.chosen_index >= r.rows.size()) return explain_failure(r, settings);
  tune_row const& choice = r.rows[r.chosen_index];
  tune_row const* const best = fastest_row(r);
  double const enough = (1.0 - settings.tolerance) * best->items_per_second * (1.0 - 1e-9);
  string_builder const the_best = "batch " + string_builder(best->batch) + ": " +
                                  format_rate(best->items_per_second) + " items/s";
  string_builder text = "batch " + string_builder(choice.batch) + ": " +
                        format_rate(choice.items_per_second) + " items/s, ";
  if (settings.objective.goal() != tuning_goal::throughput) {
    text += string_builder("the smallest of the sizes tried within ") +
            format_percent(settings.tolerance) + " of the best " +
            to_string(settings.objective.goal());
  } else if (best == &choice) {
    text += "the best of the sizes tried";
  } else if (choice.items_per_second >= enough) {
    text += string_builder{"the smallest of the sizes "} +
            (choice.interleaved ? "compared in turns" : "tried") + " that is within " +
            format_percent(settings.tolerance) + " of the best (" + the_best + ")";
  } else if (settings.agree) {
    text +=
        "which other devices or ranks can use as well; here others are faster (" + the_best + ")";
  } else {
    // Only a limit of the latency keeps faster sizes from being chosen.
    text += "which is shown to keep the latency limit; faster sizes are not (" + the_best + ")";
  }
  if (settings.objective.latency_limited()) {
    text += "; limit of the " + quantile_name(settings.objective.latency_quantile()) + " " +
            format_seconds(settings.objective.latency_limit_seconds()) + ": " +
            string_builder(choice.latency_over) + " of " + string_builder(choice.latency_samples) +
            " calls over it, in two independent runs";
  }
  if (settings.has_budget && choice.memory_bytes > 0) {
    text += "; memory " + format_bytes(static_cast<double>(choice.memory_bytes)) +
            " of the budget of " + format_bytes(static_cast<double>(settings.budget_bytes));
  }
  for (tune_row const& row : r.rows) {
    if (row.batch > choice.batch && row.status != tune_status::ok) {
      text += "; above it, the first to fail is " + string_builder(row.batch) + ", which " +
              status_clause(row.status, 1);
      bool const tells = row.status != tune_status::out_of_memory && !row.note.empty();
      if (tells) text += " (" + row.note + ")";
      break;
    }
  }
  if (r.stopped_early) text += "; the search stopped early (max_seconds or stop_when)";
  return text;
}

}  // namespace detail

WARPWRIGHT_END
