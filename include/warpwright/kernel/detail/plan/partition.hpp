// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How the elements of a kernel are divided among vectors, threads and blocks: decided on the host
// from addresses and sizes. Needs no GPU.
#pragma once

#include <warpwright/kernel/detail/plan/operand.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

/// The work of an elementwise kernel or a reduction: full vectors, and the elements before the
/// first (`head`) and behind the last, which go one a thread to a block of their own.
struct vector_partition {
  using index = std::uint64_t;
  std::uint64_t vectors = 0;
  std::uint64_t wide = 0;  ///< bit k: operand k is moved by vectors; bit 0 is the output
  unsigned head = 0;
  unsigned edge = 0;         ///< elements in no vector, head and tail together
  bool all_wide = false;     ///< every operand is moved by vectors
  bool scalar_only = false;  ///< a vector is one element, as a strided output needs it
  bool fast_path = false;    ///< a fast_partition suffices
  /// The vectors of the fast_partition; 0: not on the fast path.
  [[nodiscard]] constexpr unsigned fast_path_vectors() const {
    return fast_path ? static_cast<unsigned>(vectors) : 0;
  }
};

/// The partition of most launches: all operands are moved by vectors, all views are narrow, no
/// element is outside the vectors, and 31 bits count these. A kernel needs only their number.
struct fast_partition {
  using index = fast_index;
  static constexpr std::uint64_t wide = all_wide_bits;
  static constexpr unsigned head = 0;
  static constexpr bool all_wide = true;
  unsigned vectors;
};

/// A partition and the grid to launch it on.
struct launch_plan {
  vector_partition partition;
  unsigned threads = 0;
  std::uint64_t blocks = 0;
};

// Elements a vector, so that the widest contiguous operand is moved 16 bytes at a time and the
// accesses of a warp to every operand are contiguous: full sectors in each request.
constexpr int vector_elements(int widest_bytes) {
  return widest_bytes >= 16 ? 1 : 16 / (widest_bytes > 0 ? widest_bytes : 1);
}

// Vectors a thread: 32 bytes of loads in flight for each thread keep 64 KiB in flight on an SM of
// 2,048 threads, past the 32 to 48 KiB which an H100 needs to saturate its memory.
constexpr int vectors_per_thread(int loaded_bytes_per_vector) {
  if (loaded_bytes_per_vector >= 32) return 1;
  return loaded_bytes_per_vector >= 16 || loaded_bytes_per_vector == 0 ? 2 : 4;
}

inline constexpr unsigned max_block_threads = 256;
inline constexpr unsigned min_block_threads = 32;    // one for each edge element: at most 2 * 15
inline constexpr std::uint64_t target_blocks = 128;  // nearly one for each SM of a large GPU

constexpr void choose_grid(launch_plan& plan, unsigned per_thread) {
  plan.threads = max_block_threads;
  std::uint64_t const thread_count = quotient_up(plan.partition.vectors, per_thread);
  while (plan.threads > min_block_threads && thread_count <= plan.threads * (target_blocks - 1)) {
    plan.threads /= 2;
  }
  plan.blocks = quotient_up(plan.partition.vectors, plan.threads * per_thread);
  if (plan.partition.edge != 0) ++plan.blocks;
}

/// Partitions `n` elements, at least one, of operands that are all moved by vectors from element 0.
constexpr launch_plan make_fast_path_plan(std::uint64_t n, unsigned vector, unsigned per_thread) {
  launch_plan plan;
  plan.partition.wide = ~std::uint64_t{0};
  plan.partition.all_wide = true;
  plan.partition.edge = static_cast<unsigned>(rest_of(n, vector));
  plan.partition.vectors = quotient_up(n - plan.partition.edge, vector);
  plan.partition.fast_path = plan.partition.edge == 0 && plan.partition.vectors >> 31U == 0;
  choose_grid(plan, per_thread);
  return plan;
}

/// Partitions `n` elements, at least one.
/// @param first  of the operands, a bit each: those that come before all others where not all can
///   be moved by vectors
WARPWRIGHT_NOINLINE constexpr launch_plan make_plan(operand const* operands, int count,
                                                    std::uint64_t n, unsigned vector,
                                                    unsigned per_thread, std::uint64_t first = 0) {
  launch_plan plan;
  vector_partition& p = plan.partition;
  std::uint64_t const all = bits_of_operands(count);
  // Peels the head that maximises the bytes moved by vectors; other operands are moved by elements.
  std::uint64_t best = 0;
  for (unsigned head = 0; head < vector; ++head) {
    std::uint64_t const wide = wide_operands(operands, count, head, vector);
    std::uint64_t bytes = (wide & first) == first ? std::uint64_t{1} << 32U : 0;
    for (int k = 0; k < count; ++k) {
      if ((wide >> static_cast<unsigned>(k) & 1U) == 0) continue;
      // What repeats comes from a cache: it decides only between heads that are otherwise equal.
      bool const streams = operands[k].kind == access_pattern::elements ||
                           operands[k].kind == access_pattern::table ||
                           (operands[k].kind == access_pattern::view && operands[k].step != 0);
      bytes += operands[k].element_bytes * (streams ? 256U : 1U);
    }
    if (head == 0 || bytes > best) {
      best = bytes;
      p.head = head;
      p.wide = wide;
    }
    if (p.wide == all) break;
  }
  p.all_wide = p.wide == all;
  if (p.head > n) p.head = static_cast<unsigned>(n);
  std::uint64_t const tail = rest_of(n - p.head, vector);
  p.vectors = quotient_up(n - p.head - tail, vector);
  p.edge = p.head + static_cast<unsigned>(tail);
  choose_grid(plan, per_thread);

  p.fast_path = p.all_wide && p.edge == 0 && p.vectors >> 31U == 0;
  for (int k = 0; k < count; ++k) p.fast_path = p.fast_path && operands[k].narrow;
  return plan;
}

}  // namespace ew::detail

WARPWRIGHT_END
