// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How run_row_gradients() divides a matrix: decided on the host from sizes, types and alignments,
// so that sums are added in the same order on every device. Needs no GPU.
#pragma once

#include <warpwright/kernel/detail/plan/matrix_shape.hpp>
#include <warpwright/kernel/detail/plan/row_partition.hpp>
#include <warpwright/kernel/detail/reduce/reduction_pass.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

// A thread keeps the sums of its columns from row to row, the row that it computes and the next
// one, which is being loaded, all in half of its 64 registers: 1,024 threads share an SM.
inline constexpr int gradient_register_bytes = 128;
inline constexpr unsigned gradient_block_threads = 512;  // of which two share an SM
// Partial sums take as many rows as there are blocks; more would add to the traffic.
inline constexpr unsigned max_gradient_blocks = 2 * 132;
inline constexpr unsigned gradient_finish_threads = 256;
inline constexpr unsigned gradient_finish_columns = 8;

constexpr int vectors_of_gradient_row(int vector, int loaded_bytes, std::size_t state_bytes) {
  int vectors = 4;
  while (vectors > 1 && vectors * vector * (2 * loaded_bytes + static_cast<int>(state_bytes)) >
                            gradient_register_bytes) {
    vectors /= 2;
  }
  return vectors;
}

// Elements that a thread keeps of a row where they are loaded one by one, each in a register.
constexpr unsigned max_single_elements(unsigned elements) { return elements < 4 ? elements : 4; }

/// Which threads of which blocks take which elements: a block takes the columns of tile
/// `index % tiles`, and `rows_per_block` rows at once of those that it shares with no other block
/// of this tile. A thread takes the vectors t, t + threads, … of its tile in each of its rows.
struct gradient_partition {
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  unsigned vectors = 0;     ///< of a row
  unsigned threads = 0;     ///< of a row: 1, 2, 4, 8, 16 or a multiple of 32
  unsigned reciprocal = 0;  ///< 2^20 / threads, rounded up
  unsigned rows_per_block = 1;
  unsigned half_of_rows = 0;  ///< the greatest power of two below rows_per_block; 0: it is 1
  unsigned tiles = 1;
  unsigned splits = 0;      ///< blocks a tile
  unsigned positions = 0;   ///< partial sums of a block row: a column each, or none
  bool vectorized = false;  ///< all is moved by vectors, else element by element
  bool streamed = false;    ///< rows are too long for registers

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned row_of_thread(unsigned t) const {
    return t * reciprocal >> 20U;
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE constexpr unsigned block_threads() const {
    return threads * rows_per_block;
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE constexpr std::uint64_t blocks() const {
    return std::uint64_t{tiles} * splits;
  }
};

/// @param vector       elements a vector, a power of two
/// @param per_thread   vectors that a thread keeps of a row
/// @param vectorized   whether rows are whole numbers of vectors, and all arrays aligned to them
/// @param whole_rows   whether a block must see whole rows, as their sums need it
/// @param max_threads  of a block
constexpr gradient_partition plan_gradients(std::uint64_t rows, std::uint64_t cols, unsigned vector,
                                            unsigned per_thread, bool vectorized, bool whole_rows,
                                            unsigned max_threads) {
  gradient_partition p;
  p.rows = rows;
  p.cols = cols;
  if (cols == 0) return p;
  p.vectorized = vectorized;
  unsigned const v = p.vectorized ? vector : 1U;
  unsigned const kept = p.vectorized ? per_thread : max_single_elements(per_thread * vector);
  p.vectors = static_cast<unsigned>(cols / v);
  // As many threads as keep the row, and as fill cache lines.
  unsigned const line = p.vectorized ? threads_per_cache_line : warp_size;
  std::uint64_t const least = p.vectors < line ? p.vectors : line;
  std::uint64_t wanted = divide_up(p.vectors, kept);
  if (wanted < least) wanted = least;
  p.streamed = whole_rows && wanted > max_threads;
  std::uint64_t const most = whole_rows && !p.streamed ? max_threads : gradient_block_threads;
  if (wanted > most) wanted = most;
  p.threads = wanted <= warp_size ? power_of_two_from(wanted)
                                  : static_cast<unsigned>(divide_up(wanted, warp_size)) * warp_size;
  p.reciprocal = ((1U << 20U) + p.threads - 1) / p.threads;
  std::uint64_t const of_tile = std::uint64_t{p.threads} * kept;
  if (!p.streamed) p.tiles = static_cast<unsigned>(divide_up(p.vectors, of_tile));
  std::uint64_t const loops = p.streamed ? divide_up(p.vectors, p.threads) : kept;
  p.positions = static_cast<unsigned>(p.tiles * loops * v * p.threads);

  if (p.threads < gradient_block_threads) p.rows_per_block = gradient_block_threads / p.threads;
  while (p.rows_per_block > 1 && p.block_threads() > warp_size &&
         p.tiles * divide_up(rows, p.rows_per_block) < target_blocks) {
    p.rows_per_block /= 2;
  }
  p.half_of_rows = power_of_two_from(p.rows_per_block) / 2;
  unsigned const resident =
      p.block_threads() <= gradient_block_threads ? max_gradient_blocks : max_gradient_blocks / 2;
  std::uint64_t const most_splits = p.tiles < resident ? resident / p.tiles : 1;
  std::uint64_t const row_blocks = divide_up(rows, p.rows_per_block);
  p.splits = static_cast<unsigned>(row_blocks < most_splits ? row_blocks : most_splits);
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
