// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What is advised for more resident warps, and what is read of a build.
#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <warpwright/occupancy/ptxas.hpp>

#include <algorithm>
#include <random>

namespace {

namespace ww = warpwright;
using ww::arch;

constexpr ww::kernel_resources kernel = ww::kernel_resources{}.threads(256);

// "code: reason" of each, a line each.
std::string advice(ww::kernel_resources const& k, arch a = arch::sm_90) {
  std::string all;
  for (ww::occupancy_advice const& each : ww::advise(ww::occupancy(a, k))) {
    all += each.code + ": " + each.reason + "\n";
  }
  return all;
}

TEST_CASE("the cheapest change that helps is first, as code") {
  CHECK(advice(kernel.registers(40)) ==
        "__launch_bounds__(256, 8): registers 40 -> 32 gives 8 blocks instead of 6\n");
  CHECK(
      advice(kernel.registers(40).shared_bytes(40000)) ==
      "kernel<<<blocks, 384>>>: threads of a block 256 -> 384 with the same "
      "resources gives 48 warps instead of 40\n"
      "2112 B of shared memory fewer: shared memory 40000 -> 37888 gives 6 blocks instead of 5\n");
  CHECK(advice(kernel.threads(96).registers(168)) ==
        "__launch_bounds__(96, 5): registers 168 -> 128 gives 5 blocks instead of 4\n"
        "__launch_bounds__(96, 21): registers 168 -> 32 gives 21 blocks instead of 4\n");
  CHECK(
      advice(kernel.shared_bytes(16384).carveout_percent(10))
          .find("cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 71): "
                "carve-out percent 10 -> 71 gives 8 blocks instead of 1\n") == 0);
  CHECK(advice(kernel.barriers(16)).find("4 barriers fewer: barriers 16 -> 12 gives 5 blocks") !=
        std::string::npos);
  CHECK(advice(kernel).empty());
}

TEST_CASE("a kernel that cannot be launched is told how it can") {
  CHECK(advice(kernel.shared_bytes(60000).max_shared_bytes(49152)) ==
        "ww::allow_dynamic_shared_bytes(kernel, 60000 - static_bytes): shared memory of a block at "
        "most 49152 -> 60000 gives 3 blocks\n");
  CHECK(advice(kernel.threads(1024).registers(65))
            .find("__launch_bounds__(1024): registers 65 -> 64 gives 1 block\n") !=
        std::string::npos);
  CHECK(advice(kernel.threads(1025)).find("kernel<<<blocks, ") == 0);
  CHECK(advice(kernel.threads(2147483647)).find("kernel<<<blocks, 128>>>: ") == 0);
  CHECK(advice(kernel.shared_bytes(300000)) ==
        "67552 B of shared memory fewer: shared memory 300000 -> 232448 gives 1 block\n");
  CHECK(advice(kernel.barriers(17)) == "1 barrier fewer: barriers 17 -> 16 gives 4 blocks\n");
}

TEST_CASE("each advice gives what it says, for any kernel") {
  unsigned const seed = std::random_device{}();
  std::mt19937 random{seed};
  auto const draw = [&](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most));
  };
  constexpr arch archs[] = {arch::sm_60, arch::sm_75,  arch::sm_80, arch::sm_86,
                            arch::sm_90, arch::sm_100, arch::sm_120};
  for (int i = 0; i < test_support::rounds(20000); ++i) {
    ww::kernel_resources const k = ww::kernel_resources{}
                                       .threads(1 + draw(1100))
                                       .registers(draw(260))
                                       .shared_bytes(static_cast<std::size_t>(draw(240000)))
                                       .barriers(draw(17))
                                       .carveout_percent(draw(3) == 0 ? draw(101) : -1);
    ww::occupancy_result const before = ww::occupancy(archs[draw(7)], k);
    for (ww::occupancy_advice const& a : ww::advise(before)) {
      ww::occupancy_result const after = ww::occupancy(before.device, a.resources);
      bool const right = after.blocks_per_multiprocessor == a.occupancy.blocks_per_multiprocessor &&
                         after.warps_per_multiprocessor > before.warps_per_multiprocessor &&
                         !a.code.empty();
      // As many registers as those blocks allow.
      bool const takes = a.resources.registers() < k.registers();
      ww::kernel_resources const more = a.resources.registers(a.resources.registers() + 1);
      bool const least = !takes || ww::occupancy(before.device, more).blocks_per_multiprocessor <
                                       a.occupancy.blocks_per_multiprocessor;
      if (right && least) continue;
      CAPTURE(seed, i, a.code, a.reason, ww::explain(before));
      REQUIRE(right);
      REQUIRE(least);
    }
  }
}

TEST_CASE("waves, clusters and bytes in flight") {
  ww::occupancy_result const o = ww::occupancy(arch::sm_90, kernel.registers(40));
  ww::gpu_model const& gpu = ww::gpus::h100_sxm;
  ww::grid_fit const fit = ww::fit_grid(1000, o.blocks_per_multiprocessor, gpu.multiprocessors);
  CHECK(fit.waves == 2);  // of 6 * 132 blocks
  CHECK(fit.last_wave_filled == Approx(208.0 / 792.0));
  CHECK(fit.efficiency() == Approx(1000.0 / 1584.0));
  CHECK(ww::fit_grid(0, 6, 132).efficiency() == 0.0);
  CHECK(ww::fit_grid(792, 6, 132).efficiency() == 1.0);

  ww::occupancy_result const one = ww::occupancy(arch::sm_90, kernel.shared_bytes(200000));
  std::vector<int> const gpcs{16, 16, 16, 16, 16, 16, 18, 18};
  CHECK(ww::resident_clusters(one, 16, gpcs) == 8);
  CHECK(ww::resident_clusters(one, 2, gpcs) == 66);
  CHECK(ww::resident_clusters(o, 4, gpcs) == 6 * 24 + 2 * 27);
  CHECK_THROWS_WITH(ww::resident_clusters(o, 17, gpcs), contains("clusters of 17 blocks on sm_90"));
  CHECK(ww::resident_clusters(o, 1, {16, -1}) == 6 * 16);
  CHECK(ww::resident_clusters(o, 1, {2147483647}) == 2147483647);
  CHECK_THROWS_AS(ww::resident_clusters(ww::occupancy(arch::sm_80, kernel), 2, gpcs),
                  std::invalid_argument);

  ww::flight const f = ww::bytes_in_flight(o, gpu, 4.0, 3.2e12, 0.35e-6);
  CHECK(f.bytes == Approx(4.0 * 1536 * 132));
  CHECK(f.needed == Approx(1.12e6));
  CHECK(f.fraction() == Approx(f.bytes / 1.12e6));
  CHECK(f.needed_threads == Approx(1.12e6 / 4.0 / 132.0));
  CHECK(ww::bytes_in_flight(o, gpu, 16.0, 3.2e12, 0.35e-6).fraction() == 1.0);
  CHECK(ww::bytes_in_flight(o, gpu, -4.0, 3.2e12, 0.35e-6).fraction() == 0.0);
}

TEST_CASE("architectures side by side, and charts") {
  std::string const table = ww::compare_architectures(
      kernel.registers(64).shared_bytes(30000),
      {ww::architecture_of(arch::sm_61), ww::architecture_of(arch::sm_90)});
  CHECK(table.find("sm_61        3     24     37.5 %  shared memory\n") != std::string::npos);
  CHECK(table.find("sm_90        4     32       50 %  registers\n") != std::string::npos);
  CHECK(ww::compare_architectures(kernel.shared_bytes(60000), {ww::architecture_of(arch::sm_61)})
            .find("cannot run: 60000 bytes of shared memory") != std::string::npos);
  std::vector<ww::architecture> const rows{ww::architecture_of(arch::sm_90)};
  CHECK(ww::compare_architectures(kernel, rows).find("sm_90        8     64") != std::string::npos);
  std::string const svg = ww::to_svg(ww::occupancy(arch::sm_90, kernel.registers(40)), "a<b");
  CHECK(svg.find("a&lt;b") != std::string::npos);
  CHECK(svg.find("limited by registers") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  // Of 33 threads the curve rises where the point is.
  CHECK(ww::to_svg(ww::occupancy(arch::sm_90, kernel.threads(33))).find("L116.0 47.9") !=
        std::string::npos);
}

// With prefixes and trailing blanks, as build tools and editors add them.
constexpr char build_log[] =
    "[1/2] nvcc -c k.cu\r\n"
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function '_Z5spillPf' for 'sm_90a'\n"
    "ptxas info    : Function properties for _Z5spillPf \r\n"
    "#12 3.45     320 bytes stack frame, 116 bytes spill stores, 118 bytes spill loads \t\r\n"
    "ptxas info    : Function properties for helper\n"
    "    7 bytes stack frame, 7 bytes spill stores, 7 bytes spill loads\n"
    "ptxas info    : Used 64 registers, used 0 barriers, 320 bytes cumulative stack size\n"
    "ptxas info    : Compiling entry function '_Z4tileILi8EEvPf' for 'sm_80'\n"
    "ptxas info    : Used 26 registers, used 1 barriers, 8192 bytes smem, 360 bytes cmem[0]";

TEST_CASE("a build's kernels are read, and listed worst first") {
  auto const kernels = ww::parse_ptxas(build_log);
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].name == "_Z5spillPf");
  CHECK(kernels[0].device.major == 9);
  CHECK(kernels[0].resources.registers() == 64);
  CHECK(kernels[0].resources.barriers() == 0);
  CHECK(kernels[0].stack_bytes == 320);
  CHECK(kernels[0].spill_store_bytes == 116);
  CHECK(kernels[0].spill_load_bytes == 118);
  CHECK(kernels[1].resources.shared_bytes() == 8192);
  CHECK(ww::to_text({kernels[1], kernels[0]}, 256) ==
        "occupancy  arch    registers  shared B  spilled B  kernel, blocks of 256 threads\n"
        "     50 %  sm_90          64         0        234  spill\n"
        "    100 %  sm_80          26      8192          0  tile<8>\n");
  CHECK(ww::to_text({kernels[1]}, 1024, 200000).find("cannot run: 208192 bytes") !=
        std::string::npos);
}

// As nvcc 13.0 -rdc=true -Xptxas -v -Xnvlink -v prints it.
TEST_CASE("figures of linking count, where code is relocatable") {
  std::string const compiled =
      "ptxas info    : Compiling entry function '_Z1kPf' for 'sm_80'\n"
      "ptxas info    : Used 24 registers, used 1 barriers, 360 bytes cmem[0]\n"
      "ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90a'\n"
      "ptxas info    : Used 24 registers, used 1 barriers\n"
      "nvlink info    : 0 bytes gmem\n";
  std::string linked =
      "nvlink info    : Function properties for '_Z1kPf': (target: sm_90a)\n"
      "nvlink info    : used 126 registers, used 2 barriers, 0 stack, 1280 bytes smem, 536 bytes "
      "cmem[0], 0 bytes lmem (target: sm_90a)\n";
  auto kernels = ww::parse_ptxas(compiled + linked);
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].resources.registers() == 24);
  CHECK(kernels[1].resources.registers() == 126);
  CHECK(kernels[1].resources.shared_bytes() == 256);  // without the reserved 1,024
  for (int i = 0; i < 2; ++i) linked.erase(linked.find(" (target: sm_90a)"), 17);
  kernels = ww::parse_ptxas(compiled + linked);
  CHECK(kernels[0].resources.registers() == 126);
  CHECK(kernels[0].resources.shared_bytes() == 1280);
}

TEST_CASE("a kernel of several files is listed once, and none needs more threads than given") {
  auto kernels = ww::parse_ptxas(build_log);
  kernels.push_back(kernels[1]);
  kernels.push_back(kernels[1]);
  kernels.back().name = "_ZN1a4tileILi8EEEvPf";
  std::string const text = ww::to_text(kernels, 32);
  CHECK(std::count(text.begin(), text.end(), '\n') == 6);  // two have advice
  CHECK(text.find("void tile<8>(float*)\n") != std::string::npos);
  CHECK(text.find("void a::tile<8>(float*)\n") != std::string::npos);
  CHECK(text.find("<<<") == std::string::npos);
  CHECK(ww::to_text(kernels, 256, static_cast<std::size_t>(-1)).find("cannot run: 92") !=
        std::string::npos);
}

TEST_CASE("what is no log of ptxas is refused with the line") {
  std::string const text = build_log;
  auto const refused = [](std::string const& bad, char const* part) {
    CHECK_THROWS_WITH(ww::parse_ptxas(bad), contains(part));
  };
  refused("", "compile with nvcc -Xptxas -v");
  refused("root:x:0:0\n", "there is no line 'Compiling entry function");
  refused(text.substr(0, text.find("ptxas info    : Used 26")),
          "for '_Z4tileILi8EEvPf': is the log");
  std::string changed = text;
  refused(changed.erase(text.find("ptxas info    : Used 64"), 20), "for '_Z5spillPf': is the log");
  changed = text;
  refused(changed.replace(changed.find("Used 64"), 7, "Used xx"),
          "line 8 is not as ptxas writes it");
  changed = text;
  refused(changed.replace(changed.find("sm_80"), 5, "sm_52"), "line 9: sm_52 is not in the table");
  changed = text;
  refused(changed.replace(changed.find("Used 64 registers, "), 19, "Used "), "is not as ptxas");
  std::size_t const smem = text.find("8192 bytes smem");
  for (std::size_t cut : {smem + 2, smem + 7, smem + 14, text.size() - 4, text.size() - 1}) {
    refused(text.substr(0, cut), "line 10 is not as ptxas writes it");
  }
  // No text may do more than throw.
  unsigned const seed = std::random_device{}();
  std::mt19937 random{seed};
  CAPTURE(seed);
  for (int i = 0; i < test_support::rounds(2000); ++i) {
    std::string fuzzed = text;
    for (int k = 0; k < 8; ++k) fuzzed[random() % fuzzed.size()] = static_cast<char>(random());
    try {
      static_cast<void>(ww::to_text(ww::parse_ptxas(fuzzed)));
    } catch (std::invalid_argument const&) {
    }
  }
}

}  // namespace
