// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Lines of text made of fields, name=value, separated by tabs. In a text, backslash and control
// characters are \\, \t, \n, \r or \xHH, and every other byte stands for itself. There is one way
// to write a text or an integer, so that lines can be compared with keys as bytes.
#pragma once

#include <warpwright/core/detail/text/text.hpp>

#include <cfloat>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

WARPWRIGHT_BEGIN

namespace detail {

/// Bytes of a line, without a terminator.
struct line_part {
  char const* begin;
  char const* end;
  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(end - begin); }
  [[nodiscard]] bool starts_with(char const* text, std::size_t length) const noexcept {
    return size() >= length && std::memcmp(begin, text, length) == 0;
  }
};

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

template <class String>
WARPWRIGHT_COLD void append_escaped(String& line, String const& value) {
  constexpr char hex[] = "0123456789abcdef";
  for (char const c : value) {
    char const letter = c == '\t'   ? 't'
                        : c == '\n' ? 'n'
                        : c == '\r' ? 'r'
                        : c == '\\' ? '\\'
                                    : '\0';
    if (letter != '\0') {
      line += '\\';
      line += letter;
    } else if (is_control(c)) {
      auto const byte = static_cast<unsigned char>(c);
      line.append("\\x");
      line += hex[byte >> 4U];
      line += hex[byte & 15U];
    } else {
      line += c;
    }
  }
}

/// Undoes append_escaped(). @return false for a text that it would not have written
template <class String>
WARPWRIGHT_COLD bool read_text(line_part part, String& value) {
  auto const hex_digit = [](char c) {
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  value.clear();
  for (char const* at = part.begin; at != part.end; ++at) {
    if (is_control(*at)) return false;
    if (*at != '\\') {
      value += *at;
      continue;
    }
    if (++at == part.end) return false;
    if (*at == '\\') {
      value += '\\';
    } else if (*at == 't') {
      value += '\t';
    } else if (*at == 'n') {
      value += '\n';
    } else if (*at == 'r') {
      value += '\r';
    } else {
      if (*at != 'x' || part.end - at < 3) return false;
      int const high = hex_digit(at[1]);
      int const low = hex_digit(at[2]);
      if (high < 0 || low < 0) return false;
      char const byte = static_cast<char>(high * 16 + low);
      // The others have a shorter form, or stand for themselves.
      if (!is_control(byte) || byte == '\t' || byte == '\n' || byte == '\r') return false;
      value += byte;
      at += 2;
    }
  }
  return true;
}

template <class Integer>
WARPWRIGHT_COLD bool read_integer(line_part part, Integer& value) {
  if (part.size() == 0 || (*part.begin == '0' && part.size() > 1)) return false;
  value = 0;
  for (char const* at = part.begin; at != part.end; ++at) {
    if (!is_digit(*at)) return false;
    auto const digit = static_cast<Integer>(*at - '0');
    if (value > (static_cast<Integer>(-1) - digit) / 10) return false;
    value = value * 10 + digit;
  }
  return true;
}

/// Reads digits, a fraction and an exponent, both optional, in every locale of the program.
template <class Number>
WARPWRIGHT_COLD bool read_number(line_part part, Number& value) {
  // strtod() expects the locale's separator, which printf() shows.
  char separator[16];
  static_cast<void>(std::snprintf(separator, sizeof separator, "%.1f", 0.5));
  std::size_t const separator_length = std::strlen(separator) - 2;

  char number[64];
  std::size_t length = 0;
  char const* at = part.begin;
  auto const take_digits = [&] {
    char const* const first = at;
    while (at != part.end && is_digit(*at)) number[length++] = *at++;
    return at != first;
  };
  if (part.size() > 32 || !take_digits()) return false;
  if (at != part.end && *at == '.') {
    ++at;
    std::memcpy(number + length, separator + 1, separator_length);
    length += separator_length;
    if (!take_digits()) return false;
  }
  if (at != part.end && *at == 'e') {
    number[length++] = *at++;
    if (at != part.end && (*at == '+' || *at == '-')) number[length++] = *at++;
    if (!take_digits()) return false;
  }
  if (at != part.end) return false;
  number[length] = '\0';
  char* end = nullptr;
  value = std::strtod(number, &end);
  return end == number + length && value <= DBL_MAX;
}

/// Appends the shortest decimal number that read_number() reads as the same value.
/// @param value  finite and not negative
template <class String>
WARPWRIGHT_COLD void append_number(String& line, double value) {
  char number[64];
  for (int digits = 15; digits <= 17; ++digits) {
    // Not -0.
    static_cast<void>(
        std::snprintf(number, sizeof number, "%.*g", digits, value == 0.0 ? 0.0 : value));
    undo_locale(number);
    double read = -1.0;
    if (read_number({number, number + std::strlen(number)}, read) &&
        !(read < value || read > value)) {
      break;
    }
  }
  line.append(number);
}

WARPWRIGHT_COLD inline bool is_date(line_part part) noexcept {
  constexpr char form[] = "0000-00-00T00:00:00Z";
  if (part.size() != sizeof form - 1) return false;
  for (std::size_t i = 0; i < sizeof form - 1; ++i) {
    if (form[i] == '0' ? !is_digit(part.begin[i]) : part.begin[i] != form[i]) return false;
  }
  return true;
}

template <class String>
WARPWRIGHT_COLD void append_date_of_now(String& line) {
  std::time_t const now = std::time(nullptr);
  std::tm utc{};
  static_cast<void>(gmtime_r(&now, &utc));
  char date[32];
  line.append(date, std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc));
}

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
