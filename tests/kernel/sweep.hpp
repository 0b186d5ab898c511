// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Sizes and offsets of tests. elementwise_sizes_test.cpp takes every number of elements up to
// 4,096; other tests take those around boundaries.
#pragma once

#include <vector>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace kernel_test {

using test_support::rounds;
using test_support::sanitized;

inline constexpr std::size_t most_size = sanitized ? 1100 : 4096;
inline constexpr std::size_t most_offset = 16;
inline constexpr std::size_t offset_step = sanitized ? 5 : 1;

// The size behind n: every one up to two warps and a bit, then those beside multiples of a warp's
// vectors, and one between them that is no multiple of anything.
constexpr std::size_t next_size(std::size_t n) {
  if (n < 70) return n + 1;
  std::size_t step = 128;
  while (step * 4 <= n) step *= 2;
  std::size_t const past = n % step;
  if (past == 0) return n + 1;
  if (past == 1) return n + 42;
  return past < step - 1 ? n - past + step - 1 : n + 1;
}

template <class T>
std::vector<T> first_of(std::vector<T> const& values, std::size_t n) {
  return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n)};
}

// Offsets for a size: all aligned, then equally misaligned, then random.
template <std::size_t Count>
struct some_offsets {
  std::size_t of[Count] = {};
  some_offsets(std::size_t n, random_numbers& random) {
    for (std::size_t& o : of) o = n % 3 == 0 ? 0 : random.below(most_offset);
    for (std::size_t& o : of) o = n % 3 == 1 ? of[0] : o;
  }
};

}  // namespace kernel_test
