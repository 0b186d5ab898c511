// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel of tiles: one view is staged in shared memory; all other operands are loaded in the
// order of the output, as in any kernel. And the launch of either kernel of views.
#pragma once

#include <warpwright/kernel/detail/views/pixel_kernel.hpp>
#include <warpwright/kernel/detail/views/tile_selection.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

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

  tile_kernel(fused<A...> const& all, tile_partition const& p) : f{all}, partition{p} {}

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
  /// @param operands  as fused::describe() lists them
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
                pixel_kernel<A...>{marked, selection.pixels}, "warpwright::ew::run");
      } else {
        execute(selection.tiles.tiles, tile_threads, tile_kernel<A...>{marked, selection.tiles},
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

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
