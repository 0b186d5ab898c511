// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/file.hpp>
#include <warpwright/memory/detail/trace/trace_ring.hpp>

#include <cstdio>

WARPWRIGHT_BEGIN

namespace detail {

/// Writes recorded calls as a CSV, which warpwright_replay reads.
/// @throws std::runtime_error  when the file cannot be written
WARPWRIGHT_COLD void write_trace_csv(std::FILE* file, array<trace_event> const& events,
                                     std::uint64_t lost, source_location where,
                                     file_operations const& operations = stdio_operations);
/// Writes recorded calls as a pickle of the dictionary of torch.cuda.memory._snapshot().
/// @throws std::runtime_error  when the file cannot be written
WARPWRIGHT_COLD void write_trace_snapshot(std::FILE* file, array<trace_event> const& events,
                                          int device, source_location where,
                                          file_operations const& operations = stdio_operations);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/trace/trace_writers_definitions.hpp>
#endif
