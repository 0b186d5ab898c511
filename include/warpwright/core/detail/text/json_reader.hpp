// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads JSON of a form that is known: objects, arrays, texts and whole numbers.
#pragma once

#include <warpwright/core/detail/text/line_fields.hpp>
#include <warpwright/core/detail/text/text.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

/// What is wrong with a text, and at which byte.
class json_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Every function takes a value, or throws json_error.
class json_reader {
 public:
  /// @param begin  outlives the reader
  json_reader(char const* begin, std::size_t bytes) noexcept
      : begin_{begin}, at_{begin}, end_{begin + bytes} {}

  /// @param member  `void(std::string const& name)`: takes the value
  template <class Member>
  void object(Member&& member) {
    list('{', '}', [&] {
      std::string const name = string();
      expect(':');
      member(name);
    });
  }
  /// @param element  `void()`: takes the element
  template <class Element>
  void array(Element&& element) {
    list('[', ']', element);
  }
  /// @return a number without sign and fraction
  WARPWRIGHT_COLD std::uint64_t integer() {
    skip_space();
    char const* const first = at_;
    while (at_ != end_ && is_digit(*at_)) ++at_;
    std::uint64_t value = 0;
    if (!read_integer({first, at_}, value)) fail("expected a whole number");
    return value;
  }
  WARPWRIGHT_COLD std::string string() {
    expect('"');
    std::string value;
    for (; at_ != end_ && *at_ != '"'; ++at_) {
      if (static_cast<unsigned char>(*at_) < 0x20) fail("a control character in a text");
      if (*at_ != '\\') {
        value += *at_;
      } else {
        append_escaped_character(value);
      }
    }
    expect('"');
    return value;
  }
  WARPWRIGHT_COLD void expect_end() {
    skip_space();
    if (at_ != end_) fail("expected the end");
  }
  [[noreturn]] WARPWRIGHT_COLD void fail(char const* problem) const {
    throw json_error{
        (text{"byte "} + static_cast<std::size_t>(at_ - begin_) + ": " + problem).c_str()};
  }

 private:
  WARPWRIGHT_COLD void skip_space() noexcept {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  WARPWRIGHT_COLD bool take(char c) noexcept {
    skip_space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  WARPWRIGHT_COLD void expect(char c) {
    char const problem[] = {'e', 'x', 'p', 'e', 'c', 't', 'e', 'd', ' ', c, '\0'};
    if (!take(c)) fail(problem);
  }
  template <class Element>
  void list(char open, char close, Element&& element) {
    expect(open);
    if (take(close)) return;
    do {
      element();
    } while (take(','));
    expect(close);
  }
  // At the backslash; leaves off at the last character.
  WARPWRIGHT_COLD void append_escaped_character(std::string& value) {
    constexpr char letters[] = "\"\\/bfnrt";
    constexpr char means[] = "\"\\/\b\f\n\r\t";
    if (++at_ == end_) fail("a text without an end");
    if (*at_ != 'u') {
      char const* const letter = *at_ == '\0' ? nullptr : std::strchr(letters, *at_);
      if (letter == nullptr) fail("an unknown escape");
      value += means[letter - letters];
      return;
    }
    std::uint32_t code = code_unit();
    if (code >= 0xd800U && code < 0xdc00U && end_ - at_ > 2 && at_[1] == '\\' && at_[2] == 'u') {
      at_ += 2;
      std::uint32_t const low = code_unit() ^ 0xdc00U;
      if (low < 0x400U) code = 0x10000U + ((code - 0xd800U) << 10U) + low;
    }
    if (code >= 0xd800U && code < 0xe000U) fail("half of a character");
    if (code < 0x80U) {
      value += static_cast<char>(code);
      return;
    }
    unsigned more = code < 0x800U ? 1 : code < 0x10000U ? 2 : 3;  // bytes, of 6 bits
    value += static_cast<char>((0xffU << (7U - more) & 0xffU) | code >> (6 * more));
    while (more-- != 0) value += static_cast<char>(0x80U | (code >> (6 * more) & 0x3fU));
  }
  WARPWRIGHT_COLD std::uint32_t code_unit() {
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      constexpr char digits[] = "0123456789abcdefABCDEF";
      if (++at_ == end_) fail("a text without an end");
      char const* const digit = *at_ == '\0' ? nullptr : std::strchr(digits, *at_);
      if (digit == nullptr) fail("an unknown escape");
      auto const value = static_cast<std::uint32_t>(digit - digits);
      code = code << 4U | (value < 16 ? value : value - 6);
    }
    return code;
  }

  char const* begin_;
  char const* at_;
  char const* end_;
};

}  // namespace detail

WARPWRIGHT_END
