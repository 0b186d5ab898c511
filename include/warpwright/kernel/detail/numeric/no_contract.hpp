// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Sums and products that are rounded separately.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// Arithmetic that no compiler contracts to fused multiply-adds, so that the host computes the same
// bits as a GPU.
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
  WARPWRIGHT_HOST_DEVICE static float plus(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
  }
  WARPWRIGHT_HOST_DEVICE static double plus(double a, double b) {
#if defined(__CUDA_ARCH__)
    return __dadd_rn(a, b);
#else
    return a + b;
#endif
  }
  WARPWRIGHT_HOST_DEVICE static float times(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fmul_rn(a, b);
#else
    return rounded_product(a * b);
#endif
  }
  WARPWRIGHT_HOST_DEVICE static double times(double a, double b) {
#if defined(__CUDA_ARCH__)
    return __dmul_rn(a, b);
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

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
