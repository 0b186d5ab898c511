// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The node of an expression that reads a strided view, and the way to it from the nodes above.
#pragma once

#include <warpwright/kernel/detail/nodes.hpp>
#include <warpwright/kernel/detail/tile.hpp>

WARPWRIGHT_BEGIN

namespace ew {

namespace detail {

// Completes the operand of a view that starts at its address.
inline void describe_axes(operand& o, axis const* of, int count) {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  std::uint64_t distinct = 1;
  std::uint64_t places = o.address;
  o.shaped = true;
  o.count = 1;
  for (int k = 0; k < count; ++k) {
    o.count *= of[k].extent;
    if (of[k].stride != 0) distinct *= of[k].extent;
    std::int64_t const way = (static_cast<std::int64_t>(of[k].extent) - 1) * of[k].stride;
    (way < 0 ? lowest : highest) += way;
    if (k != 0) places |= static_cast<std::uint64_t>(of[k].stride) * o.element_bytes;
  }
  bool const contiguous = count == 1 && of[0].stride == 1;
  if (contiguous || o.count == 0) return;
  o.kind = reach::view;
  o.of = of;
  o.axes = count;
  o.step = of[0].stride;
  o.run = of[0].extent;
  if (o.step == 1) o.vector_bytes = common_alignment(places | o.run * o.element_bytes);
  if (o.step == 0) o.vector_bytes = common_alignment(o.run) * o.element_bytes;  // one for a vector
  o.span = (static_cast<std::uint64_t>(highest - lowest) + 1) * o.element_bytes;
  o.touched = distinct * o.element_bytes;
  if (o.address != 0) o.address += static_cast<std::uint64_t>(lowest) * o.element_bytes;
}

// An element of the output in a kernel of tiles; Alone: that has but one view which they can bring.
template <bool Alone>
struct tile_place {
  std::uint64_t index;
  WARPWRIGHT_HOST_DEVICE operator std::uint64_t() const { return index; }  // as other nodes see it
};

}  // namespace detail

/// What view() returns: element i is where the axes lead from `data`.
template <class T, int Rank>
struct view_input {
  using expression_tag = void;
  using bits = detail::bits_of<T>;
  static constexpr int operands = 1;
  // Two accesses a vector where the other arrays' elements are half as wide: what repeats is loaded
  // once a vector, and a tile's elements one by one in any case.
  static constexpr int widest_bytes = detail::lane_bytes<T> == 1 || detail::lane_bytes<T> == 16
                                          ? detail::lane_bytes<T>
                                          : detail::lane_bytes<T> / 2;
  static constexpr int loaded_bytes = static_cast<int>(sizeof(bits));
  static constexpr bool weak = false;
  static constexpr bool fits_tiles = Rank > 1 && detail::is_number<T> && sizeof(bits) <= 8;
  template <class C>
  using value_type = detail::computed_t<C, T>;
  template <int V>
  using registers = detail::lanes<bits, V>;

  bits const* data;
  detail::axes<Rank> map;
  bool staged = false;  // a tile brings it: a kernel of tiles has nothing to load

  // One run of the innermost dimension after the other, of which a wide vector is one: a loop, so
  // that the way to an element, most of the code, is compiled once.
  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, std::uint64_t i, std::uint64_t wide) const {
    if constexpr (V == 1) {
      r.only = data[map.find(i).offset];
    } else {
      bool const whole = (wide >> static_cast<unsigned>(First) & 1U) != 0;
      std::int64_t const step = map.of[0].stride;
      r = {};
      unsigned begin = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
      do {
        detail::element_place const place = map.find(i + begin);
        bits const* const from = data + place.offset;
        if (whole && step != 0) return r.load_wide(from);
        unsigned const room = static_cast<unsigned>(V) - begin;
        bool const ends = !whole && place.left < room;
        unsigned const end = begin + (ends ? static_cast<unsigned>(place.left) : room);
        load_run<V>(r, from, step, begin, end);
        begin = end;
      } while (begin < V);
    }
  }
  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, detail::usual_place i, std::uint64_t) const {
    bits const* const from = data + map.find(i).offset;
    if constexpr (V == 1) {
      r.only = *from;
    } else if (map.of[0].stride == 0) {
      repeat<V>(r, *from);
    } else {
      r.load_wide(from);
    }
  }
  template <int V, int First, bool Alone>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, detail::tile_place<Alone> const& i,
                                   std::uint64_t wide) const {
    if (fits_tiles && (Alone || staged)) {
      r = {};
    } else if (V > 1 && map.narrow && (wide >> static_cast<unsigned>(First) & 1U) != 0) {
      load<V, First>(r, detail::usual_place{i.index}, wide);
    } else {
      load<V, First>(r, i.index, wide);
    }
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int j, std::uint64_t) const {
    return detail::convert<value_type<C>>(detail::decoded<T, V>(r, j));
  }
  template <int V>
  void describe(detail::operand*& next) const {
    detail::operand o = detail::describe_array<T, V>(detail::reach::elements, data, 1);
    detail::describe_axes(o, map.of, map.count);
    o.narrow = map.narrow;
    *next++ = o;
  }

 private:
  template <int V>
  WARPWRIGHT_HOST_DEVICE static void repeat(registers<V>& r, bits same) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int j = 0; j < V; ++j) r.set(j, same);
  }
  // Sets the elements [begin, end), `step` apart from `from` on.
  template <int V>
  WARPWRIGHT_HOST_DEVICE static void load_run(registers<V>& r, bits const* from, std::int64_t step,
                                              unsigned begin, unsigned end) {
    if (step == 0) {
      bits const same = *from;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned j = 0; j < V; ++j) {
        if (j >= begin && j < end) r.set(static_cast<int>(j), same);
      }
    } else {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned j = 0; j < V; ++j) {
        if (j >= begin && j < end) {
          r.set(static_cast<int>(j), from[static_cast<std::int64_t>(j - begin) * step]);
        }
      }
    }
  }
};

namespace detail {

template <class T, int Rank>
inline constexpr bool holds_view<view_input<T, Rank>> = true;

// The views below a node: shown one by one on the host, filled from a tile in a kernel.
//   fitting     how many of them tiles can bring
//   alignments  of their elements, all or'ed
template <class E>
struct views_below {
  static constexpr int fitting = 0;
  static constexpr unsigned alignments = 0;
  template <class Show>
  static void each(E&, Show&) {}
  template <int V, bool Alone, class Registers>
  WARPWRIGHT_HOST_DEVICE static void fill(E const&, Registers&, tile_cursor const&) {}
};
template <class... E>
struct views_below_counts {
  static constexpr int fitting = (0 + ... + views_below<E>::fitting);
  static constexpr unsigned alignments = (0U | ... | views_below<E>::alignments);
};
template <class T, int Rank>
struct views_below<view_input<T, Rank>> {
  static constexpr int fitting = view_input<T, Rank>::fits_tiles ? 1 : 0;
  static constexpr unsigned alignments = fitting * alignof(bits_of<T>);
  template <class Show>
  static void each(view_input<T, Rank>& node, Show& show) {
    show(node);
  }
  template <int V, bool Alone, class Registers>
  WARPWRIGHT_HOST_DEVICE static void fill(view_input<T, Rank> const& node, Registers& r,
                                          tile_cursor const& c) {
    if constexpr (view_input<T, Rank>::fits_tiles) {
      if (Alone || node.staged) gather(r, c);
    }
  }
};
template <class T, class E>
struct views_below<computed_as<T, E>> : views_below_counts<E> {
  template <class Show>
  static void each(computed_as<T, E>& node, Show& show) {
    views_below<E>::each(node.expression, show);
  }
  template <int V, bool Alone, class Registers>
  WARPWRIGHT_HOST_DEVICE static void fill(computed_as<T, E> const& node, Registers& r,
                                          tile_cursor const& c) {
    views_below<E>::template fill<V, Alone>(node.expression, r, c);
  }
};
template <class... E>
struct views_below_all : views_below_counts<E...> {
  static constexpr unsigned least_alignment =
      common_alignment(views_below_counts<E...>::alignments);
  using indices = std::index_sequence_for<E...>;
  template <class Show, std::size_t... Index>
  static void each(pack<E...>& nodes, Show& show, std::index_sequence<Index...>) {
    (views_below<E>::each(at<Index>(nodes), show), ...);
  }
  template <int V, bool Alone, class Registers, std::size_t... Index>
  WARPWRIGHT_HOST_DEVICE static void fill(pack<E...> const& nodes, Registers& r,
                                          tile_cursor const& c, std::index_sequence<Index...>) {
    (views_below<E>::template fill<V, Alone>(at<Index>(nodes), at<Index>(r), c), ...);
  }
};
template <class Types, class F, class... A>
struct views_below<call<Types, F, A...>> : views_below_counts<A...> {
  using all = views_below_all<A...>;
  template <class Show>
  static void each(call<Types, F, A...>& node, Show& show) {
    all::each(node.arguments, show, typename all::indices{});
  }
  template <int V, bool Alone, class Registers>
  WARPWRIGHT_HOST_DEVICE static void fill(call<Types, F, A...> const& node, Registers& r,
                                          tile_cursor const& c) {
    all::template fill<V, Alone>(node.arguments, r, c, typename all::indices{});
  }
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
