// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Saturating casts, and the distance of two numbers in units in the last place.
//
// __nv_fp8_e4m3 and __nv_fp8_e5m2 saturate: a value past the largest finite one (448 and 57,344),
// infinity included, is stored as that one with its sign; NaN is stored as 0x7f. Apart from that
// they are elements like __half: computed as float and rounded to nearest even when stored. Loads
// are exact, e5m2's infinities included. Include <cuda_fp8.h> for the types themselves.
//
//   ew::run(s, ew::out(q, n) = ew::in(x, n) / ew::col(scale, cols));  // q: __nv_fp8_e4m3
#pragma once

#include <warpwright/kernel/expression.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

template <class T>
inline constexpr T most_finite = highest<T>;
template <>
inline constexpr float most_finite<__half> = 65504.0F;
template <>
inline constexpr float most_finite<__nv_bfloat16> = 0x1.fep127F;

template <class To, class From>
WARPWRIGHT_HOST_DEVICE inline To saturated_integer(From from) {
  constexpr To most = highest<To>;
  constexpr To least = lowest<To>;
  if constexpr (std::is_signed<From>::value) {
    if (from < 0) {
      bool const below = static_cast<long long>(from) < static_cast<long long>(least);
      return below ? least : static_cast<To>(from);
    }
  }
  return static_cast<unsigned long long>(from) > static_cast<unsigned long long>(most)
             ? most
             : static_cast<To>(from);
}

// The value limited to [-most, most]; NaN stays.
template <class T>
WARPWRIGHT_HOST_DEVICE inline T limited(T value, T most) {
  T const raised = value < -most ? -most : value;
  return raised > most ? most : raised;
}

template <class T>
struct saturate_cast_function {
  static constexpr char const* name = "saturate_cast";
  static constexpr char const* type_name = element_name<T>();
  template <class From>
  WARPWRIGHT_HOST_DEVICE typename element_traits<T>::value operator()(From from) const {
    if constexpr (std::is_integral<T>::value && std::is_integral<From>::value) {
      return saturated_integer<T>(from);
    } else if constexpr (std::is_integral<T>::value || is_8_bit_float<T>) {
      return stored_value<T>(prepare_encode<T>(from));
    } else if constexpr (std::is_same<From, double>::value) {
      return stored_value<T>(prepare_encode<T>(limited<double>(from, most_finite<T>)));
    } else {
      return stored_value<T>(limited(prepare_encode<T>(from), most_finite<T>));
    }
  }
};

// The bits of infinity; 0 for types that ulp_distance() does not take.
template <class T>
inline constexpr std::uint64_t infinite_magnitude =
    std::is_same<T, float>::value           ? 0x7f800000U
    : std::is_same<T, double>::value        ? 0x7ff0000000000000U
    : std::is_same<T, __half>::value        ? 0x7c00U
    : std::is_same<T, __nv_bfloat16>::value ? 0x7f80U
                                            : 0;

}  // namespace detail

/// The value rounded to `T` as by cast(), but saturated to T's finite range, never infinite.
///
/// An integer outside T's range becomes T's nearest limit; cast() wraps it. Floating point to
/// integer truncates, saturates and turns NaN into 0, as cast() does. To a floating-point type,
/// infinity and values that would round to it become the largest finite number with the same sign;
/// NaN stays NaN. Results are the same on both runtimes.
/// @tparam T  an integer (not bool), float, double, __half, __nv_bfloat16, __nv_fp8_e4m3 or
///   __nv_fp8_e5m2
/// @param a   an expression
template <class T, class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto saturate_cast(A const& a) {
  detail::check_no_long_double<T>();
  static_assert(detail::is_number<T> && !std::is_same<T, bool>::value,
                "warpwright::ew::saturate_cast: the type must be a number other than bool");
  return detail::make_call<detail::unconverted>(detail::saturate_cast_function<T>{}, a);
}

/// The distance of two numbers in units in the last place, for tests: the number of steps from one
/// representable number to the next.
///
/// Infinity is one step from the largest finite number. The smallest positive and the largest
/// negative subnormal number are two steps apart; -0 and +0 are equal.
/// @param a  a float, double, __half or __nv_bfloat16
/// @param b  a number of the same type
/// @return the steps; 0 between two NaNs, and 2^64 - 1 between NaN and a number
/// **Threads:** any; host and device code.
template <class T>
[[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t ulp_distance(T const& a, T const& b) {
  static_assert(detail::infinite_magnitude<T> != 0,
                "warpwright::ew::ulp_distance: the numbers must be two of float, double, __half or "
                "__nv_bfloat16");
  using bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  constexpr std::uint64_t sign = std::uint64_t{1} << (8 * sizeof(T) - 1);
  std::uint64_t const bits_a = detail::bit_copy<bits>(a);
  std::uint64_t const bits_b = detail::bit_copy<bits>(b);
  std::uint64_t const from_zero_a = bits_a & ~sign;
  std::uint64_t const from_zero_b = bits_b & ~sign;
  bool const nan_a = from_zero_a > detail::infinite_magnitude<T>;
  bool const nan_b = from_zero_b > detail::infinite_magnitude<T>;
  if (nan_a || nan_b) return nan_a && nan_b ? 0 : ~std::uint64_t{0};
  if (((bits_a ^ bits_b) & sign) != 0) return from_zero_a + from_zero_b;
  return from_zero_a > from_zero_b ? from_zero_a - from_zero_b : from_zero_b - from_zero_a;
}

}  // namespace ew

WARPWRIGHT_END
