// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// The name of an enumerator, from a list in the order of the enumeration; "unknown" beyond it.
template <typename Enum, std::size_t N>
constexpr char const* enum_name(char const* const (&names)[N], Enum value) noexcept {
  auto const index = static_cast<std::size_t>(value);
  return index < N ? names[index] : "unknown";
}

}  // namespace detail

WARPWRIGHT_END
