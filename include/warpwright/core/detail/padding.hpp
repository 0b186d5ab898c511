// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// Writes zeros into an object's bytes of padding, which have whatever was on the stack: objects
/// with equal members are then equal byte by byte. Does nothing with clang, which cannot.
/// @pre T is trivially copyable
template <class T>
void clear_padding([[maybe_unused]] T& object) noexcept {
#if WARPWRIGHT_CLEARS_PADDING
  // Not the object itself: g++ 12 would clear bytes of members, if an array of more than 64 bytes
  // of structs is ahead of the padding.
  union alone {
    T object;
  };
  __builtin_clear_padding(&reinterpret_cast<alone&>(object));
#endif
}

}  // namespace detail

WARPWRIGHT_END
