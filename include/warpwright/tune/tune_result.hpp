// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The result of a batch tuner: every size that it measured, the choice and the reasons.
#pragma once

#include <warpwright/core/detail/string_builder.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/tune/detail/report/figures.hpp>
#include <warpwright/tune/memory_model.hpp>
#include <warpwright/tune/tuning_objective.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

WARPWRIGHT_BEGIN

/// The outcome of one batch size.
enum class tune_status {
  ok,             ///< ran within all limits
  over_budget,    ///< needs more memory than the budget; not run where that was predicted
  out_of_memory,  ///< ran out of memory, twice
  over_latency,   ///< was not shown to keep the limit of the latency
  failed,         ///< threw another exception, twice (batch_tuner::reject_exceptions())
};

/// The status as the tables print it.
inline char const* to_string(tune_status status) {
  switch (status) {
    case tune_status::ok:
      return "ok";
    case tune_status::over_budget:
      return "over budget";
    case tune_status::out_of_memory:
      return "out of memory";
    case tune_status::over_latency:
      return "over latency limit";
    case tune_status::failed:
      return "failed";
  }
  return "unknown";
}

/// The figures of one batch size.
struct tune_row {
  std::size_t batch = 0;           ///< items
  double items_per_second = 0.0;   ///< batch / seconds_per_batch; 0: not run to completion
  double seconds_per_batch = 0.0;  ///< of batches run back to back: the mean without the extremes
  double slowdown = 1.0;  ///< how much slower the device was than at first, as another size
                          ///< told: the two figures above have been divided by it
  /// Half of the interval of 95 % of this size's own throughput, as a fraction of it. Where
  /// `interleaved`, the throughput is that of the size it was compared with, times their ratio: the
  /// intervals of both are in it. The best of many noisy sizes seems faster than it is, which the
  /// interval does not count.
  double relative_error = 0.0;
  double latency_median_seconds = 0.0;  ///< of a single batch on an idle device
  double latency_p99_seconds = 0.0;     ///< 99th percentile of the same; of few calls the maximum
  std::size_t samples = 0;              ///< samples behind seconds_per_batch
  std::size_t latency_samples = 0;      ///< calls behind the latencies
  std::size_t latency_over = 0;         ///< those of them over the limit
  bool latency_shown = false;           ///< the calls show that the limit is kept
  std::size_t memory_bytes = 0;         ///< peak memory of all its runs; 0: not known
  bool memory_predicted = false;        ///< memory_bytes is the model's prediction, not measured
  double joules_per_item = 0.0;         ///< energy; 0: not measured
  bool interleaved = false;             ///< compared in turns with the best size
  /// Only where `interleaved`: half of the interval of the ratio of this throughput to that of the
  /// fastest size in its comparison, as a fraction of the ratio; 0: it is the fastest. What slows
  /// both down cancels. It is computed for 99 %, and holds in 95 %: the search looks at several
  /// ratios, several times, and the fastest is the one that noise has favoured.
  double compared_error = 0.0;
  std::size_t failures = 0;  ///< how often it failed; once is forgiven
  tune_status status = tune_status::ok;
  std::string note;  ///< details of the status: the error's text, or the predicted memory
};

/// How a tune spent its time, in seconds.
struct tune_times {
  double bracketing = 0.0;  ///< sizes doubled, and those tried again
  double refinement = 0.0;  ///< sizes between them
  double comparison = 0.0;  ///< the best sizes in turns
  double latency = 0.0;     ///< calls that show the limit of the latency
  double soak = 0.0;        ///< the independent run of the choice
  /// @return the sum
  [[nodiscard]] double total() const noexcept {
    return bracketing + refinement + comparison + latency + soak;
  }
};

/// Where a result comes from.
enum class tune_source {
  tuned,          ///< a whole tune
  stored,         ///< a tuning_store: nothing was run
  checked_again,  ///< a tuning_store, for other versions: three sizes were run to confirm it
};

/// The source in words.
inline char const* to_string(tune_source source) noexcept {
  switch (source) {
    case tune_source::tuned:
      return "tuned";
    case tune_source::stored:
      return "stored";
    case tune_source::checked_again:
      return "checked again";
  }
  return "unknown";
}

/// The result of a tune. Rows are in ascending order of the batch size.
struct tune_result {
  std::vector<tune_row> rows;           ///< every size considered
  std::size_t chosen_index = 0;         ///< index into rows; rows.size(): none is feasible
  std::string explanation;              ///< the reasons of the choice, one line of text
  std::vector<std::string> steps;       ///< what each step of the search found, a line each
  tuning_objective objective{};         ///< the objective that was set
  std::size_t memory_budget_bytes = 0;  ///< the budget that was set; 0: none
  double tolerance = 0.0;      ///< the fraction of the best throughput given up for a smaller size
  memory_model memory{};       ///< the model behind the predictions
  std::size_t wave_items = 0;  ///< items that the device works on at once; 0: no steps were found
  double elapsed_seconds = 0.0;             ///< of the whole tune
  tune_times times{};                       ///< the same by kind
  bool stopped_early = false;               ///< by max_seconds or stop_when
  tune_source source = tune_source::tuned;  ///< another one only with a stored_tuner
  std::vector<std::string> warnings;        ///< what went wrong with its store

  /// The chosen row.
  /// @throws std::logic_error if there is none, as in the result of a no_feasible_batch
  [[nodiscard]] tune_row const& chosen() const {
    if (chosen_index >= rows.size()) throw std::logic_error{"warpwright: no batch size was chosen"};
    return rows[chosen_index];
  }
};

namespace detail {

// Half of an interval.
inline string_builder error_text(double fraction) {
  return fraction < 0.995 ? format_number("%.2g %%", 100.0 * fraction)
                          : format_number("%.3g %%", 100.0 * fraction);
}

// Right-aligned.
inline string_builder pad(string_builder const& text, std::size_t width) {
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
template <typename Result>
tune_row const* fastest_row(Result const& r) {
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
template <typename Text = string_builder>
Text status_clause(tune_status status, std::size_t count) {
  Text const verb = count == 1 ? "is " : "are ";
  switch (status) {
    case tune_status::over_budget:
      return verb + "over the budget";
    case tune_status::out_of_memory:
      return "ran out of memory";
    case tune_status::over_latency:
      return verb + "over the latency limit";
    default:
      return verb + to_string(status);
    case tune_status::failed:
      return "failed";
  }
}

// Whether the calls of this size are compared with the objective's limit of the latency.
inline bool has_latency_limit(tune_result const& r) noexcept {
  return r.objective.latency_limited() && std::isfinite(r.objective.latency_limit_seconds());
}

// The status, and what else happened to the size.
inline string_builder status_text(tune_row const& row) {
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
inline string_builder over_limit_text(tune_row const& row) {
  if (row.latency_samples == 0) return "-";
  return string_builder(row.latency_over) + " of " + string_builder(row.latency_samples) +
         (row.latency_shown ? ", shown" : "");
}

inline string_builder memory_text(tune_row const& row) {
  if (row.memory_bytes == 0) return "-";
  return (row.memory_predicted ? "~" : "") + format_bytes(static_cast<double>(row.memory_bytes));
}

enum class table_column { batch, rate, error, median, p99, over_limit, memory, energy, status };
constexpr int table_columns = 9;

inline string_builder table_heading(tune_result const& r, table_column column) {
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

inline string_builder table_cell(tune_row const& row, table_column column) {
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
inline bool table_shows(tune_result const& r, table_column column) {
  if (column == table_column::over_limit) return has_latency_limit(r);
  if (column != table_column::energy) return true;
  for (tune_row const& row : r.rows) {
    if (is_measured(row.joules_per_item)) return true;
  }
  return false;
}

}  // namespace detail

/// Formats the result as a table for a terminal, with an arrow at the chosen row and the
/// explanation below.
///
/// @param result  a finished tune
/// @return lines of plain ASCII, each with its newline
template <typename String = std::string>
String to_table(tune_result const& result) {
  using detail::string_builder;
  constexpr int last = detail::table_columns - 1;
  std::size_t const lines = result.rows.size() + 1;
  auto const cell = [&result](std::size_t line, int column) {
    auto const c = static_cast<detail::table_column>(column);
    return line == 0 ? detail::table_heading(result, c)
                     : detail::table_cell(result.rows[line - 1], c);
  };
  bool shown[detail::table_columns] = {};
  std::size_t width[detail::table_columns] = {};
  for (int c = 0; c < last; ++c) {
    shown[c] = detail::table_shows(result, static_cast<detail::table_column>(c));
    for (std::size_t line = 0; line < lines && shown[c]; ++line) {
      std::size_t const size = cell(line, c).size();
      if (size > width[c]) width[c] = size;
    }
  }
  string_builder table;
  for (std::size_t line = 0; line < lines; ++line) {
    bool const chosen = line > 0 && line - 1 == result.chosen_index;
    table += chosen ? "-> " : "   ";
    for (int c = 0; c < last; ++c) {
      if (shown[c]) table += detail::pad(cell(line, c), width[c]) + "  ";
    }
    table += cell(line, last) + (chosen ? ", chosen\n" : "\n");
  }
  if (!result.explanation.empty()) table += result.explanation + '\n';
  return table;
}

/// Thrown when no batch size fits the budget and meets the latency limit; what() has the whole
/// table.
///
/// An exception, and not a result without a choice, so that a service cannot start with a size that
/// was not chosen.
class no_feasible_batch : public std::runtime_error {
 public:
  /// @param result  all rows, with no choice
  template <typename Result = tune_result>
  explicit no_feasible_batch(Result result)
      : std::runtime_error{(detail::string_builder{"warpwright: no batch size fits\n"} +
                            to_table(result))
                               .str()},
        result_{std::move(result)} {}

  /// The rows of all sizes; its chosen() throws.
  [[nodiscard]] tune_result const& result() const noexcept { return result_; }

 private:
  tune_result result_;
};

WARPWRIGHT_END
