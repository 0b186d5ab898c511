// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The k largest elements of each row of a matrix, as sampling from logits needs them:
//   ew::top_k(stream, pool, {rows, cols}, 50, ew::in(logits, n) * scale, values, indices);
#pragma once

#include <warpwright/kernel/detail/selection/top_k_kernel.hpp>
#include <warpwright/kernel/expression.hpp>

WARPWRIGHT_BEGIN

namespace ew {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Finds the k largest elements of each row, and their columns, in descending order: NaN before all
/// numbers, -0 equal to 0, of equal elements that of the lower column first. NaN is written as one
/// and the same NaN, -0 as 0: the same bits in every run, wherever the arrays lie.
/// @pre all memory is accessible from the stream's device until the stream has passed the call
/// @param pool     for up to 132 * 8 * k bytes, where rows are so few that blocks share each: a
///   memory_pool, or anything with allocate(stream, bytes) and deallocate(stream, pointer, bytes)
/// @param shape    `{rows, cols}`, cols up to 2^31
/// @param k        up to 1,024, and to cols; 0 finds nothing
/// @param x        an expression of rows * cols numbers that are computed in 32 bits or less
/// @param values   rows * k elements of any type of numbers, converted as by cast()
/// @param indices  rows * k integers of any type for the columns; or a null pointer of that type
/// @throws std::invalid_argument  for another k; for 2^31 rows or more; for operands that do not
///   fit, as run() does; for null or misaligned results, and for those that overlap each other or
///   what is read
/// @throws cuda_error             when a launch fails; what the pool throws
/// **Stream:** one kernel, or two where blocks share rows. **Threads:** any. **Capture:** legal, as
/// the pool's. **Cost:** every element is read once; rows in ascending order, and many equal values
/// as of 16-bit elements, take longer.
template <class Pool, class X, class T, class Index, class = detail::if_pool<Pool>,
          class = detail::if_expression<X>>
void top_k(stream_ref stream, Pool& pool, matrix_shape const& shape, std::uint64_t k, X const& x,
           T* values, Index* indices) {
  auto const memory = [&](std::size_t bytes) {
    return detail::workspace_block<Pool>{pool, stream, bytes, shape.where};
  };
  detail::find_top_k(detail::on_stream{stream, shape.where}, memory, shape, k,
                     detail::as_expression(x), values, indices);
}

/// The same on the calling thread, over arrays in host memory. **Threads:** any.
/// @throws std::bad_alloc  when host memory runs out; std::invalid_argument as above
template <class X, class T, class Index, class = detail::if_expression<X>>
void top_k_host(matrix_shape const& shape, std::uint64_t k, X const& x, T* values, Index* indices) {
  auto const memory = [](std::size_t bytes) { return detail::host_workspace{bytes}; };
  detail::find_top_k(detail::on_calling_thread{shape.where}, memory, shape, k,
                     detail::as_expression(x), values, indices);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
