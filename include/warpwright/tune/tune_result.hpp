// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The result of a batch tuner: every size that it measured, the choice and the reasons.
#pragma once

#include <warpwright/core/detail/string_builder.hpp>
#include <warpwright/core/error.hpp>
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
  double slowdown = 1.0;        ///< how much slower the device was than at first, as another size
                                ///< told: the two figures above have been divided by it
  double relative_error = 0.0;  ///< half of the interval of 95 % of these figures, as a fraction
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
  std::size_t failures = 0;             ///< how often it failed; once is forgiven
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

// Formats with a number of significant digits, trailing zeros included, so that columns line up.
inline string_builder format_significant(double value, int digits) {
  int decimals = digits - 1;
  double next = 10.0;
  // A value that rounds up to the next power of ten has one decimal less.
  while (decimals > 0 && value >= next * (1.0 - 0.5 * std::pow(10.0, -digits))) {
    next *= 10.0;
    --decimals;
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  undo_locale(text);
  return text;
}

// 0.00123 -> "1.23 ms"
inline string_builder format_seconds(double seconds) {
  if (seconds < 0.9995e-3) return format_significant(seconds * 1e6, 3) + " us";
  if (seconds < 0.9995) return format_significant(seconds * 1e3, 3) + " ms";
  return format_significant(seconds, 3) + " s";
}

// 12345678 -> "11.77 MiB"
inline string_builder format_bytes(double bytes) {
  constexpr char const* units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  int unit = 0;
  while (bytes >= 1023.5 && unit < 4) {
    bytes /= 1024.0;
    ++unit;
  }
  return unit == 0 ? format_number("%.0f B", bytes) : format_significant(bytes, 4) + units[unit];
}

// 12345678 -> "12.35 M"
inline string_builder format_rate(double per_second) {
  constexpr char const* units[] = {"", " k", " M", " G", " T"};
  int unit = 0;
  while (per_second >= 999.95 && unit < 4) {
    per_second /= 1000.0;
    ++unit;
  }
  return format_significant(per_second, 4) + units[unit];
}

// Right-aligned.
inline string_builder pad(string_builder const& text, std::size_t width) {
  return string_builder{std::string(text.size() < width ? width - text.size() : 0, ' ')} + text;
}

inline string_builder status_cell(tune_row const& row) {
  string_builder text = to_string(row.status);
  if (row.status == tune_status::over_budget && row.memory_predicted) text += ": predicted";
  return text;
}

constexpr int table_columns = 6;

// One cell of the table; a null row stands for the heading.
inline string_builder table_cell(tune_row const* row, int column) {
  constexpr char const* heading[table_columns] = {"batch",       "items/s", "latency median",
                                                  "latency p99", "memory",  "status"};
  if (row == nullptr) return heading[column];
  switch (column) {
    case 0:
      return string_builder(row->batch);
    case 1:
      return row->items_per_second > 0.0 ? format_rate(row->items_per_second) : "-";
    case 2:
      return row->latency_samples > 0 ? format_seconds(row->latency_median_seconds) : "-";
    case 3:
      return row->latency_samples > 0 ? format_seconds(row->latency_p99_seconds) : "-";
    case 4:
      return row->memory_bytes == 0 ? "-"
                                    : (row->memory_predicted ? "~" : "") +
                                          format_bytes(static_cast<double>(row->memory_bytes));
    default:
      return status_cell(*row);
  }
}

}  // namespace detail

/// Formats the result as a table for a terminal, with an arrow at the chosen row and the
/// explanation below.
///
/// @param result  a finished tune
/// @return lines of plain ASCII, each with its newline
inline std::string to_table(tune_result const& result) {
  constexpr int last = detail::table_columns - 1;
  std::size_t const lines = result.rows.size() + 1;
  auto const row_of = [&result](std::size_t line) {
    return line == 0 ? nullptr : &result.rows[line - 1];
  };
  std::size_t width[detail::table_columns] = {};
  for (std::size_t line = 0; line < lines; ++line) {
    for (int c = 0; c < last; ++c) {
      std::size_t const size = detail::table_cell(row_of(line), c).size();
      if (size > width[c]) width[c] = size;
    }
  }
  detail::string_builder table;
  for (std::size_t line = 0; line < lines; ++line) {
    bool const chosen = line > 0 && line - 1 == result.chosen_index;
    table += chosen ? "-> " : "   ";
    for (int c = 0; c < last; ++c) {
      table += detail::pad(detail::table_cell(row_of(line), c), width[c]) + "  ";
    }
    table += detail::table_cell(row_of(line), last) + (chosen ? ", chosen\n" : "\n");
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
  explicit no_feasible_batch(tune_result result)
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
