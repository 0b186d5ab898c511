// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The functors of the operators of expression.hpp, of where() and of cast(), named as those of
// <functional>: what each does to one element.
#pragma once

#include <warpwright/kernel/detail/expression/nodes.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

// How describe() prints an operator. An operand of lower precedence gets parentheses: 1 is ||, 2
// &&, 3 comparison, 4 addition, 5 multiplication, 6 a prefix.
struct operator_syntax {
  char const* symbol;
  int precedence;
};

#define WARPWRIGHT_OPERATOR(of, symbol, precedence, result)       \
  struct of {                                                     \
    static constexpr operator_syntax syntax{#symbol, precedence}; \
    template <class A, class B>                                   \
    WARPWRIGHT_HOST_DEVICE auto operator()(A a, B b) const {      \
      return result;                                              \
    }                                                             \
  };
WARPWRIGHT_OPERATOR(plus, +, 4, wrapped<A>(unwrapped(a) + unwrapped(b)))
WARPWRIGHT_OPERATOR(minus, -, 4, wrapped<A>(unwrapped(a) - unwrapped(b)))
WARPWRIGHT_OPERATOR(multiplies, *, 5, wrapped<A>(unwrapped(a) * unwrapped(b)))
WARPWRIGHT_OPERATOR(equal_to, ==, 3, a == b)
WARPWRIGHT_OPERATOR(not_equal_to, !=, 3, a != b)
WARPWRIGHT_OPERATOR(less, <, 3, a < b)
WARPWRIGHT_OPERATOR(less_equal, <=, 3, a <= b)
WARPWRIGHT_OPERATOR(greater, >, 3, a > b)
WARPWRIGHT_OPERATOR(greater_equal, >=, 3, a >= b)
WARPWRIGHT_OPERATOR(logical_and, &&, 2, a&& b)
WARPWRIGHT_OPERATOR(logical_or, ||, 1, a || b)
#undef WARPWRIGHT_OPERATOR

// Whether a / b would end the process or be undefined for some a: b is 0 or -1. For these b the
// quotient is a * b, wrapped: 0 or the negative of a.
template <class T>
WARPWRIGHT_HOST_DEVICE bool divides_by_product(T b) {
  return std::is_signed<T>::value ? b == T{0} || b == static_cast<T>(-1) : b == T{0};
}

struct divides {
  static constexpr operator_syntax syntax{"/", 5};
  template <class A, class B>
  WARPWRIGHT_HOST_DEVICE auto operator()(A a, B b) const {
    if constexpr (std::is_integral<B>::value) {
      bool const product = divides_by_product(b);
      auto const quotient = a / (product ? B{1} : b);
      return product ? wrapped<B>(unwrapped(a) * unwrapped(b)) : quotient;
    } else {
      return a / b;
    }
  }
};

struct modulus {
  static constexpr operator_syntax syntax{"%", 5};
  template <class T>
  WARPWRIGHT_HOST_DEVICE auto operator()(T a, T b) const {
    if constexpr (std::is_integral<T>::value) {
      auto const remainder = a % (divides_by_product(b) ? T{1} : b);
      return b == T{0} ? +a : remainder;
    } else if constexpr (std::is_floating_point<T>::value || is_complex<T>) {
      static_assert(
          std::is_integral<T>::value,
          "warpwright::ew: % is of integers; of floating point write x - y * floor(x / y)");
      return T{};
    } else {
      return a % b;
    }
  }
};

struct logical_not {
  static constexpr operator_syntax syntax{"!", 6};
  WARPWRIGHT_HOST_DEVICE bool operator()(bool a) const { return !a; }
};

struct negate {
  static constexpr operator_syntax syntax{"-", 6};
  template <class T>
  WARPWRIGHT_HOST_DEVICE auto operator()(T a) const {
    return negative_of(a);
  }
};

struct where_function {
  static constexpr char const* name = "where";
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(bool condition, T yes, T no) const {
    return condition ? yes : no;
  }
};

template <class T>
struct cast_function {
  static constexpr char const* name = "cast";
  static constexpr char const* type_name = element_name<T>();
  template <class From>
  WARPWRIGHT_HOST_DEVICE typename element_traits<T>::value operator()(From from) const {
    return stored_value<T>(prepare_encode<T>(from));
  }
};

}  // namespace ew::detail

WARPWRIGHT_END
