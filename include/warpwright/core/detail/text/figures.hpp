// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Times, rates, sizes and energies as text, with units that suit the value.
#pragma once

#include <warpwright/core/detail/text/string_builder.hpp>

#include <cstddef>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

// Templates on the text, so that a file which only includes the header does not compile them.

// Formats with a number of significant digits, trailing zeros included, so that columns line up.
template <typename Text = string_builder>
WARPWRIGHT_COLD Text format_significant(double value, int digits) {
  int decimals = digits - 1;
  double next = 10.0;
  double half_digit = 0.5;
  for (int i = 0; i < digits; ++i) half_digit *= 0.1;
  // A value that rounds up to the next power of ten has one decimal less.
  while (decimals > 0 && value >= next * (1.0 - half_digit)) {
    next *= 10.0;
    --decimals;
  }
  char const format[] = {'%', '.', static_cast<char>('0' + decimals), 'f', '\0'};
  return value < 1e30 ? format_number(format, value) : format_number("%g", value);
}

// "5.00 ms" -> "5 ms": without zeros at the end of a decimal fraction, for sentences, where a limit
// stands as it was set.
template <typename Text = string_builder>
WARPWRIGHT_COLD Text trimmed(Text const& figure) {
  std::string text = figure.str();
  std::size_t const point = text.find('.');
  if (point == std::string::npos) return figure;
  std::size_t end = text.find_first_not_of("0123456789", point + 1);
  if (end == std::string::npos) end = text.size();
  std::size_t begin = text.find_last_not_of('0', end - 1) + 1;
  if (begin == point + 1) begin = point;
  return text.erase(begin, end - begin);
}

// 0.00123 -> "1.23 ms"
template <typename Text = string_builder>
WARPWRIGHT_COLD Text format_seconds(double seconds, int digits = 3) {
  if (seconds < 0.9995e-3) return format_significant(seconds * 1e6, digits) + " us";
  if (seconds < 0.9995) return format_significant(seconds * 1e3, digits) + " ms";
  return format_significant(seconds, digits) + " s";
}

// 12345678 -> "11.77 MiB"
template <typename Text = string_builder>
WARPWRIGHT_COLD Text format_bytes(double bytes, int digits = 4) {
  constexpr char const* units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  int unit = 0;
  for (; bytes >= 1023.5 && unit < 4; ++unit) bytes /= 1024.0;
  return unit == 0 ? format_number("%.0f B", bytes)
                   : format_significant(bytes, digits) + units[unit];
}

// 12345678 -> "12.35 M"
template <typename Text = string_builder>
WARPWRIGHT_COLD Text format_rate(double per_second, int digits = 4) {
  constexpr char const* units[] = {"", " k", " M", " G", " T"};
  int unit = 0;
  for (; per_second >= 999.95 && unit < 4; ++unit) per_second /= 1000.0;
  return format_significant(per_second, digits) + units[unit];
}

// 0.00123 -> "1.23 mJ"
template <typename Text = string_builder>
WARPWRIGHT_COLD Text format_joules(double joules) {
  constexpr char const* units[] = {" J", " mJ", " uJ", " nJ"};
  int unit = 0;
  for (; joules < 0.9995 && unit < 3; ++unit) joules *= 1000.0;
  return format_significant(joules, 3) + units[unit];
}

// "1 call", "2 calls"
template <typename Text = string_builder>
WARPWRIGHT_COLD Text counted(std::size_t count, char const* what) {
  return Text(count) + " " + what + (count == 1 ? "" : "s");
}

// "p99", "p99.9", "median"
template <typename Text = string_builder>
WARPWRIGHT_COLD Text quantile_name(double quantile) {
  double const percent = 100.0 * quantile;
  if (percent > 49.9999 && percent < 50.0001) return "median";
  return format_number("p%.7g", percent);
}

}  // namespace detail

WARPWRIGHT_END
