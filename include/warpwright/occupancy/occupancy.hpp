// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A constexpr occupancy calculator: how many blocks of a kernel are resident on one multiprocessor,
// and which resources limit them.
//
//   constexpr auto o = ww::occupancy(ww::arch::sm_90, ww::kernel_resources{}.threads(256)
//                                                         .registers(40));
//   static_assert(o.blocks_per_multiprocessor == 6 && o.limited_by(ww::resource::registers));
//
//   std::puts(ww::explain(o).c_str());  // "sm_90: 75 % (6 blocks of 256 threads, …
//
// occupancy/kernel_occupancy.hpp reads the resources of a compiled kernel. **Threads:** all of it
// is safe. **Capture:** legal, as nothing here makes a CUDA call.
#pragma once

#include <warpwright/core/architecture.hpp>
#include <warpwright/core/detail/options.hpp>

#include <cstddef>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

struct kernel_resource_values {
  int threads = 256;
  int registers = 32;
  std::size_t shared_bytes = 0;
  int barriers = 1;
  int carveout_percent = -1;
  int max_threads = 1024;
  std::size_t max_shared_bytes = static_cast<std::size_t>(-1);
};

}  // namespace detail

/// The resources of one block of a kernel: a value, each setter of which returns a changed copy.
///
/// The numbers are those that `nvcc --resource-usage` (`ptxas -v`) prints.
class kernel_resources
    : public detail::options_base<kernel_resources, detail::kernel_resource_values> {
 public:
  /// @param count  threads per block, at least 1
  constexpr self threads(int count) const { return with(&values::threads, count); }
  /// @param count  32-bit registers per thread, at least 0
  constexpr self registers(int count) const { return with(&values::registers, count); }
  /// @param bytes  shared memory per block, static and dynamic together
  constexpr self shared_bytes(std::size_t bytes) const {
    return with(&values::shared_bytes, bytes);
  }
  /// @param count  barriers per block ("used N barriers"); default 1
  constexpr self barriers(int count) const { return with(&values::barriers, count); }
  /// @param percent  preferred percentage of the unified L1 and shared memory used as shared
  ///   memory, 0 to 100, as cudaFuncAttributePreferredSharedMemoryCarveout; -1, the default: the
  ///   maximum
  constexpr self carveout_percent(int percent) const {
    return with(&values::carveout_percent, percent);
  }
  /// @param count  the kernel's limit of threads per block (`__launch_bounds__`), at least 1
  constexpr self max_threads(int count) const { return with(&values::max_threads, count); }
  /// @param bytes  the kernel's limit of shared memory per block: 48 KiB until cudaFuncSetAttribute
  ///   raises it; default: the architecture's maximum
  constexpr self max_shared_bytes(std::size_t bytes) const {
    return with(&values::max_shared_bytes, bytes);
  }

  constexpr int threads() const { return values_.threads; }
  constexpr int registers() const { return values_.registers; }
  constexpr std::size_t shared_bytes() const { return values_.shared_bytes; }
  constexpr int barriers() const { return values_.barriers; }
  constexpr int carveout_percent() const { return values_.carveout_percent; }
  constexpr int max_threads() const { return values_.max_threads; }
  constexpr std::size_t max_shared_bytes() const { return values_.max_shared_bytes; }
};

/// The resources that limit the number of resident blocks; the values are bits.
enum class resource : unsigned {
  warps = 1,          ///< warp slots
  blocks = 2,         ///< block slots
  registers = 4,      ///< the register file
  shared_memory = 8,  ///< shared memory at the effective carve-out
  barriers = 16,      ///< hardware barriers, from compute capability 9.0
};

/// Why a launch is impossible.
enum class launch_problem {
  none,                        ///< the kernel can be launched
  threads_over_limit,          ///< more threads per block than the architecture or kernel allows
  registers_over_limit,        ///< more registers per thread than the maximum (255)
  block_registers_over_limit,  ///< the registers of one block do not fit
  shared_memory_over_limit,    ///< more shared memory per block than the opt-in maximum
  shared_memory_not_opted_in,  ///< over the kernel's limit; cudaFuncSetAttribute raises it
  barriers_over_limit,         ///< more barriers per block than the maximum
};

/// An occupancy, with the limit of each resource.
struct occupancy_result {
  static constexpr int unlimited = 2147483647;  ///< the limit of a resource that is not used

  int blocks_per_multiprocessor = 0;   ///< resident blocks; 0: cannot be launched, see problem
  int warps_per_multiprocessor = 0;    ///< resident warps
  int threads_per_multiprocessor = 0;  ///< resident threads, without a partial warp's idle lanes
  double fraction = 0.0;               ///< resident warps / possible warps, 0 to 1

  int block_limit_warps = 0;          ///< blocks that the warp slots allow
  int block_limit_blocks = 0;         ///< blocks that the block slots allow
  int block_limit_registers = 0;      ///< blocks that the registers allow
  int block_limit_shared_memory = 0;  ///< blocks that the shared memory allows
  int block_limit_barriers = 0;       ///< blocks that the barriers allow
  unsigned limiters = 0;              ///< bits of `resource`: those with the lowest limit

  int warps_per_block = 0;                          ///< threads rounded up to warps
  int registers_per_block = 0;                      ///< allocated, rounding included
  std::size_t shared_bytes_per_block = 0;           ///< allocated, reserve and rounding included
  std::size_t shared_bytes_per_multiprocessor = 0;  ///< the effective carve-out
  launch_problem problem = launch_problem::none;
  architecture device{};         ///< the architecture passed to occupancy()
  kernel_resources resources{};  ///< the resources passed to occupancy()

  /// Whether a resource is one of the limiters; there can be several.
  [[nodiscard]] constexpr bool limited_by(resource r) const {
    return (limiters & static_cast<unsigned>(r)) != 0;
  }
  /// Whether the kernel needs cudaFuncSetAttribute(…MaxDynamicSharedMemorySize…) to launch.
  [[nodiscard]] constexpr bool needs_shared_memory_opt_in() const {
    return resources.shared_bytes() > device.shared_bytes_per_block;
  }
};

namespace detail {

// Not constexpr on purpose: a call in a constant expression is an error that names this function.
[[noreturn]] WARPWRIGHT_COLD void throw_invalid_kernel_resources(kernel_resources const& k,
                                                                 source_location where);

constexpr int min_of(int a, int b) { return b < a ? b : a; }
template <typename T>
constexpr T round_up(T value, T unit) {
  return (value + unit - 1) / unit * unit;
}

// The smallest carve-out of at least `bytes`, or the largest.
constexpr std::size_t carveout_bytes(architecture const& a, std::size_t bytes) {
  for (int i = 0; i < a.carveout_count; ++i) {
    std::size_t const step = std::size_t{a.carveout_kib[i]} * 1024;
    if (step >= bytes) return step;
  }
  return a.shared_bytes_per_multiprocessor;
}

constexpr std::size_t effective_carveout_bytes(architecture const& a, int percent,
                                               std::size_t needed) {
  std::size_t const requested =
      percent < 0 ? a.shared_bytes_per_multiprocessor
                  : a.shared_bytes_per_multiprocessor * static_cast<std::size_t>(percent) / 100;
  std::size_t const preferred = carveout_bytes(a, requested);
  // CUDA overrides a preference that is too small for one block.
  return preferred >= needed ? preferred : carveout_bytes(a, needed);
}

constexpr std::size_t allocated_shared_bytes(architecture const& a, std::size_t bytes) {
  return round_up(bytes + a.reserved_shared_bytes_per_block, a.shared_allocation_unit_bytes);
}

constexpr int allocated_registers_per_warp(architecture const& a, int registers) {
  return round_up(registers * a.warp_size, a.register_allocation_unit);
}

// The launch check rounds the warps up to a multiple of the sub-partitions; of 6.0, which has 2, as
// if it had 4 as the others of its family.
inline constexpr int launch_check_warps = 4;

constexpr launch_problem find_launch_problem(architecture const& a, kernel_resources const& k) {
  if (k.threads() > min_of(a.max_threads_per_block, k.max_threads())) {
    return launch_problem::threads_over_limit;
  }
  int const warps = (k.threads() + a.warp_size - 1) / a.warp_size;
  if (k.registers() > a.max_registers_per_thread) return launch_problem::registers_over_limit;
  if (allocated_registers_per_warp(a, k.registers()) * round_up(warps, launch_check_warps) >
      a.max_registers_per_block) {
    return launch_problem::block_registers_over_limit;
  }
  if (k.shared_bytes() > a.shared_bytes_per_block_optin) {
    return launch_problem::shared_memory_over_limit;
  }
  if (k.shared_bytes() > k.max_shared_bytes()) return launch_problem::shared_memory_not_opted_in;
  if (k.barriers() > a.max_barriers_per_block) return launch_problem::barriers_over_limit;
  return launch_problem::none;
}

}  // namespace detail

/// Calculates the occupancy of a kernel: the number of its blocks resident on one multiprocessor.
///
/// A kernel that cannot be launched (1,025 threads, 256 registers, more shared memory than the
/// opt-in limit) is not an error: the result has 0 blocks and a `problem`, so that a sweep may
/// exceed limits.
///
/// @param a  the architecture: `arch::sm_90`, or a row of the table that you changed
/// @param k  the resources of one block
/// @return the occupancy with every limit
/// @throws std::invalid_argument for an architecture that is not in the table, and for invalid
///   resources (no thread, negative counts, a carve-out outside of -1 to 100); in a constant
///   expression these are compile errors
///
/// **Cost:** some tens of nanoseconds.
/// Source: the toolkit's cuda_occupancy.h; the tests compare the results with it.
constexpr occupancy_result occupancy(architecture const& a, kernel_resources const& k,
                                     source_location where = source_location::current()) {
  if (k.threads() < 1 || k.registers() < 0 || k.barriers() < 0 || k.carveout_percent() < -1 ||
      k.carveout_percent() > 100 || k.max_threads() < 1) {
    detail::throw_invalid_kernel_resources(k, where);
  }
  occupancy_result o{};
  o.device = a;
  o.resources = k;
  o.problem = detail::find_launch_problem(a, k);
  if (o.problem != launch_problem::none) return o;

  o.warps_per_block = (k.threads() + a.warp_size - 1) / a.warp_size;
  o.block_limit_warps = a.max_warps_per_multiprocessor / o.warps_per_block;
  o.block_limit_blocks = a.max_blocks_per_multiprocessor;

  // Registers are allocated per warp, from the register file of the warp's sub-partition.
  int const per_warp = detail::allocated_registers_per_warp(a, k.registers());
  o.registers_per_block = per_warp * o.warps_per_block;
  o.block_limit_registers = occupancy_result::unlimited;
  if (per_warp > 0) {
    int const warps = a.registers_per_multiprocessor / a.sub_partitions / per_warp;
    o.block_limit_registers = warps * a.sub_partitions / o.warps_per_block;
  }

  o.shared_bytes_per_block = detail::allocated_shared_bytes(a, k.shared_bytes());
  o.shared_bytes_per_multiprocessor =
      detail::effective_carveout_bytes(a, k.carveout_percent(), o.shared_bytes_per_block);
  o.block_limit_shared_memory = occupancy_result::unlimited;
  if (o.shared_bytes_per_block > 0) {
    o.block_limit_shared_memory =
        static_cast<int>(o.shared_bytes_per_multiprocessor / o.shared_bytes_per_block);
  }

  o.block_limit_barriers = occupancy_result::unlimited;
  if (a.barriers_per_multiprocessor > 0 && k.barriers() > 0) {
    o.block_limit_barriers = a.barriers_per_multiprocessor / k.barriers();
  }

  int const blocks = detail::min_of(
      detail::min_of(detail::min_of(o.block_limit_warps, o.block_limit_blocks),
                     detail::min_of(o.block_limit_registers, o.block_limit_shared_memory)),
      o.block_limit_barriers);
  auto const bit = [blocks](int limit, resource r) {
    return limit == blocks ? static_cast<unsigned>(r) : 0u;
  };
  o.limiters = bit(o.block_limit_warps, resource::warps) |
               bit(o.block_limit_blocks, resource::blocks) |
               bit(o.block_limit_registers, resource::registers) |
               bit(o.block_limit_shared_memory, resource::shared_memory) |
               bit(o.block_limit_barriers, resource::barriers);
  o.blocks_per_multiprocessor = blocks;
  o.warps_per_multiprocessor = blocks * o.warps_per_block;
  o.threads_per_multiprocessor = blocks * k.threads();
  o.fraction = static_cast<double>(o.warps_per_multiprocessor) / a.max_warps_per_multiprocessor;
  return o;
}

/// Calculates the occupancy for a named architecture; see the overload above.
constexpr occupancy_result occupancy(arch name, kernel_resources const& k,
                                     source_location where = source_location::current()) {
  return occupancy(architecture_of(name, where), k, where);
}

/// Returns the maximum number of registers per thread at which a number of blocks fits: the target
/// for `__launch_bounds__` or `-maxrregcount`.
///
/// @param a  the architecture
/// @param k  the kernel; its registers are ignored
/// @param blocks  blocks per multiprocessor, at least 1
/// @return registers per thread, a multiple of 8 (or 255); 0 if that many blocks cannot fit
constexpr int max_registers_per_thread(architecture const& a, kernel_resources const& k,
                                       int blocks) {
  if (blocks < 1 || k.threads() < 1 || k.threads() > a.max_threads_per_block) return 0;
  int const warps = (k.threads() + a.warp_size - 1) / a.warp_size;
  if (warps > a.max_warps_per_multiprocessor / blocks) return 0;
  int const share = (warps * blocks + a.sub_partitions - 1) / a.sub_partitions;
  int per_warp = a.registers_per_multiprocessor / a.sub_partitions / share;
  per_warp = detail::min_of(
      per_warp, a.max_registers_per_block / detail::round_up(warps, detail::launch_check_warps));
  int const registers =
      per_warp / a.register_allocation_unit * a.register_allocation_unit / a.warp_size;
  return detail::min_of(registers, a.max_registers_per_thread);
}

/// Computes the maximum shared memory per block, static and dynamic together, at which a number of
/// blocks fits. Unlike cudaOccAvailableDynamicSMemPerBlock of cuda_occupancy.h it includes the
/// memory that CUDA reserves in each block.
///
/// @param a  the architecture
/// @param k  the kernel; its carve-out preference is used, its shared memory is ignored
/// @param blocks  blocks per multiprocessor, at least 1
/// @param bytes  receives the size, in bytes
/// @return false if that many blocks do not fit even without shared memory
constexpr bool max_shared_bytes_per_block(architecture const& a, kernel_resources const& k,
                                          int blocks, std::size_t& bytes) {
  bytes = 0;
  if (blocks < 1) return false;
  std::size_t const capacity =
      blocks == 1 ? a.shared_bytes_per_multiprocessor  // one block may override the preference
                  : detail::effective_carveout_bytes(a, k.carveout_percent(),
                                                     detail::allocated_shared_bytes(a, 1));
  std::size_t const share = capacity / static_cast<std::size_t>(blocks) /
                            a.shared_allocation_unit_bytes * a.shared_allocation_unit_bytes;
  if (share < a.reserved_shared_bytes_per_block) return false;
  bytes = share - a.reserved_shared_bytes_per_block;
  if (bytes > a.shared_bytes_per_block_optin) bytes = a.shared_bytes_per_block_optin;
  if (bytes > k.max_shared_bytes()) bytes = k.max_shared_bytes();
  return true;
}

/// A block size and its occupancy.
struct block_size_suggestion {
  int threads = 0;               ///< threads per block; 0: the kernel cannot be launched
  occupancy_result occupancy{};  ///< the occupancy at that size
};

/// Finds the block size with the most resident warps, if shared memory depends on the block size.
///
/// Among equal sizes it chooses the smallest of at least 128 threads (one warp per scheduler;
/// smaller blocks have a shorter tail), and below that the largest.
///
/// @param a  the architecture
/// @param k  the kernel; its threads are ignored
/// @param shared_bytes_of  callable, `std::size_t(int threads)`: shared memory of a block
/// @return the size and its occupancy
///
/// **Cost:** 32 calls of occupancy().
template <typename SharedBytes>
constexpr block_size_suggestion suggest_block_size(
    architecture const& a, kernel_resources const& k, SharedBytes const& shared_bytes_of,
    source_location where = source_location::current()) {
  block_size_suggestion best{};
  int const limit = detail::min_of(a.max_threads_per_block, k.max_threads());
  for (int size = a.warp_size; size - a.warp_size < limit; size += a.warp_size) {
    int const threads = detail::min_of(size, limit);
    occupancy_result const o = occupancy(
        a, k.threads(threads).shared_bytes(static_cast<std::size_t>(shared_bytes_of(threads))),
        where);
    int const gain = o.warps_per_multiprocessor - best.occupancy.warps_per_multiprocessor;
    if (gain > 0 || (gain == 0 && o.blocks_per_multiprocessor > 0 && best.threads < 128)) {
      best.threads = threads;
      best.occupancy = o;
    }
  }
  return best;
}

/// Finds the block size with the most resident warps, with the same shared memory at every size.
constexpr block_size_suggestion suggest_block_size(
    architecture const& a, kernel_resources const& k,
    source_location where = source_location::current()) {
  std::size_t const bytes = k.shared_bytes();
  return suggest_block_size(
      a, k, [bytes](int) { return bytes; }, where);
}

/// Finds the block size for a named architecture; see the overloads above.
constexpr block_size_suggestion suggest_block_size(
    arch name, kernel_resources const& k, source_location where = source_location::current()) {
  return suggest_block_size(architecture_of(name, where), k, where);
}

/// Returns the smallest shared memory carve-out that keeps all blocks of an occupancy resident,
/// which leaves the most L1 cache. Pass it to cudaFuncSetAttribute(kernel,
/// cudaFuncAttributePreferredSharedMemoryCarveout, percent).
///
/// @param o  an occupancy
/// @return percent, 0 to 100
constexpr int smallest_carveout_percent(occupancy_result const& o) {
  std::size_t const needed =
      o.shared_bytes_per_block * static_cast<std::size_t>(o.blocks_per_multiprocessor);
  // CUDA rounds a preference up to the next carve-out, so the percentage is rounded down.
  return static_cast<int>(detail::carveout_bytes(o.device, needed) * 100 /
                          o.device.shared_bytes_per_multiprocessor);
}

/// The smallest change that lets at least one more block fit.
struct occupancy_fix {
  bool found = false;            ///< whether there is such a change
  kernel_resources resources{};  ///< the kernel after the change
  occupancy_result occupancy{};  ///< the occupancy after the change
};

/// Finds the smallest reduction of registers, shared memory and barriers with which one more block
/// fits.
///
/// Only limiting resources change, each by as little as its allocation unit allows.
///
/// @param o  an occupancy with no problem
/// @return the change; not found if warp or block slots are limiting, or if no reduction suffices
constexpr occupancy_fix smallest_fix(occupancy_result const& o) {
  occupancy_fix fix{};
  if (o.problem != launch_problem::none || o.limited_by(resource::warps) ||
      o.limited_by(resource::blocks)) {
    return fix;
  }
  int const target = o.blocks_per_multiprocessor + 1;
  kernel_resources changed = o.resources;
  if (o.limited_by(resource::registers)) {
    int const registers = max_registers_per_thread(o.device, changed, target);
    // Fewer than 16 registers per thread are not practical.
    if (registers < 16) return fix;
    changed = changed.registers(registers);
  }
  if (o.limited_by(resource::shared_memory)) {
    std::size_t bytes = 0;
    if (!max_shared_bytes_per_block(o.device, changed, target, bytes)) return fix;
    changed = changed.shared_bytes(bytes);
  }
  if (o.limited_by(resource::barriers)) {
    changed = changed.barriers(o.device.barriers_per_multiprocessor / target);
  }
  fix.resources = changed;
  fix.occupancy = occupancy(o.device, changed);
  fix.found = fix.occupancy.blocks_per_multiprocessor >= target;
  return fix;
}

/// Explains an occupancy in one line: its value, the limiting resources, and the smallest changes
/// that increase it.
///
/// Example: "sm_90: 75 % (6 blocks of 256 threads, 48 of 64 warps), limited by registers: 40 -> 32
/// gives 8 blocks instead of 6".
///
/// @param o  an occupancy
/// @return one line without a newline, plain ASCII
[[nodiscard]] std::string explain(occupancy_result const& o);

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/occupancy/detail/occupancy_definitions.hpp>
#endif
