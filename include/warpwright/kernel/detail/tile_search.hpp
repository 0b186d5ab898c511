// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Which view of an expression comes by tiles or pixels, and what becomes of the others: decided on
// the host, by code that is the same for all expressions.
#pragma once

#include <warpwright/kernel/detail/pixels.hpp>
#include <warpwright/kernel/detail/plan.hpp>
#include <warpwright/kernel/detail/tile_plan.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

/// A view of an expression, whatever its type.
struct found_view {
  axis* of = nullptr;
  int count = 0;
  int rank = 0;                                ///< axes there is room for
  bool fits = false;                           ///< its type does
  std::uintptr_t address = 0;                  ///< of its first element
  int operand = 0;                             ///< its place among the operands
  tile_way* way = nullptr;                     ///< receives how it goes
  bool follows = false;                        ///< its axes are those of the view that is brought
  std::int64_t strides[most_dimensions] = {};  ///< then along x, y and the batches
};

/// The tiles of an assignment, or the pixels in place of them.
struct tile_search {
  unsigned vector;  ///< elements of one of the output
  int at = 0;       ///< the view's place among the operands
  tile_job job{};
  pixel_job pixels{};
};

// Bit k: operand k can be moved by vectors from element 0 on. Bits of no operand are set.
constexpr std::uint64_t suited(operand const* all, int count, unsigned vector) {
  std::uint64_t wide = ~std::uint64_t{0};
  for (int k = 0; k < count; ++k) {
    if (!is_wide(all[k], 0, vector)) wide &= ~(std::uint64_t{1} << static_cast<unsigned>(k));
  }
  return wide;
}

// Whether all offsets take 31 bits, as axes::along() reckons.
constexpr bool is_near(axis const* of, int count) {
  std::uint64_t reach = 0;
  for (int k = 0; k < count; ++k) {
    std::int64_t const stride = of[k].stride < 0 ? -of[k].stride : of[k].stride;
    reach += (of[k].extent - 1) * static_cast<std::uint64_t>(stride);
  }
  return reach <= 0x7fffffffU;
}

// Finds for each view but `brought` whether its axes are those of the job, so that a kernel need
// not divide; answers whether they all are.
// @param usable  bit k: operand k can be loaded along them
inline bool find_followers(found_view* views, int count, found_view const& brought,
                           tile_job const& job, std::uint64_t usable) {
  bool all = true;
  for (found_view* v = views; v != views + count; ++v) {
    v->follows = v != &brought && v->fits && is_near(v->of, v->count) &&
                 (usable >> static_cast<unsigned>(v->operand) & 1U) != 0 &&
                 follow_axes(job, brought.of, v->of, v->count, v->rank, v->strides);
    all = all && (v == &brought || v->follows);
  }
  return all;
}
// @param repeats  a thread takes several elements at a time
inline void mark_followers(found_view* views, int count, bool repeats) {
  for (found_view* v = views; v != views + count; ++v) {
    if (!v->follows) continue;
    for (int k = 0; k < v->rank; ++k) v->of[k].stride = v->strides[k];
    *v->way = repeats && v->strides[0] == 0 ? tile_way::repeated : tile_way::along;
  }
}

/// Plans the tiles or pixels for the first view that they can bring, and marks the views.
/// @param all         the operands, of which `operands`; the first is an output
/// @param vector      elements of a vector
/// @param gapped      bit k: operand k is an output with gaps
/// @param may_spread  a thread's elements need not lie side by side
inline tile_search search_views(found_view* views, int count, operand const* all, int operands,
                                unsigned vector, std::uint64_t gapped, bool may_spread) {
  tile_search search{vector};
  if (gapped != 0 && (suited(all, operands, vector) & gapped) != gapped) search.vector = 1;
  std::uint64_t const wide = suited(all, operands, search.vector);
  std::uint64_t const any = ~std::uint64_t{0};
  tile_job& job = search.job;
  pixel_job& pixels = search.pixels;
  found_view* brought = views;
  for (; brought != views + count; ++brought) {
    if (!brought->fits) continue;
    job = make_tile_job(brought->of, brought->count, all[brought->operand].element_bytes,
                        all[0].element_bytes, brought->address, search.vector);
    job.wide = any;
    if (job.tiles == 0) continue;
    search.at = brought->operand;
    pixels = make_pixel_job(job, search.vector, may_spread);
    if (pixels.threads != 0 &&
        find_followers(views, count, *brought, job, pixels.vectors ? wide : any)) {
      *brought->way = tile_way::staged;
      mark_followers(views, count, pixels.vectors || pixels.spread);
      pixels.wide = pixels.vectors ? wide : any;
      return search;
    }
    pixels.threads = 0;
    if (!job.pixels_only) break;
    job.tiles = 0;
  }
  if (job.tiles == 0) return search;
  *brought->way = tile_way::staged;
  if (job.vectors) job.wide = wide;
  if (job.blocks || !job.vectors) {
    find_followers(views, count, *brought, job, job.vectors ? wide : any);
    mark_followers(views, count, job.vectors);
  }
  return search;
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
