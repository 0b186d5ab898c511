// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernel attributes and occupancy.
#include "conformance.hpp"

using namespace conformance;

namespace {

// The address of a kernel that has been launched.
void const* known_kernel() {
  stream const s;
  device_memory<float> const y(16);
  launch(s, 16, write_index{y.data()});
  REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  return kernel_of<write_index>();
}

cudaFuncAttributes attributes_of(void const* kernel) {
  cudaFuncAttributes attributes = {};
  REQUIRE(cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess);
  return attributes;
}

cudaDeviceProp properties() {
  cudaDeviceProp p = {};
  REQUIRE(cudaGetDeviceProperties(&p, 0) == cudaSuccess);
  return p;
}

int active_blocks(void const* kernel, int threads, std::size_t dynamic_bytes) {
  int blocks = -1;
  SUCCEEDS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, dynamic_bytes));
  return blocks;
}

}  // namespace

TEST_CASE("a kernel's attributes are those of its device") {
  void const* const kernel = known_kernel();
  cudaDeviceProp const p = properties();
  cudaFuncAttributes attributes = {};
  SUCCEEDS(cudaFuncGetAttributes(&attributes, kernel));
  CHECK(attributes.maxThreadsPerBlock >= p.warpSize);
  CHECK(attributes.maxThreadsPerBlock <= p.maxThreadsPerBlock);
  CHECK(attributes.numRegs > 0);
  CHECK(attributes.numRegs * attributes.maxThreadsPerBlock <= p.regsPerBlock);
  CHECK(attributes.sharedSizeBytes == 0);
  CHECK(attributes.binaryVersion / 10 == p.major);
  CHECK(attributes.maxDynamicSharedSizeBytes == static_cast<int>(p.sharedMemPerBlock));
  CHECK(attributes.preferredShmemCarveout == cudaSharedmemCarveoutDefault);
  RETURNS(cudaFuncGetAttributes(&attributes, nullptr), cudaErrorInvalidDeviceFunction);
}

TEST_CASE("a kernel's name") {
  void const* const kernel = known_kernel();
  char const* name = nullptr;
  SUCCEEDS(cudaFuncGetName(&name, kernel));
  REQUIRE(name != nullptr);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(std::string(name) == "for_each_index");
#else
  CHECK(std::string(name).find("write_index") != std::string::npos);
#endif
  RETURNS(cudaFuncGetName(nullptr, kernel), cudaErrorInvalidValue);
}

TEST_CASE("the limit of dynamic shared memory can be raised to the device's opt-in limit") {
  void const* const kernel = known_kernel();
  int const limit = static_cast<int>(properties().sharedMemPerBlockOptin);
  int const before = attributes_of(kernel).maxDynamicSharedSizeBytes;
  SUCCEEDS(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, limit));
  CHECK(attributes_of(kernel).maxDynamicSharedSizeBytes == limit);
  RETURNS(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, limit + 1),
          cudaErrorInvalidValue);
  CHECK(attributes_of(kernel).maxDynamicSharedSizeBytes == limit);
  SUCCEEDS(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, before));
  CHECK(attributes_of(kernel).maxDynamicSharedSizeBytes == before);
}

TEST_CASE("a preferred carve-out is kept") {
  void const* const kernel = known_kernel();
  SUCCEEDS(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
  CHECK(attributes_of(kernel).preferredShmemCarveout == 50);
  RETURNS(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 101),
          cudaErrorInvalidValue);
  SUCCEEDS(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                cudaSharedmemCarveoutDefault));
  CHECK(attributes_of(kernel).preferredShmemCarveout == cudaSharedmemCarveoutDefault);
}

TEST_CASE("invalid attributes and functions") {
  void const* const kernel = known_kernel();
  RETURNS(cudaFuncSetAttribute(kernel, cudaFuncAttributeMax, 0), cudaErrorInvalidValue);
  RETURNS(cudaFuncSetAttribute(nullptr, cudaFuncAttributePreferredSharedMemoryCarveout, 50),
          cudaErrorInvalidDeviceFunction);
}

TEST_CASE("as many blocks are active as a multiprocessor holds") {
  void const* const kernel = known_kernel();
  cudaDeviceProp const p = properties();
  for (int const threads : {32, 64, 128, 256}) {
    int const blocks = active_blocks(kernel, threads, 0);
    CHECK(blocks >= 1);
    CHECK(blocks <= p.maxBlocksPerMultiProcessor);
    CHECK(blocks * threads <= p.maxThreadsPerMultiProcessor);
    int same = -1;
    SUCCEEDS(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&same, kernel, threads, 0,
                                                                    cudaOccupancyDefault));
    CHECK(same == blocks);
  }
  // 48 KiB per block: shared memory is the limiter.
  int const few = active_blocks(kernel, 32, p.sharedMemPerBlock);
  CHECK(few >= 1);
  CHECK(static_cast<std::size_t>(few) * p.sharedMemPerBlock <= p.sharedMemPerMultiprocessor);
}

TEST_CASE("the more blocks, the less shared memory is left for each") {
  void const* const kernel = known_kernel();
  cudaDeviceProp const p = properties();
  std::size_t for_one = 0, for_four = 0;
  SUCCEEDS(cudaOccupancyAvailableDynamicSMemPerBlock(&for_one, kernel, 1, 128));
  SUCCEEDS(cudaOccupancyAvailableDynamicSMemPerBlock(&for_four, kernel, 4, 128));
  CHECK(for_one >= for_four);
  CHECK(for_four > 0);
  CHECK(for_one <= p.sharedMemPerMultiprocessor);
  CHECK(4 * for_four <= p.sharedMemPerMultiprocessor);
}

TEST_CASE("the larger the clusters, the fewer are resident") {
  void const* const kernel = known_kernel();
  if (properties().major < 9) return;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.blockDim = dim3{128};
  config.attrs = &cluster;
  config.numAttrs = 1;
  int before = 1 << 30;
  for (unsigned const size : {1U, 2U, 4U, 8U}) {
    config.gridDim = dim3{size};
    cluster.val.clusterDim.x = size;
    int clusters = 0;
    SUCCEEDS(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
    CHECK(clusters > 0);
    CHECK(clusters < before);
    before = clusters;
  }
}

TEST_CASE("invalid arguments of occupancy queries") {
  void const* const kernel = known_kernel();
  int blocks = 0;
  RETURNS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 0, 0),
          cudaErrorInvalidValue);
  RETURNS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, kernel, 128, 0),
          cudaErrorInvalidValue);
  RETURNS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nullptr, 128, 0),
          cudaErrorInvalidDeviceFunction);
  constexpr unsigned no_flag = 0x80;
  RETURNS(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, kernel, 128, 0, no_flag),
          cudaErrorInvalidValue);
}
