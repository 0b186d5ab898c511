// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/detail/plan/elementwise_plan.hpp>

#include <new>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace ew::detail {

/// Whether an array beside n elements can be moved by vectors from the first element on.
WARPWRIGHT_ALWAYS_INLINE bool fits_fast_path(array_operand const& o, std::uint64_t n,
                                             unsigned vector) {
  if (o.kind == access_pattern::elements) {
    if (o.count != n) return false;
  } else if (o.kind == access_pattern::row) {
    if (rest_of(o.count, vector) != 0 || o.count == 0 || n % o.count != 0) return false;
  } else if (o.kind != access_pattern::single) {
    return o.kind == access_pattern::absent;
  }
  return o.address != 0 && rest_of(o.address, o.aligned_bytes) == 0;
}

/// Whether operand `k` does not overlap an output, or is an array in its place.
WARPWRIGHT_ALWAYS_INLINE bool suits_output(elementwise_types const& types, array_operand const* all,
                                           int k, array_operand const& out, std::uint64_t out_end) {
  array_operand const& o = all[k];
  if (o.address >= out_end || out.address >= o.address + o.count * o.element_bytes) return true;
  return o.address == out.address && o.element_bytes == out.element_bytes &&
         o.kind == access_pattern::elements && (types.outputs >> k & 1U) == 0;
}

WARPWRIGHT_INLINE bool on_fast_path(elementwise_types const& types, array_operand const* all) {
  std::uint64_t const n = all->count;
  std::uint64_t const end = all->address + n * all->element_bytes;
  if (n - 1 >= max_elements || !fits_fast_path(*all, n, types.vector)) return false;
  for (int k = 1; k < types.operands; ++k) {
    if (!fits_fast_path(all[k], n, types.vector) || !suits_output(types, all, k, *all, end)) {
      return false;
    }
  }
  for (std::uint64_t rest = types.outputs & (types.outputs - 1); rest != 0; rest &= rest - 1) {
    int const output = __builtin_ctzll(rest);
    std::uint64_t const output_end = all[output].address + n * all[output].element_bytes;
    for (int k = 1; k < types.operands; ++k) {
      if (k != output && !suits_output(types, all, k, all[output], output_end)) return false;
    }
  }
  return true;
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE launch_plan plan_any_arrays(elementwise_types const& types,
                                                                  array_operand const* arrays,
                                                                  source_location where) {
  alignas(operand) unsigned char memory[64 * sizeof(operand)];  // most of it is not written
  auto* const operands = reinterpret_cast<operand*>(memory);
  for (int k = 0; k < types.operands; ++k) ::new (operands + k) operand(arrays[k]);
  check_assignments(operands, types.counts, types.assignments, where);
  return operands[0].count != 0 ? plan_operands(types, operands) : launch_plan{};
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE launch_plan plan_arrays(elementwise_types const& types,
                                                              array_operand const* operands,
                                                              source_location where) {
  if (!on_fast_path(types, operands)) return plan_any_arrays(types, operands, where);
  return make_fast_path_plan(operands[0].count, types.vector, types.vectors);
}

WARPWRIGHT_INLINE launch_plan plan_operands(elementwise_types const& types,
                                            operand const* operands) {
  std::uint64_t const n = operands[0].count;
  std::uint64_t const gapped = outputs_with_gaps(types, operands);
  launch_plan plan = make_plan(operands, types.operands, n, types.vector, types.vectors, gapped);
  if ((plan.partition.wide & gapped) != gapped) {
    plan = make_plan(operands, types.operands, n, 1, types.scalars_per_thread);
    plan.partition.scalar_only = true;
    plan.partition.fast_path = false;
    plan.partition.wide = 0;
  }
  return plan;
}

WARPWRIGHT_INLINE std::uint64_t outputs_with_gaps(elementwise_types const& types,
                                                  operand const* operands) {
  std::uint64_t bits = 0;
  for (std::uint64_t rest = types.outputs; rest != 0; rest &= rest - 1) {
    if (operands[__builtin_ctzll(rest)].kind == access_pattern::view) bits |= rest & -rest;
  }
  return bits;
}

}  // namespace ew::detail

WARPWRIGHT_END_DEFINITIONS
