// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Lines of text made of fields, name=value, separated by tabs; line_values.hpp says how values are
// written.
#pragma once

#include <warpwright/core/detail/text/line_values.hpp>

#include <cstddef>
#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

template <class String>
WARPWRIGHT_COLD void append_field(String& line, char const* name, String const& value) {
  line.append(name);
  line += '=';
  append_escaped(line, value);
  line += '\t';
}
template <class String>
void append_field(String& line, char const* name, std::size_t value) {
  line.append((text{name} + "=" + value + "\t").c_str());
}
template <class String>
WARPWRIGHT_COLD void append_field(String& line, char const* name, double value) {
  line.append(name);
  line += '=';
  append_number(line, value);
  line += '\t';
}

/// What is wrong with a line: null, or a text and the name of a field, which may be empty.
struct line_problem {
  char const* text = nullptr;
  char const* field = "";
  explicit operator bool() const noexcept { return text != nullptr; }
};

/// Reads the fields of a line in their order, and remembers the first that it could not read.
class line_reader {
 public:
  explicit line_reader(line_part line) noexcept : line_{line} {}
  /// Takes the bytes up to a separator, and the separator. @return false if there is none
  WARPWRIGHT_COLD bool take_until(char separator, line_part& part) noexcept {
    // memchr() does not take the null pointer of an empty part.
    void const* const found =
        line_.size() == 0 ? nullptr : std::memchr(line_.begin, separator, line_.size());
    if (found == nullptr) return false;
    part = {line_.begin, static_cast<char const*>(found)};
    line_.begin = part.end + 1;
    return true;
  }
  /// Takes a field of this name.
  /// @param read  `bool(line_part value)`
  template <class Read>
  WARPWRIGHT_COLD bool take(char const* name, Read&& read) {
    line_part part{};
    bool const good = take_until('=', part) && part.size() == std::strlen(name) &&
                      part.starts_with(name, part.size()) && take_until('\t', part) && read(part);
    if (!good && failed_ == nullptr) failed_ = name;
    return good;
  }
  template <class String>
  bool take_text(char const* name, String& value) {
    return take(name, [&value](line_part part) { return read_text(part, value); });
  }
  template <class Integer>
  bool take_integer(char const* name, Integer& value) {
    return take(name, [&value](line_part part) { return read_integer(part, value); });
  }
  template <class Number>
  bool take_number(char const* name, Number& value) {
    return take(name, [&value](line_part part) { return read_number(part, value); });
  }
  [[nodiscard]] line_part rest() const noexcept { return line_; }
  [[nodiscard]] char const* failed() const noexcept { return failed_; }

 private:
  line_part line_;
  char const* failed_ = nullptr;
};

/// Calls `visit(line, number)` for the lines with content: not for empty ones and comments.
template <class Visit>
WARPWRIGHT_COLD void for_each_line(char const* at, std::size_t bytes, Visit&& visit) {
  char const* const end = at + bytes;
  for (std::size_t number = 1; at != end; ++number) {
    auto const rest = static_cast<std::size_t>(end - at);
    auto const* const newline = static_cast<char const*>(std::memchr(at, '\n', rest));
    line_part const line{at, newline == nullptr ? end : newline};
    if (line.size() != 0 && *line.begin != '#') visit(line, number);
    at = newline == nullptr ? end : newline + 1;
  }
}

}  // namespace detail

WARPWRIGHT_END
