// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <string>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

/// A std::string to add to. The operators of std::string are templates that the compiler tries anew
/// for every length of a literal, which is slow to compile; these are not.
class string_builder {
 public:
  string_builder() = default;
  string_builder(char const* value) : value_(value) {}
  string_builder(char value) : value_(1, value) {}
  string_builder(std::string value) : value_(std::move(value)) {}
  string_builder(int value) : value_(std::to_string(value)) {}
  string_builder(std::size_t value) : value_(std::to_string(value)) {}

  string_builder& operator+=(string_builder const& more) {
    value_.append(more.value_);
    return *this;
  }
  friend string_builder operator+(string_builder sum, string_builder const& more) {
    sum += more;
    return sum;
  }

  [[nodiscard]] std::size_t size() const noexcept { return value_.size(); }
  [[nodiscard]] bool empty() const noexcept { return value_.empty(); }
  void clear() noexcept { value_.clear(); }
  [[nodiscard]] std::string const& str() const noexcept { return value_; }
  operator std::string const&() const noexcept { return value_; }

 private:
  std::string value_;
};

}  // namespace detail

WARPWRIGHT_END
