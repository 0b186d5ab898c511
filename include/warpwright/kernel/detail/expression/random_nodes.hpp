// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The leaf of an expression that draws random numbers, and the functions of what it draws.
#pragma once

#include <warpwright/kernel/detail/expression/nodes.hpp>
#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/numeric/philox.hpp>

WARPWRIGHT_BEGIN

namespace ew {

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
    detail::c_array<drawn, V> of;
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
      // Vectors that start within a block need one block more. A loop, so that this path takes no
      // registers from the common one.
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
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE drawn value(registers<V> const& r, int j, std::uint64_t) const {
    return r.of[j];
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
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
