// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Shapes and strides as callers pass them, with their checks, and the leaf of an expression that
// reads a strided view.
#pragma once

#include <warpwright/core/error.hpp>
#include <warpwright/kernel/detail/expression/traversal.hpp>
#include <warpwright/kernel/detail/plan/axes.hpp>
#include <warpwright/kernel/detail/views/pixels.hpp>
#include <warpwright/kernel/detail/views/tile.hpp>

#include <type_traits>

WARPWRIGHT_BEGIN

namespace ew {

/// A number of elements, or a stride in elements: any integer converts to it.
struct extent {
  std::int64_t value = 0;
  constexpr extent() = default;
  template <class Integer, class = std::enable_if_t<std::is_integral<Integer>::value>>
  constexpr extent(Integer number) : value{static_cast<std::int64_t>(number)} {}
};

namespace detail {

using warpwright::detail::text;

[[noreturn]] WARPWRIGHT_COLD inline void refuse_view(text const& problem, source_location where,
                                                     char const* function = "ew::array: ") {
  warpwright::detail::throw_invalid_argument(text{function} + problem, where);
}

// Refuses shapes that no array can have. check_operands() checks pointers and sizes.
void check_shape(std::int64_t const* shape, std::int64_t const* strides, int rank,
                 source_location where, char const* function = "ew::array: ");

// A checked shape of `rank` dimensions, padded to max_dimensions.
struct padded_shape {
  std::int64_t extents[max_dimensions] = {};
  std::int64_t strides[max_dimensions] = {};

  template <class Extent, class Stride>
  padded_shape(char const* function, int rank, Extent const* shape, Stride const* steps,
               source_location where) {
    if (rank < 0 || rank > max_dimensions) {
      refuse_view(
          text{"there are "} + rank +
              " dimensions; it takes 0 to 6: merge neighbours whose elements are one stride apart",
          where, function);
    }
    for (int k = 0; k < rank; ++k) {
      extents[k] = extent{shape[k]}.value;
      strides[k] = extent{steps[k]}.value;
    }
    check_shape(extents, strides, rank, where, function);
  }
};

// Refuses outputs of which two indices may lead to one element. The test is sufficient, not
// necessary: each stride must be longer than the span of all dimensions of shorter strides.
void check_output_shape(std::int64_t const* shape, std::int64_t const* strides, int rank,
                        source_location where);

/// Completes the operand of a view whose first element is at o.address.
void describe_axes(operand& o, axis const* of, int count);

/// The kernels that stage a view. Of tiles: one of several views of a kernel can be staged, or its
/// only one is; of pixels: every view is staged or aligned.
enum class staging { one_view, only_view, pixels };

/// The index that these load by.
template <staging By>
struct staged_index {
  output_element const& element;
  WARPWRIGHT_HOST_DEVICE operator std::uint64_t() const { return element.index; }
};

}  // namespace detail

/// What view() returns: element i is at the offset from `data` that the axes give it.
template <class T, int Rank>
struct view_input {
  using expression_tag = void;
  using bits = detail::bits_of<T>;
  static constexpr int operands = 1;
  static constexpr int rank = Rank;
  // Vectors of 32 bytes, moved by two accesses, where the other arrays' elements are half as wide:
  // what repeats is loaded once a vector, and a staged tile's elements one by one in any case.
  static constexpr int widest_bytes =
      detail::vector_element_bytes<T> == 1 || detail::vector_element_bytes<T> == 16
          ? detail::vector_element_bytes<T>
          : detail::vector_element_bytes<T> / 2;
  static constexpr int loaded_bytes = static_cast<int>(sizeof(bits));
  static constexpr bool weak = false;
  static constexpr bool fits_tiles = Rank > 1 && detail::is_number<T> && sizeof(bits) <= 8;
  template <int V>
  static constexpr bool fits_pixels = fits_tiles &&
                                      (V == 1 || (V * sizeof(bits) >= 4 && V * sizeof(bits) <= 16));
  template <class C>
  using value_type = detail::computed_t<C, T>;
  template <int V>
  using registers = detail::packed_vector<bits, V>;

  bits const* data;
  detail::axes<Rank> map;
  detail::view_access access = detail::view_access::strided;

  template <class X>
  constexpr auto operator=(X const&) const {
    return detail::refuse_write<X>(*this);
  }
  // Loads one run of the innermost dimension after the other; a wide vector is one run. A loop, so
  // that find(), most of the code, is compiled once.
  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, std::uint64_t i, std::uint64_t wide) const {
    if constexpr (V == 1) {
      r.only = data[map.find(i).offset];
    } else {
      bool const whole = detail::is_wide_operand<First>(wide);
      std::int64_t const step = map.of[0].stride;
      r = {};
      unsigned begin = 0;
      WARPWRIGHT_NO_UNROLL
      do {
        detail::strided_position const position = map.find(i + begin);
        bits const* const from = data + position.offset;
        if (whole && step != 0) return r.load_wide(from);
        unsigned const room = static_cast<unsigned>(V) - begin;
        bool const ends = !whole && position.left < room;
        unsigned const end = begin + (ends ? static_cast<unsigned>(position.left) : room);
        if (step == 0) {
          bits const same = *from;
          WARPWRIGHT_UNROLL
          for (unsigned j = 0; j < V; ++j) {
            if (j >= begin && j < end) r.set(static_cast<int>(j), same);
          }
        } else {
          WARPWRIGHT_UNROLL
          for (unsigned j = 0; j < V; ++j) {
            if (j >= begin && j < end) {
              r.set(static_cast<int>(j), from[static_cast<std::int64_t>(j - begin) * step]);
            }
          }
        }
        begin = end;
      } while (begin < V);
    }
  }
  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, detail::fast_index i, std::uint64_t) const {
    bits const* const from = data + map.find(i).offset;
    if constexpr (V == 1) {
      r.only = *from;
    } else if (map.of[0].stride == 0) {
      repeat<V>(r, *from);
    } else {
      r.load_wide(from);
    }
  }
  template <int V, int First, detail::staging By>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, detail::staged_index<By> const& i,
                                   std::uint64_t wide) const {
    constexpr bool pixels = By == detail::staging::pixels;
    constexpr bool fits = pixels ? fits_pixels<V> : fits_tiles;
    if (fits && (By == detail::staging::only_view || access == detail::view_access::staged)) {
      r = {};
    } else if (pixels || (fits && access != detail::view_access::strided)) {
      load_aligned<V>(r, i.element);
    } else {
      load<V, First>(r, i.element.index, wide);
    }
  }
  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, detail::warp_strided_index const& i,
                                   std::uint64_t) const {
    r = {};
    auto const* const start = reinterpret_cast<unsigned char const*>(data);
    bool const staged = access == detail::view_access::staged;
    auto const* const from = staged ? reinterpret_cast<bits const*>(start + i.staged)
                                    : data + map.offset_of(i.coordinates);
    std::int64_t const step = staged ? static_cast<std::int64_t>(i.step_bytes / sizeof(bits))
                                     : map.of[0].stride * detail::warp_stride;
    if (step == 0) {
      r.set(0, *from);  // access is `broadcast`
      return;
    }
    WARPWRIGHT_UNROLL
    for (unsigned j = 0; j < V; ++j) {
      r.set(static_cast<int>(j), j < i.count ? from[static_cast<std::int64_t>(j) * step] : bits{});
    }
  }
  /// Copies the element that load() left of a broadcast view to the others of its vector.
  template <int V>
  WARPWRIGHT_HOST_DEVICE void finish_load(registers<V>& r) const {
    if (fits_tiles && V > 1 && access == detail::view_access::broadcast) repeat<V>(r, r.get(0));
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int j, std::uint64_t) const {
    return detail::convert<value_type<C>>(detail::decoded<T, V>(r, j));
  }
  template <int V>
  void describe(detail::operand*& next) const {
    detail::operand o = detail::describe_array<T, V>(detail::access_pattern::elements, data, 1);
    detail::describe_axes(o, map.of, map.count);
    o.narrow = map.narrow;
    *next++ = o;
  }

 private:
  template <int V>
  WARPWRIGHT_HOST_DEVICE static void repeat(registers<V>& r, bits same) {
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) r.set(j, same);
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE void load_aligned(registers<V>& r, detail::output_element const& e) const {
    bits const* const from = data + map.offset_of(e.coordinates);
    if constexpr (V == 1) {
      r.only = *from;
    } else if (access == detail::view_access::broadcast) {
      r = {};
      r.set(0, *from);  // finish_load() sets the others, behind all loads
    } else {
      r.load_wide(from);
    }
  }
};

namespace detail {

template <class T, int Rank>
struct is_view<view_input<T, Rank>> : std::true_type {};

/// Visits the views of an expression alone: f(view) or f(view, registers), and no other leaf.
template <class F>
struct for_views {
  F& f;
  WARPWRIGHT_NO_EXEC_CHECK
  template <class Leaf, class... Registers>
  WARPWRIGHT_HOST_DEVICE void operator()(Leaf& leaf, Registers&... r) const {
    if constexpr (is_view<std::remove_const_t<Leaf>>::value) f(leaf, r...);
  }
};

// Whether an expression's elements may be evaluated in any order: no leaf depends on the element's
// index.
template <class Leaf>
struct is_order_free : is_view<Leaf> {};
template <class T, bool Weak>
struct is_order_free<scalar<T, Weak>> : std::true_type {};
template <class T>
struct is_order_free<single_input<T>> : std::true_type {};
template <class E>
inline constexpr bool takes_any_order = all_of_leaves<is_order_free, leaves_of<E>>;

/// What the kernels of tiles and pixels need of the leaves of an expression.
template <class Leaf>
struct tile_traits {
  static constexpr int candidates = 0;      ///< views that can be staged
  static constexpr unsigned alignment = 0;  ///< of their elements, by or
  template <int V>
  static constexpr int pixel_words = 0;  ///< of V pixels of a view
};
template <class T, int Rank>
struct tile_traits<view_input<T, Rank>> {
  using view = view_input<T, Rank>;
  static constexpr int candidates = view::fits_tiles ? 1 : 0;
  static constexpr unsigned alignment = candidates * alignof(bits_of<T>);
  template <int V>
  static constexpr int pixel_words = view::template fits_pixels<V> ? view::loaded_bytes* V : 0;
};
template <class... Leaf>
struct tile_traits<leaf_list<Leaf...>> {
  static constexpr int candidates = (0 + ... + tile_traits<Leaf>::candidates);
  static constexpr unsigned alignment = common_alignment((0U | ... | tile_traits<Leaf>::alignment));
  template <int V>
  static constexpr int pixel_words = largest(0, tile_traits<Leaf>::template pixel_words<V>...);
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/kernel/detail/views/view_definitions.hpp>
#endif
