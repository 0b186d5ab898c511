// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A row function and its outputs: what one thread does with its part of a row.
#pragma once

#include <warpwright/kernel/detail/elementwise/fused.hpp>
#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/plan/row_partition.hpp>
#include <warpwright/kernel/detail/rows/row_nodes.hpp>

#include <cstring>

WARPWRIGHT_BEGIN

namespace ew::detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// What one thread keeps in shared memory of a row that is too long for registers: no other thread
/// accesses it. Words of neighbouring threads are neighbours, so that there are no bank conflicts.
/// @tparam Loaded  what a vector of V elements is loaded as, R the type of a value
/// @tparam Copied  whether a vector is what one array has in 16 bytes, which copy() puts there
template <class Loaded, class R, int V, bool Copied>
struct row_cache {
  // Values are cached if they take no more bytes than what was loaded: then they are computed once.
  static constexpr bool of_values = !Copied && V * sizeof(R) <= sizeof(Loaded);
  using vector = std::conditional_t<of_values, row_values<R, V>, Loaded>;
  static constexpr unsigned bytes = static_cast<unsigned>(sizeof(vector));
  using word = std::conditional_t<
      bytes % 16 == 0, uint4,
      std::conditional_t<bytes % 8 == 0, uint2,
                         std::conditional_t<bytes % 4 == 0, std::uint32_t, unsigned char>>>;
  static constexpr unsigned words = bytes / static_cast<unsigned>(sizeof(word));

  word* memory;  // of the block
  unsigned threads, thread;

  /// Stores the thread's k-th vector.
  WARPWRIGHT_HOST_DEVICE void put(unsigned k, row_values<R, V> const& x, Loaded const& r) const {
    void const* const source = of_values ? static_cast<void const*>(&x) : &r;
    word w[words];
    std::memcpy(w, source, bytes);
    WARPWRIGHT_UNROLL
    for (unsigned j = 0; j < words; ++j) memory[(k * words + j) * threads + thread] = w[j];
  }
  WARPWRIGHT_HOST_DEVICE void get(unsigned k, vector& destination) const {
    word w[words];
    WARPWRIGHT_UNROLL
    for (unsigned j = 0; j < words; ++j) w[j] = memory[(k * words + j) * threads + thread];
    std::memcpy(static_cast<void*>(&destination), w, bytes);
  }
  /// Begins to copy 16 bytes to the k-th vector, there after wait(): more than registers hold.
  WARPWRIGHT_HOST_DEVICE void copy(unsigned k, void const* source) const {
    word* const to = memory + k * threads + thread;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    auto const address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address),
                 "l"(__cvta_generic_to_global(source))
                 : "memory");
#else
    std::memcpy(to, source, bytes);
#endif
  }
  /// Begins another group of copies.
  WARPWRIGHT_HOST_DEVICE static void commit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }
  /// Waits for all groups but the last `left`, or for some of these, too.
  WARPWRIGHT_HOST_DEVICE static void wait(unsigned left) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (left >= 12) {
      asm volatile("cp.async.wait_group 12;" ::: "memory");
    } else if (left >= 8) {
      asm volatile("cp.async.wait_group 8;" ::: "memory");
    } else if (left >= 4) {
      asm volatile("cp.async.wait_group 4;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
#else
    static_cast<void>(left);
#endif
  }
};

// An output of rows * cols elements; or of one a row, loaded by row_index, as of statistics.
template <class A>
struct row_output;
template <class T, class E>
struct row_output<assignment<T, E>> : fused_part<T, row_kernel_node_t<E>> {
  using base = fused_part<T, row_kernel_node_t<E>>;
  static constexpr bool is_matrix = !has_row_function<E> || !all_of_leaves<is_of_row, leaves_of<E>>;
  static constexpr bool is_plain = std::is_same<leaves_of<E>, leaf_list<E>>::value;
  static constexpr int operands = is_matrix ? base::operands : 0;
  static constexpr int statistic_operands = is_matrix ? 0 : E::operands;
  static constexpr int widest_bytes = is_matrix ? base::widest_bytes : 1;
  static constexpr int loaded_bytes = is_matrix ? base::loaded_bytes : 0;
  template <int V>
  using registers =
      std::conditional_t<is_matrix || V == 1, typename base::template registers<V>, no_registers>;
  template <int V>
  using results = std::conditional_t<is_matrix, typename base::template results<V>, no_registers>;
  // The operands of a matrix, in the order of their numbers, as leaves.
  struct output_leaf {
    static constexpr int operands = 1;
  };
  using operand_leaves = std::conditional_t<
      is_matrix, typename joined_leaves<leaf_list<output_leaf>, leaves_of<E>>::type, leaf_list<>>;

  static row_output make(assignment<T, E> const& a) {
    return {{a.data, traversal<E>::replace(a.expression, to_row_function_leaf{})}};
  }
  template <int V, int First, class Element>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Element const& i, std::uint64_t wide) const {
    if constexpr (is_matrix != std::is_same<Element, row_index>::value)
      base::template load<V, First>(r, i, wide);
  }
  template <int V, class Fill>
  WARPWRIGHT_HOST_DEVICE void compute(results<V>& result, registers<V>& r, Fill const& fill,
                                      std::uint64_t i) const {
    if constexpr (is_matrix) {
      traversal<row_kernel_node_t<E>>::visit(this->expression, fill, r);
      base::template compute<V>(result, r, i);
    }
  }
  template <int V, int First, class Element>
  WARPWRIGHT_HOST_DEVICE void store(results<V> const& result, Element const& i,
                                    std::uint64_t wide) const {
    if constexpr (is_matrix) base::template store<V, First>(result, i, wide);
  }
  template <class Fill>
  WARPWRIGHT_HOST_DEVICE void store_statistic(registers<1>& r, Fill const& fill,
                                              std::uint64_t row) const {
    if constexpr (!is_matrix) {
      traversal<row_kernel_node_t<E>>::visit(this->expression, fill, r);
      this->data[row] = element_traits<T>::encode(base::template computed<1>(r, 0, 0));
    }
  }
};

// Visits the leaves of an output: sets the registers of the row function's, for V neighbours.
template <class K, class R, int V, bool Transformed>
struct row_function_fill {
  K const& kind;
  row_statistics<R> const& statistics;
  c_array<R, V> const& x;

  template <class E, row_part Part, class Registers>
  WARPWRIGHT_HOST_DEVICE void operator()(row_function_leaf<K, E, Part> const&, Registers& r) const {
    constexpr bool is_kept = Transformed || Part == row_part::input;
    if constexpr (is_statistic(Part)) {
      r.of[0] = statistics.template value<Part>();
    } else {
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) {
        R const y = is_kept ? x[j] : kind.transform(x[j], statistics.center);
        r.of[j] = Part == row_part::input ? x[j] : kind.result(y, statistics.scale);
      }
    }
  }
  template <class Leaf, class Registers>
  WARPWRIGHT_HOST_DEVICE void operator()(Leaf const&, Registers&) const {}
};

/// The arguments of a kernel, and the work of a thread.
/// @tparam K, E        a row function and the expression that it is of
/// @tparam First       the number of the first operand of E
/// @tparam KeepsInput  values are needed beside results: they are not transformed where kept
/// @tparam Outputs     a pack of row_output
template <class K, class E, int First, bool KeepsInput, class Outputs>
struct row_pass;

template <class K, class E, int First, bool KeepsInput, std::size_t... Index, class... Output>
struct row_pass<K, E, First, KeepsInput, pack_of<std::index_sequence<Index...>, Output...>> {
  using kind_type = K;
  using real = row_value_t<E>;
  using partial = typename K::partial;
  using accumulator = typename K::accumulator;
  using offsets = operand_offsets<Output::operands...>;
  static constexpr int operands = (0 + ... + Output::operands);
  static constexpr int statistic_operands = (0 + ... + Output::statistic_operands);
  static_assert(operands + statistic_operands <= 64,
                "warpwright::ew::run_rows: more than 64 arrays in one kernel; split the "
                "expressions");
  static constexpr int vector = vector_elements(largest(Output::widest_bytes...));
  static constexpr int vectors =
      vectors_of_row(vector, E::loaded_bytes, static_cast<int>(sizeof(real)));
  using loaded = typename E::template registers<vector>;
  template <int V>
  using registers = pack<typename Output::template registers<V>...>;
  template <int V>
  using results = pack<typename Output::template results<V>...>;
  // Of the vectors that a thread keeps, those whose other arrays are loaded before the first is
  // finished: one where these repeat and come from a cache, else as many as go into 32 registers.
  static constexpr int output_bytes =
      (0 + ... +
       (Output::is_matrix ? static_cast<int>(sizeof(typename Output::template registers<vector>))
                          : 0));
  template <int N>
  static constexpr int batch = batch_of((0 + ... + Output::loaded_bytes) == 0 ? row_bytes_in_flight
                                                                              : output_bytes,
                                        N);
  // Vectors of a streamed row that a thread loads at a time, and of these those that are stored
  // together: so few that two blocks share an SM, and that nothing spilled.
  static constexpr int streamed_vectors =
      batch_of(largest(static_cast<int>(sizeof(loaded)),
                       (E::loaded_bytes + ... + Output::loaded_bytes) * vector),
               max_vectors_in_flight, streamed_row_bytes_in_flight);
  // Loads of one array that repeats, from the L2 cache; those of two took too many registers.
  static constexpr int bytes_of_values = vector * static_cast<int>(sizeof(real));
  static constexpr bool has_repeated = bytes_of_values <= 16 && (output_bytes > bytes_of_values) &&
                                       (output_bytes <= 2 * bytes_of_values);
  static constexpr int streamed_store =
      has_repeated ? batch_of(output_bytes, 4)
                   : batch_of(2 * bytes_of_values, vectors, row_register_bytes);
  static constexpr int streamed_batch =
      streamed_store < streamed_vectors ? streamed_store : streamed_vectors;
  // With doubles, fewer threads an SM than the compiler would choose: it spilled for more.
  static constexpr unsigned min_blocks = sizeof(real) == 8 ? 1 : 0;
  static constexpr unsigned streamed_threads =
      sizeof(real) == 8 ? max_row_threads : max_streamed_row_threads;
  // One array, 16 bytes at a time, is copied there without registers: 5 to 9 % faster on an H100.
  static constexpr bool is_copied = E::operands == 1 && vector * E::loaded_bytes == 16 &&
                                    sizeof(loaded) == 16 && any_of_leaves<is_input, leaves_of<E>>;
  using cache = row_cache<loaded, real, vector, is_copied>;
  // Of 16-bit floats, whose work is twice that of as many bytes of floats, clusters took longer.
  static constexpr std::uint64_t kept_bytes = (vector > 4 ? 4 : 2) * shared_bytes_for_two_blocks;

  // What a thread keeps of a row: vectors, and one element in no vector.
  using values = row_values<real, vector>;
  struct edge_value : row_values<real, 1> {
    registers<1> of_row;  // of the row's first thread
  };
  struct row_registers {
    c_array<values, vectors> x;
    edge_value edge;
  };
  using part = row_share<vector>;

  K kind;
  E expression;
  pack_of<std::index_sequence<Index...>, Output...> outputs;
  row_width<real> width;

  // The width of a row that has its own length, too.
  WARPWRIGHT_HOST_DEVICE row_width<real> width_of(row_partition const& p,
                                                  row_span const& row) const {
    if (!p.lengths.vary()) return width;
    real const length = static_cast<real>(row.vectors * std::uint64_t{vector} + row.edge);
    return {length, 1 / length};
  }
  WARPWRIGHT_HOST_DEVICE void store_statistics(row_statistics<real> const& s, edge_value& edge,
                                               std::uint64_t row) const {
    row_function_fill<K, real, 1, !KeepsInput> const fill{kind, s, edge.of};
    (at<Index>(outputs).store_statistic(at<Index>(edge.of_row), fill, row), ...);
  }

  // ---- A row in registers ----

  WARPWRIGHT_HOST_DEVICE void load_row(row_registers& kept, part const& p) const {
    vector_loads<vectors> r;
    load_input(r.of, p, p.t);
    load_edge(kept.edge, p);  // before the others' values are waited for
    load_of_row(kept.edge, p);
    p.template for_each_vector<vectors>(
        p.t, [&](unsigned u, unsigned v) { evaluate<vector>(kept.x[u], r.of[u], p.index(v)); });
  }
  WARPWRIGHT_HOST_DEVICE partial partial_center(row_registers const& kept, part const& p) const {
    typename K::combine_centers const combine{};
    partial all = K::none();
    p.template for_each_vector<vectors>(
        p.t, [&](unsigned u, unsigned) { all = combine(all, K::partial_of(kept.x[u].of)); });
    return p.has_edge() ? combine(all, K::partial_of(kept.edge.of)) : all;
  }
  // Transforms the values, unless the outputs need them.
  WARPWRIGHT_HOST_DEVICE real partial_total(row_registers& kept, part const& p, real center) const {
    real all = 0;
    p.template for_each_vector<vectors>(p.t, [&](unsigned u, unsigned) {
      all = no_contract::plus(all, weight(kept.x[u], center));
    });
    return p.has_edge() ? no_contract::plus(all, weight(kept.edge, center)) : all;
  }

  // ---- A row that is too long for registers ----

  // The first partition.cached vectors go into the cache, too.
  WARPWRIGHT_HOST_DEVICE accumulator accumulate_row(part const& p, cache const& c,
                                                    edge_value& edge) const {
    accumulator all;
    load_edge(edge, p);
    unsigned const iteration = streamed_vectors * p.partition.threads;
    unsigned k = 0;
    unsigned first = p.t;
    if constexpr (is_copied) {
      if (p.partition.copied) {
        accumulate_copied(all, p, c);
        k = p.partition.cached;
        first += k * p.partition.threads;
      }
    }
    for (; first < p.row.vectors; first += iteration, k += streamed_vectors) {
      vector_loads<streamed_vectors> r;
      load_input(r.of, p, first);
      p.template for_each_vector<streamed_vectors>(first, [&](unsigned u, unsigned v) {
        values x;
        evaluate<vector>(x, r.of[u], p.index(v));
        if (k + u < p.partition.cached) c.put(k + u, x, r.of[u]);
        all.accumulate(x.of);
      });
    }
    if (p.has_edge()) all.accumulate(edge.of);  // last: it was loaded first
    load_of_row(edge, p);
    return all;
  }
  // What is not cached is read again, the last vectors first, as the L2 cache still has those.
  WARPWRIGHT_HOST_DEVICE void store_streamed_row(row_statistics<real> const& s, part const& p,
                                                 cache const& c, edge_value& edge) const {
    row_span cached_row = p.row;
    unsigned const cached = p.partition.cached * p.partition.threads;
    if (cached < p.row.vectors) cached_row.vectors = cached;
    part const from_cache{p.partition, cached_row, p.t};

    unsigned const iteration = streamed_vectors * p.partition.threads;
    for (unsigned iterations = (p.row.vectors - cached_row.vectors + iteration - 1) / iteration;
         iterations != 0; --iterations) {
      unsigned const v = cached_row.vectors + (iterations - 1) * iteration + p.t;
      vector_loads<streamed_vectors> r;
      load_input(r.of, p, v);
      WARPWRIGHT_UNROLL
      for (unsigned first = 0; first < streamed_vectors; first += streamed_batch) {
        store_batch(s, p, v + first * p.partition.threads,
                    [&](values& x, unsigned u, std::uint64_t i) {
                      evaluate<vector>(x, r.of[first + u], i);
                    });
      }
    }
    if (p.has_edge()) transform(edge, s.center);
    store_edge(edge, s, p);
    unsigned k = 0;
    for (unsigned v = p.t; v < cached_row.vectors;
         v += streamed_batch * p.partition.threads, k += streamed_batch) {
      store_batch(s, from_cache, v,
                  [&](values& x, unsigned u, std::uint64_t i) { fetch(x, c, k + u, i); });
    }
  }

  template <int N>
  struct vector_loads {
    c_array<loaded, N> of WARPWRIGHT_ZERO_ON_HOST;
  };

  // The arrays of the row function's expression; all loads are issued before the first is used.
  template <int N>
  WARPWRIGHT_HOST_DEVICE void load_input(c_array<loaded, N>& r, part const& p,
                                         unsigned first) const {
    auto const load = [&](loaded& to, auto const& i, std::uint64_t wide) {
      expression.template load<vector, First>(to, i, wide);
    };
    p.template load_vectors<matrix_index>(r, first, load);
  }
  // The other arrays of the outputs.
  template <int V, class Element>
  WARPWRIGHT_HOST_DEVICE void load_others(registers<V>& r, Element const& i,
                                          std::uint64_t wide) const {
    (at<Index>(outputs).template load<V, offsets::of(Index)>(at<Index>(r), i, wide), ...);
  }
  // The values of V neighbours from element i on.
  template <int V>
  WARPWRIGHT_HOST_DEVICE void evaluate(row_values<real, V>& x,
                                       typename E::template registers<V> const& r,
                                       std::uint64_t i) const {
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) {
      x.of[j] =
          convert<real>(expression.template value<void, V>(r, j, i + static_cast<unsigned>(j)));
    }
  }
  // The values of a cached vector.
  WARPWRIGHT_HOST_DEVICE void fetch(values& x, cache const& c, unsigned k, std::uint64_t i) const {
    typename cache::vector kept;
    c.get(k, kept);
    if constexpr (cache::of_values) {
      x = kept;
    } else {
      evaluate<vector>(x, kept, i);
    }
  }
  // Copies what is cached, and accumulates it in the order in which it arrives.
  WARPWRIGHT_HOST_DEVICE void accumulate_copied(accumulator& all, part const& p,
                                                cache const& c) const {
    unsigned const cached = p.partition.cached;
    for (unsigned k = 0, v = p.t; k < cached; ++k, v += p.partition.threads) {
      auto const copy = [&](auto const& leaf) {
        if constexpr (is_input<std::decay_t<decltype(leaf)>>::value) {
          c.copy(k, leaf.data + p.index(v));
        }
      };
      if (v < p.row.vectors) traversal<E>::visit(expression, copy);
      c.commit();
    }
    unsigned v = p.t;
    for (unsigned k = 0; k < cached; k += streamed_vectors) {
      unsigned const end = k + streamed_vectors;
      c.wait(end < cached ? cached - end : 0);
      p.template for_each_vector<streamed_vectors>(v, [&](unsigned u, unsigned at_u) {
        if (k + u >= cached) return;
        values x;
        fetch(x, c, k + u, p.index(at_u));
        all.accumulate(x.of);
      });
      v += streamed_vectors * p.partition.threads;
    }
  }
  WARPWRIGHT_HOST_DEVICE void load_edge(edge_value& edge, part const& p) const {
    if (!p.has_edge()) return;
    typename E::template registers<1> r;
    expression.template load<1, First>(r, p.edge_index(), all_wide_bits);
    evaluate<1>(edge, r, p.edge_index());
  }

  WARPWRIGHT_HOST_DEVICE void load_of_row(edge_value& edge, part const& p) const {
    if (p.t != 0) return;
    std::uint64_t const length = p.row.vectors * std::uint64_t{vector} + p.row.edge;
    load_others<1>(edge.of_row, row_index{{p.row.begin, p.row.row, 0, false}, length},
                   all_wide_bits);
  }

  template <int V>
  WARPWRIGHT_HOST_DEVICE void transform(row_values<real, V>& x, real center) const {
    if constexpr (!KeepsInput) {
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) x.of[j] = kind.transform(x.of[j], center);
    }
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE real weight(row_values<real, V>& x, real center) const {
    row_values<real, V> y;
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) y.of[j] = kind.transform(x.of[j], center);
    if constexpr (!KeepsInput) x = y;
    return kind.weight(y.of);
  }

  // Computes and stores the outputs of the vectors v, v + threads, ….
  template <int N, int Batch = batch<N>>
  WARPWRIGHT_HOST_DEVICE void store_vectors(c_array<values, N> const& x,
                                            row_statistics<real> const& s, part const& p,
                                            unsigned v) const {
    WARPWRIGHT_UNROLL
    for (unsigned k = 0; k < N; k += Batch) {
      unsigned const first = v + k * p.partition.threads;
      c_array<registers<vector>, Batch> r WARPWRIGHT_ZERO_ON_HOST;
      auto const load = [&](auto& to, auto const& i, std::uint64_t wide) {
        load_others<vector>(to, i, wide);
      };
      p.template load_vectors<matrix_index>(r, first, load);
      p.template for_each_vector<Batch>(first, [&](unsigned u, unsigned at_u) {
        store<vector>(r[u], x[k + u], s, p.index(at_u), p.partition.wide);
      });
    }
  }
  WARPWRIGHT_HOST_DEVICE void store_edge(edge_value const& edge, row_statistics<real> const& s,
                                         part const& p) const {
    if (!p.has_edge()) return;
    registers<1> r;
    load_others<1>(r, p.edge_index(), all_wide_bits);
    store<1>(r, edge, s, p.edge_index(), all_wide_bits);
  }
  // Stores streamed_batch vectors, of which fetch(x, u, index) sets the values of the u-th.
  template <class Fetch>
  WARPWRIGHT_HOST_DEVICE void store_batch(row_statistics<real> const& s, part const& p,
                                          unsigned first, Fetch const& fetch) const {
    c_array<values, streamed_batch> x;
    p.template for_each_vector<streamed_batch>(first, [&](unsigned u, unsigned v) {
      fetch(x[u], u, p.index(v));
      transform(x[u], s.center);
    });
    store_vectors<streamed_batch, has_repeated ? streamed_batch : batch<streamed_batch>>(x, s, p,
                                                                                         first);
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE void store(registers<V>& r, row_values<real, V> const& x,
                                    row_statistics<real> const& s, std::uint64_t i,
                                    std::uint64_t wide) const {
    row_function_fill<K, real, V, !KeepsInput> const fill{kind, s, x.of};
    results<V> result = {};  // all of it is set, which g++ cannot prove
    (at<Index>(outputs).template compute<V>(at<Index>(result), at<Index>(r), fill, i), ...);
    (at<Index>(outputs).template store<V, offsets::of(Index)>(at<Index>(result), i, wide), ...);
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
