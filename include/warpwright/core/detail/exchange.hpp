// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// std::exchange and std::swap for handles: <utility>'s versions are constrained templates, which
// are slow to compile.
#pragma once

#include <warpwright/core/detail/config.hpp>

WARPWRIGHT_BEGIN

namespace detail {

template <class Handle>
struct handle_value {
  using type = Handle;  // not deduced, so that nullptr and 0 convert
};
template <class Handle>
Handle exchange(Handle& object, typename handle_value<Handle>::type value) noexcept {
  Handle const before = object;
  object = value;
  return before;
}

template <class Handle>
void swap(Handle& a, Handle& b) noexcept {
  Handle const before = a;
  a = b;
  b = before;
}

}  // namespace detail

WARPWRIGHT_END
