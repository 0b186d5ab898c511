// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/device.hpp>

#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE int device_attribute(cudaDeviceAttr attribute, device_id device,
                                       source_location where) {
  int value = 0;
  check_with_device(cudaDeviceGetAttribute(&value, attribute, device.value()), device,
                    "cudaDeviceGetAttribute", where);
  return value;
}

WARPWRIGHT_INLINE cudaDeviceProp device_properties(device_id device, source_location where) {
  int const count = device_count(where);
  if (device.value() < 0 || device.value() >= count) {
    throw_invalid_argument(missing_device(device, count), where);
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device.value()), "cudaGetDeviceProperties", where);
  return properties;
}

// The name of a MIG device includes its profile: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
inline bool is_mig(cudaDeviceProp const& properties) noexcept {
  return std::strstr(properties.name, " MIG ") != nullptr;
}

WARPWRIGHT_INLINE std::string uuid_text(cudaDeviceProp const& properties) {
  constexpr char hex[] = "0123456789abcdef";
  std::string text{is_mig(properties) ? "MIG-" : "GPU-"};
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    unsigned const byte = static_cast<unsigned char>(properties.uuid.bytes[i]);
    text += hex[byte >> 4U];
    text += hex[byte & 15U];
  }
  return text;
}

}  // namespace detail

WARPWRIGHT_INLINE device_info get_device_info(device_id device, source_location where) {
  cudaDeviceProp const properties = detail::device_properties(device, where);
  device_info info;
  info.id = device;
  info.name = properties.name;
  info.mig = detail::is_mig(properties);
  info.host_runtime = WARPWRIGHT_HOST_RUNTIME != 0;
  info.uuid = detail::uuid_text(properties);
  char pci[32] = {};
  check(cudaDeviceGetPCIBusId(pci, sizeof pci, device.value()), "cudaDeviceGetPCIBusId", where);
  info.pci_address = pci;
  info.compute_capability_major = properties.major;
  info.compute_capability_minor = properties.minor;
  info.multiprocessor_count = properties.multiProcessorCount;
  info.max_threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor;
  info.shared_memory_per_multiprocessor_bytes = properties.sharedMemPerMultiprocessor;
  info.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  info.memory_bus_bits = properties.memoryBusWidth;
  info.memory_clock_khz = detail::device_attribute(cudaDevAttrMemoryClockRate, device, where);
  info.core_clock_khz = detail::device_attribute(cudaDevAttrClockRate, device, where);
  info.memory_bandwidth_bytes_per_s =
      2.0 * 1e3 * info.memory_clock_khz * (info.memory_bus_bits / 8.0);
  {
    scoped_device const scope{device, where};
    check(cudaMemGetInfo(&info.memory_free_bytes, &info.memory_total_bytes), "cudaMemGetInfo",
          where);
  }
  check(cudaDriverGetVersion(&info.driver_version), "cudaDriverGetVersion", where);
  check(cudaRuntimeGetVersion(&info.runtime_version), "cudaRuntimeGetVersion", where);
  return info;
}

WARPWRIGHT_INLINE std::vector<device_info> list_devices(source_location where) {
  std::vector<device_info> devices;
  int const count = device_count(where);
  devices.reserve(static_cast<std::size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    devices.push_back(get_device_info(device_id{ordinal}, where));
  }
  return devices;
}

WARPWRIGHT_END
