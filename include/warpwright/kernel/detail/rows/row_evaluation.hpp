// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks the outputs of run_rows(), plans, and launches.
#pragma once

#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/plan/matrix_shape.hpp>
#include <warpwright/kernel/detail/rows/row_kernel.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

/// Refuses statistics that do not fit the matrix, or that overlap anything.
/// @param operands  of the outputs of the matrix's shape
void check_row_statistics(operand const* statistics, int count, operand const* operands, int arrays,
                          matrix_shape const& shape);

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// Checks the outputs, plans, and runs the kernel, on a stream or on the calling thread.
template <class Where, class... A>
void run_row_function(Where const& execute, matrix_shape const& shape, A const&... a) {
  constexpr int matrices = (0 + ... + (row_output_t<A>::is_matrix ? 1 : 0));
  constexpr int statistics = static_cast<int>(sizeof...(A)) - matrices;
  static_assert(matrices > 0,
                "warpwright::ew::run_rows: no output has the matrix's shape: mean(), rstd() and "
                "log_sum_exp() go beside one that has, as out(y, rows * cols) = f; sum(x), max(x) "
                "and the like of each row alone go to reduce_rows()");
  using in_matrices = row_function_summary<
      typename joined_leaves<typename row_output_t<A>::operand_leaves...>::type>;
  using in_all = row_function_summary<
      typename joined_leaves<leaves_of<decltype(std::declval<A const&>().expression)>...>::type>;
  static_assert(in_matrices::count > 0,
                "warpwright::ew::run_rows: no output of the matrix's shape is of softmax(), "
                "layer_norm() or the like; evaluate it with run()");
  static_assert(in_all::are_same,
                "warpwright::ew::run_rows: the outputs are of several functions of rows; name one, "
                "auto const f = softmax(...), and use f in all of them");
  using function = typename in_all::type;
  using kind = decltype(std::declval<function>().kind);
  using expression = decltype(std::declval<function>().expression);
  using pass =
      row_pass<kind, expression, in_matrices::first, in_all::uses_input, pack<row_output_t<A>...>>;

  std::uint64_t const n = elements_in(shape);
  operand operands[pass::operands];
  c_array<operand, statistics + 1> of_statistics;
  c_array<int, matrices> counts;
  operand* next = operands;
  operand* next_statistic = of_statistics;
  int* count = counts;
  auto const describe = [&](auto const& each) {
    using output = row_output_t<std::decay_t<decltype(each)>>;
    if constexpr (output::is_matrix) {
      output::template describe<pass::vector>(next, each);
      *count++ = output::operands;
    } else {
      output::describe(next_statistic, each);
    }
  };
  (describe(a), ...);
  if (operands[0].count != n) {
    refuse(operand_name(operands, 0, matrices > 1 ? 1 : 0),
           text{"has "} + count_as_given(operands[0].count) + " elements, but {rows, cols} = {" +
               shape.rows + ", " + shape.cols + "} are " + n + "; give it an out() of rows * cols",
           shape.where);
  }
  if (n != 0 && shape.cols > max_cols) {
    warpwright::detail::throw_invalid_argument(
        text{"ew: the rows have "} + shape.cols +
            " elements, more than 2^31, and one block for each; use reduce() and run()",
        shape.where);
  }
  check_assignments(operands, counts, matrices, shape.where);
  check_row_statistics(of_statistics, statistics, operands, pass::operands, shape);
  row_function_finder<kind, expression, in_all::count> found;
  (traversal<decltype(a.expression)>::visit(a.expression, found), ...);
  if (!found.are_one()) {
    warpwright::detail::throw_invalid_argument(
        "ew: the outputs are of several functions of rows; call softmax(), layer_norm() or the "
        "like once, name what it returns, and use that in all of them",
        shape.where);
  }

  row_plan const plan = plan_rows(operands, pass::operands, shape.rows, shape.cols, pass::vector,
                                  pass::vectors, pass::cache::bytes, pass::streamed_threads);
  if (plan.strategy == row_strategy::none) return;
  auto const width = static_cast<typename pass::real>(shape.cols);
  pass const p{
      *found.kinds[0], *found.expressions[0], {{row_output_t<A>::make(a)}...}, {width, 1 / width}};
  char const* const name = "warpwright::ew::run_rows";
  if (plan.strategy == row_strategy::streamed) {
    using kernel = streamed_rows_kernel<pass>;
    row_partition const partition = with_cached_vectors(
        plan, pass::vector, pass::cache::bytes, execute.template dynamic_shared_limit<kernel>());
    execute(plan.blocks, plan.threads, kernel{{}, p, partition}, name,
            std::size_t{partition.cached} * partition.threads * pass::cache::bytes);
  } else {
    execute(plan.blocks, plan.threads, register_rows_kernel<pass>{{}, p, plan.partition}, name);
  }
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/kernel/detail/rows/row_evaluation_definitions.hpp>
#endif
