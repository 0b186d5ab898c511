// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "occupancy/configurations.hpp"
#include "support/catch.hpp"

#include <warpwright/occupancy/occupancy.hpp>

#include <fstream>
#include <string>

namespace ww = warpwright;

// On an H100 80GB HBM3, driver 580.159.04, CUDA 13.0, 2026-11-27.
TEST_CASE("100,000 launches have the blocks that the runtime counts on an H100") {
  std::ifstream file{WARPWRIGHT_H100_BLOCKS};
  ww::kernel_resources kernels[configurations::kernels];
  for (ww::kernel_resources& k : kernels) {
    int registers = 0, threads = 0;
    std::size_t shared = 0;
    file >> registers >> shared >> threads;
    k = k.registers(registers).shared_bytes(shared).max_threads(threads);
  }
  std::string blocks, line;
  while (file >> line) blocks += line;
  REQUIRE(blocks.size() == configurations::count);
  int wrong = 0, most = 0;
  for (int i = 0; i < configurations::count; ++i) {
    configurations::launch const l = configurations::at(static_cast<std::uint64_t>(i));
    ww::kernel_resources const& k = kernels[l.kernel];
    ww::occupancy_result const o =
        ww::occupancy(ww::arch::sm_90, k.threads(l.threads)
                                           .shared_bytes(k.shared_bytes() + l.dynamic_bytes)
                                           .carveout_percent(l.carveout));
    if (o.blocks_per_multiprocessor > most) most = o.blocks_per_multiprocessor;
    char const counted = blocks[static_cast<std::size_t>(i)];
    if (configurations::digit(o.blocks_per_multiprocessor) == counted) continue;
    if (++wrong > 5) continue;
    CAPTURE(i, l.kernel, l.threads, l.dynamic_bytes, l.carveout, counted, ww::explain(o));
    CHECK(false);
  }
  CHECK(wrong == 0);
  CHECK(most == 32);
}
