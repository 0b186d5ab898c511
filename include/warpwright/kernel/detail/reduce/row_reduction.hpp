// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel that reduces each row of a matrix: a warp or a block for a row.
#pragma once

#include <warpwright/kernel/detail/reduce/reduction_pass.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// Rows of at most so many vectors go to one warp each, longer ones to a block.
inline constexpr std::uint64_t max_vectors_per_warp_row = 256;

constexpr unsigned threads_for_row(std::uint64_t vectors) {
  return vectors <= max_vectors_per_warp_row ? warp_size : reduce_threads;
}

// The partition of every row: vectors from its first element on, where that suits all rows.
constexpr vector_partition partition_row(operand const* operands, int count, std::uint64_t cols,
                                         unsigned vector) {
  vector_partition p;
  p.vectors = cols / vector;
  p.edge = static_cast<unsigned>(cols % vector);
  if (p.edge == 0) p.wide = wide_operands(operands, count, 0, vector);
  p.all_wide = p.wide == bits_of_operands(count);
  return p;
}

inline constexpr std::uint64_t max_matrix_blocks = std::uint64_t{1} << 20U;  // beyond, blocks loop

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class Pass>
struct reduce_rows_kernel : warpwright::detail::kernel_base<reduce_threads> {
  using states = typename Pass::states;
  using shared = reduction_scratch<states, reduce_threads>;

  Pass parameters;
  vector_partition partition;
  std::uint64_t rows;
  std::uint64_t cols;
  unsigned threads;  // of a row

  reduce_rows_kernel(Pass const& pass, vector_partition const& p, matrix_shape const& shape)
      : parameters{pass},
        partition{p},
        rows{shape.rows},
        cols{shape.cols},
        threads{threads_for_row(p.vectors)} {}

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    Pass const pass = parameters.with_shared_input();
    auto const combine = [&](states const& a, states const& b) {
      return pass.combine_states(a, b);
    };
    unsigned const rows_per_block = reduce_threads / threads;
    auto state = block.template per_thread<states>();
    unsigned round = 0;
    for (std::uint64_t first = std::uint64_t{block.index()} * rows_per_block; first < rows;
         first += std::uint64_t{block.count()} * rows_per_block, ++round) {
      block.for_each_thread([&](unsigned t) {
        std::uint64_t const row = first + t / threads;  // the same for a whole warp
        state[t] = pass.identities();
        if (row < rows) state[t] = pass.partial(partition, row * cols, 0, 1, t % threads, threads);
      });
      combine_groups(block, state, block.shared(), round, thread_groups{threads}, combine);
      block.for_each_thread([&](unsigned t) {
        std::uint64_t const row = first + t / threads;
        if (t % threads == 0 && row < rows) pass.finish(state[t], cols, row);
      });
    }
  }
};

// Reduces each row, on a stream or on the calling thread.
template <class Where, class... R>
void reduce_each_row(Where const& execute, matrix_shape const& shape, R const&... r) {
  elements const n = elements_of(shape);
  memory_range const results[] = {range_of(r, shape.rows)...};
  int const count = sizeof...(r);
  if (shape.rows != 0) check_result_ranges(results, count, nullptr, 0, shape.where);
  with_reduction_pass(
      n,
      [&](auto const& pass, operand const* operands) {
        using pass_type = std::decay_t<decltype(pass)>;
        check_results_disjoint(results, count, operands, pass_type::operands, n.count, n.where);
        if (shape.rows == 0) return;
        vector_partition const p =
            partition_row(operands, pass_type::operands, shape.cols, pass_type::vector);
        reduce_rows_kernel<pass_type> const kernel{pass, p, shape};
        std::uint64_t const blocks = divide_up(shape.rows, reduce_threads / kernel.threads);
        execute(blocks < max_matrix_blocks ? blocks : max_matrix_blocks, reduce_threads, kernel,
                "warpwright::ew::reduce_rows");
      },
      r...);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
