// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How many blocks of a kernel one multiprocessor holds, and why not more: a constexpr solver.
//
//   constexpr auto o = ww::occupancy(ww::arch::sm_90, ww::kernel_resources{}.threads(256)
//                                                         .registers(40));
//   static_assert(o.blocks_per_multiprocessor == 6 && o.limited_by(ww::resource::registers));
//
// tune/explain.hpp puts a result into words; tune/kernel_occupancy.hpp asks a compiled kernel.
#pragma once

#include <warpwright/tune/arch.hpp>

WARPWRIGHT_BEGIN

/// What one block of a kernel asks of a multiprocessor; every setter returns a changed copy.
///
/// The figures are those of `nvcc --resource-usage` (`ptxas -v`).
class kernel_resources {
 public:
  /// @param count  threads a block, at least 1
  [[nodiscard]] constexpr kernel_resources threads(int count) const {
    kernel_resources copy = *this;
    copy.threads_ = count;
    return copy;
  }
  /// @param count  32-bit registers a thread, at least 0
  [[nodiscard]] constexpr kernel_resources registers(int count) const {
    kernel_resources copy = *this;
    copy.registers_ = count;
    return copy;
  }
  /// @param bytes  shared memory a block, static and dynamic together
  [[nodiscard]] constexpr kernel_resources shared_bytes(std::size_t bytes) const {
    kernel_resources copy = *this;
    copy.shared_bytes_ = bytes;
    return copy;
  }
  /// @param count  barriers a block ("used N barriers"); 1 unless told
  [[nodiscard]] constexpr kernel_resources barriers(int count) const {
    kernel_resources copy = *this;
    copy.barriers_ = count;
    return copy;
  }
  /// @param percent  preferred share of the unified memory that serves as shared memory, 0 to 100,
  ///   as cudaFuncAttributePreferredSharedMemoryCarveout; -1, the default: as much as possible
  [[nodiscard]] constexpr kernel_resources carveout_percent(int percent) const {
    kernel_resources copy = *this;
    copy.carveout_percent_ = percent;
    return copy;
  }
  /// @param count  the kernel's own limit of threads a block (`__launch_bounds__`), at least 1
  [[nodiscard]] constexpr kernel_resources max_threads(int count) const {
    kernel_resources copy = *this;
    copy.max_threads_ = count;
    return copy;
  }
  /// @param bytes  the kernel's own limit of shared memory a block: 48 KiB until
  ///   cudaFuncSetAttribute raises it; unless told, what the architecture allows at most
  [[nodiscard]] constexpr kernel_resources max_shared_bytes(std::size_t bytes) const {
    kernel_resources copy = *this;
    copy.max_shared_bytes_ = bytes;
    return copy;
  }

  [[nodiscard]] constexpr int threads() const { return threads_; }
  [[nodiscard]] constexpr int registers() const { return registers_; }
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return shared_bytes_; }
  [[nodiscard]] constexpr int barriers() const { return barriers_; }
  [[nodiscard]] constexpr int carveout_percent() const { return carveout_percent_; }
  [[nodiscard]] constexpr int max_threads() const { return max_threads_; }
  [[nodiscard]] constexpr std::size_t max_shared_bytes() const { return max_shared_bytes_; }

 private:
  int threads_ = 256;
  int registers_ = 32;
  std::size_t shared_bytes_ = 0;
  int barriers_ = 1;
  int carveout_percent_ = -1;
  int max_threads_ = 1024;
  std::size_t max_shared_bytes_ = static_cast<std::size_t>(-1);
};

/// What a multiprocessor can run out of; the values are bits.
enum class resource : unsigned {
  warps = 1,          ///< warp slots
  blocks = 2,         ///< block slots
  registers = 4,      ///< the register file
  shared_memory = 8,  ///< shared memory at the carve-out in force
  barriers = 16,      ///< hardware barriers, from compute capability 9.0
};

/// Why a launch is impossible.
enum class launch_problem {
  none,                        ///< it can run
  threads_over_limit,          ///< more threads a block than the architecture or the kernel allows
  registers_over_limit,        ///< more registers a thread than an instruction can name (255)
  block_registers_over_limit,  ///< one block's registers do not fit
  shared_memory_over_limit,    ///< more shared memory than one block may have, opt-in included
  shared_memory_not_opted_in,  ///< over the kernel's own limit; cudaFuncSetAttribute raises it
  barriers_over_limit,         ///< more barriers than a block may have
};

/// A solved occupancy: a plain value with the figures that led to it.
struct occupancy_result {
  static constexpr int unlimited = 2147483647;  ///< a limit of a resource that is not used

  int blocks_per_multiprocessor = 0;   ///< resident blocks; 0: cannot run, see problem
  int warps_per_multiprocessor = 0;    ///< resident warps
  int threads_per_multiprocessor = 0;  ///< resident threads, without the idle lanes
  double fraction = 0.0;               ///< resident warps / possible warps, 0 to 1

  int block_limit_warps = 0;          ///< blocks that the warp slots would allow
  int block_limit_blocks = 0;         ///< blocks that the block slots would allow
  int block_limit_registers = 0;      ///< blocks that the registers would allow
  int block_limit_shared_memory = 0;  ///< blocks that the shared memory would allow
  int block_limit_barriers = 0;       ///< blocks that the barriers would allow
  unsigned binding = 0;               ///< bits of `resource`: all that allow no more than that

  int warps_per_block = 0;                          ///< threads rounded up to warps
  int registers_per_block = 0;                      ///< allocated, rounding included
  std::size_t shared_bytes_per_block = 0;           ///< allocated, reserve and rounding included
  std::size_t shared_bytes_per_multiprocessor = 0;  ///< the carve-out in force
  launch_problem problem = launch_problem::none;
  architecture device{};         ///< what it was solved for
  kernel_resources resources{};  ///< what it was solved with

  /// Whether a resource is among those that bind; several can bind at once.
  [[nodiscard]] constexpr bool limited_by(resource r) const {
    return (binding & static_cast<unsigned>(r)) != 0;
  }
  /// Whether the kernel needs cudaFuncSetAttribute(…MaxDynamicSharedMemorySize…) to launch.
  [[nodiscard]] constexpr bool needs_shared_memory_opt_in() const {
    return resources.shared_bytes() > device.shared_bytes_per_block;
  }
};

namespace detail {

// Not constexpr on purpose: in a constant expression the compiler names it in its error.
[[noreturn]] WARPWRIGHT_COLD inline void throw_invalid_kernel_resources(kernel_resources const& k,
                                                                        source_location where) {
  throw_invalid_argument(
      text{"kernel resources out of range: threads "} + k.threads() + " (at least 1), registers " +
          k.registers() + " (at least 0), barriers " + k.barriers() +
          " (at least 0), carve-out percent " + k.carveout_percent() +
          " (-1 to 100), the kernel's limit of threads " + k.max_threads() + " (at least 1)",
      where);
}

constexpr int min_of(int a, int b) { return b < a ? b : a; }
template <typename T>
constexpr T round_up(T value, T unit) {
  return (value + unit - 1) / unit * unit;
}

// The smallest possible carve-out of at least `bytes`; the largest if none is.
constexpr std::size_t carveout_bytes(architecture const& a, std::size_t bytes) {
  for (int i = 0; i < a.carveout_count; ++i) {
    std::size_t const step = std::size_t{a.carveout_kib[i]} * 1024;
    if (step >= bytes) return step;
  }
  return a.shared_bytes_per_multiprocessor;
}

constexpr std::size_t carveout_in_force(architecture const& a, int percent, std::size_t needed) {
  std::size_t const wanted =
      percent < 0 ? a.shared_bytes_per_multiprocessor
                  : a.shared_bytes_per_multiprocessor * static_cast<std::size_t>(percent) / 100;
  std::size_t const preferred = carveout_bytes(a, wanted);
  // A preference too small for one block gives way: it is no hard limit.
  return preferred >= needed ? preferred : carveout_bytes(a, needed);
}

constexpr std::size_t allocated_shared_bytes(architecture const& a, std::size_t bytes) {
  return round_up(bytes + a.reserved_shared_bytes_per_block, a.shared_unit_bytes);
}

constexpr int allocated_registers_per_warp(architecture const& a, int registers) {
  return round_up(registers * a.warp_size, a.register_unit);
}

constexpr launch_problem find_launch_problem(architecture const& a, kernel_resources const& k) {
  if (k.threads() > min_of(a.max_threads_per_block, k.max_threads())) {
    return launch_problem::threads_over_limit;
  }
  int const warps = (k.threads() + a.warp_size - 1) / a.warp_size;
  if (k.registers() > a.max_registers_per_thread) return launch_problem::registers_over_limit;
  // The launch check counts as if every sub-partition got the same number of warps.
  if (allocated_registers_per_warp(a, k.registers()) * round_up(warps, a.sub_partitions) >
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

/// Solves the occupancy of a kernel: how many of its blocks one multiprocessor holds at once.
///
/// What cannot be launched (1,025 threads, 256 registers, more shared memory than the opt-in limit)
/// is an answer, not an error: 0 blocks and a `problem`, so that sweeps may cross the limits.
///
/// @param a  the architecture: `arch::sm_90`, or a row that you changed
/// @param k  what one block asks for
/// @return the occupancy with every limit
/// @throws std::invalid_argument for an architecture that is not in the table, and for resources
///   without meaning (no thread, negative counts, a carve-out outside of -1 to 100); in a constant
///   expression these are compile errors
///
/// **Threads:** safe. **Capture:** legal; no CUDA call. **Cost:** some tens of nanoseconds.
/// Source: the toolkit's cuda_occupancy.h, which the tests compare with.
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

  // Registers go to warps, and each sub-partition has its own share of them.
  int const per_warp = detail::allocated_registers_per_warp(a, k.registers());
  o.registers_per_block = per_warp * o.warps_per_block;
  o.block_limit_registers = occupancy_result::unlimited;
  if (per_warp > 0) {
    int const warps = a.registers_per_multiprocessor / a.sub_partitions / per_warp;
    o.block_limit_registers = warps * a.sub_partitions / o.warps_per_block;
  }

  o.shared_bytes_per_block = detail::allocated_shared_bytes(a, k.shared_bytes());
  o.shared_bytes_per_multiprocessor =
      detail::carveout_in_force(a, k.carveout_percent(), o.shared_bytes_per_block);
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
  o.binding = bit(o.block_limit_warps, resource::warps) |
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

/// Solves the occupancy for a named architecture; see the overload above.
constexpr occupancy_result occupancy(arch name, kernel_resources const& k,
                                     source_location where = source_location::current()) {
  return occupancy(architecture_of(name, where), k, where);
}

/// The most registers a thread may use so that a given number of blocks fits: what to aim at with
/// `__launch_bounds__` or `-maxrregcount`.
///
/// @param a  the architecture
/// @param k  the kernel; its registers are not looked at
/// @param blocks  blocks a multiprocessor, at least 1
/// @return registers a thread, a multiple of 8 (or 255); 0 if that many blocks cannot fit
///
/// **Threads:** safe. **Capture:** legal; no CUDA call.
constexpr int max_registers_per_thread(architecture const& a, kernel_resources const& k,
                                       int blocks) {
  if (blocks < 1 || k.threads() < 1 || k.threads() > a.max_threads_per_block) return 0;
  int const warps = (k.threads() + a.warp_size - 1) / a.warp_size;
  if (warps > a.max_warps_per_multiprocessor / blocks) return 0;
  int const share = (warps * blocks + a.sub_partitions - 1) / a.sub_partitions;
  int per_warp = a.registers_per_multiprocessor / a.sub_partitions / share;
  per_warp = detail::min_of(per_warp,
                            a.max_registers_per_block / detail::round_up(warps, a.sub_partitions));
  int const registers = per_warp / a.register_unit * a.register_unit / a.warp_size;
  return detail::min_of(registers, a.max_registers_per_thread);
}

/// The most shared memory a block may use, static and dynamic together, so that a given number of
/// blocks fits; unlike cudaOccupancyAvailableDynamicSMemPerBlock's header it counts the system's
/// reserve of each block.
///
/// @param a  the architecture
/// @param k  the kernel; its carve-out preference counts, its shared memory is not looked at
/// @param blocks  blocks a multiprocessor, at least 1
/// @param bytes  receives the size, in bytes
/// @return false if that many blocks do not fit even without shared memory
///
/// **Threads:** safe. **Capture:** legal; no CUDA call.
constexpr bool max_shared_bytes_per_block(architecture const& a, kernel_resources const& k,
                                          int blocks, std::size_t& bytes) {
  bytes = 0;
  if (blocks < 1) return false;
  std::size_t const capacity =
      blocks == 1 ? a.shared_bytes_per_multiprocessor  // one block may override the preference
                  : detail::carveout_in_force(a, k.carveout_percent(),
                                              detail::allocated_shared_bytes(a, 1));
  std::size_t const share =
      capacity / static_cast<std::size_t>(blocks) / a.shared_unit_bytes * a.shared_unit_bytes;
  if (share < a.reserved_shared_bytes_per_block) return false;
  bytes = share - a.reserved_shared_bytes_per_block;
  if (bytes > a.shared_bytes_per_block_optin) bytes = a.shared_bytes_per_block_optin;
  if (bytes > k.max_shared_bytes()) bytes = k.max_shared_bytes();
  return true;
}

/// A block size and what it gives.
struct block_size_suggestion {
  int threads = 0;               ///< threads a block; 0: the kernel cannot run at all
  occupancy_result occupancy{};  ///< at that size
};

/// Finds the block size with the most resident warps, where shared memory depends on the size.
///
/// Among equals it takes the smallest of at least 128 threads (one warp for each scheduler; small
/// blocks leave shorter tails), and below that the largest.
///
/// @param a  the architecture
/// @param k  the kernel; its threads are not looked at
/// @param shared_bytes_of  callable, `std::size_t(int threads)`: shared memory of a block
/// @return the size and its occupancy
///
/// **Threads:** safe. **Capture:** legal; no CUDA call. **Cost:** 32 solutions.
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

/// Finds the block size with the most resident warps at the same shared memory for every size.
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

/// The smallest preference for shared memory that still holds all blocks of an occupancy: it leaves
/// the most L1 cache. Pass it to cudaFuncSetAttribute(kernel,
/// cudaFuncAttributePreferredSharedMemoryCarveout, percent).
///
/// @param o  an occupancy
/// @return percent, 0 to 100
///
/// **Threads:** safe. **Capture:** legal; no CUDA call.
constexpr int smallest_carveout_percent(occupancy_result const& o) {
  std::size_t const needed =
      o.shared_bytes_per_block * static_cast<std::size_t>(o.blocks_per_multiprocessor);
  // CUDA rounds a preference up to the next step, so the percentage itself is rounded down.
  return static_cast<int>(detail::carveout_bytes(o.device, needed) * 100 /
                          o.device.shared_bytes_per_multiprocessor);
}

/// The smallest change that lets at least one more block fit.
struct occupancy_fix {
  bool found = false;            ///< whether less of the binding resources helps
  kernel_resources resources{};  ///< the kernel after the change
  occupancy_result occupancy{};  ///< what the change gives
};

/// Finds the smallest change of registers, shared memory and barriers that lets one more block fit.
///
/// Only resources that bind are changed, each by as little as its allocation unit allows.
///
/// @param o  an occupancy with no problem
/// @return the change; not found if warp or block slots bind, or nothing can be shed
///
/// **Threads:** safe. **Capture:** legal; no CUDA call.
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
    // Below 16 registers no kernel of use compiles.
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

WARPWRIGHT_END
