// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a batch tuner found: every size that it looked at, the choice, and why.
#pragma once

#include <warpwright/core/error.hpp>
#include <warpwright/tune/detail/string_builder.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

WARPWRIGHT_BEGIN

/// What a tuner is to maximise, and under which limit.
class tuning_objective {
 public:
  constexpr tuning_objective() = default;
  /// @return whether the latency of one batch is limited
  [[nodiscard]] constexpr bool latency_limited() const { return latency_limited_; }
  /// @return the limit of the 99th percentile of the latency, in seconds
  [[nodiscard]] constexpr double latency_limit_seconds() const { return latency_limit_seconds_; }

 private:
  friend constexpr tuning_objective throughput_under_latency(double seconds);
  bool latency_limited_ = false;
  double latency_limit_seconds_ = 0.0;
};

/// The most items per second, whatever one batch takes.
constexpr tuning_objective max_throughput() { return {}; }

/// The most items per second with the 99th percentile of one batch's latency within a limit.
///
/// @param seconds  the limit, in seconds, above 0
constexpr tuning_objective throughput_under_latency(double seconds) {
  tuning_objective objective;
  objective.latency_limited_ = true;
  objective.latency_limit_seconds_ = seconds;
  return objective;
}

/// What became of one batch size.
enum class tune_status {
  ok,             ///< ran, within all limits
  over_budget,    ///< needs more memory than the budget; not run unless it was measured
  out_of_memory,  ///< ran out of memory, which the tuner survived
  over_latency,   ///< ran, but its 99th percentile is over the limit
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
  }
  return "unknown";
}

/// One batch size that the tuner looked at.
struct tune_row {
  std::size_t batch = 0;                ///< items
  double items_per_second = 0.0;        ///< batch / seconds_per_batch; 0: not run to the end
  double seconds_per_batch = 0.0;       ///< median, batches back to back
  double deviation_seconds = 0.0;       ///< median absolute deviation of that
  double latency_median_seconds = 0.0;  ///< one batch alone, from its submission to its end
  double latency_p99_seconds = 0.0;     ///< the 99th percentile of that
  std::size_t samples = 0;              ///< samples behind seconds_per_batch
  std::size_t latency_samples = 0;      ///< calls behind the latencies
  std::size_t memory_bytes = 0;         ///< high water; 0: not known
  bool memory_predicted = false;        ///< memory_bytes is the model's, not measured
  bool duelled = false;                 ///< measured again, in turns with the other best sizes
  tune_status status = tune_status::ok;
  std::string note;  ///< more about the status: the text of the error, what was predicted
};

/// Memory as a straight line of the batch size, fitted to what small sizes took.
struct memory_model {
  std::size_t points = 0;       ///< measured sizes behind it; fewer than 2: no model
  double base_bytes = 0.0;      ///< what an empty batch takes
  double bytes_per_item = 0.0;  ///< what each item adds, never negative
  double margin_bytes = 0.0;    ///< the largest amount by which a measured size was above the line
};

/// What a tune found. Rows are in ascending order of the batch size.
struct tune_result {
  std::vector<tune_row> rows;           ///< every size that it looked at
  std::size_t chosen_index = 0;         ///< of rows; rows.size(): none was good
  std::string why;                      ///< the reasons of the choice, in words
  tuning_objective objective{};         ///< what was asked for
  std::size_t memory_budget_bytes = 0;  ///< what was asked for; 0: no budget
  double tolerance = 0.0;         ///< the share of the best throughput given up for a small size
  memory_model memory{};          ///< what the predictions rest on
  double measured_seconds = 0.0;  ///< what all measuring took on the device

  /// The chosen row.
  /// @throws std::logic_error if there is none, as in the result that no_feasible_batch carries
  [[nodiscard]] tune_row const& chosen() const {
    if (chosen_index >= rows.size()) throw std::logic_error{"warpwright: no batch size was chosen"};
    return rows[chosen_index];
  }
};

namespace detail {

inline string_builder format_number(char const* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  undo_locale(text);
  return text;
}

// With so many significant digits and the zeros at the end, so that columns line up.
inline string_builder format_significant(double value, int digits) {
  int decimals = digits - 1;
  double next = 10.0;
  // A value that would round up to the next power of ten has one decimal less.
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

inline string_builder format_percent(double fraction) {
  return format_number("%.3g %%", fraction * 100.0);
}

// Right-aligned.
inline string_builder pad(string_builder const& text, std::size_t width) {
  return string_builder{std::string(text.size() < width ? width - text.size() : 0, ' ')} + text;
}

// The status with what is worth a word beside it.
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

/// The result as a table for a terminal, the chosen row marked by an arrow, the reasons below.
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
  if (!result.why.empty()) table += result.why + '\n';
  return table;
}

/// Thrown when no batch size fits the budget and meets the limit; what() has the whole table.
///
/// A service must not start with a size that nobody chose, so this is an exception and not a result
/// without a choice.
class no_feasible_batch : public std::runtime_error {
 public:
  /// @param result  all rows, with no choice
  explicit no_feasible_batch(tune_result result)
      : std::runtime_error{(detail::string_builder{"warpwright: no batch size fits\n"} +
                            to_table(result))
                               .str()},
        result_{std::move(result)} {}

  /// What was tried; its chosen() throws.
  [[nodiscard]] tune_result const& result() const noexcept { return result_; }

 private:
  tune_result result_;
};

WARPWRIGHT_END
