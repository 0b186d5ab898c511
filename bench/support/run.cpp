// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
#include "run.hpp"

#include <benchmark/benchmark.h>

#include <warpwright/core/device.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "warpwright_bench_commit.hpp"

namespace bench_support {

int run(int argc, char** argv, register_function const& more) {
  namespace ww = warpwright;
  try {
    if (ww::device_count() == 0) {
      std::fprintf(stderr,
                   "SKIPPED: no usable CUDA device; build the host runtime's benchmarks "
                   "with 'cmake --preset host'\n");
      return 77;
    }
    ww::device_info const device = ww::get_device_info(ww::current_device());
    benchmark::AddCustomContext("device", device.name);
    benchmark::AddCustomContext("runtime",
                                device.host_runtime ? "host (no GPU speed is measured)" : "cuda");
    benchmark::AddCustomContext("driver_cuda_version", std::to_string(device.driver_version));
    benchmark::AddCustomContext("runtime_cuda_version", std::to_string(device.runtime_version));
    benchmark::AddCustomContext("max_core_clock_khz", std::to_string(device.core_clock_khz));
    benchmark::AddCustomContext("max_memory_clock_khz", std::to_string(device.memory_clock_khz));
    benchmark::AddCustomContext("multiprocessors", std::to_string(device.multiprocessor_count));
    benchmark::AddCustomContext("warpwright_commit", WARPWRIGHT_COMMIT);
    std::string command;
    for (int i = 0; i < argc; ++i) command += (i == 0 ? "" : " ") + std::string{argv[i]};
    benchmark::AddCustomContext("command", command);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  benchmark::Initialize(&argc, argv);
  if (!more && benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  try {
    if (more) more(std::vector<std::string>(argv + 1, argv + argc));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace bench_support
