// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The text of tune_result::explanation.
#pragma once

#include <warpwright/tune/detail/search_settings.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// Settings is search_settings; a template for the same reason as batch_search.
template <typename Settings>
string_builder explain_choice(tune_result const& r, Settings const& settings, bool timed_out) {
  if (r.chosen_index >= r.rows.size()) {
    string_builder text = "no size from " + string_builder(settings.first) + " to " +
                          string_builder(settings.last) + " fits";
    if (!r.rows.empty()) {
      tune_row const& smallest = r.rows.front();
      text += ": the smallest, " + string_builder(smallest.batch) + ", is " +
              to_string(smallest.status);
      if (!smallest.note.empty()) text += " (" + smallest.note + ")";
    }
    return text;
  }
  tune_row const& choice = r.rows[r.chosen_index];
  tune_row const* best = &choice;
  for (tune_row const& row : r.rows) {
    if (row.status == tune_status::ok && row.interleaved == choice.interleaved &&
        row.items_per_second > best->items_per_second) {
      best = &row;
    }
  }
  string_builder text = "batch " + string_builder(choice.batch) + ": " +
                        format_rate(choice.items_per_second) + " items/s, ";
  if (best == &choice) {
    text += "the best of the sizes tried";
  } else {
    text += "the smallest of the sizes compared by interleaved runs that is within " +
            format_percent(settings.tolerance) + " of the best (batch " +
            string_builder(best->batch) + ": " + format_rate(best->items_per_second) + " items/s)";
  }
  if (settings.objective.latency_limited()) {
    text += "; p99 " + format_seconds(choice.latency_p99_seconds) + " within the limit of " +
            format_seconds(settings.objective.latency_limit_seconds());
  }
  if (settings.has_budget && choice.memory_bytes > 0) {
    text += "; memory " + format_bytes(static_cast<double>(choice.memory_bytes)) +
            " of the budget of " + format_bytes(static_cast<double>(settings.budget_bytes));
  }
  for (tune_row const& row : r.rows) {
    if (row.batch > choice.batch && row.status != tune_status::ok) {
      text += "; the next size above that fails is " + string_builder(row.batch) + ", " +
              to_string(row.status);
      if (row.status != tune_status::out_of_memory) text += " (" + row.note + ")";
      break;
    }
  }
  if (timed_out) text += "; the search stopped early at the time limit (max_seconds)";
  return text;
}

}  // namespace detail

WARPWRIGHT_END
