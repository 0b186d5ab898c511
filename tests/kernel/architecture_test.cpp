// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a plan says of a GPU that need not be here, and what is read of one that is.
#include <warpwright/core/device.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/explain.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include "kernel/support.hpp"
#include "support/catch.hpp"

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ew = warpwright::ew;
namespace ww = warpwright;

namespace {

template <class T>
T* at(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

ew::kernel_plan triad(std::size_t n, ew::architecture const& gpu) {
  return ew::plan(ew::out(at<float>(0x30000000000), n) =
                      ew::in(at<float>(0x10000000000), n) * 2 + ew::in(at<float>(0x20000000000), n),
                  gpu);
}

// A GPU of two multiprocessors with room for 1,024 threads in 16 blocks each.
constexpr ew::architecture small{"a small one", 9, 0, 2, 1024, 16, 1e9, 0, 1e-6, 1U << 20U};

}  // namespace

TEST_CASE("waves, as threads and blocks decide them") {
  constexpr ew::grid_fit full = ew::fit_grid(8, 256, small);
  static_assert(full.resident_blocks == 4, "1,024 / 256");
  static_assert(full.waves == 1, "two multiprocessors");
  CHECK(full.last_wave_filled == 1.0);
  CHECK(ew::fit_grid(9, 256, small).waves == 2);
  CHECK(ew::fit_grid(9, 256, small).last_wave_filled == 0.125);
  CHECK(ew::fit_grid(32, 32, small).resident_blocks == 16);  // the blocks run out first
  CHECK(ew::fit_grid(32, 32, small).waves == 1);
  CHECK(ew::fit_grid(0, 256, small).waves == 0);
  CHECK(ew::fit_grid(std::uint64_t{1} << 40U, 256, small).waves == std::uint64_t{1} << 37U);
}

TEST_CASE("a plan on a GPU: waves, bytes in flight and time") {
  ew::kernel_plan const p = triad(std::size_t{1} << 20U, ew::gpus::h100_sxm);
  CHECK(p.fit().resident_blocks == 8);
  CHECK(p.fit().waves == 1);
  CHECK(p.fit().last_wave_filled == 1024.0 / 1056.0);
  CHECK(p.bytes_in_flight_per_thread() == 32);
  CHECK(p.bytes_in_flight() == p.bytes_read());  // all of it at once
  CHECK(p.bound() == ew::time_bound::memory);
  CHECK(p.expected_seconds() == p.seconds(3e12));
  CHECK(p.explain() ==
        "1048576 elements in one kernel: 1024 blocks of 256 threads, 1 vector of 4 elements a "
        "thread, 32-bit indices; reads 8388608 bytes, writes 4194304; outputs apart from what is "
        "read\non H100 SXM, 132 multiprocessors with room for 8 such blocks each: 1 wave, 96 % "
        "full; 62 KiB of loads under way on each\nabout 4.2 us: memory, 12582912 bytes at 3000 "
        "GB/s, unless they are found in its 50 MiB of L2");
  ew::kernel_plan const large = triad(std::size_t{1} << 28U, ew::gpus::a100_sxm_80gb);
  CHECK(large.bytes_in_flight() == 108 * std::uint64_t{65536});
  std::string const words = large.explain();
  CHECK(words.find("on A100 SXM 80GB, 108 multiprocessors with room for 8 such blocks each: 304 "
                   "waves, the last 40 % full; 64 KiB of loads") != words.npos);
  CHECK(words.find("at least 1.6 ms: memory, 3221225472 bytes at the peak of 2039 GB/s") +
            std::string{"at least 1.6 ms: memory, 3221225472 bytes at the peak of 2039 GB/s"}
                .size() ==
        words.size());
}

TEST_CASE("what is launched is the same on every GPU below 10.0") {
  auto const blocks = [](ew::kernel_plan const& p) {
    return std::vector<std::uint64_t>{p.blocks(), p.threads(),
                                      static_cast<std::uint64_t>(p.vector_elements()),
                                      static_cast<std::uint64_t>(p.vectors_per_thread())};
  };
  for (std::size_t n : {1U, 1000U, 1000000U}) {
    std::vector<std::uint64_t> const here = blocks(triad(n, small));
    for (ew::architecture const& gpu :
         {ew::gpus::h100_sxm, ew::gpus::a100_sxm_80gb, ew::gpus::a100_sxm_40gb, ew::gpus::l4,
          ew::gpus::l40s, ew::gpus::t4, ew::gpus::v100_sxm2}) {
      CAPTURE(n, gpu.name);
      CHECK(blocks(triad(n, gpu)) == here);
    }
    CHECK(triad(n, ew::gpus::b200).vector_elements() == 8);
  }
}

TEST_CASE("little work costs the launch, wherever it runs") {
  ew::kernel_plan const p = triad(1, ew::gpus::h100_sxm);
  CHECK(p.bound() == ew::time_bound::launch);
  CHECK(p.expected_seconds() == 3.3e-6);
  std::string const words = p.explain();
  CHECK(words.find("\non H100 SXM, 132 multiprocessors with room for 32 such blocks each: 1 wave, "
                   "less than 1 % full; ") != words.npos);
  CHECK(words.find("\nabout 3.3 us: the launch, not its 12 bytes, is the cost") != words.npos);
  CHECK(triad(1000, small).expected_seconds() == triad(1000, small).seconds(1e9));
  ew::kernel_plan const none = triad(0, ew::gpus::h100_sxm);
  CHECK(none.explain() == "no elements: nothing is launched");
  CHECK(none.expected_seconds() == 0);
  CHECK(none.fit().waves == 0);
}

TEST_CASE("a measured bandwidth goes before the peak, and one given to explain() before both") {
  ew::architecture mine = small;
  mine.copy_bytes_per_second = 5e8;
  CHECK(triad(1000, mine).expected_seconds() == 12000 / 5e8);
  CHECK(triad(1000, mine).explain().find("about 24 us: memory") != std::string::npos);
  CHECK(triad(1000, mine).explain(1e9).find("about 12 us: memory") != std::string::npos);
}

TEST_CASE("several outputs on a GPU") {
  auto const x = ew::in(at<float>(0x1000000), 1024);
  auto const two = ew::tie(ew::out(at<float>(0x2000000), 1024) = x * 2,
                           ew::out(at<float>(0x3000000), 1024) = x * 3);
  ew::kernel_plan const p = ew::plan(two, ew::gpus::t4);
  CHECK(p.bytes_in_flight_per_thread() == 16U * static_cast<unsigned>(p.vectors_per_thread()));
  CHECK(std::string{p.gpu().name} == "T4");
}

TEST_CASE("an architecture that cannot be reckoned with is refused") {
  ew::architecture none;
  CHECK(kernel_test::refusal([&] {
          static_cast<void>(triad(8, none));
        }).find("has 0 multiprocessors of 0 threads and 0 blocks") != std::string::npos);
  ew::architecture slow = small;
  slow.peak_bytes_per_second = 0;
  CHECK(kernel_test::refusal([&] {
          static_cast<void>(triad(8, slow));
        }).find("a small one has a bandwidth of 0 bytes a second") != std::string::npos);
  slow = small;
  slow.launch_seconds = -1;
  CHECK_THROWS_AS(triad(8, slow), std::invalid_argument);
}

TEST_CASE("an architecture is read from the runtime") {
  ew::architecture const gpu = ew::architecture::of(ww::device_id{0});
  ww::device_info const info = ww::get_device_info(ww::device_id{0});
  CHECK(info.name == gpu.name);
  CHECK(gpu.major == info.compute_capability_major);
  CHECK(gpu.minor == info.compute_capability_minor);
  CHECK(gpu.multiprocessors == info.multiprocessor_count);
  CHECK(gpu.threads_per_multiprocessor == info.max_threads_per_multiprocessor);
  CHECK(gpu.blocks_per_multiprocessor >= 16);
  CHECK(gpu.peak_bytes_per_second == info.memory_bandwidth_bytes_per_s);
  CHECK(gpu.copy_bytes_per_second == 0);
  CHECK(gpu.l2_bytes == info.l2_bytes);
  CHECK(triad(1000, gpu).fit().waves == 1);
  CHECK_THROWS_AS(ew::architecture::of(ww::device_id{1 << 20}), std::invalid_argument);
  CHECK_THROWS_AS(ew::architecture::of(ww::device_id{-1}), std::invalid_argument);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("the constants are what devices report") {
  struct pair {
    char const* profile;
    ew::architecture const& known;
  };
  pair const all[] = {{"H100", ew::gpus::h100_sxm},  {"A100", ew::gpus::a100_sxm_80gb},
                      {"L4", ew::gpus::l4},          {"T4", ew::gpus::t4},
                      {"V100", ew::gpus::v100_sxm2}, {"B200", ew::gpus::b200}};
  for (pair const& p : all) {
    CAPTURE(p.profile);
    ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_profile(p.profile));
    ew::architecture const gpu = ew::architecture::of(ww::device_id{0});
    CHECK(gpu.major == p.known.major);
    CHECK(gpu.minor == p.known.minor);
    CHECK(gpu.multiprocessors == p.known.multiprocessors);
    CHECK(gpu.threads_per_multiprocessor == p.known.threads_per_multiprocessor);
    CHECK(gpu.blocks_per_multiprocessor == p.known.blocks_per_multiprocessor);
    CHECK(gpu.l2_bytes == p.known.l2_bytes);
    double const ratio = gpu.peak_bytes_per_second / p.known.peak_bytes_per_second;
    CHECK((ratio > 0.97 && ratio < 1.03));
  }
  ww::testing::reset_host_runtime();
}

TEST_CASE("a query that fails is told") {
  for (char const* call : {"cudaGetDeviceProperties", "cudaDeviceGetAttribute"}) {
    CAPTURE(call);
    ww::testing::scoped_fault_plan const plan{
        ww::testing::fault_plan{}.fail(call, 1, cudaErrorUnknown)};
    CHECK_THROWS_AS(ew::architecture::of(ww::device_id{0}), ww::cuda_error);
  }
}

#endif
