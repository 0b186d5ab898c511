// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Devices: count, selection, properties and attributes.
#include <cstring>

#include "conformance.hpp"

using namespace conformance;

namespace {

int attribute(cudaDeviceAttr which) {
  int value = -1;
  REQUIRE(cudaDeviceGetAttribute(&value, which, 0) == cudaSuccess);
  return value;
}

}  // namespace

TEST_CASE("devices are counted and selected") {
  int count = 0;
  SUCCEEDS(cudaGetDeviceCount(&count));
  REQUIRE(count >= 1);
  int device = -1;
  SUCCEEDS(cudaGetDevice(&device));
  CHECK(device == 0);
  SUCCEEDS(cudaSetDevice(count - 1));
  SUCCEEDS(cudaGetDevice(&device));
  CHECK(device == count - 1);
  SUCCEEDS(cudaSetDevice(0));
  RETURNS(cudaSetDevice(count), cudaErrorInvalidDevice);
  RETURNS(cudaSetDevice(-1), cudaErrorInvalidDevice);
  SUCCEEDS(cudaGetDevice(&device));
  CHECK(device == 0);
}

TEST_CASE("each thread has its own current device") {
  int count = 0;
  REQUIRE(cudaGetDeviceCount(&count) == cudaSuccess);
  if (count < 2) return;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  int other = -1;
  std::thread([&other] { cudaGetDevice(&other); }).join();
  CHECK(other == 0);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("invalid arguments of device queries") {
  cudaDeviceProp properties = {};
  int value = 0;
  RETURNS(cudaGetDeviceProperties(&properties, 1 << 20), cudaErrorInvalidDevice);
  RETURNS(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 1 << 20), cudaErrorInvalidDevice);
  constexpr int no_attribute = 255;  // the largest value that the enumeration can hold
  RETURNS(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(no_attribute), 0),
          cudaErrorInvalidValue);
  RETURNS(cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0), cudaErrorInvalidValue);
}

TEST_CASE("properties and attributes agree") {
  cudaDeviceProp p = {};
  SUCCEEDS(cudaGetDeviceProperties(&p, 0));
  CHECK(std::strlen(p.name) > 0);
  CHECK(p.warpSize == 32);
  CHECK(p.maxThreadsPerBlock == 1024);
  CHECK(p.unifiedAddressing == 1);
  CHECK(attribute(cudaDevAttrComputeCapabilityMajor) == p.major);
  CHECK(attribute(cudaDevAttrComputeCapabilityMinor) == p.minor);
  CHECK(attribute(cudaDevAttrMultiProcessorCount) == p.multiProcessorCount);
  CHECK(attribute(cudaDevAttrL2CacheSize) == p.l2CacheSize);
  CHECK(attribute(cudaDevAttrGlobalMemoryBusWidth) == p.memoryBusWidth);
  CHECK(attribute(cudaDevAttrMaxThreadsPerMultiProcessor) == p.maxThreadsPerMultiProcessor);
  CHECK(attribute(cudaDevAttrMaxBlocksPerMultiprocessor) == p.maxBlocksPerMultiProcessor);
  CHECK(attribute(cudaDevAttrMaxRegistersPerMultiprocessor) == p.regsPerMultiprocessor);
  CHECK(static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor)) ==
        p.sharedMemPerMultiprocessor);
  CHECK(static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) ==
        p.sharedMemPerBlockOptin);
  CHECK(attribute(cudaDevAttrMemoryClockRate) > 0);
  CHECK(attribute(cudaDevAttrClockRate) > 0);
  CHECK(attribute(cudaDevAttrMemoryPoolsSupported) == 1);
}

TEST_CASE("the PCI address leads back to the device") {
  char address[32] = {};
  SUCCEEDS(cudaDeviceGetPCIBusId(address, sizeof address, 0));
  CHECK(std::strlen(address) == 12);
  int device = -1;
  SUCCEEDS(cudaDeviceGetByPCIBusId(&device, address));
  CHECK(device == 0);
  RETURNS(cudaDeviceGetPCIBusId(address, sizeof address, 1 << 20), cudaErrorInvalidDevice);
}

TEST_CASE("free memory changes with allocations") {
  std::size_t free_before = 0, total = 0, free_during = 0;
  SUCCEEDS(cudaMemGetInfo(&free_before, &total));
  CHECK(free_before <= total);
  void* p = nullptr;
  constexpr std::size_t bytes = std::size_t{64} << 20;
  SUCCEEDS(cudaMalloc(&p, bytes));
  SUCCEEDS(cudaMemGetInfo(&free_during, &total));
  CHECK(free_during + bytes <= free_before);
  SUCCEEDS(cudaFree(p));
  SUCCEEDS(cudaMemGetInfo(&free_during, &total));
  CHECK(free_during == free_before);
  cudaDeviceProp p0 = {};
  SUCCEEDS(cudaGetDeviceProperties(&p0, 0));
  CHECK(p0.totalGlobalMem == total);
}

TEST_CASE("versions are those of the toolkit or newer") {
  int runtime = 0, driver = 0;
  SUCCEEDS(cudaRuntimeGetVersion(&runtime));
  SUCCEEDS(cudaDriverGetVersion(&driver));
  CHECK(runtime == CUDART_VERSION);
  CHECK(driver >= runtime);
}

TEST_CASE("stream priorities have a range") {
  int least = 1, greatest = 1;
  SUCCEEDS(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(least == 0);
  CHECK(greatest == -5);
}

TEST_CASE("a device can be initialised without being selected") {
  int count = 0, device = -1;
  REQUIRE(cudaGetDeviceCount(&count) == cudaSuccess);
  SUCCEEDS(cudaInitDevice(count - 1, 0, 0));
  SUCCEEDS(cudaGetDevice(&device));
  CHECK(device == 0);
  RETURNS(cudaInitDevice(count, 0, 0), cudaErrorInvalidDevice);
}

TEST_CASE("flags of a device are set and read") {
  unsigned flags = 0;
  SUCCEEDS(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  SUCCEEDS(cudaGetDeviceFlags(&flags));
  CHECK((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync);
  SUCCEEDS(cudaInitDevice(0, cudaDeviceScheduleYield, cudaInitDeviceFlagsAreValid));
  SUCCEEDS(cudaGetDeviceFlags(&flags));
  CHECK((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleYield);
  SUCCEEDS(
      cudaInitDevice(0, cudaDeviceScheduleBlockingSync, 0));  // the flags are not declared valid
  SUCCEEDS(cudaGetDeviceFlags(&flags));
  CHECK((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleYield);
  SUCCEEDS(cudaSetDeviceFlags(cudaDeviceScheduleAuto));
  SUCCEEDS(cudaGetDeviceFlags(&flags));
  CHECK((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleAuto);
  RETURNS(cudaSetDeviceFlags(0x10000), cudaErrorInvalidValue);
}

TEST_CASE("limits of a device are set and read") {
  std::size_t before = 0, value = 0;
  SUCCEEDS(cudaDeviceGetLimit(&before, cudaLimitStackSize));
  CHECK(before > 0);
  SUCCEEDS(cudaDeviceSetLimit(cudaLimitStackSize, before + 1024));
  SUCCEEDS(cudaDeviceGetLimit(&value, cudaLimitStackSize));
  CHECK(value >= before + 1024);  // a device may round it up
  SUCCEEDS(cudaDeviceSetLimit(cudaLimitStackSize, before));
  if (attribute(cudaDevAttrComputeCapabilityMajor) >= 9) {  // no device-side synchronisation
    RETURNS(cudaDeviceGetLimit(&value, cudaLimitDevRuntimeSyncDepth), cudaErrorUnsupportedLimit);
    RETURNS(cudaDeviceSetLimit(cudaLimitDevRuntimeSyncDepth, 2), cudaErrorUnsupportedLimit);
  }
}
