// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a thread keeps of a row too long for registers, from when it reads it to when it gives
// results: in a block's shared memory, and on the host in as much of the stack.
#pragma once

#include <warpwright/kernel/detail/row_nodes.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// The places of one thread. Nobody else uses them, so that there is nothing to wait for; its
/// neighbours' lie beside them, so that a warp meets every bank alike.
/// @tparam Loaded  what a vector of V elements is loaded as
/// @tparam R       the type of a value
template <class Loaded, class R, int V>
struct row_hold {
  // The values where they are no more bytes: they need not be computed again.
  static constexpr bool of_values = V * sizeof(R) <= sizeof(Loaded);
  using vector = std::conditional_t<of_values, row_lanes<R, V>, Loaded>;
  static constexpr unsigned bytes = static_cast<unsigned>(sizeof(vector));
  using word = std::conditional_t<
      bytes % 16 == 0, uint4,
      std::conditional_t<bytes % 8 == 0, uint2,
                         std::conditional_t<bytes % 4 == 0, std::uint32_t, unsigned char>>>;
  static constexpr unsigned words = bytes / static_cast<unsigned>(sizeof(word));

  word* memory;  // of all threads
  unsigned threads;
  unsigned thread;

  /// Keeps the thread's k-th vector.
  WARPWRIGHT_HOST_DEVICE void put(unsigned k, vector const& what) const {
    word w[words];
    std::memcpy(w, &what, bytes);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned j = 0; j < words; ++j) memory[(k * words + j) * threads + thread] = w[j];
  }
  WARPWRIGHT_HOST_DEVICE void get(unsigned k, vector& what) const {
    word w[words];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (unsigned j = 0; j < words; ++j) w[j] = memory[(k * words + j) * threads + thread];
    std::memcpy(static_cast<void*>(&what), w, bytes);
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
