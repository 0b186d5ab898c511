// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// Replaces the decimal separator of the program's locale by the C locale's point, in place.
/// @param number  a number as printf wrote it
WARPWRIGHT_COLD void undo_locale(char* number) noexcept;

/// A string of fixed capacity for the messages of exceptions. It does not allocate, so an
/// out-of-memory error can still be reported, and it compiles faster than concatenated
/// std::strings. Text beyond 999 characters is cut off.
class text {
 public:
  WARPWRIGHT_COLD text(char const* value) noexcept;
  text(char) = delete;  // would convert to int
  WARPWRIGHT_COLD text(int value) noexcept : text{static_cast<long long>(value)} {}
  WARPWRIGHT_COLD text(unsigned value) noexcept : text{static_cast<unsigned long long>(value)} {}
  WARPWRIGHT_COLD text(long value) noexcept : text{static_cast<long long>(value)} {}
  WARPWRIGHT_COLD text(unsigned long value) noexcept
      : text{static_cast<unsigned long long>(value)} {}
  WARPWRIGHT_COLD text(long long value) noexcept;
  WARPWRIGHT_COLD text(unsigned long long value) noexcept;
  WARPWRIGHT_COLD text(double value) noexcept;
  WARPWRIGHT_COLD text(void const* value) noexcept;
  /// "file:line"; of a long path the last 200 characters remain. A line of the standard library,
  /// whose std::make_unique or emplace() evaluated the default argument, is no caller's.
  WARPWRIGHT_COLD text(char const* file, int line) noexcept;

  WARPWRIGHT_COLD text& operator+=(text const& more) noexcept;
  // The sum of a temporary is that temporary, as of a string_builder.
  friend text&& operator+(text&& sum, text const& more) noexcept;
  friend text operator+(text const& first, text const& more) noexcept;

  [[nodiscard]] char const* c_str() const noexcept { return data_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

 private:
  WARPWRIGHT_COLD void append_number(char* digits) noexcept;
  WARPWRIGHT_COLD void append(char const* more, std::size_t length) noexcept;

  std::size_t size_ = 0;
  char data_[1000] = {};
};

WARPWRIGHT_COLD text&& operator+(text&& sum, text const& more) noexcept;
WARPWRIGHT_COLD text operator+(text const& first, text const& more) noexcept;

/// @param text  ends in a zero
/// @return the length in bytes of the text's first UTF-8 character; 0: not UTF-8
WARPWRIGHT_COLD std::size_t utf8_bytes(char const* text) noexcept;

/// The name of an enumerator, from a list in the order of the enumeration; "unknown" beyond it.
template <typename Enum, std::size_t N>
constexpr char const* enum_name(char const* const (&names)[N], Enum value) noexcept {
  auto const index = static_cast<std::size_t>(value);
  return index < N ? names[index] : "unknown";
}

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/text/text_definitions.hpp>
#endif
