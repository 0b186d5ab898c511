// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What is decided on the host before a fused kernel is launched: whether the operands fit together,
// and how the elements are dealt out. Plain code over addresses and sizes; needs no GPU.
#pragma once

#include <warpwright/core/error.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

using warpwright::detail::text;

enum class reach : unsigned char {
  elements,  // element i of the output goes with element i
  row,       // ... with element i % cols
  column,    // ... with element i / cols
  single,    // one element for all
  offset,    // ... of a random sequence
  absent,    // no array after all
  nothing    // no memory: stands for the output where a reduction has none
};

/// One array of an expression, in the order in which it is written; the output is the first.
struct operand {
  reach kind = reach::elements;
  unsigned element_bytes = 0;
  unsigned aligned_bytes = 0;  ///< what a vector access of it needs; see lanes
  unsigned natural_bytes = 0;  ///< alignment of one element
  std::uint64_t address = 0;
  std::uint64_t count = 0;  ///< elements; for row and column the length of a row
};

/// How a fused kernel deals out its elements: [0, head) and what is left behind the vectors go one
/// element a thread to a last block of their own, the rest as full vectors.
struct schedule {
  std::uint64_t vectors = 0;
  std::uint64_t wide = 0;  ///< bit k: operand k is moved by vector accesses; bit 0 is the output
  unsigned head = 0;
  unsigned edge = 0;  ///< elements in no vector, head and tail together
  bool all_wide = false;
};

/// A schedule and the grid to launch it on.
struct launch_plan {
  schedule deal;
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

inline constexpr unsigned most_threads = 256;
inline constexpr unsigned fewest_threads = 32;  // holds every edge: at most 2 * (16 - 1) elements
inline constexpr std::uint64_t enough_blocks = 128;  // a block for nearly each SM of a large GPU

// Whether operand `o` can be moved by vectors that start at element `head`.
constexpr bool is_wide(operand const& o, unsigned head, unsigned vector) {
  switch (o.kind) {
    case reach::elements:
      return (o.address + std::uint64_t{head} * o.element_bytes) % o.aligned_bytes == 0;
    case reach::row:
      return head == 0 && o.count % vector == 0 && o.address % o.aligned_bytes == 0;
    case reach::column:
      return head == 0 && o.count % vector == 0;
    default:
      return true;
  }
}

/// Deals out `n` elements, at least one.
constexpr launch_plan make_plan(operand const* operands, int count, std::uint64_t n,
                                unsigned vector, unsigned vectors_a_thread) {
  launch_plan plan;
  // Peel the head that lets the most bytes move by vectors; the other operands are narrowed alone.
  std::uint64_t best = 0;
  for (unsigned head = 0; head < vector; ++head) {
    std::uint64_t wide = 0;
    std::uint64_t bytes = 0;
    for (int k = 0; k < count; ++k) {
      if (!is_wide(operands[k], head, vector)) continue;
      wide |= std::uint64_t{1} << static_cast<unsigned>(k);
      // What repeats comes from a cache: it decides only between heads that are as good otherwise.
      bytes += operands[k].element_bytes * (operands[k].kind == reach::elements ? 256U : 1U);
    }
    if (head == 0 || bytes > best) {
      best = bytes;
      plan.deal.head = head;
      plan.deal.wide = wide;
    }
    std::uint64_t const all = ~std::uint64_t{0} >> (64U - static_cast<unsigned>(count));
    plan.deal.all_wide = plan.deal.wide == all;
    if (plan.deal.all_wide) break;
  }
  if (plan.deal.head > n) plan.deal.head = static_cast<unsigned>(n);
  plan.deal.vectors = (n - plan.deal.head) / vector;
  plan.deal.edge = static_cast<unsigned>(n - plan.deal.vectors * vector);

  plan.threads = most_threads;
  std::uint64_t const thread_count =
      plan.deal.vectors / vectors_a_thread + (plan.deal.vectors % vectors_a_thread != 0 ? 1 : 0);
  while (plan.threads > fewest_threads && thread_count <= plan.threads * (enough_blocks - 1)) {
    plan.threads /= 2;
  }
  std::uint64_t const a_block = std::uint64_t{plan.threads} * vectors_a_thread;
  plan.blocks = plan.deal.vectors / a_block + (plan.deal.vectors % a_block != 0 ? 1 : 0);
  if (plan.deal.edge != 0) ++plan.blocks;
  return plan;
}

/// @param number  of the output, counted from 1; 0 where there is but one
WARPWRIGHT_COLD inline text name_of(operand const* operands, int k, int number = 0) {
  char const* const names[] = {"in", "row", "col", "device_scalar", "philox offset"};
  if (k == 0 && number != 0) return text{"output "} + number;
  if (k == 0) return operands[0].kind == reach::nothing ? "the reduction" : "the output";
  int place = 0;
  for (int before = 1; before <= k; ++before) place += operands[before].kind != reach::absent;
  return text{"operand "} + place + " (" + names[static_cast<unsigned char>(operands[k].kind)] +
         ")";
}

[[noreturn]] WARPWRIGHT_COLD inline void refuse(text const& name, text const& problem,
                                                source_location where) {
  warpwright::detail::throw_invalid_argument(text{"ew: "} + name + " " + problem, where);
}

WARPWRIGHT_COLD inline text where_it_starts(operand const& o, operand const& out) {
  return o.address < out.address ? text{out.address - o.address} + " bytes before it"
                                 : text{o.address - out.address} + " bytes into it";
}

/// Answers the number of bytes that operand k spans beside an output of n elements.
constexpr std::uint64_t span_bytes(operand const& o, std::uint64_t n) {
  switch (o.kind) {
    case reach::column:
      return n / o.count * o.element_bytes;
    case reach::single:
      return o.element_bytes;
    case reach::nothing:
      return 0;
    default:
      return o.count * o.element_bytes;
  }
}

constexpr bool overlap(operand const& a, operand const& b, std::uint64_t n) {
  return a.address < b.address + span_bytes(b, n) && b.address < a.address + span_bytes(a, n);
}

/// Refuses operands that do not fit together.
/// @param operands  the output first, then the arrays of the expression from left to right
/// @param number    of the output, counted from 1; 0 where there is but one
/// @throws std::invalid_argument  naming the operand, its shape and the remedy
inline void check_operands(operand const* operands, int count, source_location where,
                           int number = 0) {
  operand const& out = operands[0];
  std::uint64_t const n = out.count;
  for (int k = 0; k < count; ++k) {
    operand const& o = operands[k];
    if (o.kind == reach::absent) continue;
    auto const name = [&] { return name_of(operands, k, number); };
    bool const repeats = o.kind == reach::row || o.kind == reach::column;
    if (o.kind == reach::elements && o.count != n) {
      refuse(name(),
             text{"has "} + o.count + " elements, but " + name_of(operands, 0, number) + " has " +
                 n + "; give every in() as many as " + name_of(operands, 0, number) +
                 ", or repeat a shorter array with row() or col()",
             where);
    }
    if (n == 0) continue;
    if (n > std::uint64_t{1} << 59U) {
      refuse(name_of(operands, 0, number), text{"has "} + n + " elements, more than 2^59", where);
    }
    if (repeats && (o.count == 0 || n % o.count != 0)) {
      refuse(name(),
             text{"has cols = "} + o.count + ", which does not divide " +
                 name_of(operands, 0, number) + "'s " + n +
                 " elements into whole rows; pass the length of one row",
             where);
    }
    if (o.kind == reach::nothing) continue;
    if (o.address == 0) {
      refuse(name(), text{"is a null pointer for "} + n + " elements; pass device memory", where);
    }
    if (o.address % o.natural_bytes != 0) {
      refuse(name(),
             text{"is at address "} + o.address + ", not a multiple of its element's " +
                 o.natural_bytes + " bytes; pass a pointer to whole elements of this type",
             where);
    }
    bool const in_place = o.kind == reach::elements && o.address == out.address &&
                          o.element_bytes == out.element_bytes;
    if (k == 0 || in_place) continue;
    if (overlap(o, out, n)) {
      refuse(name(),
             text{"spans "} + span_bytes(o, n) + " bytes that overlap " +
                 name_of(operands, 0, number) + "'s " + span_bytes(out, n) + ", starting " +
                 where_it_starts(o, out) +
                 "; write to another array, or exactly in place: in() and out() with the same "
                 "pointer and element size",
             where);
    }
  }
}

/// Refuses assignments that cannot be one kernel.
/// @param operands  of each assignment the output, then its arrays
/// @param counts    the length of each assignment's part, `assignments` of them, 64 in all
/// @throws std::invalid_argument  as check_operands(); arrays are counted through all assignments
inline void check_assignments(operand const* operands, int const* counts, int assignments,
                              source_location where) {
  if (assignments == 1) return check_operands(operands, counts[0], where);
  operand all[64];  // one output at a time, then the arrays of every assignment
  int count = 1;
  operand const* part = operands;
  for (int k = 0; k < assignments; part += counts[k], ++k) {
    for (int i = 1; i < counts[k]; ++i) all[count++] = part[i];
    operand const* other = operands;
    for (int j = 0; j < k; other += counts[j], ++j) {
      text const name = text{"output "} + (k + 1);
      if (part->count != other->count) {
        refuse(name,
               text{"has "} + part->count + " elements, but output " + (j + 1) + " has " +
                   other->count + "; tie() takes outputs of one size",
               where);
      }
      if (part->count != 0 && part->address != 0 && overlap(*part, *other, part->count)) {
        refuse(name,
               text{"overlaps output "} + (j + 1) + ", starting " + where_it_starts(*part, *other) +
                   "; give each its own array",
               where);
      }
    }
  }
  part = operands;
  for (int k = 0; k < assignments; part += counts[k], ++k) {
    all[0] = *part;
    check_operands(all, count, where, k + 1);
  }
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
