// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/detail/plan/operand_checks.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

/// The operands of a kernel, which need not follow each other in memory.
struct operand_list {
  operand const* each[64];  ///< set as far as there are operands
  constexpr operand const& operator[](int k) const { return *each[k]; }
};

constexpr void list_operands(operand_list& list, operand const* operands, int count) {
  for (int k = 0; k < count; ++k) list.each[k] = operands + k;
}

WARPWRIGHT_INLINE char const* kind_name(operand const& o) {
  char const* const names[] = {"in",   "row",  "col", "device_scalar", "philox offset",
                               "view", "table"};
  return o.shaped ? "view" : names[static_cast<unsigned char>(o.kind)];
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE text operand_name(operand_list const& operands, int k,
                                                    int number) {
  if (k == 0 && number != 0) return text{"output "} + number;
  if (k == 0) return operands[0].kind == access_pattern::no_output ? "the reduction" : "the output";
  int position = 0;
  for (int before = 1; before <= k; ++before)
    position += operands[before].kind != access_pattern::absent;
  return text{"operand "} + position + " (" + kind_name(operands[k]) + ")";
}

WARPWRIGHT_INLINE text operand_name(operand const* operands, int k, int number) {
  operand_list list;
  list_operands(list, operands, k + 1);
  return operand_name(list, k, number);
}

WARPWRIGHT_INLINE void refuse(text const& name, text const& problem, source_location where) {
  warpwright::detail::throw_invalid_argument(text{"ew: "} + name + " " + problem, where);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE text start_relative_to(operand const& o, operand const& out) {
  return o.address < out.address ? text{out.address - o.address} + " bytes before it"
                                 : text{o.address - out.address} + " bytes into it";
}

// How an operand may be the output, as a remedy.
WARPWRIGHT_INLINE char const* in_place_remedy(operand const& o, operand const& out) {
  if (out.kind == access_pattern::view && (o.shaped || o.kind == access_pattern::elements)) {
    return ", or exactly in place: view() and out() of the same strided array";
  }
  if (o.kind != access_pattern::elements || out.kind == access_pattern::table) return "";
  return o.shaped ? ", or exactly in place: in() with the output's own pointer"
                  : ", or exactly in place: in() and out() with the same pointer and element size";
}

WARPWRIGHT_INLINE text count_as_given(std::uint64_t count) {
  if (count >> 63U == 0) return count;
  return text{count} + " (" + static_cast<long long>(count) + " if signed)";
}

WARPWRIGHT_INLINE void refuse_address(std::uint64_t address, unsigned alignment,
                                      std::uint64_t elements, text const& name,
                                      source_location where) {
  if (address == 0) {
    refuse(name,
           elements == 0
               ? text{"is a null pointer; pass device memory"}
               : text{"is a null pointer for "} + elements + " elements; pass device memory",
           where);
  }
  refuse(name,
         text{"is at address "} + address + ", not a multiple of its element's " + alignment +
             " bytes; pass a pointer to whole elements of this type",
         where);
}

// `number` is that of the output, counted from 1; 0 where there is but one.
WARPWRIGHT_INLINE void check_operands(operand_list const& operands, int count,
                                      source_location where, int number) {
  operand const& out = operands[0];
  std::uint64_t const n = out.count;
  for (int k = 0; k < count; ++k) {
    operand const& o = operands[k];
    if (o.kind == access_pattern::absent) continue;
    auto const name = [&] { return operand_name(operands, k, number); };
    bool const repeats = o.kind == access_pattern::row || o.kind == access_pattern::column;
    if (o.shaped && o.count != n) {
      refuse(name(),
             text{"has a shape of "} + o.count + " elements, but " +
                 operand_name(operands, 0, number) + " has " + n +
                 "; give every view() the shape of " + operand_name(operands, 0, number) +
                 ", with a stride of 0 along what repeats",
             where);
    }
    if (o.kind == access_pattern::elements && o.count != n) {
      refuse(name(),
             text{"has "} + count_as_given(o.count) + " elements, but " +
                 operand_name(operands, 0, number) + " has " + count_as_given(n) +
                 "; give every in() as many as " + operand_name(operands, 0, number) +
                 ", or repeat a shorter array with row() or col()",
             where);
    }
    if (n == 0) continue;
    if (n > max_elements) {
      refuse(operand_name(operands, 0, number),
             text{"has "} + count_as_given(n) +
                 " elements; an array has 0 to 2^59, counted in elements",
             where);
    }
    if (repeats && (o.count == 0 || n % o.count != 0)) {
      refuse(name(),
             text{"has cols = "} + count_as_given(o.count) + ", which does not divide " +
                 operand_name(operands, 0, number) + "'s " + n +
                 " elements into whole rows; pass the length of one row",
             where);
    }
    if (o.kind == access_pattern::no_output) continue;
    bool const one = o.kind == access_pattern::single || o.kind == access_pattern::offset;
    check_address(o.address, o.natural_bytes, one ? 0 : n, name, where);
    if (k == 0 || in_place(o, out)) continue;
    if (overlap(o, out, n)) {
      refuse(name(),
             text{"spans "} + span_bytes(o, n) + " bytes that overlap " +
                 operand_name(operands, 0, number) + "'s " + span_bytes(out, n) + ", starting " +
                 start_relative_to(o, out) + "; write to another array" + in_place_remedy(o, out),
             where);
    }
  }
}

WARPWRIGHT_INLINE void check_operands(operand const* operands, int count, source_location where) {
  operand_list list;
  list_operands(list, operands, count);
  check_operands(list, count, where, 0);
}

WARPWRIGHT_INLINE void check_assignments(operand const* operands, int const* counts,
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
               text{"has "} + count_as_given(part->count) + " elements, but output " + (j + 1) +
                   " has " + count_as_given(other->count) + "; tie() takes outputs of one size",
               where);
      }
      if (part->count != 0 && part->address != 0 && overlap(*part, *other, part->count)) {
        refuse(name(),
               text{"overlaps output "} + (j + 1) + ", starting " +
                   start_relative_to(*part, *other) + "; give each its own array",
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

WARPWRIGHT_INLINE void check_row_statistics(operand const* statistics, int count,
                                            operand const* operands, int arrays, std::uint64_t rows,
                                            std::uint64_t n, source_location where) {
  for (int k = 0; k < count; ++k) {
    operand const& o = statistics[k];
    auto const name = [k] { return text{"statistic "} + (k + 1); };
    if (o.count != rows) {
      refuse(name(),
             text{"goes to "} + count_as_given(o.count) + " elements, but rows = " + rows +
                 "; give it an out() of one element a row",
             where);
    }
    if (n == 0) continue;
    check_address(o.address, o.natural_bytes, o.count, name, where);
    for (int j = 0; j < arrays; ++j) {
      operand const& a = operands[j];
      if (a.kind != access_pattern::absent && overlap(bytes_of(a, n), bytes_of(o, n))) {
        refuse(name(), "overlaps an array of the matrix; pass other memory", where);
      }
    }
    for (int j = 0; j < k; ++j) {
      if (overlap(bytes_of(statistics[j], n), bytes_of(o, n))) {
        refuse(name(), text{"overlaps statistic "} + (j + 1) + "; give each its own memory", where);
      }
    }
  }
}

}  // namespace ew::detail

WARPWRIGHT_END
