// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What assigning an expression to out() makes: a plain value that evaluators read.
#pragma once

#include <warpwright/kernel/detail/expression/nodes.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// What assigning to out() returns, and run() evaluates.
template <class T, class E>
struct assignment {
  detail::bits_of<T>* data;
  std::uint64_t size;
  E expression;
};

/// What assigning to out() of a strided array returns; detail/views/strided_output.hpp defines it.
template <class T, int Rank, class E>
struct strided_assignment;

/// What tie() returns, and run() evaluates.
template <class... A>
struct assignments {
  detail::pack<A...> each;
};

namespace detail {

template <class>
inline constexpr bool is_assignment = false;
template <class T, class E>
inline constexpr bool is_assignment<assignment<T, E>> = true;
template <class T, int Rank, class E>
inline constexpr bool is_assignment<strided_assignment<T, Rank, E>> = true;
template <class... A>
using if_assignments = std::enable_if_t<(is_assignment<A> && ...)>;

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
