// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Mathematical functions of expressions. They compute in double where an operand is double and in
// float otherwise (integers become float: cast or compute_as first where 24 bits are too few).
//
// Accuracy is stated in units in the last place (ULP) of that type, against the exact function of
// the same argument, for results in the normal range; subnormal results are off by at most the
// smallest normal number. On a GPU that is without --use_fast_math.
#pragma once

#include <warpwright/kernel/expression.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// One name for both precisions, the C library's on the host and CUDA's on a device.
struct library {
  WARPWRIGHT_HOST_DEVICE static float exp(float x) { return ::expf(x); }
  WARPWRIGHT_HOST_DEVICE static double exp(double x) { return ::exp(x); }
  WARPWRIGHT_HOST_DEVICE static float log(float x) { return ::logf(x); }
  WARPWRIGHT_HOST_DEVICE static double log(double x) { return ::log(x); }
  WARPWRIGHT_HOST_DEVICE static float sqrt(float x) { return ::sqrtf(x); }
  WARPWRIGHT_HOST_DEVICE static double sqrt(double x) { return ::sqrt(x); }
  WARPWRIGHT_HOST_DEVICE static float tanh(float x) { return ::tanhf(x); }
  WARPWRIGHT_HOST_DEVICE static double tanh(double x) { return ::tanh(x); }
  WARPWRIGHT_HOST_DEVICE static float erf(float x) { return ::erff(x); }
  WARPWRIGHT_HOST_DEVICE static double erf(double x) { return ::erf(x); }
  WARPWRIGHT_HOST_DEVICE static double erfc(double x) { return ::erfc(x); }
  WARPWRIGHT_HOST_DEVICE static float rsqrt(float x) {
#if defined(__CUDA_ARCH__)
    return ::rsqrtf(x);
#else
    return 1.0F / ::sqrtf(x);
#endif
  }
  WARPWRIGHT_HOST_DEVICE static double rsqrt(double x) {
#if defined(__CUDA_ARCH__)
    return ::rsqrt(x);
#else
    return 1.0 / ::sqrt(x);
#endif
  }
};

struct absolute {
  template <class T>
  WARPWRIGHT_HOST_DEVICE auto operator()(T x) const {
    if constexpr (std::is_floating_point<T>::value) {
      return ::fabs(x);
    } else {
      return x < T{0} ? wrapped<T>(-unwrapped(x)) : +x;
    }
  }
};

// 1 / d for d of at least 1, infinity included. The device's instruction is within 1 ULP and
// answers 0 where 1 / d is subnormal.
WARPWRIGHT_HOST_DEVICE inline float reciprocal(float d) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(d));
  return result;
#else
  return 1.0F / d;
#endif
}
WARPWRIGHT_HOST_DEVICE inline double reciprocal(double d) { return 1.0 / d; }

WARPWRIGHT_HOST_DEVICE inline float exp2_quick(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return ::exp2f(x);
#endif
}

// x sigmoid(s) by exp(-|s|), which never overflows; -0 in the limit where x * 0 would be NaN.
template <class T>
WARPWRIGHT_HOST_DEVICE T times_sigmoid(T x, T s) {
  T const e = library::exp(s < T{0} ? s : -s);
  T const product = x * ((s < T{0} ? e : T{1}) * reciprocal(T{1} + e));
  return x < T(-1000) ? T(-0.0) : product;
}

struct exponential {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return library::exp(x);
  }
};

struct logarithm {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return library::log(x);
  }
};

struct square_root {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return library::sqrt(x);
  }
};

struct reciprocal_square_root {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return library::rsqrt(x);
  }
};

struct hyperbolic_tangent {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return library::tanh(x);
  }
};

struct error_function {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return library::erf(x);
  }
};

struct logistic {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return times_sigmoid(T{1}, x);
  }
};

struct rectified {
  template <class T>
  WARPWRIGHT_HOST_DEVICE auto operator()(T x) const {
    return x < T{0} ? T{0} : x;  // NaN stays
  }
};

struct sigmoid_weighted {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return times_sigmoid(x, x);
  }
};

// x Phi(x) = max(x, 0) - |x| Phi(-|x|): with the upper tail itself, nothing cancels.
struct gaussian_weighted {
  // Phi(-a) = exp(-a^2 / 2) t p(t), t = 1 / (1 + 0.27 a); p is a minimax fit of our own on 0 <= a
  // <= 14 with a relative error of 0.4 * 2^-24. Past 14 the product is less than any normal float.
  WARPWRIGHT_HOST_DEVICE float operator()(float x) const {
    float const a = ::fminf(::fabsf(x), 16.0F);
    float const t = reciprocal(1.0F + 0.27F * a);
    float p = 0.0289152645F;
    p = p * t - 0.126255214F;
    p = p * t + 0.169291295F;
    p = p * t - 0.068620842F;
    p = p * t + 0.107399331F;
    p = p * t + 0.0722403363F;
    p = p * t + 0.101759153F;
    p = p * t + 0.107550508F;
    p = p * t + 0.107720181F;
    float const weighted = a * exp2_quick(a * a * -0.721347520F);
    return (x < 0.0F ? 0.0F : x) - weighted * (t * p);
  }
  WARPWRIGHT_HOST_DEVICE double operator()(double x) const {
    return x < -1000.0 ? -0.0 : x * (0.5 * library::erfc(-0.70710678118654752 * x));
  }
};

// 0.5 x (1 + tanh u) = x / (1 + exp(-2u)), which keeps the digits that 1 + tanh u loses.
struct gaussian_weighted_by_tanh {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    T const twice_u = x * (T(1.59576912160573071) + T(0.071354816272600248) * x * x);
    return times_sigmoid(x, twice_u);
  }
};

struct smaller {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};
struct larger {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct clamped {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x, T low, T high) const {
    T const raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
};

}  // namespace detail

/// The absolute value, in the operand's own type.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto abs(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::absolute{}, a);
}
/// e to the power of the operand. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto exp(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::exponential{}, a);
}
/// The natural logarithm; NaN below 0. Within 2 ULP.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto log(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::logarithm{}, a);
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
/// x * sigmoid(x), also called swish. Within 5 ULP.
/// Source: S. Elfwing et al., "Sigmoid-weighted linear units", Neural Networks 107 (2018).
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto silu(A const& a) {
  return detail::make_call<detail::in_real_type>(detail::sigmoid_weighted{}, a);
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

}  // namespace ew

WARPWRIGHT_END
