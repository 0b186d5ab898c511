// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Mathematical functions of expressions. They compute in double where an operand is double and in
// float otherwise (integers become float: cast or compute_as first where 24 bits are too few).
//
// Accuracy is stated in units in the last place (ULP) of that type, against the exact function of
// the same argument, for results in the normal range; subnormal results are off by at most the
// smallest normal number. On a GPU that is without --use_fast_math. Where CUDA's own functions
// compute, the bounds are those of the CUDA Programming Guide ("Mathematical Functions"), which
// counts steps from the nearest number, and half a step more, rounded up.
#pragma once

#include <warpwright/kernel/detail/functors.hpp>
#include <warpwright/kernel/expression.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// The absolute value, in the operand's own type; of a complex number sqrt(re^2 + im^2) as a float,
/// within 4 ULP and without overflow on the way.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto abs(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::absolute{}, a);
}
/// e to the power of the operand. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto exp(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::exponential{}, a);
}
/// 2 to the power of the operand. Within 3 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto exp2(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::exponential_of_2{}, a);
}
/// exp(x) - 1, without the digits that the subtraction loses near 0. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto expm1(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::exponential_minus_1{}, a);
}
/// The natural logarithm; NaN below 0. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto log(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::logarithm{}, a);
}
/// The logarithm to base 2; NaN below 0. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto log2(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::logarithm_to_2{}, a);
}
/// log(1 + x), without the digits that the addition loses near 0; NaN below -1. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto log1p(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::logarithm_of_1_plus{}, a);
}
/// x to the power of y, special values as C's pow (1 where either makes it so, even beside NaN);
/// NaN for negative x where y is no integer. Within 5 ULP.
template <class A, class B, class = detail::if_operands<A, B>>
[[nodiscard]] constexpr auto pow(A const& x, B const& y) {
  return detail::make_call<detail::in_real_type>(detail::power{}, x, y);
}
/// The square root, correctly rounded; NaN below 0.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto sqrt(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::square_root{}, a);
}
/// 1 / sqrt(x); infinity at 0, NaN below. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto rsqrt(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::reciprocal_square_root{}, a);
}
/// The sine of an angle in radians, however large; NaN of infinities. Within 2 ULP of float, 3 of
/// double, for which CUDA's reduction of large angles takes 40 bytes of local memory a thread.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto sin(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::sine{}, a);
}
/// The cosine of an angle in radians, however large; NaN of infinities. As sin.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto cos(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::cosine{}, a);
}
/// The hyperbolic tangent. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto tanh(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::hyperbolic_tangent{}, a);
}
/// The error function. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto erf(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::error_function{}, a);
}
/// 1 / (1 + exp(-x)). Within 4 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto sigmoid(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::logistic{}, a);
}
/// x where it is positive, else 0; NaN stays NaN. Exact, in the operand's own type.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto relu(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::rectified{}, a);
}
/// x where it is positive, else slope * x, in their common type; NaN stays NaN. Within 0.5 ULP.
/// Source: A. Maas et al., "Rectifier Nonlinearities Improve Neural Network Acoustic Models", ICML
/// (2013).
template <class A, class B = double, class = detail::if_operands<A, B>>
[[nodiscard]] constexpr auto leaky_relu(A const& x, B const& slope = 0.01) {
  return detail::make_call<detail::in_common_type>(detail::leaky_rectified{}, x, slope);
}
/// log(1 + exp(x)), a smooth relu: as x for large x, as exp(x) for very negative x. Within 4 ULP.
/// Source: C. Dugas et al., "Incorporating Second-Order Functional Knowledge for Better Option
/// Pricing", NIPS (2000).
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto softplus(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::soft_rectified{}, a);
}
/// x * sigmoid(x), also called swish. Within 5 ULP.
/// Source: S. Elfwing et al., "Sigmoid-weighted linear units", Neural Networks 107 (2018).
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto silu(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::sigmoid_weighted{}, a);
}
/// x * min(max(x + 3, 0), 6) / 6: silu by straight lines. Within 3 ULP.
/// Source: A. Howard et al., "Searching for MobileNetV3", arXiv:1905.02244.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto hardswish(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::hard_sigmoid_weighted{}, a);
}
/// x * Phi(x), Phi the standard normal distribution function: the form with erf. Within 8 ULP for
/// positive x, 8 + 2 x^2 for negative x: no digits cancel in the tail.
/// Source: D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto gelu(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::gaussian_weighted{}, a);
}
/// The form of gelu with tanh: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). Within 6 ULP for
/// positive x, 6 + 8 |u| for negative x, where u is the argument of tanh.
/// Source: D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto gelu_tanh(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::gaussian_weighted_by_tanh{}, a);
}

/// The smaller of the two in their common type; NaN if either is NaN.
template <class A, class B, class = detail::if_operands<A, B>>
[[nodiscard]] constexpr auto min(A const& a, B const& b) {
  return detail::make_call<detail::in_common_type>(detail::smaller{}, a, b);
}
/// The larger of the two in their common type; NaN if either is NaN.
template <class A, class B, class = detail::if_operands<A, B>>
[[nodiscard]] constexpr auto max(A const& a, B const& b) {
  return detail::make_call<detail::in_common_type>(detail::larger{}, a, b);
}
/// x, but `low` below it and `high` above, in the common type of the three; NaN stays NaN.
/// @pre low <= high
template <class A, class L, class H, class = detail::if_operands<A, L, H>>
[[nodiscard]] constexpr auto clamp(A const& x, L const& low, H const& high) {
  return detail::make_call<detail::in_common_type>(detail::clamped{}, x, low, high);
}

/// The largest integer not above x, in its own type. Exact; infinities and NaN stay.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto floor(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::rounded_down{}, a);
}
/// The smallest integer not below x, in its own type. Exact; infinities and NaN stay.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto ceil(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::rounded_up{}, a);
}
/// The nearest integer in x's own type, halfway cases away from 0, as C's round. Exact; on a GPU
/// rint() is fewer instructions.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto round(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::rounded_from_0{}, a);
}
/// The nearest integer in x's own type, halfway cases to the even one. Exact; on the host that is
/// in the default rounding mode.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto rint(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::rounded_to_even{}, a);
}
/// a * b + c in the common type of the three, rounded once; of integers and complex numbers just
/// a * b + c.
template <class A, class B, class C, class = detail::if_operands<A, B, C>>
[[nodiscard]] constexpr auto fma(A const& a, B const& b, C const& c) {
  return detail::make_call<detail::in_common_type>(detail::multiplied_and_added{}, a, b, c);
}
/// Whether the operand is NaN (of a complex number, whether a part is), as bool.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto isnan(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::not_a_number{}, a);
}
/// Whether the operand is neither infinite nor NaN (of a complex number, both parts), as bool.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto isfinite(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::finite{}, a);
}

/// The real part of a complex number, a float.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto real(A const& a) {
  return detail::make_call<detail::as_they_are>(detail::real_part{}, a);
}
/// The imaginary part of a complex number, a float.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto imag(A const& a) {
  return detail::make_call<detail::as_they_are>(detail::imaginary_part{}, a);
}
/// The complex conjugate.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto conj(A const& a) {
  return detail::make_call<detail::as_they_are>(detail::conjugated{}, a);
}
/// re^2 + im^2 of a complex number, a float; x * x of a real one. Within 2 ULP where it is normal.
/// (norm() is the 2-norm of a whole array, in reductions.hpp.)
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto abs_squared(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::absolute_squared{}, a);
}
/// The complex number real + i imag, of two real operands that become float.
template <class A, class B, class = detail::if_operands<A, B>>
[[nodiscard]] constexpr auto make_complex(A const& real, B const& imag) {
  return detail::make_call<detail::in_real_type>(detail::complex_of_parts{}, real, imag);
}

}  // namespace ew

WARPWRIGHT_END
