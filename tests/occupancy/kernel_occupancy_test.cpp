// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The occupancy of kernels: on a GPU against cudaOccupancyMaxActiveBlocksPerMultiprocessor for real
// kernels, on the host runtime for kernels with registered attributes.
#include <warpwright/occupancy/kernel_occupancy.hpp>

#include <initializer_list>
#include <stdexcept>
#include <string>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

#include "support/catch.hpp"

namespace ww = warpwright;

namespace {

int cuda_answer(void const* kernel, int threads, std::size_t dynamic_bytes) {
  int blocks = -1;
  ww::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, dynamic_bytes),
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return blocks;
}

void compare(void const* kernel, std::string const& name) {
  cudaFuncAttributes attributes{};
  ww::check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  for (int const threads :
       {1, 31, 32, 33, 64, 96, 128, 160, 192, 256, 320, 384, 480, 512, 640, 768, 896, 1000, 1024}) {
    for (std::size_t const dynamic : {std::size_t{0}, std::size_t{1}, std::size_t{1000},
                                      std::size_t{8192}, std::size_t{30000}, std::size_t{49152}}) {
      auto const ours = ww::occupancy_of(kernel, threads, dynamic);
      INFO(name << " threads " << threads << " dynamic " << dynamic << ": " << ww::explain(ours));
      // CUDA's result ignores a kernel's launch bounds, although such a launch fails.
      REQUIRE(
          ours.blocks_per_multiprocessor ==
          (threads > attributes.maxThreadsPerBlock ? 0 : cuda_answer(kernel, threads, dynamic)));
    }
  }
}

#if defined(__CUDACC__)

__global__ void light(float* data) { data[threadIdx.x + blockIdx.x * blockDim.x] += 1.0F; }

// Many live values, so that registers are the limiter.
__global__ void heavy(float* data, int count) {
  float v[96];
  for (int i = 0; i < 96; ++i) v[i] = data[i * 7 + static_cast<int>(threadIdx.x)];
  for (int k = 0; k < count; ++k) {
#pragma unroll
    for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i + 1) % 96] + v[(i + 5) % 96];
  }
  for (int i = 0; i < 96; ++i) data[i * 7 + static_cast<int>(threadIdx.x)] = v[i];
}

__global__ void __launch_bounds__(256) bounded(float* data) { data[threadIdx.x] *= 2.0F; }

__global__ void with_shared(float* data) {
  __shared__ float tile[5000];
  for (int i = static_cast<int>(threadIdx.x); i < 5000; i += static_cast<int>(blockDim.x)) {
    tile[i] = data[i];
  }
  __syncthreads();
  data[threadIdx.x] = tile[(threadIdx.x * 17) % 5000];
}

__global__ void with_dynamic(float* data) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

#endif

}  // namespace

#if defined(__CUDACC__)

TEST_CASE("real kernels agree with the CUDA runtime", "[tune][occupancy]") {
  compare(reinterpret_cast<void const*>(&light), "light");
  compare(reinterpret_cast<void const*>(&heavy), "heavy");
  compare(reinterpret_cast<void const*>(&bounded), "bounded");
  compare(reinterpret_cast<void const*>(&with_shared), "with_shared");
  compare(reinterpret_cast<void const*>(&with_dynamic), "with_dynamic");
  CHECK(ww::occupancy_of(light, 256).blocks_per_multiprocessor ==
        cuda_answer(reinterpret_cast<void const*>(&light), 256, 0));
  CHECK(ww::occupancy_of(bounded, 512).problem == ww::launch_problem::threads_over_limit);
  int multiprocessors = 0;
  ww::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
            "cudaDeviceGetAttribute");
  CHECK(ww::resident_blocks(light, 256) ==
        static_cast<std::size_t>(multiprocessors *
                                 cuda_answer(reinterpret_cast<void const*>(&light), 256, 0)));
  CHECK(ww::resident_blocks(bounded, 512) == 0);
}

TEST_CASE("a block size is suggested for a kernel function", "[tune][occupancy]") {
  ww::architecture const device = ww::architecture_of(ww::current_device());
  for (int const threads : {32, 256}) {  // the suggestion does not depend on it
    auto const best = ww::suggest_block_size(device, ww::resources_of(bounded, threads));
    INFO(ww::explain(best.occupancy));
    CHECK(best.threads >= 128);
    CHECK(best.threads <= 256);  // the kernel's launch bounds
    CHECK(best.occupancy.blocks_per_multiprocessor ==
          cuda_answer(reinterpret_cast<void const*>(&bounded), best.threads, 0));
  }
}

TEST_CASE("opt-in and carve-out of a real kernel are read", "[tune][occupancy]") {
  void const* const kernel = reinterpret_cast<void const*>(&with_dynamic);
  auto const device = ww::architecture_of(ww::current_device());
  std::size_t const large = device.shared_bytes_per_block_optin;
  CHECK(ww::occupancy_of(kernel, 128, large).problem ==
        ww::launch_problem::shared_memory_not_opted_in);
  ww::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(large)),
            "cudaFuncSetAttribute");
  for (std::size_t dynamic = 0; dynamic <= large; dynamic += 3333) {
    INFO("dynamic " << dynamic);
    REQUIRE(ww::occupancy_of(kernel, 128, dynamic).blocks_per_multiprocessor ==
            cuda_answer(kernel, 128, dynamic));
  }
  for (int const percent : {0, 10, 25, 50, 75, 100, -1}) {
    ww::check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, percent),
              "cudaFuncSetAttribute");
    for (std::size_t const dynamic :
         {std::size_t{0}, std::size_t{4096}, std::size_t{16384}, std::size_t{50000}}) {
      INFO("percent " << percent << " dynamic " << dynamic);
      REQUIRE(ww::occupancy_of(kernel, 128, dynamic).blocks_per_multiprocessor ==
              cuda_answer(kernel, 128, dynamic));
    }
  }
}

#endif

#if WARPWRIGHT_HOST_RUNTIME

namespace {
// Addresses of kernels, whose attributes are registered with the host runtime.
void plain_kernel() {}
void large_kernel() {}
void const* address(void (*kernel)()) { return reinterpret_cast<void const*>(kernel); }

cudaFuncAttributes attributes(int registers, std::size_t static_bytes, int max_threads,
                              int max_dynamic) {
  cudaFuncAttributes a{};
  a.numRegs = registers;
  a.sharedSizeBytes = static_bytes;
  a.maxThreadsPerBlock = max_threads;
  a.maxDynamicSharedSizeBytes = max_dynamic;
  a.preferredShmemCarveout = -1;
  return a;
}
}  // namespace

TEST_CASE("kernels with registered attributes agree with the host runtime", "[tune][occupancy]") {
  for (char const* const profile :
       {"H100", "A100", "L4", "T4", "P4", "V100", "RTX 4090", "RTX 5090", "B200"}) {
    ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_profile(profile));
    ww::testing::set_function_attributes(address(&plain_kernel), attributes(40, 0, 1024, 49152));
    compare(address(&plain_kernel), std::string{profile} + " plain");
    ww::testing::set_function_attributes(address(&large_kernel), attributes(128, 5000, 512, 44152));
    compare(address(&large_kernel), std::string{profile} + " large");
  }
  ww::testing::reset_host_runtime();
  ww::testing::set_function_attributes(address(&plain_kernel), attributes(40, 0, 1024, 49152));
  auto const o = ww::occupancy_of(plain_kernel, 256);
  CHECK(o.blocks_per_multiprocessor == 6);
  CHECK(o.limited_by(ww::resource::registers));
  CHECK(ww::occupancy_of(plain_kernel, 128, 50000).problem ==
        ww::launch_problem::shared_memory_not_opted_in);
  ww::testing::reset_host_runtime();
}

TEST_CASE("the resources of a kernel function are those of its address", "[tune][occupancy]") {
  ww::testing::reset_host_runtime();
  ww::testing::set_function_attributes(address(&plain_kernel), attributes(80, 4096, 512, 49152));
  ww::kernel_resources const k = ww::resources_of(plain_kernel, 64, 1000);
  CHECK(k.threads() == 64);
  CHECK(k.registers() == 80);
  CHECK(k.shared_bytes() == 5096);
  CHECK(k.max_threads() == 512);
  CHECK(k.max_shared_bytes() == 4096 + 49152);
  auto const best = ww::suggest_block_size(ww::architecture_of(ww::current_device()), k);
  CHECK(best.threads ==
        ww::suggest_block_size(ww::arch::sm_90, ww::resources_of(plain_kernel, 512, 1000)).threads);
  CHECK(best.threads <= 512);
  ww::testing::reset_host_runtime();
}

TEST_CASE("a kernel is allowed more shared memory, and its clusters are counted") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_profile("H100"));
  void const* const kernel = address(&plain_kernel);
  ww::testing::set_function_attributes(kernel, attributes(40, 1000, 1024, 48152));
  CHECK(ww::occupancy_of(kernel, 256, 60000).problem ==
        ww::launch_problem::shared_memory_not_opted_in);
  ww::allow_dynamic_shared_bytes(kernel, 60000);
  CHECK(ww::occupancy_of(kernel, 256, 60000).blocks_per_multiprocessor == 3);
  ww::allow_dynamic_shared_bytes(kernel, 231448);
  CHECK_THROWS_WITH(ww::allow_dynamic_shared_bytes(kernel, 231449),
                    contains("231449 bytes beside 1000 static ones; a block of sm_90 has 232448"));
  CHECK(ww::resident_clusters_of(kernel, 2, 256, 200000) == 66);
  CHECK(ww::resident_clusters_of(kernel, 8, 256, 200000) == 16);
  CHECK_THROWS_AS(ww::resident_clusters_of(kernel, 9, 256), ww::cuda_error);
  CHECK_THROWS_AS(ww::resident_clusters_of(kernel, 0, 256), ww::cuda_error);
  ww::testing::reset_host_runtime();
}

TEST_CASE("a device that is not in the table throws", "[tune][occupancy]") {
  ww::testing::host_runtime_options newer;
  newer.profile.compute_capability_minor = 7;
  ww::testing::reset_host_runtime(newer);
  CHECK_THROWS_WITH(ww::architecture_of(ww::current_device()), contains("compute capability 9.7"));
  CHECK_THROWS_AS(ww::occupancy_of(plain_kernel, 256), std::invalid_argument);
  ww::testing::reset_host_runtime();
}

TEST_CASE("failing queries are reported", "[tune][occupancy]") {
  ww::testing::reset_host_runtime();
  ww::testing::set_function_attributes(address(&plain_kernel), attributes(40, 0, 1024, 49152));
  for (char const* const name :
       {"cudaFuncGetAttributes", "cudaDeviceGetAttribute", "cudaGetDevice"}) {
    ww::testing::scoped_fault_plan const faults{
        ww::testing::fault_plan{}.fail(name, 1, cudaErrorInvalidDevice)};
    CHECK_THROWS_WITH(ww::occupancy_of(plain_kernel, 256), contains(name));
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  CHECK_THROWS_AS(ww::occupancy_of(plain_kernel, 0), std::invalid_argument);
  ww::testing::reset_host_runtime();
}

#endif
