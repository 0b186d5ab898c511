// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions of each row or of each column of a row-major matrix: as reduce.hpp, but every row or
// column has its own results.
#pragma once

#include <warpwright/kernel/detail/plan/matrix_shape.hpp>
#include <warpwright/kernel/detail/reduce/matrix_reduction.hpp>
#include <warpwright/kernel/reduce.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// The size of the workspace that reduce_cols() requires, in bytes: 2 KB, and at most some 140 KB
/// times the bytes of the states of one column's reductions.
/// @param shape  `{rows, cols}`
/// @param goals  as passed to reduce_cols()
template <class... T, class... K, class... E>
[[nodiscard]] std::size_t reduce_cols_workspace_bytes(matrix_shape const& shape,
                                                      reduction_assignment<T, K, E> const&...) {
  using pass = detail::reduction_pass<false, reduction_assignment<T, K, E>...>;
  static_cast<void>(detail::elements_of(shape));
  return static_cast<std::size_t>(
      detail::column_reduction<pass>::workspace_bytes(shape.rows, shape.cols));
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates several reductions of each row of a matrix in one pass, as one kernel.
///
/// Every expression has rows * cols elements, row after row. Indices that argmin() and argmax()
/// find are columns. With cols = 0 every result is that of no elements. A row's results are the
/// same bits in every run, and whatever the number of rows; but few rows of 64 KiB and more are
/// added in another order than many, and in another one below compute capability 9.0.
/// @pre all memory is accessible from the stream's device and stays alive until the kernel has
///   run; no result overlaps `lengths` of a ragged_shape, which is not checked
/// @param shape   `{rows, cols}`, up to 2^59 elements, cols up to 2^31; causal(), or
///   ragged_shape{{rows, cols}, lengths}: mean() and the like divide by the lengths, and the
///   results of a row of length 0 are those of no elements
/// @param goals   `to(pointer) = reduction`, see reduction_target, with pointers to `rows` elements
/// @throws std::invalid_argument  for operands that do not fit, as run() does; for a negative or
///   larger shape; for a null or misaligned result pointer, and for results that overlap each other
///   or an array that is read
/// @throws cuda_error             when the launch fails
/// **Stream:** one kernel in `stream`'s order; does not block. **Threads:** any. **Capture:**
/// legal.
/// **Cost:** one kernel launch, no allocation. A part of a warp, a warp or a block reduces a row;
/// from compute capability 9.0 on a cluster of up to 8 blocks reduces a long one where rows are
/// few, and a launch may also call cudaGetDevice. Launches call what those of run() do.
template <class... T, class... K, class... E>
void reduce_rows(stream_ref stream, ragged_shape const& shape,
                 reduction_assignment<T, K, E> const&... goals) {
  static_assert(sizeof...(goals) > 0, "warpwright::ew::reduce_rows: name at least one reduction");
  detail::reduce_each_row(detail::on_stream{stream, shape.shape().where}, shape, goals...);
}

/// Evaluates several reductions of each row and waits for their results.
/// @param stream, shape  as above
/// @param pool        as for reduce(), for the results until they are copied to the host
/// @param reductions  `sum(x)` and others, and expressions of them
/// @return a std::vector of `rows` results, or of several reductions a tuple of vectors:
///   `auto [a, b] = reduce_rows(...)`; in the reductions' own types, of which bool is none
/// @throws std::invalid_argument, cuda_error  as above; what the pool throws
/// **Stream:** one kernel and a copy a reduction on `stream`, then synchronises with it.
/// **Threads:** any. **Capture:** not legal: it waits.
/// **Cost:** an allocation, a kernel launch, copies to pageable memory.
template <class Pool, class... X, class = detail::if_pool<Pool>, class = detail::if_results<X...>,
          class = detail::if_fetchable<detail::as_reduction_t<X>...>>
[[nodiscard]] auto reduce_rows(stream_ref stream, Pool& pool, matrix_shape const& shape,
                               X const&... reductions) {
  return detail::fetch_results(
      stream, pool, detail::elements_of(shape), shape.rows,
      [&](auto const&... goals) { reduce_rows(stream, shape, goals...); },
      std::index_sequence_for<X...>{}, detail::as_reduction(reductions)...);
}

/// The same on the calling thread, over arrays in host memory, in the order in which a GPU would.
/// **Threads:** any.
template <class... T, class... K, class... E>
void reduce_rows_host(ragged_shape const& shape, reduction_assignment<T, K, E> const&... goals) {
  static_assert(sizeof...(goals) > 0,
                "warpwright::ew::reduce_rows_host: name at least one reduction");
  detail::reduce_each_row(detail::on_calling_thread{shape.shape().where}, shape, goals...);
}

/// Evaluates several reductions of each column of a matrix in one pass, as one kernel: the gradient
/// of a bias, the mean and norm of every feature.
///
/// As reduce_rows(), but: indices that argmin() and argmax() find are rows, and with rows = 0 every
/// result is that of no elements.
/// @pre as reduce_rows()
/// @param memory     as for reduce(), a workspace of reduce_cols_workspace_bytes() or more
/// @param shape      `{rows, cols}`, up to 2^59 elements
/// @param goals      `to(pointer) = reduction`, where the pointer is to `cols` elements
/// @throws std::invalid_argument  as reduce_rows(); for a workspace that is too small, and for
///   results that overlap it
/// @throws cuda_error             when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block. **Threads:** any, one at a time for
/// one workspace. **Capture:** legal where the pool's is.
/// **Cost:** one kernel launch; with a pool and where columns are split, one allocation and one
/// memset of 2 KB before it. Where a row of the widest element type is no multiple of 16 bytes,
/// loads are of single elements.
template <class Memory, class... T, class... K, class... E, class = detail::if_memory<Memory>>
void reduce_cols(stream_ref stream, Memory&& memory, matrix_shape const& shape,
                 reduction_assignment<T, K, E> const&... goals) {
  static_assert(sizeof...(goals) > 0, "warpwright::ew::reduce_cols: name at least one reduction");
  std::size_t const bytes = reduce_cols_workspace_bytes(shape, goals...);
  detail::on_stream const execute{stream, shape.where};
  if constexpr (!detail::is_workspace<Memory>) {
    if (bytes == detail::workspace_head_bytes) {
      return detail::reduce_each_column(execute, nullptr, 0, shape, goals...);
    }
  }
  detail::with_workspace(stream, memory, bytes, shape.where,
                         [&](reduction_workspace const& workspace) {
                           detail::check_workspace(workspace.size_bytes(), bytes, shape.where,
                                                   "reduce_cols_workspace_bytes()");
                           detail::reduce_each_column(execute, workspace.data(),
                                                      workspace.size_bytes(), shape, goals...);
                         });
}

/// Evaluates several reductions of each column and waits for their results: `cols` of each, as
/// reduce_rows() returns those of rows.
/// **Cost:** as there, and where columns are split one more allocation and a memset.
template <class Pool, class... X, class = detail::if_pool<Pool>, class = detail::if_results<X...>,
          class = detail::if_fetchable<detail::as_reduction_t<X>...>>
[[nodiscard]] auto reduce_cols(stream_ref stream, Pool& pool, matrix_shape const& shape,
                               X const&... reductions) {
  return detail::fetch_results(
      stream, pool, detail::elements_of(shape), shape.cols,
      [&](auto const&... goals) { reduce_cols(stream, pool, shape, goals...); },
      std::index_sequence_for<X...>{}, detail::as_reduction(reductions)...);
}

/// The same on the calling thread, over arrays in host memory, in the order in which a GPU would.
/// **Threads:** any.
template <class... T, class... K, class... E>
void reduce_cols_host(matrix_shape const& shape, reduction_assignment<T, K, E> const&... goals) {
  static_assert(sizeof...(goals) > 0,
                "warpwright::ew::reduce_cols_host: name at least one reduction");
  detail::host_workspace workspace{reduce_cols_workspace_bytes(shape, goals...)};
  detail::reduce_each_column(detail::on_calling_thread{shape.where}, workspace.data(), 0, shape,
                             goals...);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
