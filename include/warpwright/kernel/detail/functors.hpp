// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the functions of functions.hpp do to one element.
#pragma once

#include <warpwright/kernel/detail/nodes.hpp>
#include <warpwright/kernel/detail/trigonometric.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// One name for both precisions, the C library's on the host and CUDA's on a device; sine and cosine
// of floats are our own.
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
  WARPWRIGHT_HOST_DEVICE static float exp2(float x) { return ::exp2f(x); }
  WARPWRIGHT_HOST_DEVICE static double exp2(double x) { return ::exp2(x); }
  WARPWRIGHT_HOST_DEVICE static float expm1(float x) { return ::expm1f(x); }
  WARPWRIGHT_HOST_DEVICE static double expm1(double x) { return ::expm1(x); }
  WARPWRIGHT_HOST_DEVICE static float log2(float x) { return ::log2f(x); }
  WARPWRIGHT_HOST_DEVICE static double log2(double x) { return ::log2(x); }
  WARPWRIGHT_HOST_DEVICE static float log1p(float x) { return ::log1pf(x); }
  WARPWRIGHT_HOST_DEVICE static double log1p(double x) { return ::log1p(x); }
  WARPWRIGHT_HOST_DEVICE static float sin(float x) { return sine_and_right_angles(x, 0); }
  WARPWRIGHT_HOST_DEVICE static double sin(double x) { return ::sin(x); }
  WARPWRIGHT_HOST_DEVICE static float cos(float x) { return sine_and_right_angles(x, 1); }
  WARPWRIGHT_HOST_DEVICE static double cos(double x) { return ::cos(x); }
  WARPWRIGHT_HOST_DEVICE static float pow(float x, float y) { return ::powf(x, y); }
  WARPWRIGHT_HOST_DEVICE static double pow(double x, double y) { return ::pow(x, y); }
  WARPWRIGHT_HOST_DEVICE static float floor(float x) { return ::floorf(x); }
  WARPWRIGHT_HOST_DEVICE static double floor(double x) { return ::floor(x); }
  WARPWRIGHT_HOST_DEVICE static float ceil(float x) { return ::ceilf(x); }
  WARPWRIGHT_HOST_DEVICE static double ceil(double x) { return ::ceil(x); }
  WARPWRIGHT_HOST_DEVICE static float round(float x) { return ::roundf(x); }
  WARPWRIGHT_HOST_DEVICE static double round(double x) { return ::round(x); }
  WARPWRIGHT_HOST_DEVICE static float rint(float x) { return ::rintf(x); }
  WARPWRIGHT_HOST_DEVICE static double rint(double x) { return ::rint(x); }
  WARPWRIGHT_HOST_DEVICE static float fma(float x, float y, float z) { return ::fmaf(x, y, z); }
  WARPWRIGHT_HOST_DEVICE static double fma(double x, double y, double z) { return ::fma(x, y, z); }
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

template <class T>
WARPWRIGHT_HOST_DEVICE bool is_negative(T x) {
  if constexpr (std::is_unsigned<T>::value) {
    return false;  // compilers warn of the comparison
  } else {
    return x < T{0};
  }
}

struct absolute {
  template <class T>
  WARPWRIGHT_HOST_DEVICE auto operator()(T x) const {
    if constexpr (std::is_same<T, float>::value) {
      return ::fabsf(x);  // of <cmath>'s ::fabs() there may be none of float
    } else if constexpr (std::is_floating_point<T>::value) {
      return ::fabs(x);
    } else if constexpr (is_complex<T>) {
      return ::hypotf(x.re, x.im);
    } else if constexpr (has_negative<void, T>) {
      return is_negative(x) ? negative_of(x) : +x;
    } else {
      return negative_of(x);  // which says that there is none
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

// By exp(-|s|), which never overflows.
template <class T>
WARPWRIGHT_HOST_DEVICE T sigmoid_of(T s) {
  T const e = library::exp(-absolute{}(s));
  return (s < T{0} ? e : T{1}) * reciprocal(T{1} + e);
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

struct exponential_of_2 {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return library::exp2(x);
  }
};

struct exponential_minus_1 {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return library::expm1(x);
  }
};

struct logarithm_to_2 {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return library::log2(x);
  }
};

struct logarithm_of_1_plus {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return library::log1p(x);
  }
};

struct sine {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return library::sin(x);
  }
};

struct cosine {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return library::cos(x);
  }
};

struct power {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x, T y) const {
    return library::pow(x, y);
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
    return sigmoid_of(x);
  }
};

struct rectified {
  template <class T>
  WARPWRIGHT_HOST_DEVICE auto operator()(T x) const {
    return is_negative(x) ? T{0} : x;  // NaN stays
  }
};

struct leaky_rectified {
  template <class T>
  WARPWRIGHT_HOST_DEVICE auto operator()(T x, T slope) const {
    return is_negative(x) ? wrapped<T>(unwrapped(x) * unwrapped(slope)) : +x;  // NaN stays
  }
};

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which never overflows.
struct soft_rectified {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    return (x < T{0} ? T{0} : x) + library::log1p(library::exp(x < T{0} ? x : -x));
  }
};

// -0 below -3 and x itself above 3, where x * 0 would be NaN and 6 x infinite.
struct hard_sigmoid_weighted {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    T const product = x * ((x + T{3}) * T(0.16666666666666666667));
    return x < T(-3) ? T(-0.0) : x > T{3} ? x : product;
  }
};

struct sigmoid_weighted {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    T s = x;
    // Below this exp(x) may be subnormal where x exp(x) is not; x + 16 is exact.
    if (x < (sizeof(T) == 4 ? T(-80) : T(-700))) {
      s = x + T(16);
      x = (x < T(-1000) ? T(-1000) : x) * T(1.1253517471925911e-7);  // exp(-16)
    }
    return x * sigmoid_of(s);
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
    T const product = x * sigmoid_of(twice_u);
    return x < T(-1000) ? T(-0.0) : product;  // -infinity * 0 would be NaN
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

// What rounds to an integer leaves integers as they are.
template <class T>
WARPWRIGHT_HOST_DEVICE constexpr bool is_integer() {
  static_assert(std::is_arithmetic<T>::value,
                "warpwright::ew: floor(), ceil(), round() and rint() are of real numbers");
  return std::is_integral<T>::value;
}
struct rounded_down {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    if constexpr (is_integer<T>()) {
      return x;
    } else {
      return library::floor(x);
    }
  }
};
struct rounded_up {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    if constexpr (is_integer<T>()) {
      return x;
    } else {
      return library::ceil(x);
    }
  }
};
struct rounded_from_0 {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    if constexpr (is_integer<T>()) {
      return x;
    } else {
      return library::round(x);
    }
  }
};
struct rounded_to_even {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    if constexpr (is_integer<T>()) {
      return x;
    } else {
      return library::rint(x);
    }
  }
};

struct multiplied_and_added {
  template <class T>
  WARPWRIGHT_HOST_DEVICE auto operator()(T a, T b, T c) const {
    if constexpr (std::is_floating_point<T>::value) {
      return library::fma(a, b, c);
    } else {
      return wrapped<T>(unwrapped(a) * unwrapped(b) + unwrapped(c));
    }
  }
};

struct not_a_number {
  template <class T>
  WARPWRIGHT_HOST_DEVICE bool operator()(T x) const {
    return x != x;
  }
};
struct finite {
  template <class T>
  WARPWRIGHT_HOST_DEVICE bool operator()(T x) const {
    if constexpr (std::is_integral<T>::value) {
      return true;
    } else {
      return x - x == x - x;  // infinity - infinity is NaN
    }
  }
};

// Parts of complex numbers.
template <class T>
WARPWRIGHT_HOST_DEVICE constexpr T const& wanted_complex(T const& z) {
  static_assert(is_complex<T>,
                "warpwright::ew: real(), imag() and conj() are of a complex expression");
  return z;
}
struct real_part {
  template <class T>
  WARPWRIGHT_HOST_DEVICE float operator()(T z) const {
    return static_cast<complex<float>>(wanted_complex(z)).re;
  }
};
struct imaginary_part {
  template <class T>
  WARPWRIGHT_HOST_DEVICE float operator()(T z) const {
    return static_cast<complex<float>>(wanted_complex(z)).im;
  }
};
struct conjugated {
  template <class T>
  WARPWRIGHT_HOST_DEVICE complex<float> operator()(T z) const {
    auto const w = static_cast<complex<float>>(wanted_complex(z));
    return {w.re, -w.im};
  }
};
struct absolute_squared {
  template <class T>
  WARPWRIGHT_HOST_DEVICE auto operator()(T x) const {
    if constexpr (is_complex<T>) {
      return x.re * x.re + x.im * x.im;
    } else {
      return wrapped<T>(unwrapped(x) * unwrapped(x));
    }
  }
};
struct complex_of_parts {
  WARPWRIGHT_HOST_DEVICE complex<float> operator()(float real, float imag) const {
    return {real, imag};
  }
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
