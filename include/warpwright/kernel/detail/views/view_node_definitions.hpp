// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/detail/views/view_node.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

WARPWRIGHT_INLINE void describe_axes(operand& o, axis const* of, int count) {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  std::uint64_t distinct = 1;
  std::uint64_t ranges = o.address;
  o.shaped = true;
  o.count = 1;
  for (int k = 0; k < count; ++k) {
    o.count *= of[k].extent;
    if (of[k].stride != 0) distinct *= of[k].extent;
    std::int64_t const extent = (static_cast<std::int64_t>(of[k].extent) - 1) * of[k].stride;
    (extent < 0 ? lowest : highest) += extent;
    if (k != 0) ranges |= static_cast<std::uint64_t>(of[k].stride) * o.element_bytes;
  }
  bool const contiguous = count == 1 && of[0].stride == 1;
  if (contiguous || o.count == 0) return;
  o.kind = access_pattern::view;
  o.of = of;
  o.axes = count;
  o.step = of[0].stride;
  o.run = of[0].extent;
  if (o.step == 1) o.vector_bytes = common_alignment(ranges | o.run * o.element_bytes);
  if (o.step == 0)
    o.vector_bytes = common_alignment(o.run) * o.element_bytes;  // one element for a vector
  o.span = (static_cast<std::uint64_t>(highest - lowest) + 1) * o.element_bytes;
  o.touched = distinct * o.element_bytes;
  if (o.address != 0) o.address += static_cast<std::uint64_t>(lowest) * o.element_bytes;
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
