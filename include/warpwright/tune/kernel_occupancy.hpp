// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The occupancy of a compiled kernel on a device, with the solver's reasons.
#pragma once

#include <warpwright/core/device_id.hpp>
#include <warpwright/tune/occupancy.hpp>

WARPWRIGHT_BEGIN

/// The row of the table for a device.
///
/// @param device  any device of this machine
/// @return a copy of the row
/// @throws std::invalid_argument if the table does not know the device's compute capability
/// @throws cuda_error if the query fails
///
/// **Threads:** safe. **Capture:** legal. **Cost:** two attribute queries.
inline architecture architecture_of(device_id device,
                                    source_location where = source_location::current()) {
  int major = 0;
  int minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.value()),
        "cudaDeviceGetAttribute", where);
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.value()),
        "cudaDeviceGetAttribute", where);
  return architecture_of(major, minor, where);
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// What a compiled kernel asks for: registers, static shared memory, launch bounds and carve-out
/// preference are read from it.
///
/// CUDA does not tell how many barriers a kernel uses; the result says 1. With more ("used N
/// barriers" of `ptxas -v`) set `.barriers(n)` on it.
///
/// @param kernel  the kernel's address
/// @param block_threads  threads a block, at least 1
/// @param dynamic_shared_bytes  dynamic shared memory a block, in bytes
/// @return the resources on the current device
/// @throws cuda_error if `kernel` is not a kernel of the current device
///
/// **Threads:** safe. **Capture:** legal. **Cost:** one cudaFuncGetAttributes; the first query of a
/// kernel may load it.
inline kernel_resources resources_of(void const* kernel, int block_threads,
                                     std::size_t dynamic_shared_bytes = 0,
                                     source_location where = source_location::current()) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes", where);
  std::size_t const dynamic_limit =
      attributes.maxDynamicSharedSizeBytes < 0
          ? 0
          : static_cast<std::size_t>(attributes.maxDynamicSharedSizeBytes);
  return kernel_resources{}
      .threads(block_threads)
      .registers(attributes.numRegs)
      .shared_bytes(attributes.sharedSizeBytes + dynamic_shared_bytes)
      .max_threads(attributes.maxThreadsPerBlock)
      .max_shared_bytes(attributes.sharedSizeBytes + dynamic_limit)
      .carveout_percent(attributes.preferredShmemCarveout);
}

/// Solves the occupancy of a compiled kernel on the current device.
///
/// The figure is that of cudaOccupancyMaxActiveBlocksPerMultiprocessor; the result adds the
/// reasons.
///
/// @param kernel  the kernel's address
/// @param block_threads  threads a block, at least 1
/// @param dynamic_shared_bytes  dynamic shared memory a block, in bytes
/// @return the occupancy with every limit
/// @throws std::invalid_argument if the table does not know the device, or for less than 1 thread
/// @throws cuda_error if `kernel` is not a kernel of the current device
///
/// **Threads:** safe. **Capture:** legal.
inline occupancy_result occupancy_of(void const* kernel, int block_threads,
                                     std::size_t dynamic_shared_bytes = 0,
                                     source_location where = source_location::current()) {
  architecture const device = architecture_of(current_device(where), where);
  return occupancy(device, resources_of(kernel, block_threads, dynamic_shared_bytes, where), where);
}

/// Solves the occupancy of a kernel given by name; see the overload above.
template <typename... Parameters>
occupancy_result occupancy_of(void (*kernel)(Parameters...), int block_threads,
                              std::size_t dynamic_shared_bytes = 0,
                              source_location where = source_location::current()) {
  return occupancy_of(reinterpret_cast<void const*>(kernel), block_threads, dynamic_shared_bytes,
                      where);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

WARPWRIGHT_END
