// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The tiles or pixels by which run() moves a view of an assignment.
#pragma once

#include <warpwright/kernel/views.hpp>

namespace kernel_test {

namespace ew = warpwright::ew;

template <class... A>
ew::detail::tile_selection selection_of(A const&... a) {
  using fused = ew::detail::fused<A...>;
  ew::detail::operand all[fused::operands];
  fused::describe(all, warpwright::source_location::current(), a...);
  fused f{a...};
  return ew::detail::tile_evaluation<fused>::select(f, all);
}

// The bytes of shared memory that a whole tile takes.
inline unsigned staged_bytes(ew::detail::tile_partition const& p) {
  ew::detail::tile_layout const& layout = p.layout;
  if (!layout.linear) return layout.row(p.tile_x - 1) + layout.pitch;
  unsigned const last = p.tile_x * layout.pitch - 1;
  return last + layout.padded_bytes.quotient(last) * layout.padding + 1;
}

// Whether run() moves a view by tiles or pixels; checks that the tiles fit their memory.
template <class... A>
bool is_tiled(A const&... a) {
  ew::detail::tile_partition const tiles = selection_of(a...).tiles;
  if (tiles.tiles == 0) return false;
  if (staged_bytes(tiles) > ew::detail::tile_memory_bytes) throw std::logic_error{"too large"};
  return true;
}
template <class T, int Rank, class E>
bool is_tiled(ew::strided_assignment<T, Rank, E> const& a) {
  return is_tiled<ew::strided_assignment<T, Rank, E>>(a.in_memory_order());
}

}  // namespace kernel_test
