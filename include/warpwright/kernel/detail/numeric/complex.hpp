// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The class of complex numbers, and the types that are elements of complex arrays.
#pragma once

#include <warpwright/kernel/detail/numeric/small_float.hpp>

#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

namespace ew {

template <class Real>
struct complex;

namespace detail {

template <class T, class = void>
inline constexpr bool looks_complex = false;
template <class T>
inline constexpr bool
    looks_complex<T, std::void_t<typename T::value_type, decltype(std::declval<T const&>().real()),
                                 decltype(std::declval<T const&>().imag())>> =
        std::is_same<typename T::value_type, float>::value &&
        sizeof(T) == 2 * sizeof(float) && std::is_trivially_copyable<T>::value;

template <class T>
inline constexpr bool is_complex = false;
template <class Real>
inline constexpr bool is_complex<complex<Real>> = true;

// A complex element in memory, whatever its type.
struct
#if defined(__GNUC__)
    __attribute__((may_alias))
#endif
    complex_bits {
  float re, im;
};

// By which power of two a + bi is scaled to about 1, from -126.
WARPWRIGHT_HOST_DEVICE inline int exponent_to_one(float a, float b) {
  std::uint32_t const bits_a = bit_copy<std::uint32_t>(a) & 0x7fffffffU;
  std::uint32_t const bits_b = bit_copy<std::uint32_t>(b) & 0x7fffffffU;
  int const up = 127 - static_cast<int>((bits_a > bits_b ? bits_a : bits_b) >> 23U);
  return up < -126 ? -126 : up;
}
// 2^k, k from -126 to 127.
WARPWRIGHT_HOST_DEVICE inline float power_of_two(int k) {
  return bit_copy<float>(static_cast<std::uint32_t>(k + 127) << 23U);
}

// (a + bi) / (c + di). Both are scaled to about 1 by powers of two, which is exact, so that no
// square leaves float's range. The quotient is scaled back in two steps.
WARPWRIGHT_HOST_DEVICE inline complex_bits quotient(float a, float b, float c, float d) {
  int const up_dividend = exponent_to_one(a, b);
  int const up_divisor = exponent_to_one(c, d);
  a *= power_of_two(up_dividend);
  b *= power_of_two(up_dividend);
  c *= power_of_two(up_divisor);
  d *= power_of_two(up_divisor);
  float const square = c * c + d * d;
  int const wanted = up_divisor - up_dividend;
  int const back = wanted < -252 ? -252 : wanted;
  float const first = power_of_two(back / 2);
  float const second = power_of_two(back - back / 2);
  return {(a * c + b * d) / square * first * second, (b * c - a * d) / square * first * second};
}

}  // namespace detail

/// A complex number of two floats, the real part first, as in std::complex<float>.
///
/// map() passes complex elements to its function as this type. It converts to and from every type
/// that may be the element of a complex array; see kernel/expression.hpp.
template <class Real>
struct complex {
  static_assert(std::is_same<Real, float>::value,
                "warpwright::ew::complex: the parts must be float");
  using value_type = Real;

  complex() = default;
  WARPWRIGHT_HOST_DEVICE constexpr complex(Real real, Real imag = 0) : re{real}, im{imag} {}
  WARPWRIGHT_NO_EXEC_CHECK
  template <class Z, class = std::enable_if_t<detail::looks_complex<Z>>>
  WARPWRIGHT_HOST_DEVICE constexpr complex(Z const& z) : re{z.real()}, im{z.imag()} {}
  WARPWRIGHT_NO_EXEC_CHECK
  template <class Z, class = std::enable_if_t<detail::looks_complex<Z>>>
  WARPWRIGHT_HOST_DEVICE constexpr operator Z() const {
    return Z(re, im);
  }

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE constexpr Real real() const { return re; }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE constexpr Real imag() const { return im; }

  WARPWRIGHT_HOST_DEVICE friend constexpr complex operator-(complex a) { return {-a.re, -a.im}; }
  WARPWRIGHT_HOST_DEVICE friend constexpr complex operator+(complex a, complex b) {
    return {a.re + b.re, a.im + b.im};
  }
  WARPWRIGHT_HOST_DEVICE friend constexpr complex operator+(complex a, Real b) {
    return {a.re + b, a.im};
  }
  WARPWRIGHT_HOST_DEVICE friend constexpr complex operator+(Real a, complex b) { return b + a; }
  WARPWRIGHT_HOST_DEVICE friend constexpr complex operator-(complex a, complex b) {
    return {a.re - b.re, a.im - b.im};
  }
  WARPWRIGHT_HOST_DEVICE friend constexpr complex operator-(complex a, Real b) {
    return {a.re - b, a.im};
  }
  WARPWRIGHT_HOST_DEVICE friend constexpr complex operator-(Real a, complex b) {
    return {a - b.re, -b.im};
  }
  /// |error| <= sqrt(5) 2^-24 |a b|. The relative error of a part that cancels may be larger.
  /// Source: R. Brent, C. Percival, P. Zimmermann, "Error bounds on complex floating-point
  /// multiplication", Mathematics of Computation 76 (2007).
  WARPWRIGHT_HOST_DEVICE friend constexpr complex operator*(complex a, complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  WARPWRIGHT_HOST_DEVICE friend constexpr complex operator*(complex a, Real b) {
    return {a.re * b, a.im * b};
  }
  WARPWRIGHT_HOST_DEVICE friend constexpr complex operator*(Real a, complex b) { return b * a; }
  /// |error| <= 6 * 2^-24 |a / b|, without intermediate overflow. Both parts of z / 0 are NaN.
  WARPWRIGHT_HOST_DEVICE friend complex operator/(complex a, complex b) {
    detail::complex_bits const q = detail::quotient(a.re, a.im, b.re, b.im);
    return {q.re, q.im};
  }
  WARPWRIGHT_HOST_DEVICE friend constexpr complex operator/(complex a, Real b) {
    return {a.re / b, a.im / b};
  }
  WARPWRIGHT_HOST_DEVICE friend complex operator/(Real a, complex b) { return complex{a} / b; }
  WARPWRIGHT_HOST_DEVICE friend constexpr bool operator==(complex a, complex b) {
    return a.re == b.re && a.im == b.im;
  }
  WARPWRIGHT_HOST_DEVICE friend constexpr bool operator!=(complex a, complex b) {
    return !(a == b);
  }

  Real re;
  Real im;
};

#define WARPWRIGHT_ORDER(symbol)                                                            \
  template <class Real>                                                                     \
  WARPWRIGHT_HOST_DEVICE auto operator symbol(complex<Real> const&, complex<Real> const&) { \
    static_assert(sizeof(Real) == 0,                                                        \
                  "warpwright::ew: complex numbers have no order: compare real(), imag(), " \
                  "abs() or abs_squared()");                                                \
    return false;                                                                           \
  }
/// These exist for the text of their error.
WARPWRIGHT_ORDER(<)
WARPWRIGHT_ORDER(<=)
WARPWRIGHT_ORDER(>)
WARPWRIGHT_ORDER(>=)
#undef WARPWRIGHT_ORDER

}  // namespace ew

WARPWRIGHT_END
