// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Mathematical functions of expressions. They compute in double where an operand is double and in
// float otherwise. Integers become float: where 24 bits are too few, convert them with cast() or
// compute_as() first.
//
// Accuracy is in units in the last place (ULP) of that type, against the exact function of the same
// argument, without --use_fast_math. It holds for results in the normal range; the error of
// subnormal results is at most the smallest normal number. The bounds of CUDA's own functions are
// those of the CUDA Programming Guide ("Mathematical Functions"), plus half a ULP for its
// reference, which is rounded, and rounded up.
#pragma once

#include <warpwright/kernel/detail/expression/functors.hpp>
#include <warpwright/kernel/expression.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// The absolute value, in the operand's own type; for a complex number sqrt(re^2 + im^2) as a
/// float, within 4 ULP and without overflow of intermediate results.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto abs(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::abs_function{}, a);
}
/// e to the power of the operand. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto exp(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::exp_function{}, a);
}
/// 2 to the power of the operand. Within 3 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto exp2(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::exp2_function{}, a);
}
/// exp(x) - 1, without the cancellation near 0. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto expm1(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::expm1_function{}, a);
}
/// The natural logarithm; NaN below 0. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto log(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::log_function{}, a);
}
/// The logarithm to base 2; NaN below 0. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto log2(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::log2_function{}, a);
}
/// log(1 + x), without the cancellation near 0; NaN below -1. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto log1p(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::log1p_function{}, a);
}
/// x to the power of y; NaN for negative x if y is not an integer. Special values are those of C's
/// pow: pow(x, 0) and pow(1, y) are 1 even for NaN. Within 5 ULP.
template <class A, class B, class = detail::if_operands<A, B>>
[[nodiscard]] constexpr auto pow(A const& x, B const& y) {
  return detail::make_call<detail::in_real_type>(detail::pow_function{}, x, y);
}
/// The square root, correctly rounded; NaN below 0.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto sqrt(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::sqrt_function{}, a);
}
/// 1 / sqrt(x); infinity at 0, NaN below. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto rsqrt(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::rsqrt_function{}, a);
}
/// The sine of an angle in radians of any magnitude; NaN for infinities. Within 2 ULP of float, 3
/// of double. In double, CUDA's reduction of large angles takes 40 bytes of local memory per
/// thread.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto sin(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::sin_function{}, a);
}
/// The cosine of an angle in radians of any magnitude; NaN for infinities. Within 2 ULP of float, 3
/// of double, which takes 40 bytes of local memory per thread.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto cos(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::cos_function{}, a);
}
/// The hyperbolic tangent. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto tanh(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::tanh_function{}, a);
}
/// The error function. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto erf(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::erf_function{}, a);
}
/// 1 / (1 + exp(-x)). Within 4 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto sigmoid(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::sigmoid_function{}, a);
}
/// max(x, 0); NaN stays NaN. Exact, in the operand's own type.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto relu(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::relu_function{}, a);
}
/// x where it is positive, else slope * x, in their common type; NaN stays NaN. Within 0.5 ULP.
/// Source: A. Maas et al., "Rectifier Nonlinearities Improve Neural Network Acoustic Models", ICML
/// (2013).
template <class A, class B = double, class = detail::if_operands<A, B>>
[[nodiscard]] constexpr auto leaky_relu(A const& x, B const& slope = 0.01) {
  return detail::make_call<detail::in_common_type>(detail::leaky_relu_function{}, x, slope);
}
/// log(1 + exp(x)), a smooth relu: close to x for large x, to exp(x) for very negative x. Within 4
/// ULP.
/// Source: C. Dugas et al., "Incorporating Second-Order Functional Knowledge for Better Option
/// Pricing", NIPS (2000).
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto softplus(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::softplus_function{}, a);
}
/// x * sigmoid(x), also called swish. Within 5 ULP.
/// Source: S. Elfwing et al., "Sigmoid-weighted linear units", Neural Networks 107 (2018).
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto silu(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::silu_function{}, a);
}
/// x * min(max(x + 3, 0), 6) / 6, a piecewise approximation of silu. Within 3 ULP.
/// Source: A. Howard et al., "Searching for MobileNetV3", arXiv:1905.02244.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto hardswish(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::hardswish_function{}, a);
}
/// x * Phi(x), Phi the standard normal distribution function: the form with erf. Within 8 ULP for
/// positive x, 8 + 2 x^2 for negative x, without cancellation in the tail.
/// Source: D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto gelu(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::gelu_function{}, a);
}
/// The form of gelu with tanh: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). Within 6 ULP for
/// positive x, 6 + 8 |u| for negative x, where u is the argument of tanh.
/// Source: D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto gelu_tanh(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::gelu_tanh_function{}, a);
}

/// The smaller of the two in their common type; NaN if either is NaN.
template <class A, class B, class = detail::if_operands<A, B>>
[[nodiscard]] constexpr auto(min)(A const& a, B const& b) {
  return detail::make_call<detail::in_common_type>(detail::min_function{}, a, b);
}
/// The larger of the two in their common type; NaN if either is NaN.
template <class A, class B, class = detail::if_operands<A, B>>
[[nodiscard]] constexpr auto(max)(A const& a, B const& b) {
  return detail::make_call<detail::in_common_type>(detail::max_function{}, a, b);
}
/// x limited to [low, high], in the common type of the three; NaN stays NaN.
/// @pre low <= high
template <class A, class L, class H, class = detail::if_operands<A, L, H>>
[[nodiscard]] constexpr auto clamp(A const& x, L const& low, H const& high) {
  return detail::make_call<detail::in_common_type>(detail::clamp_function{}, x, low, high);
}

/// The largest integer not above x, in its own type. Exact; infinities and NaN stay.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto floor(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::floor_function{}, a);
}
/// The smallest integer not below x, in its own type. Exact; infinities and NaN stay.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto ceil(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::ceil_function{}, a);
}
/// The nearest integer in x's own type, halfway cases away from 0, as C's round. Exact. rint()
/// takes fewer instructions on a GPU.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto round(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::round_function{}, a);
}
/// The nearest integer in x's own type, halfway cases to the even one. Exact; the host follows the
/// current rounding mode, by default that one.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto rint(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::rint_function{}, a);
}
/// a * b + c in the common type of the three, rounded once; for integers and complex numbers plain
/// a * b + c.
template <class A, class B, class C, class = detail::if_operands<A, B, C>>
[[nodiscard]] constexpr auto fma(A const& a, B const& b, C const& c) {
  return detail::make_call<detail::in_common_type>(detail::fma_function{}, a, b, c);
}
/// Whether the operand is NaN (for a complex number, whether a part is), as bool.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto isnan(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::isnan_function{}, a);
}
/// Whether the operand is neither infinite nor NaN (for a complex number, both parts), as bool.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto isfinite(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::isfinite_function{}, a);
}

/// The real part of a complex number, a float.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto real(A const& a) {
  return detail::make_call<detail::unconverted>(detail::real_function{}, a);
}
/// The imaginary part of a complex number, a float.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto imag(A const& a) {
  return detail::make_call<detail::unconverted>(detail::imag_function{}, a);
}
/// The complex conjugate.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto conj(A const& a) {
  return detail::make_call<detail::unconverted>(detail::conj_function{}, a);
}
/// re^2 + im^2 of a complex number, a float; x * x of a real one. Within 2 ULP in the normal range.
/// (norm() in reductions.hpp is the 2-norm of a whole array.)
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto abs_squared(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::abs_squared_function{}, a);
}
/// The complex number real + i imag. The operands are real and become float.
template <class A, class B, class = detail::if_operands<A, B>>
[[nodiscard]] constexpr auto make_complex(A const& real, B const& imag) {
  return detail::make_call<detail::in_real_type>(detail::make_complex_function{}, real, imag);
}

}  // namespace ew

WARPWRIGHT_END
