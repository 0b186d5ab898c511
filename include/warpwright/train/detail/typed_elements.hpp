// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements of a type that is known at run time, as floats: one kernel then serves all types, and
// tensors of different types share a launch.
#pragma once

#include <warpwright/core/detail/tensors/small_float.hpp>
#include <warpwright/core/tensor_list.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// Elements that a thread moves at once: 16 bytes of float32, 8 of a 16-bit type.
constexpr unsigned quad = 4;

struct alignas(16) quad_of_float {
  float of[quad];
};
struct alignas(8) quad_of_half {
  std::uint16_t of[quad];
};

/// @return whether it is one of the types below
constexpr bool is_trainable(element_type type) noexcept {
  return type == element_type::float32 || type == element_type::float16 ||
         type == element_type::bfloat16;
}

/// @return whether all quads of an array can be moved at once
WARPWRIGHT_HOST_DEVICE constexpr bool has_quads(std::uintptr_t address) noexcept {
  return address % 16 == 0;
}

WARPWRIGHT_HOST_DEVICE inline float decode(std::uint16_t bits, element_type type) {
  return type == element_type::float16 ? float_from_half(bits) : float_from_bfloat16(bits);
}
WARPWRIGHT_HOST_DEVICE inline std::uint16_t encode(float value, element_type type) {
  return type == element_type::float16 ? half_from_float(value) : bfloat16_from_float(value);
}

/// Elements [at, at + n), n up to 4; at is a multiple of 4, and all four are moved at once if
/// `whole`.
WARPWRIGHT_HOST_DEVICE inline quad_of_float load_quad(void const* from, element_type type,
                                                      std::uint64_t at, unsigned n, bool whole) {
  quad_of_float values{};
  if (type == element_type::float32) {
    auto const* const f = static_cast<float const*>(from) + at;
    if (whole) return *reinterpret_cast<quad_of_float const*>(f);
    for (unsigned i = 0; i < n; ++i) values.of[i] = f[i];
    return values;
  }
  auto const* const h = static_cast<std::uint16_t const*>(from) + at;
  quad_of_half bits{};
  if (whole) {
    bits = *reinterpret_cast<quad_of_half const*>(h);
  } else {
    for (unsigned i = 0; i < n; ++i) bits.of[i] = h[i];
  }
  for (unsigned i = 0; i < quad; ++i) values.of[i] = decode(bits.of[i], type);
  return values;
}

WARPWRIGHT_HOST_DEVICE inline void store_bits(void* to, quad_of_half const& bits, std::uint64_t at,
                                              unsigned n, bool whole) {
  auto* const h = static_cast<std::uint16_t*>(to) + at;
  if (whole) {
    *reinterpret_cast<quad_of_half*>(h) = bits;
    return;
  }
  for (unsigned i = 0; i < n; ++i) h[i] = bits.of[i];
}

/// As load_quad(), rounded to nearest even.
WARPWRIGHT_HOST_DEVICE inline void store_quad(void* to, element_type type,
                                              quad_of_float const& values, std::uint64_t at,
                                              unsigned n, bool whole) {
  if (type != element_type::float32) {
    quad_of_half bits;
    for (unsigned i = 0; i < quad; ++i) bits.of[i] = encode(values.of[i], type);
    store_bits(to, bits, at, n, whole);
    return;
  }
  auto* const f = static_cast<float*>(to) + at;
  if (whole) {
    *reinterpret_cast<quad_of_float*>(f) = values;
    return;
  }
  for (unsigned i = 0; i < n; ++i) f[i] = values.of[i];
}

/// 32 random bits of a number: the finalizer of SplitMix64.
WARPWRIGHT_HOST_DEVICE inline std::uint32_t random_bits(std::uint64_t of) {
  of = (of ^ (of >> 30U)) * 0xBF58476D1CE4E5B9U;
  of = (of ^ (of >> 27U)) * 0x94D049BB133111EBU;
  return static_cast<std::uint32_t>(of >> 32U);
}

/// As store_quad() to a 16-bit type, rounded up or down at random, so that the mean is exact.
WARPWRIGHT_HOST_DEVICE inline void store_quad_randomly(void* to, element_type type,
                                                       quad_of_float const& values,
                                                       std::uint64_t at, unsigned n, bool whole,
                                                       std::uint64_t seed) {
  quad_of_half bits;
  for (unsigned i = 0; i < quad; ++i) {
    std::uint32_t const random = random_bits(seed + (at + i) * 0x9E3779B97F4A7C15U);
    bits.of[i] = type == element_type::float16
                     ? random_small_float<__half>(values.of[i], random)
                     : random_small_float<__nv_bfloat16>(values.of[i], random);
  }
  store_bits(to, bits, at, n, whole);
}

}  // namespace detail

WARPWRIGHT_END
