// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of views. That of pixels: each thread loads whole pixels of one view, and evaluates
// the expressions for one channel after the other. That of tiles: one view is staged in shared
// memory; all other operands are loaded in the order of the output, as in any kernel.
#pragma once

#include <warpwright/kernel/detail/elementwise/fused.hpp>
#include <warpwright/kernel/detail/views/tile_plan.hpp>
#include <warpwright/kernel/detail/views/view_node.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// Calls f(view), or f(view, its registers), for every view of a kernel's assignments.
template <class F>
struct visit_views {
  F f;
  template <std::size_t... K, class... Part, class... Registers>
  WARPWRIGHT_HOST_DEVICE void operator()(pack_of<std::index_sequence<K...>, Part...> const& parts,
                                         Registers&... r) const {
    (visit_part<K>(at<K>(parts).expression, r...), ...);
  }

 private:
  template <std::size_t K, class E, class... Registers>
  WARPWRIGHT_HOST_DEVICE void visit_part(E const& expression, Registers&... r) const {
    for_views<F const> const visitor{f};
    traversal<E>::visit(expression, visitor, at<K>(r)...);
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

// Lists the views of a kernel.
struct list_views {
  operand const* operands;
  view_candidate* views;
  int at = 0;
  int count = 0;

  template <class T, int Rank>
  void operator()(view_input<T, Rank>& view) {
    do ++at;
    while (!operands[at].shaped);
    view_candidate& v = views[count++];
    v.of = view.map.of;
    v.count = view.map.count;
    v.rank = Rank;
    v.fits = view_input<T, Rank>::fits_tiles;
    v.address = reinterpret_cast<std::uintptr_t>(view.data);
    v.operand = at;
    v.access = &view.access;
  }
};

template <int V, bool OnlyView>
struct gather_staged {
  staged_vector const& staged;
  template <class T, int Rank>
  WARPWRIGHT_HOST_DEVICE void operator()(view_input<T, Rank> const& view,
                                         packed_vector<bits_of<T>, V>& r) const {
    if constexpr (view_input<T, Rank>::fits_tiles) {
      if (OnlyView || view.access == view_access::staged) return gather(r, staged);
    }
    view.template finish_load<V>(r);
  }
};

template <class... A>
struct tile_kernel : warpwright::detail::kernel_base<tile_threads> {
  using traits = tile_traits_of<fused<A...>>;
  static constexpr bool only_view = traits::candidates == 1;
  struct shared {
    unsigned char memory[tile_memory_bytes];
  };

  fused<A...> f;  // its views are marked
  tile_partition partition;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    unsigned char* const memory = block.shared().memory;
    tile const here = partition.tile_of(block.index());
    block.for_each_thread(
        [&](unsigned t) { partition.template stage<traits::alignment>(here, memory, t); });
    block.trigger_dependents();
    block.synchronize();
    block.for_each_thread([&](unsigned t) {
      partition.template each_vector<fused<A...>::vector>(here, memory, t, store_vector{*this});
    });
  }

 private:
  struct store_vector {
    tile_kernel const& kernel;
    template <int V>
    WARPWRIGHT_HOST_DEVICE void operator()(std::integral_constant<int, V>,
                                           output_element const& first,
                                           staged_vector const& staged) const {
      using fill = gather_staged<V, only_view>;
      kernel.f.template vector_with<V>(tile_index<only_view>{first}, kernel.partition.wide,
                                       visit_views<fill>{{staged}});
    }
  };
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

template <class... A>
struct tile_evaluation<fused<A...>> {
  /// Launches a kernel of tiles or pixels.
  /// @return false where no view of the kernel is moved by either
  static bool run(warpwright::detail::on_stream const& execute, fused<A...> const& f,
                  operand const* operands) {
    if constexpr (tile_traits_of<fused<A...>>::candidates == 0) {
      static_cast<void>(execute), static_cast<void>(f), static_cast<void>(operands);
      return false;
    } else {
      fused<A...> marked = f;
      tile_selection const selection = select(marked, operands);
      if (selection.tiles.tiles == 0) return false;
      if (selection.pixels.threads != 0) {
        execute(quotient_up(selection.pixels.threads, pixel_threads), pixel_threads,
                pixel_kernel<A...>{{}, marked, selection.pixels}, "warpwright::ew::run");
      } else {
        execute(selection.tiles.tiles, tile_threads, tile_kernel<A...>{{}, marked, selection.tiles},
                "warpwright::ew::run");
      }
      return true;
    }
  }

  static tile_summary summarize(fused<A...> f, operand const* operands) {
    return summarize_selection(select(f, operands));
  }

  /// @param f  receives in its views how they are loaded
  static tile_selection select(fused<A...>& f, operand const* operands) {
    view_candidate views[fused<A...>::operands];
    list_views list{operands, views};
    list_all(f.parts, list);
    std::uint64_t const gapped = outputs_with_gaps(fused<A...>::types, operands);
    return select_view(views, list.count, operands, fused<A...>::operands, fused<A...>::vector,
                       gapped, pixel_kernel<A...>::may_warp_stride);
  }

 private:
  template <std::size_t... K, class... Part>
  static void list_all(pack_of<std::index_sequence<K...>, Part...>& parts, list_views& list) {
    for_views<list_views> visitor{list};
    (traversal<decltype(Part::expression)>::visit(at<K>(parts).expression, visitor), ...);
  }
};

}  // namespace ew::detail

WARPWRIGHT_END
