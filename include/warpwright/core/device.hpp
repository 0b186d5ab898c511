// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/device_id.hpp>

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
// Creates no context.
cudaDeviceProp device_properties(device_id device, source_location where);
std::string uuid_text(cudaDeviceProp const& properties);
}  // namespace detail

/// Queries the properties of a device.
/// @param device  an ordinal below device_count()
/// @throws cuda_error             when a query fails
/// @throws std::invalid_argument  for an ordinal that does not exist
/// **Threads:** any; the current device does not change. **Capture:** not legal during a capture of
/// global mode by the calling thread. **Cost:** call it at start-up: the first query creates the
/// device's context, to read its free memory.
device_info get_device_info(device_id device, source_location where = source_location::current());

/// Queries the properties of all visible devices.
/// @return one entry per device, by ordinal; empty if there is none
/// @throws cuda_error  when a query fails
/// **Threads:** any. **Cost:** call it at start-up: it creates a context on every device.
std::vector<device_info> list_devices(source_location where = source_location::current());

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/device/device_definitions.hpp>
#endif
