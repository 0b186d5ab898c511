// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// The base of a class of options: holds their values, a plain struct that code in detail/ takes.
/// Every setter returns a changed copy:
///   constexpr self cache_bytes(std::size_t n) const { return with(&values::cache_bytes, n); }
template <class Self, class Values>
class options_base {
 protected:
  using self = Self;
  using values = Values;

  template <class T>
  constexpr Self with(T Values::*value, T to) const {
    Self copy = static_cast<Self const&>(*this);
    copy.values_.*value = to;
    return copy;
  }

  Values values_{};

 private:
  friend constexpr Values const& values_of(options_base const& options) noexcept {
    return options.values_;
  }
};

}  // namespace detail

WARPWRIGHT_END
