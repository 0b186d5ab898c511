// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Text of any bytes as XML, HTML, JSON or CSV.
#pragma once

#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/core/detail/text/text.hpp>

#include <cstddef>
#include <cstdio>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

// Templates on the text, so that a file which only includes the header does not compile them.

// Replaces bytes that are not UTF-8 by '?': the text of an exception may hold any bytes. So are
// U+FFFE and U+FFFF, which XML excludes.
template <typename String = std::string>
WARPWRIGHT_COLD String valid_utf8(std::string const& text) {
  String valid;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t const length = utf8_bytes(text.c_str() + i);
    bool const excluded = length == 3 && (text.compare(i, 3, "\xEF\xBF\xBE") == 0 ||
                                          text.compare(i, 3, "\xEF\xBF\xBF") == 0);
    if (length != 0 && !excluded) {
      valid.append(text, i, length);
      i += length;
    } else {
      valid += '?';
      ++i;
    }
  }
  return valid;
}

// For the content of elements and for attributes in quotes.
template <typename Text = string_builder>
WARPWRIGHT_COLD Text xml_text(string_builder const& text) {
  Text escaped;
  for (char const c : valid_utf8(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        // XML cannot represent the other control characters.
        escaped += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return escaped;
}

// A string with its quotes.
template <typename Text = string_builder>
WARPWRIGHT_COLD Text json_text(std::string const& text) {
  Text escaped = "\"";
  for (char const c : valid_utf8(text)) {
    if (c == '"' || c == '\\') {
      escaped += '\\';
      escaped += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      escaped += code;
    } else {
      escaped += c;
    }
  }
  return escaped + '"';
}

// JSON has no infinity and no NaN.
template <typename Text = string_builder>
WARPWRIGHT_COLD Text json_number(double value, char const* format) {
  bool const finite = value - value == 0.0;
  return finite ? format_number(format, value) : Text{"null"};
}

// A field with its quotes.
template <typename Text = string_builder>
WARPWRIGHT_COLD Text csv_text(std::string const& text) {
  Text quoted = "\"";
  for (char const c : valid_utf8(text)) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace detail

WARPWRIGHT_END
