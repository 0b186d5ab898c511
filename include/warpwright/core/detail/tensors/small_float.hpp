// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The floating-point formats narrower than binary32 and the roundings to them. CUDA's types are
// forward-declared, as their headers are slow to compile.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstdint>
#include <cstring>

struct __half;
struct __nv_bfloat16;
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;

WARPWRIGHT_BEGIN

namespace detail {

template <class To, class From>
WARPWRIGHT_HOST_DEVICE inline To bit_copy(From const& from) {
  static_assert(sizeof(To) == sizeof(From), "bit_copy: sizes differ");
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

// `most` is the magnitude that overflow results in: infinity for the 16-bit formats, the largest
// finite number for fp8. A NaN becomes `nan`, as in the hardware's conversions.
template <class T>
struct small_float;
template <>
struct small_float<__half> {
  using bits = std::uint16_t;
  static constexpr int mantissa = 10;
  static constexpr int bias = 15;
  static constexpr std::uint32_t most = 0x7c00U;
  static constexpr std::uint32_t nan = 0x7fffU;
};
template <>
struct small_float<__nv_bfloat16> {
  using bits = std::uint16_t;
  static constexpr int mantissa = 7;
  static constexpr int bias = 127;
  static constexpr std::uint32_t most = 0x7f80U;
  static constexpr std::uint32_t nan = 0x7fffU;
};
template <>
struct small_float<__nv_fp8_e4m3> {
  using bits = std::uint8_t;
  static constexpr int mantissa = 3;
  static constexpr int bias = 7;
  static constexpr std::uint32_t most = 0x7eU;  // 448
  static constexpr std::uint32_t nan = 0x7fU;
};
template <>
struct small_float<__nv_fp8_e5m2> {
  using bits = std::uint8_t;
  static constexpr int mantissa = 2;
  static constexpr int bias = 15;
  static constexpr std::uint32_t most = 0x7bU;  // 57344
  static constexpr std::uint32_t nan = 0x7fU;
};
template <class T>
inline constexpr bool is_e4m3 = small_float<T>::mantissa == 3;

// A magnitude truncated to a format: the bits kept, whose exponent is not limited yet, and the bits
// lost, in units of 2^-32 of the last place kept.
struct truncated {
  std::uint32_t kept;
  std::uint32_t lost;
};

/// @param magnitude  the bits of a float that is neither negative nor NaN
template <class T>
WARPWRIGHT_HOST_DEVICE inline truncated truncate_to(std::uint32_t magnitude) {
  using format = small_float<T>;
  constexpr unsigned shift = 23U - format::mantissa;
  constexpr std::uint32_t rebias = 127U - format::bias;
  std::uint32_t const exponent = magnitude >> 23U;
  if (exponent > rebias) {
    return {(magnitude >> shift) - (rebias << static_cast<unsigned>(format::mantissa)),
            magnitude << (32U - shift)};
  }
  // Subnormal in the format: a multiple of 2^(1 - bias - mantissa).
  std::uint32_t const implicit = exponent != 0 ? 0x800000U : 0U;
  std::uint32_t const significand = (magnitude & 0x7fffffU) | implicit;
  std::uint32_t const down = shift + 1U + rebias - (exponent != 0 ? exponent : 1U);
  std::uint64_t const all = (std::uint64_t{significand} << 32U) >> (down < 63U ? down : 63U);
  return {static_cast<std::uint32_t>(all >> 32U), static_cast<std::uint32_t>(all)};
}

// Combines the sign of a float with a magnitude, which rounding may have carried past `most`.
template <class T>
WARPWRIGHT_HOST_DEVICE inline typename small_float<T>::bits signed_small_float(
    std::uint32_t value, std::uint32_t magnitude) {
  using bits = typename small_float<T>::bits;
  std::uint32_t const sign = value >> 31U << (8U * sizeof(bits) - 1U);
  std::uint32_t const limited = magnitude < small_float<T>::most ? magnitude : small_float<T>::most;
  return static_cast<bits>(sign | limited);
}

/// To nearest even.
template <class T>
WARPWRIGHT_HOST_DEVICE inline typename small_float<T>::bits nearest_small_float(float value) {
  auto const all = bit_copy<std::uint32_t>(value);
  std::uint32_t const magnitude = all & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<typename small_float<T>::bits>(small_float<T>::nan);
  }
  truncated const c = truncate_to<T>(magnitude);
  bool const up = c.lost > 0x80000000U || (c.lost == 0x80000000U && (c.kept & 1U) != 0);
  return signed_small_float<T>(all, c.kept + (up ? 1U : 0U));
}

/// Stochastic rounding by 32 random bits: away from zero with the probability lost / 2^32.
template <class T>
WARPWRIGHT_HOST_DEVICE inline typename small_float<T>::bits random_small_float(
    float value, std::uint32_t random) {
  auto const all = bit_copy<std::uint32_t>(value);
  std::uint32_t const magnitude = all & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<typename small_float<T>::bits>(small_float<T>::nan);
  }
  truncated const c = truncate_to<T>(magnitude);
  return signed_small_float<T>(all, c.kept + (random < c.lost ? 1U : 0U));
}

// Two values in the lower half of a word, `low` in its lower byte; to nearest even, saturating.
template <class T>
WARPWRIGHT_HOST_DEVICE inline std::uint32_t fp8_pair_from_floats(float low, float high) {
#if WARPWRIGHT_DEVICE_HAS_FP8
  std::uint16_t bits;
  if constexpr (is_e4m3<T>) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  }
  return bits;
#else
  return nearest_small_float<T>(low) | static_cast<std::uint32_t>(nearest_small_float<T>(high))
                                           << 8U;
#endif
}

WARPWRIGHT_HOST_DEVICE inline std::uint32_t half_from_e4m3(std::uint32_t byte) {
  std::uint32_t const sign = (byte & 0x80U) << 8U;
  std::uint32_t const magnitude = byte & 0x7fU;
  if (magnitude == 0x7fU) return 0x7fffU;
  if (magnitude >= 8U) return sign | ((magnitude << 7U) + (8U << 10U));
  // Subnormal: 2^-9 times 0 to 7, normal in binary16.
  std::uint32_t const exponent = magnitude >= 4U ? 8U : magnitude >= 2U ? 7U : 6U;
  if (magnitude == 0) return sign;
  return sign | exponent << 10U | ((magnitude << (16U - exponent)) & 0x3ffU);
}
// Converts two values to binary16, which is exact. The compiler merges the conversions of two
// neighbours in one pair.
template <class T>
WARPWRIGHT_HOST_DEVICE inline std::uint32_t halves_from_fp8_pair(std::uint32_t pair) {
#if WARPWRIGHT_DEVICE_HAS_FP8
  std::uint32_t halves;
  auto const bits = static_cast<std::uint16_t>(pair);
  if constexpr (is_e4m3<T>) {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(bits));
  } else {
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(bits));
  }
  return halves;
#else
  if (is_e4m3<T>) return half_from_e4m3(pair & 0xffU) | half_from_e4m3(pair >> 8U & 0xffU) << 16U;
  return (pair & 0xffU) << 8U | (pair & 0xff00U) << 16U;
#endif
}

// IEEE binary16 from binary32, to nearest even, as cvt.rn.f16.f32: NaN becomes 0x7fff.
WARPWRIGHT_HOST_DEVICE inline std::uint16_t half_from_float(float value) {
#if defined(__CUDA_ARCH__)
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  return nearest_small_float<__half>(value);
#endif
}

WARPWRIGHT_HOST_DEVICE inline float float_from_half(std::uint16_t bits) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  std::uint32_t const sign = (bits & 0x8000U) << 16U;
  std::uint32_t const rest = bits & 0x7fffU;
  if (rest >= 0x7c00U) return bit_copy<float>(sign | 0x7f800000U | (rest & 0x3ffU) << 13U);
  if (rest >= 0x400U) return bit_copy<float>(sign | ((rest << 13U) + (112U << 23U)));
  float const magnitude = static_cast<float>(rest) * 0x1p-24F;  // exact
  return sign != 0 ? -magnitude : magnitude;
#endif
}

// bfloat16 from binary32, to nearest even, as cvt.rn.bf16.f32: NaN becomes 0x7fff.
WARPWRIGHT_HOST_DEVICE inline std::uint16_t bfloat16_from_float(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  std::uint32_t const all = bit_copy<std::uint32_t>(value);
  if ((all & 0x7fffffffU) > 0x7f800000U) return 0x7fffU;
  return static_cast<std::uint16_t>((all + 0x7fffU + ((all >> 16U) & 1U)) >> 16U);
#endif
}

WARPWRIGHT_HOST_DEVICE inline float float_from_bfloat16(std::uint16_t bits) {
  return bit_copy<float>(static_cast<std::uint32_t>(bits) << 16U);
}

// Two values in one word, `low` in the lower half: one instruction where the hardware has it.
WARPWRIGHT_HOST_DEVICE inline std::uint32_t half_pair_from_floats(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return half_from_float(low) | static_cast<std::uint32_t>(half_from_float(high)) << 16U;
#endif
}
WARPWRIGHT_HOST_DEVICE inline std::uint32_t bfloat16_pair_from_floats(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return bfloat16_from_float(low) | static_cast<std::uint32_t>(bfloat16_from_float(high)) << 16U;
#endif
}

}  // namespace detail

WARPWRIGHT_END
