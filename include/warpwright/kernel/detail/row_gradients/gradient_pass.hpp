// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One pass over the rows of a matrix: what a thread does with some elements of a row, for outputs,
// sums of the row, and reductions of columns or of all elements.
#pragma once

#include <warpwright/kernel/detail/elementwise/fused.hpp>
#include <warpwright/kernel/detail/row_gradients/gradient_nodes.hpp>
#include <warpwright/kernel/detail/row_gradients/gradient_plan.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

enum class pass_goal : unsigned char { shared, output, column, whole, total };

// ---- Parts: each goal of a pass, and each of its nodes ----

// What is stored.
template <class T, class E>
struct output_part : fused_part<T, pass_expression<E>> {
  static constexpr pass_goal goal = pass_goal::output;
  using state = no_registers;
};

// What is reduced, of each column or of all elements.
template <pass_goal Goal, bool Adds, class T, class K, class E>
struct reduced_part {
  static constexpr pass_goal goal = Goal;
  static constexpr int operands = E::operands;
  static constexpr int widest_bytes = E::widest_bytes;
  static constexpr int loaded_bytes = pass_expression<E>::loaded_bytes;
  template <int V>
  using registers = typename pass_expression<E>::template registers<V>;
  using value = value_t<E>;
  using state = typename K::template state<value>;

  bits_of<T>* data;
  K kind;
  pass_expression<E> expression;

  template <int V, int First, class Place>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Place const& i, std::uint64_t wide) const {
    expression.template load<V, First>(r, i, wide);
  }
  WARPWRIGHT_HOST_DEVICE state none() const { return kind.template identity<value>(); }
  WARPWRIGHT_HOST_DEVICE state combine(state const& a, state const& b) const {
    return kind.template combine<value>(a, b);
  }
  WARPWRIGHT_HOST_DEVICE void append(state& a, value const& b, std::uint64_t i) const {
    a = combine(a, kind.template lift<value>(b, i));
  }
  WARPWRIGHT_HOST_DEVICE void finish(state const& s, std::uint64_t count, std::uint64_t k) const {
    auto const result = kind.template finish<value>(s, count);
    if constexpr (Adds) {
      data[k] = converted_result<T>(plus{}(element_traits<T>::decode(data[k]), result));
    } else {
      data[k] = converted_result<T>(result);
    }
  }
};

template <class Node>
struct node_part {
  using expression_type = decltype(Node::expression);
  using kernel_expression = pass_expression<expression_type>;
  using state = typename Node::value_of;
  static constexpr pass_goal goal = Node::is_total ? pass_goal::total : pass_goal::shared;

  kernel_expression expression;

  WARPWRIGHT_HOST_DEVICE state none() const { return {}; }
  WARPWRIGHT_HOST_DEVICE state combine(state const& a, state const& b) const {
    return no_contract::plus(a, b);
  }
};

// The part of a goal.
template <class T, class E>
output_part<T, E> make_part(assignment<T, E> const& a) {
  return {{a.data, as_pass_expression(a.expression)}};
}
template <class T, class K, class E>
reduced_part<pass_goal::whole, false, T, K, E> make_part(reduction_assignment<T, K, E> const& a) {
  return {a.data, a.kind, as_pass_expression(a.expression)};
}
template <class T, class K, class E>
reduced_part<pass_goal::column, false, T, K, E> make_part(
    reduction_assignment<T, of_column<K>, E> const& a) {
  return {a.data, {}, as_pass_expression(a.expression)};
}
template <class T, class K, class E>
reduced_part<pass_goal::column, true, T, K, E> make_part(accumulation<T, K, E> const& a) {
  return {a.data, {}, as_pass_expression(a.expression)};
}
template <class A>
using pass_part = decltype(make_part(std::declval<A const&>()));
template <class A, class = void>
inline constexpr bool is_goal = false;
template <class A>
inline constexpr bool is_goal<A, std::void_t<pass_part<A>>> = true;

template <std::size_t>
struct no_slot {};
// The states of the parts that have one goal, each with its part's index.
template <pass_goal Goal, class Indices, class... Part>
struct goal_states;
template <pass_goal Goal, std::size_t... Index, class... Part>
struct goal_states<Goal, std::index_sequence<Index...>, Part...>
    : std::conditional_t<Part::goal == Goal, slot<Index, typename Part::state>, no_slot<Index>>... {
  static constexpr int count = (0 + ... + (Part::goal == Goal ? 1 : 0));
  using parts = pack<Part...>;

  // Calls f(part, its index) for each of them.
  template <class F>
  WARPWRIGHT_HOST_DEVICE static void each(parts const& all, F const& f) {
    (each_one<Index>(at<Index>(all), f), ...);
  }
  WARPWRIGHT_HOST_DEVICE static goal_states none(parts const& all) {
    goal_states s;
    each(all, [&](auto const& part, auto index) { at<index.value>(s) = part.none(); });
    return s;
  }
  WARPWRIGHT_HOST_DEVICE static goal_states combine(parts const& all, goal_states const& a,
                                                    goal_states const& b) {
    goal_states s;
    each(all, [&](auto const& part, auto index) {
      at<index.value>(s) = part.combine(at<index.value>(a), at<index.value>(b));
    });
    return s;
  }

 private:
  template <std::size_t K, class One, class F>
  WARPWRIGHT_HOST_DEVICE static void each_one(One const& part, F const& f) {
    if constexpr (One::goal == Goal) f(part, std::integral_constant<std::size_t, K>{});
  }
};

// Puts the values of nodes into the registers of their leaves.
template <class Values>
struct node_fill {
  Values const& values;
  template <class Node, int V>
  WARPWRIGHT_HOST_DEVICE void operator()(node_leaf<Node> const&, node_values<Node, V>& r) const {
    r = of_type<node_values<Node, V>>(values);
  }
  template <class Leaf, class Registers>
  WARPWRIGHT_HOST_DEVICE void operator()(Leaf const&, Registers&) const {}
};

// ---- The pass ----

template <class Nodes, class NodeIndices, class Indices, class... A>
struct gradient_pass_of;
template <class... Node, std::size_t... K, std::size_t... Index, class... A>
struct gradient_pass_of<leaf_list<Node...>, std::index_sequence<K...>,
                        std::index_sequence<Index...>, A...> {
  template <pass_goal Goal>
  using states = goal_states<Goal, std::index_sequence<Index...>, pass_part<A>...>;
  using outputs = states<pass_goal::output>;
  using columns = states<pass_goal::column>;
  using wholes = states<pass_goal::whole>;
  using totals = goal_states<pass_goal::total, std::index_sequence<K...>, node_part<Node>...>;
  static constexpr bool reduces = columns::count + wholes::count != 0;

  using offsets =
      operand_offsets<node_part<Node>::kernel_expression::operands..., pass_part<A>::operands...>;
  static constexpr int operands = offsets::of(sizeof...(Node) + sizeof...(A));
  static_assert(operands <= 64 && sizeof(columns) <= 32 && sizeof(wholes) <= 64,
                "warpwright::ew::run_row_gradients: more than 64 arrays, or too many reductions, "
                "for one kernel; split the pass");
  static constexpr int widest_bytes = largest(Node::widest_bytes..., pass_part<A>::widest_bytes...);
  static constexpr int loaded_bytes = (0 + ... + node_part<Node>::kernel_expression::loaded_bytes) +
                                      (0 + ... + pass_part<A>::loaded_bytes);
  static constexpr int vector = vector_elements(widest_bytes);
  static constexpr int vectors =
      vectors_of_gradient_row(vector, loaded_bytes, columns::count == 0 ? 0 : sizeof(columns));
  // With doubles, more registers a thread: the compiler spilled with less.
  static constexpr unsigned max_threads = widest_bytes >= 8 ? 512 : 1024;
  struct registers {
    pack<typename node_part<Node>::kernel_expression::template registers<vector>...> nodes;
    pack<typename pass_part<A>::template registers<vector>...> parts;
  };
  using values = pack<node_values<Node, vector>...>;

  pack<node_part<Node>...> nodes;
  pack<pass_part<A>...> parts;
  pack<row_width<float>, row_width<double>> width;

  // One branch, the same for the whole grid, so that the loads follow each other.
  template <bool Steady>
  WARPWRIGHT_HOST_DEVICE void load(registers& r, pass_place<Steady> const& i) const {
    if (i.partition.wide) {
      load_from(r, pass_place<Steady, true>{i, i.partition});
    } else {
      load_from(r, i);
    }
  }
  // Adds what some elements add to the totals of their row.
  template <class Place>
  WARPWRIGHT_HOST_DEVICE void add_totals(totals& sum, registers const& r, Place const& i) const {
    values x WARPWRIGHT_ZERO_ON_HOST;
    unsigned const count = i.template count<vector>();  // no branch: it would keep all of y
    (evaluate<false, Node>(x, at<K>(nodes), at<K>(r.nodes), i), ...);
    totals::each(nodes, [&](auto const& part, auto index) {
      auto& of_row = at<index.value>(sum);
      c_array<std::decay_t<decltype(of_row)>, vector> y;
      compute(y, part.expression, at<index.value>(r.nodes), x, i);
      WARPWRIGHT_UNROLL
      for (unsigned j = 0; j < vector; ++j) y[j] = j < count ? y[j] : 0;
      of_row = no_contract::plus(of_row, pairwise_fold(y, add{}));
    });
  }
  // Adds some elements to the states of their columns, and stores their outputs. In this order: it
  // takes fewer registers (nvcc 13.0: no spills with bf16).
  template <class Place>
  WARPWRIGHT_HOST_DEVICE void finish(registers const& r, totals const& sum, Place const& i,
                                     columns* of_columns, wholes& of_all) const {
    values x WARPWRIGHT_ZERO_ON_HOST;
    totals::each(nodes, [&](auto const&, auto index) {
      using node = nth_t<index.value, Node...>;
      using real = typename node::value_of;
      auto const& total = at<index.value>(sum);
      of_type<node_values<node, vector>>(x).of[0] =
          node::is_mean ? of_type<row_width<real>>(width).divide_by_cols(total) : total;
    });
    (evaluate<true, Node>(x, at<K>(nodes), at<K>(r.nodes), i), ...);
    auto const reduce = [&](auto const& part, auto index, unsigned count, auto const& state) {
      c_array<typename std::decay_t<decltype(part)>::value, vector> y;
      compute(y, part.expression, at<index.value>(r.parts), x, i);
      WARPWRIGHT_UNROLL
      for (unsigned j = 0; j < vector; ++j) {
        if (j < count) state(y[j], j);
      }
    };
    // Of a column that does not exist the state is never read.
    columns::each(parts, [&](auto const& part, auto index) {
      reduce(part, index, vector, [&](auto const& y, unsigned j) {
        part.append(at<index.value>(of_columns[j]), y, i.row);
      });
    });
    wholes::each(parts, [&](auto const& part, auto index) {
      reduce(part, index, i.template count<vector>(), [&](auto const& y, unsigned j) {
        part.append(at<index.value>(of_all), y, i.element(j));
      });
    });
    outputs::each(parts, [&](auto const& part, auto index) {
      auto own = at<index.value>(r.parts);
      fill(part.expression, own, x);
      typename std::decay_t<decltype(part)>::template results<vector> result{};
      unsigned const step = i.partition.wide ? 1 : i.step();
      part.template compute<vector>(result, own, i.index, step);
      if (i.partition.wide) return result.store_wide(part.data + i.index);
      WARPWRIGHT_UNROLL
      for (unsigned j = 0; j < vector; ++j) {
        if (i.has(j, step)) part.data[i.index + j * step] = result.get(static_cast<int>(j));
      }
    });
  }

 private:
  template <class Place>
  WARPWRIGHT_HOST_DEVICE void load_from(registers& r, Place const& i) const {
    constexpr std::uint64_t wide = all_wide_bits;
    (at<K>(nodes).expression.template load<vector, offsets::of(K)>(at<K>(r.nodes), i, wide), ...);
    (at<Index>(parts).template load<vector, offsets::of(sizeof...(Node) + Index)>(
         at<Index>(r.parts), i, wide),
     ...);
  }
  template <class E, class Registers>
  WARPWRIGHT_HOST_DEVICE static void fill(E const& expression, Registers& r, values const& x) {
    node_fill<values> const with{x};
    traversal<E>::visit(expression, with, r);
  }
  template <class Y, class E, class Registers, class Place>
  WARPWRIGHT_HOST_DEVICE static void compute(c_array<Y, vector>& y, E const& expression,
                                             Registers own, values const& x, Place const& i) {
    fill(expression, own, x);
    WARPWRIGHT_UNROLL
    for (int j = 0; j < vector; ++j) {
      y[j] = convert<Y>(
          expression.template value<void, vector>(own, j, i.element(static_cast<unsigned>(j))));
    }
  }
  // The value of once(), of an expression with a sum of the row only where that is known.
  template <bool AfterTotals, class N, class Registers, class Place>
  WARPWRIGHT_HOST_DEVICE static void evaluate(values& x, node_part<N> const& part,
                                              Registers const& r, Place const& i) {
    if constexpr (!N::is_total && (AfterTotals || !has_row_total<decltype(N::expression)>)) {
      compute(of_type<node_values<N, vector>>(x).of, part.expression, r, x, i);
    }
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
