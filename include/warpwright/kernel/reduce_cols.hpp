// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions of each column of a row-major matrix: as reduce.hpp, but every column has its own
// results.
#pragma once

#include <warpwright/kernel/reduce_rows.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// Neighbouring lanes of a block stand on neighbouring vectors of one row: of 16 bytes each they
// read whole cache lines. Few of them, as the block's other threads then fold many blocks' states
// fast.
inline constexpr unsigned most_lanes_of_a_row = 16;
// Rows that a thread loads before it adds, where it stands on one element only.
inline constexpr int narrow_rows_a_turn = 8;
inline constexpr std::size_t most_state_bytes_of_a_column = 128;  // 256 of them in shared memory
// Columns' states of a thread stay in registers.
inline constexpr std::size_t state_bytes_a_vector = 128;

/// How the columns are dealt out: `lanes` vectors of a row by `rows_at_once` rows to a block's
/// threads, `tiles` such blocks beside each other, `splits` below each other.
struct cols_plan {
  bool wide = false;
  unsigned lanes = 1;
  unsigned rows_at_once = reduce_threads;
  std::uint64_t vectors = 0;  ///< of a row
  std::uint64_t tiles = 0;
  unsigned splits = 1;
  std::uint64_t rows_a_split = 0;
};

constexpr cols_plan plan_cols(std::uint64_t rows, std::uint64_t cols, bool wide, unsigned vector,
                              unsigned rows_a_turn) {
  cols_plan plan;
  plan.wide = wide;
  plan.vectors = cols / (wide ? vector : 1U);
  while (plan.lanes < most_lanes_of_a_row && plan.lanes < plan.vectors) plan.lanes *= 2;
  plan.rows_at_once = reduce_threads / plan.lanes;
  plan.tiles = plan.vectors / plan.lanes + (plan.vectors % plan.lanes != 0 ? 1 : 0);
  std::uint64_t const turn = std::uint64_t{plan.rows_at_once} * rows_a_turn;
  std::uint64_t const turns = rows / turn + (rows % turn != 0 ? 1 : 0);
  // As many blocks as reduce() takes, which keep a GPU busy.
  std::uint64_t const wanted =
      plan.tiles == 0 || plan.tiles >= reduce_blocks ? 1 : reduce_blocks / plan.tiles;
  std::uint64_t const splits = turns < wanted ? (turns == 0 ? 1 : turns) : wanted;
  plan.rows_a_split = (turns / splits + (turns % splits != 0 ? 1 : 0)) * turn;
  plan.splits = rows == 0 ? 1U : static_cast<unsigned>((rows - 1) / plan.rows_a_split + 1);
  return plan;
}

// What one_pass says of elements, said of columns.
template <class Pass>
struct of_columns {
  using states = typename Pass::states;
  static_assert(
      sizeof(states) <= most_state_bytes_of_a_column,
      "warpwright::ew::reduce_cols: what the reductions of one pass carry takes more than "
      "128 bytes, which shared memory is too small for; split the pass, or let fold() "
      "carry less");
  static constexpr int vector =
      Pass::vector * sizeof(states) <= state_bytes_a_vector ? Pass::vector : 1;
  // Blocks an SM that registers must suffice for: with light states and few arrays four, as
  // reduce() has. (Nine arrays, some of them row() and col(), took local memory even for two.)
  static constexpr unsigned light_blocks =
      vector * sizeof(states) <= state_bytes_a_vector / 4 && Pass::operands <= 4
          ? reduce_blocks_a_sm
          : 2;
  static constexpr unsigned least_blocks = Pass::operands > 8 ? 1 : light_blocks;
  static constexpr int rows_a_turn = vector == 1 ? narrow_rows_a_turn : Pass::vectors;

  static constexpr cols_plan plan(std::uint64_t rows, std::uint64_t cols, bool wide) {
    return plan_cols(rows, cols, wide, vector,
                     static_cast<unsigned>(wide ? rows_a_turn : narrow_rows_a_turn));
  }
  // Whether every row's operands can be moved by vectors from its first element on.
  static constexpr bool is_wide(operand const* operands, std::uint64_t cols) {
    bool wide = vector > 1 && cols % vector == 0;
    for (int k = 0; wide && k < Pass::operands; ++k) wide = detail::is_wide(operands[k], 0, vector);
    return wide;
  }
  // For any alignment of the operands.
  static constexpr std::uint64_t workspace_bytes(std::uint64_t rows, std::uint64_t cols) {
    unsigned most = plan(rows, cols, false).splits;
    if (vector > 1 && cols % vector == 0 && plan(rows, cols, true).splits > most) {
      most = plan(rows, cols, true).splits;
    }
    return most == 1 ? 0 : workspace_head_bytes + most * cols * sizeof(states);
  }

  // The states of V columns from `column` on, of rows begin, begin + step, ... below end.
  template <int V, int Rows>
  WARPWRIGHT_HOST_DEVICE static void accumulate(Pass const& pass, states (&sum)[V],
                                                std::uint64_t begin, std::uint64_t end,
                                                std::uint64_t step, std::uint64_t cols,
                                                std::uint64_t column) {
    std::uint64_t row = begin;
    for (; row < end && (Rows - 1) * step < end - row; row += Rows * step) {
      add<V, Rows>(pass, sum, row, step, cols, column);
    }
    for (; row < end; row += step) add<V, 1>(pass, sum, row, step, cols, column);
  }

  // The state of one column, combined in the order of a GPU's threads and blocks.
  static states whole_column(Pass const& pass, cols_plan const& plan, std::uint64_t rows,
                             std::uint64_t cols, std::uint64_t column) {
    states of_split[reduce_blocks];
    states of_thread[reduce_threads];
    for (unsigned split = 0; split < plan.splits; ++split) {
      std::uint64_t const begin = split * plan.rows_a_split;
      std::uint64_t const end = rows - begin < plan.rows_a_split ? rows : begin + plan.rows_a_split;
      for (unsigned y = 0; y < plan.rows_at_once; ++y) {
        states sum[1] = {pass.identities()};
        if (plan.wide) {
          accumulate<1, rows_a_turn>(pass, sum, begin + y, end, plan.rows_at_once, cols, column);
        } else {
          accumulate<1, narrow_rows_a_turn>(pass, sum, begin + y, end, plan.rows_at_once, cols,
                                            column);
        }
        of_thread[y] = sum[0];
      }
      pass.fold_tree(of_thread, plan.rows_at_once);
      of_split[split] = of_thread[0];
    }
    if (plan.splits == 1) return of_split[0];
    for (unsigned y = 0; y < plan.rows_at_once; ++y) {
      of_thread[y] = pass.identities();
      for (unsigned split = y; split < plan.splits; split += plan.rows_at_once) {
        of_thread[y] = pass.combined(of_thread[y], of_split[split]);
      }
    }
    pass.fold_tree(of_thread, plan.rows_at_once);
    return of_thread[0];
  }

 private:
  // Adds `Rows` rows, loaded before the first is used, pairwise.
  template <int V, int Rows>
  WARPWRIGHT_HOST_DEVICE static void add(Pass const& pass, states (&sum)[V], std::uint64_t row,
                                         std::uint64_t step, std::uint64_t cols,
                                         std::uint64_t column) {
    using registers = typename Pass::whole::template registers<V>;
    registers r[Rows];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < Rows; ++u) {
      pass.expression.template load<V, 1>(r[u], (row + u * step) * cols + column,
                                          ~std::uint64_t{0});
    }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int j = 0; j < V; ++j) {
      sum[j] = pass.combined(sum[j], pairwise<V, 0, Rows>(pass, r, j, row, step, cols, column));
    }
  }
  template <int V, int First, int Count, class Registers>
  WARPWRIGHT_HOST_DEVICE static states pairwise(Pass const& pass, Registers const* r, int j,
                                                std::uint64_t row, std::uint64_t step,
                                                std::uint64_t cols, std::uint64_t column) {
    if constexpr (Count == 1) {
      std::uint64_t const at = row + First * step;
      return pass.lifted(pass.expression.template value<void, V>(
                             r[First], j, at * cols + column + static_cast<unsigned>(j)),
                         at);
    } else {
      constexpr int half = Count / 2;
      return pass.appended(
          pairwise<V, First, half>(pass, r, j, row, step, cols, column),
          pairwise<V, First + half, Count - half>(pass, r, j, row, step, cols, column));
    }
  }
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

#if defined(__CUDACC__)

// The answer of the threads of the block's first row is the state of their column.
template <class Pass>
__device__ typename Pass::states fold_column(Pass const& pass, typename Pass::states state,
                                             typename Pass::states* shared, unsigned lanes) {
  __syncthreads();  // the last fold's readers are done
  shared[threadIdx.x] = state;
  // All threads take part, the upper ones for nothing: a branch here costs registers for where to
  // meet again.
  for (unsigned half = reduce_threads / 2; half >= lanes; half /= 2) {
    __syncthreads();
    typename Pass::states const other = shared[(threadIdx.x + half) % reduce_threads];
    __syncthreads();
    state = pass.combined(state, other);
    shared[threadIdx.x] = state;
  }
  return state;
}

template <int V, int Rows, class Pass>
__device__ void reduce_tile(Pass const& pass, cols_plan const& plan, std::uint64_t rows,
                            std::uint64_t cols, std::uint64_t tile, unsigned split,
                            unsigned* tickets, typename Pass::states* of_split,
                            typename Pass::states* shared) {
  using states = typename Pass::states;
  unsigned const x = threadIdx.x % plan.lanes;
  unsigned const y = threadIdx.x / plan.lanes;
  std::uint64_t const v = tile * plan.lanes + x;
  std::uint64_t const column = v * V;
  states sum[V];
#pragma unroll
  for (states& s : sum) s = pass.identities();
  if (v < plan.vectors) {
    std::uint64_t const begin = split * plan.rows_a_split;
    std::uint64_t const end = rows - begin < plan.rows_a_split ? rows : begin + plan.rows_a_split;
    of_columns<Pass>::template accumulate<V, Rows>(pass, sum, begin + y, end, plan.rows_at_once,
                                                   cols, column);
  }
  bool const writes = y == 0 && v < plan.vectors;
#pragma unroll
  for (int j = 0; j < V; ++j) {
    states const s = fold_column(pass, sum[j], shared, plan.lanes);
    std::uint64_t const at = column + static_cast<unsigned>(j);
    if (writes && plan.splits == 1) pass.finish(s, rows, at);
    if (writes && plan.splits > 1) of_split[split * cols + at] = s;
  }
  if (plan.splits == 1) return;
  // As reduce_kernel: the last block of a tile combines the states of all.
  __shared__ bool last;
  if (writes) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(tickets + tile, 1U) == plan.splits - 1;
    if (last) tickets[tile] = 0;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
#pragma unroll 1
  for (int j = 0; j < V; ++j) {
    std::uint64_t const at = column + static_cast<unsigned>(j);
    states s = pass.identities();
    if (v < plan.vectors) {
      for (unsigned other = y; other < plan.splits; other += plan.rows_at_once) {
        s = pass.combined(s, of_split[other * cols + at]);
      }
    }
    s = fold_column(pass, s, shared, plan.lanes);
    if (writes) pass.finish(s, rows, at);
  }
}

template <class Pass>
__global__ void __launch_bounds__(reduce_threads, of_columns<Pass>::least_blocks)
    cols_kernel(Pass const parameters, cols_plan const plan, std::uint64_t const rows,
                std::uint64_t const cols, unsigned* tickets, typename Pass::states* of_split) {
  warpwright::detail::await_predecessors();
  using shape = of_columns<Pass>;
  __shared__ alignas(16) unsigned char memory[reduce_threads * sizeof(typename Pass::states)];
  auto* const shared = reinterpret_cast<typename Pass::states*>(memory);
  Pass const pass = parameters.united();
  unsigned const split = plan.splits == 1 ? 0U : blockIdx.x / static_cast<unsigned>(plan.tiles);
  std::uint64_t const step = plan.splits == 1 ? gridDim.x : plan.tiles;
  for (std::uint64_t tile = plan.splits == 1 ? blockIdx.x : blockIdx.x % plan.tiles;
       tile < plan.tiles; tile += step) {
    if (shape::vector > 1 && plan.wide) {
      reduce_tile<shape::vector, shape::rows_a_turn>(pass, plan, rows, cols, tile, split, tickets,
                                                     of_split, shared);
    } else {
      reduce_tile<1, narrow_rows_a_turn>(pass, plan, rows, cols, tile, split, tickets, of_split,
                                         shared);
    }
  }
}

#elif WARPWRIGHT_HOST_RUNTIME

template <class Pass>
struct cols_body {
  Pass pass;
  cols_plan plan;
  std::uint64_t rows;
  std::uint64_t cols;
  void operator()(std::uint64_t begin, std::uint64_t end) const {
    for (std::uint64_t c = begin; c < end; ++c) {
      pass.finish(of_columns<Pass>::whole_column(pass, plan, rows, cols, c), rows, c);
    }
  }
};

#endif

struct cols_on_calling_thread {
  matrix_shape shape;
  place const* places;
  int results;

  template <class Pass>
  void operator()(Pass const& pass, operand const* operands) const {
    using columns = of_columns<Pass>;
    check_apart(places, results, operands, Pass::operands, pass.n, shape.where);
    cols_plan const plan =
        columns::plan(shape.rows, shape.cols, columns::is_wide(operands, shape.cols));
    for (std::uint64_t c = 0; c < shape.cols; ++c) {
      pass.finish(columns::whole_column(pass, plan, shape.rows, shape.cols, c), shape.rows, c);
    }
  }
};

struct cols_on_stream {
  stream_ref stream;
  matrix_shape shape;
  void* workspace;  // not used where no column is split
  place const* places;
  int results;

  template <class Pass>
  void operator()(Pass const& pass, operand const* operands) const {
#if defined(__CUDACC__) || WARPWRIGHT_HOST_RUNTIME
    static_assert(sizeof(Pass) <= 3072,
                  "warpwright::ew::reduce_cols: the expressions' numbers and functions take more "
                  "than a kernel's arguments can hold; pass them by pointer or split the pass");
    using columns = of_columns<Pass>;
    check_apart(places, results, operands, Pass::operands, pass.n, shape.where);
    if (shape.cols == 0) return;
    cols_plan const plan =
        columns::plan(shape.rows, shape.cols, columns::is_wide(operands, shape.cols));
#if defined(__CUDACC__)
    std::uint64_t const blocks = plan.tiles * plan.splits;
    auto* const of_split = reinterpret_cast<typename Pass::states*>(
        static_cast<unsigned char*>(workspace) + workspace_head_bytes);
    warpwright::detail::launch_kernel<of_columns<Pass>>(
        &cols_kernel<Pass>,
        dim3{static_cast<unsigned>(blocks < most_row_blocks ? blocks : most_row_blocks)},
        dim3{reduce_threads}, 0, stream, shape.where, pass, plan, shape.rows, shape.cols,
        static_cast<unsigned*>(workspace), of_split);
#else
    warpwright::detail::launch_host(stream, "warpwright::ew::reduce_cols", shape.cols,
                                    cols_body<Pass>{pass, plan, shape.rows, shape.cols},
                                    shape.where);
#endif
#else
    static_cast<void>(pass), static_cast<void>(operands);
    static_assert(
        warpwright::detail::always_false<Pass>,
        "warpwright::ew::reduce_cols needs a kernel: compile this file with nvcc (name it .cu), or "
        "link warpwright::host_runtime to run without a GPU");
#endif
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

/// The size of the workspace that reduce_cols() wants, in bytes: 2 KB, and at most some 140 KB
/// times the bytes that the reductions of one column carry.
/// @param shape  `{rows, cols}`
/// @param goals  as reduce_cols() is given them
template <class... T, class... K, class... E>
[[nodiscard]] std::size_t reduce_cols_workspace_bytes(matrix_shape const& shape,
                                                      reduction_goal<T, K, E> const&...) {
  using pass = detail::one_pass<false, reduction_goal<T, K, E>...>;
  static_cast<void>(detail::elements_of(shape));
  auto const bytes =
      static_cast<std::size_t>(detail::of_columns<pass>::workspace_bytes(shape.rows, shape.cols));
  return bytes == 0 ? detail::workspace_head_bytes : bytes;
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates several reductions of each column of a matrix in one pass, as one kernel: the gradient
/// of a bias, the mean and norm of every feature.
///
/// Every expression has rows * cols elements, row after row. Indices that argmin() and argmax()
/// find are rows. With rows = 0 every result is that of no elements. Results are the same bits in
/// every run.
/// @pre all memory can be reached from the stream's device and stays alive until it has passed it
/// @param stream     the stream to run on
/// @param workspace  as for reduce(), of reduce_cols_workspace_bytes() or more
/// @param shape      `{rows, cols}`, up to 2^59 elements
/// @param goals      `to(pointer) = reduction`, where the pointer is to `cols` elements
/// @throws std::invalid_argument  for operands that do not fit, as run() does; for a workspace that
///   is too small; for a null or odd result pointer, and for results that overlap each other, the
///   workspace, or an array that is read
/// @throws cuda_error             when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block. **Threads:** any, one at a time for
/// one workspace. **Capture:** legal.
/// **Cost:** one kernel launch, no allocation. Where cols is no multiple of
/// 16 bytes' worth of elements, loads are of single elements.
/// Compiled for architectures both below and from 9.0, a launch also calls cudaGetDevice, and the
/// first of a kernel on a device cudaFuncGetAttributes.
template <class... T, class... K, class... E>
void reduce_cols(stream_ref stream, reduction_workspace const& workspace, matrix_shape const& shape,
                 reduction_goal<T, K, E> const&... goals) {
  static_assert(sizeof...(goals) > 0, "warpwright::ew::reduce_cols: name at least one reduction");
  elements const n = detail::elements_of(shape);
  detail::place const places[] = {detail::place_of(goals, shape.cols)...};
  detail::check_workspace(workspace.size_bytes(), reduce_cols_workspace_bytes(shape, goals...),
                          shape.where, "reduce_cols_workspace_bytes()");
  if (shape.cols != 0) {
    detail::check_places(places, sizeof...(goals),
                         reinterpret_cast<std::uintptr_t>(workspace.data()), workspace.size_bytes(),
                         shape.where);
  }
  detail::run_reduction(
      detail::cols_on_stream{stream, shape, workspace.data(), places, sizeof...(goals)}, n,
      goals...);
}

/// The same with a workspace from a pool, where one is wanted.
/// **Capture:** as the pool's.
/// **Cost:** one kernel launch; before it, where columns are split, one allocation and one memset
/// of 2 KB.
template <class Pool, class... T, class... K, class... E, class = detail::if_pool<Pool>>
void reduce_cols(stream_ref stream, Pool& pool, matrix_shape const& shape,
                 reduction_goal<T, K, E> const&... goals) {
  static_assert(sizeof...(goals) > 0, "warpwright::ew::reduce_cols: name at least one reduction");
  std::size_t const bytes = reduce_cols_workspace_bytes(shape, goals...);
  if (bytes != detail::workspace_head_bytes) {
    detail::pool_block<Pool> const block{pool, stream, bytes, shape.where};
    reduce_cols(stream, prepare_workspace(stream, block.data(), bytes, shape.where), shape,
                goals...);
    return;
  }
  elements const n = detail::elements_of(shape);
  detail::place const places[] = {detail::place_of(goals, shape.cols)...};
  if (shape.cols != 0) detail::check_places(places, sizeof...(goals), 0, 0, shape.where);
  detail::run_reduction(detail::cols_on_stream{stream, shape, nullptr, places, sizeof...(goals)}, n,
                        goals...);
}

/// Evaluates several reductions of each column and waits for their results.
/// @param stream, shape  as above
/// @param pool        for the workspace, and the results on their way
/// @param reductions  `sum(x)` and others
/// @return a std::vector of `cols` results, or of several reductions a tuple of vectors:
///   `auto [a, b] = reduce_cols(...)`; in the reductions' own types, of which bool is none
/// @throws std::invalid_argument, cuda_error  as above; what the pool throws
/// **Stream:** one kernel and a copy a reduction on `stream`, then synchronises with it.
/// **Threads:** any. **Capture:** not legal: it waits.
/// **Cost:** an allocation, or two and a memset where columns are split; a kernel launch, copies to
/// pageable memory.
template <class Pool, class... K, class... E, class = detail::if_pool<Pool>,
          class = detail::if_fetchable<reduction<K, E>...>>
[[nodiscard]] auto reduce_cols(stream_ref stream, Pool& pool, matrix_shape const& shape,
                               reduction<K, E> const&... reductions) {
  return detail::fetch_results(
      stream, pool, detail::elements_of(shape), shape.cols,
      [&](auto const&... goals) { reduce_cols(stream, pool, shape, goals...); },
      std::index_sequence_for<E...>{}, reductions...);
}

/// The same on the calling thread, over arrays in host memory, in the order in which a GPU would.
/// **Threads:** any.
template <class... T, class... K, class... E>
void reduce_cols_host(matrix_shape const& shape, reduction_goal<T, K, E> const&... goals) {
  static_assert(sizeof...(goals) > 0,
                "warpwright::ew::reduce_cols_host: name at least one reduction");
  elements const n = detail::elements_of(shape);
  detail::place const places[] = {detail::place_of(goals, shape.cols)...};
  if (shape.cols != 0) detail::check_places(places, sizeof...(goals), 0, 0, shape.where);
  detail::run_reduction(detail::cols_on_calling_thread{shape, places, sizeof...(goals)}, n,
                        goals...);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
