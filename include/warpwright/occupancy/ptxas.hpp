// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of a build, from what `nvcc -Xptxas -v` (or --resource-usage) prints:
//
//   auto const kernels = ww::parse_ptxas(log);          // text of the whole build
//   std::puts(ww::to_text(kernels, 256).c_str());       // with blocks of 256 threads, worst first
//
// **Threads:** safe. **Capture:** legal; no CUDA call.
#pragma once

#include <warpwright/occupancy/advice.hpp>

#include <cstddef>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// A kernel as ptxas has compiled it for one architecture.
struct ptxas_kernel {
  std::string name;  ///< as in the object file
  architecture device{};
  kernel_resources resources{};  ///< but for threads and dynamic shared memory, which ptxas does
                                 ///< not know
  std::size_t stack_bytes = 0;
  std::size_t spill_store_bytes = 0;  ///< registers that are kept in local memory
  std::size_t spill_load_bytes = 0;
};

/// Reads a build's output: lines of ptxas and of nvlink (`-Xnvlink -v`), with or without a prefix;
/// others are skipped. With `-rdc=true` ptxas does not know the functions that a kernel calls: what
/// nvlink says replaces its registers, barriers and shared memory.
/// @return the kernels in their order, as often as they are compiled
/// @throws std::invalid_argument  naming the line that it cannot read, or that is for an
///   architecture that is not in the table, or that there is no kernel
[[nodiscard]] std::vector<ptxas_kernel> parse_ptxas(
    std::string const& text, source_location where = source_location::current());

/// A line for each kernel, the one with the lowest occupancy first, and of equal ones that which
/// spills most; below it the cheapest change that needs no more threads. The same kernel of several
/// files is listed once.
/// @param threads       of a block
/// @param dynamic_bytes  of shared memory of a block
[[nodiscard]] std::string to_text(std::vector<ptxas_kernel> const& kernels, int threads = 256,
                                  std::size_t dynamic_bytes = 0);

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/occupancy/detail/ptxas_definitions.hpp>
#endif
