// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/device_id.hpp>

#include <cstring>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// The properties of a device at the time of the query.
struct device_info {
  device_id id{0};
  std::string name;         ///< the driver's name of the device
  std::string uuid;         ///< "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
  std::string pci_address;  ///< "domain:bus:device.function", in hexadecimal
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  int multiprocessor_count = 0;
  int max_threads_per_multiprocessor = 0;
  std::size_t shared_memory_per_multiprocessor_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t memory_total_bytes = 0;
  std::size_t memory_free_bytes = 0;
  int memory_clock_khz = 0;  ///< 0 if the driver does not report it
  int memory_bus_bits = 0;
  int core_clock_khz = 0;
  /// Theoretical bandwidth of device memory in bytes per second: two transfers per clock times the
  /// bus width (CUDA C++ Best Practices Guide, "Theoretical Bandwidth Calculation"); 0 if unknown.
  double memory_bandwidth_bytes_per_s = 0.0;
  bool mig = false;           ///< a MIG (multi-instance GPU) device
  bool host_runtime = false;  ///< not a GPU: warpwright's host runtime
  int driver_version = 0;     ///< CUDA version of the driver, 1000 * major + 10 * minor
  int runtime_version = 0;    ///< CUDA version of the linked runtime, in the same form
};

namespace detail {

inline int device_attribute(cudaDeviceAttr attribute, device_id device, source_location where) {
  int value = 0;
  check_with_device(cudaDeviceGetAttribute(&value, attribute, device.value()), device,
                    "cudaDeviceGetAttribute", where);
  return value;
}

// Creates no context.
inline cudaDeviceProp device_properties(device_id device, source_location where) {
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

inline std::string uuid_text(cudaDeviceProp const& properties) {
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

/// Queries the properties of a device.
/// @param device  an ordinal below device_count()
/// @throws cuda_error             when a query fails
/// @throws std::invalid_argument  for an ordinal that does not exist
/// **Threads:** any; the current device does not change. **Capture:** not legal during a capture of
/// global mode by the calling thread. **Cost:** call it at start-up: the first query creates the
/// device's context, to read its free memory.
template <typename Info = device_info>
Info get_device_info(device_id device, source_location where = source_location::current()) {
  cudaDeviceProp const properties = detail::device_properties(device, where);
  Info info;
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

/// Queries the properties of all visible devices.
/// @return one entry per device, by ordinal; empty if there is none
/// @throws cuda_error  when a query fails
/// **Threads:** any. **Cost:** call it at start-up: it creates a context on every device.
template <typename Info = device_info>
std::vector<Info> list_devices(source_location where = source_location::current()) {
  std::vector<Info> devices;
  int const count = device_count(where);
  devices.reserve(static_cast<std::size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    devices.push_back(get_device_info(device_id{ordinal}, where));
  }
  return devices;
}

WARPWRIGHT_END
