// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The norm of each tensor of a list, as LARS, LAMB and clipping by tensor want them.
//
//   ew::tensor_list<__half const> gradients;
//   for (auto& t : tensors) gradients.add(t.g, t.size);
//   ew::norm_each(stream, pool, gradients, norms);  // norms: a float for each, in device memory
//
// The norm of all tensors together follows from them, of n tensors:
//   ew::reduce(stream, pool, n, ew::to(all) = ew::norm(ew::in(norms, n)));
#pragma once

#include <warpwright/kernel/detail/norm_pass.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// Blocks at most: each that is the first of those which share a tensor has a ticket in the
// workspace's head. A block shares its first tensor and its last, so it leaves two states.
struct tensor_norms_workspace {
  static constexpr unsigned blocks = workspace_head_bytes / sizeof(unsigned);
  static_assert(blocks <= reduce_blocks, "as many as keep a GPU busy");
  static constexpr std::size_t bytes = workspace_head_bytes + 2 * blocks * sizeof(double);

  // Where a block leaves its state of a tensor that begins in block `first`.
  WARPWRIGHT_HOST_DEVICE static constexpr unsigned place(unsigned block, unsigned first) {
    return 2 * block + (block == first ? 1U : 0U);
  }
};

// Refuses norms that lie in a tensor: they are written while others still read.
template <class T>
void check_norms(tensor_list<T> const& list, place const& norms, source_location where) {
  auto const& all = list_access::tensors(list);
  for (std::size_t k = 0; k < all.size(); ++k) {
    auto const data = reinterpret_cast<std::uintptr_t>(all[k].data[0]);
    if (all[k].size == 0 || data >= norms.address + norms.bytes ||
        norms.address >= data + all[k].size * sizeof(element_bits<T>)) {
      continue;
    }
    refuse(text{"tensor "} + (k + 1),
           "overlaps the norms, which are written while it is read; give them other memory", where);
  }
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

#if defined(__CUDACC__)

// A tensor that one block has to itself is finished by it. Of blocks that share one, the last to
// take the tensor's ticket combines their states, in the order of their numbers, and puts the
// ticket back to 0.
template <class How, class T, class R>
__global__ void __launch_bounds__(table_threads)
    tensor_norms_kernel(__grid_constant__ typename tensor_arrays<T const>::table const table,
                        unsigned char* workspace, R* norms) {
  warpwright::detail::await_predecessors();
  using layout = tensor_norms_workspace;
  constexpr norm_states<How> how;
  auto* const tickets = reinterpret_cast<unsigned*>(workspace);
  auto* const left = reinterpret_cast<double*>(workspace + workspace_head_bytes);
  unsigned const end = first_chunk_of(blockIdx.x + 1, table.chunks, gridDim.x);
  unsigned begin = first_chunk_of(blockIdx.x, table.chunks, gridDim.x);
  for (unsigned tensor = table.tensor_of(begin); begin != end; ++tensor) {
    norm_part const part{table, tensor, begin, end, blockIdx.x, gridDim.x};
    double const mine = norm_arrays<T, How>::partial(table, tensor, part, threadIdx.x);
    typename norm_states<How>::states state = fold_block(how, {{mine}});
    bool complete = part.whole();
    if (!complete) {
      __shared__ bool last;
      if (threadIdx.x == 0) {
        left[layout::place(blockIdx.x, part.first_block)] = at<0>(state);
        __threadfence();  // the state before the ticket, as all other blocks see it
        last = atomicAdd(tickets + part.first_block, 1U) == part.last_block - part.first_block;
        __threadfence();  // the ticket before the other blocks' states
      }
      __syncthreads();
      complete = last;
      if (complete) {
        double of_blocks = 0;
        for (unsigned b = part.first_block + threadIdx.x; b <= part.last_block;
             b += table_threads) {
          of_blocks = How::both(of_blocks, left[layout::place(b, part.first_block)]);
        }
        state = fold_block(how, {{of_blocks}});
        if (threadIdx.x == 0) tickets[part.first_block] = 0;
      }
    }
    if (complete && threadIdx.x == 0) norms[tensor] = static_cast<R>(How::finished(at<0>(state)));
    begin = part.end;
    __syncthreads();  // what fold_block() left in shared memory has been read
  }
}
template <class How, class T, class R>
struct tensor_norms_launch;

#endif

template <class How, class T, class R>
void norms_of_table(typename tensor_arrays<T const>::table const& table, R* norms) {
  unsigned const blocks = norm_blocks(table.chunks, tensor_norms_workspace::blocks);
  double state = 0;
  for (unsigned b = 0; b < blocks; ++b) {
    unsigned const end = first_chunk_of(b + 1, table.chunks, blocks);
    unsigned begin = first_chunk_of(b, table.chunks, blocks);
    for (unsigned tensor = table.tensor_of(begin); begin != end; ++tensor) {
      norm_part const part{table, tensor, begin, end, b, blocks};
      for (unsigned t = 0; t < table_threads; ++t) {
        state = How::both(state, norm_arrays<T, How>::partial(table, tensor, part, t));
      }
      begin = part.end;
      if (b != part.last_block) continue;
      norms[tensor] = static_cast<R>(How::finished(state));
      state = 0;
    }
  }
}

#if !defined(__CUDACC__) && WARPWRIGHT_HOST_RUNTIME

template <class How, class T, class R>
struct tensor_norms_body {
  typename tensor_arrays<T const>::table table;
  R* norms;
  void operator()(std::uint64_t, std::uint64_t) const { norms_of_table<How, T>(table, norms); }
};

#endif

/// @param name       the public function, with its namespace
/// @param told_name  the same as an error's text has it
template <class How, class T, class R>
void norms_on_stream(stream_ref stream, reduction_workspace const& workspace,
                     tensor_list<T> const& list, R* norms, char const* name, char const* told_name,
                     source_location where) {
  static_assert(std::is_floating_point<R>::value && sizeof(R) <= sizeof(double),
                "warpwright::ew::norm_each: the norms are float or double");
  check_norm_workspace(workspace.size_bytes(), tensor_norms_workspace::bytes, told_name,
                       "norm_each_workspace_bytes", where);
  if (list.size() == 0) return;
  place const to{reinterpret_cast<std::uintptr_t>(norms), list.size() * sizeof(R), alignof(R)};
  check_places(&to, 1, reinterpret_cast<std::uintptr_t>(workspace.data()), workspace.size_bytes(),
               where);
  check_norms(list, to, where);
#if defined(__CUDACC__) || WARPWRIGHT_HOST_RUNTIME
  using element = std::remove_const_t<T>;
  for_each_norm_table(list, true, [&](auto const& fill, std::size_t from) {
#if defined(__CUDACC__)
    static_cast<void>(name);
    typename tensor_arrays<element const>::table table;
    fill(table);
    warpwright::detail::launch_kernel<tensor_norms_launch<How, element, R>>(
        &tensor_norms_kernel<How, element, R>,
        dim3{norm_blocks(table.chunks, tensor_norms_workspace::blocks)}, dim3{table_threads}, 0,
        stream, where, table, static_cast<unsigned char*>(workspace.data()), norms + from);
#else
    tensor_norms_body<How, element, R> body{{}, norms + from};
    fill(body.table);
    warpwright::detail::launch_host(stream, name, 1, body, where);
#endif
  });
#else
  static_cast<void>(stream), static_cast<void>(name);
  static_assert(warpwright::detail::always_false<T>,
                "warpwright::ew::norm_each needs a kernel: compile this file with nvcc (name it "
                ".cu), or link warpwright::host_runtime to run without a GPU");
#endif
}

template <class How, class T, class R>
void norms_on_calling_thread(tensor_list<T> const& list, R* norms) {
  static_assert(std::is_floating_point<R>::value && sizeof(R) <= sizeof(double),
                "warpwright::ew::norm_each: the norms are float or double");
  using element = std::remove_const_t<T>;
  if (list.size() == 0) return;
  for_each_norm_table(list, true, [&](auto const& fill, std::size_t from) {
    typename tensor_arrays<element const>::table table{};
    fill(table);
    norms_of_table<How, element>(table, norms + from);
  });
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

/// The size of the workspace that norm_each() and max_norm_each() want, in bytes, for any list.
inline constexpr std::size_t norm_each_workspace_bytes = detail::tensor_norms_workspace::bytes;

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// The 2-norm of each tensor: norms[k] becomes the root of the sum of tensor k's squares, 0 where
/// the tensor is empty.
///
/// The same bits in every run: nothing depends on timing or on the device's number of SMs. A norm
/// is within 2^-20 of itself, 2^-40 for double, and rounded to R. Squares are not scaled: but for
/// double elements, up to 65 are added in float, so that elements from 2e18 on may overflow, those
/// below 1e-19 lose digits, and those below 3e-23 count as 0. Infinities and NaNs come through,
/// into the norm of their own tensor alone.
/// @pre all memory can be reached from the stream's device and stays alive until it has passed it
/// @param stream     the stream to run on
/// @param workspace  of norm_each_workspace_bytes or more; not in use on another stream, and not
///   among what is read, which is not checked
/// @param list       of one array, of floating point; copied at the call
/// @param norms      list.size() floats or doubles in device memory, in the list's order, written
///   when the stream gets there
/// @throws std::invalid_argument  for a workspace that is too small, and for norms at a null or odd
///   pointer, in the workspace or in a tensor
/// @throws cuda_error             when a launch fails; what launches before it took has then been
///   written
/// **Stream:** ordered on `stream`; does not block.
/// **Threads:** any, one at a time for one workspace.
/// **Capture:** legal; a replay reads the elements anew, the list stays as it was.
/// **Cost:** one kernel launch for each tensors_a_launch tensors, empty ones included; no
/// allocation. Without tensors nothing is launched.
/// Compiled for architectures both below and from 9.0, a launch also calls cudaGetDevice, and the
/// first of a kernel on a device cudaFuncGetAttributes.
template <class T, class R>
void norm_each(stream_ref stream, reduction_workspace const& workspace, tensor_list<T> const& list,
               R* norms, source_location where = source_location::current()) {
  detail::norms_on_stream<detail::sum_of_squares>(
      stream, workspace, list, norms, "warpwright::ew::norm_each", "norm_each()", where);
}

/// The same with a workspace from a pool: a memory_pool, or anything with allocate(stream, bytes)
/// and deallocate(stream, pointer, bytes).
/// **Capture:** as the pool's.
/// **Cost:** one allocation, one memset of a few bytes, and the launches.
template <class Pool, class T, class R, class = detail::if_pool<Pool>>
void norm_each(stream_ref stream, Pool& pool, tensor_list<T> const& list, R* norms,
               source_location where = source_location::current()) {
  detail::pool_block<Pool> const block{pool, stream, norm_each_workspace_bytes, where};
  norm_each(stream, prepare_workspace(stream, block.data(), norm_each_workspace_bytes, where), list,
            norms, where);
}

/// The same on the calling thread, over arrays in host memory.
/// @param norms  list.size() floats or doubles in host memory
/// **Threads:** any. **Cost:** a loop over the elements; a table of 32 KB on the stack.
template <class T, class R>
void norm_each_host(tensor_list<T> const& list, R* norms) {
  detail::norms_on_calling_thread<detail::sum_of_squares>(list, norms);
}

/// The max-norm of each tensor: norms[k] becomes the largest magnitude of tensor k's elements, NaN
/// if any is, 0 where the tensor is empty.
///
/// Exact but for the rounding to R, which of double elements alone matters. In all else, and in its
/// two further forms, it is as norm_each().
/// @throws std::invalid_argument  as norm_each()
/// @throws cuda_error             as norm_each()
template <class T, class R>
void max_norm_each(stream_ref stream, reduction_workspace const& workspace,
                   tensor_list<T> const& list, R* norms,
                   source_location where = source_location::current()) {
  detail::norms_on_stream<detail::largest_magnitude>(
      stream, workspace, list, norms, "warpwright::ew::max_norm_each", "max_norm_each()", where);
}

/// The same with a workspace from a pool.
/// **Capture:** as the pool's.
/// **Cost:** one allocation, one memset of a few bytes, and the launches.
template <class Pool, class T, class R, class = detail::if_pool<Pool>>
void max_norm_each(stream_ref stream, Pool& pool, tensor_list<T> const& list, R* norms,
                   source_location where = source_location::current()) {
  detail::pool_block<Pool> const block{pool, stream, norm_each_workspace_bytes, where};
  max_norm_each(stream, prepare_workspace(stream, block.data(), norm_each_workspace_bytes, where),
                list, norms, where);
}

/// The same on the calling thread, over arrays in host memory.
/// @param norms  list.size() floats or doubles in host memory
/// **Threads:** any. **Cost:** as norm_each_host().
template <class T, class R>
void max_norm_each_host(tensor_list<T> const& list, R* norms) {
  detail::norms_on_calling_thread<detail::largest_magnitude>(list, norms);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
