// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One pass over expressions that makes the states of reductions, and the kernel of all elements.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/detail/expression/traversal.hpp>
#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/plan/matrix_shape.hpp>
#include <warpwright/kernel/detail/plan/row_partition.hpp>
#include <warpwright/kernel/detail/reduce/block_reduce.hpp>
#include <warpwright/kernel/detail/reduce/epilogue.hpp>
#include <warpwright/kernel/detail/reduce/workspace.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

using warpwright::detail::on_calling_thread;
using warpwright::detail::on_stream;

inline constexpr unsigned reduce_threads = 256;
// The same on every device, so that the order of a sum depends on n alone: four blocks on each of
// the 132 SMs of an H100. With 64 bytes of loads a thread they keep 64 KiB in flight on each;
// smaller GPUs hold more blocks an SM or run them one after the other.
inline constexpr unsigned reduce_blocks_per_sm = 4;
inline constexpr unsigned max_reduce_blocks = reduce_blocks_per_sm * 132;
inline constexpr int reduce_bytes_per_thread = 64;
// What a thread's states may take: of a pairwise tree, for registers; of an iteration, for code.
inline constexpr std::size_t pairwise_bytes_per_thread = 192;
inline constexpr std::size_t max_state_bytes_per_iteration = 1024;
// Of several reductions of rows: with more, a thread took up to 252 registers.
inline constexpr std::size_t max_row_state_bytes_per_iteration = 256;

constexpr unsigned reduction_blocks(std::uint64_t vectors) {
  std::uint64_t const blocks = quotient_up(vectors, reduce_threads);
  if (blocks > max_reduce_blocks) return max_reduce_blocks;
  return blocks == 0 ? 1 : static_cast<unsigned>(blocks);
}

// What `to(pointer) = reduction` makes.
template <class T, class K, class E>
struct reduction_assignment {
  bits_of<T>* data;
  K kind;
  E expression;
};

// Whether a result of type R converts to an element of type T.
template <class T, class R>
constexpr bool can_store() {
  if constexpr (is_number<R>) {
    return is_number<T>;
  } else if constexpr (is_located<R>) {
    return is_located<T> || (std::is_integral<T>::value && !std::is_same<T, bool>::value);
  } else {
    return std::is_same<typename element_traits<T>::value, R>::value;
  }
}
template <class T, class R>
WARPWRIGHT_HOST_DEVICE bits_of<T> converted_result(R const& result) {
  if constexpr (is_number<R>) {
    return element_traits<T>::encode(prepare_encode<T>(result));
  } else if constexpr (is_located<R>) {
    if constexpr (is_located<T>) {
      return {convert<decltype(T::value)>(result.value), result.index};
    } else {
      return static_cast<T>(result.index);
    }
  } else {
    return element_traits<T>::encode(result);
  }
}

// Vectors of a thread and iteration, a power of two: enough loads, not too many states' code.
constexpr int vectors_for_reduction(int vector, int loaded_bytes, std::size_t state_bytes,
                                    std::size_t most = max_state_bytes_per_iteration) {
  int vectors = 4;
  while (vectors > 1 && (vectors * vector * loaded_bytes > reduce_bytes_per_thread ||
                         static_cast<std::size_t>(vectors * vector) * state_bytes > most)) {
    vectors /= 2;
  }
  return loaded_bytes == 0 ? 1 : vectors;
}
// Elements whose states a thread combines pairwise before it adds them to its own: a power of two.
// Each level of the tree takes a state in registers.
constexpr int elements_pairwise(std::size_t state_bytes) {
  int elements = 1;
  for (std::size_t levels = 2; levels * state_bytes <= pairwise_bytes_per_thread && elements < 64;
       ++levels) {
    elements *= 2;
  }
  return elements;
}

template <bool SameInput, class Indices, class... Goal>
struct reduction_pass_of;

// Several reductions in one pass over their arrays. SameInput: all in() are one array, at `shared`.
template <bool SameInput, std::size_t... Index, class... T, class... K, class... E>
struct reduction_pass_of<SameInput, std::index_sequence<Index...>,
                         reduction_assignment<T, K, E>...> {
  using indices = std::index_sequence<Index...>;
  using whole = call<unconverted, gather_values, E...>;
  using values = typename whole::template value_type<void>;
  template <class X>
  using value = typename X::template value_type<void>;
  using states = pack<typename K::template state<value<E>>...>;

  static constexpr int operands = whole::operands + 1;
  static constexpr int vector =
      vector_elements((holds_view<whole> ? 2 : 1) * whole::widest_bytes);  // one access a vector
  static constexpr int loaded_bytes =
      SameInput ? whole::loaded_bytes / largest(inputs_of<whole>::count) : whole::loaded_bytes;
  static constexpr int vectors = vectors_for_reduction(vector, loaded_bytes, sizeof(states));
  static constexpr bool several = sizeof...(K) > 1;
  static constexpr int row_vectors =
      several ? vectors_for_reduction(vector, loaded_bytes, sizeof(states),
                                      max_row_state_bytes_per_iteration)
              : vectors;
  static constexpr int chunk = elements_pairwise(sizeof(states));
  static_assert(operands <= 64,
                "warpwright::ew::reduce: more than 63 arrays in one pass; split it");
  static_assert(alignof(states) <= 16,
                "warpwright::ew::reduce: a state's alignment is limited to 16 bytes");
  static_assert(
      sizeof(states) <= 1024,
      "warpwright::ew::reduce: what the reductions of one pass carry takes more than 1024 "
      "bytes, which a block's shared memory and a thread's registers are too few for; "
      "split the pass, or let fold() carry less");

  whole expression;
  pack<K...> kinds;
  pack<bits_of<T>*...> results;
  std::uint64_t n;
  void const* shared;

  // Lists the operands behind one for the output, and refuses what does not fit together.
  static void describe(whole const& expression, std::uint64_t n, c_array<operand, operands>& all,
                       source_location where) {
    all[0] = array_operand{access_pattern::no_output, 0, 1, 1, 0, n};
    operand* next = all + 1;
    expression.template describe<vector>(next);
    check_operands(all, operands, where);
  }

  using registers = typename whole::template registers<vector>;

  WARPWRIGHT_HOST_DEVICE states identities() const {
    return {{at<Index>(kinds).template identity<value<E>>()}...};
  }
  WARPWRIGHT_HOST_DEVICE states initial_states(values const& v, std::uint64_t i) const {
    return {{at<Index>(kinds).template lift<value<E>>(at<Index>(v), i)}...};
  }
  WARPWRIGHT_HOST_DEVICE states append_states(states const& a, states const& b) const {
    return {{at<Index>(kinds).template append<value<E>>(at<Index>(a), at<Index>(b))}...};
  }
  WARPWRIGHT_HOST_DEVICE states combine_states(states const& a, states const& b) const {
    return {{at<Index>(kinds).template combine<value<E>>(at<Index>(a), at<Index>(b))}...};
  }
  // Writes the results of `count` elements as element `k` of each result.
  WARPWRIGHT_HOST_DEVICE void finish(states const& s, std::uint64_t count, std::uint64_t k) const {
    pack<bits_of<T>...> const all{{converted_result<T>(
        at<Index>(kinds).template finish_at<value<E>>(at<Index>(s), count, k))}...};
    ((at<Index>(results)[k] = at<Index>(all)), ...);  // last: an epilogue may read them
  }

  WARPWRIGHT_HOST_DEVICE void load(registers& r, std::uint64_t i,
                                   vector_partition const& partition) const {
    // Where all in() are one array, a constant mask lets the compiler merge their loads.
    constexpr std::uint64_t inputs = inputs_of<whole>::bits << 1U;
    if (partition.all_wide) {
      expression.template load<vector, 1>(r, i, ~std::uint64_t{0});
    } else if (SameInput && (partition.wide & inputs) == inputs) {
      expression.template load<vector, 1>(r, i, inputs);
    } else if (SameInput) {
      expression.template load<vector, 1>(r, i, 0);
    } else {
      expression.template load<vector, 1>(r, i, partition.wide);
    }
  }
  // The states lifted(k) of the elements k in [First, First + Count), combined pairwise.
  template <int First, int Count, class Lifted>
  WARPWRIGHT_HOST_DEVICE states pairwise(Lifted const& lifted) const {
    if constexpr (Count == 1) {
      return lifted(std::integral_constant<int, First>{});
    } else {
      constexpr int half = Count / 2;
      return append_states(pairwise<First, half>(lifted),
                           pairwise<First + half, Count - half>(lifted));
    }
  }
  // Adds the `Count` elements of neighbouring registers, chunk by chunk.
  template <int Count>
  WARPWRIGHT_HOST_DEVICE void add(states& sum, registers const* r, std::uint64_t i,
                                  std::uint64_t stride, std::uint64_t begin) const {
    constexpr int size = chunk < Count ? chunk : Count;
    add_chunks<size>(sum, r, i, stride, begin,
                     std::make_index_sequence<static_cast<std::size_t>(Count / size)>{});
  }
  template <int Size, std::size_t... Chunk>
  WARPWRIGHT_HOST_DEVICE void add_chunks(states& sum, registers const* r, std::uint64_t i,
                                         std::uint64_t stride, std::uint64_t begin,
                                         std::index_sequence<Chunk...>) const {
    auto const lifted = [&](auto number) {
      constexpr int k = decltype(number)::value;
      std::uint64_t const index = i + k / vector * stride + k % vector;
      return initial_states(
          expression.template value<void, vector>(r[k / vector], k % vector, index), index - begin);
    };
    ((sum = combine_states(sum, pairwise<static_cast<int>(Chunk) * Size, Size>(lifted))), ...);
  }

  // The states with those of element i, which is in no vector.
  WARPWRIGHT_HOST_DEVICE states with_element(states const& sum, std::uint64_t i,
                                             std::uint64_t begin) const {
    typename whole::template registers<1> r;
    expression.template load<1, 1>(r, i, ~std::uint64_t{0});
    return combine_states(sum,
                          initial_states(expression.template value<void, 1>(r, 0, i), i - begin));
  }

  // The states of what thread t of `threads` neighbouring ones, in block `block`, takes of the
  // elements from `begin` on. All loads of an iteration are issued before the first is used. Full
  // iterations of the grid give each block neighbouring vectors (from 2^26 floats on some 1 %
  // faster than vectors a grid apart, H100); the rest is divided evenly.
  WARPWRIGHT_HOST_DEVICE states partial(vector_partition const& partition, std::uint64_t begin,
                                        unsigned block, unsigned blocks, unsigned t,
                                        unsigned threads) const {
    states sum = identities();
    if (block == blocks - 1 && t < partition.edge) {
      std::uint64_t const i = begin + (t < partition.head ? t : partition.vectors * vector + t);
      sum = with_element(sum, i, begin);
    }
    std::uint64_t const grid = std::uint64_t{blocks} * threads;
    std::uint64_t done = 0;
    for (; done + vectors * grid <= partition.vectors; done += vectors * grid) {
      std::uint64_t const v = done + std::uint64_t{block} * vectors * threads + t;
      std::uint64_t const i = begin + partition.head + v * vector;
      std::uint64_t const stride = std::uint64_t{threads} * vector;
      c_array<registers, vectors> r;
      WARPWRIGHT_UNROLL
      for (unsigned u = 0; u < vectors; ++u) load(r[u], i + u * stride, partition);
      add<vectors * vector>(sum, r, i, stride, begin);
    }
    std::uint64_t const v = done + std::uint64_t{block} * threads + t;
    c_array<registers, vectors> r WARPWRIGHT_ZERO_ON_HOST;
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < vectors; ++u) {
      if (v + u * grid < partition.vectors) {
        load(r[u], begin + partition.head + (v + u * grid) * vector, partition);
      }
    }
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < vectors; ++u) {
      if (v + u * grid < partition.vectors) {
        std::uint64_t const i = begin + partition.head + (v + u * grid) * vector;
        add<vector>(sum, r + u, i, 0, begin);
      }
    }
    return sum;
  }

  // The states of a thread's part of a row. All loads of an iteration precede the first use.
  WARPWRIGHT_HOST_DEVICE states partial_of_row(row_share<vector> const& p) const {
    states sum = identities();
    std::uint64_t const begin = p.row.begin;
    if (p.has_edge()) sum = with_element(sum, p.edge_index(), begin);
    unsigned const threads = p.partition.threads;
    for (unsigned first = p.t; first < p.row.vectors; first += row_vectors * threads) {
      c_array<registers, row_vectors> r WARPWRIGHT_ZERO_ON_HOST;
      p.template load_vectors<read_once_index>(
          r, first, [&](registers& to, auto const& i, std::uint64_t wide) {
            expression.template load<vector, 1>(to, i, wide);
          });
      if (first + (row_vectors - 1) * threads < p.row.vectors) {
        add<row_vectors * vector>(sum, r, p.index(first), std::uint64_t{threads} * vector, begin);
      } else {
        WARPWRIGHT_UNROLL
        for (unsigned u = 0; u < row_vectors; ++u) {
          unsigned const v = first + u * threads;
          if (v < p.row.vectors) add<vector>(sum, r + u, p.index(v), 0, begin);
        }
      }
    }
    return sum;
  }

  // A copy in which all in() have one pointer, so that the compiler merges their loads.
  WARPWRIGHT_HOST_DEVICE reduction_pass_of with_shared_input() const {
    reduction_pass_of copy = *this;
    if constexpr (SameInput) {
      set_input_address const set{shared};
      traversal<whole>::visit(copy.expression, set);
    }
    return copy;
  }
};
template <bool SameInput, class... Goal>
using reduction_pass = reduction_pass_of<SameInput, std::index_sequence_for<Goal...>, Goal...>;

// The result of a reduction in the reduction's own type.
template <class R>
using result_value = typename decltype(R::kind)::template result<value_t<decltype(R::expression)>>;
template <class R>
using result_assignment =
    reduction_assignment<result_value<R>, decltype(R::kind), decltype(R::expression)>;

// The workspace: tickets, the states of blocks, and results that are copied to the host.
template <class... R>
struct workspace_layout {
  using states = typename reduction_pass<false, result_assignment<R>...>::states;
  using results = pack<result_value<R>...>;
  static_assert(alignof(results) <= 16,
                "warpwright::ew::reduce: a result's alignment is limited to 16 bytes");
  static constexpr std::size_t states_bytes = round_up_to_16(max_reduce_blocks * sizeof(states));
  static constexpr std::size_t results_at = workspace_head_bytes + states_bytes;
  static constexpr std::size_t bytes = results_at + round_up_to_16(sizeof(results));
};

template <class T, class K, class E>
memory_range range_of(reduction_assignment<T, K, E> const& r, std::uint64_t count) {
  return {reinterpret_cast<std::uintptr_t>(r.data), count * sizeof(bits_of<T>),
          static_cast<unsigned>(alignof(bits_of<T>))};
}

// Refuses what epilogues read and does not fit to `length` results.
template <class... R>
void check_epilogues(std::uint64_t length, source_location where, R const&... r) {
  constexpr int count = (0 + ... + decltype(r.kind)::operands);
  if constexpr (count != 0) {
    memory_range const results[] = {range_of(r, length)...};
    c_array<operand, count + 1> all;
    operand* next = all + 1;
    (r.kind.describe(next), ...);
    check_operands_of_results(all, count + 1, results, sizeof...(r), length, where);
  }
}

template <class... R>
auto gather_expressions(R const&... r) {
  return make_call<unconverted>(gather_values{}, r.expression...);
}

// Calls use(pass, operands) with the pass that fits the arrays.
template <class Use, class... R>
void with_reduction_pass(elements const& n, Use const& use, R const&... r) {
  using pass = reduction_pass<false, R...>;
  operand all[pass::operands];
  pass::describe(gather_expressions(r...), n.count, all, n.where);
  if constexpr (may_share_input<typename pass::whole>) {
    void const* const shared = n.count == 0 ? nullptr : shared_input_address(all, pass::operands);
    if (shared != nullptr) {
      using same_input = reduction_pass<true, R...>;
      return use(
          same_input{gather_expressions(r...), {{r.kind}...}, {{r.data}...}, n.count, shared}, all);
    }
  }
  use(pass{gather_expressions(r...), {{r.kind}...}, {{r.data}...}, n.count, nullptr}, all);
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// With many states, fewer threads an SM than the compiler would choose: it spilled for more.
template <class Pass>
inline constexpr unsigned min_reduce_blocks = sizeof(typename Pass::states) > 64 ? 1 : 0;

// Every block stores its states in `of_blocks`; the last one combines them in their order.
template <class Pass>
struct reduce_kernel : warpwright::detail::kernel_base<reduce_threads, min_reduce_blocks<Pass>> {
  using states = typename Pass::states;
  using shared = reduction_scratch<states, reduce_threads>;

  Pass parameters;
  vector_partition partition;
  unsigned* ticket;
  states* of_blocks;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    Pass const pass = parameters.with_shared_input();
    auto const combine = [&](states const& a, states const& b) {
      return pass.combine_states(a, b);
    };
    auto state = block.template per_thread<states>();
    block.for_each_thread([&](unsigned t) {
      state[t] = pass.partial(partition, 0, block.index(), block.count(), t, reduce_threads);
    });
    block.trigger_dependents();
    combine_groups(block, state, block.shared(), 0, thread_groups{reduce_threads}, combine);
    if (block.count() > 1) {
      bool const last = is_last_block(block, ticket, block.count(), [&](unsigned t) {
        if (t == 0) of_blocks[block.index()] = state[t];
        return t == 0;
      });
      if (!last) return;
      block.for_each_thread([&](unsigned t) {
        state[t] = pass.identities();
        for (unsigned b = t; b < block.count(); b += reduce_threads) {
          state[t] = pass.combine_states(state[t], of_blocks[b]);
        }
      });
      combine_groups(block, state, block.shared(), 1, thread_groups{reduce_threads}, combine);
    }
    block.for_each_thread([&](unsigned t) {
      if (t == 0) pass.finish(state[t], pass.n, 0);
    });
  }
};

// Reduces all elements, on a stream or on the calling thread.
template <class Where, class... R>
void reduce_all(Where const& execute, void* workspace, elements const& n, R const&... r) {
  check_epilogues(1, n.where, r...);
  with_reduction_pass(
      n,
      [&](auto const& pass, operand const* operands) {
        using pass_type = std::decay_t<decltype(pass)>;
        vector_partition partition;
        if (n.count != 0) {
          partition = make_plan(operands, pass_type::operands, n.count, pass_type::vector,
                                pass_type::vectors)
                          .partition;
        }
        execute(reduction_blocks(partition.vectors), reduce_threads,
                reduce_kernel<pass_type>{{},
                                         pass,
                                         partition,
                                         static_cast<unsigned*>(workspace),
                                         states_in<typename pass_type::states>(workspace)},
                "warpwright::ew::reduce");
      },
      r...);
}

// Reduces into the workspace at `results` and copies the results to the host.
template <class Results, std::size_t... Index, class... R>
auto fetch_reduction(on_stream const& execute, void* workspace, elements const& n, Results* results,
                     std::index_sequence<Index...>, R const&... r) {
  reduce_all(execute, workspace, n,
             result_assignment<R>{reinterpret_cast<bits_of<result_value<R>>*>(&at<Index>(*results)),
                                  r.kind, r.expression}...);
  reduced<result_value<R>...> on_host;
  check(warpwright::detail::copy_async(&on_host.all, results, sizeof(Results),
                                       cudaMemcpyDeviceToHost, execute.stream.get()),
        "cudaMemcpyAsync", n.where);
  execute.stream.synchronize(n.where);
  if constexpr (sizeof...(R) == 1) {
    return on_host.template get<0>();
  } else {
    return on_host;
  }
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
