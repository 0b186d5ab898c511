// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Selects the view of an expression that is moved by tiles or pixels, and how the others are loaded
// beside it. One function for all expressions; needs no GPU.
#pragma once

#include <warpwright/kernel/detail/plan/operand.hpp>
#include <warpwright/kernel/detail/plan/tile_summary.hpp>
#include <warpwright/kernel/detail/views/pixels.hpp>
#include <warpwright/kernel/detail/views/tile_plan.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

/// A view of an expression, without its type.
struct view_candidate {
  axis* of = nullptr;
  int count = 0;
  int rank = 0;                               ///< axes that its node has room for
  bool fits = false;                          ///< its type does
  std::uintptr_t address = 0;                 ///< of its first element
  int operand = 0;                            ///< its number among the operands
  view_access* access = nullptr;              ///< receives how it is loaded
  bool aligned = false;                       ///< its axes are those of the staged view
  std::int64_t strides[max_dimensions] = {};  ///< then along x, y and the batches
};

struct tile_selection {
  unsigned vector;  ///< elements of one of the output
  int operand = 0;  ///< the staged view's number
  tile_partition tiles{};
  pixel_partition pixels{};  ///< used in place of the tiles if it has threads
};

tile_summary summarize_selection(tile_selection const& selection);

// Bit k: operand k can be moved by vectors from element 0 on. Bits of no operand are set.
constexpr std::uint64_t vectorized_operands(operand const* all, int count, unsigned vector) {
  std::uint64_t const others = count < 64 ? all_wide_bits << static_cast<unsigned>(count) : 0;
  return wide_operands(all, count, 0, vector) | others;
}

// Whether all offsets take 31 bits, as axes::offset_of() computes them.
constexpr bool has_31_bit_offsets(axis const* of, int count) {
  std::uint64_t extent = 0;
  for (int k = 0; k < count; ++k) {
    std::int64_t const stride = of[k].stride < 0 ? -of[k].stride : of[k].stride;
    extent += (of[k].extent - 1) * static_cast<std::uint64_t>(stride);
  }
  return extent <= 0x7fffffffU;
}

// Finds the views whose axes are those of the tiles, so that a kernel need not divide for them.
// @param usable  bit k: operand k can be loaded along them
// @return whether all views but the staged one are
inline bool find_aligned_views(view_candidate* views, int count, view_candidate const& staged,
                               tile_partition const& tiles, std::uint64_t usable) {
  bool all = true;
  for (view_candidate* v = views; v != views + count; ++v) {
    v->aligned = v != &staged && v->fits && has_31_bit_offsets(v->of, v->count) &&
                 (usable >> static_cast<unsigned>(v->operand) & 1U) != 0 &&
                 align_axes(tiles, staged.of, v->of, v->count, v->rank, v->strides);
    all = all && (v == &staged || v->aligned);
  }
  return all;
}
// @param vectors  a thread takes several elements at a time
inline void mark_aligned_views(view_candidate* views, int count, bool vectors) {
  for (view_candidate* v = views; v != views + count; ++v) {
    if (!v->aligned) continue;
    for (int k = 0; k < v->rank; ++k) v->of[k].stride = v->strides[k];
    *v->access = vectors && v->strides[0] == 0 ? view_access::broadcast : view_access::aligned;
  }
}

/// Plans the tiles or pixels of the first view that suits them, and marks all views.
/// @param all              the operands; the first is an output
/// @param vector           elements of a vector
/// @param gapped           bit k: operand k is an output with gaps
/// @param may_warp_stride  a thread's elements need not be neighbours
tile_selection select_view(view_candidate* views, int count, operand const* all, int operands,
                           unsigned vector, std::uint64_t gapped, bool may_warp_stride);

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/kernel/detail/views/view_definitions.hpp>
#endif
