// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions of elementwise expressions, as types; reduce.hpp evaluates several of them in one
// pass.
//
//   auto const x = ew::in(p, n);
//   ew::reduce(stream, workspace, n, ew::to(energy) = ew::sum(x * x),
//              ew::to(peak) = ew::max(ew::abs(x)), ew::to(bad) = ew::count_nonfinite(x));
//
// Sums. Floating point is added in the expression's own type, float for 16-bit floats, and integers
// in 64 bits, wrapping. A thread adds up to 64 elements pairwise, and such sums one after the
// other; threads and blocks combine in trees. reduce()'s error is within (n / 2,000,000 + 40) *
// 2^-24 times the sum of the absolute values for one reduction of one float or 16-bit array, and (n
// / 1,000,000 + 40) * 2^-53 for double; with several arrays or many reductions fewer elements are
// added pairwise: n / 130,000 + 40 at worst. reduce_rows() has fewer threads for a row: cols /
// 4,000 + 40, and cols / 256 + 40 at worst. .in<double>() adds in double. .compensated() carries
// the rounding errors along: one rounding of the result, plus n * 2^-48 of the absolute values' sum
// (2^-106 for double).
#pragma once

#include <warpwright/kernel/detail/reduce/reducers.hpp>
#include <warpwright/kernel/functions.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// What sum(), max() and the others return: a reduction of one expression, not yet evaluated.
template <class K, class E>
struct reduction {
  K kind;
  E expression;

  /// The same, added up in type A: double, for one. For sum(), mean() and norm().
  template <class A>
  [[nodiscard]] constexpr auto in() const {
    static_assert(K::is_total, "warpwright::ew: in<A>() is for sum(), mean() and norm()");
    static_assert(
        std::is_arithmetic<A>::value && sizeof(A) >= 4 && !std::is_same<A, long double>::value,
        "warpwright::ew: in<A>() requires float, double, or an integer of 32 or 64 bits");
    return reduction<typename K::template with_accumulator<A>, E>{{}, expression};
  }
  /// The same with the rounding error of every addition carried along. For sum(), mean() and norm()
  /// in floating point; requires a compiler without -ffast-math.
  [[nodiscard]] constexpr auto compensated() const {
    static_assert(K::is_total, "warpwright::ew: compensated() is for sum(), mean() and norm()");
    return reduction<typename K::with_compensation, E>{{}, expression};
  }
};

namespace detail {

template <class K, class X>
constexpr reduction<K, X> make_reduction(X const& x) {
  static_assert(
      is_number<value_t<X>>,
      "warpwright::ew: this reduction is of real numbers: take real(), imag() or abs() of "
      "complex ones; for a type of your own, use fold()");
  return {K{}, x};
}
template <total What, class X>
constexpr auto make_total(X const& x) {
  using kind = summing_of<What, value_t<X>>;
  if constexpr (is_complex<value_t<X>>) {
    return reduction<kind, X>{kind{}, x};
  } else {
    return make_reduction<kind>(x);
  }
}

}  // namespace detail

#define WARPWRIGHT_REDUCTION(name, make)               \
  template <class X, class = detail::if_expression<X>> \
  [[nodiscard]] constexpr auto(name)(X const& x) {     \
    return detail::make(x);                            \
  }
/// The sum; 0 of no elements. Integers are added in 64 bits; of complex numbers the real and the
/// imaginary parts are added separately, and the result is a complex number of float.
WARPWRIGHT_REDUCTION(sum, make_total<detail::total::sum>)
/// The mean: sum / n, divided in double; NaN of no elements. Of integers it is a double, of complex
/// numbers a complex number.
WARPWRIGHT_REDUCTION(mean, make_total<detail::total::mean>)
/// The 2-norm, the root of the sum of squares; 0 of no elements.
///
/// The squares are not scaled: in float, those of elements beyond 1.8e19 overflow and those of
/// elements below 1e-23 are 0; use .in<double>() there. Of integers it is computed in double; of
/// complex numbers it is real.
WARPWRIGHT_REDUCTION(norm, make_total<detail::total::norm>)
/// The smallest value; NaN if any is; infinity, or the type's largest, of no elements.
/// Of -0 and +0 it is either.
WARPWRIGHT_REDUCTION(min, make_reduction<detail::extreme<detail::lower_first>>)
/// The largest value; NaN if any is; -infinity, or the type's smallest, of no elements.
/// Of -0 and +0 it is either.
WARPWRIGHT_REDUCTION(max, make_reduction<detail::extreme<detail::higher_first>>)
/// The smallest value and the lowest index that has it, as a located; into an integer, the index
/// alone. NaN is ordered before all numbers. Of no elements the index is no_index.
WARPWRIGHT_REDUCTION(argmin, make_reduction<detail::arg_extreme<detail::lower_first>>)
/// As argmin(), of the largest value.
WARPWRIGHT_REDUCTION(argmax, make_reduction<detail::arg_extreme<detail::higher_first>>)
/// The number of elements where the condition holds, as std::uint64_t.
WARPWRIGHT_REDUCTION(count_if, make_reduction<detail::counting<detail::is_true>>)
#undef WARPWRIGHT_REDUCTION
/// The number of infinities and NaNs, as std::uint64_t; of complex numbers, of those with one.
template <class X, class = detail::if_expression<X>>
[[nodiscard]] constexpr auto count_nonfinite(X const& x) {
  using value = detail::value_t<X>;
  static_assert(std::is_floating_point<value>::value || detail::is_complex<value>,
                "warpwright::ew::count_nonfinite: integers are always finite");
  return reduction<detail::counting<detail::is_not_finite>, X>{{}, x};
}

/// A reduction of your own: `function(function(a, b), c)` and so on, over all elements.
/// @pre F is trivially copyable with a const `WARPWRIGHT_HOST_DEVICE T operator()(T, T)`; it is
///   associative and commutative, and returns the other argument when one is `identity`
/// @param x         of numbers, or of T
/// @param identity  the initial state, and the result of no elements; trivially copyable
/// @param function  copied into the kernel's arguments
template <class X, class T, class F, class = detail::if_expression<X>>
[[nodiscard]] constexpr auto fold(X const& x, T const& identity, F const& function) {
  static_assert(detail::is_element<T>() && !detail::is_small_float<T>,
                "warpwright::ew::fold: the identity's type must be trivially copyable and default "
                "constructible; 16-bit floats are computed as float");
  static_assert(std::is_same<detail::value_t<X>, T>::value ||
                    (detail::is_number<detail::value_t<X>> && detail::is_number<T>),
                "warpwright::ew::fold: the elements must be numbers, or of the identity's type");
  static_assert(detail::is_extended_lambda<F> || std::is_trivially_copyable<F>::value,
                "warpwright::ew::fold: the function must be trivially copyable, as a kernel's "
                "argument is: hold pointers and numbers, not containers");
  static_assert(detail::is_extended_lambda<F> || detail::is_callable<F, T, T>,
                "warpwright::ew::fold: the function cannot be called with two of the identity's "
                "type; its operator() must be const");
  return reduction<detail::folding<T, F>, X>{{{}, identity, function}, x};
}

}  // namespace ew

WARPWRIGHT_END
