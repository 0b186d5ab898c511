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

inline constexpr unsigned max_top_k = 1024;    // and threads a block: 64 registers each
inline constexpr int top_k_elements = 8;       // of a thread and iteration
inline constexpr int top_k_kept = 2;           // keys in shared memory for each thread of a block
inline constexpr unsigned most_unsorted = 64;  // keys beside k, each to be compared with all
inline constexpr unsigned top_k_sms = 132;     // of an H100, which few rows are to occupy

// Keys that may reach a bound: few, but enough to spare the search its last steps.
WARPWRIGHT_HOST_DEVICE constexpr unsigned most_above_bound(unsigned k) { return k + k / 8 + 4; }

constexpr unsigned top_k_threads(std::uint64_t elements, unsigned k, unsigned per_thread) {
  unsigned threads = warp_size;
  while (threads < max_top_k &&
         (threads * per_thread < elements || threads * top_k_kept < most_above_bound(k))) {
    threads *= 2;
  }
  return threads;
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

// V: the type of the elements' values, of which X are, or keys.
template <class X, class V, class T, class I>
struct top_k_kernel : warpwright::detail::kernel_base<max_top_k> {
  static constexpr int read = X::loaded_bytes < 8 ? top_k_elements : top_k_elements / 2;
  static constexpr int all = read + top_k_kept;
  using pass = reduction_pass<false, reduction_assignment<V, counting<is_true>, X>>;
  static constexpr int vector = pass::vector < read ? pass::vector : read;
  static constexpr std::size_t host_dynamic_bytes = sizeof(std::uint64_t) * top_k_kept * max_top_k;
  using keys = c_array<std::uint64_t, all>;  // of a thread: those read, those kept
  using shared = c_array<unsigned, 3>;       // what calls of add() added, in turn

  X expression;
  std::uint64_t cols;
  bool wide;  // loads are of vectors
  unsigned k;
  unsigned blocks;       // of a row
  std::uint64_t* found;  // null: results go to values and indices
  bits_of<T>* values;
  I* indices;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    unsigned const held = wide ? keep<vector>(block) : keep<1>(block);
    block.trigger_dependents();
    std::uint64_t const* const kept = kept_by(block);
    block.for_each_thread([&](unsigned t) {
      for (unsigned n = t; n < held || n < k; n += block.threads()) {
        std::uint64_t const key = n < held ? kept[n] : 0;  // 0 is behind all
        unsigned place = n < held ? 0 : n - held;
        for (unsigned other = 0; other < held; ++other) place += kept[other] > key ? 1U : 0U;
        if (place < k) store(std::uint64_t{block.index()} * k + place, key);
      }
    });
  }

 private:
  template <class Block>
  WARPWRIGHT_HOST_DEVICE static std::uint64_t* kept_by(Block& block) {
    return reinterpret_cast<std::uint64_t*>(block.dynamic_shared());
  }
  // Reads the block's part of a row, vectors of L elements, and returns how many keys it kept.
  template <int L, class Block>
  WARPWRIGHT_HOST_DEVICE unsigned keep(Block& block) const {
    constexpr unsigned vectors = read / L;
    unsigned const room = top_k_kept * block.threads(), threads = blocks * block.threads();
    unsigned const first = block.index() % blocks * block.threads();
    auto const count = static_cast<unsigned>(cols / L);
    std::uint64_t const row = block.index() / blocks * cols;
    auto next = block.template per_thread<c_array<typename X::template registers<L>, vectors>>();
    auto own = block.template per_thread<keys>();
    auto const load = [&](unsigned t, unsigned begin) {
      WARPWRIGHT_UNROLL
      for (unsigned u = 0; u < vectors; ++u) {
        unsigned const v = begin + first + t + u * threads;
        if (v < count) expression.template load<L, 1>(next[t][u], row + v * L, all_wide_bits);
      }
    };
    block.for_each_thread([&](unsigned t) {
      if (t == 0) block.shared()[0] = 0;
      load(t, 0);
    });
    block.synchronize();
    std::uint64_t bound = 1;
    unsigned held = 0, calls = 0;
    unsigned const step = vectors * threads;
    WARPWRIGHT_NO_UNROLL
    for (unsigned begin = 0; begin < count; begin += step) {
      block.for_each_thread([&](unsigned t) {
        WARPWRIGHT_UNROLL
        for (unsigned u = 0; u < read; ++u) {
          unsigned const v = begin + first + t + u / L * threads;
          std::uint64_t const c = std::uint64_t{v} * L + u % L;
          int const j = u % L;
          own[t][u] =
              v >= count
                  ? 0
                  : top_k_key(expression.template value<void, L>(next[t][u / L], j, row + c), c);
        }
        load(t, begin + step);
      });
      // k threads have such a key each.
      if (begin == 0 && k <= block.threads()) bound = bound_of<true>(block, own);
      unsigned const added = add<read>(block, own, bound, held, calls++);
      held += added;
      if (held <= room && (held <= k + most_unsorted || count - begin > step)) continue;
      held -= added;  // what was added is void
      block.for_each_thread([&](unsigned t) {
        WARPWRIGHT_UNROLL
        for (unsigned u = 0, i = t; u < top_k_kept; ++u, i += block.threads()) {
          own[t][read + u] = i < held ? kept_by(block)[i] : 0;
        }
      });
      bound = bound_of<false>(block, own);
      held = add<all>(block, own, bound, 0, calls++);
    }
    return held;
  }
  template <int N>
  WARPWRIGHT_HOST_DEVICE static unsigned reaching(keys const& own, std::uint64_t bound) {
    unsigned n = 0;
    WARPWRIGHT_UNROLL
    for (int u = 0; u < N; ++u) n += own[u] >= bound ? 1U : 0U;
    return n;
  }
  // A bound that k keys or more reach, and most_above_bound() at most; 1 where there are not k.
  // OfThreads: the largest key read by each thread counts, not all.
  template <bool OfThreads, class Block, class Own>
  WARPWRIGHT_HOST_DEVICE std::uint64_t bound_of(Block& block, Own const& own) const {
    std::uint64_t bound = 0;
    WARPWRIGHT_NO_UNROLL
    for (std::uint64_t bit = std::uint64_t{1} << 63U; bit != 0; bit >>= 1U) {
      auto const count = [&](unsigned t) -> unsigned {
        return OfThreads ? reaching<read>(own[t], bound | bit) != 0
                         : reaching<all>(own[t], bound | bit);
      };
      unsigned n = 0;
#if defined(__CUDA_ARCH__)
      unsigned const mine = count(threadIdx.x);  // below 16
      WARPWRIGHT_UNROLL
      for (int b = 0; b < (OfThreads ? 1 : 4); ++b) {
        n += static_cast<unsigned>(__syncthreads_count(static_cast<int>(mine >> b & 1U))) << b;
      }
#else
      block.for_each_thread([&](unsigned t) { n += count(t); });
#endif
      if (n >= k) bound |= bit;
      if (n >= k && n <= most_above_bound(k)) break;
    }
    return bound == 0 ? 1 : bound;
  }
  // Keeps those of the first N keys of each thread that reach the bound behind `held` others, as
  // far as there is room; returns how many they are. Clears the next call's counter, which all
  // threads have read two calls before.
  template <int N, class Block, class Own>
  WARPWRIGHT_HOST_DEVICE static unsigned add(Block& block, Own& own, std::uint64_t bound,
                                             unsigned held, unsigned call) {
    unsigned* const added = block.shared() + call % 3;
    block.for_each_thread([&](unsigned t) {
      if (t == 0) block.shared()[(call + 1) % 3] = 0;
      unsigned const n = reaching<N>(own[t], bound);
      if (n == 0) return;
#if defined(__CUDA_ARCH__)
      unsigned at = held + atomicAdd(added, n);
#else
      unsigned at = held + (*added += n) - n;
#endif
      WARPWRIGHT_UNROLL
      for (int u = 0; u < N; ++u) {
        if (own[t][u] < bound) continue;
        if (at < top_k_kept * block.threads()) kept_by(block)[at] = own[t][u];
        ++at;
      }
    });
    block.synchronize();
    return *added;
  }
  WARPWRIGHT_HOST_DEVICE void store(std::uint64_t i, std::uint64_t key) const {
    if (found != nullptr) {
      found[i] = key;
    } else {
      values[i] = element_traits<T>::encode(prepare_encode<T>(value_of_key<V>(key)));
      if (indices != nullptr) indices[i] = static_cast<I>(~static_cast<std::uint32_t>(key));
    }
  }
};

// Checks the operands and launches one kernel.
template <class Where, class Kernel>
void launch_top_k(Where const& execute, matrix_shape const& shape, Kernel kernel) {
  using pass = typename Kernel::pass;
  operand operands[pass::operands];
  std::uint64_t const n = elements_in(shape), found = shape.rows * kernel.k;
  pass::describe(make_call<unconverted>(gather_values{}, kernel.expression), n, operands,
                 shape.where);
  if (found == 0) return;
  auto const range = [&](auto* p) {
    return memory_range{reinterpret_cast<std::uintptr_t>(p), found * sizeof(*p),
                        static_cast<unsigned>(alignof(std::decay_t<decltype(*p)>))};
  };
  memory_range const results[] = {range(kernel.values), range(kernel.indices)};
  int const given = kernel.indices != nullptr ? 2 : 1;
  check_result_ranges(results, given, nullptr, 0, shape.where);
  check_results_disjoint(results, given, operands, pass::operands, n, shape.where);
  kernel.cols = shape.cols;
  kernel.wide = shape.cols % Kernel::vector == 0 &&
                wide_operands(operands, pass::operands, 0, Kernel::vector) ==
                    bits_of_operands(pass::operands);
  unsigned const threads = top_k_threads(shape.cols, kernel.k, Kernel::read);
  execute(shape.rows * kernel.blocks, threads, kernel, "warpwright::ew::top_k",
          threads * top_k_kept * sizeof(std::uint64_t));
}

// Finds the k largest of each row, on a stream or on the calling thread. Where blocks share a row,
// with_memory(bytes, use) calls use() with memory for what they find.
template <class Where, class Memory, class X, class T, class I>
void find_top_k(Where const& execute, Memory const& with_memory, matrix_shape const& shape,
                std::uint64_t k, X const& x, T* values, I* indices) {
  using V = value_t<X>;
  static_assert(is_number<V> && sizeof(V) <= 4 && is_number<T> && std::is_integral<I>::value,
                "warpwright::ew::top_k: elements are numbers that are computed in at most 32 bits "
                "(cast<float>() others), values go to numbers and columns to integers");
  check_row_length(shape);
  if (k > max_top_k || k > shape.cols) {
    refuse("top_k()",
           text{"is of k = "} + count_as_given(k) + " in rows of " + shape.cols +
               " elements; k is at most 1,024, and no more than a row has",
           shape.where);
  }
  auto const few = static_cast<unsigned>(k);
  unsigned const blocks = top_k_blocks(shape);
  auto* const bits = reinterpret_cast<bits_of<T>*>(values);
  top_k_kernel<X, V, T, I> kernel{{}, x, 0, false, few, blocks, nullptr, bits, indices};
  if (blocks == 1) return launch_top_k(execute, shape, kernel);
  std::uint64_t const found = shape.rows * blocks * k;
  with_memory(found * sizeof(std::uint64_t), [&](void* memory) {
    kernel.found = static_cast<std::uint64_t*>(memory);
    launch_top_k(execute, shape, kernel);
    input<std::uint64_t> const keys{{kernel.found}, found};
    launch_top_k(execute, {shape.rows, blocks * k, shape.where},
                 top_k_kernel<input<std::uint64_t>, V, T, I>{
                     {}, keys, 0, false, few, 1, nullptr, bits, indices});
  });
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
