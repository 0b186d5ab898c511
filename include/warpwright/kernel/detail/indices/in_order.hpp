// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel that adds rows to a table's in a fixed order. Block b of B owns the rows of the table
// whose number is b modulo B. It scans all indices, a batch after the other, and adds the rows that
// go to its own in their order: each thread to the same columns of all of them.
#pragma once

#include <warpwright/kernel/detail/indices/indexed_outputs.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class T, class E, class K>
struct in_order_kernel : warpwright::detail::kernel_base<256> {
  using destination = indexed_destination<T, by_index::rows_in_order>;
  using sum = decltype(std::declval<input<T>>() + std::declval<E>());
  using part = fused_part<T, sum>;  // of a row of the table
  static constexpr int vector = vector_elements(part::widest_bytes);
  static constexpr unsigned max_blocks = 256;  // a power of two: two on each SM of an H100
  static constexpr unsigned warp = warpwright::detail::warp_size;
  static constexpr unsigned indices_per_thread = 4;  // so that a warp has a lane for each word
  static constexpr unsigned words = max_threads / warp * indices_per_thread;
  struct shared {
    c_array<std::uint32_t, words> matches;  ///< the indices of a batch that are the block's
  };

  destination table;
  part update;  ///< of the whole table: add_columns() moves it to a row
  K const* index;
  std::uint64_t rows;
  std::uint64_t wide;  ///< as of `part`
  bool vectors;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    c_array<std::uint32_t, words>& matches = block.shared().matches;
    for (std::uint64_t first = 0; first < rows; first += words * warp) {
      block.for_each_thread([&](unsigned t) {
        c_array<bool, indices_per_thread> mine;
        WARPWRIGHT_UNROLL
        for (unsigned k = 0; k < indices_per_thread; ++k) {
          std::uint64_t const r = first + k * max_threads + t;
          mine[k] =
              r < rows && (static_cast<unsigned>(index[r]) & (block.count() - 1)) == block.index();
        }
        WARPWRIGHT_UNROLL
        for (unsigned k = 0; k < indices_per_thread; ++k) {
          set_bit(matches[(k * max_threads + t) / warp], t % warp, mine[k]);
        }
      });
      block.synchronize();
      block.for_each_thread([&](unsigned t) {
        for (std::uint32_t used = words_in_use(matches); used != 0; used &= used - 1) {
          unsigned const word = lowest_bit(used);
          for (std::uint32_t bits = matches[word]; bits != 0; bits &= bits - 1) {
            add_row(first + word * warp + lowest_bit(bits), t, max_threads);
          }
        }
      });
      block.synchronize();
    }
  }

  /// Adds row r of the expression, thread `t` of `threads` its share.
  WARPWRIGHT_HOST_DEVICE void add_row(std::uint64_t r, unsigned t, unsigned threads) const {
    vectors ? add_columns<vector>(r, t, threads) : add_columns<1>(r, t, threads);
  }

 private:
  template <int V>
  WARPWRIGHT_HOST_DEVICE void add_columns(std::uint64_t r, unsigned t, unsigned threads) const {
    std::uint64_t const cols = table.array.step;
    std::uint64_t const begin = r * cols;
    // As of an array whose element r * cols is the first of the row of the table.
    std::uint64_t const start = table.array.start(table.name, index[r], begin);
    bits_of<T>* const row = table.data + static_cast<std::int64_t>(start - begin);
    part p = update;
    p.data = row;
    at<0>(p.expression.arguments).data = row;
    for (std::uint64_t c = std::uint64_t{t} * V; c < cols; c += std::uint64_t{threads} * V) {
      typename part::template registers<V> loaded WARPWRIGHT_ZERO_ON_HOST;
      typename part::template results<V> result{};
      p.template load<V, 0>(loaded, begin + c, wide);
      p.template compute<V>(result, loaded, begin + c);
      p.template store<V, 0>(result, begin + c, wide);
    }
  }

#if defined(__CUDA_ARCH__)
  __device__ static unsigned lowest_bit(unsigned bits) { return __ffs(static_cast<int>(bits)) - 1; }
  __device__ static void set_bit(std::uint32_t& word, unsigned lane, bool bit) {
    unsigned const bits = __ballot_sync(~0U, bit);
    if (lane == 0) word = bits;
  }
  // The words that are not 0, a bit each.
  __device__ static unsigned words_in_use(c_array<std::uint32_t, words> const& matches) {
    return __ballot_sync(~0U, matches[threadIdx.x % warp] != 0);
  }
#else
  static unsigned lowest_bit(unsigned bits) { return static_cast<unsigned>(__builtin_ctz(bits)); }
  static void set_bit(std::uint32_t& word, unsigned lane, bool bit) {
    word = (lane == 0 ? 0U : word) | (bit ? 1U : 0U) << lane;
  }
  static unsigned words_in_use(c_array<std::uint32_t, words> const& matches) {
    unsigned used = 0;
    for (unsigned k = 0; k < words; ++k) used |= (matches[k] != 0 ? 1U : 0U) << k;
    return used;
  }
#endif
};

// Checks and plans an assignment, and calls execute(kernel, blocks).
template <class T, class E, class K, class Execute>
void evaluate_in_order(indexed_assignment<T, by_index::rows_in_order, E, column_input<K>> const& a,
                       source_location where, Execute const& execute) {
  using kernel = in_order_kernel<T, E, K>;
  operand operands[E::operands + 2];
  operand* next = operands;
  a.data.array.template describe<T, kernel::vector>(*next, a.data.data, a.size);
  next++->span = a.data.array.count * sizeof(bits_of<T>);
  a.expression.template describe<kernel::vector>(next);
  check_operands(operands, E::operands + 2, where);
  if (a.size == 0) return;
  std::uint64_t const wide = wide_operands(operands, E::operands + 1, 0, kernel::vector);
  unsigned blocks = 1;
  while (blocks < a.data.array.limit && blocks < kernel::max_blocks) blocks *= 2;
  std::uint64_t const cols = a.data.array.step;
  execute(kernel{{},
                 a.data,
                 {a.data.data, input<T>{{a.data.data}, a.size} + at<0>(a.expression.arguments)},
                 at<1>(a.expression.arguments).data,
                 a.size / cols,
                 wide << 1U | (wide & 1U),  // the table is the output and an operand
                 cols % kernel::vector == 0},
          blocks);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
