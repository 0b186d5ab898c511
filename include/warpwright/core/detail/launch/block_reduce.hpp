// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How the values of a block's threads become one, and how the last block of several is found: the
// one reduction tree and the one ticket of all kernels. The host combines in the same order as a
// GPU, so that its results are the same bits.
#pragma once

#include <warpwright/core/detail/launch/block.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

WARPWRIGHT_BEGIN

namespace detail {

/// The threads that combine their values: groups of `threads` neighbours, a power of two below a
/// warp, or a multiple of a warp: all threads of the block, unless there is a reciprocal.
struct thread_groups {
  unsigned threads;         ///< of each block
  unsigned blocks = 1;      ///< of a cluster, whose blocks are one group; a power of two
  unsigned reciprocal = 0;  ///< 2^20 / threads, rounded up, where there are several groups
  static constexpr unsigned columns = 1;
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned first_warp(unsigned t) const {
    return (t * reciprocal >> 20U) * (threads / warp_size);
  }
};
/// All threads of the block, a multiple of a warp, whose numbers are equal modulo `columns`, a
/// power of two of at most a warp.
struct thread_columns {
  unsigned threads;
  unsigned columns;
};

/// Shared memory that combine_groups() exchanges values through. Two halves, used alternately: a
/// thread may still read one when another already writes the next.
/// @tparam T  the largest type of a value
template <class T, unsigned MaxThreads, unsigned MaxColumns = 1>
struct reduction_scratch {
  static constexpr bool of_cluster = false;
  static constexpr unsigned values = (MaxThreads + warp_size - 1) / warp_size * MaxColumns;
  static constexpr std::size_t half_bytes = (values * sizeof(T) + 15) / 16 * 16;
  alignas(16) unsigned char bytes[2][half_bytes];
  template <class Value>
  WARPWRIGHT_HOST_DEVICE Value* half(unsigned which) {
    static_assert(sizeof(Value) <= sizeof(T) && alignof(Value) <= 16,
                  "reduction_scratch: the value does not fit");
    return reinterpret_cast<Value*>(bytes[which % 2]);
  }
};

/// The same, with room for what the blocks of a cluster exchange.
template <class T, unsigned MaxThreads>
struct cluster_scratch : reduction_scratch<T, MaxThreads> {
  static constexpr bool of_cluster = true;
  alignas(16) unsigned char of_block[2][(sizeof(T) + 15) / 16 * 16];
};

#if defined(__CUDACC__)
/// Reads what block `rank` of the cluster has at `mine`, in shared memory.
template <class T>
__device__ T load_from_cluster(T* mine, unsigned rank) {
  T value;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr unsigned count = (sizeof(T) + 3) / 4;
  std::uint32_t words[count];
  auto const local = static_cast<std::uint32_t>(__cvta_generic_to_shared(mine));
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(local), "r"(rank));
  WARPWRIGHT_UNROLL
  for (unsigned k = 0; k < count; ++k) {
    asm volatile("ld.shared::cluster.u32 %0, [%1];"
                 : "=r"(words[k])
                 : "r"(there + 4 * k)
                 : "memory");
  }
  std::memcpy(static_cast<void*>(&value), words, sizeof(T));
#else
  static_cast<void>(rank);
  value = *mine;
#endif
  return value;
}

template <class T>
__device__ T shuffle_xor(T const& value, unsigned distance) {
  if constexpr (std::is_arithmetic<T>::value) {
    return __shfl_xor_sync(0xffffffffU, value, static_cast<int>(distance));
  } else {
    std::uint32_t words[(sizeof(T) + 3) / 4];
    words[sizeof words / 4 - 1] = 0;
    std::memcpy(words, &value, sizeof(T));
    WARPWRIGHT_UNROLL
    for (std::uint32_t& word : words) {
      word = __shfl_xor_sync(0xffffffffU, word, static_cast<int>(distance));
    }
    T result;
    std::memcpy(static_cast<void*>(&result), words, sizeof(T));
    return result;
  }
}
#endif

// Of more than one warp, those that another is combined with first: the greatest power of two below
// their number.
WARPWRIGHT_HOST_DEVICE inline unsigned half_of_warps(unsigned threads) {
  unsigned const last = threads / warp_size - 1;
#if defined(__CUDA_ARCH__)
  return 1U << (31 - __clz(static_cast<int>(last)));
#else
  return 1U << (31 - __builtin_clz(last));
#endif
}

/// Combines the values of each group; every thread of it then has the result.
///
/// By a tree of halves within a warp, then among the warps of a group. The warps of columns, 8 at
/// most, are combined in their order.
/// @param round  0, 1, 2, …: counts the calls that share one scratch
/// @pre called by the whole block; combine is commutative
template <class Block, class Values, class Scratch, class Groups, class Combine>
WARPWRIGHT_HOST_DEVICE void combine_groups(Block& block, Values& values, Scratch& scratch,
                                           unsigned round, Groups const& groups,
                                           Combine const& combine) {
#if defined(__CUDA_ARCH__)
  static_cast<void>(block);
  auto value = values[threadIdx.x];
  if (std::is_same<Groups, thread_groups>::value && groups.threads >= warp_size) {
    WARPWRIGHT_UNROLL
    for (unsigned d = warp_size / 2; d != 0; d /= 2) {
      value = combine(value, shuffle_xor(value, d));
    }
  } else {
    unsigned const size = groups.threads < warp_size ? groups.threads : warp_size;
    WARPWRIGHT_NO_UNROLL
    for (unsigned d = size / 2; d >= groups.columns; d /= 2) {
      value = combine(value, shuffle_xor(value, d));
    }
  }
  if (groups.threads > warp_size) {
    auto* const of_warps = scratch.template half<decltype(value)>(round);
    unsigned const lane = threadIdx.x % warp_size;
    unsigned const column = lane % groups.columns;
    if (lane < groups.columns) of_warps[threadIdx.x / warp_size * groups.columns + lane] = value;
    __syncthreads();
    if constexpr (std::is_same<Groups, thread_groups>::value) {
      auto const* const of_group = of_warps + groups.first_warp(threadIdx.x);
      unsigned half = half_of_warps(groups.threads);
      unsigned const w = lane & (half - 1);
      value = of_group[w];
      if ((w + half) * warp_size < groups.threads) value = combine(value, of_group[w + half]);
      WARPWRIGHT_NO_UNROLL
      for (half /= 2; half != 0; half /= 2) value = combine(value, shuffle_xor(value, half));
    } else {
      value = of_warps[column];
      WARPWRIGHT_NO_UNROLL
      for (unsigned w = 1; w * warp_size < groups.threads; ++w) {
        value = combine(value, of_warps[w * groups.columns + column]);
      }
    }
  }
  if constexpr (Scratch::of_cluster) {
    if (groups.blocks > 1) {
      auto* const of_block = reinterpret_cast<decltype(value)*>(scratch.of_block[round % 2]);
      if (threadIdx.x == 0) *of_block = value;
      synchronize_cluster();
      value = load_from_cluster(of_block, threadIdx.x % groups.blocks);
      WARPWRIGHT_NO_UNROLL
      for (unsigned d = groups.blocks / 2; d != 0; d /= 2) {
        value = combine(value, shuffle_xor(value, d));
      }
    }
  }
  values[threadIdx.x] = value;
#else
  static_cast<void>(scratch), static_cast<void>(round);
  unsigned threads = groups.threads;
  if constexpr (std::is_same<Groups, thread_groups>::value) threads *= groups.blocks;
  unsigned const size = threads < warp_size ? threads : warp_size;
  for (unsigned first = 0; first < block.threads(); first += threads) {
    for (unsigned w = first; w < first + threads; w += size) {
      for (unsigned d = size / 2; d >= groups.columns; d /= 2) {
        for (unsigned t = w; t < w + d; ++t) values[t] = combine(values[t], values[t + d]);
      }
    }
    for (unsigned c = 0; c < groups.columns; ++c) {
      auto const of_warp = [&](unsigned w) -> auto& { return values[first + w * warp_size + c]; };
      if (std::is_same<Groups, thread_groups>::value && threads > warp_size) {
        for (unsigned half = half_of_warps(threads); half != 0; half /= 2) {
          for (unsigned w = 0; w < half && (w + half) * warp_size < threads; ++w) {
            of_warp(w) = combine(of_warp(w), of_warp(w + half));
          }
        }
      } else {
        for (unsigned w = 1; w * warp_size < threads; ++w) {
          of_warp(0) = combine(of_warp(0), of_warp(w));
        }
      }
      auto const value = of_warp(0);
      for (unsigned t = c; t < threads; t += groups.columns) values[first + t] = value;
    }
  }
#endif
}

/// Stores a block's partial result, and determines whether it is the last of the blocks that share
/// a ticket: then the other blocks' partial results are visible to all its threads.
/// @param ticket         0 before the first block; the last one resets it for the next launch
/// @param blocks         that share the ticket
/// @param store_partial  store_partial(t) stores thread t's part, and returns whether it has one
/// @pre called by the whole block
template <class Block, class StorePartial>
WARPWRIGHT_HOST_DEVICE bool is_last_block(Block& block, unsigned* ticket, unsigned blocks,
                                          StorePartial const& store_partial) {
#if defined(__CUDA_ARCH__)
  static_cast<void>(block);
  __shared__ bool last;
  if (store_partial(threadIdx.x)) __threadfence();  // the writes come before the ticket
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(ticket, 1U) == blocks - 1;
    if (last) *ticket = 0;
    __threadfence();  // the ticket comes before reading the other blocks' partial results
  }
  __syncthreads();
  return last;
#else
  block.for_each_thread([&](unsigned t) { static_cast<void>(store_partial(t)); });
  if (++*ticket != blocks) return false;
  *ticket = 0;
  return true;
#endif
}

}  // namespace detail

WARPWRIGHT_END
