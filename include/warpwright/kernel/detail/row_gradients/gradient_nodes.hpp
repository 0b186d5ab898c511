// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The nodes of run_row_gradients(): sums of a row and shared values within expressions, and
// reductions of columns.
#pragma once

#include <warpwright/kernel/detail/reduce/reduction_pass.hpp>
#include <warpwright/kernel/detail/rows/row_nodes.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// What a node of run_row_gradients() stands for: a shared value, or one value for all of a row.
enum class pass_value : unsigned char { once, sum, mean };

namespace detail {

// A node's values in a kernel: of V elements, or one of a row.
template <class Node, int V>
struct node_values {
  c_array<typename Node::value_of, Node::is_total ? 1 : V> of;
};
template <class Leaf>
struct is_row_total : std::false_type {};
// Whether an expression has the sum of a row in it.
template <class E>
inline constexpr bool has_row_total = any_of_leaves<is_row_total, leaves_of<E>>;

}  // namespace detail

/// What once(), row_sum() and row_mean() return. A kernel puts its values into its registers.
template <pass_value What, int Number, class E>
struct pass_node {
  using expression_tag = void;
  static constexpr bool is_total = What != pass_value::once;
  static constexpr bool is_mean = What == pass_value::mean;
  static constexpr int operands = E::operands;
  static constexpr int widest_bytes = E::widest_bytes;
  static constexpr int loaded_bytes = 0;  // of all nodes of its type: E's
  static constexpr bool weak = false;
  using value_of =
      std::conditional_t<is_total, detail::row_value_t<E>, typename E::template value_type<void>>;
  template <class C>
  using value_type = detail::computed_t<C, value_of>;
  template <int V>
  using registers = detail::node_values<pass_node, V>;
  static_assert(!is_total || detail::is_number<detail::value_t<E>>,
                "warpwright::ew: row_sum() and row_mean() are of real numbers");
  static_assert(
      !is_total || !detail::has_row_total<E>,
      "warpwright::ew: a sum of a row within another: the outer one needs the inner one's "
      "whole row; store that by a call before, as reduce_rows(stream, {rows, cols}, "
      "to(p) = sum(x)), and write col(p, cols)");

  E expression;

  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>&, std::uint64_t, std::uint64_t) const {
    static_assert(V < 0,
                  "warpwright::ew: row_sum(), row_mean(), once() and the backward functions are "
                  "evaluated with run_row_gradients(stream, pool, {rows, cols}, ...)");
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int j, std::uint64_t) const {
    return detail::convert<value_type<C>>(r.of[is_total ? 0 : j]);
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    expression.template describe<V>(next);
  }
};

namespace detail {

template <pass_value What, int Number, class E>
struct same_expression<pass_node<What, Number, E>> {
  static bool test(pass_node<What, Number, E> const& a, pass_node<What, Number, E> const& b) {
    return same_expression<E>::test(a.expression, b.expression);
  }
};
template <class Leaf>
inline constexpr bool is_pass_node = false;
template <pass_value What, int Number, class E>
inline constexpr bool is_pass_node<pass_node<What, Number, E>> = true;
template <pass_value What, int Number, class E>
struct is_row_total<pass_node<What, Number, E>>
    : std::bool_constant<What != pass_value::once || has_row_total<E>> {};

// ---- Reductions of columns ----

template <class V>
struct refused_state {
  static_assert(sizeof(V) == 0,
                "warpwright::ew: column_sum() and column_max() are of run_row_gradients(), alone "
                "behind to(pointer) = or +=; reduce_cols() takes sum() and max()");
  using type = V;
};
// The kind of a reduction (reducers.hpp) that each column has.
template <class K, bool IsTotal = K::is_total>
struct of_column {
  static constexpr bool is_total = IsTotal;
  template <class V>
  using state = typename refused_state<V>::type;
  template <class V>
  using result = typename K::template result<V>;
};
template <class K>
struct of_column<K, true> : of_column<K, false> {
  static constexpr bool is_total = true;
  template <class A>
  using with_accumulator = of_column<typename K::template with_accumulator<A>>;
  using with_compensation = of_column<typename K::with_compensation>;
};

// What `to(pointer) += column_sum(x)` makes.
template <class T, class K, class E>
struct accumulation : reduction_assignment<T, of_column<K>, E> {};

// ---- The nodes of a pass, those within a node before it ----

// A list with the nodes that some leaves add to it.
template <class List, class Leaves>
struct pass_nodes {
  using type = List;
};
template <class List, class Leaf, class... Rest>
struct pass_nodes<List, leaf_list<Leaf, Rest...>> : pass_nodes<List, leaf_list<Rest...>> {};
template <class List, pass_value What, int Number, class E, class... Rest>
struct pass_nodes<List, leaf_list<pass_node<What, Number, E>, Rest...>> {
  template <class Node, class... Before>
  static auto append(leaf_list<Before...>)
      -> std::conditional_t<(std::is_same<Before, Node>::value || ...), leaf_list<Before...>,
                            leaf_list<Before..., Node>>;
  using within = typename pass_nodes<List, leaves_of<E>>::type;
  using type = typename pass_nodes<decltype(append<pass_node<What, Number, E>>(within{})),
                                   leaf_list<Rest...>>::type;
};

/// Finds a node of each type, and compares it with the others, as one value stands for all.
template <class... Node>
struct pass_node_finder {
  pack<Node const*...> first;
  bool are_one = true;

  template <class Leaf>
  void operator()(Leaf const& leaf) {
    if constexpr (is_pass_node<Leaf>) {
      Leaf const*& seen = of_type<Leaf const*>(first);
      if (seen == nullptr) seen = &leaf;
      are_one = are_one && same_expression<Leaf>::test(*seen, leaf);
      traversal<decltype(leaf.expression)>::visit(leaf.expression, *this);
    }
  }
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
