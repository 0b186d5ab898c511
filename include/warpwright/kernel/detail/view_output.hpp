// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How an assignment writes a strided array: the way to each element, and the order in which the
// elements are taken, which follows the array's memory where the operands allow it.
#pragma once

#include <warpwright/kernel/detail/view_node.hpp>
#include <warpwright/kernel/evaluate.hpp>

WARPWRIGHT_BEGIN

namespace ew {

template <class T, int Rank>
class strided_array;

namespace detail {

/// Where an assignment to a strided array writes, in place of a plain output's pointer.
template <class Bits, int Rank>
struct strided_place {
  Bits* data;
  axes<Rank> map;

  template <class T, int V>
  [[nodiscard]] operand describe() const {
    operand o = describe_array<T, V>(reach::elements, data, 1);
    describe_axes(o, map.of, map.count);
    o.narrow = map.narrow;
    o.shaped = false;  // it is no operand
    return o;
  }
  /// @pre one element, or V that lie side by side in memory
  /// @param wide  from a multiple of their bytes on
  template <int V, class Place>
  WARPWRIGHT_HOST_DEVICE void store(lanes<Bits, V> const& r, Place const& i, bool wide) const {
    Bits* const to = data + map.find(i).offset;
    if (V == 1 || wide) {
      r.store_wide(to);
    } else {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < V; ++j) to[j] = r.get(j);
    }
  }
};

/// A dimension of an output that names an element twice, or may; -1: none. Sufficient, not
/// necessary: each stride has to be longer than the dimensions of shorter strides reach together.
struct repetition {
  int dimension = -1;
  std::uint64_t reach = 0;  ///< elements from end to end of the dimensions of shorter strides
};
constexpr std::uint64_t magnitude(std::int64_t stride) {
  return static_cast<std::uint64_t>(stride < 0 ? -stride : stride);
}
constexpr repetition find_repetition(std::int64_t const* shape, std::int64_t const* strides,
                                     int rank) {
  bool seen[most_dimensions] = {};
  repetition found;
  for (int k = 0; k < rank; ++k) {
    if (shape[k] == 0) return found;
  }
  for (int round = 0; round < rank; ++round) {
    int next = -1;
    for (int k = 0; k < rank; ++k) {
      if (seen[k] || shape[k] == 1) continue;
      if (next < 0 || magnitude(strides[k]) < magnitude(strides[next])) next = k;
    }
    if (next < 0) return found;
    seen[next] = true;
    if (magnitude(strides[next]) <= found.reach) {
      found.dimension = next;
      return found;
    }
    found.reach += static_cast<std::uint64_t>(shape[next] - 1) * magnitude(strides[next]);
  }
  return found;
}

/// The axes of an output from the shortest stride to the longest.
struct memory_order {
  int count = 0;  ///< 0: that is their order already, and none runs backwards
  int from[most_dimensions] = {};
  std::uint64_t extent[most_dimensions] = {};  ///< of the axes in their own order
  bool backwards[most_dimensions] = {};        ///< likewise
};
constexpr memory_order find_memory_order(axis const* of, int count) {
  memory_order order;
  bool as_it_is = true;
  for (int k = 0; k < count; ++k) {
    int place = k;
    for (; place > 0; --place) {
      int const before = order.from[place - 1];
      if (magnitude(of[before].stride) <= magnitude(of[k].stride)) break;
      order.from[place] = before;
    }
    order.from[place] = k;
    order.extent[k] = of[k].extent;
    order.backwards[k] = of[k].stride < 0;
    as_it_is = as_it_is && place == k && !order.backwards[k];
  }
  order.count = as_it_is ? 0 : count;
  return order;
}

/// Takes the elements of a view in another order: that of an output's memory.
/// @param map    cut at the ends of the output's axes, then put into that order
/// @param first  receives how many elements further the first lies
/// @return false where the view cannot be cut there, or has too many parts then
template <int Rank>
constexpr bool reorder(memory_order const& order, axes<Rank>& map, std::int64_t& first) {
  // Both cut at all ends of either; the parts of the output's axis k end at ends[k].
  axis parts[2 * most_dimensions] = {};
  int ends[most_dimensions] = {};
  int count = 0;
  int at = 0;
  first = 0;
  axis rest = map.of[0];
  for (int k = 0; k < order.count; ++k) {
    std::uint64_t open = order.extent[k];
    while (open > 1) {
      if (rest.extent == 1) {
        if (++at == map.count) return false;
        rest = map.of[at];
      }
      std::uint64_t const part = rest.extent < open ? rest.extent : open;
      bool const exhausts = part == rest.extent, closes = part == open;  // mostly both: no division
      if (part == 0 || (!exhausts && rest.extent % part != 0) || (!closes && open % part != 0)) {
        return false;
      }
      auto const steps = static_cast<std::int64_t>(part);
      parts[count].extent = part;
      parts[count].stride = order.backwards[k] ? -rest.stride : rest.stride;
      if (order.backwards[k]) first += (steps - 1) * rest.stride;
      ++count;
      rest.extent = exhausts ? 1 : rest.extent / part;
      rest.stride *= steps;
      open = closes ? 1 : open / part;
    }
    ends[k] = count;
  }
  if (rest.extent != 1 || at + 1 != map.count) return false;

  std::int64_t shape[2 * most_dimensions] = {};
  std::int64_t strides[2 * most_dimensions] = {};
  int rank = 0;
  for (int k = order.count - 1; k >= 0; --k) {
    int const from = order.from[k];
    for (int p = ends[from] - 1; p >= (from == 0 ? 0 : ends[from - 1]); --p, ++rank) {
      shape[rank] = static_cast<std::int64_t>(parts[p].extent);
      strides[rank] = parts[p].stride;
    }
  }
  axes<2 * most_dimensions> const all = make_axes<2 * most_dimensions>(shape, strides, rank);
  if (all.count > Rank) return false;
  for (int k = 0; k < all.count; ++k) map.of[k] = all.of[k];
  map.count = all.count;
  map.narrow = all.narrow;
  map.outer_stride = all.outer_stride;
  return true;
}

template <class Data, int Rank>
constexpr bool reorder(memory_order const& order, Data*& data, axes<Rank>& map) {
  std::int64_t first = 0;
  bool const fits = reorder(order, map, first);
  if (fits && data != nullptr) data += first;
  return fits;
}
struct reorder_views {
  memory_order const& order;
  bool fit = true;
  template <class T, int Rank>
  void operator()(view_input<T, Rank>& view) {
    fit = fit && reorder(order, view.data, view.map);
  }
};

}  // namespace detail

/// An assignment to a strided array, which run() evaluates.
template <class T, int Rank, class E>
struct strided_assignment {
  detail::strided_place<detail::bits_of<T>, Rank> data;
  std::uint64_t size;
  E expression;

  /// @return the same with its elements numbered in the order of the output's memory, where the
  ///   operands allow that: what run() evaluates
  [[nodiscard]] strided_assignment in_memory_order() const {
    if constexpr (detail::is_order_free<E>) {
      detail::memory_order const order = detail::find_memory_order(data.map.of, data.map.count);
      if (order.count == 0 || size == 0) return *this;
      strided_assignment result{*this};
      detail::reorder_views views{order};
      detail::views_below<E>::each(result.expression, views);
      bool const fit = detail::reorder(order, result.data.data, result.data.map);
      return fit && views.fit ? result : *this;
    } else {
      return *this;
    }
  }
};

/// What out() of a strided array returns: assign an expression to it.
template <class T, int Rank>
class strided_output {
 public:
  strided_output(strided_output const&) = default;
  strided_output& operator=(strided_output const&) = delete;  // not readable: write `= ew::view(…)`

  /// Every element becomes the expression's.
  template <class X>
  [[nodiscard]] auto operator=(X const& x) const {
    return assign(x);
  }
  /// Every element becomes itself plus the expression's, in place; likewise the others.
  template <class X>
  [[nodiscard]] auto operator+=(X const& x) const {
    return assign(itself() + x);
  }
  /// As operator+=.
  template <class X>
  [[nodiscard]] auto operator-=(X const& x) const {
    return assign(itself() - x);
  }
  /// As operator+=.
  template <class X>
  [[nodiscard]] auto operator*=(X const& x) const {
    return assign(itself() * x);
  }
  /// As operator+=.
  template <class X>
  [[nodiscard]] auto operator/=(X const& x) const {
    return assign(itself() / x);
  }

 private:
  template <class U, int R>
  friend strided_output<std::remove_const_t<U>, R> out(strided_array<U, R> const&, source_location);
  template <class U, class Extent, class Stride>
  friend strided_output<std::remove_const_t<U>, detail::most_dimensions> out(U*, int, Extent const*,
                                                                             Stride const*,
                                                                             source_location);

  strided_output(T* data, detail::axes<Rank> const& map)
      : place_{reinterpret_cast<detail::bits_of<T>*>(data), map} {}
  [[nodiscard]] view_input<T, Rank> itself() const { return {place_.data, place_.map}; }
  template <class X>
  auto assign(X const& x) const {
    static_assert(detail::is_expression<X> || detail::is_scalar<X>,
                  "warpwright::ew::out: the right side must be an expression, as view(array), or a "
                  "number");
    std::uint64_t size = 1;
    for (int k = 0; k < place_.map.count; ++k) size *= place_.map.of[k].extent;
    return strided_assignment<T, Rank, detail::expression_t<X>>{place_, size,
                                                                detail::as_expression(x)};
  }
  detail::strided_place<detail::bits_of<T>, Rank> place_;
};

namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class T, int Rank, class E>
struct part_of<strided_assignment<T, Rank, E>> {
  using type = fused_part<T, E, strided_place<bits_of<T>, Rank>>;
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

template <class A>
inline constexpr bool is_strided_assignment = false;
template <class T, int Rank, class E>
inline constexpr bool is_strided_assignment<strided_assignment<T, Rank, E>> = true;
template <class... A>
using if_strided = std::enable_if_t<(is_strided_assignment<A> || ...)>;

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
