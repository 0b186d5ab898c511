// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One pass over some expressions that makes the states of several reductions, and how the states of
// threads and blocks become one, in the same order on a GPU and on the host.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/detail/alike.hpp>
#include <warpwright/kernel/detail/reducers.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

inline constexpr unsigned reduce_threads = 256;
inline constexpr unsigned warp_lanes = 32;
// Blocks at most, whatever the device, so that the order of a sum is a matter of n alone and no
// device is asked: four on each of the 132 SMs of an H100. With 64 bytes of loads a thread they
// keep 64 KiB in flight on each; smaller GPUs hold more blocks an SM or take turns.
inline constexpr unsigned reduce_blocks_a_sm = 4;
inline constexpr unsigned reduce_blocks = reduce_blocks_a_sm * 132;
inline constexpr int reduce_bytes_a_thread = 64;
// What a thread's states may take: of a tree, in registers; of a turn, in instructions.
inline constexpr std::size_t pairwise_bytes_a_thread = 192;
inline constexpr std::size_t state_bytes_a_turn = 1024;

constexpr unsigned blocks_for(std::uint64_t vectors) {
  std::uint64_t const blocks = vectors / reduce_threads + (vectors % reduce_threads != 0 ? 1 : 0);
  if (blocks > reduce_blocks) return reduce_blocks;
  return blocks == 0 ? 1 : static_cast<unsigned>(blocks);
}

// Where a result goes, and what it is of: `to(pointer) = reduction`.
template <class T, class K, class E>
struct goal {
  bits_of<T>* data;
  K kind;
  E expression;
};

// The reductions' expressions as one node, whose value is all of theirs.
struct gathered {
  template <class... V>
  WARPWRIGHT_HOST_DEVICE pack<V...> operator()(V... values) const {
    return {{values}...};
  }
};

template <class T>
inline constexpr bool is_located = false;
template <class T>
inline constexpr bool is_located<located<T>> = true;

// Whether a result of type R may go to an element of type T, and the element.
template <class T, class R>
constexpr bool can_store() {
  if constexpr (is_number<R>) {
    return is_number<T>;
  } else if constexpr (is_located<R>) {
    return is_located<T> || (std::is_integral<T>::value && !std::is_same<T, bool>::value);
  } else {
    return std::is_same<typename number<T>::value, R>::value;
  }
}
template <class T, class R>
WARPWRIGHT_HOST_DEVICE bits_of<T> stored(R const& result) {
  if constexpr (is_number<R>) {
    return number<T>::encode(encodable<T>(result));
  } else if constexpr (is_located<R>) {
    if constexpr (is_located<T>) {
      return {convert<decltype(T::value)>(result.value), result.index};
    } else {
      return static_cast<T>(result.index);
    }
  } else {
    return number<T>::encode(result);
  }
}

// Vectors a thread and turn, a power of two: enough loads, but not the code of too many states.
constexpr int vectors_for_reduction(int vector, int loaded_bytes, std::size_t state_bytes) {
  int vectors = 4;
  while (vectors > 1 &&
         (vectors * vector * loaded_bytes > reduce_bytes_a_thread ||
          static_cast<std::size_t>(vectors * vector) * state_bytes > state_bytes_a_turn)) {
    vectors /= 2;
  }
  return loaded_bytes == 0 ? 1 : vectors;
}
// Elements whose states are combined pairwise before they go to the thread's: a power of two, with
// a state for each level of the tree in registers.
constexpr int elements_pairwise(std::size_t state_bytes) {
  int elements = 1;
  for (std::size_t levels = 2; levels * state_bytes <= pairwise_bytes_a_thread && elements < 64;
       ++levels) {
    elements *= 2;
  }
  return elements;
}

template <bool Alike, class Indices, class... Goal>
struct one_pass_of;

// Several reductions as a kernel sees them. `Alike` says that all in() are one array, at `shared`.
template <bool Alike, std::size_t... Index, class... T, class... K, class... E>
struct one_pass_of<Alike, std::index_sequence<Index...>, goal<T, K, E>...> {
  using indices = std::index_sequence<Index...>;
  using whole = call<as_they_are, gathered, E...>;
  using values = typename whole::template value_type<void>;
  template <class X>
  using value = typename X::template value_type<void>;
  using states = pack<typename K::template state<value<E>>...>;

  static constexpr int operands = whole::operands + 1;
  static constexpr int vector =
      vector_elements((holds_view<whole> ? 2 : 1) * whole::widest_bytes);  // one access a vector
  static constexpr int vectors = vectors_for_reduction(
      vector, Alike ? whole::loaded_bytes / largest(inputs_of<whole>::count) : whole::loaded_bytes,
      sizeof(states));
  static constexpr int chunk = elements_pairwise(sizeof(states));
  static_assert(operands <= 64,
                "warpwright::ew::reduce: more than 63 arrays in one pass; split it");
  static_assert(alignof(states) <= 16,
                "warpwright::ew::reduce: a state may want an alignment of 16 bytes at most");
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

  // Lists the arrays, as vectors of V elements see them, behind one that stands for the output.
  static void describe(whole const& expression, std::uint64_t n, operand (&all)[operands],
                       source_location where) {
    operand* next = all;
    next->kind = reach::nothing;
    next->aligned_bytes = 1;
    next->natural_bytes = 1;
    next->count = n;
    ++next;
    expression.template describe<vector>(next);
    check_operands(all, operands, where);
  }

  using registers = typename whole::template registers<vector>;

  WARPWRIGHT_HOST_DEVICE states identities() const {
    return {{at<Index>(kinds).template identity<value<E>>()}...};
  }
  WARPWRIGHT_HOST_DEVICE states lifted(values const& v, std::uint64_t i) const {
    return {{at<Index>(kinds).template lift<value<E>>(at<Index>(v), i)}...};
  }
  WARPWRIGHT_HOST_DEVICE states appended(states const& a, states const& b) const {
    return {{at<Index>(kinds).template append<value<E>>(at<Index>(a), at<Index>(b))}...};
  }
  WARPWRIGHT_HOST_DEVICE states combined(states const& a, states const& b) const {
    return {{at<Index>(kinds).template combine<value<E>>(at<Index>(a), at<Index>(b))}...};
  }
  // Writes the results of `count` elements as element `place` of each result.
  WARPWRIGHT_HOST_DEVICE void finish(states const& s, std::uint64_t count,
                                     std::uint64_t place) const {
    ((at<Index>(results)[place] =
          stored<T>(at<Index>(kinds).template finish<value<E>>(at<Index>(s), count))),
     ...);
  }

  WARPWRIGHT_HOST_DEVICE void load(registers& r, std::uint64_t i, schedule const& deal) const {
    // Where all in() are one array, constants let the compiler see that their loads are one, too.
    constexpr std::uint64_t inputs = inputs_of<whole>::bits << 1U;
    if (deal.all_wide) {
      expression.template load<vector, 1>(r, i, ~std::uint64_t{0});
    } else if (Alike && (deal.wide & inputs) == inputs) {
      expression.template load<vector, 1>(r, i, inputs);
    } else if (Alike) {
      expression.template load<vector, 1>(r, i, 0);
    } else {
      expression.template load<vector, 1>(r, i, deal.wide);
    }
  }
  // The state of elements [First, First + Count) of neighbouring registers, pairwise.
  template <int First, int Count>
  WARPWRIGHT_HOST_DEVICE states pairwise(registers const* r, std::uint64_t i, std::uint64_t stride,
                                         std::uint64_t begin) const {
    if constexpr (Count == 1) {
      std::uint64_t const index = i + First / vector * stride + First % vector;
      return lifted(
          expression.template value<void, vector>(r[First / vector], First % vector, index),
          index - begin);
    } else {
      constexpr int half = Count / 2;
      return appended(pairwise<First, half>(r, i, stride, begin),
                      pairwise<First + half, Count - half>(r, i, stride, begin));
    }
  }
  // Adds the `Count` elements of neighbouring registers, in chunks.
  template <int Count>
  WARPWRIGHT_HOST_DEVICE void add(states& sum, registers const* r, std::uint64_t i,
                                  std::uint64_t stride, std::uint64_t begin) const {
    constexpr int size = chunk < Count ? chunk : Count;
    add_chunks<size>(sum, r, i, stride, begin, std::make_index_sequence<Count / size>{});
  }
  template <int Size, std::size_t... Chunk>
  WARPWRIGHT_HOST_DEVICE void add_chunks(states& sum, registers const* r, std::uint64_t i,
                                         std::uint64_t stride, std::uint64_t begin,
                                         std::index_sequence<Chunk...>) const {
    ((sum = combined(sum, pairwise<static_cast<int>(Chunk) * Size, Size>(r, i, stride, begin))),
     ...);
  }

  // The state of what thread t of `threads` neighbouring ones, in block `block`, takes of the
  // elements from `begin` on. All loads of a turn are issued before the first is used. Whole turns
  // of the grid give each block vectors that lie side by side (from 2^26 floats on some 1 % faster
  // than spread over the grid's, H100); what is left is dealt out evenly.
  WARPWRIGHT_HOST_DEVICE states partial(schedule const& deal, std::uint64_t begin, unsigned block,
                                        unsigned blocks, unsigned t, unsigned threads) const {
    states sum = identities();
    if (block == blocks - 1 && t < deal.edge) {
      std::uint64_t const i = begin + (t < deal.head ? t : deal.vectors * vector + t);
      typename whole::template registers<1> r;
      expression.template load<1, 1>(r, i, ~std::uint64_t{0});
      sum = combined(sum, lifted(expression.template value<void, 1>(r, 0, i), i - begin));
    }
    std::uint64_t const grid = std::uint64_t{blocks} * threads;
    std::uint64_t done = 0;
    for (; done + vectors * grid <= deal.vectors; done += vectors * grid) {
      std::uint64_t const v = done + std::uint64_t{block} * vectors * threads + t;
      std::uint64_t const i = begin + deal.head + v * vector;
      std::uint64_t const stride = std::uint64_t{threads} * vector;
      registers r[vectors];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (unsigned u = 0; u < vectors; ++u) load(r[u], i + u * stride, deal);
      add<vectors * vector>(sum, r, i, stride, begin);
    }
    std::uint64_t v = done + std::uint64_t{block} * threads + t;
#if defined(__CUDA_ARCH__)
    registers r[vectors];
#pragma unroll
    for (unsigned u = 0; u < vectors; ++u) {
      if (v + u * grid < deal.vectors) {
        load(r[u], begin + deal.head + (v + u * grid) * vector, deal);
      }
    }
#pragma unroll
    for (unsigned u = 0; u < vectors; ++u) {
      if (v + u * grid < deal.vectors) {
        std::uint64_t const i = begin + deal.head + (v + u * grid) * vector;
        add<vector>(sum, r + u, i, 0, begin);
      }
    }
#else
    for (; v < deal.vectors; v += grid) {  // one by one, where no load takes time
      std::uint64_t const i = begin + deal.head + v * vector;
      registers r;
      load(r, i, deal);
      add<vector>(sum, &r, i, 0, begin);
    }
#endif
    return sum;
  }

  // A copy whose arrays are visibly one.
  WARPWRIGHT_HOST_DEVICE one_pass_of united() const {
    one_pass_of copy = *this;
    if constexpr (Alike) point_inputs_at(copy.expression, shared);
    return copy;
  }

  // ---- From threads to a group of threads, on the host ----

  // What shuffles and shared memory do below, state by state: the first lane of each warp takes its
  // warp's in a tree, then the first warp's all warps'.
  void fold_group(states* of_thread, unsigned threads) const {
    for (unsigned first = 0; first < threads; first += warp_lanes) {
      fold_tree(of_thread + first, warp_lanes);
      of_thread[first / warp_lanes] = of_thread[first];
    }
    if (threads > warp_lanes) fold_tree(of_thread, threads / warp_lanes);
  }
  void fold_tree(states* all, unsigned count) const {
    for (unsigned half = count / 2; half != 0; half /= 2) {
      for (unsigned k = 0; k < half; ++k) all[k] = combined(all[k], all[k + half]);
    }
  }
  // The state of all blocks, as the last of a grid makes it.
  void run_grid(schedule const& deal, unsigned blocks) const {
    states of_block[reduce_threads];
    for (states& s : of_block) s = identities();
    for (unsigned b = 0; b < blocks; ++b) {
      states of_thread[reduce_threads];
      for (unsigned t = 0; t < reduce_threads; ++t) {
        of_thread[t] = partial(deal, 0, b, blocks, t, reduce_threads);
      }
      fold_group(of_thread, reduce_threads);
      of_block[b % reduce_threads] = combined(of_block[b % reduce_threads], of_thread[0]);
    }
    if (blocks > 1) fold_group(of_block, reduce_threads);
    finish(of_block[0], n, 0);
  }
  // Row `row` of rows of `count` elements, by `threads` threads.
  void run_row(schedule const& deal, std::uint64_t row, std::uint64_t count,
               unsigned threads) const {
    states of_thread[reduce_threads];
    for (unsigned t = 0; t < threads; ++t) {
      of_thread[t] = partial(deal, row * count, 0, 1, t, threads);
    }
    fold_group(of_thread, threads);
    finish(of_thread[0], count, row);
  }
};

template <bool Alike, class... Goal>
using one_pass = one_pass_of<Alike, std::index_sequence_for<Goal...>, Goal...>;

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

#if defined(__CUDACC__)

template <class S>
__device__ S from_lane_above(S const& state, unsigned distance) {
  std::uint32_t words[(sizeof(S) + 3) / 4];
  words[sizeof words / 4 - 1] = 0;
  std::memcpy(words, &state, sizeof(S));
#pragma unroll
  for (std::uint32_t& word : words) word = __shfl_down_sync(0xffffffffU, word, distance);
  S moved;
  std::memcpy(&moved, words, sizeof(S));
  return moved;
}
template <class States, std::size_t... Index>
__device__ States all_from_lane_above(States const& states, unsigned distance,
                                      std::index_sequence<Index...>) {
  return {{from_lane_above(at<Index>(states), distance)}...};
}

// The first lane's answer is the state of the first `lanes` lanes of its warp.
template <class Pass>
__device__ typename Pass::states fold_warp(Pass const& pass, typename Pass::states state,
                                           unsigned lanes) {
#pragma unroll
  for (unsigned half = lanes / 2; half != 0; half /= 2) {
    state = pass.combined(state, all_from_lane_above(state, half, typename Pass::indices{}));
  }
  return state;
}

// The first thread's answer is the state of the block. Ends with shared memory still being read.
template <class Pass>
__device__ typename Pass::states fold_block(Pass const& pass, typename Pass::states state) {
  using states = typename Pass::states;
  constexpr unsigned warps = reduce_threads / warp_lanes;
  __shared__ alignas(16) unsigned char memory[warps * sizeof(states)];
  auto* const of_warp = reinterpret_cast<states*>(memory);
  state = fold_warp(pass, state, warp_lanes);
  if (threadIdx.x % warp_lanes == 0) of_warp[threadIdx.x / warp_lanes] = state;
  __syncthreads();
  if (threadIdx.x < warp_lanes) {
    state = threadIdx.x < warps ? of_warp[threadIdx.x] : pass.identities();
    state = fold_warp(pass, state, warps);
  }
  return state;
}

// Every block leaves its state in `of_block`; the block that takes the last ticket combines them,
// in the order of their numbers, and puts the ticket back to 0 for the next launch.
template <class Pass>
__global__ void __launch_bounds__(reduce_threads)
    reduce_kernel(Pass const parameters, schedule const deal, unsigned* ticket,
                  typename Pass::states* of_block) {
  warpwright::detail::await_predecessors();
  using states = typename Pass::states;
  Pass const pass = parameters.united();
  states const mine = pass.partial(deal, 0, blockIdx.x, gridDim.x, threadIdx.x, reduce_threads);
  warpwright::detail::release_successors();
  states state = fold_block(pass, mine);
  if (gridDim.x > 1) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
      of_block[blockIdx.x] = state;
      __threadfence();  // the state before the ticket, as all other blocks see it
      last = atomicAdd(ticket, 1U) == gridDim.x - 1;
      __threadfence();  // the ticket before the other blocks' states
    }
    __syncthreads();
    if (!last) return;
    state = pass.identities();
    for (unsigned b = threadIdx.x; b < gridDim.x; b += reduce_threads) {
      state = pass.combined(state, of_block[b]);
    }
    state = fold_block(pass, state);
  }
  if (threadIdx.x == 0) {
    if (gridDim.x > 1) *ticket = 0;
    pass.finish(state, pass.n, 0);
  }
}

#elif WARPWRIGHT_HOST_RUNTIME

template <class Pass>
struct reduce_body {
  Pass pass;
  schedule deal;
  unsigned blocks;
  void operator()(std::uint64_t, std::uint64_t) const { pass.run_grid(deal, blocks); }
};

#endif

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
