// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The node of an expression that reads a strided view, and the way to it from the nodes above.
#pragma once

#include <warpwright/kernel/detail/nodes.hpp>
#include <warpwright/kernel/detail/pixels.hpp>
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
  tile_element const& element;
  WARPWRIGHT_HOST_DEVICE operator std::uint64_t() const { return element.index; }  // elsewhere
};

// Likewise in a kernel of pixels.
struct pixel_place {
  tile_element const& element;
  WARPWRIGHT_HOST_DEVICE operator std::uint64_t() const { return element.index; }
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
  template <int V>
  static constexpr bool fits_pixels = fits_tiles &&
                                      (V == 1 || (V * sizeof(bits) >= 4 && V * sizeof(bits) <= 16));
  template <class C>
  using value_type = detail::computed_t<C, T>;
  template <int V>
  using registers = detail::lanes<bits, V>;

  bits const* data;
  detail::axes<Rank> map;
  detail::tile_way way = detail::tile_way::any;

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
    if (fits_tiles && (Alone || way == detail::tile_way::staged)) {
      r = {};
    } else if (fits_tiles && way != detail::tile_way::any) {
      load_along<V>(r, i.element);
    } else {
      load<V, First>(r, i.element.index, wide);
    }
  }
  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, detail::pixel_place const& i,
                                   std::uint64_t) const {
    if (fits_pixels<V> && way == detail::tile_way::staged) {
      r = {};
    } else {
      load_along<V>(r, i.element);
    }
  }
  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, detail::spread_place const& i,
                                   std::uint64_t) const {
    r = {};
    auto const* const start = reinterpret_cast<unsigned char const*>(data);
    bool const staged = way == detail::tile_way::staged;
    auto const* const from =
        staged ? reinterpret_cast<bits const*>(start + i.staged) : data + map.along(i.coordinates);
    std::int64_t const step = staged ? static_cast<std::int64_t>(i.step_bytes / sizeof(bits))
                                     : map.of[0].stride * detail::spread_step;
    if (step == 0) {
      r.set(0, *from);  // way is `repeated`
      return;
    }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned j = 0; j < V; ++j) {
      r.set(static_cast<int>(j), j < i.count ? from[static_cast<std::int64_t>(j) * step] : bits{});
    }
  }
  /// Adds what load() left out.
  template <int V, bool Alone>
  WARPWRIGHT_HOST_DEVICE void fill(registers<V>& r, detail::tile_cursor const& c) const {
    if constexpr (fits_tiles) {
      if (Alone || way == detail::tile_way::staged) {
        gather(r, c);
      } else if (V > 1 && way == detail::tile_way::repeated) {
        repeat<V>(r, r.get(0));
      }
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

  template <int V>
  WARPWRIGHT_HOST_DEVICE static void repeat(registers<V>& r, bits same) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int j = 0; j < V; ++j) r.set(j, same);
  }

 private:
  template <int V>
  WARPWRIGHT_HOST_DEVICE void load_along(registers<V>& r, detail::tile_element const& e) const {
    bits const* const from = data + map.along(e.at);
    if constexpr (V == 1) {
      r.only = *from;
    } else if (way == detail::tile_way::repeated) {
      r = {};
      r.set(0, *from);  // the others when all loads are under way
    } else {
      r.load_wide(from);
    }
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

// Whether an expression's elements may be taken in any order: no array or value of it goes by the
// element's number.
template <class E>
inline constexpr bool is_order_free = false;
template <class T, int Rank>
inline constexpr bool is_order_free<view_input<T, Rank>> = true;
template <class T, bool Weak>
inline constexpr bool is_order_free<scalar<T, Weak>> = true;
template <class T>
inline constexpr bool is_order_free<single_input<T>> = true;
template <class T, class E>
inline constexpr bool is_order_free<computed_as<T, E>> = is_order_free<E>;
template <class Types, class F, class... A>
inline constexpr bool is_order_free<call<Types, F, A...>> = (is_order_free<A> && ...);

// The views below a node: shown one by one on the host, filled from a tile in a kernel.
//   fitting     how many of them tiles can bring
//   alignments  of their elements, all or'ed
//   pixels<V>   the words of the largest that can be brought by pixels, V at a time
template <class E>
struct views_below {
  static constexpr int fitting = 0;
  static constexpr unsigned alignments = 0;
  template <int V>
  static constexpr int pixels = 0;
  template <class Show>
  static void each(E&, Show&) {}
  template <class Registers, class Fill>
  WARPWRIGHT_HOST_DEVICE static void fill(E const&, Registers&, Fill const&) {}
};
template <class... E>
struct views_below_counts {
  static constexpr int fitting = (0 + ... + views_below<E>::fitting);
  static constexpr unsigned alignments = (0U | ... | views_below<E>::alignments);
  template <int V>
  static constexpr int pixels = largest(0, views_below<E>::template pixels<V>...);
};
template <class View, int V>
constexpr int pixel_words() {
  if constexpr (View::template fits_pixels<V>) return pixel_lanes<typename View::bits, V>::words;
  return 0;
}
template <class T, int Rank>
struct views_below<view_input<T, Rank>> {
  static constexpr int fitting = view_input<T, Rank>::fits_tiles ? 1 : 0;
  static constexpr unsigned alignments = fitting * alignof(bits_of<T>);
  template <int V>
  static constexpr int pixels = pixel_words<view_input<T, Rank>, V>();
  template <class Show>
  static void each(view_input<T, Rank>& node, Show& show) {
    show(node);
  }
  template <class Registers, class Fill>
  WARPWRIGHT_HOST_DEVICE static void fill(view_input<T, Rank> const& node, Registers& r,
                                          Fill const& fill) {
    fill(node, r);
  }
};
template <class T, class E>
struct views_below<computed_as<T, E>> : views_below_counts<E> {
  template <class Show>
  static void each(computed_as<T, E>& node, Show& show) {
    views_below<E>::each(node.expression, show);
  }
  template <class Registers, class Fill>
  WARPWRIGHT_HOST_DEVICE static void fill(computed_as<T, E> const& node, Registers& r,
                                          Fill const& fill) {
    views_below<E>::fill(node.expression, r, fill);
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
  template <class Registers, class Fill, std::size_t... Index>
  WARPWRIGHT_HOST_DEVICE static void fill(pack<E...> const& nodes, Registers& r, Fill const& fill,
                                          std::index_sequence<Index...>) {
    (views_below<E>::fill(at<Index>(nodes), at<Index>(r), fill), ...);
  }
};
template <class Types, class F, class... A>
struct views_below<call<Types, F, A...>> : views_below_counts<A...> {
  using all = views_below_all<A...>;
  template <class Show>
  static void each(call<Types, F, A...>& node, Show& show) {
    all::each(node.arguments, show, typename all::indices{});
  }
  template <class Registers, class Fill>
  WARPWRIGHT_HOST_DEVICE static void fill(call<Types, F, A...> const& node, Registers& r,
                                          Fill const& fill) {
    all::fill(node.arguments, r, fill, typename all::indices{});
  }
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
