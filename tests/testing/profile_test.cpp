// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The device profiles of the host runtime, and the size of their memory.
#include <warpwright/core/device.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace {

namespace ww = warpwright;
using ww::testing::device_profile;
using ww::testing::host_runtime_options;
using ww::testing::reset_host_runtime;

// The data sheets' numbers, as they print them.
struct published {
  char const* name;
  int major, minor, multiprocessors, memory_gib, bus_bits, l2_mib, boost_mhz;
  double bandwidth_gb_s;
  int threads, blocks, shared_kib;
};

constexpr published sheets[] = {
    {"H100", 9, 0, 132, 80, 5120, 50, 1980, 3350, 2048, 32, 228},
    {"A100", 8, 0, 108, 80, 5120, 40, 1410, 2039, 2048, 32, 164},
    {"L4", 8, 9, 58, 24, 192, 48, 2040, 300, 1536, 24, 100},
    {"T4", 7, 5, 40, 16, 256, 4, 1590, 320, 1024, 16, 64},
    {"P4", 6, 1, 20, 8, 256, 2, 1114, 192, 2048, 32, 96},
    {"V100", 7, 0, 80, 16, 4096, 6, 1530, 900, 2048, 32, 96},
    {"RTX 4090", 8, 9, 128, 24, 384, 72, 2520, 1008, 1536, 24, 100},
    {"RTX 5090", 12, 0, 170, 32, 512, 96, 2407, 1792, 1536, 24, 100},
    {"B200", 10, 0, 148, 180, 8192, 126, 1965, 8000, 2048, 32, 228},
};

int attribute(cudaDeviceAttr which) {
  int value = -1;
  REQUIRE(cudaDeviceGetAttribute(&value, which, 0) == cudaSuccess);
  return value;
}

std::size_t free_bytes() {
  std::size_t free_now = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free_now, &total) == cudaSuccess);
  return free_now;
}

}  // namespace

TEST_CASE("each profile reports the published numbers") {
  CHECK(device_profile::names().size() == std::size(sheets));
  for (published const& sheet : sheets) {
    INFO(sheet.name);
    reset_host_runtime(host_runtime_options{}.with_profile(sheet.name).with_memory_bytes(0));
    std::size_t const memory = static_cast<std::size_t>(sheet.memory_gib) << 30U;
    cudaDeviceProp p{};
    REQUIRE(cudaGetDeviceProperties(&p, 0) == cudaSuccess);
    CHECK(std::string{p.name} == std::string{sheet.name} + " (host runtime)");
    CHECK(p.major == sheet.major);
    CHECK(p.minor == sheet.minor);
    CHECK(p.multiProcessorCount == sheet.multiprocessors);
    CHECK(p.totalGlobalMem == memory);
    CHECK(p.memoryBusWidth == sheet.bus_bits);
    CHECK(p.l2CacheSize == sheet.l2_mib << 20);
    CHECK(p.maxThreadsPerMultiProcessor == sheet.threads);
    CHECK(p.maxBlocksPerMultiProcessor == sheet.blocks);
    CHECK(p.sharedMemPerMultiprocessor == static_cast<std::size_t>(sheet.shared_kib) << 10U);
    CHECK(p.sharedMemPerBlockOptin <= p.sharedMemPerMultiprocessor);
    CHECK(p.warpSize == 32);

    CHECK(attribute(cudaDevAttrComputeCapabilityMajor) == sheet.major);
    CHECK(attribute(cudaDevAttrComputeCapabilityMinor) == sheet.minor);
    CHECK(attribute(cudaDevAttrMultiProcessorCount) == sheet.multiprocessors);
    CHECK(attribute(cudaDevAttrL2CacheSize) == sheet.l2_mib << 20);
    CHECK(attribute(cudaDevAttrGlobalMemoryBusWidth) == sheet.bus_bits);
    CHECK(std::abs(attribute(cudaDevAttrClockRate) - sheet.boost_mhz * 1000) <= 500);
    CHECK(attribute(cudaDevAttrMaxThreadsPerMultiProcessor) == sheet.threads);
    CHECK(attribute(cudaDevAttrMaxBlocksPerMultiprocessor) == sheet.blocks);
    CHECK(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) == sheet.shared_kib << 10);
    CHECK(attribute(cudaDevAttrMemoryPoolsSupported) == 1);

    ww::device_info const info = ww::get_device_info(ww::device_id{0});
    CHECK(info.name == p.name);
    CHECK(info.host_runtime);
    CHECK_FALSE(info.mig);
    CHECK(info.compute_capability_major == sheet.major);
    CHECK(info.compute_capability_minor == sheet.minor);
    CHECK(info.multiprocessor_count == sheet.multiprocessors);
    CHECK(info.memory_total_bytes == memory);
    CHECK(info.memory_free_bytes == memory);
    CHECK(info.memory_bus_bits == sheet.bus_bits);
    CHECK(info.max_threads_per_multiprocessor == sheet.threads);
    // Data sheets round their numbers.
    double const error = info.memory_bandwidth_bytes_per_s / (sheet.bandwidth_gb_s * 1e9) - 1.0;
    CHECK(std::abs(error) < 0.03);
  }
  reset_host_runtime();
}

TEST_CASE("profile names are case-insensitive") {
  CHECK(device_profile::named("h100").name == "H100");
  CHECK(device_profile::named("rtx 5090").multiprocessor_count == 170);
  for (std::string const& name : device_profile::names()) {
    CHECK(device_profile::named(name).name == name);
  }
}

TEST_CASE("the error of an unknown profile lists the known ones") {
  CHECK_THROWS_AS(device_profile::named("H1000"), std::invalid_argument);
  CHECK_THROWS_WITH(device_profile::named("H1000"), contains("H1000"));
  for (std::string const& name : device_profile::names()) {
    CHECK_THROWS_WITH(device_profile::named(""), contains(name));
  }
  CHECK_THROWS_AS(host_runtime_options{}.with_profile("none"), std::invalid_argument);
}

TEST_CASE("setters of host_runtime_options return a changed copy") {
  host_runtime_options const defaults;
  host_runtime_options const changed =
      defaults.with_profile("L4").with_devices(3).with_memory_bytes(4096).with_simulated_time();
  CHECK(changed.profile.name == "L4");
  CHECK(changed.device_count == 3);
  CHECK(changed.memory_bytes == 4096);
  CHECK(changed.simulated_time);
  CHECK(defaults.profile.name == "H100");
  CHECK(defaults.device_count == 1);
  CHECK_FALSE(defaults.simulated_time);
}

TEST_CASE("options outside their range throw and change nothing") {
  reset_host_runtime(host_runtime_options{}.with_devices(2));
  CHECK_THROWS_WITH(reset_host_runtime(host_runtime_options{}.with_devices(-1)), contains("-1"));
  CHECK_THROWS_WITH(reset_host_runtime(host_runtime_options{}.with_devices(17)), contains("17"));
  host_runtime_options empty;
  empty.profile = {};
  CHECK_THROWS_AS(reset_host_runtime(empty), std::invalid_argument);
  int count = 0;
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 2);
  reset_host_runtime(host_runtime_options{}.with_devices(16));
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 16);
  reset_host_runtime();
}

TEST_CASE("no device at all") {
  reset_host_runtime(host_runtime_options{}.with_devices(0));
  int count = -1;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 16) == cudaErrorNoDevice);
  CHECK(cudaSetDevice(0) == cudaErrorNoDevice);
  cudaGetLastError();
  CHECK(ww::device_count() == 0);
  CHECK(ww::testing::leak_report().empty());
  reset_host_runtime();
}

TEST_CASE("several devices are distinct") {
  reset_host_runtime(
      host_runtime_options{}.with_devices(3).with_profile("A100").with_memory_bytes(1 << 20));
  REQUIRE(ww::device_count() == 3);
  std::vector<ww::device_info> const list = ww::list_devices();
  REQUIRE(list.size() == 3);
  CHECK(list[0].uuid != list[1].uuid);
  CHECK(list[1].uuid != list[2].uuid);
  CHECK(list[0].pci_address != list[1].pci_address);
  CHECK(list[2].name == "A100 (host runtime)");
  // Each has its own memory.
  void* p = nullptr;
  REQUIRE(cudaSetDevice(2) == cudaSuccess);
  REQUIRE(cudaMalloc(&p, 1 << 20) == cudaSuccess);
  CHECK(free_bytes() == 0);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(free_bytes() == 1 << 20);
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, p) == cudaSuccess);
  CHECK(attributes.device == 2);
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(cudaSetDevice(3) == cudaErrorInvalidDevice);
  cudaGetLastError();
  reset_host_runtime();
  int current = -1;
  CHECK(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == 0);  // the current device is reset
}

TEST_CASE("memory is exhausted at its size and available again when freed") {
  constexpr std::size_t mib = 1 << 20;
  reset_host_runtime(host_runtime_options{}.with_memory_bytes(8 * mib));
  CHECK(free_bytes() == 8 * mib);
  CHECK(ww::get_device_info(ww::device_id{0}).memory_total_bytes == 8 * mib);
  void *a = nullptr, *b = nullptr, *c = nullptr;
  CHECK(cudaMalloc(&a, 8 * mib + 1) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&a, ~std::size_t{0}) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  REQUIRE(cudaMalloc(&a, 5 * mib) == cudaSuccess);
  CHECK(free_bytes() == 3 * mib);
  CHECK(cudaMalloc(&b, 4 * mib) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  REQUIRE(cudaMalloc(&b, 3 * mib) == cudaSuccess);
  CHECK(free_bytes() == 0);
  CHECK(cudaMalloc(&c, 1) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaFree(a) == cudaSuccess);
  CHECK(free_bytes() == 5 * mib);
  REQUIRE(cudaMalloc(&c, 5 * mib) == cudaSuccess);
  CHECK(cudaFree(b) == cudaSuccess);
  CHECK(cudaFree(c) == cudaSuccess);
  CHECK(free_bytes() == 8 * mib);
  CHECK(ww::testing::stats().device_memory_bytes == 0);
  reset_host_runtime();
}

TEST_CASE("stream-ordered memory is exhausted at its size and available again when freed") {
  constexpr std::size_t mib = 1 << 20;
  reset_host_runtime(host_runtime_options{}.with_memory_bytes(8 * mib));
  void *a = nullptr, *b = nullptr;
  REQUIRE(cudaMallocAsync(&a, 6 * mib, cudaStreamLegacy) == cudaSuccess);
  CHECK(cudaMallocAsync(&b, 3 * mib, cudaStreamLegacy) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&b, 3 * mib) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  REQUIRE(cudaFreeAsync(a, cudaStreamLegacy) == cudaSuccess);
  // The pool is trimmed before an allocation fails.
  REQUIRE(cudaStreamSynchronize(cudaStreamLegacy) == cudaSuccess);
  REQUIRE(cudaMalloc(&b, 8 * mib) == cudaSuccess);
  CHECK(cudaFree(b) == cudaSuccess);
  CHECK(free_bytes() == 8 * mib);
  reset_host_runtime();
}

TEST_CASE("many small allocations and frees leave no memory in use") {
  reset_host_runtime(host_runtime_options{}.with_memory_bytes(1 << 20));
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> live;
    void* p = nullptr;
    while (cudaMalloc(&p, 512) == cudaSuccess) live.push_back(p);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(live.size() == (1U << 20) / 512);
    CHECK(free_bytes() == 0);
    for (void* each : live) REQUIRE(cudaFree(each) == cudaSuccess);
    CHECK(free_bytes() == 1 << 20);
  }
  reset_host_runtime();
}
