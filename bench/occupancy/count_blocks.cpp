// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes what cudaOccupancyMaxActiveBlocksPerMultiprocessor says of 100,000 launches, for
// tests/occupancy/launches_test.cpp: a line for each kernel, with its registers, static shared
// memory and limit of threads, and a character for each launch. It needs a GPU.
//
//   occupancy_count_blocks > tests/occupancy/h100_blocks.txt
#include "occupancy/configurations.hpp"

#include <warpwright/core/error.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <utility>

namespace {

namespace ww = warpwright;

#if WARPWRIGHT_HOST_RUNTIME

void run() { std::printf("it needs a GPU\n"); }

#else

// Registers and shared memory of many sizes.
template <int K>
__global__ void work(float const* in, float* out) {
  constexpr int values = 1 + K * 10;
  constexpr int shared = K % 4 == 0 ? 1 : K % 4 == 1 ? 250 : K % 4 == 2 ? 1300 : 5000;
  __shared__ float scratch[shared];
  float v[values];
#pragma unroll
  for (int k = 0; k < values; ++k) v[k] = in[k * 1024 + threadIdx.x];
  for (int r = 0; r < 32; ++r) {
#pragma unroll
    for (int k = 0; k < values; ++k) v[k] = v[k] * v[(k + 1) % values] + v[(k * 7 + 3) % values];
  }
  float sum = 0.0F;
#pragma unroll
  for (int k = 0; k < values; ++k) sum += v[k];
  if (K % 4 != 0) scratch[threadIdx.x % shared] = sum;
  __syncthreads();
  out[threadIdx.x] = K % 4 != 0 ? scratch[(threadIdx.x + 1) % shared] : sum;
}

using kernel = void(float const*, float*);
template <int... K>
void fill(kernel** all, std::integer_sequence<int, K...>) {
  ((all[K] = &work<K>), ...);
}

void run() {
  kernel* all[configurations::kernels];
  fill(all, std::make_integer_sequence<int, configurations::kernels>{});
  for (kernel* k : all) {
    cudaFuncAttributes a{};
    ww::check(cudaFuncGetAttributes(&a, k), "cudaFuncGetAttributes");
    std::printf("%d %zu %d\n", a.numRegs, a.sharedSizeBytes, a.maxThreadsPerBlock);
    ww::check(
        cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(configurations::most_shared - a.sharedSizeBytes)),
        "cudaFuncSetAttribute");
  }
  for (int i = 0; i < configurations::count; ++i) {
    configurations::launch const l = configurations::at(static_cast<std::uint64_t>(i));
    kernel* const k = all[l.kernel];
    ww::check(cudaFuncSetAttribute(k, cudaFuncAttributePreferredSharedMemoryCarveout, l.carveout),
              "cudaFuncSetAttribute");
    int blocks = 0;
    cudaError_t const error =
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, l.threads, l.dynamic_bytes);
    if (error != cudaSuccess) blocks = 0;  // it cannot be launched
    static_cast<void>(cudaGetLastError());
    std::putchar(configurations::digit(blocks));
    if (i % 100 == 99) std::putchar('\n');
  }
}

#endif

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
