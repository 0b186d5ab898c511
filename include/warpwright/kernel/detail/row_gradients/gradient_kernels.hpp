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

// The partial results of blocks: of columns in the order in which threads hold them, so that their
// accesses are contiguous, then of all elements.
template <class Pass>
struct partial_results {
  typename Pass::column_states* of_columns;
  typename Pass::whole_states* of_all;

  static std::size_t column_bytes(gradient_partition const& p) {
    return Pass::has_columns ? round_up_to_16(std::size_t{p.splits} * p.positions *
                                              sizeof(typename Pass::column_states))
                             : 0;
  }
  static std::size_t bytes(gradient_partition const& p) {
    std::size_t const whole = sizeof(typename Pass::whole_states);
    return column_bytes(p) + (Pass::has_wholes ? std::size_t{p.blocks()} * whole : 0);
  }
  static partial_results in(void* workspace, gradient_partition const& p) {
    if (workspace == nullptr) return {nullptr, nullptr};
    auto* const memory = static_cast<unsigned char*>(workspace) + workspace_head_bytes;
    return {reinterpret_cast<typename Pass::column_states*>(memory),
            reinterpret_cast<typename Pass::whole_states*>(memory + column_bytes(p))};
  }
};

/// @tparam V  elements a vector: Pass::vector, or 1
template <class Pass, int V, bool Streamed>
struct gradient_kernel
    : warpwright::detail::kernel_base<Streamed ? gradient_block_threads : Pass::max_threads,
                                      Streamed ? 1 : 0> {
  static constexpr int vectors =
      V == Pass::vector ? Pass::vectors
                        : static_cast<int>(max_single_elements(Pass::vectors * Pass::vector));
  using registers = typename Pass::template registers<V>;
  using column_states = typename Pass::column_states;
  using whole_states = typename Pass::whole_states;
  using total_values = typename Pass::total_values;
  struct kept_row {
    c_array<registers, vectors> of;
  };
  struct kept_states {
    c_array<column_states, vectors * V> of;
  };
  using exchanged =
      std::conditional_t<(sizeof(total_values) > sizeof(whole_states)), total_values, whole_states>;
  struct shared {
    reduction_scratch<exchanged, Pass::max_threads> scratch;
    alignas(16) unsigned char columns[Pass::has_columns && !Streamed
                                          ? gradient_block_threads * sizeof(column_states)
                                          : 16];
  };

  Pass pass;
  gradient_partition partition;
  partial_results<Pass> partial;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    unsigned const tile = partition.tiles == 1 ? 0 : block.index() % partition.tiles;
    unsigned const split = partition.tiles == 1 ? block.index() : block.index() / partition.tiles;
    auto next = block.template per_thread<kept_row>();
    auto kept = block.template per_thread<kept_row>();
    auto total = block.template per_thread<total_values>();
    auto states = block.template per_thread<kept_states>();
    auto whole = block.template per_thread<whole_states>();
    unsigned const first_vector = tile * (partition.threads * vectors);
    std::uint64_t const first_row = std::uint64_t{split} * partition.rows_per_block;
    std::uint64_t const step = std::uint64_t{partition.splits} * partition.rows_per_block;
    unsigned round = 0;

    block.for_each_thread([&](unsigned t) {
      whole[t] = Pass::wholes::none(pass.parts);
      if constexpr (!Streamed) {
        clear(states[t]);
        each_vector(t, first_vector, [&](unsigned u, unsigned v) {
          pass.template load<V>(next[t].of[u], steady_place{v * V});
        });
        load_row(next[t], first_row + partition.row_of_thread(t), t, first_vector);
      }
    });
    for (std::uint64_t at_row = first_row; at_row < partition.rows; at_row += step, ++round) {
      block.for_each_thread([&](unsigned t) {
        std::uint64_t const row = at_row + partition.row_of_thread(t);
        total[t] = {};
        if constexpr (Streamed) {
          each_batch(t, row, [&](registers const& r, unsigned v) {
            pass.template add_totals<V>(total[t], r, row * partition.cols + v * std::uint64_t{V});
          });
        } else {
          kept[t] = next[t];
          load_row(next[t], row + step, t, first_vector);
          if (Pass::has_totals && row < partition.rows) {
            each_vector(t, first_vector, [&](unsigned u, unsigned v) {
              pass.template add_totals<V>(total[t], kept[t].of[u], place(row, v).index);
            });
          }
        }
      });
      if constexpr (Pass::has_totals) {
        combine_groups(block, total, block.shared().scratch, round,
                       thread_groups{partition.threads, 1, partition.reciprocal},
                       [](total_values const& a, total_values const& b) {
                         return Pass::combine_totals(a, b);
                       });
      }
      block.for_each_thread([&](unsigned t) {
        std::uint64_t const row = at_row + partition.row_of_thread(t);
        if (row >= partition.rows) return;
        if constexpr (Streamed) {
          each_batch(t, row, [&](registers const& r, unsigned v) {
            finish_streamed(r, total[t], place(row, v), split, t, at_row == first_row, whole[t]);
          });
        } else {
          each_vector(t, first_vector, [&](unsigned u, unsigned v) {
            if constexpr (Pass::has_totals) pass.template forget<V>(kept[t].of[u]);
            pass.template finish<V>(kept[t].of[u], total[t], place(row, v), states[t].of + u * V,
                                    whole[t]);
          });
        }
      });
    }
    block.trigger_dependents();
    if constexpr (Pass::has_columns && !Streamed) store_columns(block, states, tile, split);
    if constexpr (Pass::has_wholes) {
      auto const& parts = pass.parts;
      combine_groups(block, whole, block.shared().scratch, round,
                     thread_groups{partition.block_threads()},
                     [&](whole_states const& a, whole_states const& b) {
                       return Pass::wholes::combine(parts, a, b);
                     });
      block.for_each_thread([&](unsigned t) {
        if (t == 0) partial.of_all[block.index()] = whole[t];
      });
    }
  }

 private:
  WARPWRIGHT_HOST_DEVICE matrix_index place(std::uint64_t row, unsigned v) const {
    unsigned const column = v * V;
    return {row * partition.cols + column, row, column};
  }
  WARPWRIGHT_HOST_DEVICE unsigned thread_in_row(unsigned t) const {
    return t - partition.row_of_thread(t) * partition.threads;
  }
  WARPWRIGHT_HOST_DEVICE void clear(kept_states& states) const {
    WARPWRIGHT_UNROLL
    for (column_states& s : states.of) s = Pass::columns::none(pass.parts);
  }
  // Calls f(u, v) for the vectors v of thread t.
  template <class F>
  WARPWRIGHT_HOST_DEVICE void each_vector(unsigned t, unsigned first, F const& f) const {
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < vectors; ++u) {
      unsigned const v = first + u * partition.threads + thread_in_row(t);
      if (v < partition.vectors) f(u, v);
    }
  }
  WARPWRIGHT_HOST_DEVICE void load_row(kept_row& to, std::uint64_t row, unsigned t,
                                       unsigned first) const {
    if (row >= partition.rows) return;
    each_vector(t, first,
                [&](unsigned u, unsigned v) { pass.template load<V>(to.of[u], place(row, v)); });
  }

  // ---- A row that is too long for registers ----

  // Calls f(registers, v) for the vectors of thread t, some of which are loaded at a time.
  template <class F>
  WARPWRIGHT_HOST_DEVICE void each_batch(unsigned t, std::uint64_t row, F const& f) const {
    for (unsigned first = 0; first < partition.vectors; first += vectors * partition.threads) {
      kept_row r WARPWRIGHT_ZERO_ON_HOST;
      each_vector(t, first, [&](unsigned u, unsigned v) {
        pass.template load<V>(r.of[u], steady_place{v * V});
        pass.template load<V>(r.of[u], place(row, v));
      });
      each_vector(t, first, [&](unsigned u, unsigned v) { f(r.of[u], v); });
    }
  }
  // The states of columns stay in the workspace, where no other thread accesses them.
  WARPWRIGHT_HOST_DEVICE void finish_streamed(registers const& r, total_values const& total,
                                              matrix_index const& i, unsigned split, unsigned t,
                                              bool is_first, whole_states& whole) const {
    c_array<column_states, V> states;
    std::uint64_t const at = position(split, i.column / V / partition.threads * V, t);
    WARPWRIGHT_UNROLL
    for (unsigned j = 0; j < V; ++j) {
      states[j] = Pass::columns::none(pass.parts);
      if (Pass::has_columns && !is_first) {
        states[j] = partial.of_columns[at + std::uint64_t{j} * partition.threads];
      }
    }
    pass.template finish<V>(r, total, i, states, whole);
    WARPWRIGHT_UNROLL
    for (unsigned j = 0; j < V && Pass::has_columns; ++j) {
      partial.of_columns[at + std::uint64_t{j} * partition.threads] = states[j];
    }
  }

  // ---- The states of columns ----

  WARPWRIGHT_HOST_DEVICE std::uint64_t position(unsigned split, unsigned slot, unsigned t) const {
    return std::uint64_t{split} * partition.positions + slot * partition.threads + thread_in_row(t);
  }
  // Combines those of the rows that the block takes at once, and stores them.
  template <class Block, class States>
  WARPWRIGHT_HOST_DEVICE void store_columns(Block& block, States& states, unsigned tile,
                                            unsigned split) const {
    auto* const exchange = reinterpret_cast<column_states*>(block.shared().columns);
    unsigned const first = tile * (partition.threads * vectors);
    unsigned const threads = partition.threads;
    WARPWRIGHT_UNROLL
    for (unsigned slot = 0; slot < vectors * V; ++slot) {
      if (first + slot / V * threads >= partition.vectors) break;
      if (partition.rows_per_block > 1) {
        block.for_each_thread([&](unsigned t) { exchange[t] = states[t].of[slot]; });
        block.synchronize();
        WARPWRIGHT_NO_UNROLL
        for (unsigned half = partition.half_of_rows; half != 0; half /= 2) {
          block.for_each_thread([&](unsigned t) {
            unsigned const row = partition.row_of_thread(t);
            if (row >= half || row + half >= partition.rows_per_block) return;
            exchange[t] =
                Pass::columns::combine(pass.parts, exchange[t], exchange[t + half * threads]);
          });
          block.synchronize();
        }
        block.for_each_thread([&](unsigned t) {
          if (t < threads) states[t].of[slot] = exchange[t];
        });
      }
      block.for_each_thread([&](unsigned t) {
        if (t >= threads) return;
        partial.of_columns[position(split, tile * (vectors * V) + slot, t)] = states[t].of[slot];
      });
    }
  }
};

// Combines the blocks' partial results in the order of the blocks, by some threads for each column.
template <class Pass>
struct gradient_finish_kernel : warpwright::detail::kernel_base<gradient_finish_threads> {
  using column_states = typename Pass::column_states;
  using whole_states = typename Pass::whole_states;
  struct shared {
    reduction_scratch<column_states, gradient_finish_threads, gradient_finish_columns> columns;
    reduction_scratch<whole_states, gradient_finish_threads> whole;
  };

  typename Pass::columns::parts parts;
  gradient_partition partition;
  partial_results<Pass> partial;

  static std::uint64_t column_blocks(gradient_partition const& p) {
    return Pass::has_columns ? divide_up(p.positions, gradient_finish_columns) : 0;
  }
  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    if (Pass::has_wholes && block.index() == block.count() - 1) return finish_all(block);
    constexpr unsigned columns = gradient_finish_columns;
    auto state = block.template per_thread<column_states>();
    auto const position = [&](unsigned t) { return block.index() * columns + t % columns; };
    auto const column = [&](unsigned t) {
      unsigned const v = partition.vectorized ? Pass::vector : 1U;
      unsigned const slot = position(t) / partition.threads;
      std::uint64_t const vector = std::uint64_t{slot / v} * partition.threads;
      return (vector + position(t) % partition.threads) * v + slot % v;
    };
    auto const exists = [&](unsigned t) {
      return position(t) < partition.positions && column(t) < partition.cols;
    };
    block.for_each_thread([&](unsigned t) {
      state[t] = Pass::columns::none(parts);
      if (!exists(t)) return;
      for (unsigned s = t / columns; s < partition.splits; s += gradient_finish_threads / columns) {
        std::uint64_t const at = std::uint64_t{s} * partition.positions + position(t);
        state[t] = Pass::columns::combine(parts, state[t], partial.of_columns[at]);
      }
    });
    combine_groups(block, state, block.shared().columns, 0,
                   thread_columns{gradient_finish_threads, columns},
                   [&](column_states const& a, column_states const& b) {
                     return Pass::columns::combine(parts, a, b);
                   });
    block.for_each_thread([&](unsigned t) {
      if (t < columns && exists(t)) {
        Pass::columns::finish(parts, state[t], partition.rows, column(t));
      }
    });
  }

 private:
  template <class Block>
  WARPWRIGHT_HOST_DEVICE void finish_all(Block& block) const {
    auto state = block.template per_thread<whole_states>();
    auto const combine = [&](whole_states const& a, whole_states const& b) {
      return Pass::wholes::combine(parts, a, b);
    };
    auto const blocks = static_cast<unsigned>(partition.blocks());
    block.for_each_thread([&](unsigned t) {
      state[t] = Pass::wholes::none(parts);
      for (unsigned b = t; b < blocks; b += gradient_finish_threads) {
        state[t] = combine(state[t], partial.of_all[b]);
      }
    });
    combine_groups(block, state, block.shared().whole, 0, thread_groups{gradient_finish_threads},
                   combine);
    block.for_each_thread([&](unsigned t) {
      if (t == 0) Pass::wholes::finish(parts, state[t], partition.rows * partition.cols, 0);
    });
  }
};

// ---- The host's part of a call ----

template <class Pass>
gradient_partition plan_pass(matrix_shape const& shape, bool vectorized) {
  return plan_gradients(shape.rows, shape.cols, Pass::vector, Pass::vectors, vectorized,
                        Pass::has_totals, Pass::max_threads);
}
// The workspace that suffices for any alignment of the operands, behind its head.
template <class Pass>
std::size_t partial_bytes(matrix_shape const& shape) {
  static_cast<void>(elements_in(shape));
  std::size_t const single = partial_results<Pass>::bytes(plan_pass<Pass>(shape, false));
  if (shape.cols % static_cast<unsigned>(Pass::vector) != 0) return single;
  std::size_t const wide = partial_results<Pass>::bytes(plan_pass<Pass>(shape, true));
  return wide > single ? wide : single;
}

// Checks, plans, and runs the kernels, on a stream or on the calling thread.
// @param workspace  of `bytes`, or null where there is no reduction
template <class Where, class... A>
void run_gradients(Where const& execute, void* workspace, std::size_t bytes,
                   matrix_shape const& shape, A const&... a) {
  using pass = gradient_pass<A...>;
  constexpr int outputs = (0 + ... + goal_of<A>::outputs);
  static_assert(outputs > 0,
                "warpwright::ew::run_row_gradients: no output of the matrix's shape, as out(dx, "
                "rows * cols) = expression; reductions alone go to reduce_cols() and reduce()");
  constexpr int results = static_cast<int>(sizeof...(A)) - outputs;
  constexpr int arrays = (outputs + ... + goal_of<A>::expression::operands);
  static_assert(arrays <= 64,
                "warpwright::ew::run_row_gradients: more than 64 arrays in one pass; split it");

  c_array<operand, arrays> operands;
  c_array<int, outputs> counts;
  c_array<memory_range, results + 1> ranges = {};
  operand* next = operands;
  int output = 0, result = 0;
  auto const describe_output = [&](auto const& each) {
    using part = typename pass::template part_t<std::decay_t<decltype(each)>>;
    if constexpr (part::goal == pass_goal::output) {
      operand* const first = next++;
      *first = part::template describe_output<pass::vector>(each.data, each.size);
      each.expression.template describe<pass::vector>(next);
      counts[output++] = static_cast<int>(next - first);
    }
  };
  auto const describe_result = [&](auto const& each) {
    using part = typename pass::template part_t<std::decay_t<decltype(each)>>;
    if constexpr (part::goal != pass_goal::output) {
      operand* const first = next;
      each.expression.template describe<pass::vector>(next);
      counts[outputs - 1] += static_cast<int>(next - first);
      std::uint64_t const count = part::goal == pass_goal::whole ? 1 : shape.cols;
      ranges[result++] = {reinterpret_cast<std::uintptr_t>(each.data), count * sizeof(*each.data),
                          static_cast<unsigned>(alignof(decltype(*each.data)))};
    }
  };
  (describe_output(a), ...);
  (describe_result(a), ...);
  check_row_gradients(operands, counts, outputs, ranges, results, workspace, bytes, shape);
  pass_node_finder<typename pass::nodes_list> finder{};
  (traversal<decltype(a.expression)>::visit(a.expression, finder), ...);
  if (!finder.are_one) {
    warpwright::detail::throw_invalid_argument(
        "ew: two expressions of one type in once(), row_sum() or row_mean() are of other arrays or "
        "numbers; give each a number of its own, as in row_sum<1>(x)",
        shape.where);
  }

  auto const cols = static_cast<double>(shape.cols);
  auto const width = static_cast<float>(shape.cols);
  pass const whole{pass::make_nodes(finder.first),
                   {{pass::template part_t<A>::make(a)}...},
                   {{row_width<float>{width, 1 / width}}, {row_width<double>{cols, 1 / cols}}}};
  c_array<operand, pass::operands> of_kernel;
  whole.describe(of_kernel);
  bool const vectorized =
      shape.cols % static_cast<unsigned>(pass::vector) == 0 &&
      wide_operands(of_kernel, pass::operands, 0, pass::vector) == bits_of_operands(pass::operands);
  gradient_partition const p = plan_pass<pass>(shape, vectorized);
  auto const partial = partial_results<pass>::in(workspace, p);
  char const* const name = "warpwright::ew::run_row_gradients";
  auto const run = [&](auto streamed) {
    constexpr bool is_streamed = decltype(streamed)::value;
    if (p.vectorized) {
      execute(p.blocks(), p.block_threads(),
              gradient_kernel<pass, pass::vector, is_streamed>{{}, whole, p, partial}, name);
    } else if constexpr (pass::vector > 1) {
      execute(p.blocks(), p.block_threads(),
              gradient_kernel<pass, 1, is_streamed>{{}, whole, p, partial}, name);
    }
  };
  if (p.blocks() != 0) {
    if constexpr (pass::has_totals) {
      if (p.streamed) run(std::true_type{});
    }
    if (!p.streamed) run(std::false_type{});
  }
  if constexpr (pass::has_columns || pass::has_wholes) {
    using kernel = gradient_finish_kernel<pass>;
    std::uint64_t const blocks = kernel::column_blocks(p) + (pass::has_wholes ? 1 : 0);
    if (blocks != 0) {
      execute(blocks, gradient_finish_threads, kernel{{}, whole.parts, p, partial}, name);
    }
  }
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
