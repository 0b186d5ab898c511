// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One pass over the rows of a matrix: what a thread does with some neighbouring elements of a row,
// for outputs, sums of the row, and reductions of columns or of all elements.
#pragma once

#include <warpwright/kernel/detail/elementwise/fused.hpp>
#include <warpwright/kernel/detail/row_gradients/gradient_nodes.hpp>
#include <warpwright/kernel/detail/row_gradients/gradient_plan.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

enum class pass_goal : unsigned char { other, output, column, whole, total };

// ---- Parts: each goal of a pass, and each of its nodes ----

// What is stored.
template <class T, class E, class Nodes>
struct output_part : fused_part<T, pass_expression<E, Nodes>> {
  static constexpr pass_goal goal = pass_goal::output;
  using state = no_registers;
  static output_part make(assignment<T, E> const& a) {
    return {{a.data, traversal<E>::replace(a.expression, to_pass_leaf<Nodes>{})}};
  }
  template <int V>
  void describe(operand*& next) const {
    *next++ = describe_array<T, V>(access_pattern::elements, this->data, 0);
    this->expression.template describe<V>(next);
  }
};

// What is reduced, of each column or of all elements.
template <pass_goal Goal, bool Adds, class T, class K, class E, class Nodes>
struct reduced_part {
  static constexpr pass_goal goal = Goal;
  using kernel_expression = pass_expression<E, Nodes>;
  static constexpr int operands = kernel_expression::operands;
  static constexpr int widest_bytes = E::widest_bytes;
  static constexpr int loaded_bytes = kernel_expression::loaded_bytes;
  template <int V>
  using registers = typename kernel_expression::template registers<V>;
  template <int V>
  using results = no_registers;
  using value = value_t<E>;
  using state = typename K::template state<value>;

  bits_of<T>* data;
  K kind;
  kernel_expression expression;

  template <class A>
  static reduced_part make(A const& a) {
    auto const expression = traversal<E>::replace(a.expression, to_pass_leaf<Nodes>{});
    if constexpr (Goal == pass_goal::whole) {
      return {a.data, a.kind, expression};
    } else {
      return {a.data, K{}, expression};
    }
  }
  template <int V, int First, class Place>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Place const& i, std::uint64_t wide) const {
    expression.template load<V, First>(r, i, wide);
  }
  template <int V>
  void describe(operand*& next) const {
    expression.template describe<V>(next);
  }
  WARPWRIGHT_HOST_DEVICE state none() const { return kind.template identity<value>(); }
  WARPWRIGHT_HOST_DEVICE state combine(state const& a, state const& b) const {
    return kind.template combine<value>(a, b);
  }
  WARPWRIGHT_HOST_DEVICE state append(state const& a, value const& b, std::uint64_t i) const {
    return combine(a, kind.template lift<value>(b, i));
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

// What was passed as a goal.
template <class A>
struct goal_of {
  static_assert(warpwright::detail::always_false<A>,
                "warpwright::ew::run_row_gradients: takes out(pointer, rows * cols) = expression, "
                "to(pointer) = or += column_sum(expression), and to(pointer) = max(expression) of "
                "all elements, as arguments, not in tie()");
};
template <class T, class E>
struct goal_of<assignment<T, E>> {
  using expression = E;
  static constexpr int outputs = 1;
  template <class Nodes>
  using part = output_part<T, E, Nodes>;
};
template <class T, class K, class E>
struct goal_of<reduction_assignment<T, K, E>> {
  using expression = E;
  static constexpr int outputs = 0;
  template <class Nodes>
  using part = reduced_part<pass_goal::whole, false, T, K, E, Nodes>;
};
template <class T, class K, class E>
struct goal_of<reduction_assignment<T, of_column<K>, E>> {
  using expression = E;
  static constexpr int outputs = 0;
  template <class Nodes>
  using part = reduced_part<pass_goal::column, false, T, K, E, Nodes>;
};
template <class T, class K, class E>
struct goal_of<accumulation<T, K, E>> {
  using expression = E;
  static constexpr int outputs = 0;
  template <class Nodes>
  using part = reduced_part<pass_goal::column, true, T, K, E, Nodes>;
};

template <class Node, class Nodes>
struct node_part {
  using original = typename Node::expression_type;
  using kernel_expression = pass_expression<original, Nodes>;
  using state = typename Node::value_of;
  static constexpr pass_goal goal = Node::is_total ? pass_goal::total : pass_goal::other;
  static constexpr bool is_total = Node::is_total;
  static constexpr bool is_mean = Node::is_mean;
  static constexpr bool needs_totals = has_row_total<original>;
  static constexpr int operands = kernel_expression::operands;
  static constexpr int loaded_bytes = kernel_expression::loaded_bytes;
  template <int V>
  using registers = typename kernel_expression::template registers<V>;

  kernel_expression expression;
};

// ---- The parts of one kind, whose states are carried together ----

template <class... Indices>
struct joined_indices;
template <std::size_t... A>
struct joined_indices<std::index_sequence<A...>> {
  using type = std::index_sequence<A...>;
};
template <std::size_t... A, std::size_t... B, class... Rest>
struct joined_indices<std::index_sequence<A...>, std::index_sequence<B...>, Rest...>
    : joined_indices<std::index_sequence<A..., B...>, Rest...> {};

template <class Places, class Indices, class... Part>
struct part_group;
template <std::size_t... Place, std::size_t... Index, class... Part>
struct part_group<std::index_sequence<Place...>, std::index_sequence<Index...>, Part...> {
  static constexpr std::size_t size = sizeof...(Index);
  using parts = pack<Part...>;
  using states = pack<typename nth_t<Index, Part...>::state...>;

  WARPWRIGHT_HOST_DEVICE static states none([[maybe_unused]] parts const& p) {
    return {{at<Index>(p).none()}...};
  }
  WARPWRIGHT_HOST_DEVICE static states combine([[maybe_unused]] parts const& p,
                                               [[maybe_unused]] states const& a,
                                               [[maybe_unused]] states const& b) {
    return {{at<Index>(p).combine(at<Place>(a), at<Place>(b))}...};
  }
  WARPWRIGHT_HOST_DEVICE static void finish([[maybe_unused]] parts const& p,
                                            [[maybe_unused]] states const& s,
                                            [[maybe_unused]] std::uint64_t count,
                                            [[maybe_unused]] std::uint64_t k) {
    (at<Index>(p).finish(at<Place>(s), count, k), ...);
  }
  // Calls f(place among the group, index among all parts) for each.
  template <class F>
  WARPWRIGHT_HOST_DEVICE static void each([[maybe_unused]] F const& f) {
    (f(std::integral_constant<std::size_t, Place>{}, std::integral_constant<std::size_t, Index>{}),
     ...);
  }
};
template <pass_goal Goal, class Indices, class... Part>
struct group_of;
template <pass_goal Goal, std::size_t... Index, class... Part>
struct group_of<Goal, std::index_sequence<Index...>, Part...> {
  using indices =
      typename joined_indices<std::index_sequence<>,
                              std::conditional_t<Part::goal == Goal, std::index_sequence<Index>,
                                                 std::index_sequence<>>...>::type;
  using type = part_group<std::make_index_sequence<indices::size()>, indices, Part...>;
};
template <pass_goal Goal, class... Part>
using group_t = typename group_of<Goal, std::index_sequence_for<Part...>, Part...>::type;

// Puts the values of nodes into the registers of their leaves.
template <class Values>
struct node_fill {
  Values const& values;
  template <class R, int K, bool IsTotal, class Registers>
  WARPWRIGHT_HOST_DEVICE void operator()(node_leaf<R, K, IsTotal> const&, Registers& r) const {
    r = at<static_cast<std::size_t>(K)>(values);
  }
  template <class Leaf, class Registers>
  WARPWRIGHT_HOST_DEVICE void operator()(Leaf const&, Registers&) const {}
};

// Makes the compiler compute again what it has computed from the loaded words, instead of keeping
// that: converted 16-bit floats take twice the registers.
struct forget_values {
  template <class Leaf, class Bits, int V>
  WARPWRIGHT_HOST_DEVICE void operator()(Leaf const&,
                                         [[maybe_unused]] packed_vector<Bits, V>& r) const {
#if defined(__CUDA_ARCH__)
    if constexpr (V > 1 && sizeof(Bits) <= 2) {
      WARPWRIGHT_UNROLL
      for (std::uint32_t& word : r.words) asm volatile("" : "+r"(word));
    }
#endif
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
  using nodes_list = leaf_list<Node...>;
  template <class X>
  using part_t = typename goal_of<X>::template part<nodes_list>;
  template <class N>
  using node_t = node_part<N, nodes_list>;
  using outputs = group_t<pass_goal::output, part_t<A>...>;
  using columns = group_t<pass_goal::column, part_t<A>...>;
  using wholes = group_t<pass_goal::whole, part_t<A>...>;
  using totals = group_t<pass_goal::total, node_t<Node>...>;
  using column_states = typename columns::states;
  using whole_states = typename wholes::states;
  using total_values = typename totals::states;
  static constexpr bool has_totals = totals::size != 0;
  static constexpr bool has_columns = columns::size != 0;
  static constexpr bool has_wholes = wholes::size != 0;

  using node_offsets = operand_offsets<node_t<Node>::operands..., part_t<A>::operands...>;
  static constexpr std::size_t node_count = sizeof...(Node);
  static constexpr int operands =
      (0 + ... + node_t<Node>::operands) + (0 + ... + part_t<A>::operands);
  static_assert(operands <= 64 && sizeof(column_states) <= 32 && sizeof(whole_states) <= 64,
                "warpwright::ew::run_row_gradients: more than 64 arrays, or too many reductions, "
                "for one kernel; split the pass");
  static constexpr int widest_bytes = largest(Node::widest_bytes..., part_t<A>::widest_bytes...);
  static constexpr int loaded_bytes =
      (0 + ... + node_t<Node>::loaded_bytes) + (0 + ... + part_t<A>::loaded_bytes);
  static constexpr int vector = vector_elements(widest_bytes);
  static constexpr int vectors =
      vectors_of_gradient_row(vector, loaded_bytes, has_columns ? sizeof(column_states) : 0);
  // With doubles, more registers a thread: the compiler spilled with less.
  static constexpr unsigned max_threads = widest_bytes >= 8 ? 512 : 1024;
  template <int V>
  struct registers {
    pack<typename node_t<Node>::template registers<V>...> nodes;
    pack<typename part_t<A>::template registers<V>...> parts;
  };
  template <int V>
  using values = pack<row_values<typename Node::value_of, Node::is_total ? 1 : V>...>;

  pack<node_t<Node>...> nodes;
  pack<part_t<A>...> parts;
  pack<row_width<float>, row_width<double>> width;

  template <int V, class Place>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Place const& i) const {
    constexpr std::uint64_t wide = all_wide_bits;
    (at<K>(nodes).expression.template load<V, node_offsets::of(K)>(at<K>(r.nodes), i, wide), ...);
    (at<Index>(parts).template load<V, node_offsets::of(node_count + Index)>(at<Index>(r.parts), i,
                                                                             wide),
     ...);
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE void forget(registers<V>& r) const {
    forget_values const f{};
    (traversal<typename node_t<Node>::kernel_expression>::visit(at<K>(nodes).expression, f,
                                                                at<K>(r.nodes)),
     ...);
  }
  // Adds what V elements from i on add to the totals of their row.
  template <int V>
  WARPWRIGHT_HOST_DEVICE void add_totals(total_values& sum, registers<V> const& r,
                                         std::uint64_t i) const {
    values<V> x WARPWRIGHT_ZERO_ON_HOST;
    (evaluate<false, V, K, node_t<Node>>(x, r, i), ...);
    totals::each([&](auto place, auto index) {
      using part = nth_t<index.value, node_t<Node>...>;
      using real = typename part::state;
      c_array<real, V> y;
      compute<V>(y, at<index.value>(nodes).expression, at<index.value>(r.nodes), x, i);
      at<place.value>(sum) = no_contract::plus(at<place.value>(sum), pairwise_fold(y, add{}));
    });
  }
  WARPWRIGHT_HOST_DEVICE static total_values combine_totals(total_values const& a,
                                                            total_values const& b) {
    total_values c{};
    totals::each([&](auto place, auto) {
      at<place.value>(c) = no_contract::plus(at<place.value>(a), at<place.value>(b));
    });
    return c;
  }
  // Stores the outputs of V elements, and adds the elements to the states of their columns.
  template <int V>
  WARPWRIGHT_HOST_DEVICE void finish(registers<V> const& r, total_values const& sum,
                                     matrix_index const& i, column_states* of_columns,
                                     whole_states& of_all) const {
    values<V> x WARPWRIGHT_ZERO_ON_HOST;
    totals::each([&](auto place, auto index) {
      auto const total = at<place.value>(sum);
      constexpr std::size_t wide_width = std::is_same<decltype(total), double const>::value ? 1 : 0;
      constexpr bool mean = nth_t<index.value, node_t<Node>...>::is_mean;
      at<index.value>(x).of[0] = mean ? at<wide_width>(width).divide_by_cols(total) : total;
    });
    (evaluate<true, V, K, node_t<Node>>(x, r, i), ...);
    pack<typename part_t<A>::template results<V>...> results{};
    outputs::each([&](auto, auto index) {
      auto own = at<index.value>(r.parts);
      fill(at<index.value>(parts).expression, own, x);
      at<index.value>(parts).template compute<V>(at<index.value>(results), own, i);
    });
    outputs::each([&](auto, auto index) {
      constexpr int first = node_offsets::of(node_count + index.value);
      at<index.value>(parts).template store<V, first>(at<index.value>(results), i.index,
                                                      all_wide_bits);
    });
    auto const reduce = [&](auto index, auto const& append) {
      auto const& part = at<index.value>(parts);
      c_array<typename std::decay_t<decltype(part)>::value, V> y;
      compute<V>(y, part.expression, at<index.value>(r.parts), x, i);
      WARPWRIGHT_UNROLL
      for (unsigned j = 0; j < V; ++j) append(part, y[j], j);
    };
    columns::each([&](auto place, auto index) {
      reduce(index, [&](auto const& part, auto const& y, unsigned j) {
        auto& state = at<place.value>(of_columns[j]);
        state = part.append(state, y, i.row);
      });
    });
    wholes::each([&](auto place, auto index) {
      reduce(index, [&](auto const& part, auto const& y, unsigned j) {
        auto& state = at<place.value>(of_all);
        state = part.append(state, y, i.index + j);
      });
    });
  }
  // @param first  of each node one that stands for all
  static pack<node_t<Node>...> make_nodes([[maybe_unused]] pack<Node const*...> const& first) {
    return {{{traversal<typename Node::expression_type>::replace(at<K>(first)->expression,
                                                                 to_pass_leaf<nodes_list>{})}}...};
  }
  // The operands in the order of their bits in wide_operands().
  void describe(operand* next) const {
    (at<K>(nodes).expression.template describe<vector>(next), ...);
    (at<Index>(parts).template describe<vector>(next), ...);
  }

 private:
  template <class E, class Registers, class Values>
  WARPWRIGHT_HOST_DEVICE static void fill(E const& expression, Registers& r, Values const& x) {
    node_fill<Values> const with{x};
    traversal<E>::visit(expression, with, r);
  }
  template <int V, class Y, class E, class Registers>
  WARPWRIGHT_HOST_DEVICE static void compute(Y (&y)[static_cast<std::size_t>(V)],
                                             E const& expression, Registers own, values<V> const& x,
                                             std::uint64_t i) {
    fill(expression, own, x);
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) {
      y[j] = convert<Y>(expression.template value<void, V>(own, j, i + static_cast<unsigned>(j)));
    }
  }
  // The value of once(), of an expression with a sum of the row only where that is known.
  template <bool AfterTotals, int V, std::size_t N, class Part>
  WARPWRIGHT_HOST_DEVICE void evaluate(values<V>& x, registers<V> const& r, std::uint64_t i) const {
    if constexpr (!Part::is_total && (AfterTotals || !Part::needs_totals)) {
      compute<V>(at<N>(x).of, at<N>(nodes).expression, at<N>(r.nodes), x, i);
    }
  }
};

template <class... A>
struct gradient_pass_for {
  using leaves = typename joined_leaves<leaves_of<typename goal_of<A>::expression>...>::type;
  using nodes = typename pass_nodes<leaf_list<>, leaves>::type;
  template <class... Node>
  static std::index_sequence_for<Node...> indices(leaf_list<Node...>);
  using type =
      gradient_pass_of<nodes, decltype(indices(nodes{})), std::index_sequence_for<A...>, A...>;
};
template <class... A>
using gradient_pass = typename gradient_pass_for<A...>::type;

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
