// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Sums and products that are rounded separately, and sums with their rounding errors.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace ew::detail {

// Arithmetic that no compiler contracts to fused multiply-adds: the same bits on host and GPU.
struct no_contract {
  // A product on the host, which g++ would contract with a sum where the processor has fma.
  template <class R>
  static R rounded_product(R product) {
#if defined(__FP_FAST_FMA) || defined(__FP_FAST_FMAF)
    R const volatile rounded = product;
    return rounded;
#else
    return product;
#endif
  }
  template <class R>
  WARPWRIGHT_HOST_DEVICE static R plus(R a, R b) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(R) == 4) return __fadd_rn(a, b);
    if constexpr (sizeof(R) == 8) return __dadd_rn(a, b);
#else
    return a + b;
#endif
  }
  template <class R>
  WARPWRIGHT_HOST_DEVICE static R times(R a, R b) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(R) == 4) return __fmul_rn(a, b);
    if constexpr (sizeof(R) == 8) return __dmul_rn(a, b);
#else
    return rounded_product(a * b);
#endif
  }
  template <class R>
  WARPWRIGHT_HOST_DEVICE static R minus(R a, R b) {
    return plus(a, -b);
  }
  // a * b + c, rounded once.
  WARPWRIGHT_HOST_DEVICE static float fused(float a, float b, float c) { return ::fmaf(a, b, c); }
  WARPWRIGHT_HOST_DEVICE static double fused(double a, double b, double c) {
    return ::fma(a, b, c);
  }
  WARPWRIGHT_HOST_DEVICE static float larger(float a, float b) { return ::fmaxf(a, b); }
  WARPWRIGHT_HOST_DEVICE static double larger(double a, double b) { return ::fmax(a, b); }
};

template <class A>
struct compensated_sum {
  A sum;
  A error;
};

// D. E. Knuth, "The Art of Computer Programming", volume 2, section 4.2.2: the error of a sum is
// itself a floating-point number, found by six operations.
template <class A>
WARPWRIGHT_HOST_DEVICE compensated_sum<A> two_sum(compensated_sum<A> const& a,
                                                  compensated_sum<A> const& b) {
  A const sum = no_contract::plus(a.sum, b.sum);
  A const b_seen = no_contract::plus(sum, -a.sum);
  A const a_seen = no_contract::plus(sum, -b_seen);
  A const error =
      no_contract::plus(no_contract::plus(a.sum, -a_seen), no_contract::plus(b.sum, -b_seen));
  return {sum, no_contract::plus(no_contract::plus(a.error, b.error), error)};
}

}  // namespace ew::detail

WARPWRIGHT_END
