// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Division by a number that the host sets once: one high product, an addition and a shift in a
// kernel (T. Granlund, P. Montgomery, "Division by Invariant Integers using Multiplication", PLDI
// 1994, figure 4.1). Dividends and divisors must be below 2^31 for 32 bits and below 2^63 for 64.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace ew::detail {

WARPWRIGHT_HOST_DEVICE inline std::uint32_t multiply_high(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  return __umulhi(a, b);
#else
  return static_cast<std::uint32_t>(std::uint64_t{a} * b >> 32U);
#endif
}
WARPWRIGHT_HOST_DEVICE inline std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  __extension__ typedef unsigned __int128 wide;
  return static_cast<std::uint64_t>(wide{a} * b >> 64U);
#endif
}

/// Divides by itself; see above for the range.
template <class UInt>
class invariant_divisor {
 public:
  constexpr invariant_divisor() = default;
  /// @param divisor  0 is allowed, but not divided by
  constexpr explicit invariant_divisor(UInt divisor) : divisor_{divisor}, multiplier_{0} {
    if (divisor == 0) return;
    while (shift_ < 63U && (std::uint64_t{1} << shift_) < divisor) ++shift_;
    std::uint64_t const rest = (std::uint64_t{1} << shift_) - divisor;
    if constexpr (sizeof(UInt) == 4) {  // fits 64 bits, which a processor divides itself
      multiplier_ = static_cast<UInt>((rest << 32U) / divisor + 1);
    } else {
      __extension__ typedef unsigned __int128 wide;
      multiplier_ = static_cast<UInt>((wide{rest} << 64U) / divisor) + 1;
    }
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE UInt divisor() const { return divisor_; }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE UInt quotient(UInt dividend) const {
    return (multiply_high(multiplier_, dividend) + dividend) >> shift_;
  }
  [[nodiscard]] constexpr UInt multiplier() const { return multiplier_; }
  [[nodiscard]] constexpr unsigned shift() const { return shift_; }

 private:
  UInt divisor_ = 1;
  UInt multiplier_ = 1;
  unsigned shift_ = 0;
};

using fast_divisor = invariant_divisor<std::uint64_t>;
using small_divisor = invariant_divisor<std::uint32_t>;

}  // namespace ew::detail

WARPWRIGHT_END
