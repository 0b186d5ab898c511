// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a thread keeps in shared memory of a row that is too long for registers.
#pragma once

#include <warpwright/kernel/detail/rows/row_nodes.hpp>

#include <cstring>

WARPWRIGHT_BEGIN

namespace ew::detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// The vectors of one thread. No other thread accesses them, so that no synchronization is needed.
/// Words of neighbouring threads are neighbours: a warp's accesses have no bank conflicts.
/// @tparam Loaded  what a vector of V elements is loaded as, R the type of a value
/// @tparam Copied  whether a vector is what one array has in 16 bytes, which copy() puts there
template <class Loaded, class R, int V, bool Copied>
struct row_cache {
  // Values are cached if they take no more bytes than what was loaded: then they are computed once.
  static constexpr bool of_values = !Copied && V * sizeof(R) <= sizeof(Loaded);
  using vector = std::conditional_t<of_values, row_values<R, V>, Loaded>;
  static constexpr unsigned bytes = static_cast<unsigned>(sizeof(vector));
  using word = std::conditional_t<
      bytes % 16 == 0, uint4,
      std::conditional_t<bytes % 8 == 0, uint2,
                         std::conditional_t<bytes % 4 == 0, std::uint32_t, unsigned char>>>;
  static constexpr unsigned words = bytes / static_cast<unsigned>(sizeof(word));

  word* memory;  // of the block
  unsigned threads;
  unsigned thread;

  /// Stores the thread's k-th vector.
  WARPWRIGHT_HOST_DEVICE void put(unsigned k, row_values<R, V> const& x, Loaded const& r) const {
    void const* const source = of_values ? static_cast<void const*>(&x) : &r;
    word w[words];
    std::memcpy(w, source, bytes);
    WARPWRIGHT_UNROLL
    for (unsigned j = 0; j < words; ++j) memory[(k * words + j) * threads + thread] = w[j];
  }
  WARPWRIGHT_HOST_DEVICE void get(unsigned k, vector& destination) const {
    word w[words];
    WARPWRIGHT_UNROLL
    for (unsigned j = 0; j < words; ++j) w[j] = memory[(k * words + j) * threads + thread];
    std::memcpy(static_cast<void*>(&destination), w, bytes);
  }
  /// Begins to copy 16 bytes to the thread's k-th vector, where they are after wait(): more bytes
  /// are on their way than a thread has registers for.
  WARPWRIGHT_HOST_DEVICE void copy(unsigned k, void const* source) const {
    word* const to = memory + k * threads + thread;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    auto const address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address),
                 "l"(__cvta_generic_to_global(source))
                 : "memory");
#else
    std::memcpy(to, source, bytes);
#endif
  }
  /// Begins another group of copies.
  WARPWRIGHT_HOST_DEVICE static void commit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }
  /// Waits for all groups but the last `left`, or for some of these, too.
  WARPWRIGHT_HOST_DEVICE static void wait(unsigned left) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (left >= 12) {
      asm volatile("cp.async.wait_group 12;" ::: "memory");
    } else if (left >= 8) {
      asm volatile("cp.async.wait_group 8;" ::: "memory");
    } else if (left >= 4) {
      asm volatile("cp.async.wait_group 4;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
#else
    static_cast<void>(left);
#endif
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
