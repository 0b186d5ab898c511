// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the threads of a block keep a row that is too long for registers: in dynamic shared memory.
#pragma once

#include <warpwright/kernel/detail/rows/row_nodes.hpp>

#include <cstring>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// The vectors of one thread. No other thread accesses them, so that no synchronization is needed.
/// Words of neighbouring threads are neighbours: a warp's accesses have no bank conflicts.
/// @tparam Loaded  what a vector of V elements is loaded as
/// @tparam R       the type of a value
template <class Loaded, class R, int V>
struct row_cache {
  // Values are cached if they take no more bytes than what was loaded: then they are computed once.
  static constexpr bool of_values = V * sizeof(R) <= sizeof(Loaded);
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
    word w[words];
    if constexpr (of_values) {
      std::memcpy(w, &x, bytes);
    } else {
      std::memcpy(w, &r, bytes);
    }
    WARPWRIGHT_UNROLL
    for (unsigned j = 0; j < words; ++j) memory[(k * words + j) * threads + thread] = w[j];
  }
  WARPWRIGHT_HOST_DEVICE void get(unsigned k, vector& destination) const {
    word w[words];
    WARPWRIGHT_UNROLL
    for (unsigned j = 0; j < words; ++j) w[j] = memory[(k * words + j) * threads + thread];
    std::memcpy(static_cast<void*>(&destination), w, bytes);
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
