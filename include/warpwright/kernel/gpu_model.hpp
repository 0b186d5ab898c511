// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The figures of a GPU from which a plan derives how a kernel fills it and how long it takes.
//
//   ew::plan(a, ew::gpus::h100_sxm).explain();                     // needs no GPU
//   ew::plan(a, ew::gpu_model::of(warpwright::device_id{0})).explain();
#pragma once

#include <warpwright/core/architecture.hpp>
#include <warpwright/core/device_id.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace ew {

/// A GPU as plan() takes it: a plain value, of an installed GPU or of another.
///
/// A plan gives times only where copy_bytes_per_second and launch_seconds are both set, as measured
/// on that GPU.
struct gpu_model {
  char name[64] = "";
  int major = 0;  ///< compute capability, major
  int minor = 0;  ///< compute capability, minor
  int multiprocessors = 0;
  int threads_per_multiprocessor = 0;  ///< maximum resident threads
  int blocks_per_multiprocessor = 0;   ///< maximum resident blocks
  std::size_t l2_bytes = 0;
  /// Measured bandwidth of a large device-to-device copy, read and written bytes together; 0:
  /// unknown.
  double copy_bytes_per_second = 0;
  /// Measured time from one small kernel to the next in a busy stream; 0: unknown.
  double launch_seconds = 0;

  /// @return whether both measured figures are set
  [[nodiscard]] constexpr bool is_measured() const noexcept {
    return copy_bytes_per_second > 0 && launch_seconds > 0;
  }

  /// Reads a device's figures from the CUDA runtime.
  /// @param device  an ordinal below device_count()
  /// @return the figures; copy_bytes_per_second and launch_seconds are 0: set your own measurements
  /// @throws cuda_error             when a query fails
  /// @throws std::invalid_argument  for an ordinal that does not exist
  /// **Threads:** any; the current device is left as found. **Capture:** untested; call it before.
  /// **Cost:** two CUDA calls.
  [[nodiscard]] static gpu_model of(device_id device,
                                    source_location where = source_location::current()) {
    int const count = device_count(where);
    if (device.value() < 0 || device.value() >= count) {
      warpwright::detail::throw_invalid_argument(
          warpwright::detail::text{"ew::gpu_model: "} +
              warpwright::detail::missing_device(device, count),
          where);
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
    return gpu;
  }
};

/// The GPUs on which the library was measured.
namespace gpus {

/// H100 SXM5 80 GB. Multiprocessors and L2: "NVIDIA H100 Tensor Core GPU Architecture". Copies of
/// 2^26 and 2^28 floats, and 20 launches back to back: bench/results, 2026-11-22.
inline constexpr gpu_model h100_sxm{"H100 SXM",
                                    9,
                                    0,
                                    132,
                                    architecture_of(arch::sm_90).max_threads_per_multiprocessor(),
                                    architecture_of(arch::sm_90).max_blocks_per_multiprocessor,
                                    std::size_t{50} << 20U,
                                    3.0e12,
                                    3.3e-6};

}  // namespace gpus

/// How a grid fills a GPU by its threads and blocks. Registers and shared memory are not counted:
/// where they let fewer blocks be resident, there are more waves.
struct grid_fit {
  int resident_blocks = 0;      ///< of one multiprocessor
  std::uint64_t waves = 0;      ///< the last may be partial
  double last_wave_filled = 0;  ///< the last wave's blocks, as a share of all resident blocks
};

/// Computes how a grid fills a GPU.
/// @param blocks   of the grid
/// @param threads  of each block, 1 to 1,024
/// @param gpu      as for plan()
/// @return the fit; no waves for no blocks
[[nodiscard]] constexpr grid_fit fit_grid(std::uint64_t blocks, unsigned threads,
                                          gpu_model const& gpu) noexcept {
  grid_fit fit;
  if (threads == 0 || gpu.multiprocessors <= 0) return fit;
  int const by_threads = gpu.threads_per_multiprocessor / static_cast<int>(threads);
  fit.resident_blocks =
      by_threads < gpu.blocks_per_multiprocessor ? by_threads : gpu.blocks_per_multiprocessor;
  auto const resident = static_cast<std::uint64_t>(fit.resident_blocks) *
                        static_cast<std::uint64_t>(gpu.multiprocessors);
  if (blocks == 0 || resident == 0) return fit;
  fit.waves = (blocks - 1) / resident + 1;
  fit.last_wave_filled =
      static_cast<double>(blocks - (fit.waves - 1) * resident) / static_cast<double>(resident);
  return fit;
}

}  // namespace ew

WARPWRIGHT_END
