// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/gpu_model.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE void throw_unknown_gpu(char const* name, source_location where) {
  text known = "", candidates = "";
  for (gpu_model const* gpu : gpu_models) {
    text& list = same_product(gpu->name, name, true) ? candidates : known;
    list += text{list.empty() ? "" : ", "} + gpu->name;
  }
  if (!candidates.empty()) {
    throw_invalid_argument(text{"GPU '"} + name + "' may be one of " + candidates + ": name that",
                           where);
  }
  throw_invalid_argument(text{"there is no GPU '"} + name + "' in the table, which has " + known +
                             "; copy the nearest one and change what differs, or read an "
                             "installed one with gpu_model::of()",
                         where);
}

}  // namespace detail

WARPWRIGHT_INLINE gpu_model gpu_model::of(device_id device, source_location where) {
  int const count = device_count(where);
  if (device.value() < 0 || device.value() >= count) {
    detail::throw_invalid_argument(
        detail::text{"gpu_model: "} + detail::missing_device(device, count), where);
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device.value()), "cudaGetDeviceProperties", where);
  gpu_model gpu;
  for (std::size_t k = 0; k + 1 < sizeof gpu.name && properties.name[k] != '\0'; ++k) {
    gpu.name[k] = properties.name[k];
  }
  gpu.major = properties.major;
  gpu.minor = properties.minor;
  gpu.multiprocessors = properties.multiProcessorCount;
  gpu.threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor;
  gpu.blocks_per_multiprocessor = properties.maxBlocksPerMultiProcessor;
  gpu.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  gpu.memory_bytes = properties.totalGlobalMem;
  return gpu;
}

WARPWRIGHT_END
