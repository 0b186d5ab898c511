// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The plan of a kernel of run(), from what its types decide and a list of its operands.
#pragma once

#include <warpwright/core/detail/config.hpp>
#include <warpwright/kernel/detail/plan/operand_checks.hpp>
#include <warpwright/kernel/detail/plan/partition.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace ew::detail {

/// What the types of assignments decide. In the list of operands each output precedes its arrays.
struct elementwise_types {
  int const* counts;  ///< of operands, of each assignment
  int assignments;
  int operands;
  std::uint64_t outputs;        ///< among the operands, a bit each
  unsigned vector;              ///< elements
  unsigned vectors;             ///< of a thread
  unsigned scalars_per_thread;  ///< where a vector is one element
};

/// Whether all operands are valid, and moved by vectors from the first element on; false where it
/// takes check_assignments() and make_plan() to tell, in three times the instructions.
bool on_fast_path(elementwise_types const& types, array_operand const* operands);

/// Checks and plans assignments of arrays alone, without views and strided outputs.
/// @return of no elements, no blocks
/// @throws std::invalid_argument  as check_assignments()
launch_plan plan_arrays(elementwise_types const& types, array_operand const* operands,
                        source_location where);

/// Plans assignments of at least one element that are checked already. Where a strided output does
/// not suit vectors the plan is of single elements, so that a warp's stores fall into few sectors.
launch_plan plan_operands(elementwise_types const& types, operand const* operands);

/// The outputs that narrow vectors cannot store, a bit each.
std::uint64_t outputs_with_gaps(elementwise_types const& types, operand const* operands);

struct tile_summary {
  std::uint64_t blocks = 0;  ///< 0: the kernel has neither tiles nor pixels
  unsigned threads = 0;
  unsigned pixels = 0;     ///< per thread; 0: the kernel has tiles
  unsigned channels = 0;   ///< of a pixel
  unsigned pitch = 0;      ///< elements of the view from one pixel to the next
  unsigned columns = 0;    ///< elements of a tile along the output's innermost dimension
  unsigned rows = 0;       ///< elements of a tile along the view's contiguous dimension
  int view = 0;            ///< the view's index among the operands
  bool vectors = false;    ///< the output is stored by vectors
  std::uint64_t wide = 0;  ///< the operands that are moved by vectors, a bit each
};

}  // namespace ew::detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/kernel/detail/plan/elementwise_plan_definitions.hpp>
#endif
