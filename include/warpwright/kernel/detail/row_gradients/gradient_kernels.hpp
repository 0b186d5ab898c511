// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The two kernels of run_row_gradients(), and what it checks before it launches them: the pass over
// the rows, which leaves partial results of each block in the workspace, and their combination.
#pragma once

#include <warpwright/kernel/detail/reduce/block_reduce.hpp>
#include <warpwright/kernel/detail/row_gradients/gradient_pass.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class Pass>
struct gradient_kernel : warpwright::detail::kernel_base<Pass::max_threads> {
  static constexpr unsigned V = Pass::vector, vectors = Pass::vectors;
  using columns = typename Pass::columns;
  using wholes = typename Pass::wholes;
  using totals = typename Pass::totals;
  struct kept_row {
    c_array<typename Pass::registers, vectors> of;
  };
  struct kept_states {
    c_array<columns, vectors * V> of;
  };
  struct shared {
    reduction_scratch<std::conditional_t<(sizeof(totals) > sizeof(wholes)), totals, wholes>,
                      Pass::max_threads>
        scratch;
    alignas(16) unsigned char exchange[gradient_block_threads * sizeof(columns)];
  };

  Pass pass;
  gradient_partition partition;
  // What blocks leave: of columns for each split, the first elements of all vectors first.
  columns* of_columns;
  wholes* of_all;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    unsigned const split = partition.tiles == 1 ? block.index() : block.index() / partition.tiles;
    unsigned const tile = block.index() - split * partition.tiles;
    auto next = block.template per_thread<kept_row>();
    auto kept = block.template per_thread<kept_row>();
    auto total = block.template per_thread<totals>();
    auto states = block.template per_thread<kept_states>();
    auto whole = block.template per_thread<wholes>();
    std::uint64_t const first = std::uint64_t{split} * partition.rows_per_block;
    std::uint64_t const step = std::uint64_t{partition.splits} * partition.rows_per_block;
    // A row in registers is computed at once; of another all chunks are added up, then finished.
    unsigned const chunks = Pass::totals::count == 0 ? 1 : partition.chunks;
    unsigned const steps = chunks == 1 ? 1 : 2 * chunks;
    unsigned round = 0;
    auto const leave = [&](unsigned t, unsigned chunk) {
      each_column(t, chunk, split,
                  [&](unsigned slot, columns& left) { left = states[t].of[slot]; });
    };

    block.for_each_thread([&](unsigned t) {
      whole[t] = wholes::none(pass.parts);
      load<false>(next[t], first, t, tile);
    });
    for (std::uint64_t row = first; row < partition.rows; row += step) {
      for (unsigned k = 0; k < steps; ++k) {
        unsigned const chunk = tile + (k < chunks ? k : k - chunks);
        bool const is_new = steps > 1 || row == first;  // what all rows share
        block.for_each_thread([&](unsigned t) {
          if (is_new) load<true>(next[t], row, t, chunk);
          kept[t] = next[t];
          unsigned const next_k = k + 1 == steps ? 0 : k + 1;
          load<false>(next[t], next_k == 0 ? row + step : row, t,
                      tile + (next_k < chunks ? next_k : next_k - chunks));
          if (k == 0) total[t] = totals::none(pass.nodes);
          if constexpr (Pass::totals::count != 0) {
            if (k >= chunks) return;
            each_vector<false>(t, row, chunk, [&](unsigned u, auto const& i) {
              pass.add_totals(total[t], kept[t].of[u], i);
            });
          }
        });
        if constexpr (Pass::totals::count != 0) {
          if (k + 1 == chunks) {
            combine_groups(block, total, block.shared().scratch, round++, partition.row,
                           [&](totals const& a, totals const& b) {
                             return totals::combine(pass.nodes, a, b);
                           });
          }
          if (steps > 1 && k < chunks) continue;
        }
        block.for_each_thread([&](unsigned t) {
          if (is_new) {
            each_column(t, chunk, split, [&](unsigned slot, columns const& left) {
              states[t].of[slot] = row == first ? columns::none(pass.parts) : left;
            });
          }
          each_vector<false>(t, row, chunk, [&](unsigned u, auto const& i) {
            pass.finish(kept[t].of[u], total[t], i, states[t].of + u * V, whole[t]);
          });
          if (steps > 1) leave(t, chunk);
        });
      }
    }
    block.trigger_dependents();
    if (steps == 1 && Pass::columns::count != 0) {
      if (partition.rows_per_block > 1) combine_rows(block, states);
      block.for_each_thread([&](unsigned t) {
        if (t < partition.row.threads) leave(t, tile);
      });
    }
    if constexpr (Pass::wholes::count != 0) {
      combine_groups(
          block, whole, block.shared().scratch, round, thread_groups{block.threads()},
          [&](wholes const& a, wholes const& b) { return wholes::combine(pass.parts, a, b); });
      block.for_each_thread([&](unsigned t) {
        if (t == 0) of_all[block.index()] = whole[t];
      });
    }
  }

 private:
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned first_vector(unsigned t, unsigned chunk) const {
    return (chunk * vectors - partition.row_of_thread(t)) * partition.row.threads + t;
  }
  // Calls f(u, place) for the vectors of thread t in one of the rows from `row` on.
  template <bool Steady, class F>
  WARPWRIGHT_HOST_DEVICE void each_vector(unsigned t, std::uint64_t row, unsigned chunk,
                                          F const& f) const {
    row += partition.row_of_thread(t);
    if (row >= partition.rows) return;
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+l"(row));  // else the loop over rows keeps an address for each array
#endif
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < vectors; ++u) {
      unsigned const v = first_vector(t, chunk) + u * partition.row.threads;
      if (v >= partition.vectors) continue;
      unsigned const column = partition.wide ? v * V : v;
      f(u, pass_place<Steady>{{row * partition.cols + column, row, column}, partition});
    }
  }
  template <bool Steady>
  WARPWRIGHT_HOST_DEVICE void load(kept_row& to, std::uint64_t row, unsigned t,
                                   unsigned chunk) const {
    each_vector<Steady>(t, row, chunk, [&](unsigned u, auto const& i) { pass.load(to.of[u], i); });
  }
  // Calls f(slot, where the block leaves it) for the columns of thread t.
  template <class F>
  WARPWRIGHT_HOST_DEVICE void each_column(unsigned t, unsigned chunk, unsigned split,
                                          F const& f) const {
    WARPWRIGHT_UNROLL
    for (unsigned slot = 0; slot < vectors * V && Pass::columns::count != 0; ++slot) {
      unsigned const v = first_vector(t, chunk) + slot / V * partition.row.threads;
      std::uint64_t const line = std::uint64_t{split} * V + slot % V;
      if (v < partition.vectors) f(slot, of_columns[line * partition.vectors + v]);
    }
  }
  // Combines those of the rows that the block takes at once.
  template <class Block, class States>
  WARPWRIGHT_HOST_DEVICE void combine_rows(Block& block, States& states) const {
    auto* const exchange = reinterpret_cast<columns*>(block.shared().exchange);
    WARPWRIGHT_UNROLL
    for (unsigned slot = 0; slot < vectors * V; ++slot) {
      block.for_each_thread([&](unsigned t) { exchange[t] = states[t].of[slot]; });
      block.synchronize();
      WARPWRIGHT_NO_UNROLL
      for (unsigned half = half_of(partition.rows_per_block); half != 0; half /= 2) {
        unsigned const other = half * partition.row.threads;
        block.for_each_thread([&](unsigned t) {
          if (t >= other || t + other >= block.threads()) return;
          exchange[t] = columns::combine(pass.parts, exchange[t], exchange[t + other]);
        });
        block.synchronize();
      }
      block.for_each_thread([&](unsigned t) { states[t].of[slot] = exchange[t]; });
    }
  }
  // The greatest power of two below `count`.
  WARPWRIGHT_HOST_DEVICE static unsigned half_of(unsigned count) {
    unsigned half = 1;
    while (2 * half < count) half *= 2;
    return half;
  }
};

inline constexpr unsigned gradient_finish_threads = 256;
inline constexpr unsigned gradient_finish_columns = 8;

// Combines the blocks' partial results in the order of the blocks, by some threads for each column.
template <class Pass>
struct gradient_finish_kernel : warpwright::detail::kernel_base<gradient_finish_threads> {
  using columns = typename Pass::columns;
  using wholes = typename Pass::wholes;
  using shared =
      reduction_scratch<std::conditional_t<(sizeof(columns) > sizeof(wholes)), columns, wholes>,
                        gradient_finish_threads, gradient_finish_columns>;

  typename columns::parts parts;
  gradient_partition partition;
  columns const* of_columns;
  wholes const* of_all;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    if constexpr (wholes::count != 0) {
      if (block.index() == block.count() - 1) {
        return combine(block, of_all, partition.splits * partition.tiles, 1, 0,
                       partition.rows * partition.cols);
      }
    }
    if constexpr (columns::count != 0) {
      combine(block, of_columns, partition.splits, Pass::vector * partition.vectors,
              block.index() * gradient_finish_columns, partition.rows);
    }
  }

 private:
  // @param of_blocks   of each block some states
  // @param count       of elements that a result is of
  template <class Block, class States>
  WARPWRIGHT_HOST_DEVICE void combine(Block& block, States const* of_blocks, unsigned blocks,
                                      unsigned states, unsigned first, std::uint64_t count) const {
    constexpr unsigned at_once = gradient_finish_threads / gradient_finish_columns;
    auto state = block.template per_thread<States>();
    block.for_each_thread([&](unsigned t) {
      unsigned const k = first + t % gradient_finish_columns;
      state[t] = States::none(parts);
      for (unsigned b = t / gradient_finish_columns; b < blocks && k < states; b += at_once) {
        state[t] = States::combine(parts, state[t], of_blocks[std::uint64_t{b} * states + k]);
      }
    });
    combine_groups(block, state, block.shared(), 0,
                   thread_columns{gradient_finish_threads, gradient_finish_columns},
                   [&](States const& a, States const& b) { return States::combine(parts, a, b); });
    block.for_each_thread([&](unsigned t) {
      unsigned const k = first + t;
      if (t >= gradient_finish_columns || k >= states) return;
      unsigned const column =
          partition.wide ? k % partition.vectors * Pass::vector + k / partition.vectors : k;
      if (k != 0 && column >= partition.cols) return;
      States::each(parts, [&](auto const& part, auto i) {
        part.finish(at<i.value>(state[t]), count, column);
      });
    });
  }
};

// ---- The host's part of a call ----

template <class... A>
struct gradient_call {
  static_assert((is_goal<A> && ...),
                "warpwright::ew::run_row_gradients: takes out(pointer, rows * cols) = expression, "
                "to(pointer) = or += column_sum(expression), and to(pointer) = max(expression) of "
                "all elements, as arguments, not in tie()");
  using nodes = typename pass_nodes<
      leaf_list<>, typename joined_leaves<leaves_of<decltype(A::expression)>...>::type>::type;
  template <class... Node>
  static gradient_pass_of<leaf_list<Node...>, std::index_sequence_for<Node...>,
                          std::index_sequence_for<A...>, A...>
      pass_of(leaf_list<Node...>);
  using pass = decltype(pass_of(nodes{}));

  static gradient_partition plan(matrix_shape const& shape) {
    static_cast<void>(elements_in(shape));
    return plan_gradients(shape.rows, shape.cols, pass::vector, pass::vectors,
                          pass::totals::count != 0, pass::max_threads);
  }
  // Of the partial results of columns.
  static std::size_t column_bytes(gradient_partition const& p) {
    return pass::columns::count == 0
               ? 0
               : round_up_to_16(std::uint64_t{p.splits} * p.vectors *
                                (pass::vector * sizeof(typename pass::columns)));
  }
  static std::size_t workspace_bytes(matrix_shape const& shape) {
    gradient_partition const p = plan(shape);
    return workspace_head_bytes + column_bytes(p) +
           p.splits * p.tiles * sizeof(typename pass::wholes);
  }
  // Checks, plans, and runs the kernels, on a stream or on the calling thread.
  // @param workspace  of `bytes`, or null where there is no reduction
  template <class Where>
  static void run(Where const& execute, void* workspace, std::size_t bytes,
                  matrix_shape const& shape, A const&... a) {
    constexpr int outputs = pass::outputs::count;
    static_assert(outputs > 0,
                  "warpwright::ew::run_row_gradients: no output of the matrix's shape, as out(dx, "
                  "rows * cols) = expression; reductions alone go to reduce_cols() and reduce()");
    constexpr int results = static_cast<int>(sizeof...(A)) - outputs;
    constexpr int arrays = (outputs + ... + decltype(A::expression)::operands);
    static_assert(arrays <= 64,
                  "warpwright::ew::run_row_gradients: more than 64 arrays in one pass; split it");
    c_array<operand, arrays> operands;
    c_array<int, outputs + 1> counts = {};
    c_array<memory_range, results + 1> ranges = {};
    operand* next = operands;
    int *count = counts, result = 0;
    auto const describe = [&](auto const& each, auto of_outputs) {
      using part = pass_part<std::decay_t<decltype(each)>>;
      operand* const first = next;
      if constexpr ((part::goal == pass_goal::output) != of_outputs.value) {
        return;
      } else if constexpr (of_outputs.value) {
        *next++ = part::template describe_output<pass::vector>(each.data, each.size);
        each.expression.template describe<pass::vector>(next);
        *count++ = static_cast<int>(next - first);
      } else {
        each.expression.template describe<pass::vector>(next);
        count[-1] += static_cast<int>(next - first);
        ranges[result++] = range_of(each, part::goal == pass_goal::whole ? 1 : shape.cols);
      }
    };
    (describe(a, std::true_type{}), ...);
    (describe(a, std::false_type{}), ...);
    check_row_gradients(operands, counts, outputs, ranges, results, workspace, bytes, shape);

    gradient_partition p = plan(shape);
    p.wide = shape.cols % static_cast<unsigned>(pass::vector) == 0 && shape.cols != 0 &&
             wide_operands(operands, arrays, 0, pass::vector) == bits_of_operands(arrays);
    auto* memory = static_cast<unsigned char*>(workspace);
    if (pass::reduces) memory += workspace_head_bytes;
    auto* const of_columns = reinterpret_cast<typename pass::columns*>(memory);
    auto* const of_all = reinterpret_cast<typename pass::wholes*>(memory + column_bytes(p));
    char const* const name = "warpwright::ew::run_row_gradients";
    pass const all = make_pass(nodes{}, shape, a...);
    if (p.splits != 0) {
      execute(std::uint64_t{p.tiles} * p.splits, p.row.threads * p.rows_per_block,
              gradient_kernel<pass>{{}, all, p, of_columns, of_all}, name);
    }
    if constexpr (pass::reduces) {
      std::uint64_t const positions =
          pass::columns::count == 0 ? 0 : std::uint64_t{p.vectors} * pass::vector;
      std::uint64_t const blocks =
          divide_up(positions, gradient_finish_columns) + (pass::wholes::count != 0 ? 1 : 0);
      if (blocks == 0) return;
      execute(blocks, gradient_finish_threads,
              gradient_finish_kernel<pass>{{}, all.parts, p, of_columns, of_all}, name);
    }
  }

 private:
  template <class... Node>
  static pass make_pass(leaf_list<Node...>, matrix_shape const& shape, A const&... a) {
    pass_node_finder<Node...> found{};
    (traversal<decltype(A::expression)>::visit(a.expression, found), ...);
    if (!found.are_one) {
      warpwright::detail::throw_invalid_argument(
          "ew: two expressions of one type in once(), row_sum() or row_mean() are of other arrays "
          "or numbers; give each a number of its own, as in row_sum<1>(x)",
          shape.where);
    }
    auto const cols = static_cast<double>(shape.cols);
    auto const width = static_cast<float>(shape.cols);
    return {{{{as_pass_expression(of_type<Node const*>(found.first)->expression)}}...},
            {{make_part(a)}...},
            {{{width, 1 / width}}, {{cols, 1 / cols}}}};
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
