// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Sticky errors: after a kernel died, every call that needs the device says so, for good. The
// kernel dies in a process of its own: this program, started again with a hidden test.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "conformance.hpp"

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

using namespace conformance;

namespace {

// What __trap() leaves behind.
constexpr cudaError_t trapped = cudaErrorLaunchFailure;

#if defined(__CUDACC__)
__global__ void trap() { __trap(); }
#endif

void kill_the_device() {
#if WARPWRIGHT_HOST_RUNTIME
  ww::testing::poison_device(0, trapped);
#elif defined(__CUDACC__)
  trap<<<1, 1>>>();
  REQUIRE(cudaGetLastError() == cudaSuccess);
#endif
}

}  // namespace

TEST_CASE("a sticky error stays", "[.sticky]") {
  cudaStream_t s = nullptr;
  cudaEvent_t e = nullptr;
  void* p = nullptr;
  REQUIRE(cudaStreamCreate(&s) == cudaSuccess);
  REQUIRE(cudaEventCreate(&e) == cudaSuccess);
  REQUIRE(cudaMalloc(&p, 16) == cudaSuccess);
  kill_the_device();
  ANSWERS(cudaDeviceSynchronize(), trapped);
  ANSWERS(cudaDeviceSynchronize(), trapped);
  // Reading the last error takes it; the next call brings it back.
  void* none = nullptr;
  cudaStream_t no_stream = nullptr;
  cudaEvent_t no_event = nullptr;
  ANSWERS(cudaMalloc(&none, 16), trapped);
  ANSWERS(cudaFree(nullptr), trapped);
  ANSWERS(cudaMallocHost(&none, 16), trapped);
  ANSWERS(cudaMemset(p, 0, 16), trapped);
  ANSWERS(cudaStreamCreate(&no_stream), trapped);
  ANSWERS(cudaStreamQuery(s), trapped);
  ANSWERS(cudaStreamSynchronize(s), trapped);
  ANSWERS(cudaEventCreate(&no_event), trapped);
  std::size_t free_bytes = 0, total = 0;
  ANSWERS(cudaMemGetInfo(&free_bytes, &total), trapped);
  // What does not need the device still answers.
  int value = 0;
  cudaDeviceProp properties = {};
  SUCCEEDS(cudaGetDeviceCount(&value));
  SUCCEEDS(cudaGetDevice(&value));
  SUCCEEDS(cudaSetDevice(0));
  SUCCEEDS(cudaGetDeviceProperties(&properties, 0));
  SUCCEEDS(cudaDeviceGetAttribute(&value, cudaDevAttrClockRate, 0));
  SUCCEEDS(cudaDriverGetVersion(&value));
  // Another thread meets it as well.
  cudaError_t elsewhere = cudaSuccess;
  std::thread([&elsewhere] { elsewhere = cudaDeviceSynchronize(); }).join();
  CHECK(elsewhere == trapped);
  // A reset does not bring the device back to this process.
  SUCCEEDS(cudaDeviceReset());
  ANSWERS(cudaMalloc(&none, 16), cudaErrorDevicesUnavailable);
}

TEST_CASE("a dead kernel poisons its process") {
  char path[4096] = {};
  auto const length = readlink("/proc/self/exe", path, sizeof path - 1);
  REQUIRE(length > 0);
  std::string const command = "\"" + std::string(path) + "\" \"[.sticky]\" 1>&2";
  int const status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
