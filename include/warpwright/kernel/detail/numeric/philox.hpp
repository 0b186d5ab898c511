// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Philox 4x32-10.
// Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011, section 5.3: multipliers and Weyl constants of table 2.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstdint>
#include <cstring>

WARPWRIGHT_BEGIN

namespace ew::detail {

template <class T>
struct four {
  T of[4];
};

// The keys of the ten rounds, computed on the host: kernels read them as constants, and no thread
// has to add them up.
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

}  // namespace ew::detail

WARPWRIGHT_END
