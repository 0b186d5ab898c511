// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Expressions of reductions: `to(p) = silu(sum(a)) * sum(b)` is one reduction, whose kind has the
// states of both, and evaluates it at the end, where load() of a reduction is its result.
#pragma once

#include <warpwright/kernel/detail/expression/traversal.hpp>
#include <warpwright/kernel/detail/reduce/reducers.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

// Makes one node of the expressions of several reductions.
struct gather_values {
  template <class... V>
  WARPWRIGHT_HOST_DEVICE pack<V...> operator()(V... values) const {
    return {{values}...};
  }
};

template <class Leaf>
inline constexpr bool may_stand_beside = is_reduction<Leaf> || is_input<Leaf>::value;
template <class T>
inline constexpr bool may_stand_beside<single_input<T>> = true;
template <class T, bool Weak>
inline constexpr bool may_stand_beside<scalar<T, Weak>> = true;

template <class List>
struct result_leaves;
template <class... Leaf>
struct result_leaves<leaf_list<Leaf...>> {
  static constexpr std::size_t count = (std::size_t{0} + ... + (is_reduction<Leaf> ? 1 : 0));
  static constexpr bool fit = (may_stand_beside<Leaf> && ...);
  using reductions = typename joined_leaves<
      std::conditional_t<is_reduction<Leaf>, leaf_list<Leaf>, leaf_list<>>...>::type;
  /// The number of reductions among the first operands, of which each is one.
  WARPWRIGHT_HOST_DEVICE static constexpr std::size_t before(int operand) {
    std::size_t result = 0;
    ((result += is_reduction<Leaf> && operand > 0 ? 1 : 0, operand -= Leaf::operands), ...);
    return result;
  }
};

// Where such an expression is evaluated: the number of the result, and those of the reductions.
template <class Results, class Leaves>
struct result_position {
  std::uint64_t k;
  Results const& results;
  WARPWRIGHT_HOST_DEVICE operator std::uint64_t() const { return k; }
};

template <class R>
struct refused_operand {  // a class, so that the text is printed once
  static_assert(sizeof(R) == 0,
                "warpwright::ew: a reduction is no operand: store it by a call before, as "
                "reduce(stream, pool, n, to(p) = sum(x)), and write device_scalar(p); one of "
                "each row by reduce_rows(), and write col(p, cols)");
};
template <int First, class R, class Value, class Index>
WARPWRIGHT_HOST_DEVICE void load_result(Value&, Index const&) {
  static_cast<void>(sizeof(refused_operand<R>));
}
template <int First, class R, class Value, class Results, class Leaves>
WARPWRIGHT_HOST_DEVICE void load_result(Value& value, result_position<Results, Leaves> const& i) {
  at<0>(value) = at<Leaves::before(First)>(i.results);
}

/// The kind of an expression X of reductions R; see reducers.hpp.
template <class X, class Indices, class... R>
struct epilogue;
template <class X, std::size_t... Index, class... K, class... E>
struct epilogue<X, std::index_sequence<Index...>, reduction<K, E>...>
    : reducer<epilogue<X, std::index_sequence<Index...>, reduction<K, E>...>> {
  static constexpr int operands = X::operands;
  template <class Y>
  using value = typename Y::template value_type<void>;
  template <class V>
  using state = pack<typename K::template state<value<E>>...>;
  template <class V>
  using result = value<X>;

  X expression;
  pack<K...> kinds;

  void describe(operand*& next) const { expression.template describe<1>(next); }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> identity() const {
    return {{at<Index>(kinds).template identity<value<E>>()}...};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> lift(V const& v, std::uint64_t i) const {
    return {{at<Index>(kinds).template lift<value<E>>(at<Index>(v), i)}...};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE state<V> combine(state<V> const& a, state<V> const& b) const {
    return {{at<Index>(kinds).template combine<value<E>>(at<Index>(a), at<Index>(b))}...};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE auto finish_at(state<V> const& s, std::uint64_t n, std::uint64_t k) const {
    using results = pack<value<reduction<K, E>>...>;
    results const all{{at<Index>(kinds).template finish<value<E>>(at<Index>(s), n)}...};
    typename X::template registers<1> r;
    expression.template load<1, 0>(r, result_position<results, result_leaves<leaves_of<X>>>{k, all},
                                   all_wide_bits);
    return expression.template value<void, 1>(r, 0, k);
  }
};

template <class X, std::size_t... Index, class... K, class... E>
auto make_epilogue(X const& x, std::index_sequence<Index...>, leaf_list<reduction<K, E>...>) {
  void const* found[sizeof...(K)];
  std::size_t count = 0;
  auto const find = [&](auto const& leaf) {
    if constexpr (is_reduction<std::decay_t<decltype(leaf)>>) found[count++] = &leaf;
  };
  traversal<X>::visit(x, find);
  using kind = epilogue<X, std::index_sequence<Index...>, reduction<K, E>...>;
  return reduction<kind, call<unconverted, gather_values, E...>>{
      kind{{}, x, {{static_cast<reduction<K, E> const*>(found[Index])->kind}...}},
      {{{}, {{static_cast<reduction<K, E> const*>(found[Index])->expression}...}}}};
}

// A reduction, or an expression of reductions as one reduction.
template <class X>
auto as_reduction(X const& x) {
  if constexpr (is_reduction<X> || is_reduction_assignment<X>) {
    return x;
  } else {
    using leaves = result_leaves<leaves_of<expression_t<X>>>;
    static_assert(
        leaves::count != 0,
        "warpwright::ew: no reduction, as sum(x), on the right side; elements go to out()");
    static_assert(leaves::count == 0 || leaves::fit,
                  "warpwright::ew: beside a reduction stand numbers, device_scalar(p), and in(p, "
                  "rows) with an element for each result; put row(), index() and what else is of "
                  "elements into it");
    if constexpr (leaves::count != 0 && leaves::fit) {
      return make_epilogue(x, std::make_index_sequence<leaves::count>{},
                           typename leaves::reductions{});
    } else {
      return reduction<counting<is_true>, scalar<std::enable_if_t<(sizeof(X) > 0), int>, true>>{};
    }
  }
}
template <class X>
using as_reduction_t = decltype(as_reduction(std::declval<X const&>()));
template <class... X>
using if_results = std::enable_if_t<(sizeof...(X) > 0) && (is_expression<X> && ...)>;

}  // namespace ew::detail

WARPWRIGHT_END
