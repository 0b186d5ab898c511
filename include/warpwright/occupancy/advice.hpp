// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What to change in a kernel so that more of its warps are resident, the cheapest change first.
//
//   for (ww::occupancy_advice const& a : ww::advise(ww::occupancy(ww::arch::sm_90, kernel))) {
//     std::printf("%s: %s\n", a.code.c_str(), a.reason.c_str());
//   }  // __launch_bounds__(256, 8): registers 40 -> 32 gives 8 blocks instead of 6
//
// **More warps are no end in itself**: they hide latency. See bytes_in_flight(), and measure.
// **Threads:** safe. **Capture:** legal; no CUDA call.
#pragma once

#include <warpwright/core/gpu_model.hpp>
#include <warpwright/occupancy/occupancy.hpp>

#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// A change of a kernel or its launch.
struct occupancy_advice {
  std::string code;              ///< what to write
  std::string reason;            ///< what it changes, and the blocks before and after
  kernel_resources resources{};  ///< behind the change
  occupancy_result occupancy{};  ///< behind the change
};

/// Finds changes with which more warps are resident, or with which a kernel that cannot be launched
/// can be: calls of the runtime (opt-in of shared memory, carve-out) first, then another size of
/// block, launch bounds that take registers, and less shared memory or fewer barriers.
/// @return those that help, the cheapest first; empty: nothing limits, or nothing helps
/// **Cost:** some microseconds.
[[nodiscard]] std::vector<occupancy_advice> advise(occupancy_result const& o);

/// How many clusters of blocks are resident at once: each in one GPC (a group of multiprocessors).
/// @param cluster_blocks  blocks of a cluster, 1 to 16
/// @param gpcs            multiprocessors of each GPC (of an H100 SXM mostly 16 or 18); below 0: 0
/// @return clusters of the whole GPU, at most INT_MAX
/// @throws std::invalid_argument  for other sizes of clusters, and below compute capability 9.0
[[nodiscard]] int resident_clusters(occupancy_result const& o, int cluster_blocks,
                                    std::vector<int> const& gpcs,
                                    source_location where = source_location::current());

/// Whether enough loads are under way for the memory's bandwidth.
struct flight {
  double bytes = 0;           ///< in flight at once, by all resident threads
  double needed = 0;          ///< bandwidth times latency, by Little's law
  double needed_threads = 0;  ///< of a multiprocessor, with as many bytes each
  /// @return the share of the bandwidth that so many bytes allow, at most 1
  [[nodiscard]] constexpr double fraction() const noexcept {
    return bytes < needed ? bytes / needed : 1.0;
  }
};
/// @param bytes_per_thread   that a thread loads before it uses the first
/// @param bytes_per_second, latency_seconds  limit::read and limit::memory_latency of
///   measure/ceilings.hpp; what is negative counts as 0
/// Example: 2,048 threads with one float each on 132 multiprocessors are 1.1 MB; 3.2 TB/s at 0.35
/// us need as much, so each is to load 8 bytes or more.
[[nodiscard]] constexpr flight bytes_in_flight(occupancy_result const& o, gpu_model const& gpu,
                                               double bytes_per_thread, double bytes_per_second,
                                               double latency_seconds) noexcept {
  flight f;
  bool const known = bytes_per_thread > 0.0 && gpu.multiprocessors > 0;
  if (known) f.bytes = bytes_per_thread * o.threads_per_multiprocessor * gpu.multiprocessors;
  double const needed = bytes_per_second * latency_seconds;
  if (bytes_per_second > 0.0 && needed > 0.0) f.needed = needed;
  f.needed_threads = known ? f.needed / bytes_per_thread / gpu.multiprocessors : 0.0;
  return f;
}

/// The same kernel on several architectures, a line each: blocks, warps, occupancy, what limits.
[[nodiscard]] std::string compare_architectures(kernel_resources const& kernel,
                                                std::vector<architecture> const& all);
/// Draws the occupancy over the threads of a block, the registers of a thread and the shared memory
/// of a block, each with the others as they are, and where the kernel is.
/// @return SVG, which refers to no other file; the caller writes it
[[nodiscard]] std::string to_svg(occupancy_result const& o, std::string const& title = "Occupancy");

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/occupancy/detail/advice_definitions.hpp>
#endif
