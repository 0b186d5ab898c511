// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/detail/plan/operand_checks.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

WARPWRIGHT_INLINE char const* kind_name(operand const& o) {
  char const* const names[] = {"in",   "row",  "col", "device_scalar", "philox offset",
                               "view", "table"};
  return o.shaped ? "view" : names[static_cast<unsigned char>(o.kind)];
}

// What an error calls an operand; the position is 0 for the output, else it counts the arrays.
WARPWRIGHT_COLD WARPWRIGHT_INLINE text name_at(operand const& o, int position, int number) {
  if (position != 0) return text{"operand "} + position + " (" + kind_name(o) + ")";
  if (number != 0) return text{"output "} + number;
  return o.kind == access_pattern::no_output ? "the reduction" : "the output";
}

WARPWRIGHT_INLINE text operand_name(operand const* operands, int k, int number) {
  int position = 0;
  for (int i = 1; i <= k; ++i) position += operands[i].kind != access_pattern::absent;
  return name_at(operands[k], position, number);
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

// Refuses an operand that does not fit the output; position and number are those of name_at().
WARPWRIGHT_INLINE void check_operand(operand const& out, operand const& o, int position, int number,
                                     source_location where) {
  if (o.kind == access_pattern::absent) return;
  std::uint64_t const n = out.count;
  auto const name = [&] { return name_at(o, position, number); };
  auto const output = [&] { return name_at(out, 0, number); };
  bool const repeats = o.kind == access_pattern::row || o.kind == access_pattern::column;
  if (o.shaped && o.count != n) {
    refuse(name(),
           text{"has a shape of "} + o.count + " elements, but " + output() + " has " + n +
               "; give every view() the shape of " + output() +
               ", with a stride of 0 along what repeats",
           where);
  }
  if (o.kind == access_pattern::elements && o.count != n) {
    refuse(name(),
           text{"has "} + count_as_given(o.count) + " elements, but " + output() + " has " +
               count_as_given(n) + "; give every in() as many as " + output() +
               ", or repeat a shorter array with row() or col()",
           where);
  }
  if (n == 0) return;
  if (n > max_elements) {
    refuse(
        output(),
        text{"has "} + count_as_given(n) + " elements; an array has 0 to 2^59, counted in elements",
        where);
  }
  if (repeats && (o.count == 0 || n % o.count != 0)) {
    refuse(name(),
           text{"has cols = "} + count_as_given(o.count) + ", which does not divide " + output() +
               "'s " + n + " elements into whole rows; pass the length of one row",
           where);
  }
  if (o.kind == access_pattern::no_output) return;
  bool const one = o.kind == access_pattern::single || o.kind == access_pattern::offset;
  check_address(o.address, o.natural_bytes, one ? 0 : n, name, where);
  if (position == 0 || in_place(o, out) || !overlap(o, out, n)) return;
  refuse(name(),
         text{"spans "} + span_bytes(o, n) + " bytes that overlap " + output() + "'s " +
             span_bytes(out, n) + ", starting " + start_relative_to(o, out) +
             "; write to another array" + in_place_remedy(o, out),
         where);
}

WARPWRIGHT_INLINE void check_operands(operand const* operands, int count, source_location where) {
  check_assignments(operands, &count, 1, where);
}

WARPWRIGHT_INLINE void check_assignments(operand const* operands, int const* counts,
                                         int assignments, source_location where) {
  operand const* part = operands;
  for (int k = 0; k < assignments; part += counts[k], ++k) {
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
  // Each output, then the arrays of every assignment beside it.
  operand const* out = operands;
  for (int k = 0; k < assignments; out += counts[k], ++k) {
    int const number = assignments == 1 ? 0 : k + 1;
    check_operand(*out, *out, 0, number, where);
    int position = 0;
    part = operands;
    for (int j = 0; j < assignments; part += counts[j], ++j) {
      for (int i = 1; i < counts[j]; ++i) {
        position += part[i].kind != access_pattern::absent;
        check_operand(*out, part[i], position, number, where);
      }
    }
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
