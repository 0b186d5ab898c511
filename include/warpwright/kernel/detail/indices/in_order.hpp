// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel that adds rows to a table's in a fixed order. Block b of B owns the rows of the table
// whose number is b modulo B. It scans all indices, a batch after the other, and adds the rows that
// go to its own in their order: each thread to the same columns of all of them.
#pragma once

#include <warpwright/kernel/detail/indices/indexed_outputs.hpp>

WARPWRIGHT_BEGIN

namespace ew {
inline namespace WARPWRIGHT_INDEX_NAMESPACE {

/// What assigning to scatter_add(…).in_order() returns, and run() evaluates.
template <class T, class E, class I>
struct in_order_assignment {
  using prints_itself = void;
  indexed_assignment<detail::scatter_destination<T, true>, E, column_input<I>> all;

  template <class Text>
  void print(Text& line) const {
    all.data.print(line, detail::at<1>(all.expression.arguments));
    line.add_text(".in_order() = ");
    line.add(detail::at<0>(all.expression.arguments));
  }
};

}  // namespace WARPWRIGHT_INDEX_NAMESPACE

namespace detail {

template <class A>
struct in_order_alone {
  static_assert(warpwright::detail::always_false<A>,
                "warpwright::ew: scatter_add().in_order() is a kernel of its own: run(stream, "
                "scatter_add(…).in_order() = …), neither beside others in tie() nor in plan()");
  using type = void;
};
template <class T, class E, class I>
inline constexpr bool is_assignment<in_order_assignment<T, E, I>> = sizeof(in_order_alone<T>) != 0;
template <class T, class E, class I>
inline constexpr bool is_run<in_order_assignment<T, E, I>> = true;
template <class T, class E, class I>
inline constexpr bool is_indexed_assignment<in_order_assignment<T, E, I>> = true;

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class T, class E, class I>
struct part_of<in_order_assignment<T, E, I>> : in_order_alone<T> {};

template <class T, class E, class I>
struct in_order_kernel : warpwright::detail::kernel_base<256> {
  using part = indexed_part<scatter_destination<T, true>, E, column_input<I>>;
  static constexpr int vector = vector_elements(part::widest_bytes);
  static constexpr unsigned max_blocks = 256;        // a power of two: two on each SM of an H100
  static constexpr unsigned indices_per_thread = 4;  // loads in flight, of a batch
  static constexpr unsigned words =
      max_threads / warpwright::detail::warp_size * indices_per_thread;
  static_assert(words == warpwright::detail::warp_size, "a lane for each word");
  struct shared {
    c_array<std::uint32_t, words> matches;  ///< the indices of a batch that are the block's
  };

  scatter_destination<T, true> table;
  E expression;
  I const* index;
  std::uint64_t rows;
  std::uint64_t wide;
  bool vectors;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    constexpr unsigned batch = max_threads * indices_per_thread;
    c_array<std::uint32_t, words>& matches = block.shared().matches;
    for (std::uint64_t first = 0; first < rows; first += batch) {
      block.for_each_thread([&](unsigned t) {
        c_array<bool, indices_per_thread> mine;
        WARPWRIGHT_UNROLL
        for (unsigned k = 0; k < indices_per_thread; ++k) {
          std::uint64_t const r = first + k * max_threads + t;
          mine[k] = false;
          if (r >= rows) continue;
          std::uint64_t const to =
              checked_index("scatter_add", index[r], table.rows, r * table.cols.divisor());
          mine[k] = (to & (block.count() - 1)) == block.index();
        }
        WARPWRIGHT_UNROLL
        for (unsigned k = 0; k < indices_per_thread; ++k) {
          set_matches(matches[(k * max_threads + t) / warpwright::detail::warp_size], mine[k], t);
        }
      });
      block.synchronize();
      block.for_each_thread([&](unsigned t) {
        for (std::uint32_t used = words_in_use(matches); used != 0; used &= used - 1) {
          unsigned const word = lowest_bit(used);
          for (std::uint32_t bits = matches[word]; bits != 0; bits &= bits - 1) {
            std::uint64_t const r = first + word * warpwright::detail::warp_size + lowest_bit(bits);
            add_row(r, t, max_threads);
          }
        }
      });
      block.synchronize();
    }
  }

  /// Adds row r of the expression, thread `t` of `threads` its share.
  WARPWRIGHT_HOST_DEVICE void add_row(std::uint64_t r, unsigned t, unsigned threads) const {
    if (vectors) {
      add_columns<vector>(r, t, threads);
    } else {
      add_columns<1>(r, t, threads);
    }
  }

 private:
  template <int V>
  WARPWRIGHT_HOST_DEVICE void add_columns(std::uint64_t r, unsigned t, unsigned threads) const {
    using traits = element_traits<T>;
    std::uint64_t const cols = table.cols.divisor();
    bits_of<T>* const row = table.row(static_cast<std::uint64_t>(index[r]), r * cols);
    for (std::uint64_t c = std::uint64_t{t} * V; c < cols; c += std::uint64_t{threads} * V) {
      std::uint64_t const i = r * cols + c;
      typename E::template registers<V> loaded WARPWRIGHT_ZERO_ON_HOST;
      packed_vector<bits_of<T>, V> sum{};
      expression.template load<V, 1>(loaded, i, wide);
      input<T>{{row + c}, 0}.template load<V, 0>(sum, 0, wide);
      packed_vector<bits_of<T>, V> const before = sum;
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) {
        auto const x = convert<typename traits::value>(
            expression.template value<void, V>(loaded, j, i + static_cast<unsigned>(j)));
        sum.set(j, with_added<T>(before.get(j), x));
      }
      if (V == 1 || is_wide_operand<0>(wide)) {
        sum.store_wide(row + c);
      } else {
        WARPWRIGHT_UNROLL
        for (int j = 0; j < V; ++j) row[c + static_cast<unsigned>(j)] = sum.get(j);
      }
    }
  }

  WARPWRIGHT_HOST_DEVICE static unsigned lowest_bit(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
    return static_cast<unsigned>(__ffs(static_cast<int>(bits))) - 1;
#else
    return static_cast<unsigned>(__builtin_ctz(bits));
#endif
  }
  // Sets the bit of a warp's thread; all of its threads call it.
  WARPWRIGHT_HOST_DEVICE static void set_matches(std::uint32_t& word, bool matches, unsigned t) {
    unsigned const lane = t % warpwright::detail::warp_size;
#if defined(__CUDA_ARCH__)
    unsigned const bits = __ballot_sync(0xffffffffU, matches);
    if (lane == 0) word = bits;
#else
    word = (lane == 0 ? 0U : word) | (matches ? 1U : 0U) << lane;
#endif
  }
  // The words that are not 0, a bit each.
  WARPWRIGHT_HOST_DEVICE static std::uint32_t words_in_use(
      c_array<std::uint32_t, words> const& matches) {
#if defined(__CUDA_ARCH__)
    return __ballot_sync(0xffffffffU, matches[threadIdx.x % warpwright::detail::warp_size] != 0);
#else
    std::uint32_t used = 0;
    for (unsigned k = 0; k < words; ++k) used |= (matches[k] != 0 ? 1U : 0U) << k;
    return used;
#endif
  }
};

// Checks and plans an assignment, and calls execute(kernel, blocks).
template <class T, class E, class I, class Execute>
void evaluate_in_order(in_order_assignment<T, E, I> const& a, source_location where,
                       Execute const& execute) {
  using kernel = in_order_kernel<T, E, I>;
  using part = typename kernel::part;
  operand operands[part::operands];
  operand* next = operands;
  *next++ = part::template describe_output<kernel::vector>(a.all.data, a.all.size);
  a.all.expression.template describe<kernel::vector>(next);
  check_operands(operands, part::operands, where);
  if (a.all.size == 0) return;
  std::uint64_t const cols = a.all.data.cols.divisor();
  std::uint64_t const wide = wide_operands(operands, part::operands, 0, kernel::vector);
  unsigned blocks = 1;
  while (blocks < a.all.data.rows && blocks < kernel::max_blocks) blocks *= 2;
  execute(kernel{{},
                 a.all.data,
                 at<0>(a.all.expression.arguments),
                 at<1>(a.all.expression.arguments).data,
                 a.all.size / cols,
                 wide,
                 cols % kernel::vector == 0},
          blocks);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
