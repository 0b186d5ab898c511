// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The result of a tune as a record of a tuning_store: its points are the sizes that worked; its
// fields are
//
//   rates=… calls=…  items per second and single calls of each point, separated by spaces
//   over=…           calls of the choice over the limit of the latency
//   explanation=…
//   stopped_after=…  max_seconds(), if that ended the search
#pragma once

#include <warpwright/core/detail/text/line_fields.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/tune/detail/search/search_settings.hpp>
#include <warpwright/tune/detail/store/tuning_record.hpp>

#include <cstddef>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

namespace detail {

// What a result depends on beside the workload and the device: settings that change which size is
// right, not those that change how it is looked for. Equal settings give equal texts.
WARPWRIGHT_COLD inline std::string objective_text(search_settings const& s) {
  std::string text = to_string(s.objective.goal());
  auto const add = [&text](char const* words, double value) {
    text.append(words);
    append_number(text, value);
  };
  if (s.objective.latency_limited()) {
    add(", quantile ", s.objective.latency_quantile());
    add(" of calls within ", s.objective.latency_limit_seconds());
    add(" s at a confidence of ", s.latency_confidence);
  }
  add("; tolerance ", s.tolerance);
  text.append("; sizes ");
  if (s.only_preferred) {
    for (std::size_t before = 0;;) {
      std::size_t const batch = s.next_preferred(before);
      if (batch == 0) return text;
      if (before != 0) text.append(", ");
      text.append(string_builder{batch}.str());
      before = batch;
    }
  }
  text.append((string_builder{s.first} + " to " + s.last).str());
  if (s.multiple > 1) text.append((", multiples of " + string_builder{s.multiple}).str());
  return text;
}

WARPWRIGHT_COLD inline tuning_record record_of_tune(tune_result const& result,
                                                    search_settings const& s) {
  constexpr std::size_t longest_explanation = 2000;
  tuning_record record;
  tune_row const& choice = result.chosen();
  record.batch = choice.batch;
  record.items_per_second = choice.items_per_second;
  record.latency_median_seconds = choice.latency_median_seconds;
  record.latency_p99_seconds = choice.latency_p99_seconds;
  record.memory_bytes = choice.memory_bytes;
  std::string rates;
  std::string calls;
  for (tune_row const& row : result.rows) {
    // Without a rate it was not measured: calls took no time.
    if (row.status != tune_status::ok || !(row.items_per_second > 0.0)) continue;
    record.points.push_back({row.batch, row.latency_median_seconds, row.latency_p99_seconds,
                             row.memory_predicted ? 0 : row.memory_bytes});
    if (!rates.empty()) rates += ' ';
    if (!calls.empty()) calls += ' ';
    append_number(rates, row.items_per_second);
    append_number(calls, static_cast<double>(row.latency_samples));
  }
  auto const add = [&record](char const* name, std::string value) {
    record.fields.emplace_back();
    record.fields.back().name = name;
    record.fields.back().value = static_cast<std::string&&>(value);
  };
  add("rates", rates);
  add("calls", calls);
  add("over", string_builder{choice.latency_over}.str());
  add("explanation", std::string{result.explanation, 0, longest_explanation});
  if (result.stopped_early) {
    std::string seconds;
    append_number(seconds, s.max_seconds);
    add("stopped_after", seconds);
  }
  return record;
}

// Reads numbers that are separated by single spaces.
// @return false if the field is missing, or is not a list of numbers
WARPWRIGHT_COLD inline bool read_numbers(tuning_record const& record, char const* name,
                                         std::vector<double>& numbers) {
  std::string const* const text = record.field(name);
  if (text == nullptr) return false;
  char const* at = text->data();
  char const* const end = at + text->size();
  for (;;) {
    char const* const begin = at;
    while (at != end && *at != ' ') ++at;
    numbers.push_back(0.0);
    if (!read_number({begin, at}, numbers.back())) return false;
    if (at == end) return true;
    ++at;
  }
}

// Whether a tuner with these settings may choose a size with these figures.
WARPWRIGHT_COLD inline bool may_choose(tune_row const& row, search_settings const& s) {
  bool const in_range = row.batch >= s.first && row.batch <= s.last &&
                        row.batch % s.multiple == 0 && s.allows(row.batch);
  bool const slow = s.objective.latency_limited() &&
                    row.latency_median_seconds > s.objective.latency_limit_seconds();
  return in_range && !slow && !(s.has_budget && row.memory_bytes > s.budget_bytes);
}

// Reads a stored result. A line of the file may have been changed by hand: what the tuner could not
// have chosen is not believed.
// @return what is wrong with it; null: nothing
WARPWRIGHT_COLD inline char const* read_tune(tuning_record const& record, search_settings const& s,
                                             tune_result& result) {
  constexpr char const* incomplete = "its figures are not those of a tune";
  std::vector<double> rates;
  std::vector<double> calls;
  std::vector<double> over;
  std::size_t const count = record.points.size();
  std::string const* const explanation = record.field("explanation");
  if (!read_numbers(record, "rates", rates) || !read_numbers(record, "calls", calls) ||
      !read_numbers(record, "over", over) || explanation == nullptr || rates.size() != count ||
      calls.size() != count) {
    return incomplete;
  }
  result = tune_result{};
  result.objective = s.objective;
  result.memory_budget_bytes = s.has_budget ? s.budget_bytes : 0;
  result.tolerance = s.tolerance;
  result.explanation = *explanation;
  result.chosen_index = count;
  for (std::size_t i = 0; i < count; ++i) {
    auto const& point = record.points[i];
    if (!(rates[i] > 0.0) || (i > 0 && point.batch <= record.points[i - 1].batch)) {
      return incomplete;
    }
    tune_row row;
    row.batch = point.batch;
    row.items_per_second = rates[i];
    row.seconds_per_batch = static_cast<double>(point.batch) / rates[i];
    row.latency_median_seconds = point.median_seconds;
    row.latency_p99_seconds = point.p99_seconds;
    row.latency_samples = static_cast<std::size_t>(calls[i] < 1e15 ? calls[i] : 1e15);
    row.memory_bytes = point.memory_bytes;
    if (point.batch == record.batch) {
      result.chosen_index = i;
      row.latency_over = static_cast<std::size_t>(over[0] < 1e15 ? over[0] : 1e15);
      row.latency_shown = s.objective.latency_limited();
    }
    result.rows.push_back(static_cast<tune_row&&>(row));
  }
  if (result.chosen_index == count) return incomplete;
  if (!may_choose(result.rows[result.chosen_index], s)) {
    return "its size is not within the limits";
  }
  std::vector<double> stopped_after;
  if (record.field("stopped_after") == nullptr) return nullptr;
  if (!read_numbers(record, "stopped_after", stopped_after)) return incomplete;
  result.stopped_early = true;
  return s.max_seconds > stopped_after[0] ? "its search ended early, and there is more time now"
                                          : nullptr;
}

}  // namespace detail

WARPWRIGHT_END
