// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions of each row of a row-major matrix: as reduce.hpp, but every row has its own results.
#pragma once

#include <warpwright/kernel/detail/fetched.hpp>
#include <warpwright/kernel/detail/matrix.hpp>
#include <warpwright/kernel/reduce.hpp>

WARPWRIGHT_BEGIN

namespace ew {

namespace detail {

// Rows of no more vectors go to one warp each, longer ones to a block.
inline constexpr std::uint64_t most_vectors_of_a_warp = 256;
constexpr unsigned threads_for_row(std::uint64_t vectors) {
  return vectors <= most_vectors_of_a_warp ? warp_lanes : reduce_threads;
}

// Every row alike: vectors from its first element on, wide where that suits all rows.
constexpr schedule deal_row(operand const* operands, int count, std::uint64_t cols,
                            unsigned vector) {
  schedule deal;
  deal.vectors = cols / vector;
  deal.edge = static_cast<unsigned>(cols % vector);
  if (deal.edge != 0) return deal;
  for (int k = 0; k < count; ++k) {
    if (is_wide(operands[k], 0, vector)) deal.wide |= std::uint64_t{1} << static_cast<unsigned>(k);
  }
  deal.all_wide = deal.wide == ~std::uint64_t{0} >> (64U - static_cast<unsigned>(count));
  return deal;
}

// Another block may still read what a row's result would overwrite.
inline void check_apart(place const* places, int results, operand const* operands, int count,
                        std::uint64_t n, source_location where) {
  for (int r = 0; r < results; ++r) {
    for (int k = 1; k < count && n != 0; ++k) {
      place const& p = places[r];
      if (p.address < operands[k].address + span_bytes(operands[k], n) &&
          operands[k].address < p.address + p.bytes) {
        warpwright::detail::throw_invalid_argument(
            text{"ew: result "} + (r + 1) + " overlaps " + name_of(operands, k) +
                ", which other rows still read; pass other memory",
            where);
      }
    }
  }
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

#if defined(__CUDACC__)

inline constexpr std::uint64_t most_row_blocks = std::uint64_t{1} << 20U;  // past it, blocks stride

template <class Pass>
struct rows_launch;

template <class Pass>
__global__ void __launch_bounds__(reduce_threads)
    rows_kernel(Pass const parameters, schedule const deal, std::uint64_t const rows,
                std::uint64_t const cols, unsigned const threads) {
  warpwright::detail::await_predecessors();
  Pass const pass = parameters.united();
  unsigned const rows_a_block = reduce_threads / threads;
  unsigned const t = threadIdx.x % threads;
  for (std::uint64_t first = std::uint64_t{blockIdx.x} * rows_a_block; first < rows;
       first += std::uint64_t{gridDim.x} * rows_a_block) {
    std::uint64_t const row = first + threadIdx.x / threads;  // the same for a whole warp
    typename Pass::states state = pass.identities();
    if (row < rows) state = pass.partial(deal, row * cols, 0, 1, t, threads);
    if (threads == warp_lanes) {
      state = fold_warp(pass, state, warp_lanes);
    } else {
      state = fold_block(pass, state);
      __syncthreads();  // before the next row writes shared memory
    }
    if (t == 0 && row < rows) pass.finish(state, cols, row);
  }
}

#elif WARPWRIGHT_HOST_RUNTIME

template <class Pass>
struct rows_body {
  Pass pass;
  schedule deal;
  std::uint64_t cols;
  unsigned threads;
  void operator()(std::uint64_t begin, std::uint64_t end) const {
    for (std::uint64_t row = begin; row < end; ++row) pass.run_row(deal, row, cols, threads);
  }
};

#endif

struct rows_on_calling_thread {
  matrix_shape shape;
  place const* places;
  int results;

  template <class Pass>
  void operator()(Pass const& pass, operand const* operands) const {
    check_apart(places, results, operands, Pass::operands, pass.n, shape.where);
    schedule const deal = deal_row(operands, Pass::operands, shape.cols, Pass::vector);
    for (std::uint64_t row = 0; row < shape.rows; ++row) {
      pass.run_row(deal, row, shape.cols, threads_for_row(deal.vectors));
    }
  }
};

struct rows_on_stream {
  stream_ref stream;
  matrix_shape shape;
  place const* places;
  int results;

  template <class Pass>
  void operator()(Pass const& pass, operand const* operands) const {
#if defined(__CUDACC__) || WARPWRIGHT_HOST_RUNTIME
    static_assert(sizeof(Pass) <= 3072,
                  "warpwright::ew::reduce_rows: the expressions' numbers and functions take more "
                  "than a kernel's arguments can hold; pass them by pointer or split the pass");
    check_apart(places, results, operands, Pass::operands, pass.n, shape.where);
    if (shape.rows == 0) return;
    schedule const deal = deal_row(operands, Pass::operands, shape.cols, Pass::vector);
    unsigned const threads = threads_for_row(deal.vectors);
#if defined(__CUDACC__)
    unsigned const rows_a_block = reduce_threads / threads;
    std::uint64_t const blocks = (shape.rows - 1) / rows_a_block + 1;
    warpwright::detail::launch_kernel<rows_launch<Pass>>(
        &rows_kernel<Pass>,
        dim3{static_cast<unsigned>(blocks < most_row_blocks ? blocks : most_row_blocks)},
        dim3{reduce_threads}, 0, stream, shape.where, pass, deal, shape.rows, shape.cols, threads);
#else
    warpwright::detail::launch_host(stream, "warpwright::ew::reduce_rows", shape.rows,
                                    rows_body<Pass>{pass, deal, shape.cols, threads}, shape.where);
#endif
#else
    static_cast<void>(pass), static_cast<void>(operands);
    static_assert(
        warpwright::detail::always_false<Pass>,
        "warpwright::ew::reduce_rows needs a kernel: compile this file with nvcc (name it .cu), or "
        "link warpwright::host_runtime to run without a GPU");
#endif
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

inline elements elements_of(matrix_shape const& shape) { return {elements_in(shape), shape.where}; }

}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates several reductions of each row of a matrix in one pass, as one kernel.
///
/// Every expression has rows * cols elements, row after row. Indices that argmin() and argmax()
/// find are columns. With cols = 0 every result is that of no elements. A row's results are the
/// same bits in every run, and whatever the number of rows.
/// @pre all memory can be reached from the stream's device and stays alive until it has passed it
/// @param stream  the stream to run on
/// @param shape   `{rows, cols}`, up to 2^59 elements
/// @param goals   `to(pointer) = reduction`, where the pointer is to `rows` elements
/// @throws std::invalid_argument  for operands that do not fit, as run() does; for a negative or
///   larger shape; for a null or odd result pointer, and for results that overlap each other or an
///   array that is read
/// @throws cuda_error             when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block. **Threads:** any. **Capture:**
/// legal.
/// **Cost:** one kernel launch, no allocation. A row is one warp's or one
/// block's work: a few very long rows keep a GPU busy better as one reduce() each. Where cols is no
/// multiple of 16 bytes' worth of elements, loads are of single elements.
/// Compiled for architectures both below and from 9.0, a launch also calls cudaGetDevice, and the
/// first of a kernel on a device cudaFuncGetAttributes.
template <class... T, class... K, class... E>
void reduce_rows(stream_ref stream, matrix_shape const& shape,
                 reduction_goal<T, K, E> const&... goals) {
  static_assert(sizeof...(goals) > 0, "warpwright::ew::reduce_rows: name at least one reduction");
  elements const n = detail::elements_of(shape);
  detail::place const places[] = {detail::place_of(goals, shape.rows)...};
  if (shape.rows != 0) detail::check_places(places, sizeof...(goals), 0, 0, shape.where);
  detail::run_reduction(detail::rows_on_stream{stream, shape, places, sizeof...(goals)}, n,
                        goals...);
}

/// Evaluates several reductions of each row and waits for their results.
/// @param stream, shape  as above
/// @param pool        for the results on their way: a memory_pool, or anything with
///   allocate(stream, bytes) and deallocate(stream, pointer, bytes)
/// @param reductions  `sum(x)` and others
/// @return a std::vector of `rows` results, or of several reductions a tuple of vectors:
///   `auto [a, b] = reduce_rows(...)`; in the reductions' own types, of which bool is none
/// @throws std::invalid_argument, cuda_error  as above; what the pool throws
/// **Stream:** one kernel and a copy a reduction on `stream`, then synchronises with it.
/// **Threads:** any. **Capture:** not legal: it waits.
/// **Cost:** an allocation, a kernel launch, copies to pageable memory.
template <class Pool, class... K, class... E, class = detail::if_pool<Pool>,
          class = detail::if_fetchable<reduction<K, E>...>>
[[nodiscard]] auto reduce_rows(stream_ref stream, Pool& pool, matrix_shape const& shape,
                               reduction<K, E> const&... reductions) {
  return detail::fetch_results(
      stream, pool, detail::elements_of(shape), shape.rows,
      [&](auto const&... goals) { reduce_rows(stream, shape, goals...); },
      std::index_sequence_for<E...>{}, reductions...);
}

/// The same on the calling thread, over arrays in host memory, in the order in which a GPU would.
/// **Threads:** any.
template <class... T, class... K, class... E>
void reduce_rows_host(matrix_shape const& shape, reduction_goal<T, K, E> const&... goals) {
  static_assert(sizeof...(goals) > 0,
                "warpwright::ew::reduce_rows_host: name at least one reduction");
  elements const n = detail::elements_of(shape);
  detail::place const places[] = {detail::place_of(goals, shape.rows)...};
  if (shape.rows != 0) detail::check_places(places, sizeof...(goals), 0, 0, shape.where);
  detail::run_reduction(detail::rows_on_calling_thread{shape, places, sizeof...(goals)}, n,
                        goals...);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
