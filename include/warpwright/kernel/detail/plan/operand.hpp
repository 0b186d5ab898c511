// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An operand: one array of a kernel as the host plans with it. Every kernel of kernel/ describes
// its arrays so: elementwise ones, reductions, functions of rows, updates of tensors.
#pragma once

#include <warpwright/kernel/detail/plan/axes.hpp>

#include <cstdint>
#include <initializer_list>

WARPWRIGHT_BEGIN

namespace ew::detail {

/// Which element of an operand goes with element i of the output.
enum class access_pattern : unsigned char {
  elements,  // i
  row,       // i % cols
  column,    // i / cols
  single,    // one for all
  offset,    // one for all: the offset of a random sequence
  view,      // that which the strides of a view lead to
  table,     // that which an index in memory leads to
  absent,    // none: the operand has no array
  no_output  // none: stands for the output of a reduction
};

/// One array, as the types of an expression and its pointers tell.
struct array_operand {
  access_pattern kind = access_pattern::elements;
  unsigned element_bytes = 0;
  unsigned aligned_bytes = 0;  ///< alignment that a vector access needs; see packed_vector
  unsigned natural_bytes = 0;  ///< alignment of one element
  std::uint64_t address = 0;
  std::uint64_t count = 0;  ///< elements; for row and column the length of a row
  std::uint64_t table = 0;  ///< elements of a table, of which an output's count are written
  std::uint64_t cols = 0;   ///< of a table whose rows have indices: their length
};

/// One array, or a view. In a list of operands each output comes first, and its arrays follow in
/// the order in which the expression names them.
struct operand : array_operand {
  constexpr operand() = default;
  constexpr operand(array_operand const& array) : array_operand(array) {}

  // Of a view, whose address is the lowest of its elements'. One that is contiguous after merging
  // its axes is of the kind `elements`.
  bool shaped = false;        ///< an operand written as a view
  bool narrow = true;         ///< its indices and offsets take 31 bits
  std::uint64_t span = 0;     ///< bytes from its first to behind its last
  std::uint64_t touched = 0;  ///< bytes of its elements, those that repeat counted once
  std::int64_t step = 0;      ///< elements from one to the next along the innermost dimension
  std::uint64_t run = 0;      ///< the length of that
  unsigned vector_bytes = 0;  ///< divides starts and lengths of its runs; 0: it has none
  axis const* of = nullptr;   ///< its dimensions, innermost first
  int axes = 0;
};

inline constexpr std::uint64_t max_elements = std::uint64_t{1} << 59U;

// Bits of vector_partition::wide and the like: bit k says that operand k is moved by vectors.
inline constexpr std::uint64_t all_wide_bits = ~std::uint64_t{0};
template <int Operand>
WARPWRIGHT_HOST_DEVICE constexpr bool is_wide_operand(std::uint64_t wide) {
  return (wide >> static_cast<unsigned>(Operand) & 1U) != 0;
}

// Alignments, vectors and blocks are powers of two; the divisions of a launch are measurable.
constexpr std::uint64_t rest_of(std::uint64_t dividend, unsigned power_of_two) {
  return dividend & (power_of_two - 1U);
}
constexpr std::uint64_t quotient_up(std::uint64_t dividend, unsigned power_of_two) {
  auto const shift = static_cast<unsigned>(__builtin_ctz(power_of_two));
  return (dividend >> shift) + (rest_of(dividend, power_of_two) != 0 ? 1 : 0);
}

// The same for any divisor.
constexpr std::uint64_t divide_up(std::uint64_t dividend, std::uint64_t divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

// Whether operand `o` can be moved by vectors, the first of which starts at element `head`.
constexpr bool is_wide(operand const& o, unsigned head, unsigned vector) {
  switch (o.kind) {
    case access_pattern::elements:
      return rest_of(o.address + std::uint64_t{head} * o.element_bytes, o.aligned_bytes) == 0;
    case access_pattern::row:
      return head == 0 && rest_of(o.count, vector) == 0 && rest_of(o.address, o.aligned_bytes) == 0;
    case access_pattern::column:
      return head == 0 && rest_of(o.count, vector) == 0;
    case access_pattern::view:
      if (vector == 1) return true;
      if (head != 0 || o.vector_bytes == 0 || rest_of(o.run, vector) != 0) return false;
      return o.step == 0 || o.vector_bytes % o.aligned_bytes == 0;
    case access_pattern::table:
      if (o.cols == 0) return true;
      return head == 0 && rest_of(o.cols, vector) == 0 && rest_of(o.address, o.aligned_bytes) == 0;
    case access_pattern::single:
    case access_pattern::offset:
    case access_pattern::absent:
    case access_pattern::no_output:
      break;
  }
  return true;
}

/// The operands that can be moved by vectors, a bit each.
constexpr std::uint64_t wide_operands(operand const* operands, int count, unsigned head,
                                      unsigned vector) {
  std::uint64_t wide = 0;
  for (int k = 0; k < count; ++k) {
    if (is_wide(operands[k], head, vector)) wide |= std::uint64_t{1} << static_cast<unsigned>(k);
  }
  return wide;
}
constexpr std::uint64_t bits_of_operands(int count) {
  return all_wide_bits >> (64U - static_cast<unsigned>(count));
}

/// The number of bytes that operand `o` spans beside an output of n elements.
constexpr std::uint64_t span_bytes(operand const& o, std::uint64_t n) {
  switch (o.kind) {
    case access_pattern::column:
      return n / o.count * o.element_bytes;
    case access_pattern::single:
      return o.element_bytes;
    case access_pattern::no_output:
      return 0;
    case access_pattern::view:
      return o.span;
    case access_pattern::table:
      return o.table * o.element_bytes;
    case access_pattern::elements:
    case access_pattern::row:
    case access_pattern::offset:
    case access_pattern::absent:
      break;
  }
  return o.count * o.element_bytes;
}

/// Whether element i of both lies at the same place, for every i, and is as large.
constexpr bool in_place(operand const& a, operand const& b) {
  bool const arrays = a.kind == access_pattern::elements && b.kind == access_pattern::elements;
  bool const views =
      a.kind == access_pattern::view && b.kind == access_pattern::view && a.axes == b.axes;
  if (a.address != b.address || a.element_bytes != b.element_bytes) return false;
  for (int k = 0; views && k < a.axes; ++k) {
    if (a.of[k].extent != b.of[k].extent || a.of[k].stride != b.of[k].stride) return false;
  }
  return arrays || views;
}

constexpr std::uint64_t stride_bytes(operand const& o, axis const& along) {
  if (along.extent <= 1) return 0;
  return static_cast<std::uint64_t>(along.stride < 0 ? -along.stride : along.stride) *
         o.element_bytes;
}

/// How many bytes the axes of operand `o` with strides below `shortest` span; the others'
/// strides leave their greatest common divisor in `period`.
constexpr std::uint64_t bytes_within(operand const& o, std::uint64_t n, std::uint64_t shortest,
                                     std::uint64_t& period) {
  if (o.kind != access_pattern::view) return span_bytes(o, n);
  std::uint64_t bytes = o.element_bytes;
  for (int k = 0; k < o.axes; ++k) {
    std::uint64_t stride = stride_bytes(o, o.of[k]);
    if (stride < shortest) {
      bytes += (o.of[k].extent - 1) * stride;
      continue;
    }
    while (stride != 0) {
      std::uint64_t const rest = period % stride;
      period = stride;
      stride = rest;
    }
  }
  return bytes;
}

/// Whether two operands whose ranges of memory overlap alternate within one period, as slices of
/// one array do: both repeat with it, and lie side by side in it. That is sufficient, not
/// necessary.
constexpr bool side_by_side(operand const& a, operand const& b, std::uint64_t n) {
  for (operand const* of_view : {&a, &b}) {
    for (int k = 0; of_view->kind == access_pattern::view && k < of_view->axes; ++k) {
      std::uint64_t const shortest = stride_bytes(*of_view, of_view->of[k]);
      if (shortest == 0) continue;
      std::uint64_t period = 0;
      std::uint64_t const a_bytes = bytes_within(a, n, shortest, period);
      std::uint64_t const b_bytes = bytes_within(b, n, shortest, period);
      std::uint64_t const b_from_a = (b.address % period + period - a.address % period) % period;
      if (a_bytes <= b_from_a && b_bytes <= period - b_from_a) return true;
    }
  }
  return false;
}

/// A stretch of memory.
struct byte_range {
  std::uint64_t begin;
  std::uint64_t end;
};
constexpr bool overlap(byte_range const& a, byte_range const& b) {
  return a.begin < b.end && b.begin < a.end;
}

/// What operand `o` spans beside an output of n elements.
constexpr byte_range bytes_of(operand const& o, std::uint64_t n) {
  return {o.address, o.address + span_bytes(o, n)};
}
constexpr bool overlap(operand const& a, operand const& b, std::uint64_t n) {
  return overlap(bytes_of(a, n), bytes_of(b, n)) && !side_by_side(a, b, n);
}

}  // namespace ew::detail

WARPWRIGHT_END
