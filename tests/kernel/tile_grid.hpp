// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The work of a kernel of tiles or pixels, thread by thread on the host.
#pragma once

#include <warpwright/kernel/views.hpp>

#include "kernel/grid.hpp"
#include "support/catch.hpp"

namespace kernel_test {

// Whether there were tiles.
template <class... A>
bool run_tile_grid(A const&... a) {
  using fused = ew::detail::fused<A...>;
  ew::detail::operand all[fused::operands];
  fused::template describe<fused::vector>(all, warpwright::source_location::current(), a...);
  fused f{a...};
  ew::detail::tile_search const search = ew::detail::search_tiles(f, all);
  ew::detail::tile_job const& job = search.job;
  if (job.tiles == 0) return false;
  if (search.pixels.threads != 0) {
    for (unsigned t = 0; t < search.pixels.threads; ++t) {
      ew::detail::pixel_work<fused>::run(f, search.pixels, t);
    }
    return true;
  }
  alignas(16) unsigned char memory[ew::detail::tile_memory_bytes + 64];
  for (unsigned b = 0; b < job.tiles; ++b) {
    std::memset(memory, 0xee, sizeof memory);
    ew::detail::tile_block const here = job.block(b);
    for (unsigned t = 0; t < ew::detail::tile_threads; ++t) {
      job.template stage<ew::detail::write_tile<fused>::views::least_alignment>(here, memory, t);
    }
    for (unsigned t = 0; t < ew::detail::tile_threads; ++t) {
      job.template each_vector<fused::vector>(here, memory, t,
                                              ew::detail::write_tile<fused>{f, job.wide});
    }
    for (unsigned k = 0; k < 64; ++k) {
      REQUIRE(memory[ew::detail::tile_memory_bytes + k] == 0xee);
    }
  }
  return true;
}

}  // namespace kernel_test
