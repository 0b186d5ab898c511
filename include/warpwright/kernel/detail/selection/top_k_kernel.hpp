// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel that finds the k largest elements of each row. A key of 64 bits has an element's place
// in the order of values, then its column, so that no two of a row are equal. A block reads a row,
// or a part of one, keeps in shared memory the keys that reach a bound that the k largest reach,
// and sorts these. Where blocks share a row, a second launch takes what they found as the elements.
#pragma once

#include <warpwright/kernel/detail/reduce/matrix_reduction.hpp>

#include <algorithm>

WARPWRIGHT_BEGIN

namespace ew::detail {

inline constexpr unsigned max_top_k = 1024;  // and threads a block: 64 registers each
inline constexpr unsigned top_k_kept = 2;    // keys in shared memory for each thread of a block
inline constexpr unsigned top_k_sms = 132;   // of an H100, which few rows are to occupy
template <class V>
inline constexpr std::uint32_t order_of_zero = std::is_signed<V>::value ? 0x80000000U : 0U;

// NaN first, then descending; -0 equals 0. The kernel's own keys are in their order already.
template <class V>
WARPWRIGHT_HOST_DEVICE std::uint64_t top_k_key(V value, std::uint64_t column) {
  if constexpr (std::is_same<V, std::uint64_t>::value) {
    return value;
  } else {
    std::uint32_t order = order_of_zero<V>;
    if constexpr (std::is_floating_point<V>::value) {
      auto const bits = bit_copy<std::uint32_t>(value);
      order = bits << 1U > 0xff000000U ? ~0U : bits > order ? ~bits : bits | order;
    } else {
      order ^= static_cast<std::uint32_t>(value);
    }
    return std::uint64_t{order} << 32U | static_cast<std::uint32_t>(~column);  // never 0
  }
}
template <class V>
WARPWRIGHT_HOST_DEVICE V value_of_key(std::uint64_t key) {
  auto const order = static_cast<std::uint32_t>(key >> 32U) ^ order_of_zero<V>;
  if constexpr (std::is_floating_point<V>::value) {
    return bit_copy<V>(order >> 31U != 0 ? ~(order ^ order_of_zero<V>) : order);
  } else {
    return static_cast<V>(order);
  }
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// V: the type of the elements' values, of which X are, or keys.
template <class X, class V, class T, class Index>
struct top_k_kernel : warpwright::detail::kernel_base<max_top_k> {
  static constexpr int read = X::loaded_bytes < 8 ? 8 : 4;  // elements of a thread and iteration
  using pass = reduction_pass<false, reduction_assignment<V, counting<is_true>, X>>;
  static constexpr int vector = pass::vector < read ? pass::vector : read;
  static constexpr std::size_t host_dynamic_bytes = sizeof(std::uint64_t) * top_k_kept * max_top_k;
  using shared = c_array<unsigned, 3>;  // what calls of keep() added, in turn

  X expression;
  std::uint64_t cols;
  bool wide;  // loads are of vectors
  unsigned k;
  unsigned blocks;       // of a row
  std::uint64_t* found;  // null: results go to values and indices
  bits_of<T>* values;
  Index* indices;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    wide ? find<vector>(block) : find<1>(block);
  }
  template <int L, class Block>
  WARPWRIGHT_HOST_DEVICE void find(Block& block) const {
    constexpr unsigned vectors = read / L;
    unsigned const size = block.threads(), room = top_k_kept * size, threads = blocks * size;
    unsigned const first = block.index() % blocks * size, step = vectors * threads;
    // Keys that may reach a bound; 64 more are sorted, each by comparing it with all.
    unsigned const enough = k + k / 8 + 4, count = static_cast<unsigned>(cols / L);
    std::uint64_t const row = block.index() / blocks * cols;
    auto* const kept = reinterpret_cast<std::uint64_t*>(block.dynamic_shared());
    auto next = block.template per_thread<c_array<typename X::template registers<L>, read / L>>();
    auto own = block.template per_thread<c_array<std::uint64_t, read>>();
    auto some = block.template per_thread<c_array<std::uint64_t, top_k_kept>>();
    std::uint64_t bound = 1;
    unsigned held = 0, calls = 0;
    bool ascending = false;
    auto const load = [&](unsigned t, unsigned begin) {
      WARPWRIGHT_UNROLL
      for (unsigned u = 0; u < vectors; ++u) {
        unsigned const v = begin + first + t + u * threads;
        if (v < count) expression.template load<L, 1>(next[t][u], row + v * L, all_wide_bits);
      }
    };
    // Raises the bound to one that from k to `enough` of the first `keys` of `some` reach.
    auto const raise = [&](unsigned keys) {
      std::uint64_t reached = 0;
      WARPWRIGHT_NO_UNROLL
      for (unsigned b = 64, n = 0; b-- != 0 && (n < k || n > enough);) {
        std::uint64_t const least = reached | std::uint64_t{1} << b;
        n = 0;
        WARPWRIGHT_UNROLL
        for (unsigned u = 0; u < top_k_kept && u < keys; ++u) {
#if defined(__CUDA_ARCH__)
          n += static_cast<unsigned>(__syncthreads_count(some[threadIdx.x][u] >= least));
#else
          block.for_each_thread([&](unsigned t) { n += some[t][u] >= least ? 1U : 0U; });
#endif
        }
        if (n >= k) reached = least;
      }
      if (reached > bound) bound = reached;
    };
    // Moves the keys that reach the bound behind those kept, as far as there is room; returns how
    // many there are with more room. Clears the next counter, which all read two calls before.
    auto const keep = [&](auto& keys) {
      unsigned* const added = block.shared() + calls++ % 3;
      block.for_each_thread([&](unsigned t) {
        if (t == 0) block.shared()[calls % 3] = 0;
        WARPWRIGHT_UNROLL
        for (std::uint64_t& key : keys[t]) {
          if (key < bound) continue;
#if defined(__CUDA_ARCH__)
          unsigned const at = held + atomicAdd(added, 1U);
#else
          unsigned const at = held + (*added)++;
#endif
          if (at >= room) continue;
          kept[at] = key;
          key = 0;
        }
      });
      block.synchronize();
      unsigned const all = held + *added;
      held = all < room ? all : room;
      return all;
    };
    block.for_each_thread([&](unsigned t) {
      if (t == 0) block.shared()[0] = 0;
      load(t, 0);
    });
    WARPWRIGHT_NO_UNROLL
    for (unsigned begin = 0; begin < count; begin += step) {
      block.for_each_thread([&](unsigned t) {
        some[t][0] = 0;
        WARPWRIGHT_UNROLL
        for (unsigned u = 0; u < read; ++u) {
          unsigned const v = begin + first + t + u / L * threads, j = u % L;
          std::uint64_t const c = std::uint64_t{v} * L + j;
          auto const value = [&] {
            return expression.template value<void, L>(next[t][u / L], static_cast<int>(j), row + c);
          };
          own[t][u] = v < count ? top_k_key(value(), c) : 0;
          if (own[t][u] > some[t][0]) some[t][0] = own[t][u];
        }
        load(t, begin + step);
      });
      if (begin == 0 || ascending) raise(1);  // k threads have such a key each
      for (unsigned all = keep(own); all > room || (all > enough + 64 && count - begin <= step);
           all = keep(own)) {
        ascending = ascending || all > 2 * room;
        block.for_each_thread([&](unsigned t) {
          WARPWRIGHT_UNROLL
          for (unsigned u = 0, i = t; u < top_k_kept; ++u, i += size)
            some[t][u] = i < held ? kept[i] : 0;
        });
        raise(top_k_kept);
        held = 0;
        keep(some);
      }
    }
    block.trigger_dependents();
    block.for_each_thread([&](unsigned t) {
      for (unsigned n = t; n < held || n < k; n += size) {
        std::uint64_t const key = n < held ? kept[n] : 0;  // 0 is behind all
        unsigned place = n < held ? 0 : n - held;
        for (unsigned other = 0; other < held; ++other) place += kept[other] > key ? 1U : 0U;
        std::uint64_t const i = std::uint64_t{block.index()} * k + place;
        if (place < k && found != nullptr) found[i] = key;
        if (place >= k || found != nullptr) continue;
        values[i] = element_traits<T>::encode(prepare_encode<T>(value_of_key<V>(key)));
        if (indices != nullptr) indices[i] = static_cast<Index>(~static_cast<std::uint32_t>(key));
      }
    });
  }
};

// Finds the k largest of each row; memory(bytes) has what blocks that share a row have found.
template <class Where, class Memory, class X, class T, class Index>
void find_top_k(Where const& execute, Memory const& memory, matrix_shape const& shape,
                std::uint64_t k, X const& x, T* values, Index* indices) {
  using V = value_t<X>;
  static_assert(is_number<V> && sizeof(V) <= 4 && is_number<T> && std::is_integral<Index>::value,
                "warpwright::ew::top_k: elements are numbers that are computed in at most 32 bits "
                "(cast<float>() others), values go to numbers and columns to integers");
  using pass = typename top_k_kernel<X, V, T, Index>::pass;
  check_row_length(shape);
  if (k > max_top_k || k > shape.cols) {
    refuse("top_k()",
           text{"is of k = "} + count_as_given(k) + " in rows of " + shape.cols +
               " elements; k is at most 1,024, and no more than a row has",
           shape.where);
  }
  operand operands[pass::operands];
  std::uint64_t const n = elements_in(shape), found = shape.rows * k;
  pass::describe(make_call<unconverted>(gather_values{}, x), n, operands, shape.where);
  if (found == 0) return;
  auto* const bits = reinterpret_cast<bits_of<T>*>(values);
  memory_range const results[] = {
      range_of(reduction_assignment<T, int, int>{bits, 0, 0}, found),
      range_of(reduction_assignment<Index, int, int>{indices, 0, 0}, found)};
  int const given = indices != nullptr ? 2 : 1;
  check_result_ranges(results, given, nullptr, 0, shape.where);
  check_results_disjoint(results, given, operands, pass::operands, n, shape.where);
  auto const launch = [&](auto const& kernel) {
    std::uint64_t const least =
        std::max<std::uint64_t>({warp_size, k, divide_up(kernel.cols, kernel.read)});
    unsigned const threads = least < max_top_k ? power_of_two_from(least) : max_top_k;
    execute(shape.rows * kernel.blocks, threads, kernel, "warpwright::ew::top_k",
            threads * top_k_kept * sizeof(std::uint64_t));
  };
  auto const few = static_cast<unsigned>(k);
  std::uint64_t const most = std::max<std::uint64_t>(top_k_sms / shape.rows, 1);
  auto const blocks =
      static_cast<unsigned>((std::min)(most, divide_up(shape.cols, std::uint64_t{8} * max_top_k)));
  bool const wide = column_reduction<pass>::is_wide(operands, shape.cols);
  top_k_kernel<X, V, T, Index> kernel{{}, x, shape.cols, wide, few, blocks, nullptr, bits, indices};
  if (blocks == 1) return launch(kernel);
  auto block = memory(found * blocks * sizeof(std::uint64_t));
  kernel.found = static_cast<std::uint64_t*>(block.data());
  launch(kernel);
  input<std::uint64_t> const keys{{kernel.found}, found * blocks};
  launch(top_k_kernel<input<std::uint64_t>, V, T, Index>{
      {}, keys, blocks * k, false, few, 1, nullptr, bits, indices});
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
