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
template <class F>
WARPWRIGHT_HOST_DEVICE visit_views<F> visiting(F const& f) {
  return {f};
}

template <class... A>
using tile_traits_of =
    tile_traits<typename joined_leaves<leaves_of<decltype(part_t<A>::expression)>...>::type>;

template <class... A>
struct pixel_kernel : warpwright::detail::kernel_base<pixel_threads> {
  static constexpr int vector = fused<A...>::vector;
  static constexpr bool may_warp_stride = vector > 1 && !fused<A...>::strided &&
                                          (takes_any_order<decltype(part_t<A>::expression)> && ...);
  using traits = tile_traits_of<A...>;

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
    auto const finish =
        visiting([](auto const& view, auto& r) { view.template finish_load<vector>(r); });
    WARPWRIGHT_NO_UNROLL
    for (unsigned c = 0; c < partition.channels; ++c) {
      warp_strided_index const i{element.index, element.coordinates, from,
                                 partition.pitch_bytes * warp_stride, count};
      f.template vector_with<vector>(i, all_wide_bits, finish);
      element.index += partition.channel_stride;
      ++element.coordinates[1];
      from += partition.pitch_bytes / partition.pitch;
    }
  }
  template <int V, class Block>
  WARPWRIGHT_HOST_DEVICE void evaluate(Block const& block, unsigned thread) const {
    std::uint32_t all_words[traits::template pixel_words<V>] = {};
    std::uint32_t* const words = all_words;
    std::int64_t from = 0;
    output_element element = partition.first(thread, V, from);
    unsigned const count = V == 1 ? partition.channels : partition.pitch;
    visiting([words, from, count](auto const& view) {
      using viewed = std::decay_t<decltype(view)>;
      if constexpr (viewed::template fits_pixels<V>) {
        if (view.access != view_access::staged) return;
        using bits = typename viewed::bits;
        auto const* const start = reinterpret_cast<unsigned char const*>(view.data) + from;
        pixel_vector<bits, V>::load(words, reinterpret_cast<bits const*>(start), count);
      }
    })(f.parts);
    block.trigger_dependents();
    // The next channel of the staged view; the loads of the others are finished.
    auto const take = visiting([words, pitch = partition.pitch](auto const& view, auto& r) {
      using viewed = std::decay_t<decltype(view)>;
      if constexpr (viewed::template fits_pixels<V>) {
        if (view.access == view_access::staged) {
          return pixel_vector<typename viewed::bits, V>::take(r, words, pitch);
        }
      }
      view.template finish_load<V>(r);
    });
    WARPWRIGHT_NO_UNROLL
    for (unsigned c = 0; c < partition.channels; ++c) {
      f.template vector_with<V>(staged_index<staging::pixels>{element}, partition.wide, take);
      element.index += partition.channel_stride;
      ++element.coordinates[1];
    }
  }
};

template <class... A>
struct tile_kernel : warpwright::detail::kernel_base<tile_threads> {
  using traits = tile_traits_of<A...>;
  static constexpr staging by = traits::candidates == 1 ? staging::only_view : staging::one_view;
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
      partition.template each_vector<fused<A...>::vector>(
          here, memory, t,
          [&](auto count, output_element const& first, staged_vector const& staged) {
            constexpr int v = decltype(count)::value;
            auto const fill = visiting([&](auto const& view, auto& r) {
              if constexpr (std::decay_t<decltype(view)>::fits_tiles) {
                if (by == staging::only_view || view.access == view_access::staged)
                  return gather(r, staged);
              }
              view.template finish_load<v>(r);
            });
            f.template vector_with<v>(staged_index<by>{first}, partition.wide, fill);
          });
    });
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

template <class... A>
struct tile_evaluation<fused<A...>> {
  /// Launches a kernel of tiles or pixels.
  /// @return false where no view of the kernel is moved by either
  static bool run([[maybe_unused]] warpwright::detail::on_stream const& execute,
                  [[maybe_unused]] fused<A...> const& f, [[maybe_unused]] operand const* operands) {
    if constexpr (tile_traits_of<A...>::candidates == 0) {
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
    int at = 0;
    int count = 0;
    list_all(f.parts, [&](auto& view) {
      do ++at;
      while (!operands[at].shaped);
      view_candidate& v = views[count++];
      v.of = view.map.of;
      v.count = view.map.count;
      v.rank = view.rank;
      v.fits = view.fits_tiles;
      v.address = reinterpret_cast<std::uintptr_t>(view.data);
      v.operand = at;
      v.access = &view.access;
    });
    std::uint64_t const gapped = outputs_with_gaps(fused<A...>::types, operands);
    return select_view(views, count, operands, fused<A...>::operands, fused<A...>::vector, gapped,
                       pixel_kernel<A...>::may_warp_stride);
  }

 private:
  template <std::size_t... K, class... Part, class F>
  static void list_all(pack_of<std::index_sequence<K...>, Part...>& parts, F const& f) {
    for_views<F const> visitor{f};
    (traversal<decltype(Part::expression)>::visit(at<K>(parts).expression, visitor), ...);
  }
};

}  // namespace ew::detail

WARPWRIGHT_END
