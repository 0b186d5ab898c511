// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The nodes of run_row_gradients(): sums of a row and shared values within expressions, reductions
// of columns; and the leaves that its kernels have in their place.
#pragma once

#include <warpwright/kernel/detail/reduce/reducers.hpp>
#include <warpwright/kernel/detail/rows/row_nodes.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// What a node of run_row_gradients() stands for: a shared value, or one value for all of a row.
enum class pass_value : unsigned char { once, sum, mean };

/// What once(), row_sum() and row_mean() return.
template <pass_value What, int Number, class E>
struct pass_node {
  using expression_tag = void;
  static constexpr bool is_total = What != pass_value::once;
  static constexpr bool is_mean = What == pass_value::mean;
  static constexpr int operands = E::operands;
  static constexpr int widest_bytes = E::widest_bytes;
  static constexpr int loaded_bytes = E::loaded_bytes;
  static constexpr bool weak = false;
  using expression_type = E;
  using value_of =
      std::conditional_t<is_total, detail::row_value_t<E>, typename E::template value_type<void>>;
  template <class C>
  using value_type = detail::computed_t<C, value_of>;
  template <int V>
  using registers = detail::no_registers;

  E expression;

  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(detail::no_registers&, std::uint64_t, std::uint64_t) const {
    static_assert(V < 0,
                  "warpwright::ew: row_sum(), row_mean(), once() and the backward functions are "
                  "evaluated with run_row_gradients(stream, pool, {rows, cols}, ...)");
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(detail::no_registers const&, int,
                                             std::uint64_t) const {
    return {};  // never evaluated: load() does not compile
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

// ---- Reductions of columns ----

template <class V>
struct refused_state {
  static_assert(sizeof(V) == 0,
                "warpwright::ew: column_sum() and column_max() are of run_row_gradients(); "
                "reduce_cols() takes sum() and max()");
  using type = V;
};
// The kind of a reduction (reducers.hpp) that each column has.
template <class K>
struct of_column;
template <class K, bool IsTotal = K::is_total>
struct of_column_base {
  static constexpr bool is_total = false;
};
template <class K>
struct of_column_base<K, true> {
  static constexpr bool is_total = true;
  template <class A>
  using with_accumulator = of_column<typename K::template with_accumulator<A>>;
  using with_compensation = of_column<typename K::with_compensation>;
};
template <class K>
struct of_column : of_column_base<K> {
  template <class V>
  using state = typename refused_state<V>::type;
  template <class V>
  using result = typename K::template result<V>;
};

// What `to(pointer) += column_sum(x)` makes.
template <class T, class K, class E>
struct accumulation {
  bits_of<T>* data;
  E expression;
};

// ---- The nodes of a pass, those within a node before it ----

template <class Leaf>
inline constexpr bool is_pass_node = false;
template <pass_value What, int Number, class E>
inline constexpr bool is_pass_node<pass_node<What, Number, E>> = true;

// The index of a node in a list; the list's length where it lacks it.
template <class List, class Node>
inline constexpr int node_index = 0;
template <class First, class... Rest, class Node>
inline constexpr int node_index<leaf_list<First, Rest...>, Node> =
    std::is_same<First, Node>::value ? 0 : 1 + node_index<leaf_list<Rest...>, Node>;

// A list, with the nodes that some leaves add to it.
template <class List, class Leaves>
struct pass_nodes {
  using type = List;
};
template <class List, class Leaf>
struct with_node {
  using type = List;
};
template <class List, pass_value What, int Number, class E>
struct with_node<List, pass_node<What, Number, E>> {
  using node = leaf_list<pass_node<What, Number, E>>;
  using below = typename pass_nodes<List, leaves_of<E>>::type;
  using longer = typename joined_leaves<below, node>::type;
  using type =
      std::conditional_t<node_index<below, pass_node<What, Number, E>> == node_index<below, void>,
                         longer, below>;
};
template <class List, class Leaf, class... Rest>
struct pass_nodes<List, leaf_list<Leaf, Rest...>>
    : pass_nodes<typename with_node<List, Leaf>::type, leaf_list<Rest...>> {};
template <class E>
using pass_nodes_of = typename pass_nodes<leaf_list<>, leaves_of<E>>::type;

template <class Node>
struct is_row_total : std::bool_constant<Node::is_total> {};
// Whether an expression has the sum of a row in it.
template <class E>
inline constexpr bool has_row_total = any_of_leaves<is_row_total, pass_nodes_of<E>>;

/// Compares the nodes of each type, which one value stands for.
template <class Nodes>
struct pass_node_finder;
template <class... Node>
struct pass_node_finder<leaf_list<Node...>> {
  pack<Node const*...> first;
  bool are_one = true;

  template <class Leaf>
  void operator()(Leaf const& leaf) {
    if constexpr (is_pass_node<Leaf>) {
      constexpr auto index = static_cast<std::size_t>(node_index<leaf_list<Node...>, Leaf>);
      auto const*& seen = at<index>(first);
      if (seen == nullptr) seen = &leaf;
      are_one = are_one && same_expression<Leaf>::test(*seen, leaf);
      traversal<decltype(leaf.expression)>::visit(leaf.expression, *this);
    }
  }
};

// ---- Leaves of a kernel ----

// Where what all rows share is loaded: once for a thread.
struct steady_place {
  unsigned column;
};

// The value of the K-th node, which is put into its registers.
template <class R, int K, bool IsTotal>
struct node_leaf : no_memory {
  static constexpr bool weak = false;
  template <class C>
  using value_type = computed_t<C, R>;
  template <int V>
  using registers = row_values<R, IsTotal ? 1 : V>;
  template <int V, int First, class Place>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>&, Place const&, std::uint64_t) const {}
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int j, std::uint64_t) const {
    return convert<value_type<C>>(r.of[IsTotal ? 0 : j]);
  }
};

// What is the same in all rows is loaded at a steady_place, anything else for each row.
template <class Leaf, bool Steady>
struct phased_leaf : Leaf {
  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(typename Leaf::template registers<V>& r, matrix_index const& i,
                                   std::uint64_t wide) const {
    if constexpr (!Steady) Leaf::template load<V, First>(r, i.index, wide);
  }
  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(typename Leaf::template registers<V>& r, steady_place const& i,
                                   std::uint64_t wide) const {
    if constexpr (Steady) Leaf::template load<V, First>(r, std::uint64_t{i.column}, wide);
  }
};
// col(): one register for all neighbours.
template <class T>
struct one_a_row : column_input<T> {
  template <int V>
  using registers = packed_vector<bits_of<T>, 1>;
  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, matrix_index const& i, std::uint64_t) const {
    r.load_one(this->data + i.row);
  }
  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>&, steady_place const&, std::uint64_t) const {}
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE computed_t<C, T> value(registers<V> const& r, int, std::uint64_t) const {
    return convert<computed_t<C, T>>(element_traits<T>::decode(r.only));
  }
};

template <class Nodes>
struct to_pass_leaf {
  template <class T>
  phased_leaf<row_input<T>, true> operator()(row_input<T> const& leaf) const {
    return {leaf};
  }
  template <class T>
  phased_leaf<single_input<T>, true> operator()(single_input<T> const& leaf) const {
    return {leaf};
  }
  template <class T>
  one_a_row<T> operator()(column_input<T> const& leaf) const {
    return {leaf};
  }
  template <class Leaf>
  auto operator()(Leaf const& leaf) const {
    if constexpr (is_pass_node<Leaf>) {
      return node_leaf<typename Leaf::value_of, node_index<Nodes, Leaf>, Leaf::is_total>{};
    } else {
      return phased_leaf<Leaf, false>{leaf};
    }
  }
};
// An expression as a kernel computes it.
template <class E, class Nodes>
using pass_expression = typename traversal<E>::template replaced<to_pass_leaf<Nodes>>;

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
