// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Expressions of reductions: `to(p) = silu(sum(a)) * sum(b)` is one reduction, whose kind carries
// the states of all that the expression names, and evaluates the expression when it finishes.
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

// A class, so that the text is printed once.
template <class K, class E>
struct refused_operand {
  static_assert(sizeof(K) == 0,
                "warpwright::ew: a reduction is no operand: store it by a call before, as "
                "reduce(stream, pool, n, to(p) = sum(x)), and write device_scalar(p); one of "
                "each row by reduce_rows(), and write col(p, cols)");
};

// Where an epilogue is evaluated: the number of the result, and what the reductions came to.
template <class Results, class Numbers>
struct result_position {
  std::uint64_t k;
  Results const& results;
  WARPWRIGHT_HOST_DEVICE operator std::uint64_t() const { return k; }
  template <int First>
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE auto result() const {
    return at<Numbers::before(First)>(results);
  }
};

template <class R>
struct result_value {
  R of;
};

// A reduction as an epilogue computes with it: load() fetches its result.
template <class R>
struct result_leaf {
  using expression_tag = void;
  static constexpr int operands = 1;  // has no array: the number tells results apart in load()
  static constexpr int widest_bytes = 1;
  static constexpr int loaded_bytes = 0;
  static constexpr bool weak = false;
  template <class C>
  using value_type = computed_t<C, R>;
  template <int V>
  using registers = result_value<R>;

  template <int V, int First, class Position>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Position const& position, std::uint64_t) const {
    r.of = position.template result<First>();
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int, std::uint64_t) const {
    return convert<value_type<C>>(r.of);
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    (*next++).kind = access_pattern::absent;
  }
};

// What is at `to(p)` before `+=`: an in() that always fits.
template <class T>
struct previous_result : input<T> {
  template <int V, class Operand>
  void describe(Operand*& next) const {
    (*next++).kind = access_pattern::absent;
  }
};

template <class Leaf>
struct is_result : std::false_type {};
template <class R>
struct is_result<result_leaf<R>> : std::true_type {};

template <class Leaf>
struct is_reduction_leaf : std::bool_constant<is_reduction<Leaf>> {};
template <class Leaf>
struct may_stand_beside : is_reduction_leaf<Leaf> {};
template <class T>
struct may_stand_beside<input<T>> : std::true_type {};
template <class T>
struct may_stand_beside<previous_result<T>> : std::true_type {};
template <class T>
struct may_stand_beside<single_input<T>> : std::true_type {};
template <class T, bool Weak>
struct may_stand_beside<scalar<T, Weak>> : std::true_type {};

// The number of reductions among the first operands of an epilogue.
template <class List>
struct result_numbers;
template <class... Leaf>
struct result_numbers<leaf_list<Leaf...>> {
  WARPWRIGHT_HOST_DEVICE static constexpr std::size_t before(int operand) {
    std::size_t count = 0;
    int next = 0;
    ((count += is_result<Leaf>::value && next < operand ? 1 : 0, next += Leaf::operands), ...);
    return count;
  }
};

// Whether what argmin() finds is an operand of anything but a function of map().
template <class E>
inline constexpr bool finds_place = false;
template <class K, class E>
inline constexpr bool finds_place<reduction<K, E>> =
    is_located<typename K::template result<value_t<E>>>;
template <class E>
inline constexpr bool combines_places = false;
template <class T, class E>
inline constexpr bool combines_places<computed_as<T, E>> = finds_place<E> || combines_places<E>;
template <class Types, class F, class... A>
inline constexpr bool combines_places<call<Types, F, A...>> =
    ((finds_place<A> || combines_places<A>) || ...);
template <class F, class... A>
inline constexpr bool combines_places<call<unconverted, F, A...>> = (combines_places<A> || ...);
template <class T, class A>
inline constexpr bool combines_places<call<unconverted, cast_function<T>, A>> =
    finds_place<A> || combines_places<A>;

/// The kind of reductions and an expression of them; see reducers.hpp.
/// @tparam X  the expression, with a result_leaf in place of each reduction<K, E>
template <class X, class Indices, class... R>
struct epilogue;
template <class X, std::size_t... Index, class... K, class... E>
struct epilogue<X, std::index_sequence<Index...>, reduction<K, E>...>
    : reducer<epilogue<X, std::index_sequence<Index...>, reduction<K, E>...>> {
  using expression_type = X;
  template <class Y>
  using value = typename Y::template value_type<void>;
  using states = pack<typename K::template state<value<E>>...>;
  template <class V>
  using state = states;
  template <class V>
  using result = value<X>;

  X expression;
  pack<K...> kinds;

  template <class V>
  WARPWRIGHT_HOST_DEVICE states identity() const {
    return {{at<Index>(kinds).template identity<value<E>>()}...};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE states lift(V const& v, std::uint64_t i) const {
    return {{at<Index>(kinds).template lift<value<E>>(at<Index>(v), i)}...};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE states append(states const& a, states const& b) const {
    return {{at<Index>(kinds).template append<value<E>>(at<Index>(a), at<Index>(b))}...};
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE states combine(states const& a, states const& b) const {
    return {{at<Index>(kinds).template combine<value<E>>(at<Index>(a), at<Index>(b))}...};
  }
  // Result `k`.
  template <class V>
  WARPWRIGHT_HOST_DEVICE result<V> finish(states const& s, std::uint64_t n, std::uint64_t k) const {
    using results = pack<typename K::template result<value<E>>...>;
    results const all{{at<Index>(kinds).template finish<value<E>>(at<Index>(s), n)}...};
    typename X::template registers<1> r WARPWRIGHT_ZERO_ON_HOST;
    expression.template load<1, 0>(
        r, result_position<results, result_numbers<leaves_of<X>>>{k, all}, all_wide_bits);
    return expression.template value<void, 1>(r, 0, k);
  }
};

template <class K>
inline constexpr bool is_epilogue = false;
template <class X, class Indices, class... R>
inline constexpr bool is_epilogue<epilogue<X, Indices, R...>> = true;

// ---- How an epilogue is made ----

struct to_result_leaf {
  template <class K, class E>
  result_leaf<typename K::template result<value_t<E>>> operator()(reduction<K, E> const&) const {
    return {};
  }
  template <class Leaf>
  Leaf operator()(Leaf const& leaf) const {
    return leaf;
  }
};

template <class List>
struct reductions_among;
template <class... Leaf>
struct reductions_among<leaf_list<Leaf...>>
    : joined_leaves<std::conditional_t<is_reduction<Leaf>, leaf_list<Leaf>, leaf_list<>>...> {
  using indices = std::make_index_sequence<(0 + ... + (is_reduction<Leaf> ? 1U : 0U))>;
};

template <std::size_t Count>
struct reduction_finder {
  void const* each[Count];
  std::size_t count = 0;
  template <class K, class E>
  WARPWRIGHT_HOST_DEVICE void operator()(reduction<K, E> const& r) {
    each[count++] = &r;
  }
  template <class Leaf>
  WARPWRIGHT_HOST_DEVICE void operator()(Leaf const&) {}
};

template <class X, std::size_t... Index, class... R>
auto make_epilogue(X const& x, std::index_sequence<Index...>, leaf_list<R...>) {
  using indices = std::index_sequence<Index...>;
  reduction_finder<sizeof...(R)> found;
  traversal<X>::visit(x, found);
  auto const e = make_call<unconverted>(gather_values{},
                                        static_cast<R const*>(found.each[Index])->expression...);
  using node = typename traversal<X>::template replaced<to_result_leaf>;
  using kind = epilogue<node, indices, R...>;
  return reduction<kind, std::decay_t<decltype(e)>>{
      kind{{},
           traversal<X>::replace(x, to_result_leaf{}),
           {{static_cast<R const*>(found.each[Index])->kind}...}},
      e};
}

// An expression of reductions, as one reduction.
template <class X>
auto as_reduction(X const& x) {
  if constexpr (is_reduction<X> || is_reduction_assignment<X>) {
    return x;
  } else if constexpr (!is_expression<X>) {
    return as_reduction(as_expression(x));
  } else {
    using leaves = leaves_of<X>;
    constexpr bool has_reduction = any_of_leaves<is_reduction_leaf, leaves>;
    constexpr bool fits = all_of_leaves<may_stand_beside, leaves>;
    constexpr bool of_numbers = !combines_places<X>;
    static_assert(has_reduction,
                  "warpwright::ew: a result is a reduction, as sum(x), or an expression with one; "
                  "without any write run(stream, out(pointer, n) = expression)");
    static_assert(!has_reduction || fits,
                  "warpwright::ew: beside a reduction stand numbers, device_scalar(p) and in(p, "
                  "rows), of one element for each result; row(), col(), index(), views, random "
                  "numbers and functions of rows are of elements: put them into the reduction");
    static_assert(of_numbers,
                  "warpwright::ew: argmin() and argmax() find a located, which is no number: store "
                  "it by a to() of its own, or give it to map(), whose function takes a located");
    if constexpr (has_reduction && fits && of_numbers) {
      using list = typename reductions_among<leaves>::type;
      return make_epilogue(x, typename reductions_among<leaves>::indices{}, list{});
    } else {
      return reduction<counting<is_true>, scalar<std::conditional_t<fits, int, float>, true>>{};
    }
  }
}
// What reduce() returns results of: expressions of reductions, not all of which are one alone.
template <class... X>
using if_results = std::enable_if_t<(is_expression<X> && ...) && !(is_reduction<X> && ...)>;

}  // namespace ew::detail

WARPWRIGHT_END
