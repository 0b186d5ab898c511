// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Devices: properties, limits, peer access.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "graph.hpp"
#include "runtime.hpp"

namespace warpwright::host {
namespace {

constexpr int registers_per_multiprocessor = 65536;

void fill_properties(device_state& device) {
  testing::device_profile const& profile = device.profile;
  cudaDeviceProp& p = device.properties;
  p = {};
  std::snprintf(p.name, sizeof p.name, "%s (host runtime)", profile.name.c_str());
  // A recognisable UUID: "warpwright-host" and the ordinal.
  char const mark[16] = {'w', 'a', 'r', 'p', 'w', 'r', 'i', 'g',
                         'h', 't', '-', 'h', 'o', 's', 't', 0};
  std::memcpy(p.uuid.bytes, mark, sizeof mark);
  p.uuid.bytes[15] = static_cast<char>(device.ordinal);
  p.totalGlobalMem = device.memory_bytes;
  p.sharedMemPerBlock = 48 * 1024;
  p.regsPerBlock = 65536;
  p.warpSize = 32;
  p.memPitch = 2147483647;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 65536;
  p.major = profile.compute_capability_major;
  p.minor = profile.compute_capability_minor;
  p.textureAlignment = 512;
  p.texturePitchAlignment = 32;
  p.multiProcessorCount = profile.multiprocessor_count;
  p.canMapHostMemory = 1;
  p.surfaceAlignment = 512;
  p.concurrentKernels = 1;
  p.ECCEnabled = profile.ecc ? 1 : 0;
  p.pciBusID = device.ordinal + 1;
  p.asyncEngineCount = 3;
  p.unifiedAddressing = 1;
  p.memoryBusWidth = profile.memory_bus_width_bits;
  p.l2CacheSize = static_cast<int>(profile.l2_cache_bytes);
  p.maxThreadsPerMultiProcessor = profile.threads_per_multiprocessor;
  p.streamPrioritiesSupported = 1;
  p.globalL1CacheSupported = 1;
  p.localL1CacheSupported = 1;
  p.sharedMemPerMultiprocessor = profile.shared_bytes_per_multiprocessor;
  p.regsPerMultiprocessor = registers_per_multiprocessor;
  p.managedMemory = 1;
  p.multiGpuBoardGroupID = device.ordinal;
  p.concurrentManagedAccess = 1;
  p.computePreemptionSupported = 1;
  p.canUseHostPointerForRegisteredMem = 1;
  p.cooperativeLaunch = 1;
  p.sharedMemPerBlockOptin = profile.shared_bytes_per_block_optin;
  p.maxBlocksPerMultiProcessor = profile.blocks_per_multiprocessor;
  p.reservedSharedMemPerBlock = p.major >= 8 ? 1024 : 0;
  p.persistingL2CacheMaxSize = p.major >= 8 ? p.l2CacheSize * 5 / 8 : 0;
  p.accessPolicyMaxWindowSize = p.major >= 8 ? 134213632 : 0;
  p.hostRegisterSupported = 1;
  p.memoryPoolsSupported = 1;
  p.clusterLaunch = p.major >= 9 ? 1 : 0;
  p.deviceNumaId = -1;
  p.hostNumaId = -1;
}

int single_to_double_ratio(cudaDeviceProp const& p) {
  bool const data_centre = p.minor == 0 && (p.major == 6 || p.major == 7 || p.major == 8 ||
                                            p.major == 9 || p.major == 10);
  return data_centre ? 2 : (p.major == 8 || p.major == 12) ? 64 : 32;
}

cudaError_t set_flags(runtime& rt, device_state& device, unsigned flags) {
  constexpr unsigned known =
      cudaDeviceScheduleMask | cudaDeviceMapHost | cudaDeviceLmemResizeToMax | cudaDeviceSyncMemops;
  if ((flags & ~known) != 0) return cudaErrorInvalidValue;
  runtime_lock lock(rt.mutex);
  device.device_flags = flags;
  return cudaSuccess;
}

cudaError_t synchronize_device(runtime& rt) {
  runtime_lock lock(rt.mutex);
  device_state& device = current_device(rt);
  if (cudaError_t const code = forbid_device_wait(rt, device)) return code;
  if (cudaError_t const code = forbid_unsafe(rt)) return code;
  wait_for_device(rt, lock, device);
  trim_pools_after_sync(rt);
  return sticky_error(rt);
}

}  // namespace

cudaError_t device_attribute(device_state const& device, cudaDeviceAttr which, int& value) {
  cudaDeviceProp const& p = device.properties;
  switch (static_cast<int>(which)) {
    case cudaDevAttrMaxThreadsPerBlock:
      value = p.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxBlockDimX:
      value = p.maxThreadsDim[0];
      break;
    case cudaDevAttrMaxBlockDimY:
      value = p.maxThreadsDim[1];
      break;
    case cudaDevAttrMaxBlockDimZ:
      value = p.maxThreadsDim[2];
      break;
    case cudaDevAttrMaxGridDimX:
      value = p.maxGridSize[0];
      break;
    case cudaDevAttrMaxGridDimY:
      value = p.maxGridSize[1];
      break;
    case cudaDevAttrMaxGridDimZ:
      value = p.maxGridSize[2];
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      value = static_cast<int>(p.sharedMemPerBlock);
      break;
    case cudaDevAttrTotalConstantMemory:
      value = static_cast<int>(p.totalConstMem);
      break;
    case cudaDevAttrWarpSize:
      value = p.warpSize;
      break;
    case cudaDevAttrMaxPitch:
      value = static_cast<int>(p.memPitch);
      break;
    case cudaDevAttrMaxRegistersPerBlock:
      value = p.regsPerBlock;
      break;
    case cudaDevAttrClockRate:
      value = device.profile.core_clock_khz;
      break;
    case cudaDevAttrTextureAlignment:
      value = static_cast<int>(p.textureAlignment);
      break;
    case cudaDevAttrGpuOverlap:
      value = 1;
      break;
    case cudaDevAttrMultiProcessorCount:
      value = p.multiProcessorCount;
      break;
    case cudaDevAttrKernelExecTimeout:
      value = 0;
      break;
    case cudaDevAttrIntegrated:
      value = 0;
      break;
    case cudaDevAttrCanMapHostMemory:
      value = p.canMapHostMemory;
      break;
    case cudaDevAttrComputeMode:
      value = cudaComputeModeDefault;
      break;
    case cudaDevAttrSurfaceAlignment:
      value = static_cast<int>(p.surfaceAlignment);
      break;
    case cudaDevAttrConcurrentKernels:
      value = p.concurrentKernels;
      break;
    case cudaDevAttrEccEnabled:
      value = p.ECCEnabled;
      break;
    case cudaDevAttrPciBusId:
      value = p.pciBusID;
      break;
    case cudaDevAttrPciDeviceId:
      value = p.pciDeviceID;
      break;
    case cudaDevAttrPciDomainId:
      value = p.pciDomainID;
      break;
    case cudaDevAttrTccDriver:
      value = 0;
      break;
    case cudaDevAttrMemoryClockRate:
      value = device.profile.memory_clock_khz;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      value = p.memoryBusWidth;
      break;
    case cudaDevAttrL2CacheSize:
      value = p.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      value = p.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrAsyncEngineCount:
      value = p.asyncEngineCount;
      break;
    case cudaDevAttrUnifiedAddressing:
      value = p.unifiedAddressing;
      break;
    case cudaDevAttrTexturePitchAlignment:
      value = static_cast<int>(p.texturePitchAlignment);
      break;
    case cudaDevAttrComputeCapabilityMajor:
      value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      value = p.minor;
      break;
    case cudaDevAttrStreamPrioritiesSupported:
      value = p.streamPrioritiesSupported;
      break;
    case cudaDevAttrGlobalL1CacheSupported:
      value = p.globalL1CacheSupported;
      break;
    case cudaDevAttrLocalL1CacheSupported:
      value = p.localL1CacheSupported;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      value = static_cast<int>(p.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      value = p.regsPerMultiprocessor;
      break;
    case cudaDevAttrManagedMemory:
      value = p.managedMemory;
      break;
    case cudaDevAttrIsMultiGpuBoard:
      value = p.isMultiGpuBoard;
      break;
    case cudaDevAttrMultiGpuBoardGroupID:
      value = p.multiGpuBoardGroupID;
      break;
    case cudaDevAttrHostNativeAtomicSupported:
      value = p.hostNativeAtomicSupported;
      break;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio:
      value = single_to_double_ratio(p);
      break;
    case cudaDevAttrPageableMemoryAccess:
      value = p.pageableMemoryAccess;
      break;
    case cudaDevAttrConcurrentManagedAccess:
      value = p.concurrentManagedAccess;
      break;
    case cudaDevAttrComputePreemptionSupported:
      value = p.computePreemptionSupported;
      break;
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
      value = p.canUseHostPointerForRegisteredMem;
      break;
    case cudaDevAttrCooperativeLaunch:
      value = p.cooperativeLaunch;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrCanFlushRemoteWrites:
      value = 0;
      break;
    case cudaDevAttrHostRegisterSupported:
      value = p.hostRegisterSupported;
      break;
    case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
      value = p.pageableMemoryAccessUsesHostPageTables;
      break;
    case cudaDevAttrDirectManagedMemAccessFromHost:
      value = p.directManagedMemAccessFromHost;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      value = p.maxBlocksPerMultiProcessor;
      break;
    case cudaDevAttrMaxPersistingL2CacheSize:
      value = p.persistingL2CacheMaxSize;
      break;
    case cudaDevAttrMaxAccessPolicyWindowSize:
      value = p.accessPolicyMaxWindowSize;
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      value = static_cast<int>(p.reservedSharedMemPerBlock);
      break;
    case cudaDevAttrSparseCudaArraySupported:
      value = p.sparseCudaArraySupported;
      break;
    case cudaDevAttrHostRegisterReadOnlySupported:
      value = p.hostRegisterReadOnlySupported;
      break;
    case cudaDevAttrTimelineSemaphoreInteropSupported:
      value = p.timelineSemaphoreInteropSupported;
      break;
    case cudaDevAttrMemoryPoolsSupported:
      value = p.memoryPoolsSupported;
      break;
    case cudaDevAttrGPUDirectRDMASupported:
      value = p.gpuDirectRDMASupported;
      break;
    case cudaDevAttrMemoryPoolSupportedHandleTypes:
      value = static_cast<int>(p.memoryPoolSupportedHandleTypes);
      break;
    case cudaDevAttrClusterLaunch:
      value = p.clusterLaunch;
      break;
    case cudaDevAttrIpcEventSupport:
      value = p.ipcEventSupported;
      break;
    case cudaDevAttrMemSyncDomainCount:
      value = p.major >= 9 ? 4 : 1;
      break;
    case cudaDevAttrNumaConfig:
      value = cudaDeviceNumaConfigNone;
      break;
    case cudaDevAttrNumaId:
      value = p.deviceNumaId;
      break;
    case cudaDevAttrHostNumaId:
      value = p.hostNumaId;
      break;
    case cudaDevAttrMpsEnabled:
      value = p.mpsEnabled;
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

device_state& current_device(runtime& rt) {
  return *rt.devices[static_cast<std::size_t>(this_thread.device)];
}

void make_devices(runtime& rt) {
  for (int ordinal = 0; ordinal < rt.options.device_count; ++ordinal) {
    auto device = std::make_unique<device_state>();
    device->ordinal = ordinal;
    device->profile = rt.options.profile;
    device->memory_bytes =
        rt.options.memory_bytes != 0 ? rt.options.memory_bytes : rt.options.profile.memory_bytes;
    device->peers.assign(static_cast<std::size_t>(rt.options.device_count), false);
    device->limits = {{cudaLimitStackSize, 1024},
                      {cudaLimitPrintfFifoSize, 7 * 1024 * 1024},
                      {cudaLimitMallocHeapSize, 8 * 1024 * 1024},
                      {cudaLimitDevRuntimePendingLaunchCount, 2048},
                      {cudaLimitMaxL2FetchGranularity, 64},
                      {cudaLimitPersistingL2CacheSize, 0}};
    // From 9.0 kernels cannot synchronise with kernels that they launch.
    if (device->profile.compute_capability_major < 9) {
      device->limits[cudaLimitDevRuntimeSyncDepth] = 2;
    }
    fill_properties(*device);
    make_address_range(*device);
    device->legacy = make_stream(rt, *device, stream_state::family::legacy, cudaStreamDefault, 0);
    make_default_pool(rt, *device);
    rt.devices.push_back(std::move(device));
  }
}

}  // namespace warpwright::host

using namespace warpwright::host;

WARPWRIGHT_API cudaError_t cudaGetDeviceCount(int* count) {
  static call_site site{"cudaGetDeviceCount"};
  return api(site, needs::nothing, [&](runtime& rt) {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = static_cast<int>(rt.devices.size());
    return rt.devices.empty() ? cudaErrorNoDevice : cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaSetDevice(int ordinal) {
  static call_site site{"cudaSetDevice"};
  return api(site, needs::nothing, [&](runtime& rt) {
    if (rt.devices.empty()) return cudaErrorNoDevice;
    if (device_at(rt, ordinal) == nullptr) return cudaErrorInvalidDevice;
    this_thread.device = ordinal;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGetDevice(int* ordinal) {
  static call_site site{"cudaGetDevice"};
  return api(site, needs::nothing, [&](runtime& rt) {
    if (rt.devices.empty()) return cudaErrorNoDevice;
    if (ordinal == nullptr) return cudaErrorInvalidValue;
    *ordinal = this_thread.device;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaInitDevice(int ordinal, unsigned device_flags, unsigned flags) {
  static call_site site{"cudaInitDevice"};
  return api(site, needs::nothing, [&](runtime& rt) {
    if (rt.devices.empty()) return cudaErrorNoDevice;
    device_state* device = device_at(rt, ordinal);
    if (device == nullptr) return cudaErrorInvalidDevice;
    if ((flags & cudaInitDeviceFlagsAreValid) == 0) return cudaSuccess;
    return set_flags(rt, *device, device_flags);
  });
}

WARPWRIGHT_API cudaError_t cudaSetDeviceFlags(unsigned flags) {
  static call_site site{"cudaSetDeviceFlags"};
  return api(site, needs::device,
             [&](runtime& rt) { return set_flags(rt, current_device(rt), flags); });
}

WARPWRIGHT_API cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  static call_site site{"cudaGetDeviceFlags"};
  return api(site, needs::device, [&](runtime& rt) {
    if (flags == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    *flags = current_device(rt).device_flags | cudaDeviceMapHost;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int ordinal) {
  static call_site site{"cudaDeviceGetAttribute"};
  return api(site, needs::nothing, [&](runtime& rt) {
    if (rt.devices.empty()) return cudaErrorNoDevice;
    if (value == nullptr) return cudaErrorInvalidValue;
    device_state const* device = device_at(rt, ordinal);
    if (device == nullptr) return cudaErrorInvalidDevice;
    return device_attribute(*device, which, *value);
  });
}

WARPWRIGHT_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int ordinal) {
  static call_site site{"cudaGetDeviceProperties"};
  return api(site, needs::nothing, [&](runtime& rt) {
    if (rt.devices.empty()) return cudaErrorNoDevice;
    if (properties == nullptr) return cudaErrorInvalidValue;
    device_state const* device = device_at(rt, ordinal);
    if (device == nullptr) return cudaErrorInvalidDevice;
    *properties = device->properties;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int ordinal) {
  static call_site site{"cudaDeviceGetPCIBusId"};
  return api(site, needs::nothing, [&](runtime& rt) {
    if (rt.devices.empty()) return cudaErrorNoDevice;
    device_state const* device = device_at(rt, ordinal);
    if (device == nullptr) return cudaErrorInvalidDevice;
    constexpr int needed = 13;  // "0000:01:00.0" and the terminator
    if (text == nullptr || length < needed) return cudaErrorInvalidValue;
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0",
                  static_cast<unsigned>(device->properties.pciBusID));
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceGetByPCIBusId(int* ordinal, char const* text) {
  static call_site site{"cudaDeviceGetByPCIBusId"};
  return api(site, needs::nothing, [&](runtime& rt) {
    if (rt.devices.empty()) return cudaErrorNoDevice;
    if (ordinal == nullptr || text == nullptr) return cudaErrorInvalidValue;
    unsigned domain = 0, bus = 0, slot = 0;
    if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) {
      domain = 0;
      if (std::sscanf(text, "%x:%x", &bus, &slot) != 2) return cudaErrorInvalidValue;
    }
    for (auto const& device : rt.devices) {
      if (domain == 0 && static_cast<int>(bus) == device->properties.pciBusID && slot == 0) {
        *ordinal = device->ordinal;
        return cudaSuccess;
      }
    }
    return cudaErrorInvalidDevice;
  });
}

WARPWRIGHT_API cudaError_t cudaDriverGetVersion(int* version) {
  static call_site site{"cudaDriverGetVersion"};
  return api(site, needs::nothing, [&](runtime&) {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaRuntimeGetVersion(int* version) {
  static call_site site{"cudaRuntimeGetVersion"};
  return api(site, needs::nothing, [&](runtime&) {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceSynchronize() {
  static call_site site{"cudaDeviceSynchronize"};
  return api(site, needs::device, synchronize_device);
}

WARPWRIGHT_API cudaError_t cudaDeviceReset() {
  static call_site site{"cudaDeviceReset"};
  return api(site, needs::nothing, [&](runtime& rt) {
    if (rt.devices.empty()) return cudaErrorNoDevice;
    runtime_lock lock(rt.mutex);
    device_state& device = current_device(rt);
    if (cudaError_t const code = forbid_device_wait(rt, device)) return code;
    if (device.sticky.load(std::memory_order_relaxed) != 0) {
      // A sticky error cannot be cleared.
      device.sticky.store(cudaErrorDevicesUnavailable, std::memory_order_relaxed);
      return cudaSuccess;
    }
    wait_for_device(rt, lock, device);
    destroy_device_objects(rt, device);
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  static call_site site{"cudaMemGetInfo"};
  return api(site, needs::device, [&](runtime& rt) {
    if (free_bytes == nullptr || total_bytes == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    device_state const& device = current_device(rt);
    *free_bytes = device.memory_bytes - device.used_bytes;
    *total_bytes = device.memory_bytes;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  static call_site site{"cudaDeviceGetStreamPriorityRange"};
  return api(site, needs::device, [&](runtime&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit which) {
  static call_site site{"cudaDeviceGetLimit"};
  return api(site, needs::device, [&](runtime& rt) {
    if (value == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const& limits = current_device(rt).limits;
    auto const it = limits.find(which);
    if (it == limits.end()) return cudaErrorUnsupportedLimit;
    *value = it->second;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceSetLimit(cudaLimit which, size_t value) {
  static call_site site{"cudaDeviceSetLimit"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto& limits = current_device(rt).limits;
    auto const it = limits.find(which);
    if (it == limits.end()) return cudaErrorUnsupportedLimit;
    it->second = value;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceCanAccessPeer(int* can, int ordinal, int peer) {
  static call_site site{"cudaDeviceCanAccessPeer"};
  return api(site, needs::nothing, [&](runtime& rt) {
    if (rt.devices.empty()) return cudaErrorNoDevice;
    if (can == nullptr) return cudaErrorInvalidValue;
    if (device_at(rt, ordinal) == nullptr || device_at(rt, peer) == nullptr) {
      return cudaErrorInvalidDevice;
    }
    *can = ordinal != peer ? 1 : 0;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  static call_site site{"cudaDeviceEnablePeerAccess"};
  return api(site, needs::device, [&](runtime& rt) {
    if (flags != 0) return cudaErrorInvalidValue;
    if (device_at(rt, peer) == nullptr) return cudaErrorInvalidDevice;
    if (peer == this_thread.device) return cudaErrorPeerAccessUnsupported;
    runtime_lock lock(rt.mutex);
    auto& peers = current_device(rt).peers;
    if (peers[static_cast<std::size_t>(peer)]) return cudaErrorPeerAccessAlreadyEnabled;
    peers[static_cast<std::size_t>(peer)] = true;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  static call_site site{"cudaDeviceDisablePeerAccess"};
  return api(site, needs::device, [&](runtime& rt) {
    if (device_at(rt, peer) == nullptr) return cudaErrorInvalidDevice;
    runtime_lock lock(rt.mutex);
    auto& peers = current_device(rt).peers;
    if (!peers[static_cast<std::size_t>(peer)]) return cudaErrorPeerAccessNotEnabled;
    peers[static_cast<std::size_t>(peer)] = false;
    return cudaSuccess;
  });
}
