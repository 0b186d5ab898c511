// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Sticky errors: after a kernel has failed, all calls that need the device return its error. The
// kernel fails in a process of its own: this program, started again with a hidden test.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "conformance.hpp"

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

using namespace conformance;

namespace {

// The error of __trap().
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
  RETURNS(cudaDeviceSynchronize(), trapped);
  RETURNS(cudaDeviceSynchronize(), trapped);
  // cudaGetLastError clears the error; the next call returns it again.
  void* none = nullptr;
  cudaStream_t no_stream = nullptr;
  cudaEvent_t no_event = nullptr;
  RETURNS(cudaMalloc(&none, 16), trapped);
  RETURNS(cudaFree(nullptr), trapped);
  RETURNS(cudaMallocHost(&none, 16), trapped);
  RETURNS(cudaMemset(p, 0, 16), trapped);
  RETURNS(cudaStreamCreate(&no_stream), trapped);
  RETURNS(cudaStreamQuery(s), trapped);
  RETURNS(cudaStreamSynchronize(s), trapped);
  RETURNS(cudaEventCreate(&no_event), trapped);
  std::size_t free_bytes = 0, total = 0;
  RETURNS(cudaMemGetInfo(&free_bytes, &total), trapped);
  // Calls that do not need the device still succeed.
  int value = 0;
  cudaDeviceProp properties = {};
  SUCCEEDS(cudaGetDeviceCount(&value));
  SUCCEEDS(cudaGetDevice(&value));
  SUCCEEDS(cudaSetDevice(0));
  SUCCEEDS(cudaGetDeviceProperties(&properties, 0));
  SUCCEEDS(cudaDeviceGetAttribute(&value, cudaDevAttrClockRate, 0));
  SUCCEEDS(cudaDriverGetVersion(&value));
  // Calls of another thread return it as well.
  cudaError_t elsewhere = cudaSuccess;
  std::thread([&elsewhere] { elsewhere = cudaDeviceSynchronize(); }).join();
  CHECK(elsewhere == trapped);
  // cudaDeviceReset does not clear it.
  SUCCEEDS(cudaDeviceReset());
  RETURNS(cudaMalloc(&none, 16), cudaErrorDevicesUnavailable);
}

TEST_CASE("a failed kernel is a sticky error of its process") {
  char path[4096] = {};
  auto const length = readlink("/proc/self/exe", path, sizeof path - 1);
  REQUIRE(length > 0);
  std::string const command = "\"" + std::string(path) + "\" \"[.sticky]\" 1>&2";
  int const status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
