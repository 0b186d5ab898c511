// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What is decided on the host before a fused kernel is launched: whether the operands fit together,
// and how the elements are dealt out. Plain code over addresses and sizes; needs no GPU.
#pragma once

#include <warpwright/core/error.hpp>
#include <warpwright/kernel/detail/axes.hpp>

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
  view,      // ... with an element that strides lead to
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
  // Of a view, whose address is the lowest of its elements'. What turns out to be one array without
  // gaps is of the kind `elements`.
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

/// How a fused kernel deals out its elements: [0, head) and what is left behind the vectors go one
/// element a thread to a last block of their own, the rest as full vectors.
struct schedule {
  using place = std::uint64_t;
  std::uint64_t vectors = 0;
  std::uint64_t wide = 0;  ///< bit k: operand k is moved by vector accesses; bit 0 is the output
  unsigned head = 0;
  unsigned edge = 0;  ///< elements in no vector, head and tail together
  bool all_wide = false;
  bool singly = false;  ///< a vector is one element, as a strided output asks for
  bool usual = false;   ///< as usual_schedule has it
  bool spread = false;  ///< a thread takes one vector, though the types let it take more
  /// What usual_schedule needs, and in the highest bit whether it is spread; 0: not usual.
  [[nodiscard]] constexpr unsigned usual_vectors() const {
    return usual ? static_cast<unsigned>(vectors) | (spread ? spread_bit : 0U) : 0U;
  }
  static constexpr unsigned spread_bit = 1U << 31U;
};

/// The schedule of most launches, of which a kernel has to know less: all operands are wide, all
/// views narrow, no element is outside the vectors, and these are counted in 32 bits.
struct usual_schedule {
  using place = usual_place;
  static constexpr std::uint64_t wide = ~std::uint64_t{0};
  static constexpr unsigned head = 0;
  static constexpr bool all_wide = true;
  unsigned vectors;
};

/// A schedule and the grid to launch it on.
struct launch_plan {
  schedule deal;
  unsigned threads = 0;
  std::uint64_t blocks = 0;
};

/// The tiles of a kernel that has them, or the pixels, as explain.hpp tells of them.
struct tile_summary {
  std::uint64_t blocks = 0;  ///< 0: none
  unsigned threads = 0;
  unsigned pixels = 0;    ///< of a thread; 0: tiles
  unsigned channels = 0;  ///< of a pixel
  unsigned pitch = 0;     ///< elements of the view from one pixel to the next
  unsigned columns = 0;   ///< elements of one along the output's innermost dimension
  unsigned rows = 0;      ///< ... along that of the view
  int view = 0;           ///< the place of the view among the operands
  bool vectors = false;   ///< the output goes by vectors
  std::uint64_t wide = 0;
};

// Elements a vector, so that the widest contiguous operand is moved 16 bytes at a time (or 32, from
// compute capability 10.0 on) and the accesses of a warp to every operand are contiguous: full
// sectors in each request.
constexpr int vector_elements(int widest_bytes, int vector_bytes = 16) {
  return widest_bytes >= 16 ? 1 : vector_bytes / (widest_bytes > 0 ? widest_bytes : 1);
}

// Vectors a thread: 32 bytes of loads in flight for each thread keep 64 KiB in flight on an SM of
// 2,048 threads, past the 32 to 48 KiB which an H100 needs to saturate its memory.
constexpr int vectors_per_thread(int loaded_bytes_per_vector) {
  if (loaded_bytes_per_vector >= 32) return 1;
  return loaded_bytes_per_vector >= 16 || loaded_bytes_per_vector == 0 ? 2 : 4;
}

inline constexpr unsigned most_threads = 256;
inline constexpr unsigned fewest_threads = 32;  // every edge of 16-byte vectors: at most 2 * 15
inline constexpr std::uint64_t enough_blocks = 128;  // a block for nearly each SM of a large GPU

// Alignments, vectors and blocks are powers of two, and a launch is short enough for divisions to
// show.
constexpr std::uint64_t rest_of(std::uint64_t dividend, unsigned power_of_two) {
  return dividend & (power_of_two - 1U);
}
constexpr std::uint64_t quotient_up(std::uint64_t dividend, unsigned power_of_two) {
  auto const shift = static_cast<unsigned>(__builtin_ctz(power_of_two));
  return (dividend >> shift) + (rest_of(dividend, power_of_two) != 0 ? 1 : 0);
}

// Whether operand `o` can be moved by vectors that start at element `head`.
constexpr bool is_wide(operand const& o, unsigned head, unsigned vector) {
  switch (o.kind) {
    case reach::elements:
      return rest_of(o.address + std::uint64_t{head} * o.element_bytes, o.aligned_bytes) == 0;
    case reach::row:
      return head == 0 && rest_of(o.count, vector) == 0 && rest_of(o.address, o.aligned_bytes) == 0;
    case reach::column:
      return head == 0 && rest_of(o.count, vector) == 0;
    case reach::view:
      if (vector == 1) return true;
      if (head != 0 || o.vector_bytes == 0 || rest_of(o.run, vector) != 0) return false;
      return o.step == 0 || o.vector_bytes % o.aligned_bytes == 0;
    default:
      return true;
  }
}

constexpr void choose_grid(launch_plan& plan, unsigned vectors_a_thread) {
  plan.threads = most_threads;
  std::uint64_t const thread_count = quotient_up(plan.deal.vectors, vectors_a_thread);
  while (plan.threads > fewest_threads && thread_count <= plan.threads * (enough_blocks - 1)) {
    plan.threads /= 2;
  }
  plan.blocks = quotient_up(plan.deal.vectors, plan.threads * vectors_a_thread);
  if (plan.deal.edge != 0) ++plan.blocks;
}

/// Deals out `n` elements, at least one, of operands that are all moved by vectors from the first.
constexpr launch_plan make_usual_plan(std::uint64_t n, unsigned vector, unsigned vectors_a_thread) {
  launch_plan plan;
  plan.deal.wide = ~std::uint64_t{0};
  plan.deal.all_wide = true;
  plan.deal.edge = static_cast<unsigned>(rest_of(n, vector));
  plan.deal.vectors = (n - plan.deal.edge) / vector;
  plan.deal.usual = plan.deal.edge == 0 && plan.deal.vectors >> 31U == 0;
  choose_grid(plan, vectors_a_thread);
  return plan;
}

// Of 16 bytes each: more than the L2 cache holds.
inline constexpr std::uint64_t many_vectors = std::uint64_t{1} << 22U;

/// Gives each thread one vector where it has several of narrow loads and there are very many: then
/// nearly all traffic is stores, and those of a block have to lie close together (i8 to f32 at 2^28
/// on an H100: 1.5 % faster; at 2^22, back to back, 11 % slower).
/// @param many  the least number of vectors
constexpr void spread_out(launch_plan& plan, int vectors_a_thread,
                          std::uint64_t many = many_vectors) {
  if (vectors_a_thread <= 2 || !plan.deal.usual || plan.deal.vectors < many) return;
  plan.deal.spread = true;
  choose_grid(plan, 1);
}

/// Deals out `n` elements, at least one.
/// @param first  of the operands, a bit each: those that come before all others where not all can
///   be moved by vectors
WARPWRIGHT_NOINLINE constexpr launch_plan make_plan(operand const* operands, int count,
                                                    std::uint64_t n, unsigned vector,
                                                    unsigned vectors_a_thread,
                                                    std::uint64_t first = 0) {
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
      bool const streams = operands[k].kind == reach::elements ||
                           (operands[k].kind == reach::view && operands[k].step != 0);
      bytes += operands[k].element_bytes * (streams ? 256U : 1U);
    }
    if ((wide & first) == first) bytes += std::uint64_t{1} << 32U;
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
  std::uint64_t const tail = rest_of(n - plan.deal.head, vector);
  plan.deal.vectors = quotient_up(n - plan.deal.head - tail, vector);
  plan.deal.edge = plan.deal.head + static_cast<unsigned>(tail);

  choose_grid(plan, vectors_a_thread);
  plan.deal.usual = plan.deal.all_wide && plan.deal.edge == 0 && plan.deal.vectors >> 31U == 0;
  for (int k = 0; k < count; ++k) plan.deal.usual = plan.deal.usual && operands[k].narrow;
  return plan;
}

/// The operands of a kernel, wherever they are.
struct operand_list {
  operand const* each[64];  ///< set as far as there are operands
  constexpr operand const& operator[](int k) const { return *each[k]; }
};

constexpr void list_operands(operand_list& list, operand const* operands, int count) {
  for (int k = 0; k < count; ++k) list.each[k] = operands + k;
}

/// @param number  of the output, counted from 1; 0 where there is but one
WARPWRIGHT_COLD inline text name_of(operand_list const& operands, int k, int number) {
  char const* const names[] = {"in", "row", "col", "device_scalar", "philox offset", "view"};
  if (k == 0 && number != 0) return text{"output "} + number;
  if (k == 0) return operands[0].kind == reach::nothing ? "the reduction" : "the output";
  int place = 0;
  for (int before = 1; before <= k; ++before) place += operands[before].kind != reach::absent;
  char const* const name =
      operands[k].shaped ? "view" : names[static_cast<unsigned char>(operands[k].kind)];
  return text{"operand "} + place + " (" + name + ")";
}

WARPWRIGHT_COLD inline text name_of(operand const* operands, int k, int number = 0) {
  operand_list list;
  list_operands(list, operands, k + 1);
  return name_of(list, k, number);
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
    case reach::view:
      return o.span;
    default:
      return o.count * o.element_bytes;
  }
}

/// Whether element i of both lies at the same place, for every i, and is as large.
constexpr bool in_place(operand const& a, operand const& b) {
  bool const arrays = a.kind == reach::elements && b.kind != reach::view;
  bool const views = a.kind == reach::view && b.kind == reach::view && a.axes == b.axes;
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

/// Answers how many bytes the axes of operand `o` with strides below `shortest` reach; the others'
/// strides leave their greatest common divisor in `period`.
constexpr std::uint64_t bytes_within(operand const& o, std::uint64_t n, std::uint64_t shortest,
                                     std::uint64_t& period) {
  if (o.kind != reach::view) return span_bytes(o, n);
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

/// Whether two operands whose stretches of memory overlap take turns there, as slices of one array
/// do: both repeat with one period, and lie side by side in it. That is sufficient, not necessary.
constexpr bool side_by_side(operand const& a, operand const& b, std::uint64_t n) {
  for (operand const* of_view : {&a, &b}) {
    for (int k = 0; of_view->kind == reach::view && k < of_view->axes; ++k) {
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

constexpr bool overlap(operand const& a, operand const& b, std::uint64_t n) {
  return a.address < b.address + span_bytes(b, n) && b.address < a.address + span_bytes(a, n) &&
         !side_by_side(a, b, n);
}

/// Answers whether operand `o` is what most are: one array of n elements, apart from the output or
/// exactly in place of it. Whatever else is right takes check_operands() longer to see.
constexpr bool is_plainly_right(operand const& o, operand const& out, std::uint64_t out_end) {
  return o.kind == reach::elements && !o.shaped && o.count == out.count && o.address != 0 &&
         rest_of(o.address, o.natural_bytes) == 0 &&
         (o.address >= out_end || o.address + o.count * o.element_bytes <= out.address ||
          in_place(o, out));
}

constexpr bool lies_apart(operand const& o, operand const& out, std::uint64_t out_end) {
  return o.address >= out_end || o.address + o.count * o.element_bytes <= out.address;
}

/// Answers whether operand `o` is right beyond doubt, and moved by vectors from the first on.
constexpr bool is_usually_right(operand const& o, operand const& out, std::uint64_t out_end,
                                unsigned vector) {
  if (o.kind == reach::absent) return true;
  std::uint64_t const n = out.count;
  bool const aligned = o.address != 0 && rest_of(o.address, o.aligned_bytes) == 0;
  if (o.kind == reach::elements) {
    bool const in_place = o.address == out.address && o.element_bytes == out.element_bytes;
    return !o.shaped && o.count == n && aligned && (in_place || lies_apart(o, out, out_end));
  }
  if (o.kind == reach::single) return aligned && lies_apart(o, out, out_end);
  return o.kind == reach::row && o.count != 0 && n % o.count == 0 &&
         rest_of(o.count, vector) == 0 && aligned && lies_apart(o, out, out_end);
}

// How an operand may be the output, as a remedy.
inline char const* way_in_place(operand const& o, operand const& out) {
  if (out.kind == reach::view && (o.shaped || o.kind == reach::elements)) {
    return ", or exactly in place: view() and out() of the same strided array";
  }
  if (o.kind != reach::elements) return "";
  return o.shaped ? ", or exactly in place: in() with the output's own pointer"
                  : ", or exactly in place: in() and out() with the same pointer and element size";
}

// A number of elements, which no array has from 2^63 on: it may have been a negative one.
inline text as_given(std::uint64_t count) {
  if (count >> 63U == 0) return count;
  return text{count} + " (" + static_cast<long long>(count) + " if signed)";
}

/// Refuses operands that do not fit together.
/// @param operands  the output first, then the arrays of the expression from left to right
/// @param number    of the output, counted from 1; 0 where there is but one
/// @throws std::invalid_argument  naming the operand, its shape and the remedy
inline void check_operands(operand_list const& operands, int count, source_location where,
                           int number) {
  operand const& out = operands[0];
  std::uint64_t const n = out.count;
  bool const usual = n - 1 < std::uint64_t{1} << 59U;  // neither 0 nor too many
  std::uint64_t const out_end = out.address + span_bytes(out, n);
  for (int k = 0; k < count; ++k) {
    operand const& o = operands[k];
    if (o.kind == reach::absent || (usual && is_plainly_right(o, out, out_end))) continue;
    auto const name = [&] { return name_of(operands, k, number); };
    bool const repeats = o.kind == reach::row || o.kind == reach::column;
    if (o.shaped && o.count != n) {
      refuse(name(),
             text{"has a shape of "} + o.count + " elements, but " + name_of(operands, 0, number) +
                 " has " + n + "; give every view() the shape of " + name_of(operands, 0, number) +
                 ", with a stride of 0 along what repeats",
             where);
    }
    if (o.kind == reach::elements && o.count != n) {
      refuse(name(),
             text{"has "} + as_given(o.count) + " elements, but " + name_of(operands, 0, number) +
                 " has " + as_given(n) + "; give every in() as many as " +
                 name_of(operands, 0, number) + ", or repeat a shorter array with row() or col()",
             where);
    }
    if (n == 0) continue;
    if (n > std::uint64_t{1} << 59U) {
      refuse(name_of(operands, 0, number),
             text{"has "} + as_given(n) + " elements; an array has 0 to 2^59, counted in elements",
             where);
    }
    if (repeats && (o.count == 0 || n % o.count != 0)) {
      refuse(name(),
             text{"has cols = "} + as_given(o.count) + ", which does not divide " +
                 name_of(operands, 0, number) + "'s " + n +
                 " elements into whole rows; pass the length of one row",
             where);
    }
    if (o.kind == reach::nothing) continue;
    if (o.address == 0) {
      bool const one = o.kind == reach::single || o.kind == reach::offset;
      refuse(name(),
             one ? text{"is a null pointer; pass device memory"}
                 : text{"is a null pointer for "} + n + " elements; pass device memory",
             where);
    }
    if (rest_of(o.address, o.natural_bytes) != 0) {
      refuse(name(),
             text{"is at address "} + o.address + ", not a multiple of its element's " +
                 o.natural_bytes + " bytes; pass a pointer to whole elements of this type",
             where);
    }
    if (k == 0 || in_place(o, out)) continue;
    if (overlap(o, out, n)) {
      refuse(name(),
             text{"spans "} + span_bytes(o, n) + " bytes that overlap " +
                 name_of(operands, 0, number) + "'s " + span_bytes(out, n) + ", starting " +
                 where_it_starts(o, out) + "; write to another array" + way_in_place(o, out),
             where);
    }
  }
}

WARPWRIGHT_NOINLINE inline void check_operands(operand const* operands, int count,
                                               source_location where) {
  operand const& out = operands[0];
  bool right = out.count - 1 < std::uint64_t{1} << 59U;
  std::uint64_t const out_end = out.address + span_bytes(out, out.count);
  for (int k = 0; right && k < count; ++k) {
    right = operands[k].kind == reach::absent || is_plainly_right(operands[k], out, out_end);
  }
  if (right) return;
  operand_list list;
  list_operands(list, operands, count);
  check_operands(list, count, where, 0);
}

/// Refuses assignments that cannot be one kernel.
/// @param operands  of each assignment the output, then its arrays
/// @param counts    the length of each assignment's part, `assignments` of them, 64 in all
/// @throws std::invalid_argument  as check_operands(); arrays are counted through all assignments
WARPWRIGHT_NOINLINE inline void check_assignments(operand const* operands, int const* counts,
                                                  int assignments, source_location where) {
  if (assignments == 1) return check_operands(operands, counts[0], where);
  operand_list all;  // one output at a time, then the arrays of every assignment
  int count = 1;
  operand const* part = operands;
  for (int k = 0; k < assignments; part += counts[k], ++k) {
    for (int i = 1; i < counts[k]; ++i) all.each[count++] = part + i;
    operand const* other = operands;
    for (int j = 0; j < k; other += counts[j], ++j) {
      auto const name = [k] { return text{"output "} + (k + 1); };
      if (part->count != other->count) {
        refuse(name(),
               text{"has "} + as_given(part->count) + " elements, but output " + (j + 1) + " has " +
                   as_given(other->count) + "; tie() takes outputs of one size",
               where);
      }
      if (part->count != 0 && part->address != 0 && overlap(*part, *other, part->count)) {
        refuse(name(),
               text{"overlaps output "} + (j + 1) + ", starting " + where_it_starts(*part, *other) +
                   "; give each its own array",
               where);
      }
    }
  }
  part = operands;
  for (int k = 0; k < assignments; part += counts[k], ++k) {
    all.each[0] = part;
    check_operands(all, count, where, k + 1);
  }
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
