// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How run_row_gradients() divides a matrix: decided on the host from sizes, types and alignments,
// so that sums are added in the same order on every device. Needs no GPU.
#pragma once

#include <warpwright/kernel/detail/plan/row_partition.hpp>
#include <warpwright/kernel/detail/reduce/block_reduce.hpp>
#include <warpwright/kernel/detail/reduce/workspace.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

// A thread keeps the sums of its columns from row to row, the row that it computes and the next
// one, which is being loaded, all in half of its 64 registers: 1,024 threads share an SM.
inline constexpr int gradient_register_bytes = 128;
inline constexpr unsigned gradient_block_threads = 512;  // of which two share an SM
// Partial sums take as many rows as there are blocks; more would add to the traffic.
inline constexpr unsigned max_gradient_blocks = 2 * 132;
// Fewest rows of a thread where the matrix has as many: fewer blocks leave fewer partial sums.
inline constexpr unsigned least_gradient_rows = 2;

constexpr int vectors_of_gradient_row(int vector, int loaded_bytes, std::size_t state_bytes) {
  return batch_of(vector * (2 * loaded_bytes + static_cast<int>(state_bytes)), 4,
                  gradient_register_bytes);
}

/// Which threads of which blocks take which vectors: a block takes the columns of tile
/// `index % tiles`, and `rows_per_block` rows at once of those that it shares with no other block
/// of this tile. A thread takes the vectors t, t + threads, … of its tile in each of its rows.
struct gradient_partition {
  std::uint64_t rows = 0;
  unsigned vectors = 0;  ///< of a row
  thread_groups row{0};  ///< the threads of a row: 1, 2, 4, 8, 16 or a multiple of 32
  unsigned rows_per_block = 1;
  unsigned tiles = 1;   ///< of a row, each a block's
  unsigned chunks = 1;  ///< of a row that is too long for registers, one after the other
  unsigned splits = 0;  ///< blocks a tile
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned row_of_thread(unsigned t) const {
    return t * row.reciprocal >> 20U;
  }
};

/// @param per_thread  vectors that a thread keeps of a row
/// @param whole_rows  whether a block must see whole rows, as their sums need it
constexpr gradient_partition plan_gradients(std::uint64_t rows, std::uint64_t cols, unsigned vector,
                                            unsigned per_thread, bool whole_rows,
                                            unsigned max_threads) {
  gradient_partition p;
  p.rows = rows;
  if (cols == 0 || cols > max_cols) return p;  // the latter is refused
  p.vectors = static_cast<unsigned>(divide_up(cols, vector));
  // As many threads as keep the row, and as fill cache lines.
  unsigned const least = p.vectors < threads_per_cache_line ? p.vectors : threads_per_cache_line;
  unsigned threads = static_cast<unsigned>(divide_up(p.vectors, per_thread));
  if (threads < least) threads = least;
  unsigned const most = whole_rows && threads <= max_threads ? max_threads : gradient_block_threads;
  if (threads > most) threads = most;
  threads = threads <= warp_size
                ? power_of_two_from(threads)
                : static_cast<unsigned>(quotient_up(threads, warp_size)) * warp_size;
  p.row = {threads, 1, ((1U << 20U) + threads - 1) / threads};
  (whole_rows ? p.chunks : p.tiles) =
      static_cast<unsigned>(divide_up(p.vectors, std::uint64_t{threads} * per_thread));
  if (threads < gradient_block_threads) p.rows_per_block = gradient_block_threads / threads;
  unsigned const blocks =
      threads <= gradient_block_threads ? max_gradient_blocks : max_gradient_blocks / 2;
  std::uint64_t const most_splits = p.tiles < blocks ? blocks / p.tiles : 1;
  std::uint64_t const splits = divide_up(divide_up(rows, p.rows_per_block), least_gradient_rows);
  p.splits = static_cast<unsigned>(splits < most_splits ? splits : most_splits);
  return p;
}

/// Refuses operands and results that do not fit.
/// @param operands  of each output itself and its arrays; those of the reductions are the last
///   output's
/// @param counts    the length of each output's part
void check_row_gradients(operand const* operands, int const* counts, int outputs,
                         memory_range const* results, int result_count, void const* workspace,
                         std::uint64_t workspace_bytes, matrix_shape const& shape);

}  // namespace ew::detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/kernel/detail/row_gradients/gradient_plan_definitions.hpp>
#endif
