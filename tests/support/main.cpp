// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The main function of the tests. A CUDA build without a GPU exits with ctest's skip code, or fails
// if WARPWRIGHT_REQUIRE_GPU=1.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#if WARPWRIGHT_CATCH2_VERSION_MAJOR >= 3
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

int main(int argc, char** argv) {
#if !WARPWRIGHT_HOST_RUNTIME
  int devices = 0;
  cudaError_t const status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    char const* const required = std::getenv("WARPWRIGHT_REQUIRE_GPU");
    bool const fail = required != nullptr && std::strcmp(required, "1") == 0;
    std::printf("%s: no usable CUDA device (%s)\n", fail ? "FAILED" : "SKIPPED",
                status == cudaSuccess ? "none is visible" : cudaGetErrorString(status));
    return fail ? 1 : 77;
  }
#endif
  return Catch::Session().run(argc, argv);
}
