// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The two kernels of run_row_gradients(), and what it checks before it launches them: the pass over
// the rows, which leaves partial results of each block in the workspace, and their combination.
#pragma once

#include <warpwright/kernel/detail/row_gradients/gradient_pass.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// @tparam Chunked  of rows that are too long for registers
template <class Pass, bool Chunked>
struct gradient_kernel : warpwright::detail::kernel_base<Pass::max_threads> {
  static constexpr unsigned V = Pass::vector, vectors = Pass::vectors;
  using columns = typename Pass::columns;
  using totals = typename Pass::totals;
  struct kept_row {
    c_array<typename Pass::registers, Pass::vectors> of;
  };
  struct kept_states {
    c_array<typename Pass::states, Pass::vectors> of;
  };
  struct shared {
    reduction_scratch<totals, Pass::max_threads> scratch;
    alignas(16) unsigned char exchange[gradient_block_threads * sizeof(columns)];
  };

  Pass pass;
  gradient_partition partition;
  typename Pass::states* of_splits;  // what blocks leave

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    unsigned const split = block.index() / partition.tiles;
    unsigned const tile = block.index() % partition.tiles;
    auto next = block.template per_thread<kept_row>();
    auto kept = block.template per_thread<kept_row>();
    auto total = block.template per_thread<totals>();
    auto states = block.template per_thread<kept_states>();
    std::uint64_t const first = std::uint64_t{split} * partition.rows_per_block;
    std::uint64_t const step = std::uint64_t{partition.splits} * partition.rows_per_block;
    // A row in registers is computed at once; of another all chunks are added up, then finished.
    unsigned const chunks = Chunked ? partition.chunks : 1, steps = Chunked ? 2 * chunks : 1;
    unsigned round = 0;
    auto const load = [&](unsigned t, std::uint64_t row, unsigned chunk, auto steady) {
      each_vector<V == 1>(t, row, chunk, [&](unsigned u, matrix_index const& i) {
        pass.template load<steady.value>(next[t].of[u], i);
      });
    };
    auto const leave = [&](unsigned t, unsigned chunk) {
      each_state(t, chunk, split, states[t], [](auto const& state, auto& left) { left = state; });
    };

    block.for_each_thread([&](unsigned t) {
      if (!Chunked) {
        load(t, first, tile, std::true_type{});
        for (auto& of_vector : states[t].of) of_vector = Pass::no_states();
      }
      load(t, first, tile, std::false_type{});
    });
    for (std::uint64_t row = first; row < partition.rows; row += step) {
      unsigned chunk = tile, following = tile;
      WARPWRIGHT_NO_UNROLL
      for (unsigned k = 0; k < steps; ++k, chunk = following) {
        following = chunk + 1 == tile + chunks ? tile : chunk + 1;
        block.for_each_thread([&](unsigned t) {
          if (Chunked) load(t, row, chunk, std::true_type{});
          kept[t] = next[t];
          load(t, k + 1 == steps ? row + step : row, following, std::false_type{});
          if (k == 0) total[t] = {};
          if (Pass::totals::count == 0 || k >= chunks) return;
          each_vector<false>(t, row, chunk, [&](unsigned u, matrix_index const& i) {
            pass.add_totals(total[t], kept[t].of[u], i);
          });
        });
        if constexpr (Pass::totals::count != 0) {
          if (k + 1 == chunks) {
            combine_groups(block, total, block.shared().scratch, round++, partition.row,
                           [](totals const& a, totals const& b) { return Pass::add_up(a, b); });
          }
          if (Chunked && k < chunks) continue;
        }
        block.for_each_thread([&](unsigned t) {
          if (Chunked) {
            each_state(t, chunk, split, states[t], [&](auto& state, auto const& left) {
              state = row == first ? Pass::no_states() : left;
            });
          }
          each_vector<false>(t, row, chunk, [&](unsigned u, matrix_index const& i) {
            pass.finish(kept[t].of[u], total[t], i, states[t].of[u]);
          });
          if (Chunked) leave(t, chunk);
        });
      }
    }
    block.trigger_dependents();
    if (Chunked || Pass::columns::count == 0) return;
    if (partition.rows_per_block > 1) combine_rows(block, states);
    block.for_each_thread([&](unsigned t) {
      if (t < partition.row.threads) leave(t, tile);
    });
  }

 private:
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned first_vector(unsigned t, unsigned chunk) const {
    return (chunk * vectors - partition.row_of_thread(t)) * partition.row.threads + t;
  }
  // Calls f(u, place) for the vectors of thread t in one of the rows from `row` on.
  // @tparam All  past the end for the last one, so that loads are in no branch (nvcc 13.0: else
  //   elements one by one spill)
  template <bool All, class F>
  WARPWRIGHT_HOST_DEVICE void each_vector(unsigned t, std::uint64_t row, unsigned chunk,
                                          F const& f) const {
    row += partition.row_of_thread(t);
    if (row >= partition.rows) {
      if (!All) return;
      row = partition.rows - 1;
    }
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < vectors; ++u) {
      unsigned v = first_vector(t, chunk) + u * partition.row.threads;
      if (v >= partition.vectors) {
        if (!All) continue;
        v = partition.vectors - 1;
      }
      f(u, matrix_index{(row * partition.vectors + v) * V, row, v * V});
    }
  }
  // Calls f(state, where the block leaves it) for the vectors of thread t.
  template <class F>
  WARPWRIGHT_HOST_DEVICE void each_state(unsigned t, unsigned chunk, unsigned split,
                                         kept_states& states, F const& f) const {
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < vectors && Pass::columns::count != 0; ++u) {
      unsigned const v = first_vector(t, chunk) + u * partition.row.threads;
      if (v < partition.vectors) {
        f(states.of[u], of_splits[std::uint64_t{split} * partition.vectors + v]);
      }
    }
  }
  // Combines those of the rows that the block takes at once.
  template <class Block, class States>
  WARPWRIGHT_HOST_DEVICE void combine_rows(Block& block, States& states) const {
    auto* const exchange = reinterpret_cast<columns*>(block.shared().exchange);
    unsigned const threads = partition.row.threads;
    WARPWRIGHT_UNROLL
    for (unsigned slot = 0; slot < vectors * V; ++slot) {
      block.for_each_thread([&](unsigned t) { exchange[t] = states[t].of[slot / V].of[slot % V]; });
      block.synchronize();
      WARPWRIGHT_NO_UNROLL
      for (unsigned rows = partition.rows_per_block; rows > 1; rows = (rows + 1) / 2) {
        unsigned const half = (rows + 1) / 2 * threads;
        block.for_each_thread([&](unsigned t) {
          if (t + half < rows * threads)
            exchange[t] = Pass::combine(exchange[t], exchange[t + half]);
        });
        block.synchronize();
      }
      block.for_each_thread([&](unsigned t) { states[t].of[slot / V].of[slot % V] = exchange[t]; });
    }
  }
};

inline constexpr unsigned gradient_finish_threads = 256;
inline constexpr unsigned gradient_finish_columns = 8;

// Combines the blocks' partial results in the order of the blocks, by some threads for each column.
template <class Pass>
struct gradient_finish_kernel : warpwright::detail::kernel_base<gradient_finish_threads> {
  using columns = typename Pass::columns;
  using shared = reduction_scratch<columns, gradient_finish_threads, gradient_finish_columns>;

  decltype(Pass::parts) parts;
  columns const* of_splits;
  unsigned splits;
  std::uint64_t rows;
  unsigned cols;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    unsigned const first = block.index() * gradient_finish_columns;
    auto state = block.template per_thread<columns>();
    block.for_each_thread([&](unsigned t) {
      unsigned const k = first + t % gradient_finish_columns;
      state[t] = Pass::none();
      for (unsigned b = t / gradient_finish_columns; b < splits && k < cols;
           b += gradient_finish_threads / gradient_finish_columns) {
        state[t] = Pass::combine(state[t], of_splits[std::uint64_t{b} * cols + k]);
      }
    });
    combine_groups(block, state, block.shared(), 0,
                   thread_columns{gradient_finish_threads, gradient_finish_columns},
                   [](columns const& a, columns const& b) { return Pass::combine(a, b); });
    block.for_each_thread([&](unsigned t) {
      if (t >= gradient_finish_columns || first + t >= cols) return;
      columns::each(
          [&](auto k) { at<k.value>(parts).finish(at<k.value>(state[t]), rows, first + t); });
    });
  }
};

// ---- The host's part of a call ----

template <class... A>
struct gradient_call {
  static_assert((is_goal<A> && ...),
                "warpwright::ew::run_row_gradients: takes out(pointer, rows * cols) = expression "
                "and to(pointer) = or += column_sum(expression) as arguments, not in tie()");
  using nodes = typename pass_nodes<
      leaf_list<>, typename joined_leaves<leaves_of<decltype(A::expression)>...>::type>::type;
  template <int V, class... Node>
  static gradient_pass<V, pack<Node...>, pack<pass_part<A>...>> pass_of(leaf_list<Node...>);
  template <int V>
  using pass = decltype(pass_of<V>(nodes{}));

  static constexpr int vector = vector_elements(largest(pass_part<A>::widest_bytes...));
  static constexpr int results = pass<1>::columns::count;
  static constexpr int outputs = static_cast<int>(sizeof...(A)) - results;

  template <class Pass>
  static gradient_partition plan(matrix_shape const& shape) {
    return plan_gradients(shape.rows, shape.cols, Pass::vector, Pass::vectors,
                          Pass::totals::count != 0, Pass::max_threads);
  }
  static std::size_t workspace_bytes(matrix_shape const& shape) {
    static_cast<void>(elements_in(shape));
    unsigned const splits = plan<pass<1>>(shape).splits, wide = plan<pass<vector>>(shape).splits;
    return workspace_head_bytes + std::size_t{splits > wide ? splits : wide} * shape.cols *
                                      sizeof(typename pass<1>::columns);
  }
  // Checks, plans, and runs the kernels, on a stream or on the calling thread.
  // @param workspace  of `bytes`, or null where there is no reduction
  template <class Where>
  static void run(Where const& execute, void* workspace, std::size_t bytes,
                  matrix_shape const& shape, A const&... a) {
    static_assert(outputs > 0,
                  "warpwright::ew::run_row_gradients: no output of the matrix's shape, as out(dx, "
                  "rows * cols) = expression; reductions alone go to reduce_cols() and reduce()");
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
      if constexpr (std::is_void<typename part::state>::value != of_outputs.value) {
        return;
      } else if constexpr (of_outputs.value) {
        *next++ = part::template describe_output<vector>(each.data, each.size);
        each.expression.template describe<vector>(next);
        *count++ = static_cast<int>(next - first);
      } else {
        each.expression.template describe<vector>(next);
        count[-1] += static_cast<int>(next - first);
        ranges[result++] = range_of(each, shape.cols);
      }
    };
    (describe(a, std::true_type{}), ...);
    (describe(a, std::false_type{}), ...);
    check_row_gradients(operands, counts, outputs, ranges, results, workspace, bytes, shape);
    if (shape.cols % static_cast<unsigned>(vector) == 0 &&
        wide_operands(operands, arrays, 0, vector) == bits_of_operands(arrays)) {
      launch<pass<vector>>(execute, workspace, shape, make_pack(nodes{}, shape, a...), a...);
    } else {
      launch<pass<1>>(execute, workspace, shape, make_pack(nodes{}, shape, a...), a...);
    }
  }

 private:
  template <class... Node>
  static pack<Node...> make_pack(leaf_list<Node...>, matrix_shape const& shape, A const&... a) {
    pass_node_finder<Node...> found{};
    (traversal<decltype(A::expression)>::visit(a.expression, found), ...);
    if (!found.are_one) {
      warpwright::detail::throw_invalid_argument(
          "ew: two expressions of one type in once(), row_sum() or row_mean() are of other arrays "
          "or numbers; give each a number of its own, as in row_sum<1>(x), or once<1>(x) around "
          "what a backward function takes",
          shape.where);
    }
    return {{*of_type<Node const*>(found.first)}...};
  }
  template <class Pass, class Where>
  static void launch(Where const& execute, void* workspace, matrix_shape const& shape,
                     decltype(Pass::nodes) const& all, A const&... a) {
    char const* const name = "warpwright::ew::run_row_gradients";
    auto const cols = static_cast<double>(shape.cols);
    auto const width = static_cast<float>(shape.cols);
    Pass const p{all, {{make_part(a)}...}, {{{width, 1 / width}}, {{cols, 1 / cols}}}};
    gradient_partition const partition = plan<Pass>(shape);
    auto* const memory =
        static_cast<unsigned char*>(workspace) + (results == 0 ? 0 : workspace_head_bytes);
    auto const run_pass = [&](auto chunked) {
      execute(std::uint64_t{partition.tiles} * partition.splits,
              partition.row.threads * partition.rows_per_block,
              gradient_kernel<Pass, chunked.value>{
                  {}, p, partition, reinterpret_cast<typename Pass::states*>(memory)},
              name);
    };
    if (partition.splits != 0 && partition.chunks == 1) run_pass(std::false_type{});
    if constexpr (Pass::totals::count != 0) {
      if (partition.splits != 0 && partition.chunks > 1) run_pass(std::true_type{});
    }
    if constexpr (results != 0) {
      if (shape.cols == 0) return;
      execute(divide_up(shape.cols, gradient_finish_columns), gradient_finish_threads,
              gradient_finish_kernel<pass<1>>{{},
                                              p.parts,
                                              reinterpret_cast<typename Pass::columns*>(memory),
                                              partition.splits,
                                              shape.rows,
                                              static_cast<unsigned>(shape.cols)},
              name);
    }
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
