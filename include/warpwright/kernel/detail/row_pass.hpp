// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One pass over the rows of a matrix: what threads do with a row, and how they meet, in the same
// order on a GPU and on the host.
#pragma once

#include <warpwright/kernel/detail/row_hold.hpp>
#include <warpwright/kernel/detail/row_plan.hpp>
#include <warpwright/kernel/evaluate.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

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
    data[row] = number<T>::encode(encodable<T>(kind.template fact<Part>(f)));
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
  using loaded = typename E::template registers<vector_elements(largest(Output::widest_bytes...))>;
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
  // Vectors a thread and turn of a long row, and of these for which results are given together: so
  // few that two blocks share an SM, and that nothing spilled.
  static constexpr int long_vectors =
      batch_of(largest(static_cast<int>(sizeof(loaded)),
                       (E::loaded_bytes + ... + Output::loaded_bytes) * vector),
               most_vectors_in_flight, long_row_bytes_in_flight);
  static constexpr int half_of_kept = vectors > 1 ? vectors / 2 : 1;
  static constexpr int long_batch = half_of_kept < long_vectors ? half_of_kept : long_vectors;
  // With doubles, fewer threads an SM than the compiler would like: it spilled for more.
  static constexpr int least_blocks = sizeof(real) == 8 ? 1 : 0;
  static constexpr unsigned long_threads =
      sizeof(real) == 8 ? most_row_threads : most_long_row_threads;
  // What a thread keeps of a row.
  struct kept {
    real x[vectors][vector];
    real edge[1];
  };
  using hold = row_hold<loaded, real, vector>;

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
  // The values of a vector from element i on.
  WARPWRIGHT_HOST_DEVICE void read(real (&x)[vector], loaded const& r, std::uint64_t i) const {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int j = 0; j < vector; ++j) {
      x[j] = convert<real>(
          expression.template value<void, vector>(r, j, i + static_cast<unsigned>(j)));
    }
  }
  // The values of the vectors v, v + threads, …; all loads are issued before the first is used.
  template <int N>
  WARPWRIGHT_HOST_DEVICE void take(real (&x)[N][vector], row_deal const& deal, row_span const& s,
                                   unsigned v) const {
#if defined(__CUDA_ARCH__)
    loaded r[N];
#else
    loaded r[N] = {};  // g++ does not see what below is loaded
#endif
    load<First>(expression, r, deal, s, v);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < N; ++u) {
      unsigned const at_u = v + u * deal.threads;
      if (at_u < s.vectors) read(x[u], r[u], place(s, at_u));
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

  // ---- A row longer than what is kept ----

  // What a thread sees of it; the first deal.held vectors go into `hold`, too.
  WARPWRIGHT_HOST_DEVICE running seen(row_deal const& deal, row_span const& s, unsigned t,
                                      hold const& h, real (&edge)[1]) const {
    running all;
    take_edge(edge, s, t);
    unsigned k = 0;
    for (unsigned v = t; v < s.vectors; v += long_vectors * deal.threads) {
#if defined(__CUDA_ARCH__)
      loaded r[long_vectors];
#else
      loaded r[long_vectors] = {};
#endif
      load<First>(expression, r, deal, s, v);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < long_vectors; ++u, ++k) {
        unsigned const at_u = v + u * deal.threads;
        if (at_u >= s.vectors) continue;
        real x[vector];
        read(x, r[u], place(s, at_u));
        if (k < deal.held) keep(h, k, x, r[u]);
        all.absorb(x);
      }
    }
    if (t < s.edge) all.absorb(edge);  // last: it was loaded with the first
    return all;
  }
  // What is not held is read again, the last first, for that is what caches still have.
  WARPWRIGHT_HOST_DEVICE void give_again(row_facts<real> const& f, row_deal const& deal,
                                         row_span const& s, unsigned t, hold const& h,
                                         real (&edge)[1]) const {
    row_span near = s;
    if (deal.held * deal.threads < s.vectors) near.vectors = deal.held * deal.threads;
    unsigned const turn = long_vectors * deal.threads;
    for (unsigned turns = (s.vectors - near.vectors + turn - 1) / turn; turns != 0; --turns) {
      unsigned const v = near.vectors + (turns - 1) * turn + t;
#if defined(__CUDA_ARCH__)
      loaded r[long_vectors];
#else
      loaded r[long_vectors] = {};
#endif
      load<First>(expression, r, deal, s, v);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned first = 0; first < long_vectors; first += long_batch) {
        give_batch(f, deal, s, v + first * deal.threads,
                   [&](real(&x)[vector], unsigned u, unsigned at_u) {
                     read(x, r[first + u], place(s, at_u));
                   });
      }
    }
    if (t < s.edge) prepare(edge, f.center);
    give_edge(edge, f, s, t);
    unsigned k = 0;
    for (unsigned v = t; v < near.vectors; v += long_batch * deal.threads, k += long_batch) {
      give_batch(f, deal, near, v, [&](real(&x)[vector], unsigned u, unsigned at_u) {
        held(x, h, k + u, place(s, at_u));
      });
    }
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
  template <unsigned Most, class Meet>
  static real met_by_all(real* of_thread, unsigned threads, Meet meet, real none) {
    if (threads <= row_warp_lanes) return tree(of_thread, threads, meet);
    constexpr unsigned warps = Most / row_warp_lanes;
    real of_warp[warps];
    for (unsigned w = 0; w < warps; ++w) {
      of_warp[w] = w * row_warp_lanes < threads
                       ? tree(of_thread + w * row_warp_lanes, row_warp_lanes, meet)
                       : none;
    }
    return tree(of_warp, warps, meet);
  }
  // deal.threads, as a compiler sees that they are few enough.
  template <unsigned Most>
  static unsigned threads_of(row_deal const& deal) {
    return deal.threads < Most ? deal.threads : Most;
  }
  static row_deal deal_for_host(row_plan const& plan) {
    return holding(plan, vector, hold::bytes, host_row_memory_bytes);
  }
  void run_row(row_deal const& deal, row_form form, std::uint64_t row) const {
    form == row_form::passes ? run_long_row(deal, row) : run_kept_row(deal, row);
  }
  void run_kept_row(row_deal const& deal, std::uint64_t row) const {
    row_span const s = deal.span<vector>(row);
    unsigned const threads = threads_of<most_row_threads>(deal);
    kept all[most_row_threads];
    real part[most_row_threads] = {};
    for (unsigned t = 0; t < threads; ++t) {
      take(all[t].x, deal, s, t);
      take_edge(all[t].edge, s, t);
    }
    real c = 0;
    if constexpr (K::is_centered) {
      for (unsigned t = 0; t < threads; ++t) part[t] = met(all[t], deal, s, t);
      c = center(met_by_all<most_row_threads>(part, threads, meets{}, K::template none<real>()));
    }
    for (unsigned t = 0; t < threads; ++t) part[t] = total(all[t], deal, s, t, c);
    row_facts<real> const f =
        facts(c, met_by_all<most_row_threads>(part, threads, added{}, real{0}));
    for (unsigned t = 0; t < threads; ++t) {
      give(all[t].x, f, deal, s, t);
      give_edge(all[t].edge, f, s, t);
    }
    note(f, row);
  }
  void run_long_row(row_deal const& deal, std::uint64_t row) const {
    row_span const s = deal.span<vector>(row);
    unsigned const threads = threads_of<long_threads>(deal);
    running all[long_threads];
    real part[long_threads] = {};
    real edge[long_threads][1];
    typename hold::word memory[host_row_memory_bytes / sizeof(typename hold::word)];
    auto const hold_of = [&](unsigned t) { return hold{memory, threads, t}; };
    for (unsigned t = 0; t < threads; ++t) all[t] = seen(deal, s, t, hold_of(t), edge[t]);
    real c = 0;
    if constexpr (K::is_centered) {
      for (unsigned t = 0; t < threads; ++t) part[t] = all[t].met();
      c = center(met_by_all<long_threads>(part, threads, meets{}, K::template none<real>()));
    }
    for (unsigned t = 0; t < threads; ++t) part[t] = all[t].total(c);
    row_facts<real> const f = facts(c, met_by_all<long_threads>(part, threads, added{}, real{0}));
    for (unsigned t = 0; t < threads; ++t) give_again(f, deal, s, t, hold_of(t), edge[t]);
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
  WARPWRIGHT_HOST_DEVICE static void keep(hold const& h, unsigned k, real const (&x)[vector],
                                          loaded const& r) {
    if constexpr (hold::of_values) {
      typename hold::vector all;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < vector; ++j) all.of[j] = x[j];
      h.put(k, all);
    } else {
      h.put(k, r);
    }
  }
  // What keep() was given of a vector from element i on.
  WARPWRIGHT_HOST_DEVICE void held(real (&x)[vector], hold const& h, unsigned k,
                                   std::uint64_t i) const {
    typename hold::vector all;
    h.get(k, all);
    if constexpr (hold::of_values) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < vector; ++j) x[j] = all.of[j];
    } else {
      read(x, all, i);
    }
  }
  // Gives long_batch vectors, of which fetch(x, u, v + u * threads) sets the values.
  template <class Fetch>
  WARPWRIGHT_HOST_DEVICE void give_batch(row_facts<real> const& f, row_deal const& deal,
                                         row_span const& s, unsigned v, Fetch const& fetch) const {
    real x[long_batch][vector];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < long_batch; ++u) {
      unsigned const at_u = v + u * deal.threads;
      if (at_u >= s.vectors) continue;
      fetch(x[u], u, at_u);
      prepare(x[u], f.center);
    }
    give(x, f, deal, s, v);
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

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
