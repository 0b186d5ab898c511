// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a plan has to know of a GPU to say how a kernel fills it and how long that takes: a plain
// value, of a GPU that is here or of one that is not.
//
//   ew::plan(a, ew::gpus::h100_sxm).explain();                        // needs no GPU
//   ew::plan(a, ew::architecture::of(warpwright::device_id{0})).explain();
#pragma once

#include <warpwright/core/device_id.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace ew {

/// A GPU as plan() sees it. Change what differs on yours: `copy_bytes_per_second` above all, to
/// what a large copy from device memory to device memory reaches there.
struct architecture {
  char name[64] = "";
  int major = 0;  ///< compute capability, major
  int minor = 0;  ///< compute capability, minor
  int multiprocessors = 0;
  int threads_per_multiprocessor = 0;  ///< resident at most
  int blocks_per_multiprocessor = 0;   ///< resident at most
  double peak_bytes_per_second = 0;    ///< of device memory, as published or reported
  /// What a copy on the device reaches, read and written bytes together; 0: not measured, and
  /// expected times are least times, at the peak.
  double copy_bytes_per_second = 0;
  /// From one small kernel to the next of a busy stream. As measured on an H100 (bench/results, 20
  /// launches back to back), and taken for the others, of which nothing is measured.
  double launch_seconds = 3.3e-6;
  std::size_t l2_bytes = 0;

  /// @return the bandwidth that expected times go by: the copy's, or the peak where that is unknown
  [[nodiscard]] constexpr double bytes_per_second() const noexcept {
    return copy_bytes_per_second > 0 ? copy_bytes_per_second : peak_bytes_per_second;
  }

  /// Reads a device's figures from the CUDA runtime.
  /// @param device  an ordinal below device_count()
  /// @return the figures, with the theoretical bandwidth: two transfers a memory clock over the
  ///   bus's width; 0 where the driver does not tell the clock. copy_bytes_per_second is 0.
  /// @throws cuda_error             when a query fails
  /// @throws std::invalid_argument  for an ordinal that does not exist
  /// **Threads:** any; the current device is left as found. **Capture:** untried; call it before.
  /// **Cost:** three CUDA calls.
  [[nodiscard]] static architecture of(device_id device,
                                       source_location where = source_location::current()) {
    int const count = device_count(where);
    if (device.value() < 0 || device.value() >= count) {
      warpwright::detail::throw_invalid_argument(
          warpwright::detail::text{"ew::architecture: device "} + device.value() +
              " does not exist: this process sees " + count + " (check CUDA_VISIBLE_DEVICES)",
          where);
    }
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device.value()), "cudaGetDeviceProperties", where);
    architecture a;
    for (std::size_t k = 0; k + 1 < sizeof a.name && properties.name[k] != '\0'; ++k) {
      a.name[k] = properties.name[k];
    }
    a.major = properties.major;
    a.minor = properties.minor;
    a.multiprocessors = properties.multiProcessorCount;
    a.threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor;
    a.blocks_per_multiprocessor = properties.maxBlocksPerMultiProcessor;
    a.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
    int clock_khz = 0;  // of which cudaDeviceProp has none from CUDA 13 on
    check(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, device.value()),
          "cudaDeviceGetAttribute", where);
    a.peak_bytes_per_second = 2e3 * clock_khz * (properties.memoryBusWidth / 8.0);
    return a;
  }
};

/// Well-known GPUs. Multiprocessors, bandwidth and L2 as NVIDIA publishes them, in what is named at
/// each; resident threads and blocks from the CUDA C++ Programming Guide, "Compute Capabilities".
namespace gpus {

/// H100 SXM5 80 GB: "NVIDIA H100 Tensor Core GPU Architecture" and data sheet. The copy is what
/// bench/results has of 2^26 and 2^28 floats on 2026-11-22.
inline constexpr architecture h100_sxm{"H100 SXM", 9,       0,      132,    2048,
                                       32,         3.35e12, 3.0e12, 3.3e-6, std::size_t{50} << 20U};
/// A100 SXM4 80 GB: "NVIDIA A100 Tensor Core GPU Architecture" and data sheet.
inline constexpr architecture a100_sxm_80gb{
    "A100 SXM 80GB", 8, 0, 108, 2048, 32, 2.039e12, 0, 3.3e-6, std::size_t{40} << 20U};
/// A100 SXM4 40 GB: likewise.
inline constexpr architecture a100_sxm_40gb{
    "A100 SXM 40GB", 8, 0, 108, 2048, 32, 1.555e12, 0, 3.3e-6, std::size_t{40} << 20U};
/// L4: data sheet "NVIDIA L4 Tensor Core GPU"; 7,424 cores, 128 a multiprocessor.
inline constexpr architecture l4{"L4", 8,      9, 58,     1536,
                                 24,   3.0e11, 0, 3.3e-6, std::size_t{48} << 20U};
/// L40S: data sheet "NVIDIA L40S"; 18,176 cores, 128 a multiprocessor, L2 of the AD102 in "NVIDIA
/// Ada GPU Architecture".
inline constexpr architecture l40s{"L40S", 8,       9, 142,    1536,
                                   24,     8.64e11, 0, 3.3e-6, std::size_t{96} << 20U};
/// T4: "NVIDIA Turing GPU Architecture" and data sheet.
inline constexpr architecture t4{"T4", 7,      5, 40,     1024,
                                 16,   3.2e11, 0, 3.3e-6, std::size_t{4} << 20U};
/// V100 SXM2: "NVIDIA Tesla V100 GPU Architecture" and data sheet.
inline constexpr architecture v100_sxm2{"V100 SXM2", 7,      0, 80,     2048,
                                        32,          9.0e11, 0, 3.3e-6, std::size_t{6} << 20U};
/// B200: data sheet "NVIDIA DGX B200" (64 TB/s of eight); multiprocessors and L2 as CUDA reports
/// them.
inline constexpr architecture b200{"B200", 10,     0, 148,    2048,
                                   32,     8.0e12, 0, 3.3e-6, std::size_t{126} << 20U};

}  // namespace gpus

/// How a grid fills a GPU, as far as threads and blocks decide it. Registers and shared memory may
/// let fewer blocks be resident: then there are more waves.
struct grid_fit {
  int resident_blocks = 0;      ///< of one multiprocessor at a time
  std::uint64_t waves = 0;      ///< times that the GPU is filled, the last maybe in part
  double last_wave_filled = 0;  ///< the share of the places for blocks that the last one takes
};

/// Answers how blocks fill a GPU.
/// @param blocks   of the grid
/// @param threads  of each block, 1 to 1,024
/// @param gpu      as plan() takes it
/// @return the waves; none for no blocks
[[nodiscard]] constexpr grid_fit fit_grid(std::uint64_t blocks, unsigned threads,
                                          architecture const& gpu) noexcept {
  grid_fit fit;
  if (threads == 0 || gpu.multiprocessors <= 0) return fit;
  int const by_threads = gpu.threads_per_multiprocessor / static_cast<int>(threads);
  fit.resident_blocks =
      by_threads < gpu.blocks_per_multiprocessor ? by_threads : gpu.blocks_per_multiprocessor;
  auto const places = static_cast<std::uint64_t>(fit.resident_blocks) *
                      static_cast<std::uint64_t>(gpu.multiprocessors);
  if (blocks == 0 || places == 0) return fit;
  fit.waves = (blocks - 1) / places + 1;
  fit.last_wave_filled =
      static_cast<double>(blocks - (fit.waves - 1) * places) / static_cast<double>(places);
  return fit;
}

}  // namespace ew

WARPWRIGHT_END
