// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Neighbouring elements held as memory words: what a thread loads and stores at once.
#pragma once

#include <cuda_runtime_api.h>

#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/numeric/element.hpp>

#include <cstddef>
#include <cstring>

WARPWRIGHT_BEGIN

namespace ew::detail {

// `Count` neighbouring elements of memory in registers. More than one is held as 32-bit words and
// moved in accesses of 16 bytes, or of the whole where that is less, whatever the element type.
template <class Bits, int Count>
struct packed_vector {
  static constexpr int bytes = static_cast<int>(sizeof(Bits)) * Count;
  static constexpr int aligned_bytes = bytes < 16 ? bytes : 16;
  static_assert(bytes == 2 || bytes == 4 || bytes == 8 || bytes % 16 == 0,
                "packed_vector: no such access");
  c_array < std::uint32_t, bytes<4 ? 1 : bytes / 4> words;

  /// @pre `from` is aligned to `aligned_bytes`
  WARPWRIGHT_HOST_DEVICE void load_wide(Bits const* from) {
#if defined(__CUDA_ARCH__)
    if constexpr (bytes >= 16) {
      WARPWRIGHT_UNROLL
      for (int k = 0; k < bytes / 16; ++k) {
        uint4 const v = reinterpret_cast<uint4 const*>(from)[k];
        words[4 * k] = v.x, words[4 * k + 1] = v.y, words[4 * k + 2] = v.z, words[4 * k + 3] = v.w;
      }
    } else if constexpr (bytes == 8) {
      uint2 const v = *reinterpret_cast<uint2 const*>(from);
      words[0] = v.x, words[1] = v.y;
    } else if constexpr (bytes == 4) {
      words[0] = *reinterpret_cast<std::uint32_t const*>(from);
    } else {
      words[0] = *reinterpret_cast<std::uint16_t const*>(from);
    }
#else
    // Not as uint4: g++ 13 at -O3 would then assume that narrow loads beside this one are aligned.
    words[0] = 0;
    std::memcpy(words, from, bytes);
#endif
  }
  /// Loads what is not aligned, from the multiples of 16 bytes that it lies in.
  /// @pre these may be read; `from` is aligned to an element of 2 or 4 bytes
  WARPWRIGHT_HOST_DEVICE void load_across(Bits const* from) {
#if defined(__CUDA_ARCH__)
    constexpr int count = bytes / 4;
    auto const address = reinterpret_cast<std::uintptr_t>(from);
    auto const* const first = reinterpret_cast<uint4 const*>(address & ~std::uintptr_t{15});
    std::uint32_t w[count + 4];
    WARPWRIGHT_UNROLL
    for (int k = 0; k <= count / 4; ++k) {
      uint4 const v = first[k];
      w[4 * k] = v.x, w[4 * k + 1] = v.y, w[4 * k + 2] = v.z, w[4 * k + 3] = v.w;
    }
    WARPWRIGHT_UNROLL
    for (int j = 0; j < count + 2; ++j) w[j] = address & 8U ? w[j + 2] : w[j];
    WARPWRIGHT_UNROLL
    for (int j = 0; j < count + 1; ++j) w[j] = address & 4U ? w[j + 1] : w[j];
    WARPWRIGHT_UNROLL
    for (int j = 0; j < count; ++j) {
      words[j] =
          sizeof(Bits) == 4 ? w[j] : __funnelshift_r(w[j], w[j + 1], address & 2U ? 16U : 0U);
    }
#else
    load_wide(from);
#endif
  }
  /// As load_wide(), of what no other thread reads: L1 keeps what others do, which makes a matrix
  /// times a vector up to 12 % faster (H100).
  WARPWRIGHT_HOST_DEVICE void load_wide_once(Bits const* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    if constexpr (bytes >= 16) {
      WARPWRIGHT_UNROLL
      for (int k = 0; k < bytes / 16; ++k) {
        asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[4 * k]), "=r"(words[4 * k + 1]), "=r"(words[4 * k + 2]),
                       "=r"(words[4 * k + 3])
                     : "l"(reinterpret_cast<uint4 const*>(from) + k));
      }
      return;
    }
#endif
    load_wide(from);
  }
  /// @pre `to` is aligned to `aligned_bytes`, and in a kernel not in shared memory
  WARPWRIGHT_HOST_DEVICE void store_wide(Bits* to) const {
#if defined(__CUDA_ARCH__)
    // In assembly, so that the stores stay wide: where another branch stores single elements,
    // nvcc 13.0 splits plain assignments. (More than 8 elements would go through local memory.)
    if constexpr (bytes >= 16 && Count <= 8) {
      WARPWRIGHT_UNROLL
      for (int k = 0; k < bytes / 16; ++k) {
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(
                         __cvta_generic_to_global(reinterpret_cast<uint4*>(to) + k)),
                     "r"(words[4 * k]), "r"(words[4 * k + 1]), "r"(words[4 * k + 2]),
                     "r"(words[4 * k + 3])
                     : "memory");
      }
      return;
    } else if constexpr (bytes == 8) {
      asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)),
                   "r"(words[0]), "r"(words[1])
                   : "memory");
      return;
    }
#endif
    store_anywhere(to);
  }
  /// As store_wide(), also to shared memory in a kernel.
  WARPWRIGHT_HOST_DEVICE void store_anywhere(Bits* to) const {
#if defined(__CUDA_ARCH__)
    if constexpr (bytes >= 16) {
      WARPWRIGHT_UNROLL
      for (int k = 0; k < bytes / 16; ++k) {
        reinterpret_cast<uint4*>(to)[k] =
            uint4{words[4 * k], words[4 * k + 1], words[4 * k + 2], words[4 * k + 3]};
      }
    } else if constexpr (bytes == 8) {
      *reinterpret_cast<uint2*>(to) = uint2{words[0], words[1]};
    } else if constexpr (bytes == 4) {
      *reinterpret_cast<std::uint32_t*>(to) = words[0];
    } else {
      *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(words[0]);
    }
#else
    std::memcpy(static_cast<void*>(to), words, bytes);
#endif
  }

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE Bits get(int j) const {
    if constexpr (sizeof(Bits) == 8) {
      return bit_copy<Bits>(std::uint64_t{words[2 * j]} | std::uint64_t{words[2 * j + 1]} << 32U);
    } else if constexpr (sizeof(Bits) == 4) {
      return bit_copy<Bits>(words[j]);
    } else if constexpr (sizeof(Bits) == 2) {
      return bit_copy<Bits>(static_cast<std::uint16_t>(words[j / 2] >> (16 * (j % 2))));
    } else if constexpr (std::is_same<Bits, bool>::value) {
      return (words[j / 4] >> (8 * (j % 4)) & 0xffU) != 0;
    } else {
      return bit_copy<Bits>(static_cast<std::uint8_t>(words[j / 4] >> (8 * (j % 4))));
    }
  }
  /// Sets element j; elements are to be set in the order 0, 1, 2, …
  WARPWRIGHT_HOST_DEVICE void set(int j, Bits bits) {
    if constexpr (sizeof(Bits) == 8) {
      auto const whole = bit_copy<std::uint64_t>(bits);
      words[2 * j] = static_cast<std::uint32_t>(whole);
      words[2 * j + 1] = static_cast<std::uint32_t>(whole >> 32U);
    } else if constexpr (sizeof(Bits) == 4) {
      words[j] = bit_copy<std::uint32_t>(bits);
    } else if constexpr (sizeof(Bits) == 2) {
      std::uint32_t const part = bit_copy<std::uint16_t>(bits);
      words[j / 2] = j % 2 == 0 ? part : words[j / 2] | part << 16U;
    } else {
      std::uint32_t const part = bit_copy<std::uint8_t>(bits);
      words[j / 4] = j % 4 == 0 ? part : words[j / 4] | part << (8 * (j % 4));
    }
  }
  /// Sets the elements j and j + 1 of 1 or 2 bytes, j even, in the same order.
  WARPWRIGHT_HOST_DEVICE void set_pair(int j, std::uint32_t pair) {
    if constexpr (sizeof(Bits) == 2) {
      words[j / 2] = pair;
    } else {
      words[j / 4] = j % 4 == 0 ? pair : words[j / 4] | pair << 16U;
    }
  }
};

// The access that moves a struct in the fewest parts where its address has a larger alignment than
// its members: 16 or 8 bytes, or void.
template <class Bits>
using widest_part =
    std::conditional_t<sizeof(Bits) % 16 == 0 && alignof(Bits) < 16, uint4,
                       std::conditional_t<sizeof(Bits) % 8 == 0 && alignof(Bits) < 8, uint2, void>>;

template <class Bits>
struct packed_vector<Bits, 1> {
  static constexpr int aligned_bytes = static_cast<int>(alignof(Bits));
  Bits only;
  WARPWRIGHT_HOST_DEVICE void load_one(Bits const* from) {
#if defined(__CUDA_ARCH__)
    using part = widest_part<Bits>;
    if constexpr (!std::is_void<part>::value) {
      // True for all elements of an array or for none: their size is a multiple of the part's.
      if (reinterpret_cast<std::uintptr_t>(from) % sizeof(part) == 0) {
        c_array<part, sizeof(Bits) / sizeof(part)> parts;
        for (std::size_t k = 0; k < sizeof(Bits) / sizeof(part); ++k) {
          parts[k] = reinterpret_cast<part const*>(from)[k];
        }
        std::memcpy(static_cast<void*>(&only), parts, sizeof(Bits));
        return;
      }
    }
#endif
    only = *from;
  }
  WARPWRIGHT_HOST_DEVICE void store_wide(Bits* to) const {
#if defined(__CUDA_ARCH__)
    using part = widest_part<Bits>;
    if constexpr (!std::is_void<part>::value) {
      if (reinterpret_cast<std::uintptr_t>(to) % sizeof(part) == 0) {
        c_array<part, sizeof(Bits) / sizeof(part)> parts;
        std::memcpy(parts, static_cast<void const*>(&only), sizeof(Bits));
        for (std::size_t k = 0; k < sizeof(Bits) / sizeof(part); ++k) {
          reinterpret_cast<part*>(to)[k] = parts[k];
        }
        return;
      }
    }
#endif
    *to = only;
  }
  WARPWRIGHT_HOST_DEVICE void store_anywhere(Bits* to) const { *to = only; }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE Bits get(int) const { return only; }
  WARPWRIGHT_HOST_DEVICE void set(int, Bits bits) { only = bits; }
};

}  // namespace ew::detail

WARPWRIGHT_END
