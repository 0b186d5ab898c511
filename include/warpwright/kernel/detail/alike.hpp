// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An expression that names one array several times, as x * x does, holds its address several times,
// and a compiler that cannot know them equal loads every element as often. Here all of them are
// made one value, which it sees.
#pragma once

#include <warpwright/kernel/detail/nodes.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// The element type of all in() below a node (`none` without one, `several` where they differ),
// their number, and their places among the node's arrays, a bit each.
struct none;
struct several;
template <class A, class B>
using either_type =
    std::conditional_t<std::is_same<A, none>::value || std::is_same<A, B>::value, B,
                       std::conditional_t<std::is_same<B, none>::value, A, several>>;

template <class E>
struct inputs_of {
  using type = none;
  static constexpr int count = 0;
  static constexpr std::uint64_t bits = 0;
};
template <class E>
WARPWRIGHT_HOST_DEVICE void point_inputs_at(E&, void const*) {}
template <class T>
WARPWRIGHT_HOST_DEVICE void point_inputs_at(input<T>& node, void const* data);
template <class T, class E>
WARPWRIGHT_HOST_DEVICE void point_inputs_at(computed_as<T, E>& node, void const* data);
template <class Types, class F, class... A>
WARPWRIGHT_HOST_DEVICE void point_inputs_at(call<Types, F, A...>& node, void const* data);

template <class T>
WARPWRIGHT_HOST_DEVICE void point_inputs_at(input<T>& node, void const* data) {
  node.data = static_cast<bits_of<T> const*>(data);
}
template <class T, class E>
WARPWRIGHT_HOST_DEVICE void point_inputs_at(computed_as<T, E>& node, void const* data) {
  point_inputs_at(node.expression, data);
}
template <class Arguments, std::size_t... Index>
WARPWRIGHT_HOST_DEVICE void point_each_at(Arguments& arguments, void const* data,
                                          std::index_sequence<Index...>) {
  (point_inputs_at(at<Index>(arguments), data), ...);
}
template <class Types, class F, class... A>
WARPWRIGHT_HOST_DEVICE void point_inputs_at(call<Types, F, A...>& node, void const* data) {
  point_each_at(node.arguments, data, std::index_sequence_for<A...>{});
}

template <class T>
struct inputs_of<input<T>> {
  using type = T;
  static constexpr int count = 1;
  static constexpr std::uint64_t bits = 1;
};
template <class T, class E>
struct inputs_of<computed_as<T, E>> : inputs_of<E> {};
template <class... A>
struct inputs_of_all {
  using type = none;
  static constexpr int count = 0;
  static constexpr std::uint64_t bits = 0;
};
template <class A, class... Rest>
struct inputs_of_all<A, Rest...> {
  using type = either_type<typename inputs_of<A>::type, typename inputs_of_all<Rest...>::type>;
  static constexpr int count = inputs_of<A>::count + inputs_of_all<Rest...>::count;
  static constexpr std::uint64_t bits = inputs_of<A>::bits | inputs_of_all<Rest...>::bits
                                                                 << A::operands;
};
template <class Types, class F, class... A>
struct inputs_of<call<Types, F, A...>> : inputs_of_all<A...> {};

// Whether the arrays of an expression may turn out to be one.
template <class E>
inline constexpr bool may_be_alike =
    inputs_of<E>::count > 1 && !std::is_same<typename inputs_of<E>::type, several>::value;

/// Answers the address that all in() share, or null.
inline void const* shared_address(operand const* operands, int count) {
  std::uint64_t address = 0;
  for (int k = 0; k < count; ++k) {
    if (operands[k].kind != reach::elements) continue;
    if (address != 0 && operands[k].address != address) return nullptr;
    address = operands[k].address;
  }
  return reinterpret_cast<void const*>(address);
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
