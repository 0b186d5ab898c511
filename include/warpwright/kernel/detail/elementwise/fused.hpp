// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel of run(): one or several assignments, element by element.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/detail/expression/nodes.hpp>
#include <warpwright/kernel/detail/expression/traversal.hpp>
#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/plan/elementwise_plan.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

/// Evaluates by tiles or pixels the kernels that read views. views/tile_kernel.hpp defines it;
/// kernel/views.hpp, which makes views, includes that.
template <class Fused>
struct tile_evaluation {
  static_assert(warpwright::detail::always_false<Fused>,
                "warpwright::ew::run: the expression reads a view: include "
                "<warpwright/kernel/views.hpp>");
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// One assignment of a kernel. `Destination` is a pointer, or a strided_destination, which is stored
// to by vectors or one element at a time. Bit First of vector_partition::wide is the output's; the
// bits of its operands follow.
template <class T, class E, class Destination = bits_of<T>*>
struct fused_part {
  using bits = bits_of<T>;
  static constexpr bool strided = !std::is_pointer<Destination>::value;
  static constexpr bool views = holds_view<E>;
  static constexpr int operands = E::operands + 1;
  static constexpr int widest_bytes = largest(vector_element_bytes<T>, E::widest_bytes);
  static constexpr int loaded_bytes = E::loaded_bytes;
  template <int V>
  using registers = typename E::template registers<V>;
  template <int V>
  using results = packed_vector<bits, V>;

  Destination data;
  E expression;

  template <int V>
  static auto describe_output(Destination const& destination, std::uint64_t size) {
    if constexpr (strided) {
      return destination.template describe<T, V>();
    } else {
      return describe_array<T, V>(access_pattern::elements, destination, size);
    }
  }

  template <int V, int First, class Index>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Index const& i, std::uint64_t wide) const {
    expression.template load<V, First + 1>(r, i, wide);
  }

  template <int V>
  WARPWRIGHT_HOST_DEVICE typename element_traits<T>::value computed(registers<V> const& r, int j,
                                                                    std::uint64_t i) const {
    return prepare_encode<T>(expression.template value<void, V>(r, j, i));
  }
  // @param step  from the index of an element to that of the next
  template <int V>
  WARPWRIGHT_HOST_DEVICE void compute(results<V>& result, registers<V> const& r, std::uint64_t i,
                                      unsigned step = 1) const {
    using traits = element_traits<T>;
    if constexpr (traits::packs_pairs && V % 2 == 0) {
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; j += 2) {
        result.set_pair(j, traits::encode_pair(
                               computed<V>(r, j, i + static_cast<unsigned>(j) * step),
                               computed<V>(r, j + 1, i + (static_cast<unsigned>(j) + 1) * step)));
      }
    } else {
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) {
        result.set(j, traits::encode(computed<V>(r, j, i + static_cast<unsigned>(j) * step)));
      }
    }
  }

  template <int V, int First, class Index>
  WARPWRIGHT_HOST_DEVICE void store(results<V> const& result, Index const& i,
                                    std::uint64_t wide) const {
    if constexpr (std::is_same<Index, warp_strided_index>::value) {
      static_assert(!strided, "strided outputs are not stored a warp apart");
      WARPWRIGHT_UNROLL
      for (unsigned j = 0; j < V; ++j) {
        if (j < i.count) data[i.index + j * warp_stride] = result.get(static_cast<int>(j));
      }
    } else if constexpr (strided) {
      data.template store<V>(result, i, is_wide_operand<First>(wide));
    } else if (is_wide_operand<First>(wide)) {
      result.store_wide(data + i);
    } else {
      WARPWRIGHT_UNROLL
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

// Several assignments as one kernel, with the choices that their types alone decide. A thread
// writes only after all that it reads, so that an output may be in place of any input.
template <class... A>
struct fused {
  using indices = std::index_sequence_for<A...>;
  using offsets = operand_offsets<part_t<A>::operands...>;
  static constexpr int operands = (0 + ... + part_t<A>::operands);
  static constexpr int loaded_bytes = (0 + ... + part_t<A>::loaded_bytes);
  static constexpr int vector = vector_elements(largest(part_t<A>::widest_bytes...));
  static constexpr int vectors = vectors_per_thread(loaded_bytes * vector);
  static constexpr int scalars_per_thread = vectors_per_thread(loaded_bytes);
  static constexpr bool strided = (part_t<A>::strided || ...);
  static constexpr bool views = (part_t<A>::views || ...);
  static_assert(operands <= 64,
                "warpwright::ew: more than 64 arrays in one kernel; split the expression");
  template <int V>
  using registers = pack<typename part_t<A>::template registers<V>...>;
  template <int V>
  using results = pack<typename part_t<A>::template results<V>...>;

  pack<part_t<A>...> parts;

  explicit fused(A const&... a) : parts{{{a.data, a.expression}}...} {}

  static constexpr std::uint64_t output_bits() {
    std::uint64_t bits = 0;
    for (std::size_t k = 0; k < sizeof...(A); ++k) bits |= std::uint64_t{1} << offsets::of(k);
    return bits;
  }
  static constexpr int counts[] = {part_t<A>::operands...};
  static constexpr elementwise_types types{counts,
                                           static_cast<int>(sizeof...(A)),
                                           operands,
                                           output_bits(),
                                           static_cast<unsigned>(vector),
                                           static_cast<unsigned>(vectors),
                                           static_cast<unsigned>(scalars_per_thread)};

  template <class Operand>
  static void list(Operand* next, A const&... a) {
    ((*next++ = part_t<A>::template describe_output<vector>(a.data, a.size),
      a.expression.template describe<vector>(next)),
     ...);
  }

  // Lists the operands, and refuses what does not fit together.
  static void describe(c_array<operand, operands>& all, source_location where, A const&... a) {
    list(static_cast<operand*>(all), a...);
    check_assignments(all, counts, types.assignments, where);
  }

  // Evaluates the V elements from i on; fill(parts, registers) adds what is not loaded.
  template <int V, class Index, class Fill>
  WARPWRIGHT_HOST_DEVICE void vector_with(Index const& i, std::uint64_t wide,
                                          Fill const& fill) const {
    registers<V> r;
    load<V>(r, i, wide, indices{});
    fill(parts, r);
    store<V>(r, i, wide, indices{});
  }

  WARPWRIGHT_HOST_DEVICE void one(std::uint64_t i) const {
    vector_with<1>(i, all_wide_bits, [](auto&&...) {});
  }

  // The work of thread `t`. Every block takes `threads` * vectors full vectors; elements in no
  // vector have the last block to themselves. All loads are issued before the first is used.
  template <class Block>
  WARPWRIGHT_HOST_DEVICE void work(Block const& block, unsigned fast_path_vectors,
                                   vector_partition const& partition, unsigned t) const {
    // A branch of its own: half as many instructions before the first load. One number decides it,
    // the kernel's first argument, in the line of constants that every kernel fetches.
    if (fast_path_vectors != 0) {
      return work_by<vector, vectors>(block, fast_partition{fast_path_vectors}, t);
    }
    if (partition.edge != 0 && block.index() == block.count() - 1) {
      if (t < partition.edge) one(t < partition.head ? t : partition.vectors * vector + t);
      return;
    }
    if constexpr (strided && vector > 1) {
      if (partition.scalar_only) return work_by<1, scalars_per_thread>(block, partition, t);
    }
    work_by<vector, vectors>(block, partition, t);
  }

 private:
  // `Count` vectors of V elements, those of a warp side by side: 0.2 to 2 % faster than those of a
  // block where most of the traffic is stores, elsewhere within 0.4 % (H100, H200).
  template <int V, int Count, class Block, class Partition>
  WARPWRIGHT_HOST_DEVICE void work_by(Block const& block, Partition const& partition,
                                      unsigned t) const {
    using count_type = decltype(Partition::vectors);
    using index = typename Partition::index;
    constexpr unsigned warp = warpwright::detail::warp_size;
    unsigned const lane_first = Count == 1 ? t : t / warp * (warp * Count) + t % warp;
    count_type const first =
        count_type{block.index()} * (block.threads() * static_cast<unsigned>(Count)) + lane_first;
    c_array<registers<V>, Count> r WARPWRIGHT_ZERO_ON_HOST;
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < Count; ++u) {
      count_type const v = first + u * warp;
      if (v >= partition.vectors) continue;
      index const i{partition.head + std::uint64_t{v} * V};
      // One branch, the same for the whole grid: the loads of the fast path follow each other.
      if constexpr (views && !std::is_same<Partition, fast_partition>::value) {
        // Locating a view's element is most of the code: compiled once for both.
        load<V>(r[u], i, V == 1 ? all_wide_bits : partition.wide, indices{});
      } else if ((strided && V == 1) || partition.all_wide) {
        load<V>(r[u], i, all_wide_bits, indices{});
      } else {
        load<V>(r[u], i, partition.wide, indices{});
      }
    }
    // Behind the loads: 0.7 us less a launch back to back from 2^20 elements up (H100).
    block.trigger_dependents();
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < Count; ++u) {
      count_type const v = first + u * warp;
      if (v >= partition.vectors) continue;
      store<V>(r[u], index{partition.head + std::uint64_t{v} * V}, partition.wide, indices{});
    }
  }

  template <int V, class Index, std::size_t... Part>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Index const& i, std::uint64_t wide,
                                   std::index_sequence<Part...>) const {
    (at<Part>(parts).template load<V, offsets::of(Part)>(at<Part>(r), i, wide), ...);
  }
  template <int V, class Index, std::size_t... Part>
  WARPWRIGHT_HOST_DEVICE void store(registers<V> const& r, Index const& i, std::uint64_t wide,
                                    std::index_sequence<Part...>) const {
    results<V> result{};  // g++ cannot tell that all words are set where it does not unroll set()
    (at<Part>(parts).template compute<V>(at<Part>(result), at<Part>(r), i), ...);
    (at<Part>(parts).template store<V, offsets::of(Part)>(at<Part>(result), i, wide), ...);
  }
};

template <class... A>
struct fused_kernel : warpwright::detail::kernel_base<max_block_threads> {
  unsigned fast_path_vectors;
  fused<A...> f;
  vector_partition partition;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    block.for_each_thread([&](unsigned t) { f.work(block, fast_path_vectors, partition, t); });
  }
};

// Calls f with those of run(): one, those of a tie(), or one to a strided array in memory order.
template <class A, class F>
auto with_assignments(A const& a, F const& f) {
  return f(a);
}
template <class... A, class F>
auto with_assignments(assignments<A...> const& all, F const& f) {
  return detail::apply(all.each, f);
}
template <class T, int Rank, class E, class F>
auto with_assignments(strided_assignment<T, Rank, E> const& a, F const& f) {
  return f(a.in_memory_order());
}

template <class... A>
void evaluate_on_host(source_location where, std::uint64_t n, A const&... a) {
  using all = fused<A...>;
  operand operands[all::operands];
  all::describe(operands, where, a...);
  all const f{a...};
  for (std::uint64_t i = 0; i < n; ++i) f.one(i);
}

template <class... A>
void run_on_stream(warpwright::detail::on_stream const& execute, A const&... a) {
  using all = fused<A...>;
  launch_plan plan;
  if constexpr (all::strided || all::views) {
    operand operands[all::operands];
    all::describe(operands, execute.where, a...);
    if (operands[0].count == 0) return;
    if constexpr (all::views) {
      if (tile_evaluation<all>::run(execute, all{a...}, operands)) return;
    }
    plan = plan_operands(all::types, operands);
  } else {
    array_operand operands[all::operands];
    all::list(operands, a...);
    plan = plan_arrays(all::types, operands, execute.where);
    if (plan.blocks == 0) return;
  }
  execute(plan.blocks, plan.threads,
          fused_kernel<A...>{{}, plan.partition.fast_path_vectors(), all{a...}, plan.partition},
          "warpwright::ew::run");
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
