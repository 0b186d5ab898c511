// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel that finds the k largest elements of each row. A key of 64 bits has an element's place
// in the order of values, then its column: those of a row differ, and the k largest are the same
// however they are found. A block reads a row, or a part of one, and keeps in shared memory the
// keys that reach a bound that the k largest reach; at the end it sorts these. Where several blocks
// share a row, a second launch takes what they found as the elements.
#pragma once

#include <warpwright/kernel/detail/reduce/matrix_reduction.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

inline constexpr unsigned max_top_k = 1024;  // and threads a block: 64 registers each
inline constexpr int top_k_elements = 8;     // of a thread and iteration, of 4 bytes each
inline constexpr unsigned top_k_kept = 2;    // keys in shared memory for each thread of a block
inline constexpr unsigned top_k_sms = 132;   // of an H100, which few rows are to occupy

// Keys that may reach a bound: few to sort, but enough to spare the search its last steps.
WARPWRIGHT_HOST_DEVICE constexpr unsigned most_above_bound(unsigned k) { return k + k / 8 + 4; }

constexpr unsigned top_k_threads(std::uint64_t elements, unsigned k, unsigned per_thread) {
  std::uint64_t const for_kept = quotient_up(most_above_bound(k), top_k_kept);
  std::uint64_t const least = divide_up(elements, per_thread);
  unsigned const threads = power_of_two_from(least < max_top_k ? least : max_top_k);
  return power_of_two_from(for_kept > threads ? for_kept : threads < warp_size ? 32 : threads);
}
constexpr unsigned top_k_blocks(matrix_shape const& shape) {
  std::uint64_t const most = shape.rows == 0 ? 1 : top_k_sms / shape.rows;
  std::uint64_t const tiles = divide_up(shape.cols, std::uint64_t{max_top_k} * top_k_elements);
  std::uint64_t const blocks = tiles < most ? tiles : most;
  return blocks == 0 ? 1 : static_cast<unsigned>(blocks);
}

// NaN first, then descending; -0 equals 0. The kernel's own keys are in their order already.
template <class V>
WARPWRIGHT_HOST_DEVICE std::uint64_t top_k_key(V value, std::uint64_t column) {
  std::uint32_t order = 0;
  if constexpr (std::is_same<V, std::uint64_t>::value) {
    return value;
  } else if constexpr (std::is_floating_point<V>::value) {
    order = bit_copy<std::uint32_t>(value);
    bool const zero = order << 1U == 0, nan = order << 1U > 0xff000000U;
    order = nan ? ~0U : !zero && order >> 31U != 0 ? ~order : order | 0x80000000U;
  } else {
    order = static_cast<std::uint32_t>(value) ^ (std::is_signed<V>::value ? 0x80000000U : 0U);
  }
  return std::uint64_t{order} << 32U | static_cast<std::uint32_t>(~column);  // never 0
}
template <class V>
WARPWRIGHT_HOST_DEVICE V value_of_key(std::uint64_t key) {
  auto const order = static_cast<std::uint32_t>(key >> 32U);
  if constexpr (std::is_floating_point<V>::value) {
    return bit_copy<V>(order >> 31U != 0 ? order & 0x7fffffffU : ~order);
  } else {
    return static_cast<V>(order ^ (std::is_signed<V>::value ? 0x80000000U : 0U));
  }
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// The sum of what threads count, below 2^Bits each; a barrier.
template <int Bits, class Block, class Count>
WARPWRIGHT_HOST_DEVICE unsigned sum_of_threads(Block& block, Count const& count) {
  unsigned sum = 0;
#if defined(__CUDA_ARCH__)
  static_cast<void>(block);
  unsigned const mine = count(threadIdx.x);
  WARPWRIGHT_UNROLL
  for (int bit = 0; bit < Bits; ++bit) {
    sum += static_cast<unsigned>(__syncthreads_count(static_cast<int>(mine >> bit & 1U))) << bit;
  }
#else
  block.for_each_thread([&](unsigned t) { sum += count(t); });
#endif
  return sum;
}

// V: the type of the elements' values, of which X are, or keys.
template <class X, class V, class T, class I>
struct top_k_kernel : warpwright::detail::kernel_base<max_top_k> {
  static constexpr int vector = vector_elements((holds_view<X> ? 2 : 1) * X::widest_bytes);
  static constexpr int vectors =
      batch_of(vector * X::loaded_bytes, vector < top_k_elements ? top_k_elements / vector : 1, 32);
  static constexpr unsigned read = vector * vectors;  // keys of a thread, before those it kept
  static constexpr std::size_t host_dynamic_bytes = sizeof(std::uint64_t) * top_k_kept * max_top_k;
  using registers = c_array<typename X::template registers<vector>, vectors>;
  using keys = c_array<std::uint64_t, static_cast<int>(read + top_k_kept)>;
  using part = row_share<vector>;
  struct shared {
    unsigned added[3];  // by calls of add(), in turn
  };

  X expression;
  row_partition partition;
  unsigned k;
  std::uint64_t* found;  // null: results go to values and indices
  bits_of<T>* values;
  I* indices;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    auto* const kept = reinterpret_cast<std::uint64_t*>(block.dynamic_shared());
    unsigned const threads = block.threads();
    unsigned const first = block.index() % partition.blocks * threads;
    auto const row = partition.template span<vector>(block.index() / partition.blocks);
    unsigned const step = vectors * partition.threads;
    unsigned held = first == 0 ? row.edge : 0;  // at most 30
    auto next = block.template per_thread<registers>();
    auto own = block.template per_thread<keys>();
    block.for_each_thread([&](unsigned t) {
      if (t == 0) block.shared().added[0] = 0;
      load(next[t], {partition, row, first + t}, 0);
      if (t < held) kept[t] = edge_key({partition, row, t});
    });
    block.synchronize();
    std::uint64_t bound = 1;
    unsigned calls = 0;
    WARPWRIGHT_NO_UNROLL
    for (unsigned begin = 0; begin < row.vectors; begin += step) {
      block.for_each_thread([&](unsigned t) {
        part const mine{partition, row, first + t};
        get(own[t], next[t], mine, begin);
        load(next[t], mine, begin + step);
      });
      if (begin == 0 && k <= threads) {  // k threads have such a key each
        bound = bound_of<1>(
            block, [&](unsigned t, std::uint64_t b) { return count<read>(own[t], b) != 0; });
      }
      unsigned const added = add<read>(block, own, bound, held, calls++);
      held += added;
      if (held <= top_k_kept * threads) continue;
      held -= added;  // what did not fit is void
      block.for_each_thread([&](unsigned t) {
        WARPWRIGHT_UNROLL
        for (unsigned u = 0; u < top_k_kept; ++u) {
          own[t][read + u] = t + u * threads < held ? kept[t + u * threads] : 0;
        }
      });
      bound = bound_of<5>(
          block, [&](unsigned t, std::uint64_t b) { return count<read + top_k_kept>(own[t], b); });
      held = add<read + top_k_kept>(block, own, bound, 0, calls++);
    }
    block.trigger_dependents();
    sort(block, kept, held);
    block.for_each_thread([&](unsigned t) {
      for (unsigned i = t; i < k; i += threads) {
        store(std::uint64_t{block.index()} * k + i, i < held ? kept[i] : 0);
      }
    });
  }

 private:
  WARPWRIGHT_HOST_DEVICE void load(registers& r, part const& mine, unsigned begin) const {
    mine.template load_vectors<read_once_index>(r, begin + mine.t,
                                                [&](auto& to, auto const& i, std::uint64_t wide) {
                                                  expression.template load<vector, 1>(to, i, wide);
                                                });
  }
  WARPWRIGHT_HOST_DEVICE void get(keys& own, registers const& r, part const& mine,
                                  unsigned begin) const {
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < read; ++u) {
      unsigned const v = begin + mine.t + u / vector * partition.threads;
      std::uint64_t const i = mine.index(v) + u % vector;
      own[u] = v < mine.row.vectors ? top_k_key(expression.template value<void, vector>(
                                                    r[u / vector], static_cast<int>(u % vector), i),
                                                i - mine.row.begin)
                                    : 0;
    }
  }
  WARPWRIGHT_HOST_DEVICE std::uint64_t edge_key(part const& mine) const {
    typename X::template registers<1> r;
    expression.template load<1, 1>(r, mine.edge_index(), all_wide_bits);
    return top_k_key(expression.template value<void, 1>(r, 0, mine.edge_index()),
                     mine.edge_index() - mine.row.begin);
  }
  WARPWRIGHT_HOST_DEVICE void store(std::uint64_t i, std::uint64_t key) const {
    if (found != nullptr) {
      found[i] = key;
      return;
    }
    values[i] = element_traits<T>::encode(prepare_encode<T>(value_of_key<V>(key)));
    if (indices != nullptr) indices[i] = static_cast<I>(~static_cast<std::uint32_t>(key));
  }
  template <unsigned N>
  WARPWRIGHT_HOST_DEVICE static unsigned count(keys const& own, std::uint64_t bound) {
    unsigned n = 0;
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < N; ++u) n += own[u] >= bound ? 1U : 0U;
    return n;
  }
  // A bound that k keys or more reach, and most_above_bound() at most; 1 where there are not k.
  template <int Bits, class Block, class Count>
  WARPWRIGHT_HOST_DEVICE std::uint64_t bound_of(Block& block, Count const& reach) const {
    std::uint64_t bound = 0;
    WARPWRIGHT_NO_UNROLL
    for (std::uint64_t bit = std::uint64_t{1} << 63U; bit != 0; bit >>= 1U) {
      unsigned const n =
          sum_of_threads<Bits>(block, [&](unsigned t) { return reach(t, bound | bit); });
      if (n >= k) bound |= bit;
      if (n >= k && n <= most_above_bound(k)) break;
    }
    return bound == 0 ? 1 : bound;
  }
  // Keeps those of the first N keys of each thread that reach the bound behind `held` others, as
  // far as there is room; returns how many they are. Clears the next call's counter, which all
  // threads have read two calls before.
  template <unsigned N, class Block, class Own>
  WARPWRIGHT_HOST_DEVICE unsigned add(Block& block, Own& own, std::uint64_t bound, unsigned held,
                                      unsigned call) const {
    auto* const kept = reinterpret_cast<std::uint64_t*>(block.dynamic_shared());
    unsigned* const added = block.shared().added;
    block.for_each_thread([&](unsigned t) {
      if (t == 0) added[(call + 1) % 3] = 0;
      unsigned const n = count<N>(own[t], bound);
      if (n == 0) return;
#if defined(__CUDA_ARCH__)
      unsigned at = held + atomicAdd(added + call % 3, n);
#else
      unsigned at = held + added[call % 3];
      added[call % 3] += n;
#endif
      WARPWRIGHT_UNROLL
      for (unsigned u = 0; u < N; ++u) {
        if (own[t][u] < bound) continue;
        if (at < top_k_kept * block.threads()) kept[at] = own[t][u];
        ++at;
      }
    });
    block.synchronize();
    return added[call % 3];
  }
  // Descending, by a bitonic network. A warp has 64 neighbours, for which it needs no barrier.
  template <class Block>
  WARPWRIGHT_HOST_DEVICE static void sort(Block& block, std::uint64_t* kept, unsigned held) {
    unsigned size = 1;
    while (size < held) size *= 2;
    block.for_each_thread([&](unsigned t) {
      for (unsigned i = held + t; i < size; i += block.threads()) kept[i] = 0;
    });
    block.synchronize();
    for (unsigned length = 2; length <= size; length *= 2) {
      for (unsigned d = length / 2; d != 0; d /= 2) {
        block.for_each_thread([&](unsigned t) {
          unsigned const i = (t & ~(d - 1)) * 2 + (t & (d - 1));
          if (i >= size || (kept[i] < kept[i + d]) != ((i & length) == 0)) return;
          std::uint64_t const other = kept[i];
          kept[i] = kept[i + d];
          kept[i + d] = other;
        });
        if (d > warp_size || (d == 1 && length > warp_size)) block.synchronize();
#if defined(__CUDA_ARCH__)
        __syncwarp();
#endif
      }
    }
    block.synchronize();
  }
};

template <int Vector, class X>
void describe_top_k(X const& x, std::uint64_t n, operand* next) {
  next->kind = access_pattern::no_output;
  next->aligned_bytes = next->natural_bytes = 1;
  next++->count = n;
  x.template describe<Vector>(next);
}
template <class Where, class Kernel>
void launch_top_k(Where const& execute, matrix_shape const& shape, unsigned blocks, Kernel kernel) {
  constexpr int count = decltype(kernel.expression)::operands + 1;
  operand operands[count];
  describe_top_k<Kernel::vector>(kernel.expression, shape.rows * shape.cols, operands);
  unsigned const threads = top_k_threads(shape.cols, kernel.k, Kernel::read);
  row_partition& p = kernel.partition;
  p = plan_rows(operands, count, shape.rows, shape.cols, Kernel::vector, 1).partition;
  p.threads = threads * blocks;
  p.blocks = blocks;
  execute(shape.rows * blocks, threads, kernel, "warpwright::ew::top_k",
          threads * top_k_kept * sizeof(std::uint64_t));
}

// Finds the k largest of each row, on a stream or on the calling thread. Where blocks share a row,
// with_memory(bytes, use) calls use() with memory for what they find.
template <class Where, class Memory, class X, class T, class I>
void find_top_k(Where const& execute, Memory const& with_memory, matrix_shape const& shape,
                std::uint64_t k, X const& x, T* values, I* indices) {
  using V = value_t<X>;
  static_assert(is_number<V> && sizeof(V) <= 4,
                "warpwright::ew::top_k: the elements are no numbers, or computed in more than 32 "
                "bits; cast<float>() or cast<int>() them");
  static_assert(is_number<T> && std::is_integral<I>::value,
                "warpwright::ew::top_k: values go to numbers, columns to integers");
  check_row_length(shape);
  if (k > max_top_k || k > shape.cols) {
    refuse("top_k()",
           text{"is of k = "} + count_as_given(k) + " in rows of " + shape.cols +
               " elements; k is at most 1,024, and no more than a row has",
           shape.where);
  }
  using first = top_k_kernel<X, V, T, I>;
  std::uint64_t const n = elements_in(shape);
  operand operands[X::operands + 1];
  describe_top_k<first::vector>(x, n, operands);
  check_operands(operands, X::operands + 1, shape.where);
  if (shape.rows == 0 || k == 0) return;
  auto* const bits = reinterpret_cast<bits_of<T>*>(values);
  memory_range const results[] = {
      {reinterpret_cast<std::uintptr_t>(bits), shape.rows * k * sizeof(*bits), alignof(bits_of<T>)},
      {reinterpret_cast<std::uintptr_t>(indices), shape.rows * k * sizeof(I), alignof(I)}};
  int const given = indices != nullptr ? 2 : 1;
  check_result_ranges(results, given, nullptr, 0, shape.where);
  check_results_disjoint(results, given, operands, X::operands + 1, n, shape.where);

  auto const few = static_cast<unsigned>(k);
  unsigned const blocks = top_k_blocks(shape);
  first kernel{{}, x, {}, few, nullptr, bits, indices};
  if (blocks == 1) return launch_top_k(execute, shape, blocks, kernel);
  std::uint64_t const found = shape.rows * blocks * k;
  with_memory(found * sizeof(std::uint64_t), [&](void* memory) {
    using keys = input<std::uint64_t>;
    kernel.found = static_cast<std::uint64_t*>(memory);
    launch_top_k(execute, shape, blocks, kernel);
    launch_top_k(execute, {shape.rows, blocks * k, shape.where}, 1,
                 top_k_kernel<keys, V, T, I>{
                     {}, keys{{kernel.found}, found}, {}, few, nullptr, bits, indices});
  });
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
