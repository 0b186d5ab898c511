// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How the rows of a matrix are divided among threads and blocks: decided on the host from addresses
// and sizes, before a function of rows is launched. Needs no GPU.
#pragma once

#include <warpwright/core/detail/launch/block.hpp>
#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/plan/axes.hpp>
#include <warpwright/kernel/detail/plan/matrix_shape.hpp>
#include <warpwright/kernel/detail/plan/partition.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

using warpwright::detail::warp_size;

// Most threads of a block that keeps rows in registers: of 8,192 floats a thread has 16, and with
// 64 registers each, an SM has room for two blocks, one computing while the other loads.
inline constexpr unsigned max_row_threads = 512;
// Two blocks share an SM, too, if a streamed row takes at most half of an H100's shared memory, and
// four of half as many threads if it takes a sixth: 4 to 30 % faster on an H200. A longer one has
// the SM to itself, with the threads of both: 1 to 36 % faster on an H100; shorter ones were up to
// 15 % slower. Constants, so that all GPUs with clusters add in the same order.
inline constexpr unsigned max_streamed_row_threads = 1024;
inline constexpr std::uint64_t shared_bytes_for_two_blocks = 113 * 1024;
// Of each block of a cluster whose row one block could not keep: three of 64 KiB share an SM.
inline constexpr unsigned long_row_threads = 320;
inline constexpr std::uint64_t long_row_bytes = 64 * 1024;
// Most threads of a row that a cluster computes.
inline constexpr unsigned max_cluster_row_threads = 4096;
// Of all rows: with 64 bytes each in flight they keep a large GPU busy.
inline constexpr std::uint64_t busy_threads = 128 * 1024;
// Threads of a block whose rows take a warp or less each.
inline constexpr unsigned short_row_threads = 256;
// Fewest neighbouring threads of a short row: 8 times 16 bytes fill a cache line.
inline constexpr unsigned threads_per_cache_line = 8;
// Values that a thread keeps of a row: with 16 floats softmax and norms take 40 to 64 registers, so
// that an SM holds 1,024 threads, whose loads are 48 KiB or more; an H100 needs 32 to 48 in flight.
// Twice as many of at most 16 bits in memory, for as many bytes: 10 to 30 % faster on an H200.
inline constexpr int row_register_bytes = 64;
// Loads that a thread has in flight, where a row is computed from several arrays: 32 registers.
inline constexpr int row_bytes_in_flight = 128;
// Loads in flight of a streamed row's thread: 64 KiB an SM; two blocks have no registers for more.
inline constexpr int streamed_row_bytes_in_flight = 64;
inline constexpr int max_vectors_in_flight = 8;
// Shared memory for a streamed row on the host, which is on the stack.
inline constexpr std::size_t host_row_cache_bytes = 64 * 1024;
// Columns, so that 32 bits count a row's vectors, which takes fewer registers.
inline constexpr std::uint64_t max_cols = std::uint64_t{1} << 31U;

/// @throws std::invalid_argument  for rows of more elements than their indices have bits for
inline void check_row_length(matrix_shape const& shape) {
  if (shape.rows == 0 || shape.cols <= max_cols) return;
  warpwright::detail::throw_invalid_argument(
      text{"ew: the rows have "} + shape.cols +
          " elements, more than 2^31, and one block for each; use reduce() and run()",
      shape.where);
}

/// Vectors that a thread keeps of a row, a power of two, of elements of which all arrays of the
/// function have loaded_bytes, and which are computed in value_bytes.
constexpr int vectors_of_row(int vector, int loaded_bytes, int value_bytes) {
  int const most =
      loaded_bytes <= 2 && value_bytes == 4 ? 2 * row_register_bytes : row_register_bytes;
  int vectors = 8;
  while (vectors > 1 && (vectors * vector * value_bytes > most ||
                         vectors * vector * loaded_bytes > row_bytes_in_flight)) {
    vectors /= 2;
  }
  return vectors;
}

/// How many of `vectors` are processed together: `bytes` each, at most `most` bytes in all.
constexpr int batch_of(int bytes, int vectors, int most = row_bytes_in_flight) {
  int batch = vectors;
  while (batch > 1 && batch * bytes > most) batch /= 2;
  return batch;
}

enum class row_strategy : unsigned char {
  none,     // no elements: nothing is launched
  warp,     // the registers of a warp, or of a part of one, keep a row
  block,    // the registers of a block keep a row
  streamed  // a block keeps a row in shared memory; what does not fit is read twice
};

/// The elements of one row: full vectors, and those before (`head`) and behind, one a thread.
struct row_span {
  std::uint64_t row = 0;
  std::uint64_t begin = 0;  ///< index of the row's first element in the whole matrix
  unsigned vectors = 0;
  unsigned head = 0;
  unsigned edge = 0;  ///< elements in no vector, head and tail together

  /// Index of the first vector's first element; a member for it took two registers, which spilled.
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE constexpr std::uint64_t vector_begin() const {
    return begin + head;
  }
};

/// Which threads work on which rows.
struct row_partition {
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::uint64_t wide = 0;  ///< bit k: operand k is moved by vector accesses
  unsigned threads = 0;    ///< of one row: 1, 2, 4, 8, 16, or a multiple of 32
  unsigned blocks = 1;     ///< of one row, which are a cluster: each has threads / blocks
  unsigned rows_per_block = 1;
  unsigned row_shift = 31;  ///< log2 of `threads`; 31 where a block has one row
  unsigned head = 0;        ///< element of the matrix where the first vector starts
  unsigned cached = 0;      ///< vectors of a streamed row that a thread keeps in shared memory
  bool copied = false;      ///< and that it may copy there without registers
  row_lengths lengths;
  bool ragged = false;      ///< some rows have elements in no vector
  bool same_length = true;  ///< every row() and col() is of this matrix
  bool all_wide = false;    ///< that, and every operand is moved by vectors

  /// The row of a block's thread, counted in the block, and the thread's number in that row.
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE constexpr unsigned row_of_thread(unsigned t) const {
    return t >> row_shift;
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE constexpr unsigned thread_in_row(unsigned t) const {
    return t - (row_of_thread(t) << row_shift);
  }

  /// @tparam V  elements a vector, a power of two
  template <unsigned V>
  WARPWRIGHT_HOST_DEVICE constexpr row_span span(std::uint64_t row) const {
    row_span s;
    s.row = row;
    s.begin = row * cols;
    std::uint64_t const length = lengths.vary() ? lengths.of(row, cols) : cols;
    if (ragged) {
      s.head = static_cast<unsigned>((head - s.begin) % V);
      if (s.head > length) s.head = static_cast<unsigned>(length);
    }
    s.vectors = static_cast<unsigned>((length - s.head) / V);
    s.edge = static_cast<unsigned>(length - std::uint64_t{s.vectors} * V);
    return s;
  }
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// A thread's part of a row: the vectors t, t + threads, …, and an element in no vector.
template <int Vector>
struct row_share {
  row_partition const& partition;
  row_span const& row;
  unsigned t;  ///< the thread's number in the row

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t index(unsigned v) const {
    return row.vector_begin() + std::uint64_t{v} * Vector;
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE bool has_edge() const { return t < row.edge; }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t edge_index() const {
    return row.begin + (t < row.head ? t : row.vectors * Vector + t);
  }
  /// Calls f(u, v) for those of the vectors v = first + u * threads, u < N, that the row has.
  template <int N, class F>
  WARPWRIGHT_HOST_DEVICE void for_each_vector(unsigned first, F const& f) const {
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < N; ++u) {
      unsigned const v = first + u * partition.threads;
      if (v < row.vectors) f(u, v);
    }
  }
  /// Calls load(r[u], index, wide) for the vectors first, first + threads, ….
  /// @tparam Index  matrix_index; read_once_index, with which functions of rows took 2 to 5 % more
  template <class Index, class Registers, int N, class Load>
  WARPWRIGHT_HOST_DEVICE void load_vectors(c_array<Registers, N>& r, unsigned first,
                                           Load const& load) const {
    if (partition.all_wide) {  // the same for the whole grid, so that the loads follow each other
      for_each_vector<N>(first, [&](unsigned u, unsigned v) {
        load(r[u], Index{index(v), row.row, row.head + v * Vector}, all_wide_bits);
      });
    } else {
      for_each_vector<N>(first, [&](unsigned u, unsigned v) {
        load(r[u],
             matrix_index_of_any{index(v), row.row, row.head + v * Vector, partition.same_length},
             partition.wide);
      });
    }
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

/// A partition and the grid to launch it on.
struct row_plan {
  row_partition partition;
  row_strategy strategy = row_strategy::none;
  unsigned threads = 0;
  std::uint64_t blocks = 0;
};

constexpr unsigned power_of_two_from(std::uint64_t least) {
  unsigned power = 1;
  while (power < least) power *= 2;
  return power;
}

/// Partitions a matrix.
/// @param per_thread        vectors that a thread keeps in registers
/// @param cached_bytes      that a vector takes in shared memory
/// @param streamed_threads  most of a row that is too long for registers; most_threads: of others
constexpr row_plan plan_rows(operand const* operands, int count, std::uint64_t rows,
                             std::uint64_t cols, unsigned vector, unsigned per_thread,
                             unsigned cached_bytes = 0, unsigned streamed_threads = max_row_threads,
                             unsigned most_threads = max_row_threads,
                             row_lengths const& lengths = {}) {
  row_plan plan;
  row_partition& p = plan.partition;
  p.lengths = lengths;
  p.rows = rows;
  p.cols = cols;
  if (rows == 0 || cols == 0) return plan;
  // Vectors lie where the whole matrix's would: a row of odd length has them except at its ends.
  vector_partition const whole =
      make_plan(operands, count, rows * cols, vector, per_thread).partition;
  p.wide = whole.wide;
  p.all_wide = whole.all_wide;
  for (int k = 0; k < count; ++k) {
    bool const repeats =
        operands[k].kind == access_pattern::row || operands[k].kind == access_pattern::column;
    if (repeats && operands[k].count != cols) p.same_length = p.all_wide = false;
  }
  p.head = whole.head;
  p.ragged = p.head != 0 || cols % vector != 0 || lengths.vary();

  // Enough threads to keep the row, two vectors each, or to fill a cache line with what is not
  // kept, and to take the elements in no vector.
  bool const keeps_rows = cached_bytes != 0;
  std::uint64_t const vectors = cols / vector;
  std::uint64_t const keepers = divide_up(vectors, per_thread);
  std::uint64_t const most = keeps_rows ? (vectors + 1) / 2 : vectors;
  std::uint64_t least = keeps_rows ? threads_per_cache_line / 2 : threads_per_cache_line;
  if (most < least) least = most;
  if (p.ragged) {
    // Heads are multiples of the power of two that cols has, and tails complete them.
    std::uint64_t const rest = cols % vector, power = cols & (~cols + 1);
    bool const vary = !keeps_rows || p.head != 0 || lengths.vary() || vector - power > rest;
    std::uint64_t const ends = vary ? 2 * (vector - 1) : rest;
    if (ends > least) least = cols < ends ? cols : ends;
  }
  std::uint64_t const wanted = keepers > least ? keepers : least;
  if (wanted <= warp_size) {
    plan.strategy = row_strategy::warp;
    p.threads = power_of_two_from(wanted);
    plan.threads = short_row_threads;
    while (plan.threads > warp_size && rows <= plan.threads / p.threads * (target_blocks - 1)) {
      plan.threads /= 2;
    }
  } else {
    // With 32 values a thread half of the threads have as much in flight, of more rows at a time.
    unsigned const keeping =
        keeps_rows && vector * per_thread > 16 ? most_threads / 2 : most_threads;
    plan.strategy = wanted <= keeping ? row_strategy::block : row_strategy::streamed;
    std::uint64_t const warps = quotient_up(wanted, warp_size);
    plan.threads = static_cast<unsigned>(warps) * warp_size;
    if (plan.strategy == row_strategy::streamed) {
      std::uint64_t const bytes = vectors * cached_bytes;
      plan.threads = bytes > shared_bytes_for_two_blocks ? streamed_threads : most_threads;
      if (keeps_rows && bytes <= shared_bytes_for_two_blocks / 3) plan.threads = most_threads / 2;
    }
    p.threads = plan.threads;
    // Two rows a block where they are many: a GPU starts about one block a nanosecond.
    if (plan.threads == 2 * warp_size && rows > 8 * target_blocks) plan.threads *= 2;
  }
  p.rows_per_block = plan.threads / p.threads;
  if (p.rows_per_block > 1) p.row_shift = static_cast<unsigned>(__builtin_ctz(p.threads));
  plan.blocks = divide_up(rows, p.rows_per_block);
  return plan;
}

// Of a block that reduces a row: 256, or 192, took 7 to 16 % more at 5,632 to 14,336 cols (H200).
inline constexpr unsigned max_row_reduction_threads = 128;

/// Gives each row of a plan to a cluster of blocks, where rows are so few that they leave most of a
/// GPU idle, or so long that one block does not keep them.
/// @param batches       of a row, each of which a thread loads at a time
/// @param row_bytes     shared memory of a row
/// @param kept_bytes    up to which rows are one block's
/// @param limit         blocks of a cluster; 1 where there are none
constexpr row_plan with_clusters(row_plan plan, std::uint64_t batches, std::uint64_t row_bytes,
                                 std::uint64_t kept_bytes, unsigned most_threads, unsigned limit) {
  row_partition& p = plan.partition;
  if (limit == 1 || plan.strategy != row_strategy::streamed) return plan;
  if (p.rows * plan.threads < busy_threads && batches > plan.threads) {
    plan.threads = most_threads;
    while (p.blocks < limit && p.rows * plan.threads * p.blocks < busy_threads &&
           (std::uint64_t{2} * p.blocks - 1) * plan.threads < batches) {
      p.blocks *= 2;
    }
  } else if (row_bytes > kept_bytes) {
    while (p.blocks < limit && row_bytes > p.blocks * long_row_bytes) p.blocks *= 2;
    plan.threads = long_row_threads;
    if (row_bytes > p.blocks * shared_bytes_for_two_blocks) plan.threads = most_threads;
  }
  p.threads = plan.threads * p.blocks;
  plan.blocks = p.rows * p.blocks;
  return plan;
}

/// Partitions a matrix each row of which is reduced; as plan_rows(), but a thread takes any number
/// of vectors, `per_thread` at a time, and rows may have no elements.
constexpr row_plan plan_row_reductions(operand const* operands, int count, std::uint64_t rows,
                                       std::uint64_t cols, unsigned vector, unsigned per_thread,
                                       unsigned limit, row_lengths const& lengths = {}) {
  // A warp takes what two would: 25 % faster than blocks of 64 threads (32,000 x 2,048 bf16, H200).
  bool const twice = cols / vector <= std::uint64_t{2} * warp_size * per_thread;
  row_plan plan = plan_rows(operands, count, rows, cols, vector, (twice ? 2 : 1) * per_thread, 0,
                            max_row_reduction_threads, max_row_reduction_threads, lengths);
  if (cols == 0) {
    plan.partition.threads = 1;
    plan.partition.row_shift = 0;
    plan.threads = plan.partition.rows_per_block = short_row_threads;
    plan.blocks = divide_up(rows, short_row_threads);
    return plan;
  }
  return with_clusters(plan, divide_up(cols / vector, per_thread), 0, 0,
                       2 * max_row_reduction_threads, limit);
}

/// The partition of a streamed row where a block has shared memory: as many vectors as fit are
/// cached; none if less than half, as a second block on the SM is taken to be worth more.
/// @param bytes   that a vector takes in the cache
/// @param memory  bytes that a block may have
constexpr row_partition with_cached_vectors(row_plan const& plan, unsigned vector, unsigned bytes,
                                            std::uint64_t memory) {
  row_partition partition = plan.partition;
  if (plan.strategy != row_strategy::streamed) return partition;
  std::uint64_t const iteration = std::uint64_t{vector} * partition.threads;
  std::uint64_t const all = divide_up(partition.cols, iteration);
  std::uint64_t const most = memory / (std::uint64_t{bytes} * plan.threads);
  if (2 * most >= all) partition.cached = static_cast<unsigned>(most < all ? most : all);
  // Of two or three rows one after the other, copies took 2 to 14 % longer than loads (H100).
  partition.copied = partition.all_wide && plan.blocks >= 4 * target_blocks;
  return partition;
}

}  // namespace ew::detail

WARPWRIGHT_END
