// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/detail/plan/tensor_table.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

WARPWRIGHT_INLINE void check_tensor(operand const* arrays, int count, std::uint32_t written,
                                    std::size_t tensor, source_location where) {
  std::uint64_t const size = arrays[0].count;
  if (size == 0) return;
  if (size > max_tensor_elements) {
    refuse(text{"tensor "} + tensor,
           text{"has "} + count_as_given(size) +
               " elements; a tensor has 0 to 2^40, counted in elements",
           where);
  }
  for (int k = 0; k < count; ++k) {
    operand const& a = arrays[k];
    auto const name = [=] { return text{"tensor "} + tensor + ", array " + (k + 1); };
    check_address(a.address, a.natural_bytes, size, name, where);
    for (int j = 0; j < k; ++j) {
      operand const& b = arrays[j];
      bool const one_writes = is_written(written, k) != is_written(written, j);
      if (!one_writes && !is_written(written, k)) continue;
      if ((one_writes && in_place(a, b)) || !overlap(a, b, size)) continue;
      refuse(name(),
             text{"spans "} + span_bytes(a, size) + " bytes that overlap array " + (j + 1) + "'s " +
                 span_bytes(b, size) + ", starting " + start_relative_to(a, b) +
                 "; give what is written memory of its own, or list it once, as an array that is "
                 "read and written",
             where);
    }
  }
}

}  // namespace ew::detail

WARPWRIGHT_END
