// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A tune result as CSV, JSON or SVG text. The functions take a tune_result; they are templates, so
// that a file which only includes the header does not compile them.
#pragma once

#include <warpwright/tune/tune_result.hpp>

#include <string>

WARPWRIGHT_BEGIN

/// Formats the rows as CSV (RFC 4180, but lines end in "\n"): a header, then a line per size;
/// numbers in seconds, bytes, items and joules, flags as 0 or 1, text in quotes. The columns are
/// the members of tune_row, `chosen`, and the result's `source`, which is the same in all lines:
/// those of several results can be in one file. Empty: a figure that is not finite, and the
/// `compared_error` of a size that was not compared in turns. What else belongs to the result and
/// not to a size, such as its warnings, is in to_json().
///
/// @param result  the result of batch_tuner::tune()
/// @return the text; the caller writes the file
template <typename Result = tune_result>
std::string to_csv(Result const& result);

/// Formats the whole result as one JSON object (RFC 8259).
///
/// `chosen_batch` is null if no size is feasible; `latency_limit_seconds` and `memory_budget_bytes`
/// are null if they were not set; a figure that is not finite is null, as is the `compared_error`
/// of a size that was not compared in turns. `source` is to_string() of tune_result::source, and
/// `warnings` is a list of texts. Each of `rows` has the members of tune_row.
///
/// @param result  the result of batch_tuner::tune()
/// @return the text; the caller writes the file
template <typename Result = tune_result>
std::string to_json(Result const& result);

/// Draws the result as an SVG image: throughput, latency and memory, where they are known, over the
/// batch size, with intervals, the choice, the limits and the sizes that are not usable.
///
/// The image refers to no other file and runs no script: it can be embedded in HTML unchanged.
///
/// @param result  the result of batch_tuner::tune()
/// @param title  the heading, UTF-8, not escaped: to_svg() escapes it
/// @return the text; the caller writes the file
template <typename Result = tune_result>
WARPWRIGHT_COLD_ENTRY std::string to_svg(Result const& result,
                                         std::string const& title = "Batch size");

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/report/report_definitions.hpp>
#endif
