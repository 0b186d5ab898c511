// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An expression that names one array several times, as x * x does, holds its address several times.
// The compiler cannot prove equality and would load every element as often; a single variable makes
// it explicit.
#pragma once

#include <warpwright/kernel/detail/expression/traversal.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

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
  static constexpr bool of_one_type() {
    bool result = true;
    // Each of them beside each.
    ((result = result && is_like_all<Leaf>), ...);
    return result;
  }
  static constexpr std::uint64_t find_bits() {
    bool const inputs[] = {is_input<Leaf>::value..., false};
    std::uint64_t found = 0;
    for (std::size_t k = 0; k < sizeof...(Leaf); ++k) {
      if (inputs[k]) found |= std::uint64_t{1} << leaf_operands<leaf_list<Leaf...>>::of(k);
    }
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

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
