// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What may stand in an expression, and texts for what may not.
#pragma once

#include <warpwright/kernel/detail/numeric/element.hpp>

WARPWRIGHT_BEGIN

namespace ew {

template <class T, class E>
struct assignment;
template <class K, class E>
struct reduction;

namespace detail {

template <class T, class K, class E>
struct reduction_assignment;

template <class T, class = void>
inline constexpr bool is_expression = false;
template <class T>
inline constexpr bool is_expression<T, typename T::expression_tag> = true;

template <class T>
inline constexpr bool is_reduction = false;
template <class K, class E>
inline constexpr bool is_reduction<reduction<K, E>> = true;

template <class T>
inline constexpr bool is_reduction_assignment = false;
template <class T, class K, class E>
inline constexpr bool is_reduction_assignment<reduction_assignment<T, K, E>> = true;

// What an operator accepts: expressions, and numbers beside an expression; and reductions and
// pointers, so that the texts in as_expression() are what the compiler prints.
template <class T>
inline constexpr bool is_operand = is_expression<T> || is_reduction<T>;
template <class... T>
using if_operands =
    std::enable_if_t<(is_operand<T> || ...) &&
                     ((is_operand<T> || is_scalar<T> || std::is_pointer<T>::value) && ...)>;

// What `in(y, n) = x` calls.
template <class X, class Node>
constexpr assignment<float, Node> refuse_write(Node const& node) {
  static_assert(sizeof(X) == 0,
                "warpwright::ew: in() and the like are read only; what is written is "
                "out(pointer, n) = expression, of a strided array out(array) = expression");
  return {nullptr, 0, node};
}

// if_operands accepts a long double, so that this text is what the compiler prints.
template <class T>
constexpr void check_no_long_double() {
  static_assert(
      !is_long_double<T>,
      "warpwright::ew: GPUs have no long double; the numbers are float, double, integers, "
      "bool, __half, __nv_bfloat16, __nv_fp8_e4m3, __nv_fp8_e5m2 and complex of float");
}

template <class T>
constexpr bool is_element() {
  check_no_long_double<T>();
  if constexpr (std::is_void<T>::value) {
    return sizeof(typename element_traits<T>::bits) != 0;  // has the text
  } else if constexpr (is_small_float<T>) {
    return true;
  } else {
    return std::is_trivially_copyable<T>::value && std::is_default_constructible<T>::value;
  }
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
