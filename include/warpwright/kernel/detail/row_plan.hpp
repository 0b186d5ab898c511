// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What is decided on the host before a function of rows is launched: which threads take which row,
// and what they keep of it. Plain code over addresses and sizes; needs no GPU.
#pragma once

#include <warpwright/kernel/detail/plan.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

inline constexpr unsigned row_warp_lanes = 32;
// Threads a block at most: a row of 8,192 floats is kept at 16 a thread, and 64 registers for each
// leave room for two blocks on an SM, of which one computes while the other loads.
inline constexpr unsigned most_row_threads = 512;
// So does a row in half the shared memory that an SM of an H100 has. A longer one has the SM to
// itself, and as many threads as two blocks: 1 to 36 % faster on an H100; shorter ones were up to
// 15 % slower. Not asked of the device, so that every GPU adds in the same order.
inline constexpr unsigned most_long_row_threads = 1024;
inline constexpr std::uint64_t row_bytes_for_two_blocks = 113 * 1024;
// A block of rows that a warp or less of it takes.
inline constexpr unsigned short_row_threads = 256;
// Neighbouring lanes of a short row: 8 times 16 bytes fill a cache line.
inline constexpr unsigned lanes_of_a_line = 8;
// What a thread keeps of a row: 16 floats, with which the kernels of a softmax or a norm take 40 to
// 64 registers, so that an SM holds 1,024 threads or more. Their loads are 64 KiB of float and 48
// KiB of 16-bit floats; an H100 needs 32 to 48 KiB in flight.
inline constexpr int row_bytes_kept = 64;
// And what it has under way, where a row is computed from several arrays: 32 registers.
inline constexpr int row_bytes_in_flight = 128;
// What a thread has under way of a row too long for registers: 64 KiB an SM. More took
// registers of which an SM has too few for two blocks.
inline constexpr int long_row_bytes_in_flight = 64;
inline constexpr int most_vectors_in_flight = 8;
// What run_long_row() has for such a row on the host, on the stack.
inline constexpr unsigned host_row_memory_bytes = 64 * 1024;
// Of a row, so that its vectors are counted in 32 bits, which takes fewer registers.
inline constexpr std::uint64_t most_cols = std::uint64_t{1} << 31U;

/// Vectors that a thread keeps of a row, a power of two.
/// @param loaded_bytes  of an element, in all arrays that the function is of
/// @param value_bytes   of an element as it is computed
constexpr int vectors_of_row(int vector, int loaded_bytes, int value_bytes) {
  int vectors = 8;
  while (vectors > 1) {
    int const values = vectors * vector;
    if (values * value_bytes <= row_bytes_kept && values * loaded_bytes <= row_bytes_in_flight) {
      break;
    }
    vectors /= 2;
  }
  return vectors;
}

/// Of `vectors`, how many are `bytes` each and no more than `most` together.
constexpr int batch_of(int bytes, int vectors, int most = row_bytes_in_flight) {
  int batch = vectors;
  while (batch > 1 && batch * bytes > most) batch /= 2;
  return batch;
}

enum class row_form : unsigned char {
  nothing,  // no elements: nothing is launched
  warp,     // a row is kept by the lanes of a warp, or by some of them
  block,    // a row is kept by a block
  passes    // a row is kept by a block in shared memory, or is read twice
};

/// The elements of one row: [0, head) and what is left behind the vectors go one a thread.
struct row_span {
  std::uint64_t row = 0;
  std::uint64_t begin = 0;  ///< index of the row's first element in the whole matrix
  std::uint64_t first = 0;  ///< and of the first vector's
  unsigned vectors = 0;
  unsigned head = 0;
  unsigned edge = 0;  ///< elements in no vector, head and tail together
};

/// How the rows are dealt out.
struct row_deal {
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::uint64_t wide = 0;  ///< bit k: operand k is moved by vector accesses
  unsigned threads = 0;    ///< of one row: 1, 2, 4, 8, 16, or a multiple of 32
  unsigned rows_a_block = 1;
  unsigned row_shift = 31;  ///< of a thread's place in its block, to the place of its row
  unsigned head = 0;        ///< element of the matrix where the first vector starts
  unsigned held = 0;        ///< vectors of a long row that a thread keeps in shared memory
  bool ragged = false;      ///< rows start and end anywhere beside the vectors
  bool all_wide = false;    ///< every operand is, and every row() and col() is of this matrix

  /// @tparam V  elements a vector, a power of two
  template <unsigned V>
  WARPWRIGHT_HOST_DEVICE constexpr row_span span(std::uint64_t row) const {
    row_span s;
    s.row = row;
    s.begin = row * cols;
    if (ragged) {
      s.head = static_cast<unsigned>((head - s.begin) % V);
      if (s.head > cols) s.head = static_cast<unsigned>(cols);
    }
    s.first = s.begin + s.head;
    s.vectors = static_cast<unsigned>((cols - s.head) / V);
    s.edge = static_cast<unsigned>(cols - std::uint64_t{s.vectors} * V);
    return s;
  }
};

/// A deal and the grid to launch it on.
struct row_plan {
  row_deal deal;
  row_form form = row_form::nothing;
  unsigned threads = 0;
  std::uint64_t blocks = 0;
};

constexpr unsigned power_of_two_from(std::uint64_t least) {
  unsigned power = 1;
  while (power < least) power *= 2;
  return power;
}

/// Deals out a matrix.
/// @param operands          every output followed by its arrays
/// @param vector            elements a vector, a power of two
/// @param vectors_a_thread  that a thread keeps
/// @param held_bytes        that a vector takes in shared memory
/// @param long_row_threads  most threads of a row that is too long for registers
constexpr row_plan plan_rows(operand const* operands, int count, std::uint64_t rows,
                             std::uint64_t cols, unsigned vector, unsigned vectors_a_thread,
                             unsigned held_bytes = 0,
                             unsigned long_row_threads = most_row_threads) {
  row_plan plan;
  plan.deal.rows = rows;
  plan.deal.cols = cols;
  if (rows == 0 || cols == 0) return plan;
  // Vectors lie where those of the whole matrix would, so that a row of odd length is moved by
  // vectors but for its ends.
  schedule const whole = make_plan(operands, count, rows * cols, vector, vectors_a_thread).deal;
  plan.deal.wide = whole.wide;
  plan.deal.all_wide = whole.all_wide;
  for (int k = 0; k < count; ++k) {
    bool const repeats = operands[k].kind == reach::row || operands[k].kind == reach::column;
    if (repeats && operands[k].count != cols) plan.deal.all_wide = false;
  }
  plan.deal.head = whole.head;
  plan.deal.ragged = plan.deal.head != 0 || cols % vector != 0;

  // As many threads as keep the row; of few, as many as one request of memory serves, or as take
  // the ends, one each.
  std::uint64_t const vectors = cols / vector;
  std::uint64_t const keepers = vectors / vectors_a_thread + (vectors % vectors_a_thread != 0);
  std::uint64_t least = vectors < lanes_of_a_line ? vectors : lanes_of_a_line;
  if (plan.deal.ragged) {
    std::uint64_t const ends = 2 * (vector - 1);
    std::uint64_t const edge = cols < ends ? cols : ends;
    if (edge > least) least = edge;
  }
  std::uint64_t const wanted = keepers > least ? keepers : least;
  if (wanted <= row_warp_lanes) {
    plan.form = row_form::warp;
    plan.deal.threads = power_of_two_from(wanted);
    plan.threads = short_row_threads;
    while (plan.threads > row_warp_lanes &&
           rows <= plan.threads / plan.deal.threads * (enough_blocks - 1)) {
      plan.threads /= 2;
    }
  } else {
    plan.form = wanted <= most_row_threads ? row_form::block : row_form::passes;
    std::uint64_t const warps = (wanted + row_warp_lanes - 1) / row_warp_lanes;
    plan.threads = static_cast<unsigned>(warps) * row_warp_lanes;
    if (plan.form == row_form::passes) {
      bool const alone = vectors * held_bytes > row_bytes_for_two_blocks;
      plan.threads = alone ? long_row_threads : most_row_threads;
    }
    plan.deal.threads = plan.threads;
  }
  plan.deal.rows_a_block = plan.threads / plan.deal.threads;
  if (plan.deal.rows_a_block > 1) {
    plan.deal.row_shift = static_cast<unsigned>(__builtin_ctz(plan.deal.threads));
  }
  plan.blocks = (rows - 1) / plan.deal.rows_a_block + 1;
  return plan;
}

/// The deal where a block has memory for a long row: for all of it, or for as much as fits, unless
/// that is less than half: a second block on the SM is then taken to be worth more.
/// @param vector  elements a vector
/// @param bytes   that a thread keeps of one
/// @param memory  bytes that a block may have
constexpr row_deal holding(row_plan const& plan, unsigned vector, unsigned bytes,
                           std::uint64_t memory) {
  row_deal deal = plan.deal;
  if (plan.form != row_form::passes) return deal;
  std::uint64_t const turn = std::uint64_t{vector} * deal.threads;
  std::uint64_t const all = (deal.cols - 1) / turn + 1;
  std::uint64_t const most = memory / (std::uint64_t{bytes} * deal.threads);
  if (2 * most >= all) deal.held = static_cast<unsigned>(most < all ? most : all);
  return deal;
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
