// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of functions of rows, and what run_rows() checks and plans before it launches one.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/plan/matrix_shape.hpp>
#include <warpwright/kernel/detail/reduce/block_reduce.hpp>
#include <warpwright/kernel/detail/rows/row_pass.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// The statistics of each thread's row, of partial_center(t) and partial_total(t, center) of each.
template <class Pass, class Block, class Center, class Total, class Width>
WARPWRIGHT_HOST_DEVICE auto reduce_rows_of_block(Block& block, Pass const& pass,
                                                 Center const& partial_center,
                                                 Total const& partial_total, Width const& width_of,
                                                 thread_groups const& groups) {
  using real = typename Pass::real;
  using kind = typename Pass::kind_type;
  auto statistics = block.template per_thread<row_statistics<real>>();
  auto value = block.template per_thread<real>();
  auto partial = block.template per_thread<typename Pass::partial>();
  if constexpr (kind::is_centered) {
    block.for_each_thread([&](unsigned t) { partial[t] = partial_center(t); });
    combine_groups(block, partial, block.shared(), 0, groups, typename kind::combine_centers{});
  }
  block.for_each_thread([&](unsigned t) {
    real center = 0;
    if constexpr (kind::is_centered) center = pass.kind.center(partial[t], width_of(t));
    statistics[t].center = value[t] = center;
    if constexpr (kind::has_total) value[t] = partial_total(t, center);
  });
  if constexpr (kind::has_total) combine_groups(block, value, block.shared(), 1, groups, add{});
  block.for_each_thread([&](unsigned t) {
    statistics[t].total = value[t];
    statistics[t].scale = pass.kind.scale(value[t], width_of(t));
  });
  return statistics;
}

// Keeps each row in the registers of partition.threads threads; those past the last row have no
// elements to reduce. No loop over rows: it took the registers of a third of the threads.
template <class Pass>
struct register_rows_kernel : warpwright::detail::kernel_base<max_row_threads, Pass::min_blocks> {
  using shared = reduction_scratch<typename Pass::partial, max_row_threads>;

  Pass pass;
  row_partition partition;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    auto kept = block.template per_thread<typename Pass::row_registers>();
    auto row = block.template per_thread<row_span>();
    auto const row_index = [&](unsigned t) {
      return std::uint64_t{block.index()} * partition.rows_per_block + partition.row_of_thread(t);
    };
    auto const part_of = [&](unsigned t) {
      return typename Pass::part{partition, row[t], partition.thread_in_row(t)};
    };
    block.for_each_thread([&](unsigned t) {
      std::uint64_t const index = row_index(t);
      if (index < partition.rows) row[t] = partition.template span<Pass::vector>(index);
      pass.load_row(kept[t], part_of(t));
    });
    block.trigger_dependents();
    auto const statistics = reduce_rows_of_block(
        block, pass, [&](auto t) { return pass.partial_center(kept[t], part_of(t)); },
        [&](unsigned t, auto center) { return pass.partial_total(kept[t], part_of(t), center); },
        [&](auto t) { return pass.width_of(partition, row[t]); },
        thread_groups{partition.threads, 1, (1U << 20U) >> partition.row_shift});
    block.for_each_thread([&](unsigned t) {
      pass.store_vectors(kept[t].x, statistics[t], part_of(t), part_of(t).t);
      pass.store_edge(kept[t].edge, statistics[t], part_of(t));
      if (part_of(t).t == 0 && row_index(t) < partition.rows) {
        pass.store_statistics(statistics[t], kept[t].edge, row_index(t));
      }
    });
  }
};

// A block or a cluster for each row that is too long for registers.
template <class Pass>
struct streamed_rows_kernel
    : warpwright::detail::kernel_base<Pass::streamed_threads, Pass::min_blocks> {
  using cache = typename Pass::cache;
  using shared = cluster_scratch<typename Pass::partial, Pass::streamed_threads>;
  static constexpr unsigned host_threads = max_cluster_row_threads;
  static constexpr std::size_t host_dynamic_bytes = host_row_cache_bytes;

  Pass pass;
  row_partition partition;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    unsigned const blocks = partition.blocks;
    unsigned const index = block.cluster_index(blocks);
    row_span const row = partition.template span<Pass::vector>(index);
    auto const part_of = [&](unsigned t) {
      return typename Pass::part{partition, row, block.thread_in_cluster(t, blocks)};
    };
    auto const cache_of = [&](unsigned t) {
      return cache{reinterpret_cast<typename cache::word*>(block.dynamic_shared()), block.threads(),
                   t};
    };
    auto all = block.template per_thread<typename Pass::accumulator>();
    auto edge = block.template per_thread<typename Pass::edge_value>();
    block.for_each_thread(
        [&](unsigned t) { all[t] = pass.accumulate_row(part_of(t), cache_of(t), edge[t]); });
    block.trigger_dependents();
    auto const statistics = reduce_rows_of_block(
        block, pass, [&](auto t) { return all[t].partial_center(); },
        [&](unsigned t, auto center) { return all[t].total(center); },
        [&](auto) { return pass.width_of(partition, row); },
        thread_groups{partition.threads / blocks, blocks});
    block.leave_cluster(blocks);
    block.for_each_thread([&](unsigned t) {
      pass.store_streamed_row(statistics[t], part_of(t), cache_of(t), edge[t]);
      if (part_of(t).t == 0) pass.store_statistics(statistics[t], edge[t], index);
    });
    block.end_cluster(blocks);
  }
};

// Checks the outputs, plans, and runs the kernel, on a stream or on the calling thread.
template <class Where, class... A>
void run_row_function(Where const& execute, ragged_shape const& ragged, A const&... a) {
  matrix_shape const& shape = ragged.shape();
  constexpr int matrices = (0 + ... + (row_output<A>::is_matrix ? 1 : 0));
  constexpr int statistics = static_cast<int>(sizeof...(A)) - matrices;
  static_assert(matrices > 0,
                "warpwright::ew::run_rows: no output has the matrix's shape: mean(), rstd() and "
                "log_sum_exp() go beside one that has, as out(y, rows * cols) = f; sum(x), max(x) "
                "and the like of each row alone go to reduce_rows()");
  using in_matrices =
      row_function_summary<typename joined_leaves<typename row_output<A>::operand_leaves...>::type>;
  using in_all = row_function_summary<
      typename joined_leaves<leaves_of<decltype(std::declval<A const&>().expression)>...>::type>;
  static_assert(!std::is_void<typename in_matrices::type>::value,
                "warpwright::ew::run_rows: no output of the matrix's shape is of softmax(), "
                "layer_norm() or the like; evaluate it with run()");
  static_assert(in_all::are_same,
                "warpwright::ew::run_rows: the outputs are of several functions of rows; name one, "
                "auto const f = softmax(...), and use f in all of them");
  using function = typename in_all::type;
  using kind = decltype(std::declval<function>().kind);
  using expression = decltype(std::declval<function>().expression);
  static_assert(
      kind::has_total || ((row_output<A>::is_plain || !row_output<A>::is_matrix) && ...),
      "warpwright::ew::run_rows: quantize() is rounded where it is written: give it and its "
      "input() to an out() as they are");
  using pass =
      row_pass<kind, expression, in_matrices::first(), in_all::uses_input, pack<row_output<A>...>>;

  std::uint64_t const n = elements_in(shape);
  constexpr int arrays = pass::operands + pass::statistic_operands;
  c_array<operand, arrays> operands;
  c_array<operand, statistics + 1> of_statistics;
  c_array<int, matrices> counts;
  operand* next = operands;
  operand* next_statistic = of_statistics;
  operand* next_of_statistics = operands + pass::operands;
  int* count = counts;
  auto const describe = [&](auto const& each) {
    using output = row_output<std::decay_t<decltype(each)>>;
    constexpr int vector = output::is_matrix ? pass::vector : 1;
    *(output::is_matrix ? next : next_statistic)++ =
        output::template describe_output<vector>(each.data, each.size);
    each.expression.template describe<vector>(output::is_matrix ? next : next_of_statistics);
    if (output::is_matrix) *count++ = output::operands;
  };
  (describe(a), ...);
  counts[matrices - 1] += pass::statistic_operands;
  if (operands[0].count != n) {
    refuse(operand_name(operands, 0, matrices > 1 ? 1 : 0),
           text{"has "} + count_as_given(operands[0].count) + " elements, but {rows, cols} = {" +
               shape.rows + ", " + shape.cols + "} are " + n + "; give it an out() of rows * cols",
           shape.where);
  }
  check_row_length(shape);
  check_assignments(operands, counts, matrices, shape.where);
  check_row_statistics(of_statistics, statistics, operands, arrays, shape.rows, n, shape.where);
  row_function_finder<kind, expression> found;
  (traversal<decltype(a.expression)>::visit(a.expression, found), ...);
  if (!found.are_one) {
    warpwright::detail::throw_invalid_argument(
        "ew: the outputs are of several functions of rows; call softmax(), layer_norm() or the "
        "like once, name what it returns, and use that in all of them",
        shape.where);
  }

  row_plan plan =
      plan_rows(operands, pass::operands, shape.rows, shape.cols, pass::vector, pass::vectors,
                pass::cache::bytes, pass::streamed_threads, max_row_threads, ragged.lengths());
  if (plan.strategy == row_strategy::none) return;
  auto const width = static_cast<typename pass::real>(shape.cols);
  pass const p{*found.kind, *found.expression, {{row_output<A>::make(a)}...}, {width, 1 / width}};
  char const* const name = "warpwright::ew::run_rows";
  if (plan.strategy == row_strategy::streamed) {
    using kernel = streamed_rows_kernel<pass>;
    std::uint64_t const vectors = shape.cols / pass::vector;
    plan = with_clusters(plan, divide_up(vectors, pass::streamed_vectors),
                         vectors * pass::cache::bytes, pass::kept_bytes, max_row_threads,
                         execute.template cluster_limit<kernel>());
    row_partition const partition =
        with_cached_vectors(plan, pass::vector, pass::cache::bytes,
                            execute.template dynamic_shared_limit<kernel>(plan.partition.blocks));
    execute(plan.blocks, plan.threads, kernel{{}, p, partition}, name,
            std::size_t{partition.cached} * plan.threads * pass::cache::bytes, partition.blocks);
  } else {
    using kernel = register_rows_kernel<pass>;
    execute(plan.blocks, plan.threads, kernel{{}, p, plan.partition}, name);
  }
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
