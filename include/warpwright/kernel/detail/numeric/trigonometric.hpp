// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Sine and cosine of floats without local memory. CUDA's own take some for the reduction of large
// arguments if a kernel has several. Within 2 ULP, the same code on both runtimes.
#pragma once

#include <warpwright/kernel/detail/numeric/small_float.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace ew::detail {

// An angle minus `quadrant` right angles: |rest| <= pi / 4, up to a rounding error.
struct reduced_angle {
  float rest;
  unsigned quadrant;
};

// Word `word` of the bits of 2 / pi = 0.a2f9836e..., after one word of zeros.
WARPWRIGHT_HOST_DEVICE inline std::uint32_t bits_of_2_over_pi(unsigned word) {
  std::uint32_t const early = word == 0   ? 0U
                              : word == 1 ? 0xa2f9836eU
                              : word == 2 ? 0x4e441529U
                                          : 0xfc2757d1U;
  std::uint32_t const late = word == 4   ? 0xf534ddc0U
                             : word == 5 ? 0xdb629599U
                             : word == 6 ? 0x3c439041U
                                         : 0xfe5163abU;
  return word < 4 ? early : late;
}

/// @param a  finite, at least 2^13
/// Source: M. Payne, R. Hanek, "Radian reduction for trigonometric functions", SIGNUM Newsletter
/// 18:1 (1983).
WARPWRIGHT_HOST_DEVICE inline reduced_angle reduce_large_angle(float a) {
  // a = mantissa * 2^k. The bits of 2 / pi that contribute whole circles are skipped. The next 96
  // bits leave an error of 2^-70 right angles; no float is closer than 2^-30 to a multiple of one.
  auto const bits = bit_copy<std::uint32_t>(a);
  std::uint64_t const mantissa = (bits & 0x7fffffU) | 0x800000U;
  unsigned const from = (bits >> 23U) - 150U + 30U;  // k - 2 bits of the fraction, and 32 zeros
  unsigned const word = from / 32U;
  unsigned const shift = from % 32U;
  std::uint32_t w[4];
  WARPWRIGHT_UNROLL
  for (unsigned k = 0; k < 4; ++k) w[k] = bits_of_2_over_pi(word + k);
  std::uint64_t const high = (std::uint64_t{w[0]} << 32U | w[1]) << shift >> 32U;
  std::uint64_t const middle = (std::uint64_t{w[1]} << 32U | w[2]) << shift >> 32U & 0xffffffffU;
  std::uint64_t const low = (std::uint64_t{w[2]} << 32U | w[3]) << shift >> 32U & 0xffffffffU;
  std::uint64_t const p0 = mantissa * low;
  std::uint64_t const p1 = mantissa * middle + (p0 >> 32U);
  std::uint64_t const p2 = mantissa * (high & 0xffffffffU) + (p1 >> 32U);
  std::uint64_t const product =
      p2 << 32U | (p1 & 0xffffffffU);  // 2 bits of right angles, a fraction
  std::uint64_t const fraction = product << 2U | (p0 & 0xffffffffU) >> 30U;
  auto const quadrant =
      static_cast<unsigned>(product >> 62U) + static_cast<unsigned>(fraction >> 63U);
  auto const nearest = static_cast<double>(static_cast<std::int64_t>(fraction));
  return {static_cast<float>(nearest * 0x1.921fb54442d18p-64), quadrant};
}

// Subtracts the right angles in three parts; the first product and difference are exact.
WARPWRIGHT_HOST_DEVICE inline reduced_angle reduce_angle(float a) {
  if (a >= 65536.0F) return reduce_large_angle(a);
  float const right_angles = ::rintf(a * 0.636619747F);
  float rest = ::fmaf(right_angles, -1.57079637F, a);
  rest = ::fmaf(right_angles, 4.37113883e-08F, rest);
  rest = ::fmaf(right_angles, 1.71512451e-15F, rest);
  return {rest, static_cast<unsigned>(right_angles)};
}

// sin(x + right_angles * pi / 2) for 0 or 1 right angles, the sine or the cosine, by minimax
// polynomials of our own on [0, pi / 4] with relative errors of 2^-27.9 and 2^-32.9.
WARPWRIGHT_HOST_DEVICE inline float sine_plus_right_angles(float x, unsigned right_angles) {
  float const a = ::fabsf(x);
  if (!(a <= 3.40282347e38F)) return x - x;  // NaN
  reduced_angle const angle = reduce_angle(a);
  float const r = angle.rest;
  float const s = r * r;
  float const sine = r + r * s * (-0.166666552F + s * (0.00833215564F + s * -0.00019514632F));
  float const cosine =
      1.0F - 0.5F * s + s * s * (0.0416666456F + s * (-0.00138873095F + s * 2.44324128e-05F));
  unsigned const quadrant = angle.quadrant + right_angles;
  float const value = quadrant % 2 != 0 ? cosine : sine;
  // Sine is odd, cosine even.
  bool const flipped = right_angles == 0 && (bit_copy<std::uint32_t>(x) >> 31U) != 0;
  return ((quadrant / 2 % 2 != 0) != flipped) ? -value : value;
}

}  // namespace ew::detail

WARPWRIGHT_END
