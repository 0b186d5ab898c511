// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/text.hpp>

#include <cstdio>
#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE void undo_locale(char* number) noexcept {
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

WARPWRIGHT_INLINE void text::append_number(char* digits) noexcept {
  undo_locale(digits);
  append(digits, std::strlen(digits));
}
WARPWRIGHT_INLINE void text::append(char const* more, std::size_t length) noexcept {
  std::size_t const free = sizeof data_ - 1 - size_;
  if (length > free) length = free;
  std::memcpy(data_ + size_, more, length);
  size_ += length;
  data_[size_] = '\0';
}

WARPWRIGHT_INLINE text::text(char const* value) noexcept { append(value, std::strlen(value)); }
WARPWRIGHT_INLINE text::text(long long value) noexcept {
  char digits[40] = {};
  std::snprintf(digits, sizeof digits, "%lld", value);
  append_number(digits);
}
WARPWRIGHT_INLINE text::text(unsigned long long value) noexcept {
  char digits[40] = {};
  std::snprintf(digits, sizeof digits, "%llu", value);
  append_number(digits);
}
WARPWRIGHT_INLINE text::text(double value) noexcept {
  char digits[40] = {};
  std::snprintf(digits, sizeof digits, "%g", value);
  append_number(digits);
}
WARPWRIGHT_INLINE text::text(void const* value) noexcept {
  char digits[40] = {};
  std::snprintf(digits, sizeof digits, "%p", value);
  append_number(digits);
}
WARPWRIGHT_INLINE text::text(char const* file, int line) noexcept {
  if (std::strstr(file, "include/c++/") != nullptr) {
    *this +=
        "(called by the standard library, as std::make_unique does; pass a source_location to "
        "name the line)";
    return;
  }
  std::size_t const length = std::strlen(file);
  std::size_t const kept = length < 200 ? length : 200;
  append(file + (length - kept), kept);
  *this += text{":"} + line;
}

WARPWRIGHT_INLINE text& text::operator+=(text const& more) noexcept {
  append(more.data_, more.size_);
  return *this;
}
WARPWRIGHT_INLINE text&& operator+(text&& sum, text const& more) noexcept {
  sum += more;
  return static_cast<text&&>(sum);
}
WARPWRIGHT_INLINE text operator+(text const& first, text const& more) noexcept {
  text sum = first;
  sum += more;
  return sum;
}

WARPWRIGHT_INLINE std::size_t utf8_bytes(char const* text) noexcept {
  auto const at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char const lead = at(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  std::size_t const bytes = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  for (std::size_t i = 1; i < bytes; ++i) {  // stops at the terminating zero
    if ((at(i) & 0xc0U) != 0x80U) return 0;
  }
  bool const too_long = (lead == 0xe0 && at(1) < 0xa0) || (lead == 0xf0 && at(1) < 0x90);
  bool const surrogate = lead == 0xed && at(1) > 0x9f;
  bool const too_high = lead == 0xf4 && at(1) > 0x8f;
  return too_long || surrogate || too_high ? 0 : bytes;
}

}  // namespace detail

WARPWRIGHT_END
