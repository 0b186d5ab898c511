// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Element types: their bits in memory and the type in which they are computed. __half,
// __nv_bfloat16 and the fp8 types are forward-declared: cuda_fp16.h and cuda_fp8.h compile slowly.
#pragma once

#include <warpwright/kernel/detail/numeric/complex.hpp>

#include <limits>
#include <type_traits>

WARPWRIGHT_BEGIN

namespace ew::detail {

/// An element type: `bits` is its representation in memory, `value` the type it is computed in. A
/// type with `packs_pairs` has encode_pair(low, high), which encodes two neighbours at once.
template <class T, class = void>
struct element_traits {
  using bits = T;
  using value = T;
  static constexpr bool packs_pairs = false;
  WARPWRIGHT_HOST_DEVICE static T decode(T stored) { return stored; }
  WARPWRIGHT_HOST_DEVICE static T encode(T computed) { return computed; }
};

template <class T>
struct small_float_traits {
  using bits = typename small_float<T>::bits;
  using value = float;
  static constexpr bool packs_pairs = true;
};

template <>
struct element_traits<__half> : small_float_traits<__half> {
  WARPWRIGHT_HOST_DEVICE static float decode(bits stored) { return float_from_half(stored); }
  WARPWRIGHT_HOST_DEVICE static bits encode(float computed) { return half_from_float(computed); }
  WARPWRIGHT_HOST_DEVICE static std::uint32_t encode_pair(float low, float high) {
    return half_pair_from_floats(low, high);
  }
};

template <>
struct element_traits<__nv_bfloat16> : small_float_traits<__nv_bfloat16> {
  WARPWRIGHT_HOST_DEVICE static float decode(bits stored) { return float_from_bfloat16(stored); }
  WARPWRIGHT_HOST_DEVICE static bits encode(float computed) {
    return bfloat16_from_float(computed);
  }
  WARPWRIGHT_HOST_DEVICE static std::uint32_t encode_pair(float low, float high) {
    return bfloat16_pair_from_floats(low, high);
  }
};

template <class T>
struct fp8_traits : small_float_traits<T> {
  using bits = std::uint8_t;
  // Decodes the first or the second value of the lower half of `pair`.
  WARPWRIGHT_HOST_DEVICE static float decode_of(std::uint32_t pair, int which) {
    return float_from_half(
        static_cast<std::uint16_t>(halves_from_fp8_pair<T>(pair) >> (16 * (which % 2))));
  }
  WARPWRIGHT_HOST_DEVICE static float decode(bits stored) { return decode_of(stored, 0); }
  WARPWRIGHT_HOST_DEVICE static bits encode(float computed) {
    return static_cast<bits>(fp8_pair_from_floats<T>(computed, 0.0F));
  }
  WARPWRIGHT_HOST_DEVICE static std::uint32_t encode_pair(float low, float high) {
    return fp8_pair_from_floats<T>(low, high);
  }
};
template <>
struct element_traits<__nv_fp8_e4m3> : fp8_traits<__nv_fp8_e4m3> {};
template <>
struct element_traits<__nv_fp8_e5m2> : fp8_traits<__nv_fp8_e5m2> {};

// Only for its text: whatever takes a pointer names this type.
template <class T>
struct element_traits<T, std::enable_if_t<std::is_void<T>::value>> : element_traits<float> {
  static_assert(!std::is_void<T>::value,
                "warpwright::ew: a void* is to no elements: cast it to a pointer to their type, as "
                "in static_cast<float*>(data)");
};

// Any type that qualifies as complex; see kernel/expression.hpp.
template <class T>
struct element_traits<T, std::enable_if_t<looks_complex<T>>> {
  using bits = complex_bits;
  using value = complex<float>;
  static constexpr bool packs_pairs = false;
  WARPWRIGHT_HOST_DEVICE static value decode(bits stored) { return {stored.re, stored.im}; }
  WARPWRIGHT_HOST_DEVICE static bits encode(value computed) { return {computed.re, computed.im}; }
};

// What describe() calls an element type.
template <class T>
constexpr char const* element_name() {
  if (std::is_same<T, __half>::value) return "f16";
  if (std::is_same<T, __nv_bfloat16>::value) return "bf16";
  if (std::is_same<T, __nv_fp8_e4m3>::value) return "e4m3";
  if (std::is_same<T, __nv_fp8_e5m2>::value) return "e5m2";
  if (std::is_same<T, bool>::value) return "bool";
  if (std::is_same<T, float>::value) return "f32";
  if (std::is_floating_point<T>::value) return "f64";
  if constexpr (std::is_integral<T>::value) {
    constexpr char const* names[][2] = {
        {"u8", "i8"}, {"u16", "i16"}, {"u32", "i32"}, {"u64", "i64"}};
    constexpr int width = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return names[width][std::is_signed<T>::value ? 1 : 0];
  }
  return looks_complex<T> ? "complex" : "struct";
}

template <class T>
inline constexpr bool is_8_bit_float =
    std::is_same<T, __nv_fp8_e4m3>::value || std::is_same<T, __nv_fp8_e5m2>::value;
template <class T>
inline constexpr bool is_small_float =
    std::is_same<T, __half>::value || std::is_same<T, __nv_bfloat16>::value || is_8_bit_float<T>;

template <class T>
inline constexpr bool is_long_double = std::is_same<T, long double>::value;
template <class T>
inline constexpr bool is_number =
    (std::is_arithmetic<T>::value && !is_long_double<T>) || is_small_float<T>;
// Types of scalars in expressions; long double is one only to be refused by a static_assert.
template <class T>
inline constexpr bool is_scalar = is_number<T> || looks_complex<T> || is_long_double<T>;

// Constants that device code may read, where the functions of std::numeric_limits are host-only.
template <class T>
inline constexpr T highest = (std::numeric_limits<T>::max)();
template <class T>
inline constexpr T lowest = std::numeric_limits<T>::lowest();
template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

template <class, class To, class From>
inline constexpr bool casts_to = false;
template <class To, class From>
inline constexpr bool
    casts_to<std::void_t<decltype(static_cast<To>(std::declval<From>()))>, To, From> = true;

// C++'s conversion, but defined for every value: floating point to integer truncates, saturates,
// and turns NaN into 0, on both runtimes.
template <class To, class From>
WARPWRIGHT_HOST_DEVICE inline To convert(From from) {
  if constexpr (std::is_same<To, From>::value) {
    return from;
  } else if constexpr (is_complex<From> && std::is_arithmetic<To>::value) {
    static_assert(!is_complex<From>,
                  "warpwright::ew: a complex value becomes real by real(), imag(), abs() or "
                  "abs_squared()");
    return To{};
  } else if constexpr (is_complex<To> && std::is_arithmetic<From>::value) {
    return {convert<float>(from), 0.0F};
  } else if constexpr (!casts_to<void, To, From>) {
    static_assert(
        casts_to<void, To, From>,
        "warpwright::ew: elements of this type do not convert to the one in which they are "
        "computed, tested or written; give structs to map()");
    return To{};
  } else if constexpr (std::is_same<To, bool>::value) {
    return static_cast<bool>(from);
  } else if constexpr (std::is_floating_point<From>::value && std::is_integral<To>::value) {
    constexpr To most = highest<To>;
    constexpr To least = lowest<To>;
    // Powers of two, or 0, so exact in every floating type.
    constexpr From past_end = static_cast<From>(most / 2 + 1) * static_cast<From>(2);
    constexpr From begin = static_cast<From>(least);
    if (!(from > begin)) return from != from ? To{0} : least;
    return from < past_end ? static_cast<To>(from) : most;
  } else {
    return static_cast<To>(from);
  }
}

// Round to odd: truncates, and sets the last bit if the result is inexact. Rounding that to a
// format with at least two bits less then gives the same result as rounding the value itself.
WARPWRIGHT_HOST_DEVICE inline float round_to_odd(double value) {
#if defined(__CUDA_ARCH__)
  float cut;
  double back;
  asm("cvt.rz.f32.f64 %0, %1;" : "=f"(cut) : "d"(value));
  asm("cvt.f64.f32 %0, %1;" : "=d"(back) : "f"(cut));
  auto const bits = bit_copy<std::uint32_t>(cut);
#else
  auto const nearest = static_cast<float>(value);
  auto const back = static_cast<double>(nearest);
  bool const away = value < 0 ? back < value : back > value;
  std::uint32_t const bits = bit_copy<std::uint32_t>(nearest) - (away ? 1U : 0U);
#endif
  bool const lost = bit_copy<std::uint64_t>(back) != bit_copy<std::uint64_t>(value);
  return bit_copy<float>(bits | (lost ? 1U : 0U));
}
template <class Integer>
WARPWRIGHT_HOST_DEVICE inline float round_integer_to_odd(Integer value) {
#if defined(__CUDA_ARCH__)
  float cut;
  if constexpr (sizeof(Integer) == 8) {
    cut = std::is_signed<Integer>::value ? __ll2float_rz(static_cast<long long>(value))
                                         : __ull2float_rz(static_cast<unsigned long long>(value));
  } else {
    cut = std::is_signed<Integer>::value ? __int2float_rz(static_cast<int>(value))
                                         : __uint2float_rz(static_cast<unsigned>(value));
  }
  bool const lost = static_cast<Integer>(cut) != value;
  return bit_copy<float>(bit_copy<std::uint32_t>(cut) | (lost ? 1U : 0U));
#else
  if constexpr (sizeof(Integer) == 8) {
    constexpr Integer low{0x7ff};  // to odd in double first, which has 11 bits less
    if (value / (Integer{1} << 53) != 0) {
      value = static_cast<Integer>((value & ~low) | ((value & low) != 0 ? low + 1 : 0));
    }
  }
  return round_to_odd(static_cast<double>(value));
#endif
}

// The argument of element_traits<T>::encode for another type's value, then rounded once.
template <class T, class From>
WARPWRIGHT_HOST_DEVICE inline typename element_traits<T>::value prepare_encode(From from) {
  // An integer of more than 24 bits exceeds the range of the other formats, however it is rounded.
  constexpr bool too_long = std::is_same<T, __nv_bfloat16>::value &&
                            std::is_integral<From>::value &&
                            (sizeof(From) == 4 || sizeof(From) == 8);
  if constexpr (is_small_float<T> && std::is_same<From, double>::value) {
    return round_to_odd(from);
  } else if constexpr (too_long) {
    return round_integer_to_odd(from);
  } else {
    return convert<typename element_traits<T>::value>(from);
  }
}

// The value of an element that holds `from`, which is of the type that prepare_encode() returns.
template <class T>
WARPWRIGHT_HOST_DEVICE inline typename element_traits<T>::value stored_value(
    typename element_traits<T>::value from) {
  return element_traits<T>::decode(element_traits<T>::encode(from));
}

}  // namespace ew::detail

WARPWRIGHT_END
