// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Philox 4x32-10, and normally distributed numbers from its bits.
#pragma once

#include <warpwright/core/detail/config.hpp>
#include <warpwright/kernel/detail/numeric/small_float.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>

WARPWRIGHT_BEGIN

namespace ew::detail {

// Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011, section 5.3: multipliers and Weyl constants of table 2.
template <class T>
struct four {
  T of[4];
};

// The keys of the ten rounds, computed on the host: kernels read them as constants.
struct philox_keys {
  std::uint32_t of[20];

  explicit philox_keys(std::uint64_t seed) {
    auto k0 = static_cast<std::uint32_t>(seed);
    auto k1 = static_cast<std::uint32_t>(seed >> 32U);
    for (int round = 0; round < 10; ++round) {
      of[2 * round] = k0;
      of[2 * round + 1] = k1;
      k0 += 0x9e3779b9U;
      k1 += 0xbb67ae85U;
    }
  }
};

WARPWRIGHT_HOST_DEVICE inline four<std::uint32_t> philox_4x32_10(four<std::uint32_t> counter,
                                                                 philox_keys const& keys) {
  WARPWRIGHT_UNROLL
  for (int round = 0; round < 10; ++round) {
    std::uint64_t const p0 = std::uint64_t{counter.of[0]} * 0xd2511f53U;
    std::uint64_t const p1 = std::uint64_t{counter.of[2]} * 0xcd9e8d57U;
    counter = {{static_cast<std::uint32_t>(p1 >> 32U) ^ counter.of[1] ^ keys.of[2 * round],
                static_cast<std::uint32_t>(p1),
                static_cast<std::uint32_t>(p0 >> 32U) ^ counter.of[3] ^ keys.of[2 * round + 1],
                static_cast<std::uint32_t>(p0)}};
  }
  return counter;
}

// The key is the seed. The counter's upper half is the offset. Its lower half is index / 4, with
// the subsequence in the upper 16 bits: no array has the 2^50 elements that would reach them.
struct philox_state {
  philox_keys keys;
  std::uint64_t offset = 0;
  std::uint64_t const* in_memory = nullptr;  // if set, replaces offset
  std::uint64_t subsequence = 0;             // shifted to the upper 16 bits

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t current_offset() const {
    if (in_memory == nullptr) return offset;
#if defined(__CUDA_ARCH__)
    return *in_memory;
#else
    std::uint64_t current;  // by bytes: it may be declared as the other 64-bit type
    std::memcpy(&current, in_memory, sizeof current);
    return current;
#endif
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE four<std::uint32_t> block(std::uint64_t which,
                                                                 std::uint64_t at_offset) const {
    std::uint64_t const low = which | subsequence;
    return philox_4x32_10(
        {{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32U),
          static_cast<std::uint32_t>(at_offset), static_cast<std::uint32_t>(at_offset >> 32U)}},
        keys);
  }
};

// Normally distributed numbers, with the same bits on the host and every GPU: no library function
// is called, and every multiply-add is an explicit fma, so that contraction does not depend on the
// compiler. Source: G. Box, M. Muller, "A note on the generation of random normal deviates", Annals
// of Mathematical Statistics 29 (1958). The polynomials are minimax fits of our own.

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
