// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The resource limits of a streaming multiprocessor of each GPU architecture, as a constexpr table.
// **Threads:** safe. **Capture:** legal; no CUDA call.
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

/// The GPU architectures in the table, by nvcc's names.
///
/// `sm_101` and `sm_110` are the same chip, Thor, before and from CUDA 13.
enum class arch : int {
  sm_60 = 60,
  sm_61 = 61,
  sm_62 = 62,
  sm_70 = 70,
  sm_72 = 72,
  sm_75 = 75,
  sm_80 = 80,
  sm_86 = 86,
  sm_87 = 87,
  sm_88 = 88,
  sm_89 = 89,
  sm_90 = 90,
  sm_100 = 100,
  sm_101 = 101,
  sm_103 = 103,
  sm_110 = 110,
  sm_120 = 120,
  sm_121 = 121,
};

/// The resource limits and allocation granularities of a multiprocessor.
///
/// A plain value. For an architecture that is not in the table, copy the nearest row, change what
/// differs, and pass that to occupancy(); the library does not guess.
///
/// Sources: CUDA Programming Guide 13, section "Compute Capabilities" (limits and shared memory
/// steps), guide 11.8 for 6.0 to 7.2, and the toolkit's cuda_occupancy.h (units, barriers).
struct architecture {
  int major = 0;                             ///< compute capability, major
  int minor = 0;                             ///< compute capability, minor
  int warp_size = 32;                        ///< threads
  int max_threads_per_block = 1024;          ///< threads
  int max_warps_per_multiprocessor = 0;      ///< resident warps
  int max_blocks_per_multiprocessor = 0;     ///< resident blocks
  int registers_per_multiprocessor = 65536;  ///< 32-bit registers
  int max_registers_per_block = 65536;       ///< 32-bit registers
  int max_registers_per_thread = 255;        ///< 32-bit registers
  int register_allocation_unit = 256;        ///< registers, the granularity of a warp's allocation
  int sub_partitions = 4;               ///< SM sub-partitions, which share the registers equally
  int barriers_per_multiprocessor = 0;  ///< hardware barriers; 0: not a limit (below 9.0)
  int max_barriers_per_block = 16;      ///< PTX barriers 0 to 15
  std::size_t shared_bytes_per_multiprocessor = 0;     ///< the largest carve-out
  std::size_t shared_bytes_per_block = 48 * 1024;      ///< without opting in
  std::size_t shared_bytes_per_block_optin = 0;        ///< with cudaFuncSetAttribute
  std::size_t reserved_shared_bytes_per_block = 1024;  ///< reserved by CUDA in every block
  std::size_t shared_allocation_unit_bytes = 128;      ///< granularity of a block's allocation
  int carveout_count = 0;                              ///< number of entries in carveout_kib
  std::uint16_t carveout_kib[10] = {};  ///< possible shared memory sizes, ascending, KiB

  /// @return the maximum number of resident threads
  [[nodiscard]] constexpr int max_threads_per_multiprocessor() const noexcept {
    return max_warps_per_multiprocessor * warp_size;
  }
};

namespace detail {

// One bit per possible carve-out, so that each row of the table is one line.
inline constexpr std::uint16_t carveout_sizes_kib[] = {0,   8,   16,  32,  64, 96,
                                                       100, 132, 164, 196, 228};
inline constexpr unsigned carveouts_fixed = 0;
inline constexpr unsigned carveouts_volta = 0x03F;   // 0 8 16 32 64 96
inline constexpr unsigned carveouts_turing = 0x018;  // 32 64
inline constexpr unsigned carveouts_100 = 0x05F;     // 0 8 16 32 64 100
inline constexpr unsigned carveouts_164 = 0x1DF;     // and 132 164
inline constexpr unsigned carveouts_228 = 0x7DF;     // and 196 228

constexpr architecture make_architecture(int major, int minor, int warps, int blocks,
                                         std::size_t shared_kib, std::size_t optin_kib,
                                         int barriers, unsigned carveouts) {
  architecture a{};
  a.major = major;
  a.minor = minor;
  a.max_warps_per_multiprocessor = warps;
  a.max_blocks_per_multiprocessor = blocks;
  a.barriers_per_multiprocessor = barriers;
  a.shared_bytes_per_multiprocessor = shared_kib * 1024;
  a.shared_bytes_per_block_optin = optin_kib * 1024;
  a.reserved_shared_bytes_per_block = major >= 8 ? 1024 : 0;
  a.shared_allocation_unit_bytes = major >= 8 ? 128 : 256;
  if (major == 6 && minor == 0) a.sub_partitions = 2;
  if (major == 6 && minor == 2) a.max_registers_per_block = 32768;
  for (unsigned i = 0; i < 11; ++i) {
    if ((carveouts >> i) & 1u) a.carveout_kib[a.carveout_count++] = carveout_sizes_kib[i];
  }
  return a;
}

inline constexpr architecture architectures[] = {
    //                warps blocks shared optin barriers
    make_architecture(6, 0, 64, 32, 64, 48, 0, carveouts_fixed),
    make_architecture(6, 1, 64, 32, 96, 48, 0, carveouts_fixed),
    make_architecture(6, 2, 64, 32, 64, 48, 0, carveouts_fixed),
    make_architecture(7, 0, 64, 32, 96, 96, 0, carveouts_volta),
    make_architecture(7, 2, 64, 32, 96, 96, 0, carveouts_volta),
    make_architecture(7, 5, 32, 16, 64, 64, 0, carveouts_turing),
    make_architecture(8, 0, 64, 32, 164, 163, 0, carveouts_164),
    make_architecture(8, 6, 48, 16, 100, 99, 0, carveouts_100),
    make_architecture(8, 7, 48, 16, 164, 163, 0, carveouts_164),
    make_architecture(8, 8, 48, 16, 100, 99, 0, carveouts_100),
    make_architecture(8, 9, 48, 24, 100, 99, 0, carveouts_100),
    make_architecture(9, 0, 64, 32, 228, 227, 64, carveouts_228),
    make_architecture(10, 0, 64, 32, 228, 227, 64, carveouts_228),
    make_architecture(10, 1, 48, 24, 228, 227, 24, carveouts_228),
    make_architecture(10, 3, 64, 32, 228, 227, 64, carveouts_228),
    make_architecture(11, 0, 48, 24, 228, 227, 24, carveouts_228),
    make_architecture(12, 0, 48, 24, 100, 99, 24, carveouts_100),
    make_architecture(12, 1, 48, 24, 100, 99, 24, carveouts_100),
};

inline constexpr std::size_t architecture_count = sizeof(architectures) / sizeof(architectures[0]);

// Returns an index, not a pointer: with -fsanitize=undefined GCC does not treat the comparison of
// an element's address with null as a constant expression.
constexpr std::size_t architecture_index(int major, int minor) noexcept {
  std::size_t i = 0;
  while (i < architecture_count &&
         (architectures[i].major != major || architectures[i].minor != minor)) {
    ++i;
  }
  return i;
}

// Not constexpr on purpose: a call in a constant expression is an error that names this function.
[[noreturn]] WARPWRIGHT_COLD void throw_unknown_compute_capability(int major, int minor,
                                                                   source_location where);

}  // namespace detail

/// Finds the row of a compute capability, or null.
///
/// @param major compute capability, major
/// @param minor compute capability, minor
/// @return the row, of static lifetime, or null if it is not in the table
constexpr architecture const* find_architecture(int major, int minor) noexcept {
  std::size_t const i = detail::architecture_index(major, minor);
  return i < detail::architecture_count ? &detail::architectures[i] : nullptr;
}

/// Returns the row of a compute capability.
///
/// @return a copy of the row
/// @throws std::invalid_argument if it is not in the table; in a constant expression this is a
///   compile error that names `throw_unknown_compute_capability`
constexpr architecture architecture_of(int major, int minor,
                                       source_location where = source_location::current()) {
  std::size_t const i = detail::architecture_index(major, minor);
  if (i == detail::architecture_count) {
    detail::throw_unknown_compute_capability(major, minor, where);
  }
  return detail::architectures[i];
}

/// Returns the row of a named architecture; see the overload above.
constexpr architecture architecture_of(arch name,
                                       source_location where = source_location::current()) {
  return architecture_of(static_cast<int>(name) / 10, static_cast<int>(name) % 10, where);
}

/// The name of an architecture as nvcc writes it: "sm_90".
std::string to_string(architecture const& a);

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/architecture_definitions.hpp>
#endif
