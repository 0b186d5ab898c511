// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The reductions. To add one, write a kind here and a function in reduce.hpp that returns a
// reduction of it. A kind is a commutative monoid over a state; for elements of type V it has
//   state<V>                 the type that is carried
//   identity<V>()            the state of no elements
//   combine<V>(a, b)         both combined, in any order
// and may replace what it inherits from `reducer`:
//   result<V>                the type of the result
//   lift<V>(value, i)        the state of one element
//   append<V>(a, b)          both combined, where all elements of a precede those of b
//   finish<V>(state, n)      the result of n elements
//   name                     what describe() prints
//   is_total                 whether .in<A>() and .compensated() apply; if so, also
//   with_accumulator<A>      the kind that adds in A
//   with_compensation        the kind that carries the rounding errors along
#pragma once

#include <warpwright/kernel/detail/expression/functors.hpp>
#include <warpwright/kernel/detail/expression/operators.hpp>
#include <warpwright/kernel/detail/numeric/no_contract.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// What argmin() and argmax() find: the value, and the lowest index that has it.
template <class T>
struct located {
  T value;
  std::uint64_t index;
};

/// The index that argmin() and argmax() return of no elements.
inline constexpr std::uint64_t no_index = ~std::uint64_t{0};

namespace detail {

// What most kinds have in common: a state is an element and the result, in any order.
template <class Kind>
struct reducer {
  static constexpr bool is_total = false;
  template <class V, class K = Kind>  // which is not complete yet
  using result = typename K::template state<V>;
  template <class V, class K = Kind>
  WARPWRIGHT_HOST_DEVICE typename K::template state<V> lift(V value, std::uint64_t) const {
    return convert<typename K::template state<V>>(value);
  }
  template <class V, class State>
  WARPWRIGHT_HOST_DEVICE State append(State const& a, State const& b) const {
    return static_cast<Kind const&>(*this).template combine<V>(a, b);
  }
  template <class V, class State>
  WARPWRIGHT_HOST_DEVICE State finish(State const& s, std::uint64_t) const {
    return s;
  }
  static constexpr int operands = 0;  // which an epilogue reads for result k
  void describe(operand*&) const {}
  template <class V, class State>
  WARPWRIGHT_HOST_DEVICE auto finish_at(State const& s, std::uint64_t n, std::uint64_t) const {
    return static_cast<Kind const&>(*this).template finish<V>(s, n);
  }
};

// ---- Sums ----

enum class total : unsigned char { sum, mean, norm };

template <class V>
using real_of = std::conditional_t<is_complex<V>, float, V>;

// The type of a sum unless in<A>() sets one: that of a floating-point value, 64 bits for integers,
// and double for squares of integers, which 64 bits cannot hold.
template <total What, class V>
using default_accumulator = std::conditional_t<
    std::is_floating_point<real_of<V>>::value, real_of<V>,
    std::conditional_t<What == total::norm, double,
                       std::conditional_t<std::is_signed<V>::value, std::int64_t, std::uint64_t>>>;

template <class S>
struct complex_state {
  S re, im;
};

template <total What, class Requested, bool Compensated>
struct summing : reducer<summing<What, Requested, Compensated>> {
  static constexpr char const* name =
      What == total::sum ? "sum" : (What == total::mean ? "mean" : "norm");
  static constexpr bool is_total = true;
  // Of complex numbers the real and the imaginary parts, separately; a norm adds all their squares.
  template <class V>
  static constexpr bool by_parts = is_complex<V>&& What != total::norm;
  template <class A>
  using with_accumulator = summing<What, A, Compensated>;
  using with_compensation = summing<What, Requested, true>;

  template <class V>
  using accumulator =
      std::conditional_t<std::is_void<Requested>::value, default_accumulator<What, V>, Requested>;
  template <class V>
  using part_state =
      std::conditional_t<Compensated, compensated_sum<accumulator<V>>, accumulator<V>>;
  template <class V>
  using state = std::conditional_t<by_parts<V>, complex_state<part_state<V>>, part_state<V>>;
  template <class V>
  using part_result =
      std::conditional_t<What == total::sum || std::is_floating_point<accumulator<V>>::value,
                         accumulator<V>, double>;
  template <class V>
  using result = std::conditional_t<by_parts<V>, complex<float>, part_result<V>>;

  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> identity() const {
    return state<V>{};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> lift(V value, std::uint64_t i) const {
    if constexpr (is_complex<V>) {
      static_assert(std::is_floating_point<accumulator<V>>::value,
                    "warpwright::ew: sums of complex numbers are in floating point");
      auto const re = lift<float>(value.re, i);
      auto const im = lift<float>(value.im, i);
      if constexpr (by_parts<V>) {
        return {re, im};
      } else {
        return combine<V>(re, im);
      }
    } else {
      accumulator<V> a = convert<accumulator<V>>(value);
      if constexpr (What == total::norm) a = multiplies{}(a, a);
      if constexpr (Compensated) {
        static_assert(
            std::is_floating_point<accumulator<V>>::value,
            "warpwright::ew: compensated() requires a floating-point accumulator; sums of "
            "integers are exact without it, or add .in<double>()");
#if defined(__CUDA_ARCH__)
        return {a, 0};
#else
        return {no_contract::rounded_product(a), 0};
#endif
      } else {
        return a;
      }
    }
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> combine(state<V> const& a, state<V> const& b) const {
    if constexpr (by_parts<V>) {
      return {combine<float>(a.re, b.re), combine<float>(a.im, b.im)};
    } else if constexpr (Compensated) {
      return two_sum(a, b);
    } else {
      return plus{}(a, b);
    }
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE result<V> finish(state<V> const& s, std::uint64_t n) const {
    if constexpr (by_parts<V>) {
      return {static_cast<float>(finish<float>(s.re, n)),
              static_cast<float>(finish<float>(s.im, n))};
    } else if constexpr (What == total::sum) {
      return whole<accumulator<V>>(s);
    } else if constexpr (What == total::norm) {
      return static_cast<result<V>>(sqrt_function{}(whole<double>(s)));
    } else {
      return static_cast<result<V>>(
          n == 0 ? bit_copy<double>(std::uint64_t{0x7ff8000000000000U})  // NaN
                 : whole<double>(s) / static_cast<double>(n));
    }
  }

 private:
  template <class R, class State>
  WARPWRIGHT_HOST_DEVICE static R whole(State const& s) {
    if constexpr (Compensated) {
      auto const sum = static_cast<R>(s.sum);
      return s.error - s.error == 0 ? sum + static_cast<R>(s.error) : sum;  // past infinity: NaN
    } else {
      return static_cast<R>(s);
    }
  }
};

// ---- Extremes ----

template <bool Lowest>
struct order {
  template <class V>
  WARPWRIGHT_HOST_DEVICE static bool before(V a, V b) {
    return Lowest ? a < b : a > b;
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE static V last() {
    if constexpr (std::is_floating_point<V>::value) {
      return Lowest ? infinity<V> : -infinity<V>;
    } else {
      return Lowest ? highest<V> : lowest<V>;
    }
  }
};

template <bool Lowest>
struct extreme : reducer<extreme<Lowest>> {
  static constexpr char const* name = Lowest ? "min" : "max";
  template <class V>
  using state = V;
  template <class V>
  WARPWRIGHT_HOST_DEVICE V identity() const {
    return order<Lowest>::template last<V>();
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE V combine(V a, V b) const {
    return order<Lowest>::before(a, b) || a != a ? a : b;  // NaN stays
  }
};

template <bool Lowest>
struct arg_extreme : reducer<arg_extreme<Lowest>> {
  static constexpr char const* name = Lowest ? "argmin" : "argmax";
  template <class V>
  using state = located<V>;
  template <class V>
  WARPWRIGHT_HOST_DEVICE located<V> identity() const {
    return {order<Lowest>::template last<V>(), no_index};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE located<V> lift(V value, std::uint64_t i) const {
    return {value, i};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE located<V> append(located<V> const& a, located<V> const& b) const {
    return better(b.value, a.value) ? b : a;
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE located<V> combine(located<V> const& a, located<V> const& b) const {
    bool const later = !better(a.value, b.value) && b.index < a.index;
    return better(b.value, a.value) || later ? b : a;
  }

 private:
  template <class V>
  WARPWRIGHT_HOST_DEVICE static bool better(V a, V b) {
    return order<Lowest>::before(a, b) || (a != a && b == b);  // NaN comes before all numbers
  }
};

// ---- Counts ----

struct is_true {
  static constexpr char const* name = "count_if";
  template <class V>
  WARPWRIGHT_HOST_DEVICE bool operator()(V value) const {
    return convert<bool>(value);
  }
};
struct is_not_finite {  // by its bits, so that no fast-math option removes it
  static constexpr char const* name = "count_nonfinite";
  WARPWRIGHT_HOST_DEVICE bool operator()(float value) const {
    return (bit_copy<std::uint32_t>(value) & 0x7f800000U) == 0x7f800000U;
  }
  WARPWRIGHT_HOST_DEVICE bool operator()(double value) const {
    return (bit_copy<std::uint64_t>(value) >> 52U & 0x7ffU) == 0x7ffU;
  }
  WARPWRIGHT_HOST_DEVICE bool operator()(complex<float> const& value) const {
    return (*this)(value.re) || (*this)(value.im);
  }
};

template <class Test>
struct counting : reducer<counting<Test>> {
  static constexpr char const* name = Test::name;
  template <class V>
  using state = std::uint64_t;
  template <class V>
  WARPWRIGHT_HOST_DEVICE std::uint64_t identity() const {
    return 0;
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE std::uint64_t lift(V value, std::uint64_t) const {
    return Test{}(value) ? 1U : 0U;
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE std::uint64_t combine(std::uint64_t a, std::uint64_t b) const {
    return a + b;
  }
};

// ---- What scales or moves as it is combined ----

template <class R>
struct scaled_sum {
  R most;  // the largest value, not below lowest<R>, from which -infinity can be subtracted
  R sum;   // of exp(value - most)
};

// As softmax's accumulator, where the source is (rows/row_functions.hpp).
struct log_sum_exp_kind : reducer<log_sum_exp_kind> {
  static constexpr char const* name = "log_sum_exp";
  template <class V>
  using result = typename real_type<V>::type;
  template <class V>
  using state = scaled_sum<result<V>>;

  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> identity() const {
    return {lowest<result<V>>, 0};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> lift(V value, std::uint64_t) const {
    auto const x = convert<result<V>>(value);
    auto const most = no_contract::larger(x, lowest<result<V>>);
    auto const below = no_contract::minus(x, most);  // 0, -infinity, or NaN, also of infinity
    return {most, below == 0 ? 1 : below < 0 ? 0 : below};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> combine(state<V> const& a, state<V> const& b) const {
    bool const swap = a.most < b.most;  // of numbers: references would take local memory
    auto const below = no_contract::minus(swap ? a.most : b.most, swap ? b.most : a.most);
    auto const low = no_contract::times(swap ? a.sum : b.sum, exp_function{}(below));
    return {swap ? b.most : a.most, no_contract::plus(swap ? b.sum : a.sum, low)};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE result<V> finish(state<V> const& s, std::uint64_t) const {
    return no_contract::plus(s.most, log_function{}(s.sum));
  }
};

template <class R>
struct moments {
  R count;
  R mean;
  R squares;  // of the differences from the mean
};

// As layer_norm's accumulator, where the source is (rows/row_functions.hpp).
struct variance_kind : reducer<variance_kind> {
  static constexpr char const* name = "variance";
  template <class V>
  using result = std::conditional_t<std::is_same<V, float>::value, float, double>;
  template <class V>
  using state = moments<result<V>>;

  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> identity() const {
    return {0, 0, 0};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> lift(V value, std::uint64_t) const {
    return {1, convert<result<V>>(value), 0};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> combine(state<V> const& a, state<V> const& b) const {
    using R = result<V>;
    R const count = a.count + b.count;
    R const part = count == 0 ? R{0} : b.count / count;
    R const difference = no_contract::minus(b.mean, a.mean);
    R const moved = no_contract::times(difference, part);
    R const between = no_contract::times(difference, no_contract::times(moved, a.count));
    return {count, no_contract::plus(a.mean, moved),
            no_contract::plus(no_contract::plus(a.squares, b.squares), between)};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE result<V> finish(state<V> const& s, std::uint64_t n) const {
    return static_cast<result<V>>(static_cast<double>(s.squares) / static_cast<double>(n));
  }
};

// ---- fold() ----

template <class T, class F>
struct folding : reducer<folding<T, F>> {
  static constexpr char const* name = "fold";
  template <class V>
  using state = T;

  T neutral;
  F function;

  template <class V>
  WARPWRIGHT_HOST_DEVICE T identity() const {
    return neutral;
  }
  WARPWRIGHT_NO_EXEC_CHECK
  template <class V>
  WARPWRIGHT_HOST_DEVICE T combine(T const& a, T const& b) const {
    return convert<T>(function(a, b));
  }
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
