// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel of pixels: each thread loads whole pixels of one view, and evaluates the expressions
// for one channel after the other.
#pragma once

#include <warpwright/kernel/detail/elementwise/fused.hpp>
#include <warpwright/kernel/detail/views/view_node.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// Calls f(view), or f(view, its registers), for every view of a kernel's assignments.
template <class F>
struct visit_views {
  F f;
  template <std::size_t... K, class... Part>
  WARPWRIGHT_HOST_DEVICE void operator()(
      pack_of<std::index_sequence<K...>, Part...> const& parts) const {
    for_views<F const> const visitor{f};
    (traversal<decltype(Part::expression)>::visit(at<K>(parts).expression, visitor), ...);
  }
  template <std::size_t... K, class... Part, class Registers>
  WARPWRIGHT_HOST_DEVICE void operator()(pack_of<std::index_sequence<K...>, Part...> const& parts,
                                         Registers& r) const {
    for_views<F const> const visitor{f};
    (traversal<decltype(Part::expression)>::visit(at<K>(parts).expression, at<K>(r), visitor), ...);
  }
};

template <class Fused>
struct tile_traits_of;
template <class... A>
struct tile_traits_of<fused<A...>>
    : tile_traits<typename joined_leaves<leaves_of<decltype(part_t<A>::expression)>...>::type> {};

template <int Count>
WARPWRIGHT_HOST_DEVICE void copy_words(std::uint32_t* to, std::uint32_t const* from) {
  WARPWRIGHT_UNROLL
  for (int k = 0; k < Count; ++k) to[k] = from[k];
}

// Loads a thread's pixels of the staged view into `words`.
template <int V>
struct load_pixels {
  std::uint32_t* words;
  std::int64_t from;
  unsigned count;
  template <class T, int Rank>
  WARPWRIGHT_HOST_DEVICE void operator()(view_input<T, Rank> const& view) const {
    if constexpr (view_input<T, Rank>::template fits_pixels<V>) {
      if (view.access != view_access::staged) return;
      pixel_vector<bits_of<T>, V> pixels;
      auto const* const start = reinterpret_cast<unsigned char const*>(view.data) + from;
      pixels.load(reinterpret_cast<bits_of<T> const*>(start), count);
      copy_words<pixel_vector<bits_of<T>, V>::words>(words, pixels.elements.words);
    }
  }
};

// Extracts the next channel of the staged view from `words`, and finishes the loads of the others.
template <int V>
struct take_channel {
  std::uint32_t* words;
  unsigned pitch;
  template <class T, int Rank>
  WARPWRIGHT_HOST_DEVICE void operator()(view_input<T, Rank> const& view,
                                         packed_vector<bits_of<T>, V>& r) const {
    if constexpr (view_input<T, Rank>::template fits_pixels<V>) {
      if (view.access == view_access::staged) {
        pixel_vector<bits_of<T>, V> pixels;
        copy_words<pixel_vector<bits_of<T>, V>::words>(pixels.elements.words, words);
        pixels.take(r, pitch);
        copy_words<pixel_vector<bits_of<T>, V>::words>(words, pixels.elements.words);
        return;
      }
    }
    view.template finish_load<V>(r);
  }
};

template <int V>
struct finish_loads {
  template <class T, int Rank>
  WARPWRIGHT_HOST_DEVICE void operator()(view_input<T, Rank> const& view,
                                         packed_vector<bits_of<T>, V>& r) const {
    view.template finish_load<V>(r);
  }
};

template <class... A>
struct pixel_kernel : warpwright::detail::kernel_base<pixel_threads> {
  static constexpr int vector = fused<A...>::vector;
  static constexpr bool may_warp_stride = vector > 1 && !fused<A...>::strided &&
                                          (takes_any_order<decltype(part_t<A>::expression)> && ...);
  using traits = tile_traits_of<fused<A...>>;

  fused<A...> f;  // its views are marked
  pixel_partition partition;

  pixel_kernel(fused<A...> const& all, pixel_partition const& p) : f{all}, partition{p} {}

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    block.for_each_thread([&](unsigned t) {
      unsigned const thread = block.index() * pixel_threads + t;
      if (thread >= partition.threads) return;
      if constexpr (vector > 1 && traits::template pixel_words<vector> != 0) {
        if (partition.vectors) return evaluate<vector>(block, thread);
      }
      if constexpr (may_warp_stride) {
        evaluate_warp_strided(thread);
      } else {
        evaluate<1>(block, thread);
      }
    });
  }

 private:
  WARPWRIGHT_HOST_DEVICE void evaluate_warp_strided(unsigned thread) const {
    std::int64_t from = 0;
    output_element element = partition.first(thread, vector, from);
    unsigned const x = element.coordinates[0];
    if (x >= partition.extent) return;
    unsigned const count = (partition.extent - x + warp_stride - 1) / warp_stride;
    WARPWRIGHT_NO_UNROLL
    for (unsigned c = 0; c < partition.channels; ++c) {
      warp_strided_index const i{element.index, element.coordinates, from,
                                 partition.pitch_bytes * warp_stride, count};
      f.template vector_with<vector>(i, all_wide_bits, visit_views<finish_loads<vector>>{});
      element.index += partition.channel_stride;
      ++element.coordinates[1];
      from += partition.pitch_bytes / partition.pitch;
    }
  }
  template <int V, class Block>
  WARPWRIGHT_HOST_DEVICE void evaluate(Block const& block, unsigned thread) const {
    std::uint32_t words[traits::template pixel_words<V>] = {};
    std::int64_t from = 0;
    output_element element = partition.first(thread, V, from);
    using load = load_pixels<V>;
    visit_views<load>{{words, from, V == 1 ? partition.channels : partition.pitch}}(f.parts);
    block.trigger_dependents();
    using take = take_channel<V>;
    WARPWRIGHT_NO_UNROLL
    for (unsigned c = 0; c < partition.channels; ++c) {
      f.template vector_with<V>(pixel_index{element}, partition.wide,
                                visit_views<take>{{words, partition.pitch}});
      element.index += partition.channel_stride;
      ++element.coordinates[1];
    }
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
