// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

constexpr bool is_power_of_two(std::size_t value) noexcept {
  return value != 0 && (value & (value - 1)) == 0;
}

[[noreturn]] WARPWRIGHT_COLD inline void throw_bad_alignment(char const* who, std::size_t alignment,
                                                             std::size_t maximum,
                                                             source_location where) {
  throw_invalid_argument(text{who} + ": an alignment of " + alignment +
                             " bytes is not a power of two from 1 to " + maximum,
                         where);
}

inline void require_alignment(char const* who, std::size_t alignment, std::size_t maximum,
                              source_location where) {
  if (is_power_of_two(alignment) && alignment <= maximum) return;
  throw_bad_alignment(who, alignment, maximum, where);
}

}  // namespace detail

WARPWRIGHT_END
