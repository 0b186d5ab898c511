// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Refuses operands that do not fit together; the error reports operand, reason and remedy.
#pragma once

#include <warpwright/core/error.hpp>
#include <warpwright/kernel/detail/plan/operand.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

using warpwright::detail::text;

[[noreturn]] WARPWRIGHT_COLD void refuse(text const& name, text const& problem,
                                         source_location where);

[[noreturn]] WARPWRIGHT_COLD void refuse_address(std::uint64_t address, unsigned alignment,
                                                 std::uint64_t elements, text const& name,
                                                 source_location where);

/// A number of elements; one from 2^63 on may have been negative before it was converted.
WARPWRIGHT_COLD text count_as_given(std::uint64_t count);

/// How far from an output's start an operand starts, in words.
WARPWRIGHT_COLD text start_relative_to(operand const& o, operand const& out);

/// What makes an operand, as errors and explain() name it: in, row, view, …
WARPWRIGHT_COLD char const* kind_name(operand const& o);

/// What an error calls operand `k`.
/// @param number  of the output, counted from 1; 0 where there is but one
WARPWRIGHT_COLD text operand_name(operand const* operands, int k, int number = 0);

/// Refuses a null pointer, and one that is no multiple of an element's alignment.
/// @param elements  that it must point to; 0: one, or the text needs no number
/// @param name      called for the text alone
template <class Name>
void check_address(std::uint64_t address, unsigned alignment, std::uint64_t elements,
                   Name const& name, source_location where) {
  if (address == 0 || address % alignment != 0) {
    refuse_address(address, alignment, elements, name(), where);
  }
}

/// Refuses operands that do not fit together.
/// @param operands  the output first, then the arrays of the expression from left to right
/// @throws std::invalid_argument  naming the operand, its shape and the remedy
void check_operands(operand const* operands, int count, source_location where);

/// Refuses assignments that cannot be one kernel.
/// @param operands  of each assignment the output, then its arrays
/// @param counts    the length of each assignment's part, `assignments` of them, 64 in all
/// @throws std::invalid_argument  as check_operands(); arrays are counted through all assignments
void check_assignments(operand const* operands, int const* counts, int assignments,
                       source_location where);

/// Refuses statistics that do not fit a matrix of n elements, or that overlap anything.
/// @param operands  of the outputs of the matrix's shape
void check_row_statistics(operand const* statistics, int count, operand const* operands, int arrays,
                          std::uint64_t rows, std::uint64_t n, source_location where);

}  // namespace ew::detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/kernel/detail/plan/operand_checks_definitions.hpp>
#endif
