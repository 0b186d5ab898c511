// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// leak_report() lists objects that were created and not released.
#include <cuda.h>
#include <warpwright/testing/host_runtime.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"

namespace {

namespace ww = warpwright;
using ww::testing::leak_report;

void one_leak(std::string const& what) {
  std::vector<std::string> const lines = leak_report();
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines.front(), contains(what));
}

template <class Function>
Function* driver_function(char const* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  REQUIRE(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &status) ==
          cudaSuccess);
  REQUIRE(function != nullptr);
  return reinterpret_cast<Function*>(function);
}

}  // namespace

TEST_CASE("queries alone leak nothing") {
  ww::testing::reset_host_runtime();
  CHECK(leak_report().empty());
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(cudaMemset(nullptr, 0, 0) == cudaSuccess);
  CHECK(leak_report().empty());
}

TEST_CASE("each kind of memory is named") {
  ww::testing::reset_host_runtime();
  void* p = nullptr;
  SECTION("cudaMalloc") {
    REQUIRE(cudaMalloc(&p, 1234) == cudaSuccess);
    one_leak("cudaMalloc: 1234 bytes");
    CHECK(ww::testing::stats().device_allocations == 1);
    REQUIRE(cudaFree(p) == cudaSuccess);
  }
  SECTION("cudaMallocAsync") {
    REQUIRE(cudaMallocAsync(&p, 1234, cudaStreamLegacy) == cudaSuccess);
    one_leak("cudaMallocAsync: 1234 bytes");
    REQUIRE(cudaFreeAsync(p, cudaStreamLegacy) == cudaSuccess);
  }
  SECTION("cudaMallocManaged") {
    REQUIRE(cudaMallocManaged(&p, 1234, cudaMemAttachGlobal) == cudaSuccess);
    one_leak("cudaMallocManaged: 1234 bytes");
    REQUIRE(cudaFree(p) == cudaSuccess);
  }
  SECTION("cudaHostAlloc") {
    REQUIRE(cudaMallocHost(&p, 1234) == cudaSuccess);
    one_leak("cudaHostAlloc: 1234 bytes");
    CHECK(ww::testing::stats().host_allocations == 1);
    REQUIRE(cudaFreeHost(p) == cudaSuccess);
  }
  SECTION("cudaHostRegister") {
    std::vector<char> memory(1234);
    REQUIRE(cudaHostRegister(memory.data(), memory.size(), 0) == cudaSuccess);
    one_leak("cudaHostRegister: 1234 bytes");
    REQUIRE(cudaHostUnregister(memory.data()) == cudaSuccess);
  }
  CHECK(leak_report().empty());
}

TEST_CASE("each kind of handle is named") {
  ww::testing::reset_host_runtime();
  SECTION("stream") {
    cudaStream_t s = nullptr;
    REQUIRE(cudaStreamCreate(&s) == cudaSuccess);
    one_leak("stream 0x");
    CHECK(ww::testing::stats().streams == 1);
    REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
  }
  SECTION("event") {
    cudaEvent_t e = nullptr;
    REQUIRE(cudaEventCreate(&e) == cudaSuccess);
    one_leak("event 0x");
    CHECK(ww::testing::stats().events == 1);
    REQUIRE(cudaEventDestroy(e) == cudaSuccess);
  }
  SECTION("graph") {
    cudaGraph_t g = nullptr;
    REQUIRE(cudaGraphCreate(&g, 0) == cudaSuccess);
    one_leak("graph 0x");
    CHECK(ww::testing::stats().graphs == 1);
    REQUIRE(cudaGraphDestroy(g) == cudaSuccess);
  }
  SECTION("graph exec, without the graphs that it holds") {
    cudaGraph_t g = nullptr, child = nullptr;
    cudaGraphNode_t node = nullptr;
    cudaGraphExec_t exec = nullptr;
    REQUIRE(cudaGraphCreate(&child, 0) == cudaSuccess);
    REQUIRE(cudaGraphCreate(&g, 0) == cudaSuccess);
    REQUIRE(cudaGraphAddEmptyNode(&node, child, nullptr, 0) == cudaSuccess);
    REQUIRE(cudaGraphAddChildGraphNode(&node, g, nullptr, 0, child) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(child) == cudaSuccess);
    one_leak("graph 0x");
    REQUIRE(cudaGraphInstantiate(&exec, g, 0) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(g) == cudaSuccess);
    one_leak("graph exec 0x");
    CHECK(ww::testing::stats().graph_execs == 1);
    REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
  }
  SECTION("memory pool") {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool = nullptr;
    REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
    one_leak("memory pool 0x");
    CHECK(ww::testing::stats().memory_pools == 1);
    REQUIRE(cudaMemPoolDestroy(pool) == cudaSuccess);
  }
  CHECK(leak_report().empty());
}

TEST_CASE("memory of a graph that was launched is named until it is freed") {
  ww::testing::reset_host_runtime();
  cudaGraph_t g = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaMemAllocNodeParams parameters{};
  parameters.poolProps.allocType = cudaMemAllocationTypePinned;
  parameters.poolProps.location.type = cudaMemLocationTypeDevice;
  parameters.bytesize = 1234;
  REQUIRE(cudaGraphCreate(&g, 0) == cudaSuccess);
  REQUIRE(cudaGraphAddMemAllocNode(&node, g, nullptr, 0, &parameters) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, g, 0) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(g) == cudaSuccess);
  one_leak("graph exec 0x");  // not allocated before the launch
  REQUIRE(cudaGraphLaunch(exec, cudaStreamLegacy) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(cudaStreamLegacy) == cudaSuccess);
  std::vector<std::string> const lines = leak_report();
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], contains("graph memory: 1234 bytes"));
  REQUIRE(cudaFree(parameters.dptr) == cudaSuccess);
  one_leak("graph exec 0x");
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
  CHECK(leak_report().empty());
}

TEST_CASE("mapped memory is listed by mapping") {
  ww::testing::reset_host_runtime();
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  auto* const reserve = driver_function<decltype(::cuMemAddressReserve)>("cuMemAddressReserve");
  auto* const unreserve = driver_function<decltype(::cuMemAddressFree)>("cuMemAddressFree");
  auto* const create = driver_function<decltype(::cuMemCreate)>("cuMemCreate");
  auto* const release = driver_function<decltype(::cuMemRelease)>("cuMemRelease");
  auto* const map = driver_function<decltype(::cuMemMap)>("cuMemMap");
  auto* const unmap = driver_function<decltype(::cuMemUnmap)>("cuMemUnmap");
  constexpr std::size_t bytes = std::size_t{2} << 20U;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(reserve(&address, bytes, 0, 0, 0) == CUDA_SUCCESS);
  one_leak("cuMemAddressReserve: 2097152 bytes");
  REQUIRE(unreserve(address, bytes) == CUDA_SUCCESS);
  REQUIRE(create(&handle, bytes, &properties, 0) == CUDA_SUCCESS);
  one_leak("cuMemCreate: 2097152 bytes");
  REQUIRE(reserve(&address, bytes, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(map(address, bytes, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(release(handle) == CUDA_SUCCESS);
  std::string all;
  for (std::string const& line : leak_report()) all += line + '\n';
  CHECK_THAT(all, contains("cuMemMap: 2097152 bytes"));
  CHECK_THAT(all, contains("cuMemAddressReserve: 2097152 bytes"));
  REQUIRE(unmap(address, bytes) == CUDA_SUCCESS);
  REQUIRE(unreserve(address, bytes) == CUDA_SUCCESS);
  CHECK(leak_report().empty());
}

TEST_CASE("all leaks are listed, and a reset removes them") {
  ww::testing::reset_host_runtime();
  void* p = nullptr;
  cudaStream_t s = nullptr;
  cudaEvent_t e = nullptr;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(cudaMalloc(&p, 16) == cudaSuccess);
    REQUIRE(cudaMallocHost(&p, 16) == cudaSuccess);
    REQUIRE(cudaStreamCreate(&s) == cudaSuccess);
    REQUIRE(cudaEventCreate(&e) == cudaSuccess);
  }
  CHECK(leak_report().size() == 12);
  ww::testing::reset_host_runtime();
  CHECK(leak_report().empty());
  CHECK(cudaStreamQuery(s) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventQuery(e) == cudaErrorInvalidResourceHandle);
  CHECK(cudaFreeHost(p) == cudaErrorInvalidValue);
  cudaGetLastError();
}
