// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Evaluates the assignment of an expression: one kernel, or a loop on the host.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/expression.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// An assignment as a kernel sees it, with the choices that its types alone decide.
template <class T, class E>
struct fused {
  using bits = bits_of<T>;
  static constexpr int operands = E::operands + 1;
  static constexpr int vector = vector_elements(largest(lane_bytes<T>, E::widest_bytes));
  static constexpr int vectors = vectors_per_thread(E::loaded_bytes * vector);
  static_assert(operands <= 64,
                "warpwright::ew: more than 63 arrays in one expression; split the expression");

  bits* data;
  E expression;

  // Lists the operands, the output first, as vectors of V elements see them; refuses misfits.
  template <int V>
  static void describe(assignment<T, E> const& a, operand (&all)[operands], source_location where) {
    operand* next = all;
    *next++ = describe_array<T, V>(reach::elements, a.data, a.size);
    a.expression.template describe<V>(next);
    check_operands(all, operands, where);
  }

  WARPWRIGHT_HOST_DEVICE bits element(typename E::template registers<1> const& r,
                                      std::uint64_t i) const {
    return number<T>::encode(
        convert<typename number<T>::value>(expression.template value<void, 1>(r, 0, i)));
  }
  WARPWRIGHT_HOST_DEVICE void one(std::uint64_t i) const {
    typename E::template registers<1> r;
    expression.template load<1, 1>(r, i, ~std::uint64_t{0});
    data[i] = element(r, i);
  }

  using registers = typename E::template registers<vector>;

  WARPWRIGHT_HOST_DEVICE void load(registers& r, std::uint64_t i, schedule const& deal) const {
    // One branch, the same for the whole grid, so that loads of the usual case follow each other.
    if (deal.all_wide) {
      expression.template load<vector, 1>(r, i, ~std::uint64_t{0});
    } else {
      expression.template load<vector, 1>(r, i, deal.wide);
    }
  }
  WARPWRIGHT_HOST_DEVICE typename number<T>::value computed(registers const& r, int j,
                                                            std::uint64_t i) const {
    return convert<typename number<T>::value>(
        expression.template value<void, vector>(r, j, i + static_cast<unsigned>(j)));
  }
  WARPWRIGHT_HOST_DEVICE void store(registers const& r, std::uint64_t i,
                                    schedule const& deal) const {
    lanes<bits, vector> result{};
    if constexpr (number<T>::packs_pairs && vector % 2 == 0) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < vector; j += 2) {
        result.words[j / 2] = number<T>::encode_pair(computed(r, j, i), computed(r, j + 1, i));
      }
    } else {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < vector; ++j) result.set(j, number<T>::encode(computed(r, j, i)));
    }
    if ((deal.wide & 1U) != 0) {
      result.store_wide(data + i);
    } else {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int j = 0; j < vector; ++j) data[i + static_cast<unsigned>(j)] = result.get(j);
    }
  }

  // The work of one thread of the grid. Every block takes `threads` * vectors full vectors;
  // elements that are in none have a block of their own, beside the others in time. All loads are
  // issued before the first is used.
  WARPWRIGHT_HOST_DEVICE void work(schedule const& deal, unsigned block, unsigned blocks,
                                   unsigned t, unsigned threads) const {
    if (deal.edge != 0 && block == blocks - 1) {
      if (t < deal.edge) one(t < deal.head ? t : deal.vectors * vector + t);
      return;
    }
    std::uint64_t const first =
        std::uint64_t{block} * (threads * static_cast<unsigned>(vectors)) + t;
    registers r[vectors];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < vectors; ++u) {
      std::uint64_t const v = first + u * threads;
      if (v < deal.vectors) load(r[u], deal.head + v * vector, deal);
    }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned u = 0; u < vectors; ++u) {
      std::uint64_t const v = first + u * threads;
      if (v < deal.vectors) store(r[u], deal.head + v * vector, deal);
    }
  }
};

#if defined(__CUDACC__)

template <class Fused>
__global__ void __launch_bounds__(most_threads) fused_kernel(Fused const f, schedule const deal) {
  f.work(deal, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
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

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates an assignment on the calling thread, over arrays in host memory.
/// @param a  `out(pointer, n) = expression`
/// @throws std::invalid_argument  as run() does
/// **Threads:** any. **Cost:** a plain loop, the same code as on the host runtime.
template <class T, class E>
void evaluate_host(assignment<T, E> const& a, source_location where = source_location::current()) {
  using fused = detail::fused<T, E>;
  detail::operand all[fused::operands];
  fused::template describe<1>(a, all, where);
  fused const f{a.data, a.expression};
  for (std::uint64_t i = 0; i < a.size; ++i) f.one(i);
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
/// **Cost:** one kernel launch and no other CUDA call; no allocation.
template <class T, class E>
void run(stream_ref stream, assignment<T, E> const& a,
         source_location where = source_location::current()) {
#if defined(__CUDACC__) || WARPWRIGHT_HOST_RUNTIME
  using fused = detail::fused<T, E>;
  static_assert(sizeof(fused) <= 3072,
                "warpwright::ew::run: the expression's numbers and functions take more than a "
                "kernel's arguments can hold; pass them by pointer or split the expression");
  detail::operand all[fused::operands];
  fused::template describe<fused::vector>(a, all, where);
  if (a.size == 0) return;
  fused const f{a.data, a.expression};
#if defined(__CUDACC__)
  detail::launch_plan const plan =
      detail::make_plan(all, fused::operands, a.size, fused::vector, fused::vectors);
  if (plan.blocks > 0x7fffffffU) {
    warpwright::detail::throw_invalid_argument(
        warpwright::detail::text{"ew: the output has "} + a.size +
            " elements, more than one grid can hold; evaluate it in parts",
        where);
  }
  warpwright::detail::launch_kernel(&detail::fused_kernel<fused>,
                                    dim3{static_cast<unsigned>(plan.blocks)}, dim3{plan.threads}, 0,
                                    stream, where, f, plan.deal);
#else
  warpwright::detail::launch_host(stream, "warpwright::ew::run", a.size,
                                  detail::fused_loop<fused>{f}, where);
#endif
#else
  static_cast<void>(stream), static_cast<void>(a), static_cast<void>(where);
  static_assert(warpwright::detail::always_false<E>,
                "warpwright::ew::run needs a kernel: compile this file with nvcc (name it .cu), or "
                "link warpwright::host_runtime to run without a GPU");
#endif
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
