// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One pass over the rows of a matrix: what a thread does with a vector of a row.
#pragma once

#include <warpwright/kernel/detail/elementwise/fused.hpp>
#include <warpwright/kernel/detail/row_gradients/gradient_nodes.hpp>
#include <warpwright/kernel/detail/row_gradients/gradient_plan.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// ---- The goals of a pass ----

template <class T, class E>
struct output_part : fused_part<T, E> {
  using state = void;
};
template <bool Adds, class T, class K, class E>
struct column_part {
  static constexpr int widest_bytes = E::widest_bytes;
  static constexpr int loaded_bytes = E::loaded_bytes;
  template <int V>
  using registers = typename E::template registers<V>;
  using value = value_t<E>;
  using state = typename K::template state<value>;

  bits_of<T>* data;
  E expression;

  WARPWRIGHT_HOST_DEVICE static state none() { return K{}.template identity<value>(); }
  WARPWRIGHT_HOST_DEVICE static state combine(state const& a, state const& b) {
    return K{}.template combine<value>(a, b);
  }
  WARPWRIGHT_HOST_DEVICE static void append(state& s, value const& x) {
    s = combine(s, K{}.template lift<value>(x, 0));
  }
  WARPWRIGHT_HOST_DEVICE void finish(state const& s, std::uint64_t rows, std::uint64_t k) const {
    auto const result = K{}.template finish<value>(s, rows);
    if constexpr (Adds) {
      data[k] = converted_result<T>(plus{}(element_traits<T>::decode(data[k]), result));
    } else {
      data[k] = converted_result<T>(result);
    }
  }
};
template <class T, class E>
output_part<T, E> make_part(assignment<T, E> const& a) {
  return {{a.data, a.expression}};
}
template <class T, class K, class E>
column_part<false, T, K, E> make_part(reduction_assignment<T, of_column<K>, E> const& a) {
  return {a.data, a.expression};
}
template <class T, class K, class E>
column_part<true, T, K, E> make_part(accumulation<T, K, E> const& a) {
  return {a.data, a.expression};
}
template <class A>
using pass_part = decltype(make_part(std::declval<A const&>()));
template <class A, class = void>
inline constexpr bool is_goal = false;
template <class A>
inline constexpr bool is_goal<A, std::void_t<pass_part<A>>> = true;

// ---- States of some members of a pack: those whose state is not void ----

template <std::size_t>
struct no_slot {};
template <class Indices, class... State>
struct some_states;
template <std::size_t... Index, class... State>
struct some_states<std::index_sequence<Index...>, State...>
    : std::conditional_t<std::is_void<State>::value, no_slot<Index>, slot<Index, State>>... {
  static constexpr int count = (0 + ... + (std::is_void<State>::value ? 0 : 1));
  // Calls f(index) for each.
  template <class F>
  WARPWRIGHT_HOST_DEVICE static void each(F const& f) {
    (one<State>(f, std::integral_constant<std::size_t, Index>{}), ...);
  }

 private:
  template <class S, class F, class At>
  WARPWRIGHT_HOST_DEVICE static void one(F const& f, At index) {
    if constexpr (!std::is_void<S>::value) f(index);
  }
};

// ---- Visitors of leaves ----

template <class Leaf>
struct is_steady : std::false_type {};
template <class T>
struct is_steady<row_input<T>> : std::true_type {};
template <class T>
struct is_steady<single_input<T>> : std::true_type {};
// Loads what all rows share, or all else.
template <bool Steady, int V>
struct leaf_load {
  matrix_index i;
  template <class Leaf, class Registers>
  WARPWRIGHT_HOST_DEVICE void operator()(Leaf const& leaf, Registers& r) const {
    if constexpr (!is_pass_node<Leaf> && is_steady<Leaf>::value == Steady) {
      leaf.template load<V, 0>(r, i, all_wide_bits);
    }
  }
  // One register for all elements until they are used.
  template <class T, class Bits>
  WARPWRIGHT_HOST_DEVICE void operator()(column_input<T> const& leaf,
                                         packed_vector<Bits, V>& r) const {
    if constexpr (!Steady) {
      r = {};
      r.set(0, leaf.data[i.row]);
    }
  }
};
// Puts the values of nodes into their registers.
template <class Values>
struct node_fill {
  Values const& values;
  template <class Leaf, class Registers>
  WARPWRIGHT_HOST_DEVICE void operator()(Leaf const&, Registers& r) const {
    if constexpr (is_pass_node<Leaf>) r = of_type<Registers>(values);
  }
  template <class T, class Bits, int V>
  WARPWRIGHT_HOST_DEVICE void operator()(column_input<T> const&, packed_vector<Bits, V>& r) const {
    WARPWRIGHT_UNROLL
    for (int j = 1; j < V; ++j) r.set(j, r.get(0));
  }
};

// ---- The pass ----

/// @tparam V  elements a vector: 1 where rows are no whole number of vectors, or arrays misaligned
template <int V, class Nodes, class Parts>
struct gradient_pass;
template <int V, std::size_t... K, class... Node, std::size_t... Index, class... Part>
struct gradient_pass<V, pack_of<std::index_sequence<K...>, Node...>,
                     pack_of<std::index_sequence<Index...>, Part...>> {
  using columns = some_states<std::index_sequence<Index...>, typename Part::state...>;
  using totals = some_states<std::index_sequence<K...>,
                             std::conditional_t<Node::is_total, typename Node::value_of, void>...>;
  static_assert(sizeof(columns) <= 32,
                "warpwright::ew::run_row_gradients: too many reductions for one kernel; split it");
  static constexpr int vector = V;
  static constexpr int vectors = vectors_of_gradient_row(
      V, (Part::loaded_bytes + ... + (0 + ... + decltype(Node::expression)::loaded_bytes)),
      columns::count == 0 ? 0 : sizeof(columns));
  // With doubles, more registers a thread: the compiler spilled with less.
  static constexpr unsigned max_threads = largest(Part::widest_bytes...) >= 8 ? 512 : 1024;
  struct registers {
    pack<typename decltype(Node::expression)::template registers<V>...> nodes;
    pack<typename Part::template registers<V>...> parts;
  };
  struct alignas(V * sizeof(columns) % 16 == 0 ? 16 : alignof(columns)) states {
    c_array<columns, V> of;
  };
  using values = pack<node_values<Node, V>...>;

  pack<Node...> nodes;
  pack<Part...> parts;
  pack<row_width<float>, row_width<double>> width;

  WARPWRIGHT_HOST_DEVICE static columns none() {
    columns s;
    columns::each([&](auto k) { at<k.value>(s) = part<k.value>::none(); });
    return s;
  }
  WARPWRIGHT_HOST_DEVICE static states no_states() {
    states s;
    for (columns& of_column : s.of) of_column = none();
    return s;
  }
  WARPWRIGHT_HOST_DEVICE static columns combine(columns a, columns const& b) {
    columns::each(
        [&](auto k) { at<k.value>(a) = part<k.value>::combine(at<k.value>(a), at<k.value>(b)); });
    return a;
  }
  WARPWRIGHT_HOST_DEVICE static totals add_up(totals a, totals const& b) {
    totals::each(
        [&](auto k) { at<k.value>(a) = no_contract::plus(at<k.value>(a), at<k.value>(b)); });
    return a;
  }

  template <bool Steady>
  WARPWRIGHT_HOST_DEVICE void load(registers& r, matrix_index const& i) const {
    leaf_load<Steady, V> const f{i};
    (traversal<decltype(Node::expression)>::visit(at<K>(nodes).expression, f, at<K>(r.nodes)), ...);
    (traversal<decltype(Part::expression)>::visit(at<Index>(parts).expression, f,
                                                  at<Index>(r.parts)),
     ...);
  }
  // Adds what some elements add to the totals of their row.
  WARPWRIGHT_HOST_DEVICE void add_totals(totals& sum, registers const& r,
                                         matrix_index const& i) const {
    values x WARPWRIGHT_ZERO_ON_HOST;
    (evaluate<false, Node>(x, at<K>(nodes), at<K>(r.nodes), i), ...);
    totals::each([&](auto k) {
      auto& of_row = at<k.value>(sum);
      c_array<std::decay_t<decltype(of_row)>, V> y;
      compute(y, at<k.value>(nodes).expression, at<k.value>(r.nodes), x, i);
      of_row = no_contract::plus(of_row, pairwise_fold(y, add{}));
    });
  }
  // Adds some elements to the states of their columns, and stores their outputs. In this order: it
  // takes fewer registers (nvcc 13.0: no spills with bf16).
  WARPWRIGHT_HOST_DEVICE void finish(registers const& r, totals const& sum, matrix_index const& i,
                                     states& of_columns) const {
    values x WARPWRIGHT_ZERO_ON_HOST;
    totals::each([&](auto k) {
      using node = nth_t<k.value, Node...>;
      auto const& total = at<k.value>(sum);
      of_type<node_values<node, V>>(x).of[0] =
          node::is_mean ? of_type<row_width<typename node::value_of>>(width).divide_by_cols(total)
                        : total;
    });
    (evaluate<true, Node>(x, at<K>(nodes), at<K>(r.nodes), i), ...);
    columns::each([&](auto k) {
      using goal = part<k.value>;
      c_array<typename goal::value, V> y;
      compute(y, at<k.value>(parts).expression, at<k.value>(r.parts), x, i);
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) goal::append(at<k.value>(of_columns.of[j]), y[j]);
    });
    (store(at<Index>(parts), at<Index>(r.parts), x, i), ...);
  }

 private:
  template <std::size_t Place>
  using part = nth_t<Place, Part...>;

  template <class E, class Registers>
  WARPWRIGHT_HOST_DEVICE static void fill(E const& expression, Registers& r, values const& x) {
    node_fill<values> const with{x};
    traversal<E>::visit(expression, with, r);
  }
  template <class Y, class E, class Registers>
  WARPWRIGHT_HOST_DEVICE static void compute(c_array<Y, V>& y, E const& expression, Registers own,
                                             values const& x, std::uint64_t i) {
    fill(expression, own, x);
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) {
      y[j] = convert<Y>(expression.template value<void, V>(own, j, i + static_cast<unsigned>(j)));
    }
  }
  // The value of once(), of an expression with a sum of the row only where that is known.
  template <bool AfterTotals, class N, class Registers>
  WARPWRIGHT_HOST_DEVICE static void evaluate(values& x, N const& node, Registers const& r,
                                              std::uint64_t i) {
    if constexpr (!N::is_total && (AfterTotals || !has_row_total<decltype(N::expression)>)) {
      compute(of_type<node_values<N, V>>(x).of, node.expression, r, x, i);
    }
  }
  template <class Goal, class Registers>
  WARPWRIGHT_HOST_DEVICE static void store(Goal const& goal, Registers own, values const& x,
                                           std::uint64_t i) {
    if constexpr (std::is_void<typename Goal::state>::value) {
      fill(goal.expression, own, x);
      typename Goal::template results<V> result{};
      goal.template compute<V>(result, own, i);
      goal.template store<V, 0>(result, i, all_wide_bits);
    }
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
