// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Philox 4x32-10, and the node of an expression that draws from it.
// Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011, section 5.3: multipliers and Weyl constants of table 2.
#pragma once

#include <warpwright/kernel/detail/expression/nodes.hpp>

#include <cstring>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

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

}  // namespace detail

/// What random_bits() and normal() return: element i is number i % 4 of the four that `Use`
/// computes from the generator's block i / 4. Neighbours are drawn together, when arrays are
/// loaded.
template <class Use>
struct draw {
  using expression_tag = void;
  using drawn = typename Use::value;
  static constexpr int operands = 1;
  static constexpr int widest_bytes = 1;
  static constexpr int loaded_bytes = 4;  // one register per element from loading on
  static constexpr bool weak = false;
  template <class C>
  using value_type = drawn;  // compute_as() does not apply: random bits cannot be widened
  template <int V>
  struct registers {
    drawn of[V];
  };

  detail::philox_state state;

  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, std::uint64_t i, std::uint64_t) const {
    constexpr unsigned blocks = V < 4 ? 1 : V / 4;
    std::uint64_t const first = i / 4;
    auto const lane = static_cast<unsigned>(i % 4);
    std::uint64_t const offset = state.current_offset();
    if constexpr (V == 1) {
      r.of[0] = pick(Use::make(state.block(first, offset)), lane);
    } else if (lane == 0) {
      WARPWRIGHT_UNROLL
      for (unsigned b = 0; b < blocks; ++b) {
        detail::four<drawn> const made = Use::make(state.block(first + b, offset));
        WARPWRIGHT_UNROLL
        for (unsigned k = 0; k < 4 && 4 * b + k < V; ++k) r.of[4 * b + k] = made.of[k];
      }
    } else {
      load_between<V>(r, first, lane, offset);
    }
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE drawn value(registers<V> const& r, int j, std::uint64_t) const {
    return r.of[j];
  }
  template <int V>
  void describe(detail::operand*& next) const {
    if (state.in_memory == nullptr) {
      (next++)->kind = detail::access_pattern::absent;
    } else {
      *next++ = detail::describe_array<std::uint64_t, 1>(detail::access_pattern::offset,
                                                         state.in_memory, 1);
    }
  }

 private:
  WARPWRIGHT_HOST_DEVICE static drawn pick(detail::four<drawn> const& made, unsigned which) {
    drawn const even = which < 2 ? made.of[0] : made.of[2];
    drawn const odd = which < 2 ? made.of[1] : made.of[3];
    return which % 2 == 0 ? even : odd;
  }
  // Vectors that start within a block need one block more. A loop, so that this path takes no
  // registers from the common one.
  template <int V>
  WARPWRIGHT_HOST_DEVICE void load_between(registers<V>& r, std::uint64_t first, unsigned lane,
                                           std::uint64_t offset) const {
    constexpr unsigned blocks = V < 4 ? 1 : V / 4;
    r = {};
    WARPWRIGHT_NO_UNROLL
    for (unsigned b = 0; b <= blocks; ++b) {
      detail::four<drawn> const made = Use::make(state.block(first + b, offset));
      WARPWRIGHT_UNROLL
      for (unsigned j = 0; j < V; ++j) {
        // Element j has index lane + j in the first block and those after it.
        if ((lane + j) / 4 == b) r.of[j] = pick(made, (lane + j) % 4);
      }
    }
  }
};

namespace detail {

struct raw_bits {
  static constexpr char const* name = "random_bits";
  using value = std::uint32_t;
  WARPWRIGHT_HOST_DEVICE static four<value> make(four<std::uint32_t> const& words) { return words; }
};

// Functions of a generator's 32 bits. describe() prints them as functions of the generator.
struct uniform_function {
  static constexpr char const* name = "uniform";
  static constexpr bool takes_generator = true;
  WARPWRIGHT_HOST_DEVICE float operator()(std::uint32_t bits) const {
    return static_cast<float>(bits >> 8U) * 0x1p-24F;  // exact
  }
};

struct bernoulli_function {
  static constexpr char const* name = "bernoulli";
  static constexpr bool takes_generator = true;
  std::uint64_t threshold;  // 2^32 times the probability

  static std::uint64_t threshold_of(double probability) {
    return static_cast<std::uint64_t>(probability * 0x1p32 + 0.5);
  }
  // The probability of the fewest decimals that has this threshold: ten decimals are enough.
  [[nodiscard]] double parameter() const {
    double const exact = static_cast<double>(threshold) * 0x1p-32;
    double p = exact;
    for (double scale = 1e10; scale >= 1; scale /= 10) {
      double const rounded =
          static_cast<double>(static_cast<std::uint64_t>(exact * scale + 0.5)) / scale;
      if (threshold_of(rounded) == threshold) p = rounded;
    }
    return p;
  }
  WARPWRIGHT_HOST_DEVICE bool operator()(std::uint32_t bits) const { return bits < threshold; }
};

template <class T>
struct stochastic_round_function {
  static constexpr char const* name = "stochastic_round";
  static constexpr char const* type_name = element_name<T>();
  static constexpr bool takes_generator = true;
  template <class From>
  WARPWRIGHT_HOST_DEVICE float operator()(From from, std::uint32_t bits) const {
    return element_traits<T>::decode(random_small_float<T>(convert<float>(from), bits));
  }
};

template <class Offset>
struct advance_function {
  Offset* offset;
  std::uint64_t by;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { *offset += by; }
};

}  // namespace detail

}  // namespace ew

WARPWRIGHT_END
