// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Evaluates the assignment of an expression: one kernel, or a loop on the host.
//
// nvcc makes one fused multiply-add of a product and a sum (-fmad=true, its default), and rounds
// once: where an expression both multiplies and adds, the host's last bits may be others. With
// -fmad=false they are the same; docs/kernels.md says more, under "Precision".
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/expression.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// One assignment of a kernel; First is its output's bit in schedule::wide, those of its arrays
// follow. `Place` says where it writes: a pointer, or what views.hpp has for strided arrays, which
// is stored to by vectors or one element at a time.
template <class T, class E, class Place = bits_of<T>*>
struct fused_part {
  using bits = bits_of<T>;
  static constexpr bool strided = !std::is_pointer<Place>::value;
  static constexpr bool views = holds_view<E>;
  static constexpr int operands = E::operands + 1;
  static constexpr int widest_bytes = largest(lane_bytes<T>, E::widest_bytes);
  static constexpr int loaded_bytes = E::loaded_bytes;
  template <int V>
  using registers = typename E::template registers<V>;
  template <int V>
  using results = lanes<bits, V>;

  Place data;
  E expression;

  template <int V>
  static operand describe_output(Place const& place, std::uint64_t size) {
    if constexpr (strided) {
      return place.template describe<T, V>();
    } else {
      return describe_array<T, V>(reach::elements, place, size);
    }
  }
  template <int V, int First, class At>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, At const& i, std::uint64_t wide) const {
    expression.template load<V, First + 1>(r, i, wide);
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE typename number<T>::value computed(registers<V> const& r, int j,
                                                            std::uint64_t i) const {
    return encodable<T>(expression.template value<void, V>(r, j, i + static_cast<unsigned>(j)));
  }
  template <int V>
  WARPWRIGHT_HOST_DEVICE void compute(results<V>& result, registers<V> const& r,
                                      std::uint64_t i) const {
    if constexpr (number<T>::packs_pairs && V % 2 == 0) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < V; j += 2) {
        result.set_pair(j, number<T>::encode_pair(computed<V>(r, j, i), computed<V>(r, j + 1, i)));
      }
    } else {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < V; ++j) result.set(j, number<T>::encode(computed<V>(r, j, i)));
    }
  }
  template <int V, int First, class At>
  WARPWRIGHT_HOST_DEVICE void store(results<V> const& result, At const& i,
                                    std::uint64_t wide) const {
    if constexpr (std::is_same<At, spread_place>::value) {
      static_assert(!strided, "elements of strided outputs are not spread");
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned j = 0; j < V; ++j) {
        if (j < i.count) data[i.index + j * spread_step] = result.get(static_cast<int>(j));
      }
    } else if constexpr (strided) {
      data.template store<V>(result, i, (wide >> static_cast<unsigned>(First) & 1U) != 0);
    } else if ((wide >> static_cast<unsigned>(First) & 1U) != 0) {
      result.store_wide(data + i);
    } else {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < V; ++j) data[i + static_cast<unsigned>(j)] = result.get(j);
    }
  }
};

template <class A>
struct part_of;
template <class T, class E>
struct part_of<assignment<T, E>> {
  using type = fused_part<T, E>;
};
template <class A>
using part_t = typename part_of<A>::type;

// Assignments as a kernel sees them, with the choices that their types alone decide. What a thread
// writes it writes after all that it reads, so that outputs may be in place of any input.
template <class... A>
struct fused {
  using indices = std::index_sequence_for<A...>;
  static constexpr int operands = (0 + ... + part_t<A>::operands);
  // Of vectors of 16 bytes, and of as many as Bytes says.
  template <int Bytes>
  static constexpr int vector_of = vector_elements(largest(part_t<A>::widest_bytes...), Bytes);
  template <int Bytes>
  static constexpr int vectors_of = vectors_per_thread((0 + ... + part_t<A>::loaded_bytes) *
                                                       vector_of<Bytes>);
  static constexpr int vector = vector_of<16>;
  static constexpr int vectors = vectors_of<16>;
  static constexpr bool strided = (part_t<A>::strided || ...);
  static constexpr bool views = (part_t<A>::views || ...);
  template <int Bytes>
  static constexpr bool may_spread = vectors_of<Bytes> > 2 && !strided && !views;
  // What a build for compute capability 10.0 and newer moves at a time. (Views have other ways.)
  static constexpr int most_bytes = strided || views ? 16 : 32;
  static constexpr int singles = vectors_per_thread((0 + ... + part_t<A>::loaded_bytes));
  static_assert(operands <= 64,
                "warpwright::ew: more than 64 arrays in one kernel; split the expression");
  template <int V>
  using registers = pack<typename part_t<A>::template registers<V>...>;
  template <int V>
  using results = pack<typename part_t<A>::template results<V>...>;

  pack<part_t<A>...> parts;

  explicit fused(A const&... a) : parts{{{a.data, a.expression}}...} {}

  // Lists the operands, each output before its arrays, as vectors of V elements see them; refuses
  // misfits.
  template <int V>
  static void describe(operand (&all)[operands], source_location where, A const&... a) {
    operand* next = all;
    (describe_one<V>(next, a), ...);
    int const counts[] = {part_t<A>::operands...};
    check_assignments(all, counts, static_cast<int>(sizeof...(A)), where);
  }

  // Whether the operands are what most are: arrays of the outputs' size on boundaries of vectors,
  // each apart from the outputs or exactly in place of one. What describe() fills stays in
  // registers here: a launch takes the host a third of the instructions of a closer look.
  template <int Bytes = 16>
  static bool are_usual(A const&... a) {
    if constexpr (strided || views) {
      return false;
    } else {
      operand all[operands];
      operand* next = all;
      (describe_one<vector_of<Bytes>>(next, a), ...);
      return are_usual<vector_of<Bytes>>(all, std::make_index_sequence<operands>{}, indices{});
    }
  }

  // How n elements are dealt out: one by one where a strided output does not suit vectors, so that
  // the stores of a warp meet in as few sectors as they can.
  template <int Bytes = 16>
  static launch_plan deal_out(operand const (&all)[operands], std::uint64_t n) {
    if constexpr (!(strided && vector > 1)) {
      launch_plan plan = make_plan(all, operands, n, vector_of<Bytes>, vectors_of<Bytes>);
      if constexpr (may_spread<Bytes>)
        spread_out(plan, vectors_of<Bytes>, many_vectors * 16 / Bytes);
      return plan;
    } else {
      std::uint64_t const gapped = outputs_with_gaps(all);
      launch_plan plan = make_plan(all, operands, n, vector, vectors, gapped);
      if ((plan.deal.wide & gapped) != gapped) {
        plan = make_plan(all, operands, n, 1, singles);
        plan.deal.singly = true;
        plan.deal.usual = false;
        plan.deal.wide = 0;
      }
      return plan;
    }
  }

  // The outputs that cannot be stored by narrowed vectors, a bit each.
  static std::uint64_t outputs_with_gaps(operand const* all) {
    std::uint64_t bits = 0;
    for (std::size_t k = 0; k < sizeof...(A); ++k) {
      int const place = arrays_before(k);
      if (all[place].kind == reach::view) bits |= std::uint64_t{1} << static_cast<unsigned>(place);
    }
    return bits;
  }

  // The V elements from i on, after fill(parts, registers) has added what was not to be loaded.
  template <int V, class Place, class Fill>
  WARPWRIGHT_HOST_DEVICE void vector_with(Place const& i, std::uint64_t wide,
                                          Fill const& fill) const {
    registers<V> r;
    load<V>(r, i, wide, indices{});
    fill(parts, r);
    store<V>(r, i, wide, indices{});
  }

  WARPWRIGHT_HOST_DEVICE void one(std::uint64_t i) const {
    registers<1> r;
    load<1>(r, i, ~std::uint64_t{0}, indices{});
    store<1>(r, i, ~std::uint64_t{0}, indices{});
  }

  // The work of one thread of the grid. Every block takes `threads` * vectors full vectors;
  // elements that are in none have a block of their own, beside the others in time. All loads are
  // issued before the first is used.
  template <int Bytes = 16>
  WARPWRIGHT_HOST_DEVICE void work(unsigned usual_vectors, schedule const& deal, unsigned block,
                                   unsigned blocks, unsigned t, unsigned threads) const {
    constexpr int V = vector_of<Bytes>;
    constexpr int count = vectors_of<Bytes>;
    // Apart from the others: half as many instructions before the first load, and less to fetch. In
    // one number, the first argument, which lies beside what every kernel fetches anyway.
    if (usual_vectors != 0) {
      if constexpr (may_spread<Bytes>) {
        if (usual_vectors >= schedule::spread_bit) {
          usual_schedule const spread{usual_vectors - schedule::spread_bit};
          return work_by<V, 1>(spread, block, t, threads);
        }
      }
      usual_schedule const usual{usual_vectors};
      return work_by<V, count>(usual, block, t, threads);
    }
    if (deal.edge != 0 && block == blocks - 1) {
      auto const at_edge = [&](unsigned e) { one(e < deal.head ? e : deal.vectors * V + e); };
      if constexpr (V > 16) {  // more than a block's threads may be
        for (unsigned e = t; e < deal.edge; e += threads) at_edge(e);
      } else if (t < deal.edge) {
        at_edge(t);
      }
      return;
    }
    if constexpr (strided && V > 1) {
      if (deal.singly) return work_by<1, singles>(deal, block, t, threads);
    }
    work_by<V, count>(deal, block, t, threads);
  }

 private:
  // `Count` vectors of V elements, those of a warp side by side: 0.2 to 2 % faster than those of a
  // block where most of the traffic is stores, elsewhere within 0.4 % (H100, H200).
  template <int V, int Count, class Deal>
  WARPWRIGHT_HOST_DEVICE void work_by(Deal const& deal, unsigned block, unsigned t,
                                      unsigned threads) const {
    using number_of = decltype(Deal::vectors);
    constexpr unsigned warp = 32;
    unsigned const warps_first = Count == 1 ? t : t / warp * (warp * Count) + t % warp;
    number_of const first =
        number_of{block} * (threads * static_cast<unsigned>(Count)) + warps_first;
    registers<V> r[Count];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < Count; ++u) {
      number_of const v = first + u * warp;
      if (v >= deal.vectors) continue;
      typename Deal::place const i{deal.head + std::uint64_t{v} * V};
      // One branch, the same for the whole grid, so that loads of the usual case follow each other.
      if constexpr (views && !std::is_same<Deal, usual_schedule>::value) {
        // A view's way to an element is most of the code: here it is compiled once for both.
        load<V>(r[u], i, V == 1 ? ~std::uint64_t{0} : deal.wide, indices{});
      } else if ((strided && V == 1) || deal.all_wide) {
        load<V>(r[u], i, ~std::uint64_t{0}, indices{});
      } else {
        load<V>(r[u], i, deal.wide, indices{});
      }
    }
#if defined(__CUDA_ARCH__)
    // Behind the loads: 0.7 us less a launch back to back from 2^20 elements up (H100).
    warpwright::detail::release_successors();
#endif
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < Count; ++u) {
      number_of const v = first + u * warp;
      if (v >= deal.vectors) continue;
      store<V>(r[u], typename Deal::place{deal.head + std::uint64_t{v} * V}, deal.wide, indices{});
    }
  }
  template <int V, std::size_t... Operand, std::size_t... Output>
  static bool are_usual(operand const (&all)[operands], std::index_sequence<Operand...>,
                        std::index_sequence<Output...>) {
    int const right = (is_usual<V, Output, Operand...>(all, all[arrays_before(Output)]) & ...);
    return right != 0 && all[0].count - 1 < std::uint64_t{1} << 59U;
  }
  // The operands beside one output, the other outputs among them: 1 or 0, without branches.
  template <int V, std::size_t Output, std::size_t... Operand>
  static int is_usual(operand const (&all)[operands], operand const& out) {
    constexpr int place = arrays_before(Output);
    std::uint64_t const end = out.address + out.count * out.element_bytes;
    return (static_cast<int>(!is_output(Operand) || place == static_cast<int>(Operand)
                                 ? is_usually_right(all[Operand], out, end, V)
                                 : all[Operand].count == out.count &&
                                       lies_apart(all[Operand], out, end)) &
            ...);
  }
  static constexpr bool is_output(std::size_t place) {
    for (std::size_t k = 0; k < sizeof...(A); ++k) {
      if (arrays_before(k) == static_cast<int>(place)) return true;
    }
    return false;
  }
  template <int V, class Assignment>
  static void describe_one(operand*& next, Assignment const& a) {
    *next++ = part_t<Assignment>::template describe_output<V>(a.data, a.size);
    a.expression.template describe<V>(next);
  }
  // The number of arrays of the assignments before the index-th.
  WARPWRIGHT_HOST_DEVICE static constexpr int arrays_before(std::size_t index) {
    int const each[] = {part_t<A>::operands...};
    int sum = 0;
    for (std::size_t k = 0; k < index; ++k) sum += each[k];
    return sum;
  }
  template <int V, class Place, std::size_t... Index>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Place const& i, std::uint64_t wide,
                                   std::index_sequence<Index...>) const {
    (at<Index>(parts).template load<V, arrays_before(Index)>(at<Index>(r), i, wide), ...);
  }
  template <int V, class Place, std::size_t... Index>
  WARPWRIGHT_HOST_DEVICE void store(registers<V> const& r, Place const& i, std::uint64_t wide,
                                    std::index_sequence<Index...>) const {
    results<V> result;
    (at<Index>(parts).template compute<V>(at<Index>(result), at<Index>(r), i), ...);
    (at<Index>(parts).template store<V, arrays_before(Index)>(at<Index>(result), i, wide), ...);
  }
};

#if defined(__CUDACC__)

template <class Fused>
__global__ void __launch_bounds__(most_threads)
    fused_kernel(unsigned const usual_vectors, Fused const f, schedule const deal) {
  warpwright::detail::await_predecessors();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
  constexpr int bytes = Fused::most_bytes;
#else
  constexpr int bytes = 16;
#endif
  f.template work<bytes>(usual_vectors, deal, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
}

#elif WARPWRIGHT_HOST_RUNTIME

template <class Fused>
struct fused_loop {
  Fused f;
  void operator()(std::uint64_t begin, std::uint64_t end) const {
    for (std::uint64_t i = begin; i < end; ++i) f.one(i);
  }
};

#endif

template <class... A>
void evaluate_parts(source_location where, std::uint64_t n, A const&... a) {
  using parts = fused<A...>;
  operand all[parts::operands];
  parts::template describe<1>(all, where, a...);
  parts const f{a...};
  for (std::uint64_t i = 0; i < n; ++i) f.one(i);
}

template <class... A, std::size_t... Index>
void evaluate_each(source_location where, assignments<A...> const& all,
                   std::index_sequence<Index...>) {
  evaluate_parts(where, at<0>(all.each).size, at<Index>(all.each)...);
}

#if defined(__CUDACC__) || WARPWRIGHT_HOST_RUNTIME

// Plans a launch by vectors of `Bytes`; answers false where there is none to make any more.
template <int Bytes, class... A>
bool plan_launch(launch_plan& plan, stream_ref stream, source_location where, fused<A...> const& f,
                 std::uint64_t n, A const&... a) {
  using parts = fused<A...>;
  constexpr int vector = parts::template vector_of<Bytes>;
  static_cast<void>(stream), static_cast<void>(f);
  if (parts::template are_usual<Bytes>(a...)) {
    constexpr int vectors = parts::template vectors_of<Bytes>;
    plan = make_usual_plan(n, vector, vectors);
    if constexpr (parts::template may_spread<Bytes>) {
      spread_out(plan, vectors, many_vectors * 16 / Bytes);
    }
    return true;
  }
  operand all[parts::operands];
  parts::template describe<vector>(all, where, a...);
  if (n == 0) return false;
#if defined(__CUDACC__)
  if constexpr ((holds_view<decltype(a.expression)> || ...)) {
    if (run_tiles(stream, where, f, all))
      return false;  // of views.hpp, by the argument's namespace
  }
  plan = parts::template deal_out<Bytes>(all, n);
#endif
  return true;
}

// By vectors as the build of the kernel has them that the device runs.
template <class... A>
bool plan_build(launch_plan& plan, stream_ref stream, source_location where, fused<A...> const& f,
                std::uint64_t n, A const&... a) {
#if defined(__CUDACC__)
  using parts = fused<A...>;
  using kernels = warpwright::detail::this_build;
  constexpr auto wide = warpwright::detail::build::wide;
  if constexpr (parts::most_bytes > 16 && kernels::may_be(wide)) {
    if (warpwright::detail::build_of<parts, kernels>(&fused_kernel<parts>) == wide) {
      return plan_launch<parts::most_bytes>(plan, stream, where, f, n, a...);
    }
  }
#endif
  return plan_launch<16>(plan, stream, where, f, n, a...);
}

#endif

template <class... A>
void run_parts(stream_ref stream, source_location where, std::uint64_t n, A const&... a) {
#if defined(__CUDACC__) || WARPWRIGHT_HOST_RUNTIME
  using parts = fused<A...>;
  static_assert(sizeof(parts) <= 3072,
                "warpwright::ew::run: the expression's numbers and functions take more than a "
                "kernel's arguments can hold; pass them by pointer or split the expression");
  parts const f{a...};
  launch_plan plan;
  if (!plan_build(plan, stream, where, f, n, a...)) return;
#if defined(__CUDACC__)
  if (plan.blocks > 0x7fffffffU) {
    warpwright::detail::throw_invalid_argument(
        text{"ew: the output has "} + n +
            " elements, more than one grid can hold; evaluate it in parts",
        where);
  }
  warpwright::detail::launch_kernel<parts>(
      &fused_kernel<parts>, dim3{static_cast<unsigned>(plan.blocks)}, dim3{plan.threads}, 0, stream,
      where, plan.deal.usual_vectors(), f, plan.deal);
#else
  warpwright::detail::launch_host(stream, "warpwright::ew::run", n, fused_loop<parts>{f}, where);
#endif
#else
  static_cast<void>(stream), static_cast<void>(where), static_cast<void>(n);
  (static_cast<void>(a), ...);
  static_assert(warpwright::detail::always_false<fused<A...>>,
                "warpwright::ew::run needs a kernel: compile this file with nvcc (name it .cu), or "
                "link warpwright::host_runtime to run without a GPU");
#endif
}

template <class... A, std::size_t... Index>
void run_each(stream_ref stream, source_location where, assignments<A...> const& all,
              std::index_sequence<Index...>) {
  run_parts(stream, where, at<0>(all.each).size, at<Index>(all.each)...);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates an assignment on the calling thread, over arrays in host memory.
/// @param a  `out(pointer, n) = expression`
/// @throws std::invalid_argument  as run() does
/// **Threads:** any. **Cost:** a plain loop, the same code as on the host runtime.
template <class T, class E>
void evaluate_host(assignment<T, E> const& a, source_location where = source_location::current()) {
  detail::evaluate_parts(where, a.size, a);
}

/// As above, for several assignments: `tie(out(p, n) = x, out(q, n) = y)`.
template <class... A>
void evaluate_host(assignments<A...> const& all,
                   source_location where = source_location::current()) {
  detail::evaluate_each(where, all, std::index_sequence_for<A...>{});
}

/// Evaluates an assignment as one kernel.
///
/// Operands may be misaligned to any element: an odd one alone is moved element by element, and
/// where all are off alike the kernel starts at the first boundary that suits them.
/// @pre all arrays can be reached from the stream's device and stay alive until it has passed them
/// @param stream  the stream to run on
/// @param a       `out(pointer, n) = expression`, copied at the call; n = 0 launches nothing
/// @throws std::invalid_argument  for operands of other sizes than the output, a row or column
///   length that does not divide n, a null or odd pointer, or an array that overlaps the output
///   other than exactly in place; the text names the operand, counted from 1 from left to right
/// @throws cuda_error  when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block.
/// **Threads:** any. **Capture:** legal.
/// **Cost:** one kernel launch, no allocation.
/// Compiled for architectures on both sides of 9.0 or 10.0, a launch also calls cudaGetDevice, and
/// the first of a kernel on a device cudaFuncGetAttributes.
template <class T, class E>
void run(stream_ref stream, assignment<T, E> const& a,
         source_location where = source_location::current()) {
  detail::run_parts(stream, where, a.size, a);
}

/// Evaluates several assignments as one kernel: `tie(out(p, n) = x + y, out(q, n) = x - y)`.
///
/// As run() of one, and: every output has n elements; all are computed from what the arrays hold
/// before the call, so that each output may be in place of any input. An array that occurs several
/// times is read from memory once, and then from a cache.
/// @throws std::invalid_argument  as run() of one; for outputs of different sizes, or that overlap
template <class... A>
void run(stream_ref stream, assignments<A...> const& all,
         source_location where = source_location::current()) {
  detail::run_each(stream, where, all, std::index_sequence_for<A...>{});
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
