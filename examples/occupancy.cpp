// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How many blocks of a kernel fit on a multiprocessor, what limits them, and which change helps; no
// GPU is needed. The figures of your kernel come from `nvcc --resource-usage`.
#include <warpwright/occupancy/occupancy.hpp>

#include <cstdio>

namespace ww = warpwright;

// 256 threads per block, 40 registers per thread, 18 KiB of shared memory per block.
constexpr auto kernel = ww::kernel_resources{}.threads(256).registers(40).shared_bytes(18 * 1024);

// A compile error if a change of the kernel lets fewer than 6 blocks fit on an H100.
static_assert(ww::occupancy(ww::arch::sm_90, kernel).blocks_per_multiprocessor >= 6,
              "the kernel outgrew its budget");

int main() {
  for (ww::arch const name : {ww::arch::sm_75, ww::arch::sm_80, ww::arch::sm_89, ww::arch::sm_90,
                              ww::arch::sm_100, ww::arch::sm_120}) {
    std::printf("%s\n", ww::explain(ww::occupancy(name, kernel)).c_str());
  }

  // Which block size is best for a kernel with 16 bytes of shared memory per thread?
  auto const best =
      ww::suggest_block_size(ww::architecture_of(ww::arch::sm_90), kernel.registers(32),
                             [](int threads) { return static_cast<std::size_t>(threads) * 16; });
  std::printf("best block size: %d threads (%s)\n", best.threads,
              ww::explain(best.occupancy).c_str());

  bool const right = ww::occupancy(ww::arch::sm_90, kernel).limited_by(ww::resource::registers) &&
                     best.threads == 128 && best.occupancy.fraction == 1.0;
  if (!right) std::fprintf(stderr, "wrong answer\n");
  return right ? 0 : 1;
}
