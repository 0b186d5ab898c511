// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel that reduces each row of a matrix: a part of a warp or a block for a row. The kernel
// that reduces each column: blocks take tiles of columns, and where the rows are many, several
// blocks share a tile. And their results, copied to the host.
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/plan/row_partition.hpp>
#include <warpwright/kernel/detail/reduce/reduction_pass.hpp>

#include <tuple>
#include <type_traits>
#include <vector>

WARPWRIGHT_BEGIN

namespace ew::detail {

inline constexpr std::uint64_t max_matrix_blocks = std::uint64_t{1} << 20U;  // beyond, blocks loop

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// Where the states are light: a host's thread has too small a stack for a cluster's heavy ones.
template <class Pass>
inline constexpr bool may_be_cluster = sizeof(typename Pass::states) <= 64;

// Two blocks an SM, unless the states take their registers; one reduction takes few enough.
template <class Pass>
struct reduce_rows_kernel
    : warpwright::detail::kernel_base<reduce_threads,
                                      Pass::several && may_be_cluster<Pass> ? 2 : 0> {
  using states = typename Pass::states;
  using shared = cluster_scratch<states, reduce_threads>;
  static constexpr unsigned host_threads =
      may_be_cluster<Pass> ? max_cluster_row_threads : reduce_threads;

  Pass parameters;
  row_partition partition;
  std::uint64_t cols;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    Pass const pass = parameters.with_shared_input();
    auto const combine = [&](states const& a, states const& b) {
      return pass.combine_states(a, b);
    };
    unsigned const blocks = partition.blocks;
    auto const row_of = [&](unsigned t) {
      return std::uint64_t{block.cluster_index(blocks)} * partition.rows_per_block +
             partition.row_of_thread(t);
    };
    auto const thread_in_row = [&](unsigned t) {
      return block.thread_in_cluster(partition.thread_in_row(t), blocks);
    };
    auto state = block.template per_thread<states>();
    block.for_each_thread([&](unsigned t) {
      row_span row;  // without elements, past the last one
      if (row_of(t) < partition.rows) row = partition.template span<Pass::vector>(row_of(t));
      state[t] = pass.partial_of_row(row_share<Pass::vector>{partition, row, thread_in_row(t)});
    });
    block.trigger_dependents();
    combine_groups(block, state, block.shared(), 0,
                   thread_groups{partition.threads / blocks, blocks}, combine);
    block.leave_cluster(blocks);
    block.for_each_thread([&](unsigned t) {
      if (thread_in_row(t) == 0 && row_of(t) < partition.rows) {
        row_lengths const& lengths = partition.lengths;
        pass.finish(state[t], lengths.vary() ? lengths.of(row_of(t), cols) : cols, row_of(t));
      }
    });
    block.end_cluster(blocks);
  }
};

// Checks the results, of `length` elements each, and operands; calls use(pass, operands) if any.
template <class Use, class... R>
void with_matrix_pass(elements const& n, std::uint64_t length, void const* workspace,
                      std::size_t workspace_bytes, Use const& use, R const&... r) {
  memory_range const results[] = {range_of(r, length)...};
  int const count = sizeof...(r);
  if (length != 0) check_result_ranges(results, count, workspace, workspace_bytes, n.where);
  check_epilogues(length, n.where, r...);
  with_reduction_pass(
      n,
      [&](auto const& pass, operand const* operands) {
        check_results_disjoint(results, count, operands, std::decay_t<decltype(pass)>::operands,
                               n.count, n.where);
        if (length != 0) use(pass, operands);
      },
      r...);
}

// Reduces each row, on a stream or on the calling thread.
template <class Where, class... R>
void reduce_each_row(Where const& execute, ragged_shape const& ragged, R const&... r) {
  matrix_shape const& shape = ragged.shape();
  elements const n = elements_of(shape);
  check_row_length(shape);
  auto const reduce = [&](auto const& pass, operand const* operands) {
    using pass_type = std::decay_t<decltype(pass)>;
    using kernel = reduce_rows_kernel<pass_type>;
    unsigned const limit = may_be_cluster<pass_type> ? execute.template cluster_limit<kernel>() : 1;
    row_plan const plan =
        plan_row_reductions(operands, pass_type::operands, shape.rows, shape.cols,
                            pass_type::vector, pass_type::row_vectors, limit, ragged.lengths());
    execute(plan.blocks, plan.threads, kernel{{}, pass, plan.partition, shape.cols},
            "warpwright::ew::reduce_rows", 0, plan.partition.blocks);
  };
  with_matrix_pass(n, shape.rows, nullptr, 0, reduce, r...);
}

// Vectors of one row that neighbouring threads of a block take: of 16 bytes each they fill whole
// cache lines. Few, so that the block's other threads combine the states of many blocks quickly.
inline constexpr unsigned max_columns_per_tile = 16;
// Two for each column and warp are shared.
inline constexpr std::size_t max_column_state_bytes = 128;
// The states of a thread's columns stay in registers.
inline constexpr std::size_t max_vector_state_bytes = 128;

/// How the columns are divided: a block's threads take `vectors_per_row` vectors of
/// each of `rows_at_once` rows; `tiles` blocks share a range of rows, `splits` a range of columns.
struct cols_plan {
  bool wide = false;
  unsigned vectors_per_row = 1;
  unsigned rows_at_once = reduce_threads;
  std::uint64_t vectors = 0;  ///< of a row
  std::uint64_t tiles = 0;
  unsigned splits = 1;
  std::uint64_t rows_per_split = 0;
};

constexpr cols_plan plan_cols(std::uint64_t rows, std::uint64_t cols, bool wide, unsigned vector,
                              unsigned rows_per_iteration) {
  cols_plan plan;
  plan.wide = wide;
  plan.vectors = cols / (wide ? vector : 1U);
  while (plan.vectors_per_row < max_columns_per_tile && plan.vectors_per_row < plan.vectors) {
    plan.vectors_per_row *= 2;
  }
  plan.rows_at_once = reduce_threads / plan.vectors_per_row;
  plan.tiles = quotient_up(plan.vectors, plan.vectors_per_row);
  std::uint64_t const iteration = std::uint64_t{plan.rows_at_once} * rows_per_iteration;
  std::uint64_t const iterations = divide_up(rows, iteration);
  // As many blocks as reduce() takes, which keep a GPU busy.
  std::uint64_t const wanted =
      plan.tiles == 0 || plan.tiles >= max_reduce_blocks ? 1 : max_reduce_blocks / plan.tiles;
  std::uint64_t const splits = iterations < wanted ? (iterations == 0 ? 1 : iterations) : wanted;
  plan.rows_per_split = divide_up(iterations, splits) * iteration;
  plan.splits = rows == 0 ? 1U : static_cast<unsigned>(divide_up(rows, plan.rows_per_split));
  return plan;
}

// What a reduction_pass does for elements, done for columns.
template <class Pass>
struct column_reduction {
  using states = typename Pass::states;
  static_assert(
      sizeof(states) <= max_column_state_bytes,
      "warpwright::ew::reduce_cols: what the reductions of one pass carry takes more than "
      "128 bytes, which shared memory is too small for; split the pass, or let fold() "
      "carry less");
  static constexpr int vector =
      Pass::vector * sizeof(states) <= max_vector_state_bytes ? Pass::vector : 1;
  // Resident blocks an SM: four with light states and few arrays, as reduce() has.
  static constexpr unsigned least_blocks =
      vector * sizeof(states) <= max_vector_state_bytes / 4 && Pass::operands <= 4
          ? reduce_blocks_per_sm
          : 2;
  // Rows that a thread loads before it adds: of many arrays few, or they would be spilled.
  static constexpr bool has_many = Pass::operands > 8;
  static constexpr int single_rows = has_many ? 4 : 8;  // where its vector is one element
  static constexpr int rows_per_iteration =
      vector == 1 ? single_rows : (has_many ? 1 : Pass::vectors);

  static constexpr cols_plan plan(std::uint64_t rows, std::uint64_t cols, bool wide) {
    return plan_cols(rows, cols, wide, vector,
                     static_cast<unsigned>(wide ? rows_per_iteration : single_rows));
  }
  // Whether every row's operands can be moved by vectors from its first element on.
  static constexpr bool is_wide(operand const* operands, std::uint64_t cols) {
    return vector > 1 && cols % vector == 0 &&
           wide_operands(operands, Pass::operands, 0, vector) == bits_of_operands(Pass::operands);
  }
  // The workspace that suffices for any alignment of the operands; of none, the head alone.
  static constexpr std::uint64_t workspace_bytes(std::uint64_t rows, std::uint64_t cols) {
    unsigned const narrow = plan(rows, cols, false).splits;
    unsigned const wide = plan(rows, cols, vector > 1 && cols % vector == 0).splits;
    unsigned const most = narrow > wide ? narrow : wide;
    return workspace_head_bytes + (most == 1 ? 0 : most * cols * sizeof(states));
  }

  // The states of V columns from `column` on, of rows begin, begin + step, ... below end.
  template <int V, int Rows>
  WARPWRIGHT_HOST_DEVICE static void accumulate(Pass const& pass, c_array<states, V>& sum,
                                                std::uint64_t begin, std::uint64_t end,
                                                std::uint64_t step, std::uint64_t cols,
                                                std::uint64_t column) {
    std::uint64_t row = begin;
    for (; row < end && (Rows - 1) * step < end - row; row += Rows * step) {
      add<V, Rows>(pass, sum, row, step, cols, column);
    }
    for (; row < end; row += step) add<V, 1>(pass, sum, row, step, cols, column);
  }

 private:
  // Adds `Rows` rows pairwise; all are loaded before the first is used.
  template <int V, int Rows>
  WARPWRIGHT_HOST_DEVICE static void add(Pass const& pass, c_array<states, V>& sum,
                                         std::uint64_t row, std::uint64_t step, std::uint64_t cols,
                                         std::uint64_t column) {
    using registers = typename Pass::whole::template registers<V>;
    c_array<registers, Rows> r;
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < Rows; ++u) {
      pass.expression.template load<V, 1>(r[u], (row + u * step) * cols + column, all_wide_bits);
    }
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) {
      auto const lifted = [&](auto number) {
        constexpr int k = decltype(number)::value;
        std::uint64_t const at = row + k * step;
        return pass.initial_states(pass.expression.template value<void, V>(
                                       r[k], j, at * cols + column + static_cast<unsigned>(j)),
                                   at);
      };
      sum[j] = pass.combine_states(sum[j], pass.template pairwise<0, Rows>(lifted));
    }
  }
};

template <class Pass>
struct reduce_cols_kernel
    : warpwright::detail::kernel_base<reduce_threads, column_reduction<Pass>::least_blocks> {
  using columns = column_reduction<Pass>;
  using states = typename Pass::states;

  // The states of the V columns of one vector.
  template <int V>
  struct vector_states {
    c_array<states, V> of;
  };
  using shared =
      reduction_scratch<vector_states<columns::vector>, reduce_threads, max_columns_per_tile>;

  Pass parameters;
  cols_plan plan;
  std::uint64_t rows;
  std::uint64_t cols;
  unsigned* tickets;
  states* of_splits;  // null where no tile is split

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    Pass const pass = parameters.with_shared_input();
    bool const splits = plan.splits != 1;
    auto const tiles = static_cast<unsigned>(plan.tiles);
    unsigned const split = splits ? block.index() / tiles : 0U;
    std::uint64_t const step = splits ? plan.tiles : block.count();
    unsigned round = 0;
    for (std::uint64_t tile = splits ? block.index() % tiles : block.index(); tile < plan.tiles;
         tile += step) {
      if (columns::vector > 1 && plan.wide) {
        reduce_tile<columns::vector, columns::rows_per_iteration>(block, pass, tile, split, round);
      } else {
        reduce_tile<1, columns::single_rows>(block, pass, tile, split, round);
      }
    }
  }

 private:
  template <int V, int Rows, class Block>
  WARPWRIGHT_HOST_DEVICE void reduce_tile(Block& block, Pass const& pass, std::uint64_t tile,
                                          unsigned split, unsigned& round) const {
    using values = vector_states<V>;
    auto const combine = [&](values const& a, values const& b) {
      values c;
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) c.of[j] = pass.combine_states(a.of[j], b.of[j]);
      return c;
    };
    thread_columns const groups{reduce_threads, plan.vectors_per_row};
    auto const vector_of = [&](unsigned t) {
      return tile * plan.vectors_per_row + t % plan.vectors_per_row;
    };
    auto const writes = [&](unsigned t) {
      return t < plan.vectors_per_row && vector_of(t) < plan.vectors;
    };

    auto sum = block.template per_thread<values>();
    block.for_each_thread([&](unsigned t) {
      clear(pass, sum[t]);
      if (vector_of(t) >= plan.vectors) return;
      std::uint64_t const begin = split * plan.rows_per_split;
      std::uint64_t const end =
          rows - begin < plan.rows_per_split ? rows : begin + plan.rows_per_split;
      columns::template accumulate<V, Rows>(pass, sum[t].of, begin + t / plan.vectors_per_row, end,
                                            plan.rows_at_once, cols, vector_of(t) * V);
    });
    combine_groups(block, sum, block.shared(), round++, groups, combine);
    if (plan.splits > 1) {
      bool const last = is_last_block(block, tickets + tile, plan.splits, [&](unsigned t) {
        if (!writes(t)) return false;
        WARPWRIGHT_UNROLL
        for (int j = 0; j < V; ++j) block_state(split, vector_of(t) * V, j) = sum[t].of[j];
        return true;
      });
      if (!last) return;
      block.for_each_thread([&](unsigned t) {
        clear(pass, sum[t]);
        if (vector_of(t) >= plan.vectors) return;
        for (unsigned s = t / plan.vectors_per_row; s < plan.splits; s += plan.rows_at_once) {
          WARPWRIGHT_UNROLL
          for (int j = 0; j < V; ++j) {
            sum[t].of[j] = pass.combine_states(sum[t].of[j], block_state(s, vector_of(t) * V, j));
          }
        }
      });
      combine_groups(block, sum, block.shared(), round++, groups, combine);
    }
    block.for_each_thread([&](unsigned t) {
      if (!writes(t)) return;
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) {
        pass.finish(sum[t].of[j], rows, vector_of(t) * V + static_cast<unsigned>(j));
      }
    });
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE static void clear(Pass const& pass, vector_states<V>& sum) {
    WARPWRIGHT_UNROLL
    for (states& s : sum.of) s = pass.identities();
  }
  WARPWRIGHT_HOST_DEVICE states& block_state(unsigned split, std::uint64_t column, int j) const {
    return of_splits[split * cols + column + static_cast<unsigned>(j)];
  }
};

// Reduces each column, on a stream or on the calling thread.
// @param workspace  null where no column is split
template <class Where, class... R>
void reduce_each_column(Where const& execute, void* workspace, std::size_t workspace_bytes,
                        matrix_shape const& shape, R const&... r) {
  auto const reduce = [&](auto const& pass, operand const* operands) {
    using pass_type = std::decay_t<decltype(pass)>;
    using columns = column_reduction<pass_type>;
    cols_plan const plan =
        columns::plan(shape.rows, shape.cols, columns::is_wide(operands, shape.cols));
    std::uint64_t const blocks = plan.tiles * plan.splits;
    execute(blocks < max_matrix_blocks ? blocks : max_matrix_blocks, reduce_threads,
            reduce_cols_kernel<pass_type>{{},
                                          pass,
                                          plan,
                                          shape.rows,
                                          shape.cols,
                                          static_cast<unsigned*>(workspace),
                                          states_in<typename pass_type::states>(workspace)},
            "warpwright::ew::reduce_cols");
  };
  with_matrix_pass(elements_of(shape), shape.cols, workspace, workspace_bytes, reduce, r...);
}

/// Lets reduce(goals...) write `count` results of each to a block of a pool, and waits for them.
/// @return a vector, or of several reductions a tuple of vectors
template <class Pool, class Reduce, std::size_t... Index, class... R>
auto fetch_results(stream_ref stream, Pool& pool, elements const& n, std::uint64_t count,
                   Reduce const& reduce, std::index_sequence<Index...>, R const&... reductions) {
  static_assert(((alignof(result_value<R>) <= 16) && ...),
                "warpwright::ew: a result's alignment is limited to 16 bytes");
  // Operands that do not fit are refused before any memory is allocated.
  using pass = reduction_pass<false, result_assignment<R>...>;
  operand operands[pass::operands];
  pass::describe(
      gather_expressions(result_assignment<R>{nullptr, reductions.kind, reductions.expression}...),
      n.count, operands, n.where);

  std::size_t const bytes[] = {count * sizeof(result_value<R>)...};
  std::size_t begin[sizeof...(R)] = {};
  std::size_t total = 0;
  for (std::size_t k = 0; k < sizeof...(R); ++k) {
    begin[k] = total;
    total += round_up_to_16(bytes[k]);
  }
  workspace_block<Pool> const block{pool, stream, total != 0 ? total : 16, n.where};
  auto* const there = static_cast<unsigned char*>(block.data());
  std::tuple<std::vector<result_value<R>>...> here{std::vector<result_value<R>>(count)...};
  reduce(result_assignment<R>{reinterpret_cast<bits_of<result_value<R>>*>(there + begin[Index]),
                              reductions.kind, reductions.expression}...);
  if (count != 0) {
    void* const to[] = {std::get<Index>(here).data()...};
    cudaError_t status = cudaSuccess;
    for (std::size_t k = 0; k < sizeof...(R) && status == cudaSuccess; ++k) {
      status = warpwright::detail::copy_async(to[k], there + begin[k], bytes[k],
                                              cudaMemcpyDeviceToHost, stream.get());
    }
    // Also after a copy that failed: those before it may still be writing.
    cudaError_t const end = cudaStreamSynchronize(stream.get());
    check(status, "cudaMemcpyAsync", n.where);
    check(end, "cudaStreamSynchronize", n.where);
  }
  if constexpr (sizeof...(R) == 1) {
    return std::get<0>(static_cast<decltype(here)&&>(here));
  } else {
    return here;
  }
}

// std::vector<bool> holds no array of bool.
template <class... R>
using if_fetchable =
    std::enable_if_t<(sizeof...(R) > 0) && (!std::is_same<result_value<R>, bool>::value && ...)>;

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
