// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/detail/reduce/workspace.hpp>

WARPWRIGHT_BEGIN

namespace ew {

WARPWRIGHT_INLINE reduction_workspace prepare_workspace(stream_ref stream, void* data,
                                                        std::size_t bytes, source_location where) {
  auto const name = [] { return detail::text{"the workspace"}; };
  detail::check_address(reinterpret_cast<std::uintptr_t>(data), 16, 0, name, where);
  detail::check_workspace(bytes, detail::workspace_head_bytes, where,
                          "reduction_workspace_bytes() or its like");
  check(cudaMemsetAsync(data, 0, detail::workspace_head_bytes, stream.get()), "cudaMemsetAsync",
        where);
  return {data, bytes};
}

namespace detail {

WARPWRIGHT_INLINE void check_workspace(std::size_t bytes, std::size_t needed, source_location where,
                                       char const* size_function) {
  if (bytes >= needed) return;
  refuse("the workspace",
         text{"has "} + bytes + " bytes, but this call needs " + needed + "; " + size_function +
             " says how many",
         where);
}

WARPWRIGHT_INLINE void check_result_ranges(memory_range const* results, int count,
                                           void const* workspace, std::uint64_t workspace_bytes,
                                           source_location where) {
  auto const start = reinterpret_cast<std::uintptr_t>(workspace);
  for (int k = 0; k < count; ++k) {
    memory_range const& r = results[k];
    auto const name = [k] { return text{"result "} + (k + 1); };
    check_address(r.address, r.alignment, 0, name, where);
    bool const behind = r.address >= start && r.address - start >= workspace_bytes;
    if (workspace != nullptr && !behind && start < r.address + r.bytes) {
      refuse(name(), "goes into the workspace; pass other memory", where);
    }
    for (int other = 0; other < k; ++other) {
      if (!overlap(r.range(), results[other].range())) continue;
      refuse(name(), text{"goes where result "} + (other + 1) + " does; give each its own memory",
             where);
    }
  }
}

WARPWRIGHT_INLINE void check_results_disjoint(memory_range const* results, int count,
                                              operand const* operands, int operand_count,
                                              std::uint64_t n, source_location where) {
  for (int r = 0; r < count; ++r) {
    for (int k = 1; k < operand_count && n != 0; ++k) {
      if (!overlap(results[r].range(), bytes_of(operands[k], n))) continue;
      refuse(text{"result "} + (r + 1),
             text{"overlaps "} + operand_name(operands, k) +
                 ", which other blocks may still read; pass other memory",
             where);
    }
  }
}

WARPWRIGHT_INLINE void check_operands_of_results(operand* operands, int operand_count,
                                                 memory_range const* results, int count,
                                                 std::uint64_t length, source_location where) {
  for (int k = 1; k < operand_count; ++k) {
    operand& o = operands[k];
    for (int r = 0; r < count; ++r) {
      if (o.address != results[r].address || o.element_bytes * length != results[r].bytes) continue;
      if (length == 1) o.kind = access_pattern::elements;
      if (o.count == 0) o.count = length;  // of `to(p) += x`
    }
    if (o.kind != access_pattern::elements || o.count == length) continue;
    refuse(operand_name(operands, k),
           text{"has "} + count_as_given(o.count) + " elements, but each result has " + length +
               "; beside a reduction give it one for each, and put what is of elements into one",
           where);
  }
  for (int r = 0; r < count && length != 0; ++r) {
    operands[0].address = results[r].address;
    operands[0].natural_bytes = results[r].alignment;
    operands[0].element_bytes = static_cast<unsigned>(results[r].bytes / length);
    operands[0].count = length;
    check_operands(operands, operand_count, where);
  }
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
