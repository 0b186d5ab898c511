// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

// g++ reports an int as the bound of an array in every template (-Wsign-conversion).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif
/// T[Count] with a count that is a parameter of a template; as a parameter, both are deduced.
template <class T, int Count>
using c_array = T[Count];
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace ew::detail

WARPWRIGHT_END
