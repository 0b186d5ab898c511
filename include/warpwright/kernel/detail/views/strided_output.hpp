// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How an assignment writes a strided array: the address of each element, and the order of
// evaluation, which follows the array's memory where the operands allow it.
#pragma once

#include <warpwright/kernel/detail/elementwise/fused.hpp>
#include <warpwright/kernel/detail/views/view_node.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

/// The destination of an assignment to a strided array, in place of a plain output's pointer.
template <class Bits, int Rank>
struct strided_destination {
  Bits* data;
  axes<Rank> map;

  template <class T, int V>
  [[nodiscard]] operand describe() const {
    operand o = describe_array<T, V>(access_pattern::elements, data, 1);
    describe_axes(o, map.of, map.count);
    o.narrow = map.narrow;
    o.shaped = false;  // an output, not a view() operand
    return o;
  }
  /// @pre the elements are contiguous in memory
  /// @param wide  and aligned to a vector
  template <int V, class Index>
  WARPWRIGHT_HOST_DEVICE void store(packed_vector<Bits, V> const& r, Index const& i,
                                    bool wide) const {
    Bits* const to = data + map.find(i).offset;
    if (V == 1 || wide) {
      r.store_wide(to);
    } else {
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) to[j] = r.get(j);
    }
  }
};

/// The axes of an output from the shortest stride to the longest.
struct memory_order {
  int count = 0;  ///< 0: they are in that order, and no stride is negative
  int from[max_dimensions] = {};
  axis const* of = nullptr;  ///< in their original order
};
constexpr memory_order find_memory_order(axis const* of, int count) {
  memory_order order;
  order.of = of;
  bool unchanged = true;
  for (int k = 0; k < count; ++k) {
    int at = k;
    for (; at > 0; --at) {
      int const before = order.from[at - 1];
      if (magnitude(of[before].stride) <= magnitude(of[k].stride)) break;
      order.from[at] = before;
    }
    order.from[at] = k;
    unchanged = unchanged && at == k && of[k].stride >= 0;
  }
  order.count = unchanged ? 0 : count;
  return order;
}

/// Reorders the axes of a view to the order of an output's memory.
/// @param map    split at the ends of the output's axes, then reordered
/// @param first  receives the offset of the new first element
/// @return false where the view cannot be split there, or has more than Rank axes then
template <int Rank>
constexpr bool reorder(memory_order const& order, axes<Rank>& map, std::int64_t& first) {
  // Both are split at all ends of either; the parts of the output's axis k end at ends[k].
  axis parts[2 * max_dimensions] = {};
  int ends[max_dimensions] = {};
  int count = 0;
  int at = 0;
  first = 0;
  axis rest = map.of[0];
  for (int k = 0; k < order.count; ++k) {
    std::uint64_t left = order.of[k].extent;
    bool const backwards = order.of[k].stride < 0;
    while (left > 1) {
      if (rest.extent == 1) {
        if (++at == map.count) return false;
        rest = map.of[at];
      }
      std::uint64_t const part = rest.extent < left ? rest.extent : left;
      bool const exhausts = part == rest.extent, closes = part == left;  // mostly both: no division
      if (part == 0 || (!exhausts && rest.extent % part != 0) || (!closes && left % part != 0)) {
        return false;
      }
      auto const steps = static_cast<std::int64_t>(part);
      parts[count++] = axis{part, backwards ? -rest.stride : rest.stride};
      if (backwards) first += (steps - 1) * rest.stride;
      rest.extent = exhausts ? 1 : rest.extent / part;
      rest.stride *= steps;
      left = closes ? 1 : left / part;
    }
    ends[k] = count;
  }
  if (rest.extent != 1 || at + 1 != map.count) return false;

  std::int64_t shape[2 * max_dimensions] = {};
  std::int64_t strides[2 * max_dimensions] = {};
  int rank = 0;
  for (int k = order.count - 1; k >= 0; --k) {
    int const from = order.from[k];
    for (int p = ends[from] - 1; p >= (from == 0 ? 0 : ends[from - 1]); --p, ++rank) {
      shape[rank] = static_cast<std::int64_t>(parts[p].extent);
      strides[rank] = parts[p].stride;
    }
  }
  axes<2 * max_dimensions> const all = make_axes<2 * max_dimensions>(shape, strides, rank);
  if (all.count > Rank) return false;
  for (int k = 0; k < all.count; ++k) map.of[k] = all.of[k];
  map.count = all.count;
  map.narrow = all.narrow;
  map.outer_stride = all.outer_stride;
  return true;
}

}  // namespace detail

/// An assignment to a strided array, which run() evaluates.
template <class T, int Rank, class E>
struct strided_assignment {
  detail::strided_destination<detail::bits_of<T>, Rank> data;
  std::uint64_t size;
  E expression;

  /// @return the same with its elements numbered in the order of the output's memory, where the
  ///   operands allow it; run() evaluates this one
  [[nodiscard]] strided_assignment in_memory_order() const {
    if constexpr (detail::takes_any_order<E>) {
      detail::memory_order const order = detail::find_memory_order(data.map.of, data.map.count);
      if (order.count == 0 || size == 0) return *this;
      strided_assignment result{*this};
      bool fit = true;
      auto const reorder = [&](auto& array) {
        std::int64_t first = 0;
        fit = fit && detail::reorder(order, array.map, first);
        if (fit && array.data != nullptr) array.data += first;
      };
      reorder(result.data);
      detail::for_views<decltype(reorder)> visitor{reorder};
      detail::traversal<E>::visit(result.expression, visitor);
      return fit ? result : *this;
    } else {
      return *this;
    }
  }
};

namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class T, int Rank, class E>
struct part_of<strided_assignment<T, Rank, E>> {
  using type = fused_part<T, E, strided_destination<bits_of<T>, Rank>>;
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

// Avoids further errors behind a static_assert that failed.
struct refused_target {
  template <class X>
  refused_target operator=(X const&) const {
    return {};
  }
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
