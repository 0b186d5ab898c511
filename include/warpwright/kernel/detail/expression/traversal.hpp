// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The one walk over an expression: its leaves as types, visited as values, and replaced.
#pragma once

#include <warpwright/kernel/detail/expression/nodes.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

template <class... Leaf>
struct leaf_list {};

template <class... A, class... B>
leaf_list<A..., B...> operator|(leaf_list<A...>, leaf_list<B...>);  // of types alone
template <class... List>
struct joined_leaves {
  using type = decltype((leaf_list<>{} | ... | List{}));
};

/// How a node is walked. Of every node:
///   leaves              its leaves from left to right, as a leaf_list
///   visit(node, f)      calls f(leaf) for each
///   visit(node, f, r)   calls f(leaf, registers of the leaf) for each
///   replace(node, f)    the node with f(leaf) in place of each leaf
///   replaced<F>         its type
template <class Leaf>
struct traversal {
  using leaves = leaf_list<Leaf>;
  template <class F>
  using replaced = decltype(std::declval<F const&>()(std::declval<Leaf const&>()));
  WARPWRIGHT_NO_EXEC_CHECK  // visitors of the host are functions of the host
      template <class Node, class F, class... Registers>
      WARPWRIGHT_HOST_DEVICE static void visit(Node& leaf, F& f, Registers&... r) {
    f(leaf, r...);
  }
  template <class F>
  static replaced<F> replace(Leaf const& leaf, F const& f) {
    return f(leaf);
  }
};

template <class T, class E>
struct traversal<computed_as<T, E>> {
  using below = traversal<E>;
  using leaves = typename below::leaves;
  template <class F>
  using replaced = computed_as<T, typename below::template replaced<F>>;
  template <class Node, class F, class... Registers>
  WARPWRIGHT_HOST_DEVICE static void visit(Node& node, F& f, Registers&... r) {
    below::visit(node.expression, f, r...);
  }
  template <class F>
  static replaced<F> replace(computed_as<T, E> const& node, F const& f) {
    return {below::replace(node.expression, f)};
  }
};

template <class Types, class Function, class... A>
struct traversal<call<Types, Function, A...>> {
  using node_type = call<Types, Function, A...>;
  using indices = typename node_type::indices;
  using leaves = typename joined_leaves<typename traversal<A>::leaves...>::type;
  template <class F>
  using replaced = call<Types, Function, typename traversal<A>::template replaced<F>...>;
  template <class Node, class F, class... Registers>
  WARPWRIGHT_HOST_DEVICE static void visit(Node& node, F& f, Registers&... r) {
    visit_each(indices{}, node, f, r...);
  }
  template <class F>
  static replaced<F> replace(node_type const& node, F const& f) {
    return detail::apply(node.arguments, [&](A const&... a) {
      return replaced<F>{{node.function, {{traversal<A>::replace(a, f)}...}}};
    });
  }

 private:
  template <std::size_t... Index, class Node, class F, class... Registers>
  WARPWRIGHT_HOST_DEVICE static void visit_each(std::index_sequence<Index...>, Node& node, F& f,
                                                Registers&... r) {
    (visit_argument<Index, A>(node, f, r...), ...);
  }
  template <std::size_t Index, class Argument, class Node, class F, class... Registers>
  WARPWRIGHT_HOST_DEVICE static void visit_argument(Node& node, F& f, Registers&... r) {
    traversal<Argument>::visit(at<Index>(node.arguments), f, at<Index>(r)...);
  }
};

template <class E>
using leaves_of = typename traversal<E>::leaves;

// Whether some, or all, of an expression's leaves satisfy Test: Test<Leaf>::value.
template <template <class> class Test, class List>
inline constexpr bool any_of_leaves = false;
template <template <class> class Test, class... Leaf>
inline constexpr bool any_of_leaves<Test, leaf_list<Leaf...>> = (Test<Leaf>::value || ...);
template <template <class> class Test, class List>
inline constexpr bool all_of_leaves = false;
template <template <class> class Test, class... Leaf>
inline constexpr bool all_of_leaves<Test, leaf_list<Leaf...>> = (Test<Leaf>::value && ...);

// A view() of views.hpp; view_node.hpp specialises this for its leaf.
template <class Leaf>
struct is_view : std::false_type {};
template <class E>
inline constexpr bool holds_view = any_of_leaves<is_view, leaves_of<E>>;

// Whether a leaf's value is the same for all elements of a row; other headers add theirs.
template <class Leaf>
struct is_of_row : std::false_type {};
template <class T, bool Weak>
struct is_of_row<scalar<T, Weak>> : std::true_type {};
template <class T>
struct is_of_row<single_input<T>> : std::true_type {};
template <class T>
struct is_of_row<column_input<T>> : std::true_type {};

template <class Leaf>
struct is_input : std::false_type {};
template <class T>
struct is_input<input<T>> : std::true_type {};

// The in() below a node: their number, whether they are of one type, and their positions among
// the node's operands, a bit each.
template <class List>
struct input_summary;
template <class... Leaf>
struct input_summary<leaf_list<Leaf...>> {
  static constexpr int count = (0 + ... + (is_input<Leaf>::value ? 1 : 0));
  static constexpr bool of_one_type() { return (is_like_all<Leaf> && ...); }
  static constexpr std::uint64_t find_bits() {
    std::uint64_t found = 0;
    int operand = 0;
    ((found |= is_input<Leaf>::value ? std::uint64_t{1} << operand : 0, operand += Leaf::operands),
     ...);
    return found;
  }
  static constexpr std::uint64_t bits = find_bits();

 private:
  template <class A>
  static constexpr bool is_like_all =
      !is_input<A>::value || ((!is_input<Leaf>::value || std::is_same<A, Leaf>::value) && ...);
};
template <class E>
using inputs_of = input_summary<leaves_of<E>>;

// Whether the arrays of an expression may be one.
template <class E>
inline constexpr bool may_share_input = inputs_of<E>::count > 1 && inputs_of<E>::of_one_type();

// Lets every in() below a node read from one address.
struct set_input_address {
  void const* data;
  template <class T>
  WARPWRIGHT_HOST_DEVICE void operator()(input<T>& leaf) const {
    leaf.data = static_cast<bits_of<T> const*>(data);
  }
  template <class Leaf>
  WARPWRIGHT_HOST_DEVICE void operator()(Leaf&) const {}
};

/// The address that all in() share, or null.
inline void const* shared_input_address(operand const* operands, int count) {
  std::uint64_t address = 0;
  for (int k = 0; k < count; ++k) {
    if (operands[k].kind != access_pattern::elements) continue;
    if (address != 0 && operands[k].address != address) return nullptr;
    address = operands[k].address;
  }
  return reinterpret_cast<void const*>(address);
}

}  // namespace ew::detail

WARPWRIGHT_END
