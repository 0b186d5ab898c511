// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One pass over the rows of a matrix: what threads do with a row, and how they meet, in the same
// order on a GPU and on the host.
#pragma once

#include <warpwright/kernel/detail/row_nodes.hpp>
#include <warpwright/kernel/detail/row_plan.hpp>
#include <warpwright/kernel/evaluate.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

inline constexpr unsigned most_row_warps = most_row_threads / row_warp_lanes;

// One output of the matrix's shape.
template <class T, class E>
struct row_output : fused_part<T, typename row_use<E>::on_kernel> {
  using use = row_use<E>;
};

// One output of a number a row.
template <class T, row_part Part>
struct row_note {
  bits_of<T>* data;

  template <class K, class R>
  WARPWRIGHT_HOST_DEVICE void write(K const& kind, row_facts<R> const& f, std::uint64_t row) const {
    data[row] = number<T>::encode(convert<typename number<T>::value>(kind.template fact<Part>(f)));
  }
};

// What a row_function stands for, of V neighbouring values.
template <class K, class R, int V, bool Prepared>
struct row_answers {
  K const& kind;
  row_facts<R> const& facts;
  R const (&x)[V];

  template <row_part Part>
  WARPWRIGHT_HOST_DEVICE R get(int j) const {
    if constexpr (is_statistic(Part)) {
      return kind.template fact<Part>(facts);
    } else if constexpr (Part == row_part::input) {
      static_assert(!Prepared, "the values are gone");
      return x[j];
    } else {
      return kind.result(Prepared ? x[j] : kind.prepared(x[j], facts.center), facts.scale);
    }
  }
};

// A function of rows as a kernel sees it. The arrays of E are the operands from First on, Keeps
// says that values are wanted beside results.
template <class K, class E, int First, bool Keeps, class Outputs, class Notes>
struct row_pass;

template <class K, class E, int First, bool Keeps, std::size_t... Index, class... Output,
          std::size_t... NoteIndex, class... Note>
struct row_pass<K, E, First, Keeps, pack_of<std::index_sequence<Index...>, Output...>,
                pack_of<std::index_sequence<NoteIndex...>, Note...>> {
  using real = row_value_t<E>;
  using meets = typename K::meets;
  using running = typename K::template running<real>;
  static constexpr int operands = (0 + ... + Output::operands);
  static constexpr int vector = vector_elements(largest(Output::widest_bytes...));
  static constexpr int vectors =
      vectors_of_row(vector, E::loaded_bytes, static_cast<int>(sizeof(real)));
  static_assert(operands <= 64,
                "warpwright::ew::run_rows: more than 64 arrays in one kernel; split the "
                "expressions");
  template <int V>
  using registers = pack<typename Output::template registers<V>...>;
  template <int V>
  using results = pack<typename Output::template results<V>...>;
  // Vectors whose other arrays are loaded before the first is finished: one where these repeat and
  // come from a cache, else as many as go into 32 registers.
  template <int N>
  static constexpr int batch = batch_of((0 + ... + Output::loaded_bytes) == 0
                                            ? row_bytes_in_flight
                                            : static_cast<int>(sizeof(registers<vector>)),
                                        N);
  // Vectors a thread and turn of a row that is read twice: with half as many as are kept, two
  // blocks or more share an SM, and nothing spilled.
  static constexpr int long_vectors = vectors > 1 ? vectors / 2 : 1;
  // With doubles, fewer threads an SM than the compiler would like: it spilled for more.
  static constexpr int least_blocks = sizeof(real) == 8 ? 1 : 0;
  // What a thread keeps of a row.
  struct kept {
    real x[vectors][vector];
    real edge[1];
  };

  K kind;
  E expression;
  pack_of<std::index_sequence<Index...>, Output...> outputs;
  pack_of<std::index_sequence<NoteIndex...>, Note...> notes;
  row_width<real> width;

  WARPWRIGHT_HOST_DEVICE static std::uint64_t place(row_span const& s, unsigned v) {
    return s.first + std::uint64_t{v} * vector;
  }
  // Where a vector of a deal that is all wide starts.
  WARPWRIGHT_HOST_DEVICE static matrix_place usual_place(row_span const& s, unsigned v) {
    return {place(s, v), s.row, s.head + v * vector};
  }
  WARPWRIGHT_HOST_DEVICE static std::uint64_t edge_place(row_span const& s, unsigned t) {
    return s.begin + (t < s.head ? t : s.vectors * vector + t);
  }

  // Loads what `node` reads of the vectors v, v + threads, ….
  template <int At, class Node, class Registers, int N>
  WARPWRIGHT_HOST_DEVICE static void load(Node const& node, Registers (&r)[N], row_deal const& deal,
                                          row_span const& s, unsigned v) {
    if (deal.all_wide) {  // the same for the whole grid, so that the loads follow each other
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < N; ++u) {
        unsigned const at_u = v + u * deal.threads;
        if (at_u < s.vectors)
          node.template load<vector, At>(r[u], usual_place(s, at_u), ~std::uint64_t{0});
      }
    } else {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < N; ++u) {
        unsigned const at_u = v + u * deal.threads;
        if (at_u < s.vectors) node.template load<vector, At>(r[u], place(s, at_u), deal.wide);
      }
    }
  }
  // The values of the vectors v, v + threads, …; all loads are issued before the first is used.
  template <int N>
  WARPWRIGHT_HOST_DEVICE void take(real (&x)[N][vector], row_deal const& deal, row_span const& s,
                                   unsigned v) const {
#if defined(__CUDA_ARCH__)
    typename E::template registers<vector> r[N];
#else
    typename E::template registers<vector> r[N] = {};  // g++ does not see what below is loaded
#endif
    load<First>(expression, r, deal, s, v);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < N; ++u) {
      unsigned const at_u = v + u * deal.threads;
      if (at_u >= s.vectors) continue;
      std::uint64_t const i = place(s, at_u);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < vector; ++j) {
        x[u][j] = convert<real>(
            expression.template value<void, vector>(r[u], j, i + static_cast<unsigned>(j)));
      }
    }
  }
  // The value of an element outside the vectors, for each of the first threads.
  WARPWRIGHT_HOST_DEVICE void take_edge(real (&x)[1], row_span const& s, unsigned t) const {
    if (t >= s.edge) return;
    std::uint64_t const i = edge_place(s, t);
    typename E::template registers<1> r;
    expression.template load<1, First>(r, i, ~std::uint64_t{0});
    x[0] = convert<real>(expression.template value<void, 1>(r, 0, i));
  }

  // The centre of what a thread keeps.
  WARPWRIGHT_HOST_DEVICE real met(kept const& k, row_deal const& deal, row_span const& s,
                                  unsigned t) const {
    real all = K::template none<real>();
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < vectors; ++u) {
      if (t + u * deal.threads < s.vectors) all = meets{}(all, folded(k.x[u], meets{}));
    }
    return t < s.edge ? meets{}(all, k.edge[0]) : all;
  }
  // The total of what a thread keeps.
  WARPWRIGHT_HOST_DEVICE real total(kept& k, row_deal const& deal, row_span const& s, unsigned t,
                                    real center) const {
    real all = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < vectors; ++u) {
      if (t + u * deal.threads < s.vectors) all = apart::plus(all, weigh(k.x[u], center));
    }
    return t < s.edge ? apart::plus(all, weigh(k.edge, center)) : all;
  }
  WARPWRIGHT_HOST_DEVICE row_facts<real> facts(real center, real total) const {
    return {center, total, kind.scale(total, width)};
  }
  WARPWRIGHT_HOST_DEVICE real center(real met) const { return kind.center(met, width); }

  // Computes and writes the outputs of the vectors v, v + threads, ….
  template <int N>
  WARPWRIGHT_HOST_DEVICE void give(real const (&x)[N][vector], row_facts<real> const& f,
                                   row_deal const& deal, row_span const& s, unsigned v) const {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned first = 0; first < N; first += batch<N>) {
      registers<vector> r[batch<N>];
      load<0>(beside{outputs}, r, deal, s, v + first * deal.threads);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < batch<N>; ++u) {
        unsigned const at_u = v + (first + u) * deal.threads;
        if (at_u < s.vectors) finish<vector>(r[u], x[first + u], f, place(s, at_u), deal.wide);
      }
    }
  }
  WARPWRIGHT_HOST_DEVICE void give_edge(real const (&x)[1], row_facts<real> const& f,
                                        row_span const& s, unsigned t) const {
    if (t >= s.edge) return;
    registers<1> r;
    beside{outputs}.template load<1, 0>(r, edge_place(s, t), ~std::uint64_t{0});
    finish<1>(r, x, f, edge_place(s, t), ~std::uint64_t{0});
  }
  WARPWRIGHT_HOST_DEVICE void note(row_facts<real> const& f, std::uint64_t row) const {
    static_cast<void>(row), (at<NoteIndex>(notes).write(kind, f, row), ...);
  }

  // ---- A row that is read twice ----

  // What a thread sees of it.
  WARPWRIGHT_HOST_DEVICE running seen(row_deal const& deal, row_span const& s, unsigned t) const {
    running all;
    if (t < s.edge) {
      real x[1];
      take_edge(x, s, t);
      all.absorb(x);
    }
    for (unsigned v = t; v < s.vectors; v += long_vectors * deal.threads) {
      real x[long_vectors][vector];
      take(x, deal, s, v);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < long_vectors; ++u) {
        if (v + u * deal.threads < s.vectors) all.absorb(x[u]);
      }
    }
    return all;
  }
  // Reads it again, the last first, for that is what caches still have.
  WARPWRIGHT_HOST_DEVICE void give_again(row_facts<real> const& f, row_deal const& deal,
                                         row_span const& s, unsigned t) const {
    unsigned const turn = long_vectors * deal.threads;
    for (unsigned turns = (s.vectors + turn - 1) / turn; turns != 0; --turns) {
      unsigned const v = (turns - 1) * turn + t;
      real x[long_vectors][vector];
      take(x, deal, s, v);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < long_vectors; ++u) {
        if (v + u * deal.threads < s.vectors) prepare(x[u], f.center);
      }
      give(x, f, deal, s, v);
    }
    real x[1];
    take_edge(x, s, t);
    if (t < s.edge) prepare(x, f.center);
    give_edge(x, f, s, t);
  }

  // ---- A row on the host ----

  template <class Meet>
  static real tree(real* all, unsigned count, Meet meet) {
    for (unsigned half = count / 2; half != 0; half /= 2) {
      for (unsigned k = 0; k < half; ++k) all[k] = meet(all[k], all[k + half]);
    }
    return all[0];
  }
  // What row_group does.
  template <class Meet>
  static real met_by_all(real* of_thread, unsigned threads, Meet meet, real none) {
    if (threads <= row_warp_lanes) return tree(of_thread, threads, meet);
    real of_warp[most_row_warps];
    for (unsigned w = 0; w < most_row_warps; ++w) {
      of_warp[w] = w * row_warp_lanes < threads
                       ? tree(of_thread + w * row_warp_lanes, row_warp_lanes, meet)
                       : none;
    }
    return tree(of_warp, most_row_warps, meet);
  }
  // deal.threads, as a compiler sees that they are few enough.
  static unsigned threads_of(row_deal const& deal) {
    return deal.threads < most_row_threads ? deal.threads : most_row_threads;
  }
  void run_row(row_deal const& deal, row_form form, std::uint64_t row) const {
    form == row_form::passes ? run_long_row(deal, row) : run_kept_row(deal, row);
  }
  void run_kept_row(row_deal const& deal, std::uint64_t row) const {
    row_span const s = deal.span<vector>(row);
    unsigned const threads = threads_of(deal);
    kept all[most_row_threads];
    real part[most_row_threads] = {};
    for (unsigned t = 0; t < threads; ++t) {
      take(all[t].x, deal, s, t);
      take_edge(all[t].edge, s, t);
    }
    real c = 0;
    if constexpr (K::is_centered) {
      for (unsigned t = 0; t < threads; ++t) part[t] = met(all[t], deal, s, t);
      c = center(met_by_all(part, threads, meets{}, K::template none<real>()));
    }
    for (unsigned t = 0; t < threads; ++t) part[t] = total(all[t], deal, s, t, c);
    row_facts<real> const f = facts(c, met_by_all(part, threads, added{}, real{0}));
    for (unsigned t = 0; t < threads; ++t) {
      give(all[t].x, f, deal, s, t);
      give_edge(all[t].edge, f, s, t);
    }
    note(f, row);
  }
  void run_long_row(row_deal const& deal, std::uint64_t row) const {
    row_span const s = deal.span<vector>(row);
    unsigned const threads = threads_of(deal);
    running all[most_row_threads];
    real part[most_row_threads] = {};
    for (unsigned t = 0; t < threads; ++t) all[t] = seen(deal, s, t);
    real c = 0;
    if constexpr (K::is_centered) {
      for (unsigned t = 0; t < threads; ++t) part[t] = all[t].met();
      c = center(met_by_all(part, threads, meets{}, K::template none<real>()));
    }
    for (unsigned t = 0; t < threads; ++t) part[t] = all[t].total(c);
    row_facts<real> const f = facts(c, met_by_all(part, threads, added{}, real{0}));
    for (unsigned t = 0; t < threads; ++t) give_again(f, deal, s, t);
    note(f, row);
  }

 private:
  // The number of operands before the index-th output.
  WARPWRIGHT_HOST_DEVICE static constexpr int arrays_before(std::size_t index) {
    int const each[] = {Output::operands...};
    int sum = 0;
    for (std::size_t k = 0; k < index; ++k) sum += each[k];
    return sum;
  }
  template <int Count>
  WARPWRIGHT_HOST_DEVICE void prepare(real (&x)[Count], real center) const {
    if constexpr (!Keeps) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < Count; ++j) x[j] = kind.prepared(x[j], center);
    }
  }
  template <int Count>
  WARPWRIGHT_HOST_DEVICE real weigh(real (&x)[Count], real center) const {
    prepare(x, center);
    if constexpr (!Keeps) {
      return kind.weight(x);
    } else {
      real y[Count];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < Count; ++j) y[j] = kind.prepared(x[j], center);
      return kind.weight(y);
    }
  }
  // What the outputs read beside the function, as a node.
  struct beside {
    pack_of<std::index_sequence<Index...>, Output...> const& outputs;
    template <int V, int, class Place>
    WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Place const& i, std::uint64_t wide) const {
      (at<Index>(outputs).template load<V, arrays_before(Index)>(at<Index>(r), i, wide), ...);
    }
  };
  template <int V>
  WARPWRIGHT_HOST_DEVICE void finish(registers<V>& r, real const (&x)[V], row_facts<real> const& f,
                                     std::uint64_t i, std::uint64_t wide) const {
    row_answers<K, real, V, !Keeps> const answers{kind, f, x};
    results<V> result = {};  // all of it is set, which g++ does not see
    (Output::use::template put<V>(at<Index>(r), answers), ...);
    (at<Index>(outputs).template compute<V>(at<Index>(result), at<Index>(r), i), ...);
    (at<Index>(outputs).template store<V, arrays_before(Index)>(at<Index>(result), i, wide), ...);
  }
};

#if defined(__CUDACC__)

// The threads of a row: of a warp, or of a block.
template <class R>
struct row_group {
  unsigned threads;
  R (*slots)[most_row_warps];
  unsigned turn = 0;

  // What all of them meet in, the same for each; twice at most, as there are two slots.
  template <class Meet>
  __device__ R all(R value, Meet meet, R none) {
    if (threads < row_warp_lanes) {
      for (unsigned apart_by = threads / 2; apart_by != 0; apart_by /= 2) {
        value = meet(value, __shfl_xor_sync(0xffffffffU, value, static_cast<int>(apart_by)));
      }
      return value;
    }
#pragma unroll
    for (unsigned apart_by = row_warp_lanes / 2; apart_by != 0; apart_by /= 2) {
      value = meet(value, __shfl_xor_sync(0xffffffffU, value, static_cast<int>(apart_by)));
    }
    if (threads == row_warp_lanes) return value;
    R* const slot = slots[turn];
    ++turn;
    unsigned const lane = threadIdx.x % row_warp_lanes;
    if (lane == 0) slot[threadIdx.x / row_warp_lanes] = value;
    __syncthreads();
    unsigned const other = lane % most_row_warps;
    value = other * row_warp_lanes < threads ? slot[other] : none;
#pragma unroll
    for (unsigned apart_by = most_row_warps / 2; apart_by != 0; apart_by /= 2) {
      value = meet(value, __shfl_xor_sync(0xffffffffU, value, static_cast<int>(apart_by)));
    }
    return value;
  }
};

// A row is kept in the registers of deal.threads threads of a block; rows that are none keep them
// company to the end. No loop over rows: it took the registers of a third of the threads.
template <class Pass>
__global__ void __launch_bounds__(most_row_threads, Pass::least_blocks)
    kept_rows_kernel(Pass const pass, row_deal const deal) {
  warpwright::detail::await_predecessors();
  using real = typename Pass::real;
  using kind = std::decay_t<decltype(pass.kind)>;
  __shared__ real slots[2][most_row_warps];
  row_group<real> group{deal.threads, slots};
  unsigned const place = threadIdx.x >> deal.row_shift;
  unsigned const t = threadIdx.x - (place << deal.row_shift);
  std::uint64_t const row = std::uint64_t{blockIdx.x} * deal.rows_a_block + place;
  row_span s;
  if (row < deal.rows) s = deal.span<Pass::vector>(row);
  typename Pass::kept k;
  pass.take(k.x, deal, s, t);
  pass.take_edge(k.edge, s, t);
  real center = 0;
  if constexpr (kind::is_centered) {
    center = pass.center(
        group.all(pass.met(k, deal, s, t), typename Pass::meets{}, kind::template none<real>()));
  }
  real const total = group.all(pass.total(k, deal, s, t, center), added{}, real{0});
  row_facts<real> const f = pass.facts(center, total);
  pass.give(k.x, f, deal, s, t);
  pass.give_edge(k.edge, f, s, t);
  if (t == 0 && row < deal.rows) pass.note(f, row);
}

template <class Pass>
struct long_rows_launch;

// A row is read twice by a block.
template <class Pass>
__global__ void __launch_bounds__(most_row_threads, Pass::least_blocks)
    long_rows_kernel(Pass const pass, row_deal const deal) {
  warpwright::detail::await_predecessors();
  using real = typename Pass::real;
  using kind = std::decay_t<decltype(pass.kind)>;
  __shared__ real slots[2][most_row_warps];
  row_group<real> group{deal.threads, slots};
  row_span const s = deal.span<Pass::vector>(blockIdx.x);
  typename Pass::running const seen = pass.seen(deal, s, threadIdx.x);
  real center = 0;
  if constexpr (kind::is_centered) {
    center =
        pass.center(group.all(seen.met(), typename Pass::meets{}, kind::template none<real>()));
  }
  real const total = group.all(seen.total(center), added{}, real{0});
  row_facts<real> const f = pass.facts(center, total);
  pass.give_again(f, deal, s, threadIdx.x);
  if (threadIdx.x == 0) pass.note(f, blockIdx.x);
}

#elif WARPWRIGHT_HOST_RUNTIME

template <class Pass>
struct function_of_rows_body {
  Pass pass;
  row_deal deal;
  row_form form;
  void operator()(std::uint64_t begin, std::uint64_t end) const {
    for (std::uint64_t row = begin; row < end; ++row) pass.run_row(deal, form, row);
  }
};

#endif

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
