// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Compiled by the C++ compiler and not by nvcc: pool, buffer and stream must be the same types.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

#include "parts.hpp"

namespace ww = warpwright;

namespace {

int run() {
  if (ww::device_count() == 0) {
    char const* const required = std::getenv("WARPWRIGHT_REQUIRE_GPU");
    std::puts("no usable CUDA device");
    return required != nullptr && std::strcmp(required, "1") == 0 ? 1 : 77;
  }
  constexpr std::size_t n = 1000;
  ww::memory_pool pool{ww::device_id{0}};
  ww::stream stream;
  ww::device_buffer<float> values{pool, stream, n};
  ww::check(cudaMemsetAsync(values.data(), 0, values.size_bytes(), stream.get()),
            "cudaMemsetAsync");
  for (int round = 0; round < 3; ++round) {
    add_in_program(pool, stream, values.data(), n);
    add_in_library(pool, stream, values.data(), n);
  }
  std::vector<float> host(n);
  ww::check(cudaMemcpyAsync(host.data(), values.data(), values.size_bytes(), cudaMemcpyDeviceToHost,
                            stream.get()),
            "cudaMemcpyAsync");
  stream.synchronize();
  for (float const value : host) {
    if (value < 33.0F || value > 33.0F) {
      std::printf("a value is %g; three rounds of 1 and 10 make 33\n", static_cast<double>(value));
      return 1;
    }
  }
  std::puts("33, as three rounds of 1 and 10 make");
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
