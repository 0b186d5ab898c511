// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs as products: their sizes, and the peaks of their data sheets, as a constexpr table.
//
//   constexpr ww::gpu_model gpu = ww::gpu_named("L4");  // or ww::gpus::l4
//   gpu.memory_bytes_per_second;                        // 300e9
//
// What a GPU reaches is less: measure/roofline.hpp measures it. **Threads:** safe. **Capture:**
// legal; no CUDA call but in of().
#pragma once

#include <warpwright/core/architecture.hpp>
#include <warpwright/core/device_id.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// A GPU: a plain value, of an installed GPU or of another. 0: not known.
struct gpu_model {
  char name[64] = "";
  int major = 0;  ///< compute capability, major
  int minor = 0;  ///< compute capability, minor
  int multiprocessors = 0;
  int threads_per_multiprocessor = 0;  ///< maximum resident threads
  int blocks_per_multiprocessor = 0;   ///< maximum resident blocks
  std::size_t l2_bytes = 0;
  /// Measured bandwidth of a large device-to-device copy, read and written bytes together.
  double copy_bytes_per_second = 0;
  /// Measured time from one small kernel to the next in a busy stream.
  double launch_seconds = 0;
  std::size_t memory_bytes = 0;
  double memory_bytes_per_second = 0;  ///< of the data sheet
  double clock_hz = 0;                 ///< boost, of the data sheet
  double tensor_flops = 0;  ///< of the data sheet: float16, sums in float32, without sparsity

  /// @return whether both measured figures are set
  [[nodiscard]] constexpr bool is_measured() const noexcept {
    return copy_bytes_per_second > 0 && launch_seconds > 0;
  }
  /// @return peak float32 operations a second, a fused multiply-add counting two
  [[nodiscard]] constexpr double fp32_flops() const noexcept {
    bool const half = (major == 6 && minor == 0) || major == 7 || (major == 8 && minor == 0);
    return 2.0 * (half ? 64 : 128) * multiprocessors * clock_hz;  // lanes of a multiprocessor
  }

  /// Reads a device's figures from the CUDA runtime.
  /// @param device  an ordinal below device_count()
  /// @return the figures; those that are measured or of data sheets are 0: set your own
  /// @throws cuda_error             when a query fails
  /// @throws std::invalid_argument  for an ordinal that does not exist
  /// **Threads:** any; the current device is left as found. **Capture:** untested; call it before.
  /// **Cost:** two CUDA calls.
  [[nodiscard]] static gpu_model of(device_id device,
                                    source_location where = source_location::current());
};

/// How a grid fills a GPU.
struct grid_fit {
  int resident_blocks = 0;      ///< of one multiprocessor
  std::uint64_t waves = 0;      ///< the last may be partial
  double last_wave_filled = 0;  ///< the last wave's blocks, as a share of all resident blocks

  /// @return the share of the waves' places that have a block: 1 for full waves, 0.5 for one block
  ///   more than a wave
  [[nodiscard]] constexpr double efficiency() const noexcept {
    if (waves == 0) return 0.0;
    return (static_cast<double>(waves - 1) + last_wave_filled) / static_cast<double>(waves);
  }
};

/// Computes how a grid fills a GPU.
/// @param blocks           of the grid
/// @param resident_blocks  of one multiprocessor, as occupancy() tells
/// @param multiprocessors  gpu_model::multiprocessors
/// @return the fit; no waves for no blocks
constexpr grid_fit fit_grid(std::uint64_t blocks, int resident_blocks,
                            int multiprocessors) noexcept {
  grid_fit fit;
  if (resident_blocks <= 0 || multiprocessors <= 0) return fit;
  fit.resident_blocks = resident_blocks;
  auto const resident =
      static_cast<std::uint64_t>(resident_blocks) * static_cast<std::uint64_t>(multiprocessors);
  if (blocks == 0) return fit;
  fit.waves = (blocks - 1) / resident + 1;
  fit.last_wave_filled =
      static_cast<double>(blocks - (fit.waves - 1) * resident) / static_cast<double>(resident);
  return fit;
}

namespace detail {

constexpr gpu_model make_gpu(char const* name, arch capability, int multiprocessors,
                             double memory_gib, double memory_gb_per_second, double l2_mib,
                             double clock_mhz, double tensor_tflops) {
  architecture const a = architecture_of(capability);
  gpu_model gpu;
  for (std::size_t i = 0; name[i] != '\0'; ++i) gpu.name[i] = name[i];
  gpu.major = a.major;
  gpu.minor = a.minor;
  gpu.multiprocessors = multiprocessors;
  gpu.threads_per_multiprocessor = a.max_threads_per_multiprocessor();
  gpu.blocks_per_multiprocessor = a.max_blocks_per_multiprocessor;
  gpu.l2_bytes = static_cast<std::size_t>(l2_mib * 1048576.0);
  gpu.memory_bytes = static_cast<std::size_t>(memory_gib * 1073741824.0);
  gpu.memory_bytes_per_second = memory_gb_per_second * 1e9;
  gpu.clock_hz = clock_mhz * 1e6;
  gpu.tensor_flops = tensor_tflops * 1e12;
  return gpu;
}

constexpr gpu_model measured(gpu_model gpu, double copy_bytes_per_second, double launch_seconds) {
  gpu.copy_bytes_per_second = copy_bytes_per_second;
  gpu.launch_seconds = launch_seconds;
  return gpu;
}

}  // namespace detail

/// Products. Sources: NVIDIA's data sheets of each, and its white papers of the architectures
/// Pascal GP104, Volta V100, Turing TU104, Ampere GA100 and GA102, Ada AD102 and AD104, Hopper
/// H100, RTX Blackwell GB202, HGX B200 and Jetson AGX Orin; tensor figures are those without
/// sparsity.
namespace gpus {

using detail::make_gpu;
// Multiprocessors, memory in GiB and GB/s, L2 in MiB, clock in MHz, tensor TFLOPS.
inline constexpr gpu_model p4 = make_gpu("P4", arch::sm_61, 20, 8, 192, 2, 1063, 0);
inline constexpr gpu_model v100_sxm = make_gpu("V100 SXM2", arch::sm_70, 80, 16, 900, 6, 1530, 125);
inline constexpr gpu_model t4 = make_gpu("T4", arch::sm_75, 40, 16, 320, 4, 1590, 65);
inline constexpr gpu_model a100_40gb =
    make_gpu("A100 SXM4 40GB", arch::sm_80, 108, 40, 1555, 40, 1410, 312);
inline constexpr gpu_model a100_80gb =
    make_gpu("A100 SXM4 80GB", arch::sm_80, 108, 80, 2039, 40, 1410, 312);
inline constexpr gpu_model a10 = make_gpu("A10", arch::sm_86, 72, 24, 600, 6, 1695, 125);
inline constexpr gpu_model rtx_3090 = make_gpu("RTX 3090", arch::sm_86, 82, 24, 936, 6, 1695, 71);
inline constexpr gpu_model orin = make_gpu("AGX Orin 64GB", arch::sm_87, 16, 64, 204.8, 4, 1300, 0);
inline constexpr gpu_model l4 = make_gpu("L4", arch::sm_89, 58, 24, 300, 48, 2040, 121);
inline constexpr gpu_model l40s = make_gpu("L40S", arch::sm_89, 142, 48, 864, 96, 2520, 362);
inline constexpr gpu_model rtx_4090 =
    make_gpu("RTX 4090", arch::sm_89, 128, 24, 1008, 72, 2520, 165.2);
inline constexpr gpu_model h100_pcie =
    make_gpu("H100 PCIe", arch::sm_90, 114, 80, 2039, 50, 1755, 756);
/// Measured: copies of 2^26 and 2^28 floats, and 20 launches back to back (bench/results,
/// 2026-11-22).
inline constexpr gpu_model h100_sxm = detail::measured(
    make_gpu("H100 SXM", arch::sm_90, 132, 80, 3352, 50, 1980, 989), 3.0e12, 3.3e-6);
inline constexpr gpu_model h200 = make_gpu("H200", arch::sm_90, 132, 141, 4800, 50, 1980, 989);
/// With 96 GB of HBM3; the L2 cache is not in the data sheet.
inline constexpr gpu_model gh200 = make_gpu("GH200", arch::sm_90, 132, 96, 4000, 0, 1980, 989);
/// As in HGX B200; the L2 cache is not in the data sheet.
inline constexpr gpu_model b200 = make_gpu("B200", arch::sm_100, 148, 180, 7700, 0, 1965, 2250);
inline constexpr gpu_model rtx_5090 =
    make_gpu("RTX 5090", arch::sm_120, 170, 32, 1792, 96, 2407, 209.5);

}  // namespace gpus

namespace detail {

inline constexpr gpu_model const* gpu_models[] = {
    &gpus::p4,       &gpus::v100_sxm,  &gpus::t4,       &gpus::a100_40gb, &gpus::a100_80gb,
    &gpus::a10,      &gpus::rtx_3090,  &gpus::orin,     &gpus::l4,        &gpus::l40s,
    &gpus::rtx_4090, &gpus::h100_pcie, &gpus::h100_sxm, &gpus::h200,      &gpus::gh200,
    &gpus::b200,     &gpus::rtx_5090};

// What people or CUDA call a product, where that has other words than the table.
inline constexpr char const* gpu_aliases[][2] = {
    {"V100 SXM2 16GB", "V100 SXM2"}, {"H100 80GB HBM3", "H100 SXM"},
    {"A100 40GB", "A100 SXM4 40GB"}, {"A100 80GB", "A100 SXM4 80GB"},
    {"GH200 480GB", "GH200"},        {"Orin", "AGX Orin"}};

constexpr bool separates(char c) noexcept { return c == ' ' || c == '-'; }
constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
// Without regard to case, spaces and dashes.
// @param part  b may end where a word of a does
constexpr bool same_product(char const* a, char const* b, bool part = false) noexcept {
  for (;; ++a, ++b) {
    while (separates(*b)) ++b;
    if (part && *b == '\0' && separates(*a)) return true;
    while (separates(*a)) ++a;
    if (lower(*a) != lower(*b)) return false;
    if (*a == '\0') return true;
  }
}
// A name without the words in front that are no product's.
constexpr char const* without_vendor(char const* name) noexcept {
  constexpr char const* vendors[] = {"nvidia", "geforce", "tesla", "jetson"};
  for (char const* word : vendors) {
    char const* at = name;
    for (; *word != '\0' && lower(*at) == *word; ++at) ++word;
    while (*word == '\0' && separates(*at)) name = ++at;
  }
  return name;
}

// Not constexpr on purpose: a call in a constant expression is an error that names this function.
[[noreturn]] WARPWRIGHT_COLD void throw_unknown_gpu(char const* name, source_location where);

}  // namespace detail

/// @param name  of a product as gpu_model::name or CUDA has it ("NVIDIA A100-SXM4-80GB"), case,
///   spaces and dashes apart ("rtx4090"); or its beginning, if only one product has it ("V100")
/// @return its row
/// @throws std::invalid_argument  with the list, for one that is not in the table, and with the
///   products that it may be ("H100"); in a constant expression this is a compile error that names
///   `throw_unknown_gpu`
constexpr gpu_model const& gpu_named(char const* name,
                                     source_location where = source_location::current()) {
  name = detail::without_vendor(name);
  for (auto const& alias : detail::gpu_aliases) {
    if (detail::same_product(alias[0], name)) name = alias[1];
  }
  gpu_model const* found = nullptr;
  int count = 0;
  for (gpu_model const* gpu : detail::gpu_models) {
    if (detail::same_product(gpu->name, name)) return *gpu;
    if (detail::same_product(gpu->name, name, true)) found = ++count == 1 ? gpu : nullptr;
  }
  if (found == nullptr) detail::throw_unknown_gpu(name, where);
  return *found;
}

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/gpu_model_definitions.hpp>
#endif
