// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The occupancy of a compiled kernel on a device, with its limiting resources.
#pragma once

#include <warpwright/core/device_id.hpp>
#include <warpwright/occupancy/occupancy.hpp>

#include <cstddef>
#include <type_traits>

WARPWRIGHT_BEGIN

/// Returns the row of the table for a device.
///
/// @param device  any device of this machine
/// @return a copy of the row
/// @throws std::invalid_argument if the device's compute capability is not in the table
/// @throws cuda_error if the query fails
///
/// **Threads:** safe. **Capture:** legal. **Cost:** two attribute queries.
inline architecture architecture_of(device_id device,
                                    source_location where = source_location::current()) {
  int major = 0;
  int minor = 0;
  detail::check_with_device(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.value()), device,
      "cudaDeviceGetAttribute", where);
  detail::check_with_device(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.value()), device,
      "cudaDeviceGetAttribute", where);
  return architecture_of(major, minor, where);
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Reads the resources of a compiled kernel: registers, static shared memory, launch bounds and
/// carve-out preference.
///
/// CUDA does not report how many barriers a kernel uses; the result has 1. For a kernel with more
/// ("used N barriers" in the output of `ptxas -v`) use `.barriers(n)`.
///
/// The block size with the most warps, which does not depend on `block_threads`:
///
///   ww::suggest_block_size(ww::architecture_of(ww::current_device()),
///                          ww::resources_of(kernel, 256)).threads
///
/// @param kernel  a kernel function, or its address as `void const*`
/// @param block_threads  threads per block, at least 1
/// @param dynamic_shared_bytes  dynamic shared memory per block, in bytes
/// @return the resources on the current device
/// @throws cuda_error if `kernel` is not a kernel of the current device
///
/// **Threads:** safe. **Capture:** legal. **Cost:** one cudaFuncGetAttributes; the first query of a
/// kernel may load it.
template <typename Kernel>
kernel_resources resources_of(Kernel* kernel, int block_threads,
                              std::size_t dynamic_shared_bytes = 0,
                              source_location where = source_location::current()) {
  static_assert(std::is_function_v<Kernel> || std::is_void_v<Kernel>,
                "warpwright: pass a kernel function, or its address as void const*");
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, reinterpret_cast<void const*>(kernel)),
        "cudaFuncGetAttributes", where);
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

/// Calculates the occupancy of a compiled kernel on the current device.
///
/// The number of blocks equals cudaOccupancyMaxActiveBlocksPerMultiprocessor; the result adds the
/// limits.
///
/// The parameters are those of resources_of().
/// @return the occupancy with every limit
/// @throws std::invalid_argument if the device is not in the table, or for less than 1 thread
/// @throws cuda_error if `kernel` is not a kernel of the current device
///
/// **Threads:** safe. **Capture:** legal.
template <typename Kernel>
occupancy_result occupancy_of(Kernel* kernel, int block_threads,
                              std::size_t dynamic_shared_bytes = 0,
                              source_location where = source_location::current()) {
  architecture const device = architecture_of(current_device(where), where);
  return occupancy(device, resources_of(kernel, block_threads, dynamic_shared_bytes, where), where);
}

/// Returns how many blocks of a kernel the current device holds at once: one wave.
///
/// With so many blocks or fewer a launch takes the time of one block, with one more twice that; so
/// batches that fill whole waves are the best of all that take as long:
///
///   tuner.wave(ww::resident_blocks(kernel, 256) * items_of_a_block)
///
/// The parameters are those of resources_of().
/// @return the multiprocessors times the blocks of each; 0 if no block fits
/// @throws std::invalid_argument if the device is not in the table, or for less than 1 thread
/// @throws cuda_error if `kernel` is not a kernel of the current device
///
/// **Threads:** safe. **Capture:** legal. **Cost:** as occupancy_of().
template <typename Kernel>
std::size_t resident_blocks(Kernel* kernel, int block_threads, std::size_t dynamic_shared_bytes = 0,
                            source_location where = source_location::current()) {
  int multiprocessors = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount,
                               current_device(where).value()),
        "cudaDeviceGetAttribute", where);
  occupancy_result const each = occupancy_of(kernel, block_threads, dynamic_shared_bytes, where);
  return static_cast<std::size_t>(multiprocessors) *
         static_cast<std::size_t>(each.blocks_per_multiprocessor);
}

/// Lets launches of a kernel on the current device have more dynamic shared memory than 48 KiB,
/// which each kernel has to ask for.
/// @param dynamic_bytes  of a block, at most
/// @throws std::invalid_argument  for more than the device has beside the static shared memory
/// @throws cuda_error             if `kernel` is not a kernel of the current device
/// **Threads:** safe. **Capture:** legal. **Cost:** three calls of the runtime.
template <typename Kernel>
void allow_dynamic_shared_bytes(Kernel* kernel, std::size_t dynamic_bytes,
                                source_location where = source_location::current()) {
  architecture const a = architecture_of(current_device(where), where);
  std::size_t const fixed = resources_of(kernel, 1, 0, where).shared_bytes();
  if (fixed > a.shared_bytes_per_block_optin ||
      dynamic_bytes > a.shared_bytes_per_block_optin - fixed) {
    detail::throw_invalid_argument(detail::text{"allow_dynamic_shared_bytes: "} + dynamic_bytes +
                                       " bytes beside " + fixed + " static ones; a block of " +
                                       to_string(a).c_str() + " has " +
                                       a.shared_bytes_per_block_optin,
                                   where);
  }
  check(cudaFuncSetAttribute(reinterpret_cast<void const*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(dynamic_bytes)),
        "cudaFuncSetAttribute", where);
}

#if CUDART_VERSION >= 11080
/// As resident_clusters() of occupancy/advice.hpp, of a compiled kernel on the current device,
/// whose groups of multiprocessors the runtime knows.
/// @param cluster_blocks  1 to 8; to 16 for a kernel that has
///   cudaFuncAttributeNonPortableClusterSizeAllowed
/// @throws cuda_error  for another size, below compute capability 9.0, or for no kernel
/// **Threads:** safe. **Capture:** legal. **Cost:** a call of the runtime.
template <typename Kernel>
int resident_clusters_of(Kernel* kernel, int cluster_blocks, int block_threads,
                         std::size_t dynamic_shared_bytes = 0,
                         source_location where = source_location::current()) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(cluster_blocks);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3{static_cast<unsigned>(cluster_blocks)};
  config.blockDim = dim3{static_cast<unsigned>(block_threads)};
  config.dynamicSmemBytes = dynamic_shared_bytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, reinterpret_cast<void const*>(kernel), &config),
        "cudaOccupancyMaxActiveClusters", where);
  return clusters;
}
#endif

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

WARPWRIGHT_END
