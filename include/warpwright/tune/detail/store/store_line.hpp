// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A record of a tuning_store as one line of text:
//
//   warpwright_tuning=1<tab>kind=batch<tab>tag=…<tab> … <tab>date=2026-11-23T20:44:07Z
//
// All fields (line_fields.hpp) are present and in this order. The date is the last one and has a
// fixed form, so that a line which was cut off anywhere is recognised.
#pragma once

#include <warpwright/core/detail/text/line_fields.hpp>
#include <warpwright/tune/detail/store/tuning_record.hpp>

#include <cstddef>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

inline constexpr std::size_t max_line_bytes = std::size_t{64} << 10;

/// The start of the lines that find() looks at: all but memory and versions must be equal.
std::string encode_key_start(tuning_key const& key);
/// The start of the line that put() replaces: the whole key.
std::string encode_key(tuning_key const& key);
/// The line of a valid record, without a newline.
std::string encode_record(tuning_record const& record);
/// Checks what every line of a record has: its start, its end and its length.
line_problem check_line(line_part line) noexcept;
bool is_field_name(line_part name) noexcept;
/// Reads what encode_record() wrote, and nothing else.
/// @param record  its values are unspecified if there is a problem
line_problem decode_record(line_part line, tuning_record& record);

}  // namespace detail

WARPWRIGHT_END
