// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Mathematical functions of expressions. They compute in double where an operand is double and in
// float otherwise. Integers become float: where 24 bits are too few, cast() or compute_as() first.
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

#define WARPWRIGHT_FUNCTION(name, types)                                   \
  template <class A, class = detail::if_operands<A>>                       \
  [[nodiscard]] constexpr auto name(A const& a) {                          \
    return detail::make_call<detail::types>(detail::name##_function{}, a); \
  }
#define WARPWRIGHT_FUNCTION_OF_TWO(name, types, first, second)                         \
  template <class A, class B, class = detail::if_operands<A, B>>                       \
  [[nodiscard]] constexpr auto(name)(A const& first, B const& second) {                \
    return detail::make_call<detail::types>(detail::name##_function{}, first, second); \
  }
#define WARPWRIGHT_FUNCTION_OF_THREE(name, types, first, second, third)                       \
  template <class A, class B, class C, class = detail::if_operands<A, B, C>>                  \
  [[nodiscard]] constexpr auto(name)(A const& first, B const& second, C const& third) {       \
    return detail::make_call<detail::types>(detail::name##_function{}, first, second, third); \
  }
/// The absolute value, in the operand's own type; for a complex number sqrt(re^2 + im^2) as a
/// float, within 4 ULP and without overflow of intermediate results.
WARPWRIGHT_FUNCTION(abs, in_common_type)
/// e to the power of the operand. Within 2 ULP.
WARPWRIGHT_FUNCTION(exp, in_real_type)
/// 2 to the power of the operand. Within 3 ULP.
WARPWRIGHT_FUNCTION(exp2, in_real_type)
/// exp(x) - 1, without the cancellation near 0. Within 2 ULP.
WARPWRIGHT_FUNCTION(expm1, in_real_type)
/// The natural logarithm; NaN below 0. Within 2 ULP.
WARPWRIGHT_FUNCTION(log, in_real_type)
/// The logarithm to base 2; NaN below 0. Within 2 ULP.
WARPWRIGHT_FUNCTION(log2, in_real_type)
/// log(1 + x), without the cancellation near 0; NaN below -1. Within 2 ULP.
WARPWRIGHT_FUNCTION(log1p, in_real_type)
/// x to the power of y; NaN for negative x if y is not an integer. Special values are those of C's
/// pow: pow(x, 0) and pow(1, y) are 1 even for NaN. Within 5 ULP.
WARPWRIGHT_FUNCTION_OF_TWO(pow, in_real_type, x, y)
/// The square root, correctly rounded; NaN below 0.
WARPWRIGHT_FUNCTION(sqrt, in_real_type)
/// 1 / sqrt(x); infinity at 0, NaN below. Within 2 ULP.
WARPWRIGHT_FUNCTION(rsqrt, in_real_type)
/// The sine of an angle in radians of any magnitude; NaN for infinities. Within 2 ULP of float, 3
/// of double. In double, reducing large angles takes 40 bytes of local memory per thread.
WARPWRIGHT_FUNCTION(sin, in_real_type)
/// The cosine of an angle in radians; accuracy, infinities and local memory are those of sin().
WARPWRIGHT_FUNCTION(cos, in_real_type)
/// The hyperbolic tangent. Within 2 ULP.
WARPWRIGHT_FUNCTION(tanh, in_real_type)
/// The error function. Within 2 ULP.
WARPWRIGHT_FUNCTION(erf, in_real_type)
/// 1 / (1 + exp(-x)). Within 4 ULP.
WARPWRIGHT_FUNCTION(sigmoid, in_real_type)
/// max(x, 0); NaN stays NaN. Exact, in the operand's own type.
WARPWRIGHT_FUNCTION(relu, in_common_type)
/// x where it is positive, else slope * x, in their common type; NaN stays NaN. Within 0.5 ULP.
/// Source: A. Maas et al., "Rectifier Nonlinearities Improve Neural Network Acoustic Models", ICML
/// (2013).
template <class A, class B = double, class = detail::if_operands<A, B>>
[[nodiscard]] constexpr auto leaky_relu(A const& x, B const& slope = 0.01) {
  return detail::make_call<detail::in_common_type>(detail::leaky_relu_function{}, x, slope);
}
/// log(1 + exp(x)), a smooth relu: about x for large x, exp(x) for very negative x. Within 4 ULP.
/// Source: C. Dugas et al., "Incorporating Second-Order Functional Knowledge for Better Option
/// Pricing", NIPS (2000).
WARPWRIGHT_FUNCTION(softplus, in_real_type)
/// x * sigmoid(x), also called swish. Within 5 ULP.
/// Source: S. Elfwing et al., "Sigmoid-weighted linear units", Neural Networks 107 (2018).
WARPWRIGHT_FUNCTION(silu, in_real_type)
/// x * min(max(x + 3, 0), 6) / 6, a piecewise approximation of silu. Within 3 ULP.
/// Source: A. Howard et al., "Searching for MobileNetV3", arXiv:1905.02244.
WARPWRIGHT_FUNCTION(hardswish, in_real_type)
/// x * Phi(x), Phi the standard normal distribution function: the form with erf. Within 8 ULP for
/// positive x, 8 + 2 x^2 for negative x, without cancellation in the tail.
/// Source: D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
WARPWRIGHT_FUNCTION(gelu, in_real_type)
/// The form of gelu with tanh: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). Within 6 ULP for
/// positive x, 6 + 8 |u| for negative x, where u is the argument of tanh. Source: as of gelu().
WARPWRIGHT_FUNCTION(gelu_tanh, in_real_type)

/// The smaller of the two in their common type; NaN if either is NaN.
WARPWRIGHT_FUNCTION_OF_TWO(min, in_common_type, a, b)
/// The larger of the two in their common type; NaN if either is NaN.
WARPWRIGHT_FUNCTION_OF_TWO(max, in_common_type, a, b)
/// x limited to [low, high], in the common type of the three; NaN stays NaN.
/// @pre low <= high
WARPWRIGHT_FUNCTION_OF_THREE(clamp, in_common_type, x, low, high)

/// The largest integer not above x, in its own type. Exact; infinities and NaN stay.
WARPWRIGHT_FUNCTION(floor, in_common_type)
/// The smallest integer not below x, in its own type. Exact; infinities and NaN stay.
WARPWRIGHT_FUNCTION(ceil, in_common_type)
/// The nearest integer in x's own type, halfway cases away from 0, as C's round. Exact. rint()
/// takes fewer instructions on a GPU.
WARPWRIGHT_FUNCTION(round, in_common_type)
/// The nearest integer in x's own type, halfway cases to the even one. Exact; the host follows the
/// current rounding mode, by default that one.
WARPWRIGHT_FUNCTION(rint, in_common_type)
/// a * b + c in the common type of the three, rounded once, but for integers and complex numbers.
WARPWRIGHT_FUNCTION_OF_THREE(fma, in_common_type, a, b, c)
/// Whether the operand is NaN (for a complex number, whether a part is), as bool.
WARPWRIGHT_FUNCTION(isnan, in_common_type)
/// Whether the operand is neither infinite nor NaN (for a complex number, both parts), as bool.
WARPWRIGHT_FUNCTION(isfinite, in_common_type)

/// The real part of a complex number, a float.
WARPWRIGHT_FUNCTION(real, unconverted)
/// The imaginary part of a complex number, a float.
WARPWRIGHT_FUNCTION(imag, unconverted)
/// The complex conjugate.
WARPWRIGHT_FUNCTION(conj, unconverted)
/// re^2 + im^2 of a complex number, a float; x * x of a real one. Within 2 ULP in the normal range.
/// (norm() in reduce.hpp is the 2-norm of a whole array.)
WARPWRIGHT_FUNCTION(abs_squared, in_common_type)
/// The complex number real + i imag. The operands are real and become float.
WARPWRIGHT_FUNCTION_OF_TWO(make_complex, in_real_type, real, imag)
#undef WARPWRIGHT_FUNCTION_OF_THREE
#undef WARPWRIGHT_FUNCTION_OF_TWO
#undef WARPWRIGHT_FUNCTION

}  // namespace ew

WARPWRIGHT_END
