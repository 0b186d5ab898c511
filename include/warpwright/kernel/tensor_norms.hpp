// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The norm of each tensor of a list, as LARS, LAMB and clipping by tensor need them, and that of
// all together, as gradients are clipped by it.
//
//   ew::tensor_list<__half const> gradients;
//   for (auto& t : tensors) gradients.add(t.g, t.size);
//   ew::norm_each(stream, pool, gradients, norms);   // norms: a float for each, in device memory
//   ew::global_norm(stream, pool, gradients, norm);  // one float
#pragma once

#include <warpwright/kernel/detail/tensors/norm_kernel.hpp>
#include <warpwright/kernel/multi_tensor.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// The size of the workspace that norm_each() and max_norm_each() need for any list, in bytes.
inline constexpr std::size_t norm_each_workspace_bytes =
    detail::norm_layout<detail::norm_scope::each_tensor>::bytes;
/// The size of the workspace that global_norm() needs for any list, in bytes.
inline constexpr std::size_t global_norm_workspace_bytes =
    detail::norm_layout<detail::norm_scope::all_tensors>::bytes;

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// The 2-norm of each tensor: norms[k] becomes the root of the sum of tensor k's squares, 0 where
/// the tensor is empty.
///
/// The same bits in every run: nothing depends on timing or on the device's number of SMs. A norm
/// is within 2^-20 of itself, 2^-40 for double, and rounded to R. Squares are not scaled: except
/// for double elements, up to 65 are added in float, so that elements from 2e18 on may overflow,
/// those below 1e-19 lose digits, and those below 3e-23 count as 0. An infinity or a NaN makes the
/// norm of its own tensor infinite or NaN, and no other.
/// @pre all memory can be accessed from the stream's device and stays alive until the stream has
///   passed the call; the workspace overlaps no tensor, which is not checked
/// @param memory     a reduction_workspace of norm_each_workspace_bytes or more, not in use on
///   another stream; or a pool, as for reduce()
/// @param list       of one array, of floating point; copied at the call
/// @param norms      list.size() floats or doubles in device memory, in the list's order, written
///   when the kernel runs
/// @throws std::invalid_argument  for a workspace that is too small, for a null or misaligned
///   pointer to norms, and for norms that overlap the workspace or a tensor
/// @throws cuda_error             when a launch fails; earlier launches have written their norms
/// **Stream:** ordered on `stream`; does not block.
/// **Threads:** any, one at a time for one workspace.
/// **Capture:** legal where the pool's allocate() is; a replay reads the elements again, the list
/// is a copy.
/// **Cost:** one kernel launch for each `tensors_per_launch` tensors, empty ones included; no
/// allocation. Without tensors nothing is launched. With a pool, one allocation and one memset of a
/// few bytes before them.
template <class Memory, class T, class R, class = detail::if_memory<Memory>>
void norm_each(stream_ref stream, Memory&& memory, tensor_list<T> const& list, R* norms,
               source_location where = source_location::current()) {
  detail::run_norm_on_stream<detail::two_norm, detail::norm_scope::each_tensor>(
      stream, memory, list, norms, "warpwright::ew::norm_each", where);
}

/// norm_each() on the calling thread, over arrays in host memory.
/// @param norms  list.size() floats or doubles in host memory
/// **Threads:** any. **Cost:** a loop over the elements; 44 KB of the stack.
template <class T, class R>
void norm_each_host(tensor_list<T> const& list, R* norms) {
  detail::run_norm_on_host<detail::two_norm, detail::norm_scope::each_tensor>(list, norms);
}

/// The max-norm of each tensor: norms[k] becomes the largest magnitude of tensor k's elements, NaN
/// if one is NaN, 0 where the tensor is empty.
///
/// Exact except for the rounding of double elements to a float norm. All else is as of norm_each().
/// @throws std::invalid_argument, cuda_error  as norm_each()
template <class Memory, class T, class R, class = detail::if_memory<Memory>>
void max_norm_each(stream_ref stream, Memory&& memory, tensor_list<T> const& list, R* norms,
                   source_location where = source_location::current()) {
  detail::run_norm_on_stream<detail::max_norm, detail::norm_scope::each_tensor>(
      stream, memory, list, norms, "warpwright::ew::max_norm_each", where);
}

/// max_norm_each() on the calling thread, over arrays in host memory.
/// **Threads:** any. **Cost:** that of norm_each_host(), and so are the parameters.
template <class T, class R>
void max_norm_each_host(tensor_list<T> const& list, R* norms) {
  detail::run_norm_on_host<detail::max_norm, detail::norm_scope::each_tensor>(list, norms);
}

/// The 2-norm of all elements of all tensors: the root of the sum of their squares.
///
/// Its numbers and errors are those of norm_each(), and so are the stream, threads and capture.
/// @pre as norm_each()
/// @param memory     as for norm_each(), a workspace of global_norm_workspace_bytes or more
/// @param list       as for norm_each(); without elements the norm is 0
/// @param result     one float or double in device memory, written when the kernel runs
/// @throws std::invalid_argument, cuda_error  as norm_each()
/// **Cost:** one kernel launch for each `tensors_per_launch` tensors that are not empty, at least
/// one; no allocation.
template <class Memory, class T, class R, class = detail::if_memory<Memory>>
void global_norm(stream_ref stream, Memory&& memory, tensor_list<T> const& list, R* result,
                 source_location where = source_location::current()) {
  detail::run_norm_on_stream<detail::two_norm, detail::norm_scope::all_tensors>(
      stream, memory, list, result, "warpwright::ew::global_norm", where);
}

/// global_norm() on the calling thread, over arrays in host memory.
/// @return the norm
/// **Threads:** any. **Cost:** a loop over the elements; 40 KB of the stack.
template <class T>
[[nodiscard]] double global_norm_host(tensor_list<T> const& list) {
  double norm = 0;
  detail::run_norm_on_host<detail::two_norm, detail::norm_scope::all_tensors>(list, &norm);
  return norm;
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
