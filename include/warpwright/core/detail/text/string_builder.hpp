// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/text.hpp>

#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

/// A std::string to append to, for reports of any length. Use `text` (text.hpp) for the message of
/// an exception: it does not allocate, and cuts off after 999 characters.
///
/// std::string's own operators are templates, instantiated for every length of a literal, which is
/// slow to compile.
class string_builder {
 public:
  string_builder() = default;
  WARPWRIGHT_COLD string_builder(char const* value) : value_(value) {}
  WARPWRIGHT_COLD string_builder(char value) : value_(1, value) {}
  WARPWRIGHT_COLD string_builder(std::string value) : value_(std::move(value)) {}
  WARPWRIGHT_COLD string_builder(int value) : value_(std::to_string(value)) {}
  WARPWRIGHT_COLD string_builder(std::size_t value) : value_(std::to_string(value)) {}

  WARPWRIGHT_COLD string_builder& operator+=(string_builder const& more) {
    value_.append(more.value_);
    return *this;
  }
  // The sum of a temporary is that temporary: a chain of + is compiled as a chain of +=. So it
  // must not be kept by reference.
  WARPWRIGHT_COLD friend string_builder&& operator+(string_builder&& sum,
                                                    string_builder const& more) {
    sum += more;
    return std::move(sum);
  }
  WARPWRIGHT_COLD friend string_builder operator+(string_builder const& first,
                                                  string_builder const& more) {
    return string_builder{first} + more;
  }

  [[nodiscard]] std::size_t size() const noexcept { return value_.size(); }
  [[nodiscard]] bool empty() const noexcept { return value_.empty(); }
  void clear() noexcept { value_.clear(); }
  [[nodiscard]] std::string const& str() const noexcept { return value_; }
  operator std::string const&() const noexcept { return value_; }

 private:
  std::string value_;
};

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#endif
/// Formats one number as printf, with the decimal point of the C locale.
/// @param format  one conversion of a double, and at most 63 characters of output
WARPWRIGHT_COLD inline string_builder format_number(char const* format, double value) {
  char digits[64];
  std::snprintf(digits, sizeof digits, format, value);
  undo_locale(digits);
  return digits;
}
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/// Fills a column: spaces before the text, or behind it. What is wider stays as it is.
WARPWRIGHT_COLD inline string_builder padded(string_builder const& value, std::size_t width,
                                             bool left = false) {
  std::string spaces(value.size() < width ? width - value.size() : 0, ' ');
  return left ? value + spaces : string_builder{spaces} + value;
}

/// Formats a fraction: 0.625 as "62.5 %".
WARPWRIGHT_COLD inline string_builder format_percent(double fraction) {
  return format_number("%.3g %%", fraction * 100.0);
}

}  // namespace detail

WARPWRIGHT_END
