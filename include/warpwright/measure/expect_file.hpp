// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A table of expectations as text, a line each, as a tuning_store writes its records:
//
//   warpwright_expected=1<tab>name=decode<tab>figure=latency<tab>quantile=0.99<tab>limit=0.005
//     <tab>unit=s
//
// All fields are present, in this order. The unit is the last one, so that a line which was cut off
// is recognised: s, items/s or bytes. Empty lines and those that begin with # are comments.
#pragma once

#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/core/detail/text/line_fields.hpp>
#include <warpwright/measure/expect.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

inline constexpr char expectation_format[] = "warpwright_expected=1\t";

inline char const* name_of(expected_figure figure) noexcept {
  return figure == expected_figure::throughput ? "throughput"
         : figure == expected_figure::latency  ? "latency"
                                               : "memory";
}
inline char const* unit_of(expected_figure figure) noexcept {
  return figure == expected_figure::throughput ? "unit=items/s"
         : figure == expected_figure::latency  ? "unit=s"
                                               : "unit=bytes";
}

inline bool is_text(line_part part, char const* text) noexcept {
  return part.size() == std::strlen(text) && part.starts_with(text, part.size());
}

// Adds the line to the table; returns what is wrong with it.
template <typename Table>
line_problem add_line(line_part line, Table& table, source_location where) {
  constexpr std::size_t start = sizeof expectation_format - 1;
  if (!line.starts_with(expectation_format, start)) return {"is not an expectation of format 1"};
  line_reader reader{{line.begin + start, line.end}};
  expectation e;
  bool const good =
      reader.take_text("name", e.name) &&
      reader.take(
          "figure",
          [&e](line_part part) {
            for (expected_figure const f :
                 {expected_figure::throughput, expected_figure::latency, expected_figure::memory}) {
              if (!is_text(part, name_of(f))) continue;
              e.figure = f;
              return true;
            }
            return false;
          }) &&
      reader.take_number("quantile", e.quantile) && reader.take_number("limit", e.limit);
  if (!good) return {"has no valid field ", reader.failed()};
  if (!is_text(reader.rest(), unit_of(e.figure))) return {"does not end in ", unit_of(e.figure)};
  if (e.figure == expected_figure::throughput) {
    table = table.throughput_at_least(e.name, e.limit, where);
  } else if (e.figure == expected_figure::latency) {
    table = table.latency_at_most(e.name, e.quantile, e.limit, where);
  } else if (e.limit < 1.0 || e.limit >= static_cast<double>(memory_limit_end)) {
    return {"has no valid field ", "limit"};
  } else {
    table = table.memory_at_most(e.name, static_cast<std::size_t>(e.limit), where);
  }
  return {};
}

// @param source  of the text: "", or " of " and a path
template <typename Table>
Table read_expectations(std::string const& text_of_table, std::string const& source,
                        source_location where) {
  Table table;
  for_each_line(
      text_of_table.data(), text_of_table.size(), [&](line_part line, std::size_t number) {
        if (line.end[-1] == '\r') --line.end;  // an editor's line ends
        if (line.size() == 0) return;
        std::string problem;
        try {
          line_problem const found = add_line(line, table, where);
          if (!found) return;
          problem = (string_builder{found.text} + found.field).str();
        } catch (std::invalid_argument const& error) {  // of the table: a limit of 0, a second line
          char const* const reason = std::strstr(error.what(), "expectations: ");
          problem = reason == nullptr ? error.what() : reason + sizeof "expectations: " - 1;
          problem.insert(0, "is refused: ");
        }
        throw std::invalid_argument{(string_builder{text{where.file(), where.line()}.c_str()} +
                                     ": expectations: line " + number + source + " " + problem +
                                     "; it is '" + std::string(line.begin, line.end) +
                                     "', and to_text() shows the form of a line")
                                        .str()};
      });
  return table;
}

template <typename Error = std::runtime_error>
[[noreturn]] WARPWRIGHT_COLD void throw_expectation_file(char const* problem,
                                                         std::string const& path, int error,
                                                         source_location where) {
  throw Error{(string_builder{text{where.file(), where.line()}.c_str()} +
               ": expectations: " + problem + " " + path + ": " + std::strerror(error) +
               "; check the path and its permissions")
                  .str()};
}

}  // namespace detail

/// Writes a table as text.
/// @return a line for each expectation
template <typename String = std::string>
[[nodiscard]] String to_text(expectations const& table) {
  String all = "# Figures that this service should reach, an expectation a line.\n";
  for (expectation const& e : table.lines()) {
    all += detail::expectation_format;
    detail::append_field(all, "name", e.name);
    detail::append_field(all, "figure", std::string{detail::name_of(e.figure)});
    detail::append_field(all, "quantile", e.quantile);
    detail::append_field(all, "limit", e.limit);
    all += detail::unit_of(e.figure);
    all += '\n';
  }
  return all;
}

/// Reads a table from text as to_text() writes it.
/// @return the table
/// @throws std::invalid_argument for a line that is not an expectation, with the line and its
///   number: an expectation that is skipped would never fail
template <typename Table = expectations>
[[nodiscard]] Table expectations_from_text(std::string const& text,
                                           source_location where = source_location::current()) {
  return detail::read_expectations<Table>(text, {}, where);
}

/// Writes a table to a file, which is replaced as a whole.
/// @param path  the file's
/// @throws std::runtime_error if it cannot be written; it is unchanged then
template <typename Table = expectations>
void save_expectations(std::string const& path, Table const& table,
                       source_location where = source_location::current()) {
  std::string const all = to_text(table);
  int const error = detail::write_file(path.c_str(), all.data(), all.size());
  if (error != 0) detail::throw_expectation_file("cannot write", path, error, where);
}

/// Reads a table from a file.
/// @param path  the file's
/// @throws std::runtime_error    if it does not exist or cannot be read
/// @throws std::invalid_argument as expectations_from_text()
template <typename Table = expectations>
[[nodiscard]] Table load_expectations(std::string const& path,
                                      source_location where = source_location::current()) {
  errno = 0;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) detail::throw_expectation_file("cannot open", path, errno, where);
  std::string all;
  char part[4096];
  for (std::size_t got = 1; got != 0;) {
    got = std::fread(part, 1, sizeof part, file);
    all.append(part, got);
  }
  int const error = std::ferror(file) != 0 ? errno : 0;
  static_cast<void>(std::fclose(file));
  if (error != 0) detail::throw_expectation_file("cannot read", path, error, where);
  return detail::read_expectations<Table>(all, " of " + path, where);
}

WARPWRIGHT_END
