// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Which CCCL a benchmark compares with: the toolkit's, or the one of WARPWRIGHT_BENCH_CCCL.
#pragma once

#include <benchmark/benchmark.h>
#include <cub/version.cuh>

#include <string>

namespace bench_support {

/// The name of a peer out of CCCL: "cub_device_reduce", or "cub_device_reduce_cccl" of another
/// CCCL than the toolkit's.
inline std::string cccl_peer(std::string name) {
#if defined(WARPWRIGHT_BENCH_CCCL)
  name += "_cccl";
#endif
  return name;
}

/// Puts the version of CCCL, which CUB shares, into the results' context.
inline void name_cccl_version() {
  benchmark::AddCustomContext("version_CCCL", std::to_string(CUB_MAJOR_VERSION) + "." +
                                                  std::to_string(CUB_MINOR_VERSION) + "." +
                                                  std::to_string(CUB_SUBMINOR_VERSION));
}

}  // namespace bench_support
