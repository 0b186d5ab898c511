// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Plans for a GPU that need not be installed, and what gpu_model reads from one that is.
#include <warpwright/core/device.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/explain.hpp>

#include <limits>
#include <stdexcept>
#include <string>

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

ew::kernel_plan triad(std::size_t n, ew::gpu_model const& gpu) {
  return ew::plan(ew::out(at<float>(0x30000000000), n) =
                      ew::in(at<float>(0x10000000000), n) * 2 + ew::in(at<float>(0x20000000000), n),
                  gpu);
}

// Two multiprocessors with at most 1,024 resident threads in 16 blocks each.
constexpr ew::gpu_model small{"a small GPU", 9, 0, 2, 1024, 16, 1U << 20U, 1e9, 1e-6};

ew::gpu_model unmeasured() {
  ew::gpu_model gpu = ew::gpus::h100_sxm;
  gpu.copy_bytes_per_second = gpu.launch_seconds = 0;
  return gpu;
}

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
  CHECK(p.bytes_in_flight() == p.bytes_read());
  CHECK(p.bound() == ew::time_bound::memory);
  CHECK(p.expected_seconds() == p.seconds(3e12));
  CHECK(p.explain() ==
        "1048576 elements in one kernel: 1024 blocks of 256 threads, 1 vector of 4 elements per "
        "thread, 32-bit indices; reads 8388608 bytes, writes 4194304 bytes; no array is both read "
        "and written\non H100 SXM, 132 multiprocessors with 8 resident blocks each: 1 wave, 96 % "
        "full; 62 KiB of loads in flight on each\nabout 4.2 us: memory, 12582912 bytes at 3000 "
        "GB/s; less if they are in the L2 cache of 50 MiB");
  ew::kernel_plan const large = triad(std::size_t{1} << 28U, ew::gpus::h100_sxm);
  CHECK(large.bytes_in_flight() == 132 * std::uint64_t{65536});
  CHECK_THAT(large.explain(),
             test_support::contains("on H100 SXM, 132 multiprocessors with 8 resident blocks each: "
                                    "249 waves, the last 24 % full; 64 KiB of loads in flight on "
                                    "each\nabout 1.1 ms: memory, 3221225472 bytes at 3000 GB/s"));
}

TEST_CASE("no time is given for a GPU that was not measured") {
  ew::kernel_plan const p = triad(std::size_t{1} << 20U, unmeasured());
  CHECK(p.bound() == ew::time_bound::unknown);
  CHECK(p.expected_seconds() == 0);
  CHECK(p.fit().waves == 1);
  std::string const words = p.explain();
  CHECK_THAT(words, test_support::contains("\non H100 SXM, 132 multiprocessors"));
  CHECK(words.find("about") == words.npos);
  ew::gpu_model partly = unmeasured();
  partly.copy_bytes_per_second = 3e12;
  CHECK(triad(1000, partly).expected_seconds() == 0);
  CHECK(triad(1000, partly).explain().find("about") == std::string::npos);
  partly = unmeasured();
  partly.launch_seconds = 3e-6;
  CHECK(triad(1000, partly).bound() == ew::time_bound::unknown);
  CHECK_THAT(p.explain(2e12),
             test_support::contains("\nabout 6.3 us: memory, 12582912 bytes at 2000 GB/s, without "
                                    "the launch; less if they are in the L2 cache of 50 MiB"));
}

TEST_CASE("the same kernel is launched on every GPU") {
  for (std::size_t n : {1U, 1000U, 1000000U}) {
    ew::kernel_plan const here = triad(n, small);
    ew::gpu_model newer = ew::gpus::h100_sxm;
    newer.major = 10;
    for (ew::gpu_model const& gpu : {ew::gpus::h100_sxm, newer}) {
      ew::kernel_plan const there = triad(n, gpu);
      CAPTURE(n, gpu.major);
      CHECK(there.blocks() == here.blocks());
      CHECK(there.threads() == here.threads());
      CHECK(there.vector_elements() == here.vector_elements());
      CHECK(there.vectors_per_thread() == here.vectors_per_thread());
    }
  }
}

TEST_CASE("the launch limits little work") {
  ew::kernel_plan const p = triad(1, ew::gpus::h100_sxm);
  CHECK(p.bound() == ew::time_bound::launch);
  CHECK(p.expected_seconds() == 3.3e-6);
  CHECK_THAT(p.explain(),
             test_support::contains("\non H100 SXM, 132 multiprocessors with 32 resident blocks "
                                    "each: 1 wave, less than 1 % full; "));
  CHECK_THAT(p.explain(), test_support::contains(
                              "\nabout 3.3 us: the launch, which takes longer than 12 bytes"));
  CHECK(triad(1000, small).expected_seconds() == triad(1000, small).seconds(1e9));
  ew::kernel_plan const none = triad(0, ew::gpus::h100_sxm);
  CHECK(none.explain() == "no elements: nothing is launched");
  CHECK(none.expected_seconds() == 0);
  CHECK(none.fit().waves == 0);
}

TEST_CASE("measured figures of one's own give times") {
  ew::gpu_model mine = unmeasured();
  mine.copy_bytes_per_second = 5e8;
  mine.launch_seconds = 4e-6;
  CHECK(triad(1000, mine).expected_seconds() == 12000 / 5e8);
  CHECK(triad(1, mine).expected_seconds() == 4e-6);
  CHECK(triad(1000, mine).explain().find("about 24 us: memory") != std::string::npos);
  CHECK(triad(1000, mine).explain(1e9).find("about 12 us: memory") != std::string::npos);
}

TEST_CASE("several outputs on a GPU") {
  auto const x = ew::in(at<float>(0x1000000), 1024);
  auto const two = ew::tie(ew::out(at<float>(0x2000000), 1024) = x * 2,
                           ew::out(at<float>(0x3000000), 1024) = x * 3);
  ew::kernel_plan const p = ew::plan(two, small);
  CHECK(p.bytes_in_flight_per_thread() == 16U * static_cast<unsigned>(p.vectors_per_thread()));
  CHECK(std::string{p.gpu().name} == "a small GPU");
}

TEST_CASE("figures that no GPU has are refused") {
  ew::gpu_model none;
  CHECK(kernel_test::refusal([&] {
          static_cast<void>(triad(8, none));
        }).find("has 0 multiprocessors of 0 threads and 0 blocks") != std::string::npos);
  ew::gpu_model wrong = small;
  wrong.copy_bytes_per_second = -2;
  CHECK(kernel_test::refusal([&] {
          static_cast<void>(triad(8, wrong));
        }).find("a small GPU has a bandwidth of -2 bytes per second") != std::string::npos);
  wrong = small;
  wrong.launch_seconds = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(triad(8, wrong), std::invalid_argument);
}

TEST_CASE("a GPU's figures are read from the runtime") {
  ew::gpu_model const gpu = ew::gpu_model::of(ww::device_id{0});
  ww::device_info const info = ww::get_device_info(ww::device_id{0});
  CHECK(info.name == gpu.name);
  CHECK(gpu.major == info.compute_capability_major);
  CHECK(gpu.minor == info.compute_capability_minor);
  CHECK(gpu.multiprocessors == info.multiprocessor_count);
  CHECK(gpu.threads_per_multiprocessor == info.max_threads_per_multiprocessor);
  CHECK(gpu.blocks_per_multiprocessor >= 16);
  CHECK(gpu.l2_bytes == info.l2_bytes);
  CHECK_FALSE(gpu.is_measured());
  CHECK(triad(1000, gpu).fit().waves == 1);
  CHECK(triad(1000, gpu).expected_seconds() == 0);
  CHECK_THROWS_AS(ew::gpu_model::of(ww::device_id{1 << 20}), std::invalid_argument);
  CHECK_THROWS_AS(ew::gpu_model::of(ww::device_id{-1}), std::invalid_argument);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("the constants are what the device reports") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_profile("H100"));
  ew::gpu_model const gpu = ew::gpu_model::of(ww::device_id{0});
  ew::gpu_model const& known = ew::gpus::h100_sxm;
  CHECK(gpu.major == known.major);
  CHECK(gpu.minor == known.minor);
  CHECK(gpu.multiprocessors == known.multiprocessors);
  CHECK(gpu.threads_per_multiprocessor == known.threads_per_multiprocessor);
  CHECK(gpu.blocks_per_multiprocessor == known.blocks_per_multiprocessor);
  CHECK(gpu.l2_bytes == known.l2_bytes);
  ww::testing::reset_host_runtime();
}

TEST_CASE("products are found by name, and unknown ones refused with the list") {
  static_assert(ww::gpu_named("rtx4090").multiprocessors == 128, "");
  static_assert(&ww::gpu_named("h100-sxm") == &ww::gpus::h100_sxm, "");
  static_assert(&ww::gpu_named("V100") == &ww::gpus::v100_sxm, "");
  CHECK(&ww::gpu_named("NVIDIA GeForce RTX 4090") == &ww::gpus::rtx_4090);
  for (char const* name : {"NVIDIA L4", "Tesla T4", "Orin", "a100 80gb", "NVIDIA A100-SXM4-40GB"}) {
    CHECK_NOTHROW(ww::gpu_named(name));
  }
  CHECK(&ww::gpu_named("NVIDIA H100 80GB HBM3") == &ww::gpus::h100_sxm);
  CHECK_THROWS_WITH(ww::gpu_named("NVIDIA H100"),
                    contains("GPU 'H100' may be one of H100 PCIe, H100 SXM"));
  for (char const* name :
       {"", "NVIDIA", "80GB", "L4 S", "A100 80GB PCIe", "RTX 4090 D", "Tesla V100-SXM2-32GB"}) {
    CHECK_THROWS_WITH(ww::gpu_named(name), contains("' in the table, which has P4, V100 SXM2, T4"));
  }
  CHECK_THROWS_WITH(ww::gpu_named("H800"), contains("B200, RTX 5090; copy the nearest"));
}

// As the data sheets have them.
TEST_CASE("peaks of float32 by multiprocessors and clock") {
  auto const tflops = [](ww::gpu_model const& gpu) { return gpu.fp32_flops() * 1e-12; };
  CHECK(tflops(ww::gpus::p4) == Approx(5.5).epsilon(0.02));
  CHECK(tflops(ww::gpus::v100_sxm) == Approx(15.7).epsilon(0.01));
  CHECK(tflops(ww::gpus::t4) == Approx(8.1).epsilon(0.01));
  CHECK(tflops(ww::gpus::a100_80gb) == Approx(19.5).epsilon(0.01));
  CHECK(tflops(ww::gpus::a10) == Approx(31.2).epsilon(0.01));
  CHECK(tflops(ww::gpus::orin) == Approx(5.3).epsilon(0.01));
  CHECK(tflops(ww::gpus::l4) == Approx(30.3).epsilon(0.01));
  CHECK(tflops(ww::gpus::l40s) == Approx(91.6).epsilon(0.01));
  CHECK(tflops(ww::gpus::rtx_3090) == Approx(35.6).epsilon(0.01));
  CHECK(tflops(ww::gpus::rtx_4090) == Approx(82.6).epsilon(0.01));
  CHECK(tflops(ww::gpus::rtx_5090) == Approx(104.8).epsilon(0.01));
  CHECK(tflops(ww::gpus::h100_pcie) == Approx(51.2).epsilon(0.01));
  CHECK(tflops(ww::gpus::h100_sxm) == Approx(66.9).epsilon(0.01));
  CHECK(tflops(ww::gpus::b200) == Approx(75).epsilon(0.01));
}

TEST_CASE("a query that fails is reported") {
  ww::testing::scoped_fault_plan const plan{
      ww::testing::fault_plan{}.fail("cudaGetDeviceProperties", 1, cudaErrorUnknown)};
  CHECK_THROWS_AS(ew::gpu_model::of(ww::device_id{0}), ww::cuda_error);
}

#endif
