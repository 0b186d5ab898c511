// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The calculator compared with the toolkit's cuda_occupancy.h and the runtime's query.
#include <benchmark/benchmark.h>

#include <warpwright/occupancy/kernel_occupancy.hpp>

#include <cuda_occupancy.h>

namespace ww = warpwright;

namespace {

// The thread count changes, so that the compiler does not evaluate it.
int next_threads(int threads) { return threads == 1024 ? 32 : threads + 32; }

void occupancy(benchmark::State& state) {
  ww::architecture const device = ww::architecture_of(ww::arch::sm_90);
  int threads = 32;
  for (auto _ : state) {
    threads = next_threads(threads);
    auto const k = ww::kernel_resources{}.threads(threads).registers(40).shared_bytes(8192);
    benchmark::DoNotOptimize(ww::occupancy(device, k).blocks_per_multiprocessor);
  }
}
BENCHMARK(occupancy);

void cuda_occupancy_header(benchmark::State& state) {
  ww::architecture const a = ww::architecture_of(ww::arch::sm_90);
  cudaOccDeviceProp device;
  device.computeMajor = a.major;
  device.computeMinor = a.minor;
  device.maxThreadsPerBlock = a.max_threads_per_block;
  device.maxThreadsPerMultiprocessor = a.max_warps_per_multiprocessor * a.warp_size;
  device.regsPerBlock = a.max_registers_per_block;
  device.regsPerMultiprocessor = a.registers_per_multiprocessor;
  device.warpSize = a.warp_size;
  device.sharedMemPerBlock = a.shared_bytes_per_block;
  device.sharedMemPerMultiprocessor = a.shared_bytes_per_multiprocessor;
  device.numSms = 132;
  device.sharedMemPerBlockOptin = a.shared_bytes_per_block_optin;
  device.reservedSharedMemPerBlock = a.reserved_shared_bytes_per_block;
  cudaOccFuncAttributes kernel;
  kernel.maxThreadsPerBlock = 1024;
  kernel.numRegs = 40;
  kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  kernel.maxDynamicSharedSizeBytes = 49152;
  kernel.numBlockBarriers = 1;
  cudaOccDeviceState const cache;
  int threads = 32;
  for (auto _ : state) {
    threads = next_threads(threads);
    cudaOccResult result{};
    cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &cache, threads, 8192);
    benchmark::DoNotOptimize(result.activeBlocksPerMultiprocessor);
  }
}
BENCHMARK(cuda_occupancy_header);

void suggest_block_size(benchmark::State& state) {
  ww::architecture const device = ww::architecture_of(ww::arch::sm_90);
  int registers = 16;
  for (auto _ : state) {
    registers = registers == 200 ? 16 : registers + 8;
    auto const k = ww::kernel_resources{}.registers(registers);
    benchmark::DoNotOptimize(ww::suggest_block_size(device, k).threads);
  }
}
BENCHMARK(suggest_block_size);

void explain(benchmark::State& state) {
  auto const o = ww::occupancy(ww::arch::sm_90, ww::kernel_resources{}.threads(256).registers(40));
  for (auto _ : state) benchmark::DoNotOptimize(ww::explain(o).size());
}
BENCHMARK(explain);

#if defined(__CUDACC__)

__global__ void sample_kernel(float* data) { data[threadIdx.x] += 1.0F; }

void occupancy_of_kernel(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(ww::occupancy_of(sample_kernel, 256).blocks_per_multiprocessor);
  }
}
BENCHMARK(occupancy_of_kernel);

void raw_runtime_query(benchmark::State& state) {
  int blocks = 0;
  for (auto _ : state) {
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, reinterpret_cast<void const*>(&sample_kernel), 256, 0);
    benchmark::DoNotOptimize(blocks);
  }
}
BENCHMARK(raw_runtime_query);

#endif

}  // namespace
