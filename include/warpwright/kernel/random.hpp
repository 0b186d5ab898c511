// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers in expressions, from a counter: element i's draw is a function of the seed, the
// offset, the subsequence and i alone. It depends neither on the GPU, the grid or the alignment of
// the arrays, nor on which kernel draws it, and the host's is the same bit for bit.
//
//   ew::philox const rng{seed, steps};  // steps: points to a std::uint64_t on the device
//   ew::run(s, ew::out(y, n) = ew::dropout(ew::in(x, n), 0.1, rng));
//   ew::run(s, ew::out(dx, n) = ew::dropout(ew::in(dy, n), 0.1, rng));  // backward: the same mask
//   ew::advance(s, steps);  // in a graph, too: each replay draws anew
//
// Source of the generator: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/detail/expression/random_nodes.hpp>
#include <warpwright/kernel/detail/numeric/philox.hpp>
#include <warpwright/kernel/expression.hpp>

#include <cstdio>
#include <cstdlib>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// What may be an offset in memory: std::uint64_t and the other unsigned type of 64 bits.
template <class T>
inline constexpr bool is_offset = std::is_unsigned<T>::value && sizeof(T) == 8 &&
                                  !std::is_const<T>::value;

// With the digits that a round trip requires: a number a little more than 1 does not print as "1".
inline text in_full(double p) {
  char digits[40] = {};
  for (int count = 6; count <= std::numeric_limits<double>::max_digits10; ++count) {
    std::snprintf(digits, sizeof digits, "%.*g", count, p);
    if (std::strtod(digits, nullptr) == p) break;
  }
  warpwright::detail::undo_locale(digits);
  return text{digits};
}

inline bernoulli_function checked_bernoulli(char const* name, double p, source_location where) {
  if (!(p >= 0.0 && p <= 1.0)) {
    warpwright::detail::throw_invalid_argument(text{"ew::"} + name + ": the probability is " +
                                                   in_full(p) + "; it must be a number from 0 to 1",
                                               where);
  }
  return {bernoulli_function::threshold_of(p)};
}

}  // namespace detail

/// A generator for expressions: Philox 4x32-10, a small value that is cheap to copy.
///
/// Treat draws of different offsets or subsequences as independent: increment the offset by 1 from
/// step to step, and give each use within a step a subsequence of its own. The same generator used
/// twice draws the same numbers twice: on purpose for dropout's backward, by mistake for two
/// noises.
///
/// The seed is the key. The counter's upper 64 bits are the offset, its lower 64 bits 2^48 times
/// the subsequence plus a quarter of the index i, and i % 4 says which of the four words is element
/// i's. In subsequence 0 it is the word of cuRAND's curandStatePhilox4_32_10_t for the same seed,
/// with the offset as its subsequence and i as its offset.
class philox {
 public:
  /// @param seed  any number; others give independent sequences
  explicit philox(std::uint64_t seed) : state_{detail::philox_keys{seed}} {}
  /// @param offset  an integer, for example the number of the step
  template <class Integer, class = std::enable_if_t<std::is_integral<Integer>::value>>
  philox(std::uint64_t seed, Integer offset) : philox{seed} {
    state_.offset = static_cast<std::uint64_t>(offset);
  }
  /// @param offset  one number in memory that the kernel reads when it runs: a graph's replay uses
  ///   the value that advance() has set
  /// @throws std::invalid_argument  for a null pointer
  philox(std::uint64_t seed, std::uint64_t const* offset,
         source_location where = source_location::current())
      : philox{seed} {
    if (offset == nullptr) {
      warpwright::detail::throw_invalid_argument(
          "ew::philox: the offset is a null pointer; pass device memory of one std::uint64_t, or a "
          "number",
          where);
    }
    state_.in_memory = offset;
  }
  /// As above, for an offset of the other unsigned type of 64 bits: `unsigned long long*` where
  /// std::uint64_t is unsigned long.
  template <class Offset>
  philox(std::uint64_t seed, Offset const* offset,
         source_location where = source_location::current())
      : philox{seed, reinterpret_cast<std::uint64_t const*>(offset), where} {
    static_assert(detail::is_offset<Offset>,
                  "warpwright::ew::philox: the offset must be an unsigned integer of 64 bits, as "
                  "std::uint64_t, in device memory; of another type pass its value, a number");
  }

  /// The same seed and offset, another sequence.
  /// @param number  0 (which a new generator has) to 65,535
  /// @throws std::invalid_argument  for a larger number
  [[nodiscard]] philox subsequence(std::uint64_t number,
                                   source_location where = source_location::current()) const {
    if (number > 0xffffU) {
      warpwright::detail::throw_invalid_argument(
          detail::text{"ew::philox: there is no subsequence "} + detail::count_as_given(number) +
              "; they are 0 to 65535, and offsets and seeds have 64 bits",
          where);
    }
    philox other{*this};
    other.state_.subsequence = number << 48U;
    return other;
  }

 private:
  friend draw<detail::raw_bits> random_bits(philox const& rng);
  friend draw<detail::gaussian> normal(philox const& rng);
  detail::philox_state state_;
};

/// 32 random bits for each element, as std::uint32_t.
/// **Cost:** one block of the generator, 20 multiplications of 32 bits by 32, for four elements
/// where vectors of as many start at a multiple of four, as those of aligned arrays do; no memory
/// access except for an offset in memory.
[[nodiscard]] inline draw<detail::raw_bits> random_bits(philox const& rng) { return {rng.state_}; }

/// A random float for each element: 0 <= u < 1, in steps of 2^-24.
[[nodiscard]] inline auto uniform(philox const& rng) {
  return detail::make_call<detail::unconverted>(detail::uniform_function{}, random_bits(rng));
}

/// A float for each element, normally distributed with mean 0 and variance 1.
///
/// By the method of Box and Muller, from 64 random bits for two elements: a radius of
/// u = (bits + 1/2) / 2^32 rounded to float, an angle of the other 32 bits. Within 6 ULP of the
/// exact transform of these; the host's are the device's bit for bit. |z| < 6.77, beyond which lies
/// about 10^-11 of the distribution.
/// @param rng  the generator; normal() uses the bits that random_bits(rng) returns
[[nodiscard]] inline draw<detail::gaussian> normal(philox const& rng) { return {rng.state_}; }

/// A bool for each element, true with probability `p`. Where each element has its own probability,
/// write `uniform(rng) < p`.
/// @param p    from 0 (never) to 1 (always), rounded to a multiple of 2^-32
/// @throws std::invalid_argument  for any other number, NaN included
[[nodiscard]] inline auto bernoulli(philox const& rng, double p,
                                    source_location where = source_location::current()) {
  return detail::make_call<detail::unconverted>(detail::checked_bernoulli("bernoulli", p, where),
                                                random_bits(rng));
}

/// For each element x / (1 - p) with probability 1 - p, and 0 otherwise.
///
/// No mask is stored: the gradient is the same expression with the same generator, applied to the
/// incoming gradient. A dropped element is 0 even where x is infinite or NaN.
/// @param p    from 0 (all kept as they are) to 1 (all 0), rounded to a multiple of 2^-32; integers
///   are computed as double
/// @param rng  the generator; the element dropped is the one for which bernoulli(rng, p) is true
/// @throws std::invalid_argument  for any other p, NaN included
/// Source: N. Srivastava et al., "Dropout", JMLR 15 (2014), scaled when training.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] auto dropout(A const& x, double p, philox const& rng,
                           source_location where = source_location::current()) {
  auto const dropped = detail::make_call<detail::unconverted>(
      detail::checked_bernoulli("dropout", p, where), random_bits(rng));
  return detail::make_call<detail::after_condition>(detail::where_function{}, dropped, 0.0,
                                                    x * (p < 1.0 ? 1.0 / (1.0 - p) : 0.0));
}

/// The value rounded to one of its two neighbours in `T`, the nearer one with the higher
/// probability, so that the expected result is the value and small updates are not lost.
///
/// Values that T represents exactly are unchanged, NaN too, and infinity except in e5m2, which
/// saturates. Beyond T's largest number, __half and __nv_bfloat16 round as if the next number
/// existed, which is stored as infinity; fp8 saturates. A double is rounded to float first.
/// @tparam T   __half, __nv_bfloat16, __nv_fp8_e4m3 or __nv_fp8_e5m2
/// Source: S. Gupta et al., "Deep Learning with Limited Numerical Precision", ICML 2015.
template <class T, class A, class = detail::if_operands<A>>
[[nodiscard]] auto stochastic_round(A const& x, philox const& rng) {
  detail::check_no_long_double<T>();
  static_assert(detail::is_small_float<T>,
                "warpwright::ew::stochastic_round: the type must be __half, __nv_bfloat16, "
                "__nv_fp8_e4m3 or __nv_fp8_e5m2");
  return detail::make_call<detail::unconverted>(detail::stochastic_round_function<T>{}, x,
                                                random_bits(rng));
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Adds `by` to an offset in device memory.
/// @param stream  the stream of the kernels that read the offset
/// @param offset  the one given to philox
/// @param by      what to add, modulo 2^64; 1 suffices between any two steps
/// @throws std::invalid_argument  for a null pointer, and one that is no multiple of 8 bytes
/// @throws cuda_error  when the launch fails
/// **Stream:** one kernel of one thread, ordered on `stream`; does not block.
/// **Threads:** any. **Capture:** legal; each replay advances. **Cost:** one kernel launch.
template <class Offset>
void advance(stream_ref stream, Offset* offset, std::uint64_t by = 1,
             source_location where = source_location::current()) {
  static_assert(detail::is_offset<Offset>,
                "warpwright::ew::advance: the offset must be an unsigned integer of 64 bits, as "
                "std::uint64_t, in device memory");
  if (offset == nullptr) {
    warpwright::detail::throw_invalid_argument(
        "ew::advance: the offset is a null pointer; pass the device memory given to ew::philox",
        where);
  }
  if (reinterpret_cast<std::uintptr_t>(offset) % sizeof(Offset) != 0) {
    warpwright::detail::throw_invalid_argument(
        detail::text{"ew::advance: the offset is at address "} +
            reinterpret_cast<std::uintptr_t>(offset) +
            ", not a multiple of its 8 bytes; pass the device memory given to ew::philox",
        where);
  }
  for_each_index(stream, 1, detail::advance_function<Offset>{offset, by}, where);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
