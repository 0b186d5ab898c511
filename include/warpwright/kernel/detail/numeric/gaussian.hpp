// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Normally distributed numbers from random bits, with the same bits on the host and every GPU: no
// library function is called, and every multiply-add is an explicit fma, so that contraction does
// not depend on the compiler. Source: G. Box, M. Muller, "A note on the generation of random normal
// deviates", Annals of Mathematical Statistics 29 (1958). The polynomials are minimax fits of our
// own.
#pragma once

#include <warpwright/kernel/detail/numeric/philox.hpp>
#include <warpwright/kernel/detail/numeric/small_float.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace ew::detail {

// The square root, correctly rounded, under --use_fast_math as well.
WARPWRIGHT_HOST_DEVICE inline float exact_sqrt(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("sqrt.rn.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return ::sqrtf(x);
#endif
}

// sqrt(-2 ln u) for u = (bits + 1/2) / 2^32, rounded to float: 0 to 6.764.
WARPWRIGHT_HOST_DEVICE inline float gaussian_radius(std::uint32_t bits) {
  float const u = ::fmaf(static_cast<float>(bits), 0x1p-32F, 0x1p-33F);
  // u = 2^e m, m from sqrt(1/2) to sqrt(2): 0x3f3504f3 is the first float past sqrt(1/2).
  auto const pattern = bit_copy<std::uint32_t>(u);
  std::uint32_t const past = pattern - 0x3f3504f3U;
  auto const e = static_cast<float>(static_cast<std::int32_t>(past) >> 23);
  float const m = bit_copy<float>((past & 0x7fffffU) + 0x3f3504f3U);
  // ln(1 + f) = f + f^2 (-1/2 + f p(f)), with a relative error of 0.1 * 2^-24.
  float const f = m - 1.0F;
  float p = -0.0763449296F;
  p = ::fmaf(p, f, 0.12761575F);
  p = ::fmaf(p, f, -0.131601825F);
  p = ::fmaf(p, f, 0.142017588F);
  p = ::fmaf(p, f, -0.166233569F);
  p = ::fmaf(p, f, 0.200012267F);
  p = ::fmaf(p, f, -0.250008196F);
  p = ::fmaf(p, f, 0.333333313F);
  p = ::fmaf(p, f, -0.5F);
  float const square = f * f;
  float const log_u = ::fmaf(e, 0.693147182F, ::fmaf(square, p, f));
  return exact_sqrt(-2.0F * log_u);
}

struct gaussian {
  static constexpr char const* name = "normal";
  using value = float;

  WARPWRIGHT_HOST_DEVICE static four<value> make(four<std::uint32_t> const& words) {
    four<value> result{};
    transform(words.of[0], words.of[1], result.of[0], result.of[1]);
    transform(words.of[2], words.of[3], result.of[2], result.of[3]);
    return result;
  }

 private:
  // radius (cos a, sin a), a = 2 pi angle / 2^32.
  WARPWRIGHT_HOST_DEVICE static void transform(std::uint32_t bits, std::uint32_t angle, float& x,
                                               float& y) {
    float const radius = gaussian_radius(bits);
    // The nearest quarter turn and the rest of a, at most pi / 4.
    std::uint32_t const quarter = (angle + 0x20000000U) >> 30U;
    auto const rest = static_cast<std::int32_t>(angle - (quarter << 30U));
    float const a = static_cast<float>(rest) * 1.46291812e-09F;
    float const square = a * a;
    float s = ::fmaf(-0.000195152825F, square, 0.0083321603F);
    s = ::fmaf(s, square, -0.166666552F);
    float const sine = ::fmaf(s * square, a, a);
    float c = ::fmaf(2.44331568e-05F, square, -0.00138873165F);
    c = ::fmaf(c, square, 0.0416666456F);
    c = ::fmaf(c, square, -0.5F);
    float const cosine = ::fmaf(c, square, 1.0F);
    bool const across = quarter % 2 != 0;
    float const along_x = across ? sine : cosine;
    float const along_y = across ? cosine : sine;
    // fma with 0, so that the product is rounded before an expression adds to it.
    x = ::fmaf(radius, quarter == 1 || quarter == 2 ? -along_x : along_x, 0.0F);
    y = ::fmaf(radius, quarter >= 2 ? -along_y : along_y, 0.0F);
  }
};

}  // namespace ew::detail

WARPWRIGHT_END
