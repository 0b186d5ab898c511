// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <cstdio>
#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

/// Replaces the decimal separator of the program's locale by the C locale's point, in place.
/// @param number  a number as printf wrote it
inline void undo_locale(char* number) noexcept {
  char* to = number;
  for (char const* from = number; *from != '\0'; ++from) {
    bool const plain = *from != ',' && static_cast<unsigned char>(*from) < 0x80;
    if (plain) {
      *to++ = *from;
    } else if (to == number || to[-1] != '.') {
      *to++ = '.';
    }
  }
  *to = '\0';
}

/// A string of fixed capacity for the messages of exceptions. It does not allocate, so an
/// out-of-memory error can still be reported, and it compiles faster than concatenated
/// std::strings. Text beyond 999 characters is cut off.
class text {
 public:
  text(char const* value) noexcept { append(value, std::strlen(value)); }
  text(char) = delete;  // would convert to int
  text(int value) noexcept { number("%lld", static_cast<long long>(value)); }
  text(unsigned value) noexcept { number("%llu", static_cast<unsigned long long>(value)); }
  text(long value) noexcept { number("%lld", static_cast<long long>(value)); }
  text(unsigned long value) noexcept { number("%llu", static_cast<unsigned long long>(value)); }
  text(long long value) noexcept { number("%lld", value); }
  text(unsigned long long value) noexcept { number("%llu", value); }
  text(double value) noexcept { number("%g", value); }
  text(void const* value) noexcept { number("%p", value); }
  /// "file:line"; of a long path the last 200 characters remain.
  text(char const* file, int line) noexcept {
    std::size_t const length = std::strlen(file);
    std::size_t const kept = length < 200 ? length : 200;
    append(file + (length - kept), kept);
    *this += text{":"} + line;
  }

  text& operator+=(text const& more) noexcept {
    append(more.data_, more.size_);
    return *this;
  }
  friend text operator+(text sum, text const& more) noexcept {
    sum += more;
    return sum;
  }

  [[nodiscard]] char const* c_str() const noexcept { return data_; }

 private:
  template <class Number>
  void number(char const* format, Number value) noexcept {
    char digits[40] = {};
    std::snprintf(digits, sizeof digits, format, value);
    undo_locale(digits);
    append(digits, std::strlen(digits));
  }
  void append(char const* more, std::size_t length) noexcept {
    std::size_t const free = sizeof data_ - 1 - size_;
    if (length > free) length = free;
    std::memcpy(data_ + size_, more, length);
    size_ += length;
    data_[size_] = '\0';
  }

  std::size_t size_ = 0;
  char data_[1000] = {};
};

}  // namespace detail

WARPWRIGHT_END
