// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernel attributes, and occupancy calculated by the toolkit's cuda_occupancy.h.
#include <cstdint>
#include <cstdlib>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#include <cuda_occupancy.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include "runtime.hpp"

namespace warpwright::host {

// The attributes of a plain elementwise kernel.
cudaFuncAttributes default_function_attributes(runtime const& rt) {
  cudaFuncAttributes attributes = {};
  attributes.maxThreadsPerBlock = 1024;
  attributes.numRegs = 32;
  auto const& profile = rt.options.profile;
  attributes.binaryVersion =
      profile.compute_capability_major * 10 + profile.compute_capability_minor;
  attributes.ptxVersion = attributes.binaryVersion;
  attributes.maxDynamicSharedSizeBytes = 48 * 1024;
  attributes.preferredShmemCarveout = -1;
  return attributes;
}

namespace {

cudaOccDeviceProp occupancy_device(device_state const& device) {
  cudaOccDeviceProp properties(device.properties);
  return properties;
}

cudaOccFuncAttributes occupancy_function(cudaFuncAttributes const& attributes) {
  cudaOccFuncAttributes function(attributes);
  function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  return function;
}

cudaOccDeviceState occupancy_state(cudaFuncAttributes const& attributes) {
  cudaOccDeviceState state;
  state.carveoutConfig = attributes.preferredShmemCarveout;
  return state;
}

cudaError_t active_blocks(runtime& rt, int* blocks, void const* function, int threads,
                          std::size_t dynamic_bytes, unsigned flags) {
  constexpr unsigned known = cudaOccupancyDisableCachingOverride;
  if (blocks == nullptr || threads <= 0 || (flags & ~known) != 0) return cudaErrorInvalidValue;
  runtime_lock lock(rt.mutex);
  auto const it = rt.functions.find(function);
  if (it == rt.functions.end()) return cudaErrorInvalidDeviceFunction;
  cudaOccDeviceProp const properties = occupancy_device(current_device(rt));
  cudaOccFuncAttributes const attributes = occupancy_function(it->second);
  cudaOccDeviceState const state = occupancy_state(it->second);
  cudaOccResult result;
  cudaOccError const code = cudaOccMaxActiveBlocksPerMultiprocessor(
      &result, &properties, &attributes, &state, threads, dynamic_bytes);
  if (code != CUDA_OCC_SUCCESS) return cudaErrorInvalidValue;
  *blocks = result.activeBlocksPerMultiprocessor;
  return cudaSuccess;
}

}  // namespace
}  // namespace warpwright::host

using namespace warpwright::host;

WARPWRIGHT_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                                 void const* function) {
  static call_site site{"cudaFuncGetAttributes"};
  return api(site, needs::device, [&](runtime& rt) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const it = rt.functions.find(function);
    if (it == rt.functions.end()) return cudaErrorInvalidDeviceFunction;
    *attributes = it->second;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaFuncGetName(char const** name, void const* function) {
  static call_site site{"cudaFuncGetName"};
  return api(site, needs::device, [&](runtime& rt) {
    if (name == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const it = rt.function_names.find(function);
    if (it == rt.function_names.end()) return cudaErrorInvalidDeviceFunction;
    *name = it->second.c_str();
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaFuncGetParamInfo(void const* function, size_t index, size_t* offset,
                                                size_t* bytes) {
  static call_site site{"cudaFuncGetParamInfo"};
  return api(site, needs::device, [&](runtime& rt) {
    if (offset == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const it = rt.function_arguments.find(function);
    if (it == rt.function_arguments.end()) return cudaErrorInvalidDeviceFunction;
    if (index != 0 || it->second == 0) return cudaErrorInvalidValue;
    *offset = 0;
    if (bytes != nullptr) *bytes = it->second;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaFuncSetAttribute(void const* function, cudaFuncAttribute which,
                                                int value) {
  static call_site site{"cudaFuncSetAttribute"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const it = rt.functions.find(function);
    if (it == rt.functions.end()) return cudaErrorInvalidDeviceFunction;
    cudaFuncAttributes& attributes = it->second;
    switch (static_cast<int>(which)) {
      case cudaFuncAttributeMaxDynamicSharedMemorySize: {
        std::size_t const limit = current_device(rt).properties.sharedMemPerBlockOptin;
        if (value < 0 || static_cast<std::size_t>(value) + attributes.sharedSizeBytes > limit) {
          return cudaErrorInvalidValue;
        }
        attributes.maxDynamicSharedSizeBytes = value;
        return cudaSuccess;
      }
      case cudaFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100) return cudaErrorInvalidValue;
        attributes.preferredShmemCarveout = value;
        return cudaSuccess;
      case cudaFuncAttributeNonPortableClusterSizeAllowed:
        attributes.nonPortableClusterSizeAllowed = value;
        return cudaSuccess;
      default:
        return cudaErrorInvalidValue;
    }
  });
}

WARPWRIGHT_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                         void const* function,
                                                                         int threads,
                                                                         size_t dynamic_bytes) {
  static call_site site{"cudaOccupancyMaxActiveBlocksPerMultiprocessor"};
  return api(site, needs::device, [&](runtime& rt) {
    return active_blocks(rt, blocks, function, threads, dynamic_bytes, cudaOccupancyDefault);
  });
}

WARPWRIGHT_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, void const* function, int threads, size_t dynamic_bytes, unsigned flags) {
  static call_site site{"cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"};
  return api(site, needs::device, [&](runtime& rt) {
    return active_blocks(rt, blocks, function, threads, dynamic_bytes, flags);
  });
}

WARPWRIGHT_API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes,
                                                                     void const* function,
                                                                     int blocks, int threads) {
  static call_site site{"cudaOccupancyAvailableDynamicSMemPerBlock"};
  return api(site, needs::device, [&](runtime& rt) {
    if (bytes == nullptr || blocks <= 0 || threads <= 0) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const it = rt.functions.find(function);
    if (it == rt.functions.end()) return cudaErrorInvalidDeviceFunction;
    cudaOccDeviceProp const properties = occupancy_device(current_device(rt));
    cudaOccFuncAttributes const attributes = occupancy_function(it->second);
    cudaOccDeviceState const state = occupancy_state(it->second);
    cudaOccError const code = cudaOccAvailableDynamicSMemPerBlock(bytes, &properties, &attributes,
                                                                  &state, blocks, threads);
    return code == CUDA_OCC_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
  });
}

// As if groups had 16 multiprocessors each, and the last one what is left.
WARPWRIGHT_API cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void const* function,
                                                          cudaLaunchConfig_t const* config) {
  static call_site site{"cudaOccupancyMaxActiveClusters"};
  return api(site, needs::device, [&](runtime& rt) {
    if (clusters == nullptr || config == nullptr) return cudaErrorInvalidValue;
    unsigned cluster = 1;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      if (config->attrs[i].id != cudaLaunchAttributeClusterDimension) continue;
      auto const& of = config->attrs[i].val.clusterDim;
      cluster = of.x * of.y * of.z;
    }
    int multiprocessors = 0;
    {
      runtime_lock lock(rt.mutex);
      auto const it = rt.functions.find(function);
      if (it == rt.functions.end()) return cudaErrorInvalidDeviceFunction;
      bool const allowed = cluster <= 8 || it->second.nonPortableClusterSizeAllowed != 0;
      if (cluster == 0 || cluster > 16 || !allowed) return cudaErrorInvalidClusterSize;
      multiprocessors = current_device(rt).properties.multiProcessorCount;
    }
    int blocks = 0;
    auto const threads =
        static_cast<int>(config->blockDim.x * config->blockDim.y * config->blockDim.z);
    cudaError_t const code = active_blocks(rt, &blocks, function, threads, config->dynamicSmemBytes,
                                           cudaOccupancyDefault);
    auto const of_group = [&](int size) { return size * blocks / static_cast<int>(cluster); };
    *clusters = multiprocessors / 16 * of_group(16) + of_group(multiprocessors % 16);
    return code;
  });
}
