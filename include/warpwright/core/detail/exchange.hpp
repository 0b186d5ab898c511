// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// std::exchange and std::swap for handles: <utility>'s versions are constrained templates, which
// are slow to compile.
#pragma once

#include <warpwright/core/detail/config.hpp>

WARPWRIGHT_BEGIN

namespace detail {

template <class Handle, class Value>
Handle exchange(Handle& object, Value value) noexcept {
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
