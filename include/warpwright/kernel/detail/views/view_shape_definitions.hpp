// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/detail/views/view_shape.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

WARPWRIGHT_INLINE void check_shape(std::int64_t const* shape, std::int64_t const* strides, int rank,
                                   source_location where, char const* function) {
  for (int k = 0; k < rank; ++k) {
    if (shape[k] >= 0) continue;
    refuse_view(text{"dimension "} + k + " has " + shape[k] +
                    " elements; an extent is 0 or more, and below 2^63",
                where, function);
  }
  view_bounds const r = measure_view(shape, strides, rank);
  if (r.too_large) {
    text const dimension = text{"dimension "} + r.at_dimension + ", of " + shape[r.at_dimension];
    text const problem = r.too_many ? dimension + ", makes more than 2^59 elements of the array"
                                    : dimension + " at a stride of " + strides[r.at_dimension] +
                                          ", makes the array span more than 2^59 elements";
    refuse_view(text{problem} + "; pass shape and strides in elements, not in bytes", where,
                function);
  }
}

WARPWRIGHT_INLINE void check_output_shape(std::int64_t const* shape, std::int64_t const* strides,
                                          int rank, source_location where) {
  overlapping_dimension const found = find_overlapping_dimension(shape, strides, rank);
  int const k = found.dimension;
  if (k < 0) return;
  text const name = text{"ew::out: dimension "} + k + " has " + shape[k] +
                    " elements at a stride of " + strides[k];
  warpwright::detail::throw_invalid_argument(
      strides[k] == 0
          ? name + ": all of them are the same element; an output's elements must be distinct"
          : name + ", no more than the " + found.span +
                " elements that the dimensions of shorter strides span; each stride of an output "
                "must be "
                "longer than that, even where all elements are distinct: write such an array in "
                "parts",
      where);
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
