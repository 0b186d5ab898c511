// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The nodes of run_row_gradients(): sums of a row and shared values within expressions, reductions
// of columns; and the leaves that its kernels have in their place.
#pragma once

#include <warpwright/kernel/detail/reduce/reduction_pass.hpp>
#include <warpwright/kernel/detail/row_gradients/gradient_plan.hpp>
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
template <class Leaf>
inline constexpr bool is_pass_node = false;
template <pass_value What, int Number, class E>
inline constexpr bool is_pass_node<pass_node<What, Number, E>> = true;

// ---- Reductions of columns ----

template <class V>
struct refused_state {
  static_assert(sizeof(V) == 0,
                "warpwright::ew: column_sum() and column_max() are of run_row_gradients(); "
                "reduce_cols() takes sum() and max()");
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

template <class Node>
struct is_row_total : std::bool_constant<Node::is_total> {};
// Whether an expression has the sum of a row in it.
template <class E>
inline constexpr bool has_row_total =
    any_of_leaves<is_row_total, typename pass_nodes<leaf_list<>, leaves_of<E>>::type>;

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

// ---- Leaves of a kernel ----

/// The V elements that a thread takes of a row: neighbours, or, where vectors do not fit, `step`
/// apart, so that those of neighbouring threads are neighbours.
/// @tparam Steady  what all rows share is loaded, else all else
template <bool Steady, bool Wide = false>
struct pass_place : matrix_index {
  static constexpr bool steady = Steady, wide = Wide;
  gradient_partition const& partition;
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned step() const {
    unsigned between = partition.vectors;
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+r"(between));  // else loops keep in registers what is computed from it
#endif
    return between;
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t element(unsigned j) const {
    return index + j * (partition.wide ? 1 : partition.vectors);
  }
  // How many of V elements exist.
  template <unsigned V>
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned count() const {
    unsigned n = V;
    if (!partition.wide) {
      unsigned const by = step();
      while (!has(n - 1, by)) --n;
    }
    return n;
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE bool has(unsigned j, unsigned step) const {
    return column + j * step < partition.cols;
  }
};

template <class Bits, int V>
WARPWRIGHT_HOST_DEVICE void set_element(packed_vector<Bits, V>& r, int j,
                                        packed_vector<Bits, 1> const& one) {
  r.set(j, one.only);
}
template <class Registers, class One>
WARPWRIGHT_HOST_DEVICE auto set_element(Registers& r, int j, One const& one)
    -> decltype(void(r.of[j] = one.of[0])) {
  r.of[j] = one.of[0];
}

template <class Leaf, bool Steady>
struct pass_leaf : Leaf {
  template <int V, int First, class Place>
  WARPWRIGHT_HOST_DEVICE void load(typename Leaf::template registers<V>& r, Place const& i,
                                   std::uint64_t wide) const {
    using single = typename Leaf::template registers<1>;
    std::uint64_t const from = Steady ? i.column : i.index;
    if constexpr (Place::steady != Steady) {
      return;
    } else if constexpr (Place::wide || V == 1 ||
                         std::is_same<single, typename Leaf::template registers<V>>::value) {
      Leaf::template load<V, First>(r, from, wide);
    } else {
      r = {};
      unsigned const step = i.step();
      WARPWRIGHT_UNROLL
      for (unsigned j = 0; j < V; ++j) {
        single one{};
        if (i.has(j, step)) Leaf::template load<1, First>(one, from + j * step, wide);
        set_element(r, static_cast<int>(j), one);
      }
    }
  }
};
// col(): one register for all elements.
template <class T>
struct one_a_row : single_input<T> {
  template <int V, int First, class Place>
  WARPWRIGHT_HOST_DEVICE void load(packed_vector<bits_of<T>, 1>& r, Place const& i,
                                   std::uint64_t) const {
    if constexpr (!Place::steady) r.load_one(this->data + i.row);
  }
};

// What a node's value is put into: of V elements, or one of a row.
template <class Node, int V>
struct node_values {
  c_array<typename Node::value_of, Node::is_total ? 1 : V> of;
};
template <class Node>
struct node_leaf : no_memory {
  static constexpr bool weak = false;
  template <class C>
  using value_type = typename Node::template value_type<C>;
  template <int V>
  using registers = node_values<Node, V>;
  template <int V, int First, class Place>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>&, Place const&, std::uint64_t) const {}
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int j, std::uint64_t) const {
    return convert<value_type<C>>(r.of[Node::is_total ? 0 : j]);
  }
};

struct to_pass_leaf {
  template <class T>
  pass_leaf<row_input<T>, true> operator()(row_input<T> const& leaf) const {
    return {leaf};
  }
  template <class T>
  pass_leaf<single_input<T>, true> operator()(single_input<T> const& leaf) const {
    return {leaf};
  }
  template <class T>
  one_a_row<T> operator()(column_input<T> const& leaf) const {
    return {{{leaf.data}}};
  }
  template <class Leaf>
  auto operator()(Leaf const& leaf) const {
    if constexpr (is_pass_node<Leaf>) {
      return node_leaf<Leaf>{};
    } else if constexpr (Leaf::operands == 0) {
      return leaf;
    } else {
      return pass_leaf<Leaf, false>{leaf};
    }
  }
};
// An expression as a kernel computes it.
template <class E>
using pass_expression = typename traversal<E>::template replaced<to_pass_leaf>;
template <class E>
pass_expression<E> as_pass_expression(E const& e) {
  return traversal<E>::replace(e, to_pass_leaf{});
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
