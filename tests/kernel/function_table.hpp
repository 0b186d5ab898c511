// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Every function of one operand, its exact value and its error bounds: one table, checked for every
// element type.
#pragma once

#include <cuda_fp8.h>

#include <warpwright/kernel.hpp>

#include <cfloat>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace kernel_test {

namespace ew = warpwright::ew;

// The reference is computed with the x87's 64-bit mantissa: 40 bits more than float, 11 more than
// double.
using exact = long double;
static_assert(LDBL_MANT_DIG > DBL_MANT_DIG, "the reference needs a type wider than double");

#if WARPWRIGHT_HOST_RUNTIME
constexpr bool on_gpu = false;
#else
constexpr bool on_gpu = true;
#endif

inline exact exact_softplus(exact x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
inline exact exact_sigmoid(exact x) { return 1 / (1 + std::exp(-x)); }
inline exact exact_silu(exact x) { return x == -HUGE_VALL ? -0.0L : x * exact_sigmoid(x); }
inline exact exact_hardswish(exact x) { return x < -3 ? -0.0L : x > 3 ? x : x * (x + 3) / 6; }
inline exact exact_gelu(exact x) {
  return x == -HUGE_VALL ? -0.0L : x * std::erfc(-x * 0.707106781186547524400844362105L) / 2;
}
inline exact gelu_tanh_argument(exact x) {
  return 0.797884560802865355879892119868763737L * (x + 0.044715L * x * x * x);
}
inline exact exact_gelu_tanh(exact x) {
  if (std::isinf(x)) return x < 0 ? -0.0L : x;
  return x / (1 + std::exp(-2 * gelu_tanh_argument(x)));
}
// Halfway cases to even, in every rounding mode.
inline exact exact_rint(exact x) {
  exact const down = std::floor(x);
  if (!(std::fabs(x) < 0x1p62L)) return x;
  exact const rest = x - down;
  bool const odd = static_cast<long long>(down) % 2 != 0;
  return std::copysign(rest > 0.5L || (rest == 0.5L && odd) ? down + 1 : down, x);
}

// A row: the name; the function of an expression x; its exact value at a number x; the bounds in
// ULP of float on the host and on a GPU, then of double. A GPU's are those of functions.hpp: half a
// ULP more than in CUDA's documentation, which counts steps from the rounded result, where the
// bounds here are distances from the exact one. The C library of the host has smaller errors.
//
// Every row must also be in one of the groups below: real_functions if it computes in float or
// double, own_type_functions if in the operands' own type.
constexpr int first_row = __COUNTER__;
#define WARPWRIGHT_TEST_ROW(name, function, value, host32, gpu32, host64, gpu64) \
  struct name##_row {                                                            \
    static constexpr int number = __COUNTER__;                                   \
    static constexpr char const* text = #name;                                   \
    template <class E>                                                           \
    static auto of(E const& x) {                                                 \
      return function;                                                           \
    }                                                                            \
    static exact at(exact x) { return value; }                                   \
    static exact bound([[maybe_unused]] exact x, bool wide) {                    \
      exact const bounds[] = {host32, gpu32, host64, gpu64};                     \
      return bounds[(wide ? 2 : 0) + (on_gpu ? 1 : 0)];                          \
    }                                                                            \
  };

// clang-format off
WARPWRIGHT_TEST_ROW(exp,        ew::exp(x),             std::exp(x),         1,   2,   1,   2)
WARPWRIGHT_TEST_ROW(exp2,       ew::exp2(x),            std::exp2(x),        1,   2.5, 1,   1.5)
WARPWRIGHT_TEST_ROW(expm1,      ew::expm1(x),           std::expm1(x),       1,   1.5, 1,   1.5)
WARPWRIGHT_TEST_ROW(log,        ew::log(x),             std::log(x),         1,   2,   1,   2)
WARPWRIGHT_TEST_ROW(log2,       ew::log2(x),            std::log2(x),        1,   1.5, 1,   1.5)
WARPWRIGHT_TEST_ROW(log1p,      ew::log1p(x),           std::log1p(x),       1,   1.5, 1,   1.5)
WARPWRIGHT_TEST_ROW(sin,        ew::sin(x),             std::sin(x),         2,   2,   1,   2.5)
WARPWRIGHT_TEST_ROW(cos,        ew::cos(x),             std::cos(x),         2,   2,   1,   2.5)
WARPWRIGHT_TEST_ROW(tanh,       ew::tanh(x),            std::tanh(x),        2,   2,   2,   2)
WARPWRIGHT_TEST_ROW(erf,        ew::erf(x),             std::erf(x),         1,   2,   1,   2)
WARPWRIGHT_TEST_ROW(sqrt,       ew::sqrt(x),            std::sqrt(x),        0.5, 0.5, 0.5, 0.5)
WARPWRIGHT_TEST_ROW(rsqrt,      ew::rsqrt(x),           1 / std::sqrt(x),    2,   2,   2,   2)
WARPWRIGHT_TEST_ROW(square_root_by_pow, ew::pow(x, 0.5F), std::pow(x, 0.5L), 1,   4.5, 1,   2.5)
WARPWRIGHT_TEST_ROW(cube_by_pow, ew::pow(x, 3),         std::pow(x, 3.0L),   1,   4.5, 1,   2.5)
WARPWRIGHT_TEST_ROW(sigmoid,    ew::sigmoid(x),         exact_sigmoid(x),    4,   4,   4,   4)
WARPWRIGHT_TEST_ROW(silu,       ew::silu(x),            exact_silu(x),       5,   5,   5,   5)
WARPWRIGHT_TEST_ROW(softplus,   ew::softplus(x),        exact_softplus(x),   4,   4,   4,   4)
WARPWRIGHT_TEST_ROW(hardswish,  ew::hardswish(x),       exact_hardswish(x),  3,   3,   3,   3)
WARPWRIGHT_TEST_ROW(gelu,       ew::gelu(x),            exact_gelu(x),
                    x > 0 ? 8 : 8 + 2 * x * x, x > 0 ? 8 : 8 + 2 * x * x,
                    x > 0 ? 8 : 8 + 2 * x * x, x > 0 ? 8 : 8 + 2 * x * x)
WARPWRIGHT_TEST_ROW(gelu_tanh,  ew::gelu_tanh(x),       exact_gelu_tanh(x),
                    x > 0 ? 6 : 6 - 8 * gelu_tanh_argument(x),
                    x > 0 ? 6 : 6 - 8 * gelu_tanh_argument(x),
                    x > 0 ? 6 : 6 - 8 * gelu_tanh_argument(x),
                    x > 0 ? 6 : 6 - 8 * gelu_tanh_argument(x))
WARPWRIGHT_TEST_ROW(relu,       ew::relu(x),            x < 0 ? 0 : x,       0,   0,   0,   0)
WARPWRIGHT_TEST_ROW(leaky_relu, ew::leaky_relu(x, 0.125F), x < 0 ? x / 8 : x, 0.5, 0.5, 0.5, 0.5)
WARPWRIGHT_TEST_ROW(abs,        ew::abs(x),             std::fabs(x),        0,   0,   0,   0)
WARPWRIGHT_TEST_ROW(floor,      ew::floor(x),           std::floor(x),       0,   0,   0,   0)
WARPWRIGHT_TEST_ROW(ceil,       ew::ceil(x),            std::ceil(x),        0,   0,   0,   0)
WARPWRIGHT_TEST_ROW(round,      ew::round(x),           std::round(x),       0,   0,   0,   0)
WARPWRIGHT_TEST_ROW(rint,       ew::rint(x),            exact_rint(x),       0,   0,   0,   0)
WARPWRIGHT_TEST_ROW(fma,        ew::fma(x, 1.5F, 0.25F), std::fma(x, 1.5L, 0.25L),
                    0.5, 0.5, 0.5, 0.5)
WARPWRIGHT_TEST_ROW(abs_squared, ew::abs_squared(x),    x * x,               0.5, 0.5, 0.5, 0.5)
WARPWRIGHT_TEST_ROW(isnan,      ew::isnan(x),           std::isnan(x) ? 1 : 0, 0, 0,   0,   0)
WARPWRIGHT_TEST_ROW(isfinite,   ew::isfinite(x),        std::isfinite(x) ? 1 : 0, 0, 0, 0,  0)
WARPWRIGHT_TEST_ROW(negative,   -x,                     -x,                  0,   0,   0,   0)
WARPWRIGHT_TEST_ROW(clamp,      ew::clamp(x, -2.5F, 7), x < -2.5L ? -2.5L : x > 7 ? 7 : x,
                    0, 0, 0, 0)
WARPWRIGHT_TEST_ROW(min,        ew::min(x, 3),          x < 3 || x != x ? x : 3, 0, 0, 0, 0)
WARPWRIGHT_TEST_ROW(max,        ew::max(-1.25F, x),     x > -1.25L || x != x ? x : -1.25L,
                    0, 0, 0, 0)
WARPWRIGHT_TEST_ROW(where,      ew::where(x > 1, x, 1), x > 1 ? x : 1,       0,   0,   0,   0)
// clang-format on

#undef WARPWRIGHT_TEST_ROW
constexpr int row_count = __COUNTER__ - first_row - 1;

// Distance in units in the last place of double, or of float; 0 for two NaNs, and for a subnormal
// number that is off by at most the smallest normal one.
inline double ulps(exact got, exact reference, bool wide) {
  if (std::isnan(reference)) return std::isnan(got) ? 0 : HUGE_VAL;
  exact const rounded =
      wide ? exact{static_cast<double>(reference)} : exact{static_cast<float>(reference)};
  if (got == rounded) return 0;
  exact const difference = std::fabs(got - reference);
  if (!std::isfinite(got) || !std::isfinite(rounded)) return HUGE_VAL;
  exact const normal = wide ? exact{DBL_MIN} : exact{FLT_MIN};
  if (std::fabs(reference) < normal && difference <= normal) return 0;
  int exponent = 0;
  std::frexp(reference, &exponent);
  exact const unit = std::ldexp(exact{1}, exponent - (wide ? DBL_MANT_DIG : FLT_MANT_DIG));
  return static_cast<double>(difference / unit);
}
template <class T>
double ulps(T got, exact reference) {
  return ulps(static_cast<exact>(got), reference, sizeof(T) == 8);
}

// The argument of the exact function: an integer is converted to the function's type.
template <class Out, class In>
exact exactly(In value) {
  if constexpr (std::is_same<In, __nv_fp8_e4m3>::value || std::is_same<In, __nv_fp8_e5m2>::value) {
    return static_cast<exact>(static_cast<float>(value));
  } else if constexpr (std::is_integral<In>::value) {
    return static_cast<exact>(static_cast<Out>(value));
  } else if constexpr (std::is_floating_point<In>::value) {
    return static_cast<exact>(value);
  } else {
    return static_cast<exact>(as_double(value));
  }
}

// No template: one function checks the rows of all types.
// @param wide  whether `got` are doubles, not floats
inline void check_row(char const* name, exact (*reference_at)(exact), exact (*bound)(exact, bool),
                      std::vector<exact> const& x, exact const* got, bool wide) {
  double worst = 0;
  exact at = 0;
  int wrong = 0;
  // gelu returns a difference: a negative result too small for the type may become +0.
  bool const keeps_zeros = name != std::string{gelu_row::text};
  for (std::size_t k = 0; k < x.size(); ++k) {
    exact const v = x[k];
    exact const reference = reference_at(v);
    double error = ulps(got[k], reference, wide);
    bool const zeros = reference == 0 && got[k] == 0 && keeps_zeros;
    if (zeros && std::signbit(reference) != std::signbit(got[k])) error = HUGE_VAL;
    if (error > worst) worst = error, at = v;
    if (error > static_cast<double>(bound(v, wide))) {
      if (++wrong <= 3) {
        UNSCOPED_INFO("at " << v << ": " << got[k] << " for " << reference << ", off by " << error);
      }
    }
  }
  INFO(name << " in " << (wide ? "double" : "float") << ": worst " << worst << " ULP at " << at);
  CHECK(wrong == 0);
}

// Several rows in one kernel, which compiles faster than many; other tests check tie().
template <class Out, class... Row, class In, std::size_t... Index>
void check_rows(std::vector<exact> const& x, In const* device, std::index_sequence<Index...>) {
  std::size_t const n = x.size();
  std::size_t const stride = (n + 63) / 64 * 64;
  test_support::device_array<Out> out{stride * sizeof...(Row)};
  ww::stream s;
  ew::run(s, ew::tie((ew::out(out.data() + Index * stride, n) = Row::of(ew::in(device, n)))...));
  std::vector<Out> const results = out.fetch(s);
  std::vector<exact> const got(results.begin(), results.end());
  (check_row(Row::text, Row::at, Row::bound, x, got.data() + Index * stride, sizeof(Out) == 8),
   ...);
}
// The rows of one kernel.
template <class... Row>
struct rows {
  static constexpr int count = static_cast<int>(sizeof...(Row));
  template <class Out, class In>
  static void check(std::vector<exact> const& x, In const* device) {
    check_rows<Out, Row...>(x, device, std::index_sequence_for<Row...>{});
  }
};
template <class... Rows>
struct groups {
  static constexpr int count = (0 + ... + Rows::count);
  template <class Out, class In>
  static void check(std::vector<In> const& x, In const* device) {
    std::vector<exact> values;
    for (In const& v : x) values.push_back(exactly<Out>(v));
    (Rows::template check<Out>(values, device), ...);
  }
};
using real_functions =
    groups<rows<exp_row, exp2_row, expm1_row, log_row, log2_row, log1p_row>,
           rows<sin_row, cos_row, tanh_row, erf_row>,
           rows<sqrt_row, rsqrt_row, square_root_by_pow_row, cube_by_pow_row>,
           rows<sigmoid_row, silu_row, softplus_row, hardswish_row, gelu_row, gelu_tanh_row>>;
using own_type_functions =
    groups<rows<relu_row, leaky_relu_row, abs_row, floor_row, ceil_row, round_row, rint_row>,
           rows<fma_row, abs_squared_row, isnan_row, isfinite_row, negative_row, clamp_row, min_row,
                max_row, where_row>>;
static_assert(real_functions::count + own_type_functions::count == row_count,
              "a row of the table is in no group, so that nothing checks it");

// Critical and random arguments, of both signs.
template <class T>
std::vector<T> arguments(std::uint64_t seed) {
  using limits = std::numeric_limits<T>;
  std::vector<T> x;
  random_numbers random{seed};
  auto const both_signs = [&](exact v) {
    x.push_back(static_cast<T>(v));
    x.push_back(static_cast<T>(-v));
  };
  auto const around = [&](exact v) {
    auto const nearest = static_cast<T>(v);
    both_signs(static_cast<exact>(nearest));
    both_signs(static_cast<exact>(std::nextafter(nearest, limits::infinity())));
    both_signs(static_cast<exact>(std::nextafter(nearest, T(0))));
  };
  for (T v : {T(0), limits::denorm_min(), limits::min(), limits::max(), limits::infinity()}) {
    both_signs(static_cast<exact>(v));
  }
  x.push_back(limits::quiet_NaN());
  // Limits of exp, exp2 and expm1; halfway cases; where gelu, hardswish and tanh change their
  // forms.
  for (exact v : {87.3365L,
                  88.7228L,
                  103.9721L,
                  708.3965L,
                  709.7827L,
                  745.1332L,
                  126.0L,
                  127.0L,
                  128.0L,
                  149.0L,
                  150.0L,
                  1022.0L,
                  1024.0L,
                  1074.0L,
                  1075.0L,
                  17.33L,
                  37.43L,
                  3.0L,
                  14.0L,
                  16.0L,
                  0.55L,
                  0.625L,
                  1000.0L,
                  8388607.5L,
                  8388608.0L,
                  16777216.0L,
                  4503599627370495.5L,
                  4503599627370496.0L,
                  9007199254740992.0L}) {
    around(v);
  }
  for (int k = 0; k < 200; ++k) around(k / 2.0L);
  // sin and cos near their zeros and in every range of argument reduction; log near 1.
  for (int k = 1; k < 2000; ++k) around(k * 1.57079632679489661923132169163975144L);
  for (int k = 0; k < 300; ++k) {
    around(static_cast<exact>(random.below(std::size_t{1} << 40U)) *
           1.57079632679489661923132169163975144L);
  }
  around(16367173.0L * 0x1p72L);
  around(105615.0L);
  for (int k = 1; k < 200; ++k) both_signs(1 + k * static_cast<exact>(limits::epsilon()));
  for (int k = 1; k < 200; ++k) both_signs(1 - k * static_cast<exact>(limits::epsilon()) / 2);
  for (int k = 0; k < 10000; ++k) both_signs(static_cast<exact>(random.unit()) * 20);
  for (int k = 0; k < 3000; ++k) both_signs(static_cast<exact>(random.unit()) * 110);
  for (int k = 0; k < 3000; ++k) both_signs(static_cast<exact>(random.unit()) * 760);
  // Where exp(-x) is subnormal, and x exp(-x) is not.
  exact const least_normal = (limits::min_exponent - 1) * 0.693147180559945309417L;
  for (int k = 0; k < 5000; ++k) both_signs(least_normal + 2 - k / 500.0L);
  int const range = limits::max_exponent - 1;
  for (int k = 0; k < 8000; ++k) {
    int const exponent =
        static_cast<int>(random.below(static_cast<std::size_t>(2 * range))) - range;
    both_signs(std::ldexp(1 + static_cast<exact>(random.unit()), exponent));
  }
  return x;
}

}  // namespace kernel_test
