// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The norm of all tensors of a list together, as gradients are clipped by it.
#pragma once

#include <warpwright/kernel/detail/norm_pass.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// What is carried from block to block, and from launch to launch of a long list.
struct norm_workspace {
  static constexpr std::size_t carried_at = workspace_head_bytes;
  static constexpr std::size_t blocks_at = carried_at + 16;
  static constexpr std::size_t bytes = blocks_at + reduce_blocks * sizeof(double);
};

template <class T>
using global_norm_arrays = norm_arrays<T, sum_of_squares>;

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

#if defined(__CUDACC__)

// As reduce_kernel: the block that takes the last ticket adds up all blocks' sums, in their order.
template <class T, class R>
__global__ void __launch_bounds__(table_threads)
    norm_kernel(__grid_constant__ typename tensor_arrays<T const>::table const table,
                unsigned char* workspace, R* result, bool first, bool last) {
  warpwright::detail::await_predecessors();
  constexpr norm_states<sum_of_squares> how;
  auto* const ticket = reinterpret_cast<unsigned*>(workspace);
  auto* const carried = reinterpret_cast<double*>(workspace + norm_workspace::carried_at);
  auto* const of_block = reinterpret_cast<double*>(workspace + norm_workspace::blocks_at);
  double const mine = global_norm_arrays<T>::partial(table, blockIdx.x, gridDim.x, threadIdx.x);
  norm_states<sum_of_squares>::states state = fold_block(how, {{mine}});
  if (gridDim.x > 1) {
    __shared__ bool last_block;
    if (threadIdx.x == 0) {
      of_block[blockIdx.x] = at<0>(state);
      __threadfence();  // the sum before the ticket, as all other blocks see it
      last_block = atomicAdd(ticket, 1U) == gridDim.x - 1;
      __threadfence();  // the ticket before the other blocks' sums
    }
    __syncthreads();
    if (!last_block) return;
    double sum = 0;
    for (unsigned b = threadIdx.x; b < gridDim.x; b += table_threads) sum += of_block[b];
    state = fold_block(how, {{sum}});
  }
  if (threadIdx.x == 0) {
    if (gridDim.x > 1) *ticket = 0;
    double const total = (first ? 0.0 : *carried) + at<0>(state);
    if (last) {
      *result = static_cast<R>(library::sqrt(total));
    } else {
      *carried = total;
    }
  }
}
template <class T, class R>
struct norm_launch;

#endif

template <class T>
double squares_of_table(typename tensor_arrays<T const>::table const& table) {
  double sum = 0;
  unsigned const blocks = norm_blocks(table.chunks, reduce_blocks);
  for (unsigned b = 0; b < blocks; ++b) {
    for (unsigned t = 0; t < table_threads; ++t) {
      sum += global_norm_arrays<T>::partial(table, b, blocks, t);
    }
  }
  return sum;
}

#if !defined(__CUDACC__) && WARPWRIGHT_HOST_RUNTIME

template <class T, class R>
struct norm_body {
  typename tensor_arrays<T const>::table table;
  double* carried;
  R* result;
  bool first;
  bool last;
  void operator()(std::uint64_t, std::uint64_t) const {
    double const total = (first ? 0.0 : *carried) + squares_of_table<T>(table);
    if (last) {
      *result = static_cast<R>(library::sqrt(total));
    } else {
      *carried = total;
    }
  }
};

#endif

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

/// The size of the workspace that global_norm() wants, in bytes, for any list.
inline constexpr std::size_t global_norm_workspace_bytes = detail::norm_workspace::bytes;

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// The 2-norm of all elements of all tensors: the root of the sum of their squares.
///
/// The same bits in every run: nothing depends on timing or on the device's number of SMs. The
/// result is within 2^-20 of itself, 2^-40 for double, and rounded to R. Squares are not scaled:
/// but for double elements, up to 65 are added in float, so that elements from 2e18 on may
/// overflow, those below 1e-19 lose digits, and those below 3e-23 count as 0. Infinities and NaNs
/// come through.
/// @pre all memory can be reached from the stream's device and stays alive until it has passed it
/// @param stream     the stream to run on
/// @param workspace  of global_norm_workspace_bytes or more; not in use on another stream
/// @param list       of one array, of floating point; without elements the norm is 0
/// @param result     one float or double in device memory, written when the stream gets there
/// @throws std::invalid_argument  for a workspace that is too small, and for a null or odd result
///   pointer, or one into the workspace
/// @throws cuda_error             when a launch fails
/// **Stream:** ordered on `stream`; does not block.
/// **Threads:** any, one at a time for one workspace. **Capture:** legal.
/// **Cost:** one kernel launch for each tensors_a_launch tensors that are not empty, at least one;
/// no allocation.
/// Compiled for architectures both below and from 9.0, a launch also calls cudaGetDevice, and the
/// first of a kernel on a device cudaFuncGetAttributes.
template <class T, class R>
void global_norm(stream_ref stream, reduction_workspace const& workspace,
                 tensor_list<T> const& list, R* result,
                 source_location where = source_location::current()) {
  static_assert(std::is_floating_point<R>::value && sizeof(R) <= sizeof(double),
                "warpwright::ew::global_norm: the result is a float or a double");
  detail::check_norm_workspace(workspace.size_bytes(), global_norm_workspace_bytes, "global_norm()",
                               "global_norm_workspace_bytes", where);
  detail::place const place{reinterpret_cast<std::uintptr_t>(result), sizeof(R), alignof(R)};
  detail::check_places(&place, 1, reinterpret_cast<std::uintptr_t>(workspace.data()),
                       workspace.size_bytes(), where);
#if defined(__CUDACC__) || WARPWRIGHT_HOST_RUNTIME
  using element = std::remove_const_t<T>;
  auto* const memory = static_cast<unsigned char*>(workspace.data());
  detail::for_each_norm_table(list, false, [&](auto const& fill, std::size_t next) {
    bool const first = next == 0;
#if defined(__CUDACC__)
    typename detail::tensor_arrays<element const>::table table;
    bool const last = fill(table);
    warpwright::detail::launch_kernel<detail::norm_launch<element, R>>(
        &detail::norm_kernel<element, R>,
        dim3{detail::norm_blocks(table.chunks, detail::reduce_blocks)}, dim3{detail::table_threads},
        0, stream, where, table, memory, result, first, last);
#else
    auto* const carried =
        reinterpret_cast<double*>(memory + detail::norm_workspace::carried_at);
    detail::norm_body<element, R> body{{}, carried, result, first, false};
    body.last = fill(body.table);
    warpwright::detail::launch_host(stream, "warpwright::ew::global_norm", 1, body, where);
#endif
  });
#else
  static_cast<void>(stream), static_cast<void>(list);
  static_assert(warpwright::detail::always_false<T>,
                "warpwright::ew::global_norm needs a kernel: compile this file with nvcc (name it "
                ".cu), or link warpwright::host_runtime to run without a GPU");
#endif
}

/// The same with a workspace from a pool: a memory_pool, or anything with allocate(stream, bytes)
/// and deallocate(stream, pointer, bytes).
/// **Capture:** as the pool's.
/// **Cost:** one allocation, one memset of a few bytes, and the launches.
template <class Pool, class T, class R, class = detail::if_pool<Pool>>
void global_norm(stream_ref stream, Pool& pool, tensor_list<T> const& list, R* result,
                 source_location where = source_location::current()) {
  detail::pool_block<Pool> const block{pool, stream, global_norm_workspace_bytes, where};
  global_norm(stream, prepare_workspace(stream, block.data(), global_norm_workspace_bytes, where),
              list, result, where);
}

/// The same on the calling thread, over arrays in host memory.
/// @return the norm
/// **Threads:** any. **Cost:** a loop over the elements; a table of 32 KB on the stack.
template <class T>
[[nodiscard]] double global_norm_host(tensor_list<T> const& list) {
  using element = std::remove_const_t<T>;
  double sum = 0;
  detail::for_each_norm_table(list, false, [&](auto const& fill, std::size_t) {
    typename detail::tensor_arrays<element const>::table table{};
    fill(table);
    sum += detail::squares_of_table<element>(table);
  });
  return detail::library::sqrt(sum);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
