// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The norm of all tensors of a list together, as gradients are clipped by it.
#pragma once

#include <warpwright/kernel/detail/tensors/norm_kernel.hpp>
#include <warpwright/kernel/multi_tensor.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// The size of the workspace that global_norm() needs for any list, in bytes.
inline constexpr std::size_t global_norm_workspace_bytes =
    detail::norm_layout<detail::norm_scope::all_tensors>::bytes;

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// The 2-norm of all elements of all tensors: the root of the sum of their squares.
///
/// The same bits in every run: nothing depends on timing or on the device's number of SMs. The
/// result is within 2^-20 of itself, 2^-40 for double, and rounded to R. Squares are not scaled:
/// except for double elements, up to 65 are added in float, so that elements from 2e18 on may
/// overflow, those below 1e-19 lose digits, and those below 3e-23 count as 0. An infinity or a NaN
/// makes the result infinite or NaN.
/// @pre all memory can be accessed from the stream's device and stays alive until the stream has
///   passed the call
/// @param stream     the stream to run on
/// @param workspace  of global_norm_workspace_bytes or more; not in use on another stream
/// @param list       of one array, of floating point; without elements the norm is 0
/// @param result     one float or double in device memory, written when the kernel runs
/// @throws std::invalid_argument  for a workspace that is too small, and for a result pointer that
///   is null, misaligned or in the workspace
/// @throws cuda_error             when a launch fails
/// **Stream:** ordered on `stream`; does not block.
/// **Threads:** any, one at a time for one workspace. **Capture:** legal.
/// **Cost:** one kernel launch for each `tensors_per_launch` tensors that are not empty, at least
/// one; no allocation.
template <class T, class R>
void global_norm(stream_ref stream, reduction_workspace const& workspace,
                 tensor_list<T> const& list, R* result,
                 source_location where = source_location::current()) {
  detail::run_norm_on_stream<detail::two_norm, detail::norm_scope::all_tensors,
                             std::remove_const_t<T>>(stream, workspace,
                                                     detail::list_access::tensors(list), result,
                                                     "warpwright::ew::global_norm", where);
}

/// global_norm() with a workspace from a pool: a memory_pool, or anything with
/// allocate(stream, bytes) and deallocate(stream, pointer, bytes).
/// **Capture:** legal where the pool's allocate() is.
/// **Cost:** one allocation, one memset of a few bytes, and the launches.
template <class Pool, class T, class R, class = detail::if_pool<Pool>>
void global_norm(stream_ref stream, Pool& pool, tensor_list<T> const& list, R* result,
                 source_location where = source_location::current()) {
  detail::workspace_block<Pool> const block{pool, stream, global_norm_workspace_bytes, where};
  global_norm(stream, prepare_workspace(stream, block.data(), global_norm_workspace_bytes, where),
              list, result, where);
}

/// global_norm() on the calling thread, over arrays in host memory.
/// @return the norm
/// **Threads:** any. **Cost:** a loop over the elements; 40 KB of the stack.
template <class T>
[[nodiscard]] double global_norm_host(tensor_list<T> const& list) {
  double norm = 0;
  detail::run_norm_on_host<detail::two_norm, detail::norm_scope::all_tensors,
                           std::remove_const_t<T>>(detail::list_access::tensors(list), &norm);
  return norm;
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
