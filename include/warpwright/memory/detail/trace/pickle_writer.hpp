// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/core/detail/text/text.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

/// Writes a pickle of protocol 2, which Python's pickle.load and the JavaScript of memory_viz read.
class pickle_writer {
 public:
  pickle_writer(std::FILE* file, file_operations const& operations) : out_{file, operations} {
    byte(0x80);
    byte(2);
  }
  void begin_dict() { out_.write("}(", 2); }
  void end_dict() { byte('u'); }
  void begin_list() { out_.write("](", 2); }
  // Readers push a whole batch onto their stack; JavaScript's overflows with very large batches.
  void next_batch() { out_.write("e(", 2); }
  void end_list() { byte('e'); }
  void empty_list() { byte(']'); }
  void boolean(bool value) { byte(value ? 0x88 : 0x89); }
  /// Combines the last two values into a pair.
  void pair() { byte(0x86); }
  WARPWRIGHT_COLD void string(char const* value) {
    std::size_t const length = std::strlen(value);
    number('X', length, 4);
    // A file's name may contain any bytes, but readers reject a pickle with text that is not UTF-8.
    for (std::size_t i = 0; i < length;) {
      std::size_t const valid_bytes = utf8_bytes(value + i);
      out_.write(valid_bytes != 0 ? value + i : "?", valid_bytes != 0 ? valid_bytes : 1);
      i += valid_bytes != 0 ? valid_bytes : 1;
    }
  }
  WARPWRIGHT_COLD void integer(std::uint64_t value) {
    if (value < 0x100U) {
      number('K', value, 1);
    } else if (value < 0x10000U) {
      number('M', value, 2);
    } else if (value < 0x80000000U) {
      number('J', value, 4);
    } else {  // two's complement: a leading zero keeps it positive
      unsigned length = 4;
      while (length < 8 && value >> (8 * length) != 0) ++length;
      bool const leading_zero = (value >> (8 * length - 1) & 1U) != 0;
      number(0x8a, leading_zero ? length + 1 : length, 1);
      little_endian(value, length);
      if (leading_zero) byte(0);
    }
  }
  /// Stores the last value in the memo. @return its number, for get_memo()
  std::uint32_t put_memo() {
    number('r', memo_count_, 4);
    return memo_count_++;
  }
  void get_memo(std::uint32_t memo) { number('j', memo, 4); }
  void end() { byte('.'); }
  [[nodiscard]] file_writer& file() noexcept { return out_; }

 private:
  void byte(int value) { out_.put(value); }
  void number(int code, std::uint64_t value, unsigned bytes) {
    byte(code);
    little_endian(value, bytes);
  }
  void little_endian(std::uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i) byte(static_cast<int>(value >> (8 * i) & 0xffU));
  }
  file_writer out_;
  std::uint32_t memo_count_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
