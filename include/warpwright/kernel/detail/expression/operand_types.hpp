// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What may stand in an expression, with texts for what may not; the types in which operands are
// combined and functions are called; and how integers wrap.
#pragma once

#include <warpwright/kernel/detail/expression/pack.hpp>
#include <warpwright/kernel/detail/expression/packed_vector.hpp>
#include <warpwright/kernel/detail/numeric/element.hpp>

WARPWRIGHT_BEGIN

namespace ew {

template <class T, class E>
struct assignment;
template <class K, class E>
struct reduction;
template <class T>
struct located;
template <class... R>
struct reduced;

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
inline constexpr bool is_located = false;
template <class T>
inline constexpr bool is_located<located<T>> = true;

template <class T>
inline constexpr bool is_reduction_assignment = false;
template <class T, class K, class E>
inline constexpr bool is_reduction_assignment<reduction_assignment<T, K, E>> = true;

// What an operator accepts: expressions, and numbers beside an expression; and pointers, so that
// the texts in as_expression() are what the compiler prints.
template <class... T>
using if_operands =
    std::enable_if_t<(is_expression<T> || ...) &&
                     ((is_expression<T> || is_scalar<T> || std::is_pointer<T>::value) && ...)>;

template <class X>
using if_expression = std::enable_if_t<is_expression<X>>;

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

// The type in which operands are combined: C++'s common type, without weak numbers where there is a
// strong floating-point operand.
template <class, class... T>
struct common_operand_type {
  static_assert(sizeof...(T) == 0,
                "warpwright::ew: these operands have no common type; give structs to map()");
  using type = float;
};
template <class... T>
struct common_operand_type<std::void_t<std::common_type_t<T...>>, T...> {
  using type = std::common_type_t<T...>;
};
template <class C, class... A>
struct operand_types {
  static constexpr bool strong_float =
      ((!A::weak && std::is_floating_point<typename A::template value_type<C>>::value) || ...);
  static_assert(
      !(is_complex<typename A::template value_type<C>> || ...) ||
          !((!A::weak && std::is_same<typename A::template value_type<C>, double>::value) || ...),
      "warpwright::ew: a double beside complex<float> would lose its digits: cast<float>() it");
  static_assert(
      !(is_located<typename A::template value_type<C>> || ...),
      "warpwright::ew: argmin() and argmax() find a located, no number: give it to map()");
  template <class E>
  using vote =
      std::conditional_t<strong_float && E::weak, bool, typename E::template value_type<C>>;
  using type = typename common_operand_type<void, vote<A>...>::type;
};

template <std::size_t Index, class... A>
using nth_t = std::decay_t<decltype(at<Index>(std::declval<pack<A...> const&>()))>;

// Which types a function gets its operands in, and whether its result is weak if they are:
// in_common_type if integers stay integers (abs), in_real_type if the result is real (exp).
struct unconverted {
  template <class... A>
  static constexpr bool weak = false;
  template <std::size_t Index, class C, class... A>
  using argument = typename nth_t<Index, A...>::template value_type<C>;
};
struct in_common_type {
  template <class... A>
  static constexpr bool weak = (A::weak && ...);
  template <std::size_t Index, class C, class... A>
  using argument = typename operand_types<C, A...>::type;
};
struct in_arithmetic_types {  // as above, but a real operand beside a complex one is float
  template <class... A>
  static constexpr bool weak = (A::weak && ...);
  template <std::size_t Index, class C, class... A>
  using argument =
      std::conditional_t<is_complex<typename operand_types<C, A...>::type> &&
                             !is_complex<typename nth_t<Index, A...>::template value_type<C>>,
                         float, typename operand_types<C, A...>::type>;
};
struct as_conditions {
  template <class... A>
  static constexpr bool weak = false;
  template <std::size_t Index, class C, class... A>
  using argument = bool;
};
// The type of a real function's arguments, given the common type of its operands.
template <class V>
struct real_type {
  static_assert(std::disjunction<std::is_arithmetic<V>, std::bool_constant<is_complex<V>>,
                                 std::is_convertible<V, float>>::value,
                "warpwright::ew: this function is of numbers; give a struct to map()");
  using type = std::conditional_t<std::is_same<V, double>::value, double, float>;
};
struct in_real_type {  // double stays, everything else becomes float
  template <class... A>
  static constexpr bool weak = (A::weak && ...);
  template <std::size_t Index, class C, class... A>
  using argument = typename real_type<typename operand_types<C, A...>::type>::type;
};
struct after_condition {
  template <class Condition, class... A>
  static constexpr bool weak = (A::weak && ...);
  template <std::size_t Index, class C, class Condition, class... A>
  using argument = std::conditional_t<Index == 0, bool, typename operand_types<C, A...>::type>;
};

// Signed integers wrap as unsigned ones do, where C++ leaves overflow undefined; so do the products
// of two unsigned short, which C++ computes as int.
template <class T, class = void>
inline constexpr bool may_overflow = false;
template <class T>
inline constexpr bool may_overflow<T, std::enable_if_t<std::is_integral<T>::value>> =
    std::is_signed<decltype(T{} + T{})>::value;
template <class T>
WARPWRIGHT_HOST_DEVICE auto unwrapped(T value) {
  if constexpr (may_overflow<T>) {
    return static_cast<std::make_unsigned_t<decltype(+value)>>(value);
  } else {
    return value;
  }
}
template <class T, class Result>
WARPWRIGHT_HOST_DEVICE auto wrapped(Result value) {
  if constexpr (may_overflow<T>) {
    return static_cast<decltype(T{} + T{})>(value);
  } else {
    return value;
  }
}

template <class, class T>
inline constexpr bool has_negative = false;
template <class T>
inline constexpr bool has_negative<std::void_t<decltype(-std::declval<T>())>, T> = true;
template <class T>
WARPWRIGHT_HOST_DEVICE auto negative_of(T value) {
  if constexpr (has_negative<void, T>) {
    return wrapped<T>(-unwrapped(value));
  } else {
    static_assert(has_negative<void, T>,
                  "warpwright::ew: abs() and the unary - are of numbers; give a struct to map()");
    return value;
  }
}

// nvcc's wrapper of an extended lambda: not trivially copyable, yet copied as a kernel's argument;
// one marked __device__ alone is not callable on the host.
template <class F>
inline constexpr bool is_extended_lambda =
#if defined(__CUDACC_EXTENDED_LAMBDA__)
    __nv_is_extended_device_lambda_closure_type(F) ||
    __nv_is_extended_host_device_lambda_closure_type(F);
#else
    false;
#endif
// Whether the host compiler sees what a __device__ lambda returns; it is not const there.
template <class F>
inline constexpr bool returns_as_declared =
#if defined(__CUDACC_EXTENDED_LAMBDA__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1206
    __nv_is_extended_device_lambda_with_preserved_return_type(F);
#else
    false;
#endif
template <class F>
inline constexpr bool returns_unknown =
#if defined(__CUDACC_EXTENDED_LAMBDA__)
    __nv_is_extended_device_lambda_closure_type(F) && !returns_as_declared<F>;
#else
    false;
#endif

template <class Types, class F, class C, class Indices, class... A>
struct result_of_call;
template <class Types, class F, class C, std::size_t... Index, class... A>
struct result_of_call<Types, F, C, std::index_sequence<Index...>, A...> {
  using function = std::conditional_t<returns_as_declared<F>, F&, F const&>;
  using type = std::decay_t<decltype(std::declval<function>()(
      std::declval<typename Types::template argument<Index, C, A...>>()...))>;
};

template <class F, class... Argument>
inline constexpr bool is_callable =
    std::is_invocable<F const&, Argument...>::value && !std::is_member_pointer<F>::value;

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
