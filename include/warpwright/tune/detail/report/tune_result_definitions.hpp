// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/tune/detail/report/result_text.hpp>
#include <warpwright/tune/detail/report/tune_result.hpp>

#include <stdexcept>
#include <string>
#include <utility>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE char const* to_string(tune_status status) {
  constexpr char const* names[] = {"ok", "over budget", "out of memory", "over latency limit",
                                   "failed"};
  return detail::enum_name(names, status);
}

WARPWRIGHT_INLINE char const* to_string(tune_source source) noexcept {
  constexpr char const* names[] = {"tuned", "stored", "checked again"};
  return detail::enum_name(names, source);
}

WARPWRIGHT_INLINE tune_row const& tune_result::chosen() const {
  if (chosen_index >= rows.size()) throw std::logic_error{"warpwright: no batch size was chosen"};
  return rows[chosen_index];
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string to_text(tune_result const& result) {
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

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE no_feasible_batch::no_feasible_batch(tune_result result)
    : std::runtime_error{(detail::string_builder{"warpwright: no batch size fits\n"} +
                          to_text(result))
                             .str()},
      result_{std::move(result)} {}

WARPWRIGHT_END
