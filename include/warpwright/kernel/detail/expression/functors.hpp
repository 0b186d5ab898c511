// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The functors of functions.hpp: what each function does to one element. To add a function, write
// its functor here and the function that users call in functions.hpp.
//
// The functor of f() is called f_function. Its operator() takes the types that make_call() converts
// operands to: float or double for in_real_type, any type for in_common_type. `name` is printed.
#pragma once

#include <warpwright/kernel/detail/expression/nodes.hpp>
#include <warpwright/kernel/detail/numeric/no_contract.hpp>
#include <warpwright/kernel/detail/numeric/trigonometric.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace ew::detail {

// Those of <cmath> in double.
#define WARPWRIGHT_FUNCTION(of, in_float)                                        \
  struct of##_function {                                                         \
    static constexpr char const* name = #of;                                     \
    WARPWRIGHT_HOST_DEVICE float operator()(float x) const { return in_float; }  \
    WARPWRIGHT_HOST_DEVICE double operator()(double x) const { return ::of(x); } \
  };
WARPWRIGHT_FUNCTION(sin, sine_plus_right_angles(x, 0))
WARPWRIGHT_FUNCTION(cos, sine_plus_right_angles(x, 1))
WARPWRIGHT_FUNCTION(exp, ::expf(x))
WARPWRIGHT_FUNCTION(exp2, ::exp2f(x))
WARPWRIGHT_FUNCTION(expm1, ::expm1f(x))
WARPWRIGHT_FUNCTION(log, ::logf(x))
WARPWRIGHT_FUNCTION(log2, ::log2f(x))
WARPWRIGHT_FUNCTION(log1p, ::log1pf(x))
WARPWRIGHT_FUNCTION(sqrt, ::sqrtf(x))
WARPWRIGHT_FUNCTION(tanh, ::tanhf(x))
WARPWRIGHT_FUNCTION(erf, ::erff(x))
#undef WARPWRIGHT_FUNCTION

struct rsqrt_function {
  static constexpr char const* name = "rsqrt";
#if defined(__CUDA_ARCH__)
  WARPWRIGHT_HOST_DEVICE float operator()(float x) const { return ::rsqrtf(x); }
  WARPWRIGHT_HOST_DEVICE double operator()(double x) const { return ::rsqrt(x); }
#else
  WARPWRIGHT_HOST_DEVICE float operator()(float x) const { return 1.0F / ::sqrtf(x); }
  WARPWRIGHT_HOST_DEVICE double operator()(double x) const { return 1.0 / ::sqrt(x); }
#endif
};

struct pow_function {
  static constexpr char const* name = "pow";
  WARPWRIGHT_HOST_DEVICE float operator()(float x, float y) const { return ::powf(x, y); }
  WARPWRIGHT_HOST_DEVICE double operator()(double x, double y) const { return ::pow(x, y); }
};

// 1 / d for d of at least 1, infinity included. The device's instruction is within 1 ULP and
// returns 0 where 1 / d is subnormal.
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

WARPWRIGHT_HOST_DEVICE inline float approximate_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return ::exp2f(x);
#endif
}

template <class T>
WARPWRIGHT_HOST_DEVICE bool is_negative(T x) {
  if constexpr (std::is_unsigned<T>::value) {
    return false;  // compilers warn about the comparison
  } else {
    return x < T{0};
  }
}

struct abs_function {
  static constexpr char const* name = "abs";
  WARPWRIGHT_HOST_DEVICE float operator()(float x) const { return ::fabsf(x); }
  WARPWRIGHT_HOST_DEVICE double operator()(double x) const { return ::fabs(x); }
  WARPWRIGHT_HOST_DEVICE float operator()(complex<float> x) const { return ::hypotf(x.re, x.im); }
  template <class T>
  WARPWRIGHT_HOST_DEVICE auto operator()(T x) const {
    if constexpr (has_negative<void, T>) {
      return is_negative(x) ? negative_of(x) : +x;
    } else {
      return negative_of(x);  // its static_assert names the problem
    }
  }
};

// exp(-|x|) never overflows.
struct sigmoid_function {
  static constexpr char const* name = "sigmoid";
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    T const e = exp_function{}(-abs_function{}(x));
    return (x < T{0} ? e : T{1}) * reciprocal(T{1} + e);
  }
};

// Those of one expression.
#define WARPWRIGHT_FUNCTION(of, operands, result)           \
  struct of##_function {                                    \
    static constexpr char const* name = #of;                \
    template <class T>                                      \
    WARPWRIGHT_HOST_DEVICE auto operator() operands const { \
      return result;                                        \
    }                                                       \
  };

// The comparisons of relu and leaky_relu are false for NaN, which they return.
WARPWRIGHT_FUNCTION(relu, (T x), is_negative(x) ? T{0} : x)
WARPWRIGHT_FUNCTION(leaky_relu, (T x, T slope),
                    is_negative(x) ? wrapped<T>(unwrapped(x) * unwrapped(slope)) : +x)

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which never overflows.
WARPWRIGHT_FUNCTION(softplus, (T x),
                    (x < T{0} ? T{0} : x) + log1p_function{}(exp_function{}(x < T{0} ? x : -x)))

// -0 below -3 and x itself above 3, where x * 0 would be NaN and 6 x infinite.
struct hardswish_function {
  static constexpr char const* name = "hardswish";
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    T const product = x * ((x + T{3}) * T(0.16666666666666666667));
    return x < T(-3) ? T(-0.0) : x > T{3} ? x : product;
  }
};

struct silu_function {
  static constexpr char const* name = "silu";
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    T s = x;
    // Below this exp(x) may be subnormal where x exp(x) is not; x + 16 is exact.
    if (x < (sizeof(T) == 4 ? T(-80) : T(-700))) {
      s = x + T(16);
      x = (x < T(-1000) ? T(-1000) : x) * T(1.1253517471925911e-7);  // exp(-16)
    }
    return x * sigmoid_function{}(s);
  }
};

// x Phi(x) = max(x, 0) - |x| Phi(-|x|): with the upper tail itself, no digits cancel.
struct gelu_function {
  static constexpr char const* name = "gelu";
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
    float const weighted = a * approximate_exp2(a * a * -0.721347520F);
    return (x < 0.0F ? 0.0F : x) - weighted * (t * p);
  }
  WARPWRIGHT_HOST_DEVICE double operator()(double x) const {
    return x < -1000.0 ? -0.0 : x * (0.5 * ::erfc(-0.70710678118654752 * x));
  }
};

// 0.5 x (1 + tanh u) = x / (1 + exp(-2u)), which keeps the digits that 1 + tanh u loses.
struct gelu_tanh_function {
  static constexpr char const* name = "gelu_tanh";
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    T const twice_u = x * (T(1.59576912160573071) + T(0.071354816272600248) * x * x);
    T const product = x * sigmoid_function{}(twice_u);
    return x < T(-1000) ? T(-0.0) : product;  // -infinity * 0 would be NaN
  }
};

WARPWRIGHT_FUNCTION(min, (T a, T b), a < b || a != a ? a : b)
WARPWRIGHT_FUNCTION(max, (T a, T b), a > b || a != a ? a : b)

WARPWRIGHT_FUNCTION(clamp, (T x, T low, T high),
                    (x < low ? low : x) > high ? high : (x < low ? low : x))

// Rounding to an integer leaves integers as they are.
struct integer_rounding {
  template <class T>
  WARPWRIGHT_HOST_DEVICE T operator()(T x) const {
    static_assert(std::is_integral<T>::value,
                  "warpwright::ew: floor(), ceil(), round() and rint() are of real numbers");
    return x;
  }
};
#define WARPWRIGHT_ROUNDING(of)                                                   \
  struct of##_function : integer_rounding {                                       \
    static constexpr char const* name = #of;                                      \
    using integer_rounding::operator();                                           \
    WARPWRIGHT_HOST_DEVICE float operator()(float x) const { return ::of##f(x); } \
    WARPWRIGHT_HOST_DEVICE double operator()(double x) const { return ::of(x); }  \
  };
WARPWRIGHT_ROUNDING(floor)
WARPWRIGHT_ROUNDING(ceil)
WARPWRIGHT_ROUNDING(round)
WARPWRIGHT_ROUNDING(rint)
#undef WARPWRIGHT_ROUNDING

struct fma_function {
  static constexpr char const* name = "fma";
  template <class T>
  WARPWRIGHT_HOST_DEVICE auto operator()(T a, T b, T c) const {
    if constexpr (std::is_floating_point<T>::value) {
      return no_contract::fused(a, b, c);
    } else {
      return wrapped<T>(unwrapped(a) * unwrapped(b) + unwrapped(c));
    }
  }
};

WARPWRIGHT_FUNCTION(isnan, (T x), x != x)

// infinity - infinity is NaN.
WARPWRIGHT_FUNCTION(isfinite, (T x), std::is_integral<T>::value || x - x == x - x)

template <class T>
WARPWRIGHT_HOST_DEVICE complex<float> require_complex(T const& z) {
  static_assert(is_complex<T>,
                "warpwright::ew: real(), imag() and conj() are of a complex expression");
  return static_cast<complex<float>>(z);
}

WARPWRIGHT_FUNCTION(real, (T z), require_complex(z).re)
WARPWRIGHT_FUNCTION(imag, (T z), require_complex(z).im)
WARPWRIGHT_FUNCTION(conj, (T z), (complex<float>{require_complex(z).re, -require_complex(z).im}))
#undef WARPWRIGHT_FUNCTION

struct abs_squared_function {
  static constexpr char const* name = "abs_squared";
  template <class T>
  WARPWRIGHT_HOST_DEVICE auto operator()(T x) const {
    if constexpr (is_complex<T>) {
      return x.re * x.re + x.im * x.im;
    } else {
      return wrapped<T>(unwrapped(x) * unwrapped(x));
    }
  }
};

struct make_complex_function {
  static constexpr char const* name = "make_complex";
  WARPWRIGHT_HOST_DEVICE complex<float> operator()(float real, float imag) const {
    return {real, imag};
  }
};

}  // namespace ew::detail

WARPWRIGHT_END
