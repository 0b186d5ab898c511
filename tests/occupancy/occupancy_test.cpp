// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The calculator compared with the toolkit's cuda_occupancy.h over a dense sweep; and the
// functions that the header does not have. No GPU is needed.
#include <warpwright/occupancy/occupancy.hpp>

#include <cuda_occupancy.h>

#include <initializer_list>
#include <stdexcept>
#include <string>

#include "support/catch.hpp"

namespace ww = warpwright;

namespace {

// Static assertions, as a user writes them next to a kernel.
constexpr auto hopper =
    ww::occupancy(ww::arch::sm_90, ww::kernel_resources{}.threads(256).registers(40));
static_assert(hopper.blocks_per_multiprocessor == 6, "");
static_assert(hopper.warps_per_multiprocessor == 48, "");
static_assert(hopper.fraction > 0.749 && hopper.fraction < 0.751, "");
static_assert(hopper.limited_by(ww::resource::registers), "");
static_assert(!hopper.limited_by(ww::resource::warps), "");
static_assert(hopper.block_limit_shared_memory == 228, "1 KiB of reserve a block");
static_assert(ww::smallest_fix(hopper).resources.registers() == 32, "");
static_assert(ww::smallest_fix(hopper).occupancy.blocks_per_multiprocessor == 8, "");
static_assert(ww::occupancy(ww::arch::sm_75, ww::kernel_resources{}.threads(1024).registers(64))
                      .fraction == 1.0,
              "");
static_assert(ww::occupancy(ww::arch::sm_86, ww::kernel_resources{}.threads(1024).registers(32))
                      .blocks_per_multiprocessor == 1,
              "48 warps hold one block of 32");
static_assert(ww::suggest_block_size(ww::arch::sm_90, ww::kernel_resources{}).threads == 128, "");
static_assert(ww::find_architecture(10, 7) == nullptr, "not guessed");
static_assert(ww::architecture_of(ww::arch::sm_101).max_warps_per_multiprocessor == 48, "");

constexpr ww::arch known[] = {
    ww::arch::sm_60,  ww::arch::sm_61,  ww::arch::sm_62,  ww::arch::sm_70,  ww::arch::sm_72,
    ww::arch::sm_75,  ww::arch::sm_80,  ww::arch::sm_86,  ww::arch::sm_87,  ww::arch::sm_88,
    ww::arch::sm_89,  ww::arch::sm_90,  ww::arch::sm_100, ww::arch::sm_101, ww::arch::sm_103,
    ww::arch::sm_110, ww::arch::sm_120, ww::arch::sm_121};

cudaOccDeviceProp header_device(ww::architecture const& a) {
  cudaOccDeviceProp p;
  p.computeMajor = a.major;
  p.computeMinor = a.minor;
  p.maxThreadsPerBlock = a.max_threads_per_block;
  p.maxThreadsPerMultiprocessor = a.max_warps_per_multiprocessor * a.warp_size;
  p.regsPerBlock = a.max_registers_per_block;
  p.regsPerMultiprocessor = a.registers_per_multiprocessor;
  p.warpSize = a.warp_size;
  p.sharedMemPerBlock = a.shared_bytes_per_block;
  p.sharedMemPerMultiprocessor = a.shared_bytes_per_multiprocessor;
  p.numSms = 1;
  p.sharedMemPerBlockOptin = a.shared_bytes_per_block_optin;
  p.reservedSharedMemPerBlock = a.reserved_shared_bytes_per_block;
  return p;
}

cudaOccFuncAttributes header_kernel(ww::kernel_resources const& k) {
  cudaOccFuncAttributes f;
  f.maxThreadsPerBlock = k.max_threads();
  f.numRegs = k.registers();
  f.sharedSizeBytes = 0;
  f.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  // Large enough that the header uses the opt-in limit as the limit of a block.
  f.maxDynamicSharedSizeBytes = 1u << 30;
  f.numBlockBarriers = k.barriers();
  return f;
}

cudaOccResult header_answer(ww::architecture const& a, ww::kernel_resources const& k) {
  cudaOccDeviceProp const device = header_device(a);
  cudaOccFuncAttributes const kernel = header_kernel(k);
  cudaOccDeviceState state;
  state.carveoutConfig = k.carveout_percent();
  cudaOccResult result{};
  cudaOccError const status = cudaOccMaxActiveBlocksPerMultiprocessor(
      &result, &device, &kernel, &state, k.threads(), k.shared_bytes());
  if (status != CUDA_OCC_SUCCESS) throw std::runtime_error("cuda_occupancy.h refused the input");
  return result;
}

// The header's flags, corrected: they are wrong when barriers limit (it does not clear the flags
// that it set before it computed the barriers' limit).
unsigned header_limiters(cudaOccResult const& r) {
  int const blocks = r.activeBlocksPerMultiprocessor;
  return (r.blockLimitWarps == blocks ? 1u : 0u) | (r.blockLimitBlocks == blocks ? 2u : 0u) |
         (r.blockLimitRegs == blocks ? 4u : 0u) | (r.blockLimitSharedMem == blocks ? 8u : 0u) |
         (r.blockLimitBarriers == blocks ? 16u : 0u);
}

std::string describe(ww::architecture const& a, ww::kernel_resources const& k) {
  return ww::to_string(a) + " threads " + std::to_string(k.threads()) + " registers " +
         std::to_string(k.registers()) + " shared " + std::to_string(k.shared_bytes()) +
         " barriers " + std::to_string(k.barriers()) + " carve-out " +
         std::to_string(k.carveout_percent());
}

// One comparison; empty if both agree. (An assertion per point takes minutes.)
std::string differs(ww::architecture const& a, ww::kernel_resources const& k) {
  ww::occupancy_result const ours = ww::occupancy(a, k);
  cudaOccResult const theirs = header_answer(a, k);
  bool same = ours.blocks_per_multiprocessor == theirs.activeBlocksPerMultiprocessor;
  if (same && ours.blocks_per_multiprocessor > 0) {
    same = ours.limiters == header_limiters(theirs) &&
           ours.block_limit_registers == theirs.blockLimitRegs &&
           ours.block_limit_shared_memory == theirs.blockLimitSharedMem &&
           ours.block_limit_warps == theirs.blockLimitWarps &&
           ours.block_limit_blocks == theirs.blockLimitBlocks &&
           ours.block_limit_barriers == theirs.blockLimitBarriers &&
           ours.registers_per_block == theirs.allocatedRegistersPerBlock &&
           ours.shared_bytes_per_block == theirs.allocatedSharedMemPerBlock;
  }
  if (same) return {};
  return describe(a, k) + ": ours " + std::to_string(ours.blocks_per_multiprocessor) +
         " blocks, limiters " + std::to_string(ours.limiters) + "; header " +
         std::to_string(theirs.activeBlocksPerMultiprocessor) + ", binding " +
         std::to_string(header_limiters(theirs));
}

}  // namespace

TEST_CASE("the solver agrees with cuda_occupancy.h over a dense sweep", "[tune][occupancy]") {
  // Not compared, as errors of the 13.0 header: 256 registers (it accepts them, an instruction can
  // name 255), more than 16 barriers per block (it does not check), unknown minors (it rejects them
  // late).
  std::string first_difference;
  long long points = 0;
  for (ww::arch const name : known) {
    ww::architecture const a = ww::architecture_of(name);
    for (int threads = 1; threads <= 1056; threads += threads < 200 ? 13 : 31) {
      for (int registers = 0; registers <= 255; registers += 3) {
        for (std::size_t const shared :
             {std::size_t{0}, std::size_t{1}, std::size_t{1024}, std::size_t{5000},
              std::size_t{16384}, std::size_t{49152}, std::size_t{49153}, std::size_t{65536},
              std::size_t{100000}, std::size_t{166912}, std::size_t{232448}, std::size_t{232449}}) {
          std::string const difference = differs(
              a, ww::kernel_resources{}.threads(threads).registers(registers).shared_bytes(shared));
          ++points;
          if (first_difference.empty()) first_difference = difference;
        }
      }
    }
  }
  CAPTURE(points);
  CHECK(points > 500000);
  CHECK(first_difference == "");
}

TEST_CASE("shared memory agrees with cuda_occupancy.h for every carve-out", "[tune][occupancy]") {
  std::string first_difference;
  for (ww::arch const name : known) {
    ww::architecture const a = ww::architecture_of(name);
    for (int percent = -1; percent <= 100; ++percent) {
      for (std::size_t shared = 0; shared <= a.shared_bytes_per_block_optin + 300; shared += 509) {
        std::string const difference = differs(
            a, ww::kernel_resources{}.threads(64).shared_bytes(shared).carveout_percent(percent));
        if (first_difference.empty()) first_difference = difference;
      }
    }
  }
  CHECK(first_difference == "");
}

TEST_CASE("barriers agree with cuda_occupancy.h", "[tune][occupancy]") {
  std::string first_difference;
  for (ww::arch const name : known) {
    for (int barriers = 0; barriers <= 16; ++barriers) {
      for (int const threads : {32, 96, 256, 1024}) {
        std::string const difference = differs(
            ww::architecture_of(name), ww::kernel_resources{}.threads(threads).barriers(barriers));
        if (first_difference.empty()) first_difference = difference;
      }
    }
  }
  CHECK(first_difference == "");

  // The header's own flags include warps here (limit 12); the only limiter is barriers.
  auto const o = ww::occupancy(ww::arch::sm_120, ww::kernel_resources{}.threads(128).barriers(3));
  CHECK(o.blocks_per_multiprocessor == 8);
  CHECK(o.limiters == static_cast<unsigned>(ww::resource::barriers));
}

TEST_CASE("the suggested block size reaches the header's best occupancy", "[tune][occupancy]") {
  for (ww::arch const name : known) {
    ww::architecture const a = ww::architecture_of(name);
    for (int registers = 16; registers <= 255; registers += 13) {
      for (std::size_t const shared : {std::size_t{0}, std::size_t{4096}, std::size_t{40000}}) {
        for (int const max_threads : {1024, 768, 200, 96}) {
          auto const k =
              ww::kernel_resources{}.registers(registers).shared_bytes(shared).max_threads(
                  max_threads);
          cudaOccDeviceProp const device = header_device(a);
          cudaOccFuncAttributes const kernel = header_kernel(k);
          cudaOccDeviceState const state;
          int grid = 0;
          int block = 0;
          REQUIRE(cudaOccMaxPotentialOccupancyBlockSize(&grid, &block, &device, &kernel, &state,
                                                        shared) == CUDA_OCC_SUCCESS);
          auto const theirs = ww::occupancy(a, k.threads(block));
          auto const ours = ww::suggest_block_size(a, k);
          INFO(describe(a, k) << " max " << max_threads << ": header " << block << ", ours "
                              << ours.threads);
          REQUIRE(ours.occupancy.warps_per_multiprocessor >= theirs.warps_per_multiprocessor);
          REQUIRE(ours.threads <= max_threads);
        }
      }
    }
  }
}

TEST_CASE("shared memory may depend on the block size", "[tune][occupancy]") {
  constexpr auto per_thread = [](int threads) { return static_cast<std::size_t>(threads) * 64; };
  constexpr auto best = ww::suggest_block_size(ww::architecture_of(ww::arch::sm_80),
                                               ww::kernel_resources{}, per_thread);
  // 64 bytes per thread and 1 KiB per block: fewer, larger blocks waste less of the 164 KiB.
  CHECK(best.occupancy.resources.shared_bytes() == static_cast<std::size_t>(best.threads) * 64);
  for (int threads = 32; threads <= 1024; threads += 32) {
    auto const o = ww::occupancy(
        ww::arch::sm_80, ww::kernel_resources{}.threads(threads).shared_bytes(per_thread(threads)));
    CHECK(o.warps_per_multiprocessor <= best.occupancy.warps_per_multiprocessor);
  }
}

TEST_CASE("a kernel that does not fit is a result with a reason", "[tune][occupancy]") {
  struct {
    ww::kernel_resources k;
    ww::launch_problem problem;
    char const* text;
  } const cases[] = {
      {ww::kernel_resources{}.threads(1025), ww::launch_problem::threads_over_limit,
       "1025 threads per block, the limit is 1024"},
      {ww::kernel_resources{}.threads((std::numeric_limits<int>::max)()),
       ww::launch_problem::threads_over_limit, "2147483647 threads per block, the limit is 1024"},
      {ww::kernel_resources{}.threads(513).max_threads(512), ww::launch_problem::threads_over_limit,
       "513 threads per block, the limit is 512"},
      {ww::kernel_resources{}.registers(256), ww::launch_problem::registers_over_limit,
       "256 registers per thread, the limit is 255"},
      {ww::kernel_resources{}.threads(1024).registers(65),
       ww::launch_problem::block_registers_over_limit, "64 per thread fit"},
      {ww::kernel_resources{}.shared_bytes(232449), ww::launch_problem::shared_memory_over_limit,
       "the limit is 232448"},
      {ww::kernel_resources{}.shared_bytes(50000).max_shared_bytes(49152),
       ww::launch_problem::shared_memory_not_opted_in, "cudaFuncSetAttribute"},
      {ww::kernel_resources{}.barriers(17), ww::launch_problem::barriers_over_limit,
       "17 barriers per block, the limit is 16"},
  };
  for (auto const& c : cases) {
    auto const o = ww::occupancy(ww::arch::sm_90, c.k);
    CHECK(o.problem == c.problem);
    CHECK(o.blocks_per_multiprocessor == 0);
    CHECK(o.fraction == 0.0);
    CHECK(o.limiters == 0);
    CHECK_FALSE(ww::smallest_fix(o).found);
    std::string const text = ww::explain(o);
    INFO(text);
    CHECK(text.find("sm_90: cannot run: ") == 0);
    CHECK(text.find(c.text) != std::string::npos);
  }
  // The architecture's maximum can be launched.
  CHECK(ww::occupancy(ww::arch::sm_90, ww::kernel_resources{}.shared_bytes(232448))
            .blocks_per_multiprocessor == 1);
  CHECK(ww::occupancy(ww::arch::sm_90, ww::kernel_resources{}.shared_bytes(49153))
            .needs_shared_memory_opt_in());
  CHECK_FALSE(ww::occupancy(ww::arch::sm_90, ww::kernel_resources{}.shared_bytes(49152))
                  .needs_shared_memory_opt_in());
}

TEST_CASE("invalid resources throw", "[tune][occupancy]") {
  ww::kernel_resources const k{};
  CHECK_THROWS_AS(ww::occupancy(ww::arch::sm_90, k.threads(0)), std::invalid_argument);
  CHECK_THROWS_AS(ww::occupancy(ww::arch::sm_90, k.threads(-32)), std::invalid_argument);
  CHECK_THROWS_AS(ww::occupancy(ww::arch::sm_90, k.registers(-1)), std::invalid_argument);
  CHECK_THROWS_AS(ww::occupancy(ww::arch::sm_90, k.barriers(-1)), std::invalid_argument);
  CHECK_THROWS_AS(ww::occupancy(ww::arch::sm_90, k.carveout_percent(-2)), std::invalid_argument);
  CHECK_THROWS_AS(ww::occupancy(ww::arch::sm_90, k.carveout_percent(101)), std::invalid_argument);
  CHECK_THROWS_AS(ww::occupancy(ww::arch::sm_90, k.max_threads(0)), std::invalid_argument);
  CHECK_THROWS_WITH(ww::occupancy(ww::arch::sm_90, k.threads(0)),
                    contains("threads 0 (at least 1)"));
}

TEST_CASE("an unknown compute capability throws", "[tune][occupancy]") {
  CHECK_THROWS_AS(ww::architecture_of(10, 7), std::invalid_argument);
  CHECK_THROWS_AS(ww::architecture_of(5, 2), std::invalid_argument);
  CHECK_THROWS_AS(ww::occupancy(static_cast<ww::arch>(130), {}), std::invalid_argument);
  CHECK_THROWS_WITH(ww::architecture_of(10, 7), contains("compute capability 10.7"));
  CHECK(ww::find_architecture(9, 1) == nullptr);
  CHECK(ww::find_architecture(9, 0) != nullptr);

  // A row changed by the user is used unchanged.
  ww::architecture mine = ww::architecture_of(ww::arch::sm_90);
  mine.minor = 7;
  mine.max_warps_per_multiprocessor = 32;
  CHECK(ww::occupancy(mine, ww::kernel_resources{}.threads(256)).blocks_per_multiprocessor == 4);
  CHECK(ww::explain(ww::occupancy(mine, ww::kernel_resources{})).find("sm_97: 100 %") == 0);
}

TEST_CASE("the maximum registers and shared memory for a number of blocks are exact",
          "[tune][occupancy]") {
  // Not compared with cudaOccAvailableDynamicSMemPerBlock: the 13.0 header ignores the reserve of
  // each block (sm_90, 2 blocks: it returns 116,736 bytes, with which 1 block fits).
  for (ww::arch const name : known) {
    ww::architecture const a = ww::architecture_of(name);
    for (int const threads : {32, 96, 128, 256, 640, 1024}) {
      for (int blocks = 1; blocks <= 34; ++blocks) {
        for (int const percent : {-1, 0, 50}) {
          auto const k =
              ww::kernel_resources{}.threads(threads).registers(8).barriers(0).carveout_percent(
                  percent);
          int const possible = ww::occupancy(a, k).blocks_per_multiprocessor;
          INFO(describe(a, k) << " blocks " << blocks);
          int const registers = ww::max_registers_per_thread(a, k, blocks);
          if (registers > 0) {
            auto const o = ww::occupancy(a, k.registers(registers).carveout_percent(-1));
            REQUIRE((o.block_limit_registers >= blocks && o.problem == ww::launch_problem::none));
            if (registers < 255) {
              auto const more = ww::occupancy(a, k.registers(registers + 1));
              REQUIRE((more.block_limit_registers < blocks ||
                       more.problem != ww::launch_problem::none));
            }
          } else {
            REQUIRE(possible < blocks);
          }
          std::size_t bytes = 0;
          if (ww::max_shared_bytes_per_block(a, k, blocks, bytes)) {
            REQUIRE(ww::occupancy(a, k.shared_bytes(bytes)).block_limit_shared_memory >= blocks);
            auto const more = ww::occupancy(a, k.shared_bytes(bytes + 1));
            bool const at_most = bytes == a.shared_bytes_per_block_optin;
            REQUIRE((more.block_limit_shared_memory < blocks || at_most));
            REQUIRE((!at_most || more.problem == ww::launch_problem::shared_memory_over_limit));
          } else {
            REQUIRE(possible < blocks);
          }
        }
      }
    }
  }
  std::size_t bytes = 0;
  REQUIRE(ww::max_shared_bytes_per_block(ww::architecture_of(ww::arch::sm_90),
                                         ww::kernel_resources{}, 2, bytes));
  CHECK(bytes == 115712);
}

TEST_CASE("a fix has the effect that it promises and is minimal", "[tune][occupancy]") {
  long long found = 0;
  for (ww::arch const name : known) {
    ww::architecture const a = ww::architecture_of(name);
    for (int const threads : {32, 64, 128, 192, 256, 512, 1024}) {
      for (int registers = 16; registers <= 255; registers += 7) {
        for (std::size_t const shared : {std::size_t{0}, std::size_t{3000}, std::size_t{20000}}) {
          auto const o = ww::occupancy(
              a, ww::kernel_resources{}.threads(threads).registers(registers).shared_bytes(shared));
          ww::occupancy_fix const fix = ww::smallest_fix(o);
          if (!fix.found) continue;
          ++found;
          INFO(ww::explain(o));
          REQUIRE(fix.occupancy.blocks_per_multiprocessor > o.blocks_per_multiprocessor);
          REQUIRE(fix.resources.threads() == threads);
          if (!o.limited_by(ww::resource::registers))
            REQUIRE(fix.resources.registers() == registers);
          if (!o.limited_by(ww::resource::shared_memory)) {
            REQUIRE(fix.resources.shared_bytes() == shared);
          }
          if (fix.resources.registers() < registers) {
            auto const less =
                ww::occupancy(a, fix.resources.registers(fix.resources.registers() + 1));
            REQUIRE(less.blocks_per_multiprocessor <= o.blocks_per_multiprocessor);
          }
          if (fix.resources.shared_bytes() < shared) {
            auto const less =
                ww::occupancy(a, fix.resources.shared_bytes(fix.resources.shared_bytes() + 1));
            REQUIRE(less.blocks_per_multiprocessor <= o.blocks_per_multiprocessor);
          }
        }
      }
    }
  }
  CHECK(found > 1000);
}

TEST_CASE("the smallest carve-out keeps all blocks resident", "[tune][occupancy]") {
  for (ww::arch const name : known) {
    ww::architecture const a = ww::architecture_of(name);
    for (int const threads : {32, 128, 1024}) {
      for (std::size_t shared = 0; shared <= a.shared_bytes_per_block_optin; shared += 3001) {
        auto const k = ww::kernel_resources{}.threads(threads).shared_bytes(shared);
        auto const o = ww::occupancy(a, k);
        int const percent = ww::smallest_carveout_percent(o);
        auto const kept = ww::occupancy(a, k.carveout_percent(percent));
        INFO(describe(a, k) << " percent " << percent);
        REQUIRE(kept.blocks_per_multiprocessor == o.blocks_per_multiprocessor);
        REQUIRE(kept.shared_bytes_per_multiprocessor <= o.shared_bytes_per_multiprocessor);
        REQUIRE((percent >= 0 && percent <= 100));
      }
    }
  }
}

TEST_CASE("an occupancy is explained as text", "[tune][occupancy]") {
  CHECK(ww::explain(hopper) ==
        "sm_90: 75 % (6 blocks of 256 threads, 48 of 64 warps), limited by registers: 40 -> 32 "
        "gives 8 blocks instead of 6: __launch_bounds__(256, 8)");
  ww::kernel_resources const k{};
  CHECK(ww::explain(ww::occupancy(ww::arch::sm_90, k)) ==
        "sm_90: 100 % (8 blocks of 256 threads, 64 of 64 warps), nothing limits it");
  CHECK(ww::explain(ww::occupancy(ww::arch::sm_90, k.threads(32))) ==
        "sm_90: 50 % (32 blocks of 32 threads, 32 of 64 warps), limited by block slots: a block of "
        "128 threads with the same resources gives 64 warps instead of 32");
  CHECK(
      ww::explain(ww::occupancy(ww::arch::sm_90, k.threads(128).shared_bytes(30000))) ==
      "sm_90: 43.8 % (7 blocks of 128 threads, 28 of 64 warps), limited by shared memory: a block "
      "of 512 threads with the same resources gives 64 warps instead of 28; or 30000 -> 28160 "
      "bytes gives 8 blocks instead of 7");
  CHECK(
      ww::explain(ww::occupancy(ww::arch::sm_90, k.shared_bytes(16384).carveout_percent(10))) ==
      "sm_90: 12.5 % (1 block of 256 threads, 8 of 64 warps), limited by shared memory: carve-out "
      "percent 10 -> 71 gives 8 blocks instead of 1; or a block of 1024 threads with the same "
      "resources gives 32 warps instead of 8; or 16384 -> 15360 bytes gives 2 blocks instead of "
      "1");
  CHECK(ww::explain(
            ww::occupancy(ww::arch::sm_90, k.threads(1024).registers(40).shared_bytes(116000))) ==
        "sm_90: 50 % (1 block of 1024 threads, 32 of 64 warps), limited by registers and shared "
        "memory: registers 40 -> 32 with shared memory 116000 -> 115712 bytes gives 2 blocks "
        "instead of 1: __launch_bounds__(1024, 2)");
}
